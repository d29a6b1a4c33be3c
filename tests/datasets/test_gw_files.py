"""Meshes and point clouds: every format as another library reads it, and every broken file told."""

import math
import pathlib
import struct

import hypothesis
import hypothesis.strategies as st
import numpy as np
import pytest
import trimesh

from breakeven.contract import BadInput, Unsupported
from breakeven.datasets.gromov_wasserstein import _data_files
from breakeven.datasets.gromov_wasserstein import shapes as shapes_module
from breakeven.datasets.gromov_wasserstein._mesh_files import read_points
from breakeven.datasets.gromov_wasserstein.clouds import clouds
from breakeven.datasets.gromov_wasserstein.shapes import shapes

POINTS = np.array([[0.0, 0, 0], [1, 0, 0], [0, 2, 0], [0, 0, 3.5]])
FACES = np.array([[0, 2, 1], [0, 1, 3], [1, 2, 3], [2, 0, 3]])
BODY = "0 0 0\n1 0 0\n0 2 0\n0 0 3.5\n"
FACE_LINES = "3 0 2 1\n3 0 1 3\n3 1 2 3\n3 2 0 3\n"
PLY = (
    "ply\nformat ascii 1.0\ncomment of four faces\nelement vertex 4\nproperty float x\nproperty double y\nproperty float32 z\n"
    f"element face 4\nproperty list uchar int vertex_indices\nend_header\n{BODY}{FACE_LINES}"
)


@pytest.fixture
def written(tmp_path):
    def write(name: str, content: str | bytes) -> pathlib.Path:
        file = tmp_path / name
        file.write_bytes(content if isinstance(content, bytes) else content.encode())
        return file

    return write


# Formats


@pytest.mark.parametrize("name", ["mesh.ply", "text.ply", "mesh.off", "mesh.obj", "mesh.stl", "text.stl"])
def test_what_another_library_writes_is_read(tmp_path, name):
    sphere = trimesh.creation.icosphere(subdivisions=1)
    text = name.startswith("text")
    options = {"encoding": "ascii"} if name == "text.ply" else {"file_type": "stl_ascii"} if name == "text.stl" else {}
    content = sphere.export(**({"file_type": name.partition(".")[2]} | options))
    (tmp_path / name).write_bytes(content if isinstance(content, bytes) else content.encode())
    points = read_points(tmp_path / name)
    if name.endswith(".stl"):  # which lists corners by face
        assert len(points) == 42
        points, expected = (np.array(sorted(map(tuple, some.round(5)))) for some in (points, sphere.vertices))
    else:
        expected = sphere.vertices
    assert points == pytest.approx(expected, abs=1e-6 if text or name.endswith((".ply", ".stl")) else 1e-8)


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("a.ply", PLY),
        ("windows.ply", PLY.replace("\n", "\r\n")),
        ("a.off", f"OFF\n# a comment\n4 4 6\n{BODY}{FACE_LINES}"),
        ("one_line.off", f"OFF 4 4 6\n{BODY}{FACE_LINES}"),
        ("modelnet.off", f"OFF4 4 0\n{BODY}{FACE_LINES}"),
        ("cloud.off", f"OFF\n\n4 0 0\n{BODY}"),
        ("colours.off", "COFF\n4 0 0\n" + BODY.replace("\n", " 255 0 0 255\n")),
        ("a.obj", "# four\no thing\n" + "".join(f"v {row}\n" for row in BODY.splitlines()) + "vn 0 0 1\nf 1 2 3\n"),
        ("A.OBJ", "".join(f"v\t{row} 1.0 # corner\n" for row in BODY.splitlines())),
        ("text.vtk", f"# vtk DataFile Version 3.0\nfour\nASCII\nDATASET POLYDATA\nPOINTS 4 float\n{BODY}POLYGONS 1 4\n3 0 1 2\n"),
        ("binary.vtk", b"# vtk DataFile Version 4.2\nfour\nBINARY\nDATASET POLYDATA\nPOINTS 4 double\n"
                       + POINTS.astype(">f8").tobytes() + b"\n"),
    ],
)  # fmt: skip
def test_each_format_is_read(written, name, content):
    assert read_points(written(name, content)).tolist() == POINTS.tolist()


@pytest.mark.parametrize(("order", "name"), [("<", "binary_little_endian"), (">", "binary_big_endian")])
def test_binary_ply_with_other_elements_and_properties_is_read(written, order, name):
    header = (
        f"ply\nformat {name} 1.0\nelement camera 2\nproperty short id\nelement vertex 4\nproperty uchar red\nproperty double x\n"
        "property double y\nproperty float quality\nproperty double z\nelement face 1\nproperty list uchar int v\nend_header\n"
    )
    vertices = b"".join(struct.pack(f"{order}Bddfd", 200, x, y, 0.5, z) for x, y, z in POINTS)
    content = header.encode() + struct.pack(f"{order}hh", 7, 8) + vertices + struct.pack(f"{order}Biii", 3, 0, 1, 2)
    assert read_points(written("a.ply", content)).tolist() == POINTS.tolist()


@pytest.mark.parametrize("kind", [np.float64, np.float32, np.float16, np.int64, np.uint8, ">f8", ">i2"])
def test_arrays_of_any_numbers_become_float64(tmp_path, kind):
    array = np.array([[1, 2], [3, 4], [5, 60]], dtype=kind)
    np.save(tmp_path / "a.npy", array)
    points = read_points(tmp_path / "a.npy")
    assert points.dtype == np.float64
    assert points.tolist() == [[1, 2], [3, 4], [5, 60]]
    np.save(tmp_path / "a.npy", np.asfortranarray(array))
    assert read_points(tmp_path / "a.npy").tolist() == points.tolist()


def test_points_that_occur_twice_count_once_in_their_first_order(tmp_path):
    np.save(tmp_path / "a.npy", np.array([[2.0, 1], [0, 0], [2, 1], [-0.0, 0], [1, 5]]))
    assert read_points(tmp_path / "a.npy").tolist() == [[2, 1], [0, 0], [1, 5]]


# Broken files

BROKEN = [
    ("a.ply", "", "no header from 'ply' to 'end_header'"),
    ("a.ply", "solid\n", "no header from 'ply'"),
    ("a.ply", PLY.partition("end_header")[0], "no header from 'ply'"),
    ("a.ply", PLY.partition("end_header")[0] + "end_header", "no header from 'ply'"),
    ("a.ply", PLY[:-30], "is cut off: 5 lines, and its header announces 8"),
    ("a.ply", PLY.replace("0 2 0", "0 two 0"), "line 13 has '0 two 0' where 3 numbers belong"),
    ("a.ply", PLY.replace("0 2 0", "0"), "line 13 has '0' where 3 numbers belong"),
    ("a.ply", PLY.replace("0 2 0", "0 nan 0"), r"point 2 is \[0.0, nan, 0.0\], not finite"),
    ("a.ply", PLY.replace("vertex 4", "vertex four"), "line 4 of its header is 'element vertex four'"),
    ("a.ply", PLY.replace("vertex 4", "vertex -4"), "line 4 of its header"),
    ("a.ply", PLY.replace("vertex 4", "vertex"), "line 4 of its header"),
    ("a.ply", PLY.replace("double y", "quad y"), "line 6 of its header is 'property quad y'"),
    ("a.ply", PLY.replace("double y", "double x"), "line 6 of its header is 'property double x'"),
    ("a.ply", PLY.replace("double y", "double w"), "has vertices of x, w, z, without x, y and z"),
    ("a.ply", PLY.replace("element vertex", "element point"), "no element called 'vertex'"),
    ("a.ply", PLY.replace("ascii", "utf8"), "format 'utf8', which PLY does not have"),
    ("a.ply", PLY.replace("vertex 4", "vertex 0"), "has no points"),
    (
        "a.ply",
        PLY.replace("property float x", "property list uchar int n\nproperty float x"),
        "has lists in or before its vertices",
    ),
    ("a.ply", PLY.replace("ascii", "binary_little_endian"), r"is cut off: \d+ bytes, and its header announces 68"),
    ("a.off", "", "does not begin with 'OFF'"),
    ("a.off", f"4 4 6\n{BODY}", "does not begin with 'OFF'"),
    ("a.off", f"4OFF\n4 4 6\n{BODY}", "does not begin with 'OFF'"),
    ("a.off", "OFF BINARY\n4 4 6\n", "does not begin with 'OFF' as text files"),
    ("a.off", "OFF\n", "no line with the numbers of points and faces"),
    ("a.off", f"OFF\nfour\n{BODY}", "no line with the numbers"),
    ("a.off", f"OFF\n4 4 6\n{BODY}", "is cut off: 4 lines of points and faces, and its header announces 8"),
    ("a.off", "OFF\n1 0 0\n0 0\n", "line 3 has '0 0' where 3 numbers belong"),
    ("a.off", "OFF\n0 0 0\n", "has no points"),
    ("a.obj", "", "has no points"),
    ("a.obj", "hello world\n", "has no points"),
    ("a.obj", "v 0 0 0\nv 1 0\n", "line 2 has '1 0' where 3 numbers belong"),
    ("a.obj", "v 0 0 inf\n", r"point 0 is \[0.0, 0.0, inf\]"),
    ("a.stl", "", "is no STL: it does not begin with 'solid'"),
    ("a.stl", b"\0" * 80 + struct.pack("<I", 5) + b"\0" * 100, "has 184 bytes where 5 facets take 334"),
    ("a.stl", b"\0" * 80 + struct.pack("<I", 0), "has no points"),
    (
        "a.stl",
        "solid a\nfacet normal 0 0 1\nouter loop\nvertex 0 0 0\n",
        "is cut off: line 4, its last one, is 'vertex 0 0 0'",
    ),
    ("a.stl", "solid a\nvertex 0 0 x\nendsolid a\n", "line 2 has '0 0 x' where 3 numbers belong"),
    ("a.stl", "solid a\nendsolid a\n", "has no points"),
    ("a.vtk", "", "is no legacy VTK file"),
    (
        "a.vtk",
        "# vtk DataFile Version 3.0\nx\nASCII\nPOINTS 4 float\n0 0 0\n",
        "is cut off: 3 coordinates, and its header",
    ),
    ("a.vtk", "# vtk DataFile Version 3.0\nx\nASCII\nPOINTS 1 float\n0 0 x\n", "a coordinate that is no number"),
    ("a.vtk", "# vtk DataFile Version 3.0\nx\nBINARY\nPOINTS 4 float\n0 0 0\n", "is cut off: 6 bytes of points"),
    ("a.npy", "", "is no complete .npy file"),
    ("a.npy", "hello, this is a text", "is no complete .npy file"),
    ("a.txt", "0 0 0\n", "the ending does not say that it holds points; give one of .ply, .off"),
    ("a.mat", "", "graph pairs are read by the data set `graph_pairs`"),
    ("none", "", "the ending does not say"),
]


@pytest.mark.parametrize(("name", "content", "said"), BROKEN)
def test_what_is_wrong_with_a_file_and_where_is_told(written, name, content, said):
    file = written(name, content)
    with pytest.raises(BadInput, match=said) as told:
        clouds(file=str(file))
    assert str(file) in str(told.value)


@pytest.mark.parametrize(
    ("array", "said"),
    [
        (np.zeros(3), r"has shape \(3,\), not \(points, dimension\)"),
        (np.zeros((2, 2, 2)), r"has shape \(2, 2, 2\)"),
        (np.float64(1), r"has shape \(\)"),
        (np.zeros((0, 3)), "has no points"),
        (np.zeros((3, 0)), "has no points"),
        (np.array([[1.0, np.nan]]), r"point 0 is \[1.0, nan\], not finite"),
        (np.array([[1j, 2]]), "holds complex128, not real numbers"),
        (np.array([["a", "b"]]), "holds <U1, not real numbers"),
        (np.array([[True, False]]), "holds bool, not real numbers"),
    ],
)
def test_arrays_that_are_no_points_are_told(tmp_path, array, said):
    np.save(tmp_path / "a.npy", array)
    with pytest.raises(BadInput, match=said):
        clouds(file=str(tmp_path / "a.npy"))


def test_pickled_objects_are_never_loaded(tmp_path):
    class Trap:
        def __reduce__(self):
            return pathlib.Path.touch, (tmp_path / "sprung",)

    np.save(tmp_path / "a.npy", np.array([[Trap()]], dtype=object), allow_pickle=True)
    with pytest.raises(BadInput, match="Object arrays cannot be loaded"):
        clouds(file=str(tmp_path / "a.npy"))
    assert not (tmp_path / "sprung").exists()


def test_what_is_no_file_is_told(tmp_path):
    (tmp_path / "folder.ply").mkdir()
    for name in ("missing.ply", "folder.ply"):
        with pytest.raises(BadInput, match=f"{name}: there is no such file"):
            clouds(file=str(tmp_path / name))


@hypothesis.given(st.data())
@hypothesis.settings(
    max_examples=150, deadline=None, suppress_health_check=[hypothesis.HealthCheck.function_scoped_fixture]
)
def test_a_damaged_file_is_read_or_told(tmp_path, data):
    mesh = trimesh.Trimesh(POINTS, FACES, process=False)
    ending = data.draw(st.sampled_from(["ply", "off", "obj", "stl", "npy", "vtk"]))
    file = tmp_path / f"a.{ending}"
    if ending == "npy":
        np.save(file, POINTS)
    elif ending == "vtk":
        file.write_bytes(b"# vtk DataFile Version 4.2\nx\nBINARY\nPOINTS 4 double\n" + POINTS.astype(">f8").tobytes())
    else:
        file.write_bytes(PLY.encode() if data.draw(st.booleans()) and ending == "ply" else _bytes(mesh, ending))
    content = bytearray(file.read_bytes())
    if data.draw(st.booleans()):
        content = content[: data.draw(st.integers(0, len(content)))]
    for _ in range(data.draw(st.integers(0, 4)) if content else 0):
        content[data.draw(st.integers(0, len(content) - 1))] = data.draw(st.integers(0, 255))
    file.write_bytes(bytes(content))
    points, said = None, ""
    try:
        points = read_points(file)
    except BadInput as error:
        said = str(error)
    if points is None:
        assert str(file) in said
    else:
        assert points.dtype == np.float64
        assert points.ndim == 2
        assert np.isfinite(points).all()


def _bytes(mesh, ending: str) -> bytes:
    content = mesh.export(file_type=ending)
    return content if isinstance(content, bytes) else content.encode()


# One's own clouds


@pytest.fixture
def bunch(tmp_path):
    np.save(tmp_path / "bunch.npy", 5 + np.random.default_rng(0).standard_normal((60, 3)))
    return tmp_path / "bunch.npy"


def test_a_file_against_its_copy_has_a_truth(bunch):
    problem = clouds(file=str(bunch), noise=0.0)
    assert problem.name == "bunch_60_sqeuclidean"
    x, y = (costs.numpy() for costs in problem.costs())
    truth = problem.truth[0].numpy()
    assert y[np.ix_(truth, truth)] == pytest.approx(x, abs=1e-12)
    assert float(problem.x.norm(dim=1).max()) == pytest.approx(1)
    assert problem.reference_loss == pytest.approx(0, abs=1e-12)
    assert clouds(file=str(bunch), points=20).x.shape == (20, 3)


def test_two_files_keep_their_difference_in_size(bunch, tmp_path):
    np.save(tmp_path / "large.npy", 3 * np.load(bunch)[:50, :2])
    problem = clouds(file=str(bunch), other=str(tmp_path / "large.npy"), metric="euclidean")
    assert problem.name == "bunch_large_60_euclidean"
    assert problem.x.shape == (60, 3)
    assert problem.y.shape == (50, 2)
    own, other = np.load(bunch), np.load(tmp_path / "large.npy")
    radius = np.linalg.norm(own - own.mean(axis=0), axis=1).max()
    assert problem.y.numpy() == pytest.approx((other - other.mean(axis=0)) / radius)
    assert problem.truth.shape == (0, 60)
    assert math.isnan(problem.reference_loss)


def test_a_symmetric_file_has_all_its_symmetries(written):
    corners = "".join(f"v {x} {y} {z}\n" for x in (0, 1) for y in (0, 1) for z in (0, 1.0000001))
    assert clouds(file=str(written("box.obj", corners))).truth.shape == (48, 8)
    assert clouds(file=str(written("box.obj", corners.replace("1.0000001", "1.5")))).truth.shape == (16, 8)
    one = clouds(file=str(written("one.obj", "v 1 2 3\n")))
    assert one.truth.tolist() == [[0]]


@pytest.mark.parametrize(
    ("sizes", "said"),
    [
        ({"points": 61}, "bunch.npy has 60 points, 61 asked"),
        ({"points": -1}, "1 point or more, or 0 for all"),
        ({"metric": "precomputed"}, "one of sqeuclidean, euclidean"),
        ({"sampling": "poisson"}, "one of farthest, random"),
        ({"noise": -1.0}, "noise of at least 0"),
    ],
)
def test_clouds_that_do_not_exist_are_told(bunch, sizes, said):
    with pytest.raises(Unsupported, match=said):
        clouds(file=str(bunch), **sizes)


# Shapes of PyVista


@pytest.fixture
def pyvista(tmp_path, monkeypatch, written):
    """A package of that name with one shape, which must not be imported, and no data at hand."""
    examples = tmp_path / "site" / "pyvista" / "examples"
    examples.mkdir(parents=True)
    (examples.parent / "__init__.py").write_text("raise AssertionError('imported')")
    (examples / "four.ply").write_text(PLY)
    monkeypatch.syspath_prepend(tmp_path / "site")
    monkeypatch.setattr(_data_files, "_folders", lambda: [tmp_path / "data"])
    monkeypatch.setattr(shapes_module, "FILES", {"four": ("four.ply", _data_files._sha256(PLY.encode()))})
    return examples


def test_a_shape_is_read_without_importing_its_package(pyvista):
    problem = shapes(shape="four", points=4, noise=0.0)
    assert sorted(problem.truth[0].tolist()) == [0, 1, 2, 3]
    assert problem.name == "four_copy_4_sqeuclidean"
    pair = shapes(shape="four", points=3, pair="subsamples", sampling="random")
    assert pair.truth.shape == (0, 3)
    assert math.isnan(pair.reference_loss)


def test_a_shape_may_lie_in_a_folder_of_data_instead(pyvista, tmp_path):
    (tmp_path / "data").mkdir()
    (pyvista / "four.ply").rename(tmp_path / "data" / "four.ply")
    assert shapes(shape="four", points=4).x.shape == (4, 3)
    (tmp_path / "data" / "four.ply").unlink()
    with pytest.raises(Unsupported, match=r"four\.ply is not on this machine: python -m pip install --no-deps pyvista"):
        shapes(shape="four", points=4)


def test_another_shape_of_the_same_name_is_refused(pyvista):
    (pyvista / "four.ply").write_text(PLY.replace("3.5", "3.6"))
    with pytest.raises(BadInput, match=r"is not the four\.ply of https://github\.com/pyvista"):
        shapes(shape="four", points=4)


@pytest.mark.parametrize(
    ("sizes", "said"),
    [
        ({"shape": "bunny"}, "a shape of four"),
        ({"points": 5}, "four has 4 points, 5 asked"),
        ({"pair": "both"}, "a pair of copy, subsamples"),
    ],
)
def test_shapes_that_do_not_exist_are_told(pyvista, sizes, said):
    with pytest.raises(Unsupported, match=said):
        shapes(**{"shape": "four", "points": 4, **sizes})


@pytest.mark.parametrize(
    ("shape", "vertices", "symmetries"),
    [("airplane", 1335, 2), ("ant", 486, 1), ("globe", 540, 1), ("nut", 523, 1), ("sphere", 422, 1)],
)
def test_real_shapes_are_whole_where_they_are_at_hand(shape, vertices, symmetries):
    try:
        problem = shapes(shape=shape, points=vertices)
    except Unsupported as missing:
        pytest.skip(str(missing))
    assert problem.truth.shape == (symmetries, vertices)
    assert float(problem.x.norm(dim=1).max()) == pytest.approx(1)
    with pytest.raises(Unsupported, match=f"{shape} has {vertices} points"):
        shapes(shape=shape, points=vertices + 1)
