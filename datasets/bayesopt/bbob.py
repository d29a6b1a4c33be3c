"""BBOB: 24 noise-free test functions with known minima, as COCO and IOHexperimenter define them."""

import numpy as np

from breakeven.contract import Unsupported, dataset
from breakeven.problems.bayesopt import BlackBox

SAMPLE = 1000  # random points by which a function's typical value is found


class Function:
    """One of the suite's functions, by `ioh`."""

    def __init__(self, function: int, instance: int, dimension: int):
        try:  # here, since a sweep is more than the data sets of an extra
            import ioh
        except ModuleNotFoundError as error:
            raise Unsupported("it needs ioh, which is in the extra 'bbob'") from error
        self.problem = ioh.get_problem(function, instance, dimension, ioh.ProblemClass.BBOB)

    def __call__(self, x: np.ndarray) -> np.ndarray:
        return np.array([self.problem(point) for point in x])


@dataset(title="BBOB", source="Hansen et al., INRIA RR-6829, 2009", packages=("ioh",))
def bbob(
    *, function: int = 1, instance: int = 1, dimension: int = 20, evaluations: int = 1000, batch: int = 10, seed: int = 0
) -> BlackBox:  # fmt: skip
    """On [-5, 5] in every coordinate.

    Args:
        function: 1 to 24. instance: 1 or more, which moves and turns it.
        seed: of the entrants; the function does not depend on it.
    """
    if not 1 <= function <= 24 or instance < 1 or dimension < 2:
        raise Unsupported(f"function={function} instance={instance} dimension={dimension}: functions 1 to 24, instances from 1, "
                          "2 dimensions or more")  # fmt: skip
    made = Function(function, instance, dimension)
    sample = np.random.default_rng([function, instance, dimension]).uniform(-5, 5, (SAMPLE, dimension))
    return BlackBox.of(
        f"bbob_f{function}_i{instance}", made, np.tile([-5.0, 5.0], (dimension, 1)), budget=evaluations,
        batch=batch, best=float(made.problem.optimum.y), typical=float(made(sample).mean()), seed=seed,
    )  # fmt: skip
