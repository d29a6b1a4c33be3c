"""The contests of matching by Gromov-Wasserstein, and the sizes that they sweep."""

from breakeven.contract import Contest
from breakeven.sweep import Grid, Sweep


class TimeToLoss(Sweep):
    """Two point sets of which one is the other, turned, shuffled and shaken."""

    contest = Contest(
        track="gromov_wasserstein",
        name="time_to_loss",
        question="How fast is a matching found whose loss is within 1 % of the best one known?",
        problem="MatchingProblem",
        axes=("points",),
        subject_to={"excess_loss": 0.01, "marginal_violation": 1e-6},
        baseline="conditional_gradient",
    )
    quick = (Grid("blobs", metric=("sqeuclidean",), points=(125, 250, 500, 1000)),)
    full = (
        Grid("blobs", metric=("sqeuclidean",), points=(125, 250, 500, 1000, 2000, 4000)),
        Grid("blobs", metric=("euclidean",), points=(125, 250, 500, 1000, 2000)),
    )
