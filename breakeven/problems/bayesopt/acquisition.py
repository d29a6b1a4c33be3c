"""Choosing a batch from candidates whose values are predicted as normal distributions; lower values are better.

Shared by the method and its ablations, so that they differ in their predictions alone.
"""

import numpy as np


def lowest_confidence(
    mean: np.ndarray, deviation: np.ndarray, count: int, rng: np.random.Generator, beta=1.0
) -> np.ndarray:
    """The ``count`` candidates of least ``mean - beta * deviation``, ties in random order: UCB, turned for minimisation.

    Args:
        mean, deviation: (m,), with m >= count.

    Returns:
        Indices (count,), the best first.
    """
    bound = mean - beta * deviation
    shuffled = rng.permutation(len(bound))
    return shuffled[np.argsort(bound[shuffled], kind="stable")[:count]]


def non_dominated(mean: np.ndarray, deviation: np.ndarray, count: int, rng: np.random.Generator) -> np.ndarray:
    """``count`` candidates from the first fronts of low mean and high deviation; of a front that is too large, random ones.

    A candidate is dominated where another one's mean is no higher and its deviation no lower, and one of both is better.
    Fronts are peeled off (non-dominated sorting; Goldberg, 1989), each in one pass over candidates sorted by the mean.

    Args:
        mean, deviation: (m,), with m >= count.

    Returns:
        Indices (count,), front by front.
    """
    order = np.lexsort((-deviation, mean))
    chosen: list[np.ndarray] = []
    missing = count
    while missing:
        front = _first_front(mean[order], deviation[order])
        members = order[front]
        if len(members) > missing:
            members = rng.choice(members, missing, replace=False)
        chosen.append(members)
        missing -= len(members)
        order = order[~front]
    return np.concatenate(chosen) if chosen else np.empty(0, np.int64)


def _first_front(mean: np.ndarray, deviation: np.ndarray) -> np.ndarray:
    """Which of candidates sorted by (mean, -deviation) nobody dominates; equals do not dominate each other."""
    highest = np.maximum.accumulate(deviation)
    rises = np.r_[True, deviation[1:] > highest[:-1]]
    # An equal of the last member of the front, in both, is a member too.
    leader = np.maximum.accumulate(np.where(rises, np.arange(len(mean)), 0))
    return (mean == mean[leader]) & (deviation == deviation[leader])
