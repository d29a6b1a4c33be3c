"""Pairs of real graphs of which it is known who is who: networks that share people, or papers, from MATLAB files."""

import pathlib

import numpy as np
import scipy.sparse

from breakeven.contract import BadInput, Unsupported, dataset
from breakeven.datasets.gromov_wasserstein._copies import with_reference
from breakeven.datasets.gromov_wasserstein._data_files import download, find
from breakeven.datasets.gromov_wasserstein._graph_costs import COSTS, costs_of_graph, largest_component
from breakeven.datasets.gromov_wasserstein._matlab_files import read_matrices
from breakeven.problems.gromov_wasserstein import PRECOMPUTED, MatchingProblem

COLLECTION = "https://github.com/yq-leo/PARROT-Python (datasets)"
_RAW = "https://raw.githubusercontent.com/yq-leo/PARROT-Python/657398e7c8fc8074e4a2195863bf5c775e5e5fd9/datasets/"

# SHA-256, and which graph the first column of the ground truth numbers: checked by the edges that the graphs share.
FILES = {
    "acm_dblp": (
        "ACM-DBLP-A.mat",
        "8a32a7e583c9b33f22375764c4fd5db4332ea2ea36885431deb072ffe9daeb4d",
        ("ACM", "DBLP"),
    ),
    "cora": ("cora.mat", "3ae01a963a3b9d83292f2ef14114131d5abe86781d074c6ad44a5c366dd1dd60", ("cora1", "cora2")),
    "douban": ("Douban.mat", "6cc9465e9c7fcd03bd7a97c4550567b0ffb84d10c3e72f7e34697457b399e808", ("online", "offline")),
    "phone_email": (
        "phone-email.mat",
        "e180da31abed3ceac94c25c4853138249716fe66fb10651b4dc39593ee0c816f",
        ("phone", "email"),
    ),
}
"""File, SHA-256 and the names of both graphs, by instance."""

TRUTH = "gnd"
PRIOR = "H"


@dataset(title="Real graph pairs", source=COLLECTION, real=True)
def graph_pairs(*, instance: str = "", file: str = "", cost: str = "adjacency", seed: int = 0) -> MatchingProblem:
    """Two graphs and the pairs of nodes that are known to be the same; other nodes have no truth, and attributes are ignored.

    Costs are divided by the largest one of x. Where the cost needs paths, each graph is its largest component. The best known
    loss is that of the true matching where it covers all nodes of both, else none is known. Costs are dense: the largest of
    the instances takes 1.6 GB.

    Args:
        instance: ``acm_dblp`` (9872 and 9916 nodes, 6325 known pairs), ``cora`` (2708 and 2708, all known), ``douban`` (3906
            and 1118, 1118 known) or ``phone_email`` (1000 and 1003, 800 known). It is looked for in the folders of
            ``BREAKEVEN_DATA``, and downloaded once otherwise. Raises `Unsupported`, which says what to put where, if it cannot.
        file: path of a ``.mat`` file of one's own instead (MATLAB 5 to 7.2), with two undirected graphs as adjacency matrices,
            dense or sparse, and the known pairs in ``gnd``, (pairs, 2): a node of the first graph, in the order of the file,
            and one of the second, counted from 1. Fields called ``H`` or ending in ``feat`` are left aside.
        cost: ``adjacency``, ``shortest_path`` (in edges), ``resistance`` or ``diffusion`` (squared distances).
        seed: has no effect: there is one such problem.
    """
    if bool(instance) == bool(file):
        raise BadInput("graph_pairs takes an instance or a file, one of the two; give for example instance=douban")
    if cost not in COSTS:
        raise Unsupported(f"cost={cost}: there are {', '.join(COSTS)}")
    path = pathlib.Path(file) if file else _file(instance)
    (x, y), pairs = _read(path)
    whole = cost in ("adjacency", "diffusion")
    x_nodes, y_nodes = (np.arange(g.shape[0]) if whole else largest_component(g) for g in (x, y))
    matching = np.full(x.shape[0], -1)
    matching[pairs[:, 0]] = pairs[:, 1]
    place = np.full(y.shape[0] + 1, -1)  # the last one, which -1 names, is no node
    place[y_nodes] = np.arange(len(y_nodes))
    matching = place[matching[x_nodes]]
    x, y = (costs_of_graph(g[nodes][:, nodes], cost) for g, nodes in ((x, x_nodes), (y, y_nodes)))
    scale = x.max() or 1.0
    x /= scale
    y /= scale
    name = f"{instance or path.stem}_{cost}"
    problem = MatchingProblem.of(name, x, y, PRECOMPUTED, truth=matching if (matching >= 0).any() else None)
    return with_reference(problem, matching) if len(x) == len(y) and (matching >= 0).all() else problem


def _file(instance: str) -> pathlib.Path:
    if instance not in FILES:
        raise BadInput(f"no graph pair is called {instance!r}; there are: {', '.join(FILES)}")
    name, checksum, _ = FILES[instance]
    return find(name, checksum, COLLECTION) or download(_RAW + name, checksum, COLLECTION)


def _read(path: pathlib.Path) -> tuple[list[scipy.sparse.csr_array], np.ndarray]:
    """Both graphs as weighted adjacency matrices without loops, and the known pairs of nodes, counted from 0."""
    if path.suffix.lower() != ".mat":
        raise BadInput(f"{path}: is no .mat file; meshes and point clouds are read by the data set `clouds`")
    fields = read_matrices(path)
    shapes = ", ".join(f"{k} {'(no real matrix)' if v is None else v.shape}" for k, v in fields.items()) or "none"
    if TRUTH not in fields:
        raise BadInput(f"{path}: has no field {TRUTH!r} with the known pairs of nodes; its fields are: {shapes}")
    names = next((names for _, _, names in FILES.values() if set(names) <= set(fields)), None) or [
        name
        for name, value in fields.items()
        if name not in (TRUTH, PRIOR) and not name.endswith("feat") and _is_square(value)
    ]
    if len(names) != 2:
        raise BadInput(
            f"{path}: has {len(names)} square matrices where the adjacency matrices of two graphs belong; its fields are: "
            f"{shapes}"
        )
    graphs = [_graph(path, name, fields[name]) for name in names]
    return graphs, _pairs(path, names, graphs, fields[TRUTH])


def _is_square(matrix: np.ndarray | scipy.sparse.csc_array | None) -> bool:
    return matrix is not None and matrix.ndim == 2 and matrix.shape[0] == matrix.shape[1] > 1


def _graph(path: pathlib.Path, name: str, matrix: np.ndarray | scipy.sparse.csc_array | None) -> scipy.sparse.csr_array:
    if not _is_square(matrix):
        kind = "no real matrix" if matrix is None else f"of shape {matrix.shape}"
        raise BadInput(f"{path}: {name} is {kind}; give the square adjacency matrix of a graph")
    graph = scipy.sparse.csr_array(matrix).astype(np.float64)
    graph.sum_duplicates()
    if not (np.isfinite(graph.data) & (graph.data >= 0)).all():
        raise BadInput(f"{path}: {name} has a weight that is negative, NaN or infinite; give weights of at least 0")
    one_way = scipy.sparse.coo_array(graph - graph.T)
    one_way.eliminate_zeros()
    if one_way.nnz:
        i, j = int(one_way.coords[0][0]), int(one_way.coords[1][0])
        raise BadInput(
            f"{path}: {name} is not symmetric: ({i + 1}, {j + 1}) is {graph[i, j]:g}, ({j + 1}, {i + 1}) is {graph[j, i]:g}; "
            "give an undirected graph"
        )
    graph = scipy.sparse.csr_array(graph - scipy.sparse.diags_array(graph.diagonal()))
    graph.eliminate_zeros()
    if not graph.nnz:
        raise BadInput(f"{path}: {name} has no edges; give a graph that has some")
    return graph


def _pairs(
    path: pathlib.Path,
    names: list[str],
    graphs: list[scipy.sparse.csr_array],
    truth: np.ndarray | scipy.sparse.csc_array | None,
) -> np.ndarray:
    if not isinstance(truth, np.ndarray) or truth.ndim != 2 or truth.shape[1] != 2:
        kind = f"of shape {truth.shape}" if isinstance(truth, np.ndarray) else "no dense real matrix"
        raise BadInput(f"{path}: {TRUTH} is {kind}; give (pairs, 2) numbers of nodes")
    nodes = np.array([graph.shape[0] for graph in graphs])
    bad = ~((truth >= 1) & (truth <= nodes) & (truth == np.floor(truth)))
    if bad.any():
        row, side = np.argwhere(bad)[0]
        raise BadInput(
            f"{path}: row {row + 1} of {TRUTH} names node {truth[row, side]:g} of {names[side]}, which has the nodes 1 to "
            f"{nodes[side]}; give in column {side + 1} the nodes of {names[side]}, counted from 1"
        )
    pairs = truth.astype(np.int64) - 1
    for side, name in enumerate(names):
        node, often = np.unique(pairs[:, side], return_counts=True)
        if (often > 1).any():
            raise BadInput(
                f"{path}: {TRUTH} has node {node[often > 1][0] + 1} of {name} more than once; give each node one partner"
            )
    return pairs
