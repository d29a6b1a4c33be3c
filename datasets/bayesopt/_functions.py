"""Test functions of any dimension, moved, and turned if asked for: their least value is 0, at a random place in the box."""

import dataclasses
from collections.abc import Callable, Mapping

import numpy as np

from breakeven.contract import Unsupported

SAMPLE = 1000  # random points by which a function's typical value is found


def _sphere(z: np.ndarray) -> np.ndarray:
    return (z**2).sum(axis=1)


def _ackley(z: np.ndarray) -> np.ndarray:
    waves = np.exp(np.cos(2 * np.pi * z).mean(axis=1))
    return 20 - 20 * np.exp(-0.2 * np.sqrt((z**2).mean(axis=1))) + np.e - waves


def _rastrigin(z: np.ndarray) -> np.ndarray:
    return (z**2 + 10 * (1 - np.cos(2 * np.pi * z))).sum(axis=1)


def _rosenbrock(z: np.ndarray) -> np.ndarray:
    z = z + 1
    return (100 * (z[:, 1:] - z[:, :-1] ** 2) ** 2 + (1 - z[:, :-1]) ** 2).sum(axis=1)


def _levy(z: np.ndarray) -> np.ndarray:
    w = 1 + z / 4
    inner = (w[:, :-1] - 1) ** 2 * (1 + 10 * np.sin(np.pi * w[:, :-1] + 1) ** 2)
    last = (w[:, -1] - 1) ** 2 * (1 + np.sin(2 * np.pi * w[:, -1]) ** 2)
    return np.sin(np.pi * w[:, 0]) ** 2 + inner.sum(axis=1) + last


def _griewank(z: np.ndarray) -> np.ndarray:
    roots = np.sqrt(np.arange(1, z.shape[1] + 1))
    return 1 + (z**2).sum(axis=1) / 4000 - np.cos(z / roots).prod(axis=1)


FUNCTIONS: Mapping[str, tuple[Callable, float, float]] = {
    "sphere": (_sphere, -5.12, 5.12),
    "ackley": (_ackley, -32.768, 32.768),
    "rastrigin": (_rastrigin, -5.12, 5.12),
    "rosenbrock": (_rosenbrock, -5.0, 10.0),
    "levy": (_levy, -10.0, 10.0),
    "griewank": (_griewank, -600.0, 600.0),
}
"""With the usual bounds of each coordinate. The functions take points around their minimum, whose value is 0. Levy's has the
phase of 1 in its inner sine that makes its minimum the only one (Laguna and Marti, 2005)."""


@dataclasses.dataclass(frozen=True, eq=False)
class Function:
    """One of `FUNCTIONS` with its minimum at ``optimum``, and its axes turned by ``rotation`` unless that is None."""

    name: str
    optimum: np.ndarray  # (d,)
    rotation: np.ndarray | None  # (d, d), orthogonal

    def __call__(self, x: np.ndarray) -> np.ndarray:
        z = x - self.optimum
        return FUNCTIONS[self.name][0](z if self.rotation is None else z @ self.rotation)

    @property
    def bounds(self) -> np.ndarray:
        """(d, 2)."""
        return np.tile(FUNCTIONS[self.name][1:], (len(self.optimum), 1))

    def typical(self, rng: np.random.Generator) -> float:
        """The mean value of random points."""
        return float(self(uniform(self.bounds, SAMPLE, rng)).mean())


def make(name: str, dimension: int, rotated: bool, rng: np.random.Generator) -> Function:
    """A function whose minimum lies in the inner 80 % of every coordinate. Raises `Unsupported` where there is none."""
    if name not in FUNCTIONS or dimension < 1 + (name == "rosenbrock"):
        raise Unsupported(f"function={name} dimension={dimension}: one of {', '.join(FUNCTIONS)}, in 1 dimension or more "
                          "(rosenbrock: 2)")  # fmt: skip
    _, low, high = FUNCTIONS[name]
    optimum = low + (high - low) * rng.uniform(0.1, 0.9, dimension)
    rotation = np.linalg.qr(rng.standard_normal((dimension, dimension)))[0] if rotated else None
    return Function(name, optimum, rotation)


def uniform(bounds: np.ndarray, count: int, rng: np.random.Generator) -> np.ndarray:
    """Random points of a box, (count, d)."""
    return bounds[:, 0] + rng.random((count, len(bounds))) * (bounds[:, 1] - bounds[:, 0])
