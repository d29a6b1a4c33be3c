"""Graphs as cost matrices: costs against their definitions, exact rates of noise, and real pairs from MATLAB files."""

import itertools
import math
import pathlib
import struct

import hypothesis
import hypothesis.strategies as st
import networkx
import numpy as np
import pytest
import scipy.io
import scipy.linalg
import scipy.sparse
import scipy.sparse.csgraph
import scipy.spatial.distance

from breakeven.contract import BadInput, Unsupported
from breakeven.datasets.gromov_wasserstein import _data_files
from breakeven.datasets.gromov_wasserstein import graph_pairs as graph_pairs_module
from breakeven.datasets.gromov_wasserstein._graph_costs import COSTS, costs_of_graph, is_told_apart, largest_component
from breakeven.datasets.gromov_wasserstein._matlab_files import read_matrices
from breakeven.datasets.gromov_wasserstein.graph_pairs import graph_pairs
from breakeven.datasets.gromov_wasserstein.graphs import KINDS, graphs
from breakeven.datasets.gromov_wasserstein.noisy_pairs import noisy_pairs
from breakeven.problems.gromov_wasserstein import PRECOMPUTED


def adjacency(graph) -> scipy.sparse.csr_array:
    return scipy.sparse.csr_array(networkx.to_scipy_sparse_array(graph, dtype=float))


def partners_costs(problem) -> tuple[np.ndarray, np.ndarray]:
    """The costs of x, and those of their partners, of points with one."""
    known = (problem.truth[0] >= 0).numpy()
    truth = problem.truth[0].numpy()[known]
    return problem.x.numpy()[np.ix_(known, known)], problem.y.numpy()[np.ix_(truth, truth)]


# Costs


def test_costs_are_what_they_are_called():
    graph = networkx.karate_club_graph()
    networkx.set_edge_attributes(graph, 1.0, "weight")
    matrix, n = adjacency(graph), len(graph)
    ways = dict(networkx.all_pairs_shortest_path_length(graph))
    assert costs_of_graph(matrix, "shortest_path").tolist() == [[ways[i][j] for j in range(n)] for i in range(n)]
    resistance = costs_of_graph(matrix, "resistance")
    for i, j in ((0, 33), (5, 6), (11, 26)):
        assert resistance[i, j] == pytest.approx(networkx.resistance_distance(graph, i, j), rel=1e-10)
    degrees = matrix.sum(axis=1)
    laplacian = np.eye(n) - matrix.toarray() / np.sqrt(np.outer(degrees, degrees))
    rows = scipy.linalg.expm(-laplacian)
    expected = scipy.spatial.distance.cdist(rows, rows, "sqeuclidean")
    assert costs_of_graph(matrix, "diffusion") == pytest.approx(expected, abs=1e-12)


def test_resistances_take_weights_for_conductances():
    wires = scipy.sparse.csr_array(np.array([[0, 2, 4], [2, 0, 0], [4, 0, 0]], dtype=float))
    assert costs_of_graph(wires, "resistance") == pytest.approx(
        np.array([[0, 0.5, 0.25], [0.5, 0, 0.75], [0.25, 0.75, 0]])
    )


@pytest.mark.parametrize("cost", ["resistance", "diffusion"])
def test_squared_distances_are_of_negative_type(cost):
    costs = costs_of_graph(adjacency(networkx.powerlaw_cluster_graph(60, 3, 0.2, seed=1)), cost)
    centred = np.eye(60) - 1 / 60
    assert np.linalg.eigvalsh(centred @ costs @ centred).max() < 1e-12
    assert (costs == costs.T).all()


def test_paths_in_pieces_are_told_and_the_largest_piece_is_found():
    pieces = adjacency(
        networkx.disjoint_union_all([networkx.path_graph(3), networkx.cycle_graph(4), networkx.path_graph(4)])
    )
    for cost in ("shortest_path", "resistance"):
        with pytest.raises(Unsupported, match=f"cost={cost}: the graph is not connected"):
            costs_of_graph(pieces, cost)
    assert largest_component(pieces).tolist() == [3, 4, 5, 6]
    assert np.isfinite(costs_of_graph(pieces, "diffusion")).all()


@hypothesis.given(
    st.integers(2, 6).flatmap(lambda n: st.lists(st.booleans(), min_size=n * (n - 1) // 2, max_size=n * (n - 1) // 2))
)
@hypothesis.settings(max_examples=60, deadline=None)
def test_no_automorphism_moves_a_node_that_is_told_apart(edges):
    n = round((1 + math.sqrt(1 + 8 * len(edges))) / 2)
    matrix = np.zeros((n, n))
    matrix[np.triu_indices(n, 1)] = edges
    matrix += matrix.T
    apart = is_told_apart(scipy.sparse.csr_array(matrix))
    for permutation in itertools.permutations(range(n)):
        if (matrix[np.ix_(permutation, permutation)] == matrix).all():
            assert not (apart & (np.array(permutation) != np.arange(n))).any()


def test_nodes_are_told_apart_where_colour_refinement_can():
    tadpole = adjacency(networkx.Graph([(0, 1), (1, 2), (2, 0), (2, 3), (3, 4)]))
    assert is_told_apart(tadpole).tolist() == [False, False, True, True, True]


# Random graphs


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("cost", COSTS)
def test_graphs_without_noise_are_the_same_graph(kind, cost):
    problem = graphs(kind=kind, points=50, cost=cost)
    assert problem.metric == PRECOMPUTED
    assert float(problem.x.max()) == 1
    left, right = partners_costs(problem)
    assert len(left) > 20
    assert left == pytest.approx(right, abs=1e-12)
    assert problem.reference_loss == pytest.approx(0, abs=1e-12)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("noise", [0.0, 0.013, 0.25])
def test_the_copy_has_all_edges_and_the_asked_number_of_others(kind, noise):
    problem = graphs(kind=kind, points=60, cost="adjacency", noise=noise)
    edges, more = (int(side.sum()) // 2 for side in (problem.x, problem.y))
    assert more - edges == round(noise * edges)
    left, right = partners_costs(problem)
    assert (right >= left).all()
    assert problem.reference_loss == pytest.approx(2 * (more - edges) / len(problem.x) ** 2, rel=1e-9)


def test_twins_have_no_truth():
    sizes = {"kind": "random_geometric", "points": 120, "cost": "adjacency"}
    problem = graphs(**sizes)
    matrix = problem.x.numpy() + np.eye(len(problem.x))
    _, which, often = np.unique(matrix, axis=0, return_inverse=True, return_counts=True)
    twins = often[which] > 1
    assert twins.any()
    assert (problem.truth[0].numpy()[twins] == -1).all()


@pytest.mark.parametrize(
    ("sizes", "said"),
    [
        ({"kind": "erdos_renyi"}, "a kind of barabasi_albert"),
        ({"points": 19}, "20 points or more"),
        ({"noise": -0.1}, "noise of at least 0"),
        ({"noise": 100.0}, "have no room for"),
        ({"cost": "geodesic"}, "cost=geodesic: there are adjacency"),
    ],
)
def test_graphs_that_do_not_exist_are_told(sizes, said):
    with pytest.raises(Unsupported, match=said):
        graphs(**{"points": 20, **sizes})


# Noisy pairs


@hypothesis.given(st.integers(4, 40), st.floats(0, 1), st.integers(0, 5))
@hypothesis.settings(max_examples=40, deadline=None)
def test_exactly_the_asked_share_of_pairs_is_wrong(points, rate, seed):
    problem = noisy_pairs(points=points, rate=rate, seed=seed)
    left, right = partners_costs(problem)
    wrong = np.triu(np.abs(left - right) > 1e-12, 1)
    assert wrong.sum() == round(rate * points * (points - 1) / 2)
    assert (right == right.T).all()
    assert right.max() <= left.max() + 1e-12
    assert (np.diag(right) == 0).all()


def test_wrong_pairs_are_uniform_and_grow_with_the_rate():
    wrong = {}
    for rate in (0.1, 0.3):
        left, right = partners_costs(noisy_pairs(points=200, rate=rate))
        wrong[rate] = np.triu(left != right, 1)
        values = right[wrong[rate]] / left.max()
        assert np.quantile(values, [0.25, 0.5, 0.75]) == pytest.approx([0.25, 0.5, 0.75], abs=0.05)
    assert (wrong[0.3] >= wrong[0.1]).all()


@hypothesis.given(st.integers(4, 40), st.floats(0, 1), st.integers(0, 5))
@hypothesis.settings(max_examples=40, deadline=None)
def test_exactly_the_asked_share_of_points_are_outliers(points, rate, seed):
    problem = noisy_pairs(points=points, rate=rate, seed=seed, kind="outliers")
    outliers = round(rate * points)
    assert int((problem.truth[0] == -1).sum()) == outliers
    left, right = partners_costs(problem)
    assert left == pytest.approx(right, abs=1e-12)
    assert math.isnan(problem.reference_loss) == (outliers > 0)
    assert problem.x.shape == problem.y.shape == (points, points)
    assert (problem.y_weights == 1 / points).all()


def test_shortcuts_make_ways_shorter_and_are_as_many_as_asked():
    module = noisy_pairs.__globals__
    points = np.random.default_rng(0).standard_normal((60, 3))
    distances = scipy.spatial.distance.cdist(points, points)
    graph = module["_neighbours"](distances)
    near = np.argsort(distances, axis=1)[:, 1:7]
    assert all(graph[i, j] == distances[i, j] > 0 for i in range(60) for j in near[i])
    for rate in (0.0, 0.03, 0.5, 1.0):
        noisy = module["_with_shortcuts"](graph, rate, np.random.default_rng(1))
        added = (noisy > 0) & (graph == 0)
        assert (noisy == noisy.T).all()
        assert added.sum() // 2 == round(rate * (graph > 0).sum() / 2)
        assert np.isin(noisy[added], graph[graph > 0]).all()
        assert (noisy[graph > 0] == graph[graph > 0]).all()
    left, right = partners_costs(noisy_pairs(kind="edges", rate=0.1, points=60))
    assert (right <= left + 1e-12).all()
    assert (right < left - 1e-9).any()
    far = np.concatenate([points[:10], points[10:20] + 100])
    pieces = module["_neighbours"](scipy.spatial.distance.cdist(far, far))
    assert scipy.sparse.csgraph.connected_components(pieces, return_labels=False) == 1


@pytest.mark.parametrize(
    ("sizes", "said"),
    [
        ({"kind": "nodes"}, "a kind of pairs, edges, outliers"),
        ({"points": 3}, "4 points or more"),
        ({"rate": 1.1}, "a rate from 0 to 1"),
        ({"rate": math.nan}, "a rate from 0 to 1"),
        ({"kind": "edges", "points": 5, "rate": 0.5}, "have no room for 5 more"),
    ],
)
def test_noise_that_does_not_exist_is_told(sizes, said):
    with pytest.raises(Unsupported, match=said):
        noisy_pairs(**sizes)


# Real pairs

PATH = np.diag(np.ones(4), 1) + np.diag(np.ones(4), -1)
STAR = np.zeros((4, 4))
STAR[0, 1:] = STAR[1:, 0] = 1


@pytest.fixture
def own_file(tmp_path):
    """Writes a file with a path of 5 nodes and a star of 4, whose fields can be replaced."""

    def write(*, compressed: bool = False, **fields) -> pathlib.Path:
        both = {
            "trail": PATH,
            "hub": STAR.astype(np.uint8),
            "gnd": np.array([[2, 1], [4, 3]], dtype=np.uint16),
            **fields,
        }
        both = {name: value for name, value in both.items() if value is not None}
        scipy.io.savemat(tmp_path / "own.mat", both, do_compression=compressed)
        return tmp_path / "own.mat"

    return write


def test_a_file_s_graphs_and_pairs_are_read(own_file):
    extra = {"H": np.ones((4, 5)), "trail_node_feat": np.ones((5, 5))}
    problem = graph_pairs(file=str(own_file(**extra, hub=scipy.sparse.csc_array(STAR + np.eye(4)))))
    assert problem.x.tolist() == PATH.tolist()
    assert problem.y.tolist() == STAR.tolist()  # without its loops
    assert problem.truth.tolist() == [[-1, 0, -1, 2, -1]]
    assert math.isnan(problem.reference_loss)
    assert problem.name == "own_adjacency"


def test_a_full_truth_has_a_loss(own_file):
    ring = np.roll(np.eye(4), 1, axis=0) + np.roll(np.eye(4), -1, axis=0)
    pairs = np.array([[k + 1, k + 1] for k in range(4)], dtype=float)
    problem = graph_pairs(file=str(own_file(trail=ring, gnd=pairs)))
    assert problem.reference_loss == pytest.approx(np.mean((ring - STAR) ** 2))


def test_costs_of_paths_keep_the_largest_piece_and_its_pairs(own_file):
    pieces = np.zeros((7, 7))
    pieces[2:, 2:] = PATH
    pieces[0, 1] = pieces[1, 0] = 1
    pairs = np.array([[1, 1], [3, 2], [7, 4]])
    problem = graph_pairs(file=str(own_file(trail=pieces, gnd=pairs)), cost="shortest_path")
    assert (problem.x * 4).tolist() == [[abs(i - j) for j in range(5)] for i in range(5)]
    assert problem.truth.tolist() == [[1, -1, -1, -1, 3]]
    small = np.zeros((6, 6))
    small[:4, :4], small[4, 5], small[5, 4] = STAR, 1, 1
    problem = graph_pairs(file=str(own_file(hub=small, gnd=np.array([[1, 5], [2, 3]]))), cost="resistance")
    assert problem.truth.tolist() == [[-1, 2, -1, -1, -1]]
    problem = graph_pairs(file=str(own_file(hub=small, gnd=np.array([[1, 5]]))), cost="resistance")
    assert problem.truth.shape == (0, 5)


LOPSIDED = PATH.copy()
LOPSIDED[1, 0] = 0


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"gnd": None}, r"no field 'gnd' with the known pairs of nodes; its fields are: trail \(5, 5\), hub \(4, 4\)"),
        ({"hub": None}, "has 1 square matrices where the adjacency matrices of two graphs belong"),
        ({"third": PATH}, "has 3 square matrices"),
        ({"trail": PATH[:, :4]}, "has 1 square matrices"),
        ({"trail": LOPSIDED}, r"trail is not symmetric: \(1, 2\) is 1, \(2, 1\) is 0; give an undirected graph"),
        ({"trail": -PATH}, "trail has a weight that is negative"),
        ({"trail": PATH * np.nan}, "trail has a weight that is negative, NaN"),
        ({"trail": PATH * 1j}, r"has 1 square matrices .* its fields are: trail \(no real matrix\), hub"),
        ({"online": PATH[:, :4], "offline": STAR}, r"online is of shape \(5, 4\); give the square adjacency matrix"),
        ({"online": {"a": 1}, "offline": STAR}, "online is no real matrix; give the square adjacency matrix"),
        ({"trail": np.eye(5)}, "trail has no edges"),
        (
            {"gnd": np.array([[0, 1]])},
            "row 1 of gnd names node 0 of trail, which has the nodes 1 to 5; give in column 1",
        ),
        ({"gnd": np.array([[1, 1], [2, 5]])}, "row 2 of gnd names node 5 of hub, which has the nodes 1 to 4"),
        ({"gnd": np.array([[1.5, 1]])}, "row 1 of gnd names node 1.5"),
        ({"gnd": np.array([[np.nan, 1]])}, "row 1 of gnd names node nan"),
        ({"gnd": np.array([[1, 1], [1, 2]])}, "gnd has node 1 of trail more than once"),
        ({"gnd": np.array([[1, 2], [2, 2]])}, "gnd has node 2 of hub more than once"),
        ({"gnd": np.array([[1, 2, 3]])}, r"gnd is of shape \(1, 3\); give \(pairs, 2\)"),
        ({"gnd": "words"}, "gnd is no dense real matrix; give"),
    ],
)
def test_what_is_wrong_with_a_file_is_told(own_file, fields, said):
    file = own_file(**fields)
    with pytest.raises(BadInput, match=said) as told:
        graph_pairs(file=str(file))
    assert str(file) in str(told.value)


def test_files_that_are_none_are_told(tmp_path, own_file):
    whole = own_file().read_bytes()
    later = b"MATLAB 7.3 MAT-file".ljust(124) + b"\x00\x02IM"
    for content, said in [
        (b"", "it has no header of one"),
        (b"hello", "it has no header of one"),
        (later, "it is of another level, such as MATLAB 7.3; save it with -v7"),
        (whole[:132], "it is cut off within a tag"),
        (whole[:200], r"it is cut off: \d+ bytes where \d+ are announced"),
        (whole[:-9], "it is cut off"),
        (whole[:128], r"no field 'gnd' with the known pairs of nodes; its fields are: none"),
    ]:
        (tmp_path / "broken.mat").write_bytes(content)
        with pytest.raises(BadInput, match=said):
            graph_pairs(file=str(tmp_path / "broken.mat"))
    with pytest.raises(BadInput, match="there is no such file"):
        graph_pairs(file=str(tmp_path / "missing.mat"))
    with pytest.raises(BadInput, match="read by the data set `clouds`"):
        graph_pairs(file=str(tmp_path / "mesh.ply"))


@pytest.mark.parametrize("compressed", [False, True])
def test_matrices_are_read_as_scipy_reads_them(tmp_path, compressed):
    rng = np.random.default_rng(0)
    written = {
        **{np.dtype(kind).name: rng.integers(0, 100, (3, 4)).astype(kind) for kind in "bBhHiIqQfd"},
        "logical": rng.random((2, 3)) < 0.5,
        "cube": rng.random((2, 3, 4)),
        "empty": np.zeros((0, 2)),
        "a_long_name_of_a_single_number": 7.0,
        "sparse": scipy.sparse.random_array((5, 6), density=0.3, rng=rng, format="csc"),
        "sparse_logical": scipy.sparse.csc_array(np.eye(3, 4, dtype=bool)),
        "no_entries": scipy.sparse.csc_array((3, 3)),
    }
    others = {
        "text": "words",
        "complex": np.ones((2, 2)) * 1j,
        "structure": {"a": 1},
        "cell": np.array([[1], ["a"]], object),
    }
    scipy.io.savemat(tmp_path / "a.mat", written | others, do_compression=compressed)
    found, expected = read_matrices(tmp_path / "a.mat"), scipy.io.loadmat(tmp_path / "a.mat")
    assert list(found) == [*written, *others]
    for name in others:
        assert found[name] is None
    for name in written:
        mine, theirs = (x.toarray() if scipy.sparse.issparse(x) else x for x in (found[name], expected[name]))
        assert mine.shape == theirs.shape, name
        assert (mine == theirs).all(), name


def test_files_of_the_other_byte_order_are_read(tmp_path):
    def element(kind: int, content: bytes) -> bytes:
        return struct.pack(">II", kind, len(content)) + content.ljust(-(-len(content) // 8) * 8, b"\0")

    parts = [
        (6, struct.pack(">II", 6, 0)),
        (5, struct.pack(">ii", 2, 1)),
        (1, b"x"),
        (3, struct.pack(">hh", 1, 258)),
    ]
    variable = element(14, b"".join(element(*part) for part in parts))
    (tmp_path / "a.mat").write_bytes(b" " * 124 + b"\x01\x00MI" + variable)
    assert read_matrices(tmp_path / "a.mat")["x"].tolist() == [[1], [258]]
    assert scipy.io.loadmat(tmp_path / "a.mat")["x"].tolist() == [[1], [258]]


@hypothesis.given(st.data(), st.booleans(), st.booleans())
@hypothesis.settings(
    max_examples=150, deadline=None, suppress_health_check=[hypothesis.HealthCheck.function_scoped_fixture]
)
def test_a_damaged_file_is_read_or_told(own_file, data, sparse, compressed):
    file = own_file(compressed=compressed, **({"trail": scipy.sparse.csc_array(PATH)} if sparse else {}))
    content = bytearray(file.read_bytes())
    for _ in range(data.draw(st.integers(1, 4))):
        content[data.draw(st.integers(0, len(content) - 1))] = data.draw(st.integers(0, 255))
    file.write_bytes(bytes(content))
    problem, said = None, ""
    try:
        problem = graph_pairs(file=str(file))
    except BadInput as error:
        said = str(error)
    assert str(file) in said or problem is not None


def test_an_instance_or_a_file_is_asked_for():
    for asked in ({}, {"instance": "douban", "file": "own.mat"}):
        with pytest.raises(BadInput, match="an instance or a file"):
            graph_pairs(**asked)
    with pytest.raises(BadInput, match="no graph pair is called 'facebook'; there are: acm_dblp"):
        graph_pairs(instance="facebook")
    with pytest.raises(Unsupported, match="cost=hops: there are adjacency"):
        graph_pairs(instance="douban", cost="hops")


@pytest.fixture
def elsewhere(tmp_path, monkeypatch, own_file):
    """A server, which is a folder, with one instance; an empty cache; and no data at hand."""
    server = tmp_path / "server"
    server.mkdir()
    own_file().rename(server / "small.mat")
    checksum = _data_files._sha256((server / "small.mat").read_bytes())
    monkeypatch.setenv("BREAKEVEN_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(_data_files, "_folders", lambda: [tmp_path / "data", _data_files.downloads()])
    monkeypatch.setattr(graph_pairs_module, "_RAW", f"{server.as_uri()}/")
    monkeypatch.setitem(graph_pairs_module.FILES, "small", ("small.mat", checksum, ("trail", "hub")))
    return tmp_path


def test_an_instance_is_downloaded_once(elsewhere):
    assert graph_pairs(instance="small").truth.tolist() == [[-1, 0, -1, 2, -1]]
    (elsewhere / "server" / "small.mat").unlink()
    assert graph_pairs(instance="small").name == "small_adjacency"
    assert [file.name for file in (elsewhere / "cache").rglob("*.*")] == ["small.mat"]


def test_without_a_network_it_is_told_what_to_put_where(elsewhere):
    (elsewhere / "server" / "small.mat").unlink()
    with pytest.raises(Unsupported, match=r"small\.mat is not on this machine, and cannot be downloaded .* put small\.mat of "
                       rf"https://github\.com/.* into {elsewhere}/data \(or set BREAKEVEN_DATA"):  # fmt: skip
        graph_pairs(instance="small")


def test_another_file_of_the_same_name_is_refused(elsewhere):
    whole = (elsewhere / "server" / "small.mat").read_bytes()
    (elsewhere / "server" / "small.mat").write_bytes(b"changed")
    with pytest.raises(Unsupported, match="its download has another SHA-256"):
        graph_pairs(instance="small")
    (elsewhere / "data" / "deep").mkdir(parents=True)
    (elsewhere / "data" / "small.mat").write_bytes(b"changed")
    with pytest.raises(BadInput, match=r"data/small\.mat: is not the small\.mat of https"):
        graph_pairs(instance="small")
    (elsewhere / "data" / "deep" / "small.mat").write_bytes(whole)
    assert graph_pairs(instance="small").name == "small_adjacency"


@pytest.mark.parametrize(
    ("instance", "sizes", "known", "shared"),
    [
        ("phone_email", (1000, 1003), 800, 0.10),
        ("douban", (3906, 1118), 1118, 0.61),
        ("cora", (2708, 2708), 2708, 0.71),
    ],
)
def test_real_pairs_share_edges_where_they_are_at_hand(instance, sizes, known, shared):
    name, checksum, _ = graph_pairs_module.FILES[instance]
    if _data_files.find(name, checksum, graph_pairs_module.COLLECTION) is None:
        pytest.skip(f"{name} is not on this machine")
    problem = graph_pairs(instance=instance)
    assert (len(problem.x), len(problem.y)) == sizes
    left, right = partners_costs(problem)
    assert len(left) == known
    # Chance would have them share as many of these edges as the graphs are dense, a few per cent at most.
    assert (left * right).sum() / left.sum() > shared
