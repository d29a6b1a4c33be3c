"""PDLP as HiGHS has it (hipdlp), child by child."""

from breakeven.baselines.lp._highs import solve_by_pdlp
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
    return solve_by_pdlp(problem, "hipdlp", tolerance, iteration_limit)
