"""Matrices of MATLAB files (level 5, which MATLAB 5 to 7.2 write, and ``save -v7``), read with every length checked.

`scipy.io.loadmat` ends the process on some damaged files (https://github.com/scipy/scipy/pull/25349): it does not check the
type of a number. The format is described in MathWorks' "MAT-File Format".
"""

import math
import os
import pathlib
import struct
import zlib
from collections.abc import Iterator

import numpy as np
import scipy.sparse

from breakeven.contract import BadInput

_NUMBERS = {1: "i1", 2: "u1", 3: "i2", 4: "u2", 5: "i4", 6: "u4", 7: "f4", 9: "f8", 12: "i8", 13: "u8"}
"""Types of stored numbers."""
_MATRIX, _COMPRESSED = 14, 15

_SPARSE, _DENSE = 5, range(6, 16)
"""Classes of numeric arrays, double to uint64; others are cells, structures, objects and text."""
_COMPLEX, _LOGICAL = 0x800, 0x200


class _Broken(Exception):
    """What is wrong with a file."""


def read_matrices(path: str | os.PathLike) -> dict[str, np.ndarray | scipy.sparse.csc_array | None]:
    """The variables of a file in their order: real numeric or logical arrays, dense or sparse; None for one of another kind.

    Dense arrays have the type that they are stored in: MATLAB stores doubles as the smallest integers that hold them.
    Raises `BadInput`, which names the file, for one that does not exist, is no such file, is cut off or damaged.
    """
    path = pathlib.Path(path)
    if not path.is_file():
        raise BadInput(f"{path}: there is no such file; give the path of a .mat file")
    try:
        content = path.read_bytes()
        order = {b"IM": "<", b"MI": ">"}.get(content[126:128])
        if order is None:
            raise _Broken("has no header of one")
        if struct.unpack_from(f"{order}H", content, 124)[0] != 0x0100:
            raise _Broken("is of another level, such as MATLAB 7.3; save it with -v7")
        return dict(_variable(kind, body, order) for kind, body in _elements(content[128:], order))
    except OSError as error:
        raise BadInput(
            f"{path}: cannot be read ({error.strerror or error}); give a file that is yours to read"
        ) from error
    except _Broken as error:
        raise BadInput(
            f"{path}: cannot be read as a MATLAB file of level 5: it {error}; copy or save it again"
        ) from error


def _elements(content: bytes, order: str) -> Iterator[tuple[int, bytes]]:
    """Type and content of each data element."""
    at = 0
    while at < len(content):
        if len(content) - at < 8:
            raise _Broken("is cut off within a tag")
        kind, size = struct.unpack_from(f"{order}II", content, at)
        start = at + 8
        if kind >> 16:  # a small element has its length in the upper half of its type, and its content in the tag
            kind, size, start = kind & 0xFFFF, kind >> 16, at + 4
            if size > 4:
                raise _Broken(f"has a small element of {size} bytes")
        if size > len(content) - start:
            raise _Broken(f"is cut off: {len(content) - start} bytes where {size} are announced")
        yield kind, content[start : start + size]
        # All but compressed elements are filled up to a multiple of eight bytes.
        at = at + 8 if start == at + 4 else start + (size if kind == _COMPRESSED else -(-size // 8) * 8)


def _variable(kind: int, body: bytes, order: str) -> tuple[str, np.ndarray | scipy.sparse.csc_array | None]:
    if kind == _COMPRESSED:
        try:
            inner = list(_elements(zlib.decompress(body), order))
        except zlib.error as error:
            raise _Broken(f"has a compressed part that is damaged ({error})") from error
        if len(inner) != 1:
            raise _Broken(f"has {len(inner)} elements in a compressed one")
        kind, body = inner[0]
    if kind != _MATRIX:
        raise _Broken(f"has an element of type {kind} where a variable belongs")
    parts = _elements(body, order)
    flags, shape, name = (next(parts, (0, b"")) for _ in range(3))
    words, shape = _numbers(*flags, order), tuple(_numbers(*shape, order).tolist())
    name = name[1].decode("latin-1")
    if len(words) != 2 or len(shape) < 2 or min(shape) < 0:
        raise _Broken(f"has a variable {name!r} without class or with the shape {shape}")
    number_class, complex_ = int(words[0]) & 0xFF, int(words[0]) & _COMPLEX
    if complex_ or number_class not in (_SPARSE, *_DENSE):
        return name, None
    values = [_numbers(*part, order) for part in parts]
    if number_class == _SPARSE:
        return name, _sparse(name, values, shape, int(words[0]) & _LOGICAL)
    if len(values) != 1 or len(values[0]) != math.prod(shape):
        raise _Broken(f"has {sum(map(len, values))} numbers in {name!r}, whose shape is {shape}")
    return name, values[0].reshape(shape, order="F")


def _sparse(name: str, parts: list[np.ndarray], shape: tuple[int, ...], logical: int) -> scipy.sparse.csc_array:
    if len(parts) != 3 or len(shape) != 2 or len(parts[1]) != shape[1] + 1:
        raise _Broken(f"has a sparse matrix {name!r} whose parts do not fit the shape {shape}")
    rows, starts, values = parts
    used = int(starts[-1])  # there may be room for more
    if starts[0] != 0 or (np.diff(starts) < 0).any() or used > min(len(rows), len(values)):
        raise _Broken(f"has a sparse matrix {name!r} whose columns do not begin where others end")
    rows, values = rows[:used], values[:used]
    if ((rows < 0) | (rows >= shape[0])).any():
        raise _Broken(f"has an entry of the sparse matrix {name!r} outside its shape {shape}")
    kind = bool if logical else np.float64
    return scipy.sparse.csc_array((values.astype(kind), rows.astype(np.int64), starts.astype(np.int64)), shape=shape)


def _numbers(kind: int, content: bytes, order: str) -> np.ndarray:
    if kind not in _NUMBERS:
        raise _Broken(f"has an element of type {kind} where numbers belong")
    dtype = np.dtype(order + _NUMBERS[kind])
    if len(content) % dtype.itemsize:
        raise _Broken(f"has {len(content)} bytes where numbers of {dtype.itemsize} belong")
    return np.frombuffer(content, dtype).astype(dtype.newbyteorder("="), copy=False)
