"""The interior point methods of HiGHS, for every child anew: a point inside has no use as a start."""

from breakeven.baselines.lp._highs import Children, bounded, model, nothing_yet, on_cpu, until_accurate
from breakeven.contract import Unsupported, adapter
from breakeven.problems import lp
from breakeven.problems.lp import LPBatch, LPSolution

SOLVERS = ("ipx", "hipo")


@adapter(
    title="Interior point (HiGHS IPX)",
    paper="Schork and Gondzio, Math. Program. Comput. 12, 2020",
    packages=("highspy",),
    variants={"hipo": {"solver": "hipo"}},
)
def solve(problem: LPBatch, *, tolerance: float = 1e-4, solver: str = "ipx") -> LPSolution:
    """Solve every child with presolve and, at first, without crossover, divided evenly among torch's threads.

    Of an infeasible child the simplex method makes the proof, as HiGHS does when it is asked for one.

    Args:
        problem: m rows, n columns, B children, on the CPU.
        tolerance: of HiGHS's KKT tests; a child whose point misses it on the problem itself is solved again at a tenth, and
            then at a hundredth with crossover.
        solver: ``ipx``, or ``hipo`` where this HiGHS has it.

    Returns:
        float64 throughout; ``dual_bound`` is what y proves (`safe_dual_bound`).
    """
    on_cpu(problem, "the interior point method of HiGHS")
    if solver not in SOLVERS:
        raise Unsupported(f"solver {solver!r} is none of {', '.join(SOLVERS)}")
    solution, parent = nothing_yet(problem), model(problem)

    def solve_some(share: list[int], asked: float) -> list[int]:
        crossover = "off" if asked > 0.05 * tolerance else "on"  # as a last resort, on the way to a vertex
        children = Children(problem, parent, {"solver": solver, "run_crossover": crossover, "kkt_tolerance": asked})
        if children.refused:
            raise Unsupported(f"this HiGHS is built without {solver}")
        for child in share:
            children.run(child, solution)
        return [child for child in share if solution.status[child] == lp.LIMIT]

    until_accurate(problem, tolerance, solution, solve_some)
    return bounded(problem, solution)
