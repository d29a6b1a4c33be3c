"""Costs of which a known share is wrong: what robust matching has to see through."""

import numpy as np
import scipy.sparse
import scipy.sparse.csgraph
import scipy.spatial.distance

from breakeven.contract import Unsupported, dataset
from breakeven.datasets.gromov_wasserstein._copies import with_reference, within_radius_one
from breakeven.problems.gromov_wasserstein import PRECOMPUTED, MatchingProblem

KINDS = ("pairs", "edges", "outliers")
NEIGHBOURS = 6


@dataset(title="Noisy pairs")
def noisy_pairs(
    *, points: int = 80, kind: str = "pairs", rate: float = 0.1, dimension: int = 3, seed: int = 0
) -> MatchingProblem:
    """Normal points, scaled to radius 1, by the distances between them; and the same shuffled, with a share of wrong ones.

    All shares are exact counts, rounded to whole ones, drawn without replacement. Weights are uniform and both marginals
    are hard. The best known loss is that of the true matching, with its wrong costs; NaN where some points have no partner.

    Args:
        points: at least 4.
        kind: what is wrong in y. ``pairs``: the distances of a share ``rate`` of all pairs of points are uniform between 0 and
            the largest distance. ``edges``: costs of both sides are geodesics, the shortest paths in a graph of the 6 nearest
            neighbours (joined by a minimum spanning tree where it falls apart); y has ``rate`` times as many further edges,
            between random points that are no neighbours, as short as random edges of the graph. ``outliers``: a share ``rate``
            of the points of y are others instead, uniform in the cube around the ball of radius 1; ``truth`` is -1 for their
            partners.
        rate: from 0 to 1.
        dimension: of the points.
    """
    if kind not in KINDS or points < 4 or dimension < 1 or not 0 <= rate <= 1:
        raise Unsupported(f"kind={kind} points={points} dimension={dimension} rate={rate}: a kind of {', '.join(KINDS)}, "
                          "4 points or more, 1 dimension or more, and a rate from 0 to 1")  # fmt: skip
    # The same points, order and draws at every rate of a kind: rates are compared on the same problem.
    rng = np.random.default_rng([seed, points, dimension])
    z = within_radius_one(rng.standard_normal((points, dimension)))
    order = rng.permutation(points)
    matching = truth = np.argsort(order)
    x = scipy.spatial.distance.cdist(z, z)
    if kind == "pairs":
        y = _with_random_pairs(x, rate, rng)
    elif kind == "edges":
        graph = _neighbours(x)
        x, y = _geodesics(graph), _geodesics(_with_shortcuts(graph, rate, rng))
    else:
        wrong = rng.permutation(points)[: round(rate * points)]
        z = z.copy()
        z[wrong] = rng.uniform(-1, 1, (points, dimension))[: len(wrong)]
        y = scipy.spatial.distance.cdist(z, z)
        truth = matching.copy()
        truth[wrong] = -1
    name = f"{kind}_{points}_{rate:g}"
    problem = MatchingProblem.of(name, x, y[np.ix_(order, order)], PRECOMPUTED, truth=truth)
    return with_reference(problem, matching) if (truth >= 0).all() else problem


def _with_random_pairs(costs: np.ndarray, rate: float, rng: np.random.Generator) -> np.ndarray:
    first, second = np.triu_indices(len(costs), 1)
    chosen = rng.permutation(len(first))
    values = rng.uniform(0, costs.max(), len(first))
    chosen = chosen[: round(rate * len(first))]
    costs = costs.copy()
    costs[first[chosen], second[chosen]] = costs[second[chosen], first[chosen]] = values[: len(chosen)]
    return costs


def _neighbours(distances: np.ndarray) -> np.ndarray:
    """Lengths of the edges to each point's nearest neighbours and of a minimum spanning tree, (n, n), 0 for no edge."""
    n = len(distances)
    near = np.argsort(distances, axis=1, kind="stable")[:, 1 : NEIGHBOURS + 1]
    linked = np.zeros((n, n), bool)
    linked[np.arange(n)[:, None], near] = True
    linked |= scipy.sparse.csgraph.minimum_spanning_tree(distances).toarray() > 0
    return np.where(linked | linked.T, distances, 0.0)


def _with_shortcuts(graph: np.ndarray, rate: float, rng: np.random.Generator) -> np.ndarray:
    first, second = np.nonzero(np.triu(graph))
    lengths = graph[first, second]
    free = np.nonzero(np.triu(graph == 0, 1))
    more = round(rate * len(lengths))
    if more > len(free[0]):
        raise Unsupported(f"rate={rate}: {len(graph)} points with {len(lengths)} edges have no room for {more} more")
    chosen = rng.permutation(len(free[0]))
    values = rng.choice(lengths, len(lengths))
    rows, columns = (side[chosen[:more]] for side in free)
    graph = graph.copy()
    graph[rows, columns] = graph[columns, rows] = values[:more]
    return graph


def _geodesics(graph: np.ndarray) -> np.ndarray:
    paths = scipy.sparse.csgraph.shortest_path(scipy.sparse.csr_array(graph), directed=False)
    return np.minimum(paths, paths.T)  # sums of the same edges, rounded from either end
