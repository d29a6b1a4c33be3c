"""PDLP as OR-Tools has it, child by child from the parent's optimum."""

import numpy as np
import scipy.sparse
from ortools.pdlp import solve_log_pb2, solvers_pb2
from ortools.pdlp.python import pdlp

from breakeven.baselines.lp._highs import bounded, nothing_yet, on_cpu, until_accurate
from breakeven.contract import adapter
from breakeven.problems import lp
from breakeven.problems.lp import LPBatch, LPSolution

REASONS = {
    solve_log_pb2.TERMINATION_REASON_OPTIMAL: lp.OPTIMAL,
    solve_log_pb2.TERMINATION_REASON_PRIMAL_INFEASIBLE: lp.INFEASIBLE,
    solve_log_pb2.TERMINATION_REASON_DUAL_INFEASIBLE: lp.UNBOUNDED,
}
"""What PDLP says, in our words; all else is LIMIT. Dual infeasible is no more than "not both feasible and bounded"."""


@adapter(
    title="PDLP (OR-Tools)",
    paper="arXiv:2106.04756",
    packages=("ortools",),
)
def solve(problem: LPBatch, *, tolerance: float = 1e-4, iteration_limit: int = 100_000) -> LPSolution:
    """Solve every child to a relative KKT error of ``tolerance`` in the 2-norm, divided evenly among torch's threads.

    Known to call some LPs unbounded that are not (google/or-tools#3956), and some infeasible without a proof.
    The contract's small problems do not show it; `docs/LP.md` does.

    Args:
        problem: m rows, n columns, B children, on the CPU.
        tolerance: absolute and relative, in the 2-norm, which is what is judged.
        iteration_limit: per solve; beyond it a child's status is ``LIMIT``.

    Returns:
        float64 throughout; ``dual_bound`` is what y proves (`safe_dual_bound`).
    """
    on_cpu(problem, "the PDLP of OR-Tools")
    solution = nothing_yet(problem)
    matrix = problem.matrix
    whole = scipy.sparse.csr_matrix(
        (matrix.values().double().numpy(), matrix.col_indices().numpy(), matrix.crow_indices().numpy()),
        shape=matrix.shape,
    )
    variable = problem.branch_variable.tolist()
    lower, upper, branch_lower, branch_upper = (
        getattr(problem, name).double().numpy() for name in ("lower", "upper", "branch_lower", "branch_upper")
    )
    x, y, status, iterations = (
        solution.x.numpy(),
        solution.y.numpy(),
        solution.status.numpy(),
        solution.iterations.numpy(),
    )

    def of_child(name: str, child: int) -> np.ndarray:
        own = getattr(problem, f"child_{name}")
        return (getattr(problem, name) if own is None else own[:, child]).double().numpy()

    def solve_some(share: list[int], asked: float) -> list[int]:
        program = pdlp.QuadraticProgram()
        program.resize_and_initialize(matrix.shape[1], matrix.shape[0])
        program.constraint_matrix = whole
        program.objective_offset = problem.offset
        parameters = _parameters(asked, iteration_limit)
        start = None
        if not problem.starts_from_slacks:
            start = pdlp.PrimalAndDualSolution()
            start.primal_solution = problem.parent_x.double().numpy()
            start.dual_solution = problem.parent_y.double().numpy()
        for child in share:
            j = variable[child]
            if branch_lower[child] > branch_upper[child]:
                status[child] = lp.INFEASIBLE
                continue
            own_lower, own_upper = lower.copy(), upper.copy()
            own_lower[j], own_upper[j] = branch_lower[child], branch_upper[child]
            program.variable_lower_bounds, program.variable_upper_bounds = own_lower, own_upper
            program.objective_vector = of_child("objective", child)
            program.constraint_lower_bounds = of_child("row_lower", child)
            program.constraint_upper_bounds = of_child("row_upper", child)
            found = pdlp.primal_dual_hybrid_gradient(program, parameters, start)
            status[child] = REASONS.get(found.solve_log.termination_reason, lp.LIMIT)
            iterations[child] += found.solve_log.iteration_count
            point, duals = np.asarray(found.primal_solution), np.asarray(found.dual_solution)
            if status[child] != lp.INFEASIBLE and np.isfinite(point).all():
                x[:, child] = point
            if status[child] != lp.UNBOUNDED and np.isfinite(duals).all():
                y[:, child] = duals
        return []

    until_accurate(problem, tolerance, solution, solve_some)
    return bounded(problem, solution)


def _parameters(tolerance: float, iteration_limit: int) -> solvers_pb2.PrimalDualHybridGradientParams:
    parameters = solvers_pb2.PrimalDualHybridGradientParams()
    parameters.num_threads = 1
    ends = parameters.termination_criteria
    ends.iteration_limit = iteration_limit
    ends.optimality_norm = solvers_pb2.OPTIMALITY_NORM_L2
    ends.simple_optimality_criteria.eps_optimal_absolute = tolerance
    ends.simple_optimality_criteria.eps_optimal_relative = tolerance
    return parameters
