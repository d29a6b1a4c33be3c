"""Strong branching by the dual simplex method of HiGHS, started from the parent's basis for every child."""

import math
from concurrent.futures import ThreadPoolExecutor

import highspy
import numpy as np
import torch

from breakeven.contract import Unsupported, adapter
from breakeven.problems.lp import INFEASIBLE, LIMIT, OPTIMAL, PROOF_MARGIN, UNBOUNDED, LPBatch, LPSolution
from breakeven.problems.lp import farkas_margin, safe_dual_bound

STATUS = {
    highspy.HighsModelStatus.kOptimal: OPTIMAL,
    highspy.HighsModelStatus.kInfeasible: INFEASIBLE,
    highspy.HighsModelStatus.kUnbounded: UNBOUNDED,
}
"""What HiGHS says in our words; all else is LIMIT."""

PRICING = {"devex": 1, "steepest_edge": 2}

# Measured on 14 instances, 16 to 24 children each, milliseconds per child: no cost perturbation saves 72 % on 10teams,
# 30 % on danoint and costs nowhere (a few pivots from an optimal basis are over before cycling is a danger); no scaling
# saves 0-15 %. Reusing the previous child's basis costs up to five times as much.
WARM = {"dual_simplex_cost_perturbation_multiplier": 0.0, "simplex_scale_strategy": 0}


@adapter(
    title="Dual simplex (HiGHS)",
    paper="Huangfu and Hall, Math. Program. Comput. 10, 2018",
    packages=("highspy",),
    variants={"steepest_edge": {"pricing": "steepest_edge"}},
)
def solve(problem: LPBatch, *, tolerance: float = 1e-4, pricing: str = "devex") -> LPSolution:
    """Solve every child to a vertex; the children are divided evenly among torch's threads.

    Args:
        problem: m rows, n columns, B children, on the CPU.
        tolerance: of feasibility; above 1e-7, the default of HiGHS, it saves nothing, and 1e-7 is used.
        pricing: ``devex`` is the faster one where rows are many, since a new basis costs steepest edge a solve per row
            (seymour, 4944 rows: 31 against 42 ms); ``steepest_edge`` where they are few (air05, 426 rows: 22 against 17 ms).

    Returns:
        float64; ``dual_bound`` is what y proves (`safe_dual_bound`), or -inf.
    """
    if problem.matrix.device.type != "cpu":
        raise Unsupported("HiGHS runs simplex on the CPU only")
    if pricing not in PRICING:
        raise Unsupported(f"pricing {pricing!r}; there are {', '.join(PRICING)}")
    tolerances = {
        name: min(1e-7, max(tolerance, 1e-10))
        for name in ("primal_feasibility_tolerance", "dual_feasibility_tolerance")
    }
    children = _Children(problem)
    warm = WARM | {"simplex_dual_edge_weight_strategy": PRICING[pricing]} | tolerances
    chunks = [chunk for chunk in torch.arange(children.count).tensor_split(torch.get_num_threads()) if len(chunk)]
    with ThreadPoolExecutor(len(chunks)) as pool:  # HiGHS releases the interpreter's lock while it runs
        list(pool.map(lambda chunk: children.solve(chunk.tolist(), warm, start=children.basis), chunks))
    solution, doubtful = children.judged()
    if doubtful:
        children.solve(doubtful, tolerances, start=None)
        solution, doubtful = children.judged()
        solution.status[doubtful] = LIMIT
    return solution


class _Children:
    """The children's results, column by column as they come."""

    def __init__(self, problem: LPBatch):
        rows, columns = problem.matrix.shape
        self.problem, self.count = problem, problem.branch_variable.shape[0]
        self.x, self.y = np.zeros((self.count, columns)), np.zeros((self.count, rows))
        self.objective = np.zeros(self.count)
        self.status = np.full(self.count, LIMIT, dtype=np.int8)
        self.iterations = np.zeros(self.count, dtype=np.int64)
        lp = self.lp = highspy.HighsLp()
        lp.num_row_, lp.num_col_, lp.offset_ = rows, columns, problem.offset
        matrix = lp.a_matrix_
        matrix.num_row_, matrix.num_col_, matrix.format_ = rows, columns, highspy.MatrixFormat.kRowwise
        matrix.start_, matrix.index_ = problem.matrix.crow_indices().numpy(), problem.matrix.col_indices().numpy()
        matrix.value_ = problem.matrix.values().double().numpy()
        lp.col_cost_, lp.col_lower_, lp.col_upper_, lp.row_lower_, lp.row_upper_ = (
            part.double().numpy()
            for part in (problem.objective, problem.lower, problem.upper, problem.row_lower, problem.row_upper)
        )
        codes = [highspy.HighsBasisStatus(code) for code in range(5)]
        self.basis = highspy.HighsBasis()
        self.basis.col_status = [codes[code] for code in problem.parent_column_basis.tolist()]
        self.basis.row_status = [codes[code] for code in problem.parent_row_basis.tolist()]
        self.basis.valid = True

    def solve(self, chosen: list[int], options: dict, start: highspy.HighsBasis | None) -> None:
        """Solve some children with one solver, each from the basis ``start``, or from slacks."""
        problem = self.problem
        # The public class installs callbacks into Python, and prints a banner as it does.
        solver = highspy._core._Highs()
        fixed = {"output_flag": False, "threads": 1, "solver": "simplex", "presolve": "off"}
        for name, value in {**fixed, **options}.items():
            solver.setOptionValue(name, value)
        solver.passModel(self.lp)
        variables, lowers, uppers = (
            values.tolist() for values in (problem.branch_variable, problem.branch_lower, problem.branch_upper)
        )
        parent_lower, parent_upper = (
            problem.lower[problem.branch_variable].tolist(),
            problem.upper[problem.branch_variable].tolist(),
        )
        for child in chosen:
            if lowers[child] > uppers[child]:
                self.status[child] = INFEASIBLE
                continue
            solver.changeColBounds(variables[child], lowers[child], uppers[child])
            if start is None:
                solver.clearSolver()
            else:
                solver.setBasis(start)
            solver.run()
            self._take(solver, child)
            solver.changeColBounds(variables[child], parent_lower[child], parent_upper[child])

    def _take(self, solver, child: int) -> None:
        status = self.status[child] = STATUS.get(solver.getModelStatus(), LIMIT)
        self.iterations[child] += max(0, solver.getInfoValue("simplex_iteration_count")[1])
        if status == OPTIMAL:
            found = solver.getSolution()
            self.x[child] = np.fromiter(found.col_value, np.float64, self.x.shape[1])
            self.y[child] = np.fromiter(found.row_dual, np.float64, self.y.shape[1])
            self.objective[child] = solver.getInfoValue("objective_function_value")[1]
        elif status == INFEASIBLE:
            _, known, ray = solver.getDualRay()
            self.y[child] = ray if known else 0
        elif status == UNBOUNDED:
            _, known, ray = solver.getPrimalRay()
            self.x[child] = ray if known else 0

    def judged(self) -> tuple[LPSolution, list[int]]:
        """The solution, and the children that cannot be right as they are.

        Warm starts of HiGHS have given wrong objectives (ERGO-Code/HiGHS#3294): an objective must be what y proves,
        where y proves anything, and an infeasible child needs its proof.
        """
        y, status = torch.from_numpy(self.y).T, torch.from_numpy(self.status)
        objective = torch.from_numpy(self.objective)
        bound = safe_dual_bound(self.problem, y)
        doubtful = (status == OPTIMAL) & bound.isfinite() & ((objective - bound).abs() > 1e-5 * (1 + objective.abs()))
        doubtful |= status == LIMIT
        infeasible = status == INFEASIBLE
        if infeasible.any():
            doubtful |= infeasible & (farkas_margin(self.problem, y) <= PROOF_MARGIN)
        bound[infeasible] = math.inf
        bound[(status == UNBOUNDED) | (status == LIMIT)] = -math.inf
        solution = LPSolution(torch.from_numpy(self.x).T, y, status, bound, torch.from_numpy(self.iterations))
        return solution, doubtful.nonzero().flatten().tolist()
