"""Costs between the nodes of a graph."""

import numpy as np
import scipy.linalg
import scipy.sparse
import scipy.sparse.csgraph

from breakeven.contract import Unsupported

COSTS = ("adjacency", "shortest_path", "resistance", "diffusion")

DIFFUSION_TIME = 1.0


def costs_of_graph(adjacency: scipy.sparse.csr_array, cost: str) -> np.ndarray:
    """Costs between the nodes of an undirected graph, (n, n) float64, symmetric.

    - ``adjacency``: the weight of the edge, 0 where there is none.
    - ``shortest_path``: the number of edges on the way.
    - ``resistance``: the effective resistance where weights are conductances; times the sum of degrees it is the commute time
      (Chandra et al., 1989). Conditionally of negative type, as squared distances are.
    - ``diffusion``: the squared diffusion distance (after Coifman and Lafon, 2006), ``|h_i - h_j|^2`` with the rows h of
      ``expm(-t L)``, L the symmetrically normalised Laplacian, t = `DIFFUSION_TIME`. Likewise of negative type.

    Raises `Unsupported` for another cost, and where a path is asked between nodes that are not connected.
    """
    if cost not in COSTS:
        raise Unsupported(f"cost={cost}: there are {', '.join(COSTS)}")
    if cost == "adjacency":
        return adjacency.toarray()
    n = adjacency.shape[0]
    if cost == "diffusion":
        values, vectors = scipy.linalg.eigh(scipy.sparse.csgraph.laplacian(adjacency, normed=True).toarray())
        return _squared_distances((vectors * np.exp(-2 * DIFFUSION_TIME * values)) @ vectors.T)
    if scipy.sparse.csgraph.connected_components(adjacency, directed=False, return_labels=False) > 1:
        raise Unsupported(f"cost={cost}: the graph is not connected; ask for its largest component")
    if cost == "shortest_path":
        return scipy.sparse.csgraph.shortest_path(adjacency, directed=False, unweighted=True)
    laplacian = scipy.sparse.csgraph.laplacian(adjacency).toarray()
    return _squared_distances(scipy.linalg.inv(laplacian + 1 / n))


def largest_component(adjacency: scipy.sparse.csr_array) -> np.ndarray:
    """Nodes of the largest connected component, the first of those that are equally large, in ascending order."""
    _, label = scipy.sparse.csgraph.connected_components(adjacency, directed=False)
    return np.flatnonzero(label == np.bincount(label).argmax())


def is_told_apart(adjacency: scipy.sparse.csr_array) -> np.ndarray:
    """(n,) whether colour refinement gives a node a colour of its own, so that no automorphism moves it.

    The nodes that remain are those which an automorphism can move, and a few besides (Weisfeiler and Leman, 1968).
    """
    colour, colours = np.zeros(adjacency.shape[0], np.int64), 0
    neighbours = np.split(adjacency.indices, adjacency.indptr[1:-1])
    while len(np.unique(colour)) > colours:
        colours = len(np.unique(colour))
        seen = [(own, *np.sort(colour[near]).tolist()) for own, near in zip(colour.tolist(), neighbours, strict=True)]
        number = {signature: k for k, signature in enumerate(sorted(set(seen)))}
        colour = np.array([number[signature] for signature in seen])
    return np.bincount(colour)[colour] == 1


def _squared_distances(gram: np.ndarray) -> np.ndarray:
    """Squared distances between vectors with these inner products."""
    gram = (gram + gram.T) / 2
    squares = np.diag(gram)
    distances = np.maximum(squares[:, None] + squares - 2 * gram, 0.0)
    np.fill_diagonal(distances, 0.0)
    return distances
