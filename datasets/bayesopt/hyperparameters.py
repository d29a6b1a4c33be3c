"""Tuning scikit-learn's models on the data sets that it ships: few and many hyperparameters, real and deterministic."""

import dataclasses
import typing

import numpy as np
import sklearn.datasets
import sklearn.linear_model
import sklearn.model_selection
import sklearn.svm

from breakeven.contract import Unsupported, dataset
from breakeven.problems.bayesopt import BlackBox

ROWS, FOLDS, SAMPLE = 300, 3, 30  # images; of cross-validation; random settings by which a typical value is found


@dataclasses.dataclass(frozen=True, eq=False)
class Error:
    """The error of a model in cross-validation, by its hyperparameters."""

    measure: typing.Callable[[np.ndarray, np.ndarray, np.ndarray], float]
    features: np.ndarray
    target: np.ndarray

    def __call__(self, x: np.ndarray) -> np.ndarray:
        return np.array([self.measure(point, self.features, self.target) for point in x])


def _svm(point, features, target) -> float:
    """Misclassified share by (log10 C, log10 gamma): it has steps, and ties."""
    return _support_vectors(point[0], point[1], features, target)


def _weighted_svm(point, features, target) -> float:
    """The same with a weight for every feature: (log10 C, log10 gamma, weights in [0, 2])."""
    return _support_vectors(point[0], point[1], features * point[2:], target)


def _support_vectors(log_c, log_gamma, features, target) -> float:
    model = sklearn.svm.SVC(C=10**log_c, gamma=10**log_gamma)
    predicted = sklearn.model_selection.cross_val_predict(model, features, target, cv=FOLDS)
    return float(np.mean(predicted != target))


def _lasso(point, features, target) -> float:
    """Mean squared error of a lasso with a penalty for every feature, by their log10 (Sehic et al., LassoBench, 2022)."""
    model = sklearn.linear_model.Lasso(alpha=1.0, max_iter=2000, tol=1e-3, selection="cyclic")
    predicted = sklearn.model_selection.cross_val_predict(model, features / 10**point, target, cv=FOLDS)
    return float(np.mean((predicted - target) ** 2))


@dataset(title="Hyperparameters", source="scikit-learn's data sets", real=True, packages=("scikit-learn",))
def hyperparameters(*, model: str = "svm", evaluations: int = 200, batch: int = 10, seed: int = 0) -> BlackBox:
    """An error in cross-validation, whose least value is not known: regrets count from 0, which may not be reached.

    Args:
        model: ``svm``: 2-D, on images of digits; ``weighted_svm``: 66-D, with a weight for each pixel; ``lasso``: 10-D, with a
            penalty for each feature of the diabetes data.
        seed: of the entrants; the function does not depend on it.
    """
    digits = [[-2.0, 4.0], [-6.0, 1.0]]
    made = {
        "svm": lambda: (_svm, _digits(), digits),
        "weighted_svm": lambda: (_weighted_svm, _digits(), digits + [[0.0, 2.0]] * 64),
        "lasso": lambda: (_lasso, _diabetes(), [[-4.0, 1.0]] * 10),
    }
    if model not in made:
        raise Unsupported(f"model={model}: one of {', '.join(made)}")
    measure, data, bounds = made[model]()
    function, box = Error(measure, *data), np.array(bounds)
    sample = box[:, 0] + np.random.default_rng(0).random((SAMPLE, len(box))) * np.ptp(box, axis=1)
    return BlackBox.of(
        f"hyperparameters_{model}", function, box, budget=evaluations, batch=batch, best=0.0,
        typical=float(function(sample).mean()), seed=seed,
    )  # fmt: skip


def _digits() -> tuple[np.ndarray, np.ndarray]:
    """A part of the digits, in their order, pixels from 0 to 1."""
    features, target = sklearn.datasets.load_digits(return_X_y=True)
    return features[:ROWS] / 16, target[:ROWS]


def _diabetes() -> tuple[np.ndarray, np.ndarray]:
    features, target = sklearn.datasets.load_diabetes(return_X_y=True)
    return features * np.sqrt(len(features)), (target - target.mean()) / target.std()
