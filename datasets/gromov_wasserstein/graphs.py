"""Random graphs against themselves, shuffled and with edges that do not belong: the true matching is known."""

import networkx
import numpy as np
import scipy.sparse

from breakeven.contract import Unsupported, dataset
from breakeven.datasets.gromov_wasserstein._copies import with_reference
from breakeven.datasets.gromov_wasserstein._graph_costs import costs_of_graph, is_told_apart, largest_component
from breakeven.problems.gromov_wasserstein import PRECOMPUTED, MatchingProblem

KINDS = ("barabasi_albert", "stochastic_block", "random_geometric", "powerlaw_cluster")


@dataset(title="Random graphs", packages=("networkx",))
def graphs(
    *, kind: str = "barabasi_albert", points: int = 200, cost: str = "shortest_path", noise: float = 0.0, seed: int = 0
) -> MatchingProblem:
    """The largest component of a random graph, and the same shuffled, with edges added.

    Costs are divided by the largest one of x. A node that colour refinement cannot tell from another has no truth, since
    an automorphism may exchange the two; the best known loss is that of the matching of which the copy was made.

    Args:
        kind: ``barabasi_albert`` (each new node with 4 edges), ``stochastic_block`` (4 blocks, of mean degree 8 within and 2
            between), ``random_geometric`` (in the unit square, of mean degree 12 away from its border) or
            ``powerlaw_cluster`` (Holme and Kim, 2002; each new node with 10 edges, of which 1 % close a triangle: as in the
            tests of robust GW, Kong et al., 2023).
        points: nodes, at least 20; fewer are left where the graph is not connected.
        cost: ``adjacency``, ``shortest_path``, ``resistance`` (or commute time) or ``diffusion`` (squared distances).
        noise: random edges that the copy has beside its own, as a share of these; rounded to a whole number of edges.
    """
    if kind not in KINDS or points < 20 or not 0 <= noise < np.inf:
        raise Unsupported(f"kind={kind} points={points} noise={noise}: a kind of {', '.join(KINDS)}, 20 points or more, "
                          "and noise of at least 0")  # fmt: skip
    rng = np.random.default_rng([seed, points, KINDS.index(kind)])
    graph = _graph(kind, points, int(rng.integers(1 << 31)))
    adjacency = scipy.sparse.csr_array(networkx.to_scipy_sparse_array(graph, sorted(graph), dtype=np.float64))
    nodes = largest_component(adjacency)
    adjacency = adjacency[nodes][:, nodes]
    order = rng.permutation(len(nodes))
    matching = np.argsort(order)
    noisy = _with_more_edges(adjacency, noise, rng)[order][:, order]
    x, y = costs_of_graph(adjacency, cost), costs_of_graph(noisy, cost)
    truth = np.where(is_told_apart(adjacency), matching, -1)
    name = f"{kind}_{points}_{cost}"
    return with_reference(MatchingProblem.of(name, x / x.max(), y / x.max(), PRECOMPUTED, truth=truth), matching)


def _graph(kind: str, points: int, seed: int) -> networkx.Graph:
    if kind == "barabasi_albert":
        return networkx.barabasi_albert_graph(points, 4, seed=seed)
    if kind == "powerlaw_cluster":
        return networkx.powerlaw_cluster_graph(points, 10, 0.01, seed=seed)
    if kind == "random_geometric":
        return networkx.random_geometric_graph(points, np.sqrt(12 / (np.pi * points)), seed=seed)
    blocks = [points // 4 + (k < points % 4) for k in range(4)]
    within, between = min(1.0, 8 / (points / 4)), min(1.0, 2 / (points * 3 / 4))
    return networkx.stochastic_block_model(blocks, np.where(np.eye(4), within, between).tolist(), seed=seed)


def _with_more_edges(
    adjacency: scipy.sparse.csr_array, noise: float, rng: np.random.Generator
) -> scipy.sparse.csr_array:
    """The graph with random new edges, ``noise`` times as many as it has."""
    n, edges = adjacency.shape[0], adjacency.nnz // 2
    more = round(noise * edges)
    if more > n * (n - 1) // 2 - edges:
        raise Unsupported(f"noise={noise}: {n} nodes with {edges} edges have no room for {more} more")
    first, second = np.nonzero(np.triu(adjacency.toarray() == 0, 1))
    chosen = rng.choice(len(first), more, replace=False)
    rows, columns = first[chosen], second[chosen]
    new = scipy.sparse.coo_array((np.ones(2 * more), (np.r_[rows, columns], np.r_[columns, rows])), shape=(n, n))
    return scipy.sparse.csr_array(adjacency + new)
