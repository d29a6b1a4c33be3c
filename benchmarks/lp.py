"""The contests of linear programming, and the sizes that they sweep.

Every question is asked at 1e-4, which is what a branch-and-bound code can use of a bound, and at 1e-6.
"""

import dataclasses

from breakeven.contract import Contest, Floor
from breakeven.sweep import Grid, Sweep

LIMITS = {"relative_kkt": 1e-4, "bound_violation": 1e-6, "status_errors": 0}
OF_A_FILE = (1, 4, 16, 64, 256)
FLOOR = Floor(
    "the matrix is read once, in float64 with indices of 32 bits, and a solution written for every LP",
    bytes=lambda of: 12 * of["nonzeros"] + 8 * of["children"] * of["columns"],
)


def _precise(contest: Contest) -> Contest:
    """The same question at 1e-6."""
    return dataclasses.replace(
        contest,
        name=f"{contest.name}_precise",
        question=f"{contest.question.removesuffix('?')}, to an accuracy of 1e-6?",
        subject_to={**contest.subject_to, "relative_kkt": 1e-6},
        given={"tolerance": 1e-6},
    )


class StrongBranching(Sweep):
    """Two child LPs for each fractional variable of a root LP, all at once: what a branch-and-bound node asks."""

    contest = Contest(
        track="lp",
        name="strong_branching",
        question="How fast are the child LPs of a branch-and-bound node solved?",
        problem="LPBatch",
        axes=("nonzeros", "batch"),
        subject_to=LIMITS,
        given={"tolerance": 1e-4},
        baseline="simplex",
        floor=FLOOR,
    )
    quick = (
        Grid("miplib", instance=("10teams",), batch=(1, 16, 64)),
        Grid("miplib", instance=("qiu",), batch=(16,)),
        Grid("set_cover", rows=(100, 400), batch=(16,)),
        Grid("facility_location", customers=(25, 100), batch=(16,)),
    )
    # Batches go as far as each instance has children, or as its slower side is bearable.
    full = (
        Grid("miplib", instance=("10teams", "seymour"), batch=(1, 4, 16, 64, 256)),
        Grid("miplib", instance=("qiu", "danoint", "set1ch", "gesa2", "mkc"), batch=(1, 4, 16, 64)),
        Grid("miplib", instance=("misc03", "p0201", "khb05250", "air05"), batch=(1, 4, 16)),
        Grid("set_cover", rows=(100, 200, 400, 800), batch=(1, 16), seeds=(0, 2, 3)),
        Grid("facility_location", customers=(25, 50, 100), batch=(1, 16), seeds=(0, 3, 4)),
        Grid("combinatorial_auction", items=(50, 100, 200, 400), batch=(1, 16), seeds=(0, 1, 2)),
        Grid("independent_set", nodes=(200, 400, 800), batch=(1, 16), seeds=(0, 2, 4)),
        Grid("generalized_assignment", jobs=(60, 120, 240, 480), batch=(1, 16), seeds=(0, 1, 2)),
        Grid("axial_assignment", size=(8, 12, 16, 20), batch=(1, 16), seeds=(0, 1, 4)),
        Grid("multicommodity_flow", nodes=(10, 20, 30), batch=(1, 16), seeds=(0, 1, 2)),
    )
    of_a_file = {"batch": OF_A_FILE}  # noqa: RUF012 - read by the base class, never changed


class StrongBranchingPrecise(StrongBranching):
    """The same children, as accurate as a node LP would have to be."""

    contest = _precise(StrongBranching.contest)
    quick = (Grid("miplib", instance=("10teams",), batch=(16,)),)


class BoundTightening(Sweep):
    """How small and how large each variable can be, where the objective is no worse than a cutoff: two LPs for each."""

    contest = Contest(
        track="lp",
        name="bound_tightening",
        question="How fast are the ranges of variables found that a cutoff leaves them?",
        problem="LPBatch",
        axes=("columns", "nonzeros", "batch"),
        subject_to=LIMITS,
        given={"tolerance": 1e-4},
        baseline="simplex",
        floor=FLOOR,
    )
    quick = (
        Grid("miplib", instance=("qiu",), question=("tightening",), batch=(16,)),
        Grid("set_cover", rows=(50, 100), question=("tightening",), batch=(16,)),
    )
    full = (
        Grid(
            "miplib", instance=("10teams", "qiu", "danoint", "gesa2"), question=("tightening",), batch=(4, 16, 64, 256)
        ),
        Grid("miplib", instance=("misc03", "p0201", "air05"), question=("tightening",), batch=(4, 16, 64)),
        Grid("set_cover", rows=(50, 100, 200, 400), question=("tightening",), batch=(16, 64), seeds=(0, 1, 2)),
        Grid("facility_location", customers=(25, 50, 100), question=("tightening",), batch=(16, 64), seeds=(0, 1)),
        Grid("axial_assignment", size=(8, 12, 16), question=("tightening",), batch=(16, 64), seeds=(0, 1)),
        Grid("multicommodity_flow", nodes=(10, 20), question=("tightening",), batch=(16, 64), seeds=(0, 1)),
        Grid("netlib", instance=("degen2", "25fv47", "stocfor1"), question=("tightening",), batch=(16, 64)),
    )
    of_a_file = {"batch": OF_A_FILE, "question": ("tightening",)}  # noqa: RUF012


class BoundTighteningPrecise(BoundTightening):
    """The same ranges to six digits."""

    contest = _precise(BoundTightening.contest)
    quick = (Grid("set_cover", rows=(50,), question=("tightening",), batch=(16,)),)


class Single(Sweep):
    """One LP without anything to start from; how that grows with its size."""

    contest = Contest(
        track="lp",
        name="single",
        question="How fast is one LP solved, at so many nonzeros?",
        problem="LPBatch",
        axes=("nonzeros",),
        subject_to=LIMITS,
        given={"tolerance": 1e-4},
        baseline="simplex",
        floor=FLOOR,
    )
    quick = (
        Grid("set_cover", rows=(100, 400), question=("single",), batch=(1,)),
        Grid("netlib", instance=("afiro", "sc105"), batch=(1,)),
    )
    full = (
        Grid("set_cover", rows=(100, 200, 400, 800, 1600), question=("single",), batch=(1,), seeds=(0, 1, 2)),
        Grid("facility_location", customers=(25, 50, 100, 200), question=("single",), batch=(1,), seeds=(0, 1, 2)),
        Grid("combinatorial_auction", items=(50, 100, 200, 400, 800), question=("single",), batch=(1,), seeds=(0, 1, 2)),
        Grid("independent_set", nodes=(200, 400, 800, 1600), question=("single",), batch=(1,), seeds=(0, 1, 2)),
        Grid("generalized_assignment", jobs=(60, 240, 960), question=("single",), batch=(1,), seeds=(0, 1, 2)),
        Grid("axial_assignment", size=(10, 15, 20, 30), question=("single",), batch=(1,), seeds=(0, 1, 2)),
        Grid("multicommodity_flow", nodes=(10, 20, 40), question=("single",), batch=(1,), seeds=(0, 1, 2)),
        Grid(
            "netlib",
            instance=(
                "afiro", "adlittle", "blend", "sc105", "share2b", "kb2", "israel", "brandy", "e226", "bandm", "scagr7",
                "sctap1", "stocfor1", "stocfor2", "degen2", "degen3", "scsd1", "scsd8", "25fv47", "fit1d", "ship08l",
                "woodw", "d2q06c", "pilot4", "maros-r7",
            ),
            batch=(1,),
        ),
    )  # fmt: skip
    of_a_file = {"batch": (1,), "question": ("single",)}  # noqa: RUF012


class SinglePrecise(Single):
    """The same LPs to six digits."""

    contest = _precise(Single.contest)
    quick = (Grid("set_cover", rows=(100,), question=("single",), batch=(1,)),)


class Tiny(Sweep):
    """Thousands of LPs of under a thousand variables that share a matrix: scenarios, not branches."""

    contest = Contest(
        track="lp",
        name="tiny",
        question="How fast are many tiny LPs solved that share a matrix?",
        problem="LPBatch",
        axes=("columns", "batch"),
        subject_to=LIMITS,
        given={"tolerance": 1e-4},
        baseline="simplex",
        floor=FLOOR,
    )
    quick = (
        Grid("transport", plants=(5,), customers=(10,), change=("demand",), batch=(16, 128, 1024)),
        Grid("transport", plants=(5,), customers=(10,), change=("cost",), batch=(128,)),
    )
    full = (
        Grid(
            "transport",
            plants=(5, 10, 20),
            customers=(10, 40),
            change=("demand", "cost", "both"),
            batch=(16, 128, 1024, 8192),
        ),
        Grid("miplib", instance=("misc03", "p0201"), question=("scenarios",), batch=(16, 128, 1024)),
        Grid("set_cover", rows=(50, 100), question=("scenarios",), batch=(16, 128, 1024)),
        Grid("generalized_assignment", agents=(5,), jobs=(25, 50), question=("scenarios",), batch=(16, 128, 1024)),
    )
    of_a_file = {"batch": (16, 128, 1024), "question": ("scenarios",)}  # noqa: RUF012


class TinyPrecise(Tiny):
    """The same scenarios to six digits."""

    contest = _precise(Tiny.contest)
    quick = (Grid("transport", plants=(5,), customers=(10,), change=("demand",), batch=(128,)),)
