"""The contests of linear programming, and the sizes that they sweep."""

from breakeven.contract import Contest
from breakeven.sweep import Grid, Sweep


class StrongBranching(Sweep):
    """Two child LPs for each fractional variable of a root LP, all at once: what a branch-and-bound node asks."""

    contest = Contest(
        track="lp",
        name="strong_branching",
        question="How fast are the child LPs of a branch-and-bound node solved?",
        problem="LPBatch",
        axes=("nonzeros", "batch"),
        subject_to={"relative_kkt": 1e-4, "bound_violation": 1e-6, "status_errors": 0},
        given={"tolerance": 1e-4},
        baseline="simplex",
    )
    quick = (
        Grid("miplib", instance=("10teams", "qiu", "danoint"), batch=(1, 4, 16, 64)),
        Grid("miplib", instance=("misc03",), batch=(1, 4, 16)),
        Grid("set_cover", rows=(100, 200, 400), batch=(1, 16)),
        Grid("facility_location", customers=(25, 50, 100), batch=(1, 16)),
    )
    # Batches go as far as each instance has children, or as its slower side is bearable.
    full = (
        Grid("miplib", instance=("10teams", "seymour"), batch=(1, 4, 16, 64, 256)),
        Grid("miplib", instance=("qiu", "danoint", "set1ch", "gesa2", "mkc"), batch=(1, 4, 16, 64)),
        Grid("miplib", instance=("misc03", "p0201", "khb05250", "air05"), batch=(1, 4, 16)),
        Grid("set_cover", rows=(100, 200, 400, 800), batch=(1, 16), seeds=(0, 2, 3)),
        Grid("facility_location", customers=(25, 50, 100), batch=(1, 16), seeds=(0, 3, 4)),
    )
    of_a_file = {"batch": (1, 4, 16, 64, 256)}  # noqa: RUF012 - read by the base class, never changed
