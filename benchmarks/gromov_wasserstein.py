"""The contests of matching by Gromov-Wasserstein, and the sizes that they sweep."""

from breakeven.contract import PEAK_BYTES, Contest, Floor, Metric
from breakeven.sweep import Grid, Sweep

ACCURACY = Metric(
    "accuracy",
    lower_is_better=False,
    scale="difference",
    margin=0.01,
    best=1.0,
    about="share of the points of x that are sent, for the most part, where they belong",
)
MARGINALS = {"marginal_violation": 1e-6}
SEEDS = tuple(range(20))


class TimeToLoss(Sweep):
    """Two point sets of which one is the other, turned, shuffled and shaken."""

    contest = Contest(
        track="gromov_wasserstein",
        name="time_to_loss",
        question="How fast is a matching found whose loss is within 1 % of the best one known?",
        problem="MatchingProblem",
        axes=("dimension", "points"),
        subject_to={"excess_loss": 0.01, **MARGINALS},
        baseline="conditional_gradient",
        floor=Floor(
            "both point sets are read once, in float64", bytes=lambda of: 2 * 8 * of["points"] * of["dimension"]
        ),
    )
    quick = (Grid("blobs", metric=("sqeuclidean",), dimension=(3,), points=(250, 500, 1000)),)
    full = (
        Grid("blobs", metric=("sqeuclidean",), dimension=(3,), points=(125, 250, 500, 1000, 2000, 4000)),
        Grid("blobs", metric=("sqeuclidean",), dimension=(10, 30), points=(250, 500, 1000)),
        Grid("blobs", metric=("euclidean",), dimension=(3,), points=(125, 250, 500, 1000, 2000)),
        Grid("spirals", metric=("euclidean",), dimension=(3,), points=(250, 1000)),
    )


class Memory(Sweep):
    """The same, by what it takes."""

    contest = Contest(
        track="gromov_wasserstein",
        name="memory",
        question="How little memory does a matching take whose loss is within 1 % of the best one known?",
        problem="MatchingProblem",
        axes=("points",),
        rank_by=PEAK_BYTES,
        subject_to={"excess_loss": 0.01, **MARGINALS},
        baseline="conditional_gradient",
    )
    quick = (Grid("blobs", metric=("sqeuclidean",), points=(500, 1000)),)
    full = (Grid("blobs", metric=("sqeuclidean", "euclidean"), points=(500, 1000, 2000)),)


class Robust(Sweep):
    """Costs of which a share is wrong; the same points at every rate, and twenty of each."""

    contest = Contest(
        track="gromov_wasserstein",
        name="robust",
        question="Who still finds the partners where a share of the costs is wrong?",
        problem="MatchingProblem",
        axes=("rate",),
        rank_by=ACCURACY,
        subject_to=MARGINALS,
        baseline="conditional_gradient",
    )
    quick = (Grid("noisy_pairs", kind=("pairs",), rate=(0.1,), seeds=SEEDS[:3]),)
    full = (
        Grid("noisy_pairs", kind=("pairs",), rate=(0.0, 0.05, 0.1, 0.2, 0.3), seeds=SEEDS),
        Grid("noisy_pairs", kind=("edges",), rate=(0.03,), seeds=SEEDS),
        Grid("noisy_pairs", kind=("outliers",), rate=(0.1,), seeds=SEEDS),
    )


class Alignment(Sweep):
    """Pairs of graphs with a known matching: random ones, and real ones from files."""

    contest = Contest(
        track="gromov_wasserstein",
        name="alignment",
        question="Who finds which node of one graph is which of the other?",
        problem="MatchingProblem",
        axes=("points",),
        rank_by=ACCURACY,
        subject_to=MARGINALS,
        baseline="conditional_gradient",
    )
    quick = (
        Grid("graphs", kind=("barabasi_albert",), cost=("adjacency",), noise=(0.05,), points=(100,), seeds=SEEDS[:3]),
    )
    full = (
        Grid(
            "graphs",
            kind=("barabasi_albert",),
            cost=("adjacency", "resistance"),
            noise=(0.05,),
            points=(100, 200, 400),
            seeds=SEEDS[:5],
        ),
        Grid("graph_pairs", instance=("phone_email", "douban", "cora")),
    )
