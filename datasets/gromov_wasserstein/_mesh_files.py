"""The points of mesh and point-cloud files.

Readers of meshes forgive: they return part of a file that was cut off, or an empty scene for what they cannot read. A
benchmark needs all points or none, and nothing but points.
"""

import math
import os
import pathlib
import re
import struct
import typing
from collections.abc import Callable

import numpy as np

from breakeven.contract import BadInput

_PLY_TYPES = {
    "char": "i1", "uchar": "u1", "short": "i2", "ushort": "u2", "int": "i4", "uint": "u4", "float": "f4", "double": "f8",
    "int8": "i1", "uint8": "u1", "int16": "i2", "uint16": "u2", "int32": "i4", "uint32": "u4", "float32": "f4",
    "float64": "f8",
}  # fmt: skip


class _Broken(Exception):
    """What is wrong with a file, and where."""


def read_points(path: str | os.PathLike) -> np.ndarray:
    """The distinct points of a file, (n, d) float64, in the order in which they come first; faces and colours are ignored.

    The ending says what it is: ``.ply``, ``.off``, ``.obj``, ``.stl`` or ``.vtk`` (the legacy format), text or binary where
    the format has both, or ``.npy``, an (n, d) array of numbers. Raises `BadInput`, which names the file and the place, for
    one that does not exist, has another ending or no points, is cut off, or holds NaN or infinite coordinates.
    """
    path = pathlib.Path(path)
    reader = _READERS.get(path.suffix.lower())
    if reader is None:
        hint = "; graph pairs are read by the data set `graph_pairs`" if path.suffix.lower() == ".mat" else ""
        raise BadInput(f"{path}: the ending does not say that it holds points; give one of {', '.join(_READERS)}{hint}")
    if not path.is_file():
        raise BadInput(f"{path}: there is no such file; give the path of a mesh or a point cloud")
    try:
        points = reader(path)
    except OSError as error:
        raise BadInput(
            f"{path}: cannot be read ({error.strerror or error}); give a file that is yours to read"
        ) from error
    except _Broken as error:
        raise BadInput(f"{path}: {error}; correct it, or copy or export it again") from error
    if not points.size:
        raise BadInput(f"{path}: has no points; give a file with at least one")
    if not np.isfinite(points).all():
        where = int(np.flatnonzero(~np.isfinite(points).all(axis=1))[0])
        raise BadInput(f"{path}: point {where} is {points[where].tolist()}, not finite; drop or correct it")
    return points[np.sort(np.unique(points, axis=0, return_index=True)[1])]


def _npy(path: pathlib.Path) -> np.ndarray:
    with path.open("rb") as file:
        try:
            array = np.lib.format.read_array(file, allow_pickle=False)
        except OSError:
            raise
        except Exception as error:  # a broken header is parsed as Python: there is no list of what that raises
            raise _Broken(f"is no complete .npy file of numbers ({str(error) or type(error).__name__})") from error
    if array.dtype.kind not in "iuf":
        raise _Broken(f"holds {array.dtype}, not real numbers")
    if array.ndim != 2:
        raise _Broken(f"has shape {array.shape}, not (points, dimension)")
    return array.astype(np.float64)


class _Element(typing.NamedTuple):
    """A table of a PLY file: each property has one type, or two where it is a list, of its length and of its items."""

    name: str
    count: int
    properties: dict[str, list[str]]

    @property
    def has_lists(self) -> bool:
        return any(len(types) > 1 for types in self.properties.values())

    @property
    def least_bytes(self) -> int:
        """Of all rows together; a list has at least its own length."""
        return self.count * sum(np.dtype(types[0]).itemsize for types in self.properties.values())


def _ply(path: pathlib.Path) -> np.ndarray:
    content = path.read_bytes()
    end = re.search(rb"^end_header[ \t]*(\r\n|\n|\r)", content, re.MULTILINE)
    if not re.match(rb"ply\s", content) or not end:
        raise _Broken("has no header from 'ply' to 'end_header', as PLY files do")
    header, body = _decoded(content[: end.start()]), content[end.end() :]
    form, elements = _ply_header(header)
    names = [element.name for element in elements]
    if "vertex" not in names:
        raise _Broken("has no element called 'vertex' in its header")
    before, vertices = elements[: names.index("vertex")], elements[names.index("vertex")]
    columns = list(vertices.properties)
    if not {"x", "y", "z"} <= set(columns):
        raise _Broken(f"has vertices of {', '.join(columns) or 'nothing'}, without x, y and z")
    if vertices.has_lists or (form != "ascii" and any(element.has_lists for element in before)):
        raise _Broken("has lists in or before its vertices, which this reader does not take")
    if form == "ascii":
        lines = [(number, line) for number, line in enumerate(_decoded(body), len(header) + 2) if line.strip()]
        _enough(len(lines), sum(element.count for element in elements), "lines")
        start = sum(element.count for element in before)
        return _numbers(lines[start : start + vertices.count], len(columns))[:, [columns.index(axis) for axis in "xyz"]]
    _enough(len(body), sum(element.least_bytes for element in elements), "bytes")
    order = "<" if form.endswith("little_endian") else ">"
    kind = np.dtype([(name, order + types[0]) for name, types in vertices.properties.items()])
    start = sum(element.least_bytes for element in before)
    rows = np.frombuffer(body[start : start + vertices.count * kind.itemsize], kind)
    return np.column_stack([rows[axis].astype(np.float64) for axis in "xyz"])


def _ply_header(lines: list[str]) -> tuple[str, list[_Element]]:
    form, elements = "", []
    for number, line in enumerate(lines, 1):
        try:
            match line.split():
                case ["format", form, *_]:
                    pass
                case ["element", name, count]:
                    elements.append(_Element(name, _count(count), {}))
                case ["property", *_, name] if name in elements[-1].properties:
                    raise ValueError(line)
                case ["property", "list", length, item, name]:
                    elements[-1].properties[name] = [_PLY_TYPES[length], _PLY_TYPES[item]]
                case ["property", kind, name]:
                    elements[-1].properties[name] = [_PLY_TYPES[kind]]
                case ["element" | "property", *_]:
                    raise ValueError(line)
        except (IndexError, KeyError, ValueError) as error:
            raise _Broken(f"line {number} of its header is {line[:60]!r}, which is no PLY") from error
    if form not in ("ascii", "binary_little_endian", "binary_big_endian"):
        raise _Broken(f"is of the format {form!r}, which PLY does not have")
    return form, elements


def _off(path: pathlib.Path) -> np.ndarray:
    lines = _lines(path)
    # Some files of ModelNet have the counts right behind the word, without a space.
    word = re.match(r"(?:ST)?C?N?OFF(?=[\s\d]|$)", lines[0][1] if lines else "")
    if not word or "BINARY" in lines[0][1]:
        raise _Broken("does not begin with 'OFF' as text files of that format do, in 3 dimensions")
    rest = lines[0][1][word.end() :].strip()
    lines = [*([(lines[0][0], rest)] if rest else []), *lines[1:]]
    try:
        points, faces = (_count(word) for word in lines[0][1].split()[:2])
    except (IndexError, ValueError) as error:
        raise _Broken("has no line with the numbers of points and faces after 'OFF'") from error
    _enough(len(lines) - 1, points + faces, "lines of points and faces")
    return _numbers(lines[1 : 1 + points], 3)


def _obj(path: pathlib.Path) -> np.ndarray:
    return _numbers([(number, line[2:].strip()) for number, line in _lines(path) if re.match(r"v\s", line)], 3)


def _stl(path: pathlib.Path) -> np.ndarray:
    content = path.read_bytes()
    (facets,) = struct.unpack_from("<I", content, 80) if len(content) >= 84 else (0,)
    # Binary files may begin with 'solid' as well: their length decides.
    if len(content) >= 84 and len(content) == 84 + 50 * facets:
        kind = np.dtype([("normal", "<f4", 3), ("corners", "<f4", (3, 3)), ("more", "<u2")])
        return np.frombuffer(content[84:], kind)["corners"].reshape(-1, 3).astype(np.float64)
    if not content.lstrip().startswith(b"solid"):
        raise _Broken(
            f"is no STL: it does not begin with 'solid', and has {len(content)} bytes where {facets} facets take "
            f"{84 + 50 * facets}"
        )
    lines = _lines(path)
    if not lines[-1][1].startswith("endsolid"):
        raise _Broken(f"is cut off: line {lines[-1][0]}, its last one, is {lines[-1][1][:60]!r}, not 'endsolid'")
    return _numbers([(number, line[6:].strip()) for number, line in lines if re.match(r"vertex\s", line)], 3)


def _vtk(path: pathlib.Path) -> np.ndarray:
    content = path.read_bytes()
    found = re.search(rb"^POINTS[ \t]+(\d+)[ \t]+(float|double)[ \t]*\r?\n", content, re.MULTILINE)
    if not content.startswith(b"# vtk DataFile") or not found:
        raise _Broken("is no legacy VTK file with POINTS of type float or double")
    count, body = int(found[1]), content[found.end() :]
    if re.search(rb"^BINARY\s", content[: found.start()], re.MULTILINE):
        kind = np.dtype(">f4" if found[2] == b"float" else ">f8")
        _enough(len(body), 3 * count * kind.itemsize, "bytes of points")
        return np.frombuffer(body[: 3 * count * kind.itemsize], kind).reshape(-1, 3).astype(np.float64)
    words = body.decode("latin-1").split()[: 3 * count]
    _enough(len(words), 3 * count, "coordinates")
    try:
        return np.array(words, dtype=np.float64).reshape(-1, 3)
    except ValueError as error:
        raise _Broken(f"has a coordinate that is no number ({error})") from error


_READERS: dict[str, Callable[[pathlib.Path], np.ndarray]] = {
    ".ply": _ply, ".off": _off, ".obj": _obj, ".stl": _stl, ".vtk": _vtk, ".npy": _npy,
}  # fmt: skip


def _decoded(content: bytes) -> list[str]:
    """Its lines; as bytes they end at line breaks alone, not at what else Unicode counts as one."""
    return [line.decode("latin-1") for line in content.splitlines()]


def _lines(path: pathlib.Path) -> list[tuple[int, str]]:
    """Numbered lines of a text file, without comments and empty ones."""
    bare = ((number, line.partition("#")[0].strip()) for number, line in enumerate(_decoded(path.read_bytes()), 1))
    return [(number, line) for number, line in bare if line]


def _numbers(lines: list[tuple[int, str]], columns: int) -> np.ndarray:
    """The first numbers of each line, (lines, columns)."""
    rows = np.empty((len(lines), columns))
    for k, (number, line) in enumerate(lines):
        words = line.split()[:columns]
        try:
            rows[k] = [float(word) for word in words] + [math.nan] * (columns - len(words))
        except ValueError:
            words = []
        if len(words) < columns:
            raise _Broken(f"line {number} has {line[:60]!r} where {columns} numbers belong")
    return rows


def _count(word: str) -> int:
    if not word.isdecimal():
        raise ValueError(word)
    return int(word)


def _enough(there: int, needed: int, what: str) -> None:
    if there < needed:
        raise _Broken(f"is cut off: {there} {what}, and its header announces {needed}")
