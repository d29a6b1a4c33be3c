"""The simplex method of HiGHS, started from the parent's basis for every child."""

import highspy
import torch

from breakeven.baselines.lp._highs import Children, bounded, in_shares, model, nothing_yet, on_cpu
from breakeven.contract import Unsupported, adapter
from breakeven.problems import lp
from breakeven.problems.lp import LPBatch, LPSolution

PRICING = {"devex": 1, "steepest_edge": 2}
DUAL, PRIMAL = 1, 4

# Chosen on 14 instances by the time per child: without cost perturbation 10teams takes 72 % less and danoint 30 %, and
# nothing takes longer (a few pivots from a dual feasible basis are over before cycling is a danger); without scaling it
# is 0 to 15 % less. Going on from the last child's basis instead of the parent's costs up to five times as much.
# Where objectives change (seven instances), the primal method takes 14 to 87 % of the dual one's time. From the parent's
# basis it is mostly the fastest too (qiu 19 ms, from the last child's 24); where hardly a pivot is to be made, going on
# from the last child saves the set-up (misc03 0.7 ms against 1.2), but then a child would depend on its batch.
WARM_START = {"dual_simplex_cost_perturbation_multiplier": 0.0, "simplex_scale_strategy": 0}


@adapter(
    title="Simplex (HiGHS)",
    paper="Huangfu and Hall, Math. Program. Comput. 10, 2018",
    packages=("highspy",),
    variants={"steepest_edge": {"pricing": "steepest_edge"}},
)
def solve(problem: LPBatch, *, tolerance: float = 1e-4, pricing: str = "devex") -> LPSolution:
    """Solve every child to a vertex; the children are divided evenly among torch's threads.

    Children that change bounds go on from the parent's basis by the dual method, for which it stays feasible; those that
    change the objective alone by the primal one. Where the parent's optimum is not known, each is presolved and solved from
    slacks. A child that may not be right as it is (see `_doubtful`) is solved
    again, from slacks and with the default settings; what comes out of that stands.

    Args:
        problem: m rows, n columns, B children, on the CPU.
        tolerance: of feasibility. Above 1e-7, the default of HiGHS, it saves no time, and 1e-7 is used.
        pricing: ``devex``, or ``steepest_edge``, which must solve once per row before it starts from a basis: it is
            slower where rows are many (seymour, 4944 rows: 42 ms against 31), faster where few (air05, 426: 17 against 22).
            Of the dual method alone.

    Returns:
        float64 throughout; ``dual_bound`` is what y proves (`safe_dual_bound`).
    """
    on_cpu(problem, "the simplex method of HiGHS")
    if pricing not in PRICING:
        raise Unsupported(f"pricing {pricing!r} is none of {', '.join(PRICING)}")
    accuracy = min(1e-7, max(tolerance, 1e-10))
    options = {"solver": "simplex", "primal_feasibility_tolerance": accuracy, "dual_feasibility_tolerance": accuracy}
    solution, parent = nothing_yet(problem), model(problem)
    in_shares(
        range(len(problem.branch_variable)), lambda share: _solve(problem, parent, share, options, pricing, solution)
    )
    proven = lp.safe_dual_bound(problem, solution.y)
    if doubtful := _doubtful(problem, solution, proven):
        plain = {**options, "presolve": "off"}
        in_shares(doubtful, lambda share: _solve_cold(problem, parent, share, plain, solution))
    return bounded(problem, solution)


def _solve(problem, parent, share: list[int], options: dict, pricing: str, solution: LPSolution) -> None:
    if problem.starts_from_slacks:
        return _solve_cold(problem, parent, share, options, solution)
    primal = problem.child_objective is not None and problem.child_row_lower is None
    warm = {"simplex_strategy": PRIMAL if primal else DUAL, "simplex_dual_edge_weight_strategy": PRICING[pricing]}
    children = Children(problem, parent, {**options, "presolve": "off", **WARM_START, **warm})
    basis = _parent_basis(problem)
    for child in share:
        children.solver.setBasis(basis)
        children.run(child, solution, cold=False)
    return None


def _solve_cold(problem, parent, share: list[int], options: dict, solution: LPSolution) -> None:
    """Solve some children from slacks, each by itself."""
    children = Children(problem, parent, options)
    for child in share:
        children.run(child, solution)


def _doubtful(problem: LPBatch, solution: LPSolution, proven: torch.Tensor) -> list[int]:
    """The children without an end, or whose y does not prove what is said; ``proven`` are the bounds that it proves.

    Warm starts of HiGHS have given wrong objectives (ERGO-Code/HiGHS#3294).
    """
    optimal, infeasible = solution.status == lp.OPTIMAL, solution.status == lp.INFEASIBLE
    objective = solution.dual_bound
    doubtful = optimal & proven.isfinite() & ((objective - proven).abs() > 1e-5 * (1 + objective.abs()))
    doubtful |= solution.status == lp.LIMIT
    if infeasible.any():
        few = problem.children(infeasible)
        doubtful[infeasible] = lp.farkas_margin(few, solution.y[:, infeasible]) <= lp.PROOF_MARGIN
    return doubtful.nonzero().flatten().tolist()


def _parent_basis(problem: LPBatch) -> highspy.HighsBasis:
    codes = [highspy.HighsBasisStatus(code) for code in range(5)]
    basis = highspy.HighsBasis()
    basis.col_status = [codes[code] for code in problem.parent_column_basis.tolist()]
    basis.row_status = [codes[code] for code in problem.parent_row_basis.tolist()]
    basis.valid = True
    return basis
