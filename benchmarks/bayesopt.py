"""The contests of Bayesian optimisation at many observations, and the sizes that they sweep."""

from breakeven.contract import Contest, Floor, Metric
from breakeven.sweep import Grid, Sweep

REGRET = Metric(
    "regret",
    about="how far the recommended point's value lies above the minimum, or above a floor where no minimum is known, "
    "over the same of random points",
    best=0.0,
)
TIME_TO_TARGET = Metric(
    "time_to_target",
    unit="s",
    about="evaluations until the target, at their cost, and the time that proposals took",
)
CRPS = Metric("crps", about="continuous ranked probability score over the spread of the true values")
SEEDS = tuple(range(10, 20))  # tests use lower ones, and the success rule was chosen on 100 to 103


class Propose(Sweep):
    """One batch, from scratch: fit, candidates, acquisition.

    Speed alone. How good single proposals are is judged and shown (``rank_among_random``: random points have 0.5), but is no
    limit: where the best observation lies in a bad part of a plateau, honest regions around it have more. What proposals are
    worth, `Optimize` tells.
    """

    contest = Contest(
        track="bayesopt",
        name="propose",
        question="How fast is the next batch proposed, at so many observations?",
        problem="Observations",
        axes=("dimension", "points"),
        baseline="turbo_gp",
        floor=Floor(
            "every observation is read once, in float64, by a method that uses them",
            bytes=lambda of: 8 * of["points"] * (of["dimension"] + 1),
        ),
    )
    quick = (Grid("observations", dimension=(20,), points=(30, 100, 300)),)
    full = (
        Grid("observations", dimension=(5, 20, 100), points=(30, 100, 300, 1000, 3000, 10_000, 50_000)),
        Grid("observations", dimension=(20,), batch=(1, 50), points=(100, 1000)),
        Grid("observations", dimension=(20,), kind=("clustered",), noise=(0.1,), points=(100, 1000, 10_000)),
    )


class Optimize(Sweep):
    """A whole run; what is found in the end."""

    contest = Contest(
        track="bayesopt",
        name="optimize",
        question="Who finds the lowest value within a number of evaluations?",
        problem="BlackBox",
        axes=("dimension", "evaluations"),
        rank_by=REGRET,
        baseline="turbo_gp",
    )
    quick = (
        Grid("synthetic", function=("ackley",), dimension=(10,), batch=(20,), evaluations=(100,), seeds=SEEDS[:3]),
    )
    full = (
        Grid(
            "synthetic",
            function=("ackley", "rastrigin", "rosenbrock", "levy", "griewank", "sphere"),
            dimension=(20, 50),
            batch=(50,),
            evaluations=(200, 1000),
            seeds=SEEDS,
        ),
        Grid("bbob", function=tuple(range(1, 25)), dimension=(20,), batch=(50,), evaluations=(300,), seeds=SEEDS[:3]),
        Grid("hyperparameters", model=("svm", "weighted_svm", "lasso"), seeds=SEEDS[:5]),
        Grid("lunar_lander", seeds=SEEDS[:5]),
        Grid("bipedal_walker", seeds=SEEDS[:5]),
    )


class TimeToTarget(Sweep):
    """What a user waits for: dear evaluations want few of them, cheap ones want fast proposals.

    In 20 dimensions only Levy's function, of which it is known that everybody reaches the target within the time limit.
    """

    contest = Contest(
        track="bayesopt",
        name="time_to_target",
        question="Who reaches the target regret first, where an evaluation costs so many seconds?",
        problem="BlackBox",
        axes=("dimension", "cost"),
        rank_by=TIME_TO_TARGET,
        subject_to={"missed": 0.0},
        baseline="turbo_gp",
    )
    quick = (
        Grid(
            "synthetic",
            function=("rastrigin",),
            dimension=(5,),
            batch=(10,),
            evaluations=(300,),
            target=(0.2,),
            cost=(0.001, 10.0),
            seeds=SEEDS[:3],
        ),
    )
    full = (
        Grid(
            "synthetic",
            function=("ackley", "rastrigin", "levy"),
            dimension=(5,),
            batch=(10,),
            evaluations=(1500,),
            target=(0.1,),
            cost=(0.001, 0.01, 0.1, 1.0, 10.0),
            seeds=SEEDS,
        ),
        Grid(
            "synthetic",
            function=("levy",),
            dimension=(20,),
            batch=(50,),
            evaluations=(1500,),
            target=(0.1,),
            cost=(0.01, 0.1, 1.0, 10.0),
            seeds=SEEDS,
        ),
    )


class Surrogate(Sweep):
    """Predictions alone, near the best point and everywhere."""

    contest = Contest(
        track="bayesopt",
        name="surrogate",
        question="Whose predictions of further observations are the best, errors and certainty together?",
        problem="Regression",
        axes=("dimension", "points"),
        rank_by=CRPS,
        baseline="turbo_gp",
    )
    quick = (Grid("held_out", dimension=(10,), points=(100, 300), seeds=SEEDS[:3]),)
    full = (
        Grid(
            "held_out",
            function=("ackley", "rastrigin", "rosenbrock"),
            dimension=(10,),
            kind=("trajectory", "uniform"),
            where=("near", "everywhere"),
            points=(100, 300, 1000),
            seeds=SEEDS[:5],
        ),
        Grid("held_out", dimension=(10, 100), points=(3000, 10_000), seeds=SEEDS[:3]),
    )
