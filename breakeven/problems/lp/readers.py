"""Batches from SciPy's matrices, from HiGHS and from files, with what differs from child to child."""

import dataclasses
import math
import os
import pathlib
import tempfile
from collections.abc import Iterable, Mapping

import numpy as np
import scipy.sparse
import torch

from breakeven.contract import BadInput, Unsupported
from breakeven.problems.lp import LPBatch, sparse_matrix

INFINITE = 1e20
"""A bound of this size or more is none, as in HiGHS; files write 1e20 or 1e30 for it."""

SLACK, AT_LOWER, AT_UPPER, FREE = 1, 0, 2, 3  # HiGHS's codes of a basis


@dataclasses.dataclass(frozen=True)
class Change:
    """In what a child differs from its parent: new values by the number of their column or row; or a whole objective (n,)."""

    lower: Mapping[int, float] = dataclasses.field(default_factory=dict)
    upper: Mapping[int, float] = dataclasses.field(default_factory=dict)
    row_lower: Mapping[int, float] = dataclasses.field(default_factory=dict)
    row_upper: Mapping[int, float] = dataclasses.field(default_factory=dict)
    objective: Mapping[int, float] | np.ndarray = dataclasses.field(default_factory=dict)


def from_scipy(
    matrix,
    objective,
    changes: Iterable[Change] = (),
    *,
    row_lower=-math.inf,
    row_upper=math.inf,
    lower=0.0,
    upper=math.inf,
    offset: float = 0.0,
    name: str = "lp",
) -> LPBatch:
    """``min objective'x + offset, row_lower <= A x <= row_upper, lower <= x <= upper``, and children: itself, if none are given.

    Nothing is known of the parent's optimum (`LPBatch.starts_from_slacks`). Where some child changes the bounds of several
    variables, the bounds of these become rows: the batch then has more rows than ``matrix``, the new ones last. Without
    changes the bounds may cross, which makes the LP infeasible; a row whose sides cross becomes two.

    Args:
        matrix: (m, n), whatever SciPy can make a CSR array of; entries that are given twice are summed.
        objective: (n,).
        row_lower, row_upper, lower, upper: (m,) or (n,), or one number for all; infinite, or at least 1e20, for no bound.

    Raises:
        BadInput: for NaN, infinite coefficients, shapes that do not fit, and changes of columns or rows that there are not.
    """
    matrix = scipy.sparse.csr_array(matrix, dtype=np.float64)
    (rows, columns), changes = matrix.shape, list(changes)
    if columns == 0:
        raise BadInput(f"{name}: the LP has no variables; give at least one")
    objective = _vector(name, "objective", objective, columns)
    lower, upper = (_bounds(name, part, side, columns) for part, side in (("lower", lower), ("upper", upper)))
    row_lower, row_upper = (
        _bounds(name, part, side, rows) for part, side in (("row_lower", row_lower), ("row_upper", row_upper))
    )
    for k, change in enumerate(changes):
        _check_change(f"{name}: change {k}", change, rows, columns)

    crossed = np.flatnonzero(lower > upper)
    if not changes:
        matrix, row_lower, row_upper = _split_crossing(matrix, row_lower, row_upper)
        changes = [Change(lower={int(j): lower[j] for j in crossed[:1]}, upper={int(j): upper[j] for j in crossed[:1]})]
        lower, upper = np.where(lower > upper, -math.inf, lower), np.where(lower > upper, math.inf, upper)
    elif crossed.size:
        raise BadInput(
            f"{name}: lower [{crossed[0]}] is above upper: all children are infeasible; correct one of the two"
        )

    several = sorted(set().union(*(own for change in changes if len(own := _touched(change)) > 1)))
    rows = len(row_lower)
    if several:
        matrix = scipy.sparse.vstack([matrix, scipy.sparse.eye_array(columns, format="csr")[several]], format="csr")
        row_lower, row_upper = np.append(row_lower, lower[several]), np.append(row_upper, upper[several])
        lower[several], upper[several] = -math.inf, math.inf
        changes = [_with_rows(change, {j: rows + k for k, j in enumerate(several)}) for change in changes]

    variable = np.array([min(_touched(change), default=0) for change in changes])
    branch_lower, branch_upper = (
        np.array([_bound(getattr(change, part).get(j, side[j])) for j, change in zip(variable, changes, strict=True)])
        for part, side in (("lower", lower), ("upper", upper))
    )
    tensor = torch.from_numpy
    own_rows = any(change.row_lower or change.row_upper for change in changes)
    near = np.clip(0.0, lower, upper)
    return LPBatch(
        name=name, matrix=sparse_matrix(matrix), objective=tensor(objective), offset=float(offset),
        row_lower=tensor(row_lower), row_upper=tensor(row_upper), lower=tensor(lower), upper=tensor(upper),
        branch_variable=tensor(variable.astype(np.int64)), branch_lower=tensor(branch_lower),
        branch_upper=tensor(branch_upper), parent_x=tensor(near), parent_y=torch.zeros(len(row_lower)).double(),
        parent_column_basis=tensor(np.select([near == lower, near == upper], [AT_LOWER, AT_UPPER], FREE).astype(np.int8)),
        parent_row_basis=torch.full((len(row_lower),), SLACK, dtype=torch.int8),
        reference=torch.full((len(changes),), math.nan).double(),
        child_objective=_own(changes, "objective", objective) if any(len(c.objective) for c in changes) else None,
        child_row_lower=_own(changes, "row_lower", row_lower) if own_rows else None,
        child_row_upper=_own(changes, "row_upper", row_upper) if own_rows else None,
    )  # fmt: skip


def from_highs(model, changes: Iterable[Change] = (), *, name: str = "") -> LPBatch:
    """The LP, or the LP relaxation, that a HiGHS model holds, and its children: itself, if no changes are given.

    Where the model has been solved to an optimum, the batch starts from it, with its basis. A maximisation becomes the
    minimisation of the negated objective, in which changes count as well. Bounds of semi-continuous variables reach to 0.

    Args:
        model: a `highspy.Highs` or a `highspy.HighsLp`; it stays as it is.

    Raises:
        BadInput: as `from_scipy`. Unsupported: for a quadratic objective.
    """
    import highspy

    lp, solver = (model, None) if isinstance(model, highspy.HighsLp) else (model.getLp(), model)
    if solver is not None and solver.getModel().hessian_.dim_:
        raise Unsupported("the model has a quadratic objective: not a linear program")
    form = scipy.sparse.csc_array if lp.a_matrix_.format_ == highspy.MatrixFormat.kColwise else scipy.sparse.csr_array
    matrix = form(
        tuple(np.array(part) for part in (lp.a_matrix_.value_, lp.a_matrix_.index_, lp.a_matrix_.start_)),
        shape=(lp.num_row_, lp.num_col_),
    )
    sign = -1.0 if lp.sense_ == highspy.ObjSense.kMaximize else 1.0
    lower, upper = np.array(lp.col_lower_, np.float64), np.array(lp.col_upper_, np.float64)
    kinds = (highspy.HighsVarType.kSemiContinuous, highspy.HighsVarType.kSemiInteger)
    semi = np.array([kind in kinds for kind in lp.integrality_] or [False] * lp.num_col_, np.bool_)
    lower[semi], upper[semi] = np.minimum(lower[semi], 0.0), np.maximum(upper[semi], 0.0)
    batch = from_scipy(
        matrix, sign * np.array(lp.col_cost_, np.float64), changes, lower=lower, upper=upper,
        row_lower=np.array(lp.row_lower_, np.float64), row_upper=np.array(lp.row_upper_, np.float64),
        offset=sign * lp.offset_, name=name or lp.model_name_ or "lp",
    )  # fmt: skip
    if solver is None or solver.getModelStatus() != highspy.HighsModelStatus.kOptimal:
        return batch
    found, more = solver.getSolution(), batch.matrix.shape[0] - lp.num_row_
    y = torch.tensor([*found.row_dual, *[0.0] * more], dtype=torch.float64)
    start = {"parent_x": torch.tensor(found.col_value, dtype=torch.float64), "parent_y": sign * y}
    if (basis := solver.getBasis()).valid:
        start["parent_column_basis"] = torch.tensor([int(code) for code in basis.col_status], dtype=torch.int8)
        start["parent_row_basis"] = torch.tensor([*map(int, basis.row_status), *[SLACK] * more], dtype=torch.int8)
    return dataclasses.replace(batch, **start)


def from_mps(path: str | os.PathLike, changes: Iterable[Change] = ()) -> LPBatch:
    """As `from_highs`, of an MPS, free MPS or LP file, plain or gzipped; `BadInput` names the file if it is none."""
    return from_highs(read_file(path), changes, name=model_name(path))


def model_name(path: str | os.PathLike) -> str:
    return pathlib.Path(path).name.removesuffix(".gz").rpartition(".")[0]


def read_file(path: str | os.PathLike):
    """A silent HiGHS that holds the model of an MPS, free MPS or LP file, plain or gzipped.

    Raises `BadInput`, which names the file, for one that does not exist or cannot be read, with what HiGHS says of it.
    """
    import highspy

    path = pathlib.Path(path)
    if not path.is_file():
        raise BadInput(f"{path}: there is no such file; give the path of an MPS or LP file")
    if not path.name.removesuffix(".gz").endswith((".mps", ".lp")):
        raise BadInput(f"{path}: the ending does not say what it is; name it .mps or .lp, or one of these and .gz")
    solver = highspy._core._Highs()  # the public class prints a banner
    with tempfile.TemporaryDirectory() as folder:
        log = pathlib.Path(folder, "log")
        for option, value in {"output_flag": True, "log_to_console": False, "log_file": str(log)}.items():
            solver.setOptionValue(option, value)
        status = solver.readModel(str(path))
        solver.setOptionValue("output_flag", False)
        solver.setOptionValue("log_file", "")
        said = log.read_text(errors="replace").splitlines() if log.exists() else []
    if status == highspy.HighsStatus.kError:
        complaints = [line.removeprefix("ERROR:").strip() for line in said if line.startswith("ERROR:")]
        reason = next((line for line in complaints if "Parser error" not in line), "it is not valid MPS or LP")
        raise BadInput(f"{path}: HiGHS cannot read it: {reason}; correct or replace the file")
    solver.setOptionValue("threads", 1)
    return solver


def _vector(name: str, part: str, values, length: int) -> np.ndarray:
    values = np.array(values, dtype=np.float64)
    if values.shape != (length,):
        raise BadInput(f"{name}: {part} has shape {values.shape}; it must be ({length},)")
    return values


def _bounds(name: str, part: str, values, length: int) -> np.ndarray:
    values = np.full(length, float(values)) if np.ndim(values) == 0 else _vector(name, part, values, length)
    values = np.where(np.abs(values) >= INFINITE, np.copysign(math.inf, values), values)
    none = -math.inf if part.endswith("lower") else math.inf
    broken = np.isnan(values) | (values == -none)
    if broken.any():
        where = int(np.flatnonzero(broken)[0])
        raise BadInput(f"{name}: {part} [{where}] is {values[where]}; give a number, or {none} for no bound")
    return values


def _bound(value: float) -> float:
    return math.copysign(math.inf, value) if abs(value) >= INFINITE else float(value)


def _touched(change: Change) -> set[int]:
    """The columns whose bounds differ."""
    return {*change.lower, *change.upper}


def _check_change(where: str, change: Change, rows: int, columns: int) -> None:
    lengths = {"lower": columns, "upper": columns, "objective": columns, "row_lower": rows, "row_upper": rows}
    for part, length in lengths.items():
        values = getattr(change, part)
        if not isinstance(values, Mapping):
            _vector(where, part, values, length)
        elif outside := [place for place in values if not 0 <= place < length]:
            raise BadInput(f"{where}: {part} has the number {outside[0]}; there are 0..{length - 1}")


def _split_crossing(matrix, row_lower: np.ndarray, row_upper: np.ndarray):
    """One row for each side of those whose sides cross."""
    crossing = np.flatnonzero(row_lower > row_upper)
    matrix = scipy.sparse.vstack([matrix, matrix[crossing]], format="csr")
    upper = np.append(row_upper, row_upper[crossing])
    upper[crossing] = math.inf
    return matrix, np.append(row_lower, np.full(crossing.size, -math.inf)), upper


def _with_rows(change: Change, row_of: Mapping[int, int]) -> Change:
    """The change with the bounds of some columns as sides of rows."""
    moved = {}
    for part in ("lower", "upper"):
        values = getattr(change, part)
        moved[part] = {j: value for j, value in values.items() if j not in row_of}
        moved[f"row_{part}"] = {
            **getattr(change, f"row_{part}"),
            **{row_of[j]: values[j] for j in values if j in row_of},
        }
    return dataclasses.replace(change, **moved)


def _own(changes: list[Change], part: str, shared: np.ndarray) -> torch.Tensor:
    """A column for each child."""
    columns = np.repeat(shared[:, None], len(changes), axis=1)
    for column, change in zip(columns.T, changes, strict=True):
        values = getattr(change, part)
        if isinstance(values, Mapping):
            column[list(values)] = [value if part == "objective" else _bound(value) for value in values.values()]
        else:
            column[:] = values
    return torch.from_numpy(columns)
