"""PDLP as HiGHS has it (hipdlp), child by child."""

import highspy

from breakeven.baselines.lp._highs import Children, bounded, model, nothing_yet, on_cpu, until_accurate
from breakeven.contract import adapter
from breakeven.problems.lp import LPBatch, LPSolution


@adapter(
    title="PDLP (HiPDLP in HiGHS)",
    packages=("highspy",),
)
def solve(problem: LPBatch, *, tolerance: float = 1e-4, iteration_limit: int = 100_000) -> LPSolution:
    """Solve every child with presolve, divided evenly among torch's threads.

    HiGHS takes no point for this method to start from. Of a child that it calls infeasible the simplex method makes the proof,
    as HiGHS does when it is asked for one.

    Known to iterate to its limit on most infeasible LPs.
    The contract's small problems do not show it; `docs/LP.md` does.

    Args:
        problem: m rows, n columns, B children, on the CPU.
        tolerance: of HiGHS's KKT tests; a child whose point misses it on the problem itself is solved again at a tenth.
        iteration_limit: per solve; beyond it a child's status is ``LIMIT``.

    Returns:
        float64 throughout; ``dual_bound`` is what y proves (`safe_dual_bound`).
    """
    on_cpu(problem, "the PDLP of HiGHS")
    solution, parent = nothing_yet(problem), model(problem)

    def solve_some(share: list[int], asked: float) -> list[int]:
        options = {"solver": "hipdlp", "kkt_tolerance": asked, "pdlp_iteration_limit": iteration_limit}
        children = Children(problem, parent, options)
        said = {child: children.run(child, solution) for child in share}
        return [child for child in share if said[child] == highspy.HighsModelStatus.kUnknown]

    until_accurate(problem, tolerance, solution, solve_some)
    return bounded(problem, solution)
