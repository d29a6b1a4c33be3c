"""Linear models, with or without integer variables: what they are, and how they are read from files."""

import dataclasses
import hashlib
import importlib.metadata
import math
import os
import pathlib

import highspy
import numpy as np
import scipy.sparse

from breakeven.contract import BadInput, Unsupported
from breakeven.problems.lp.readers import model_name, read_file


@dataclasses.dataclass(frozen=True)
class Model:
    """``min objective'x + offset, row_lower <= matrix x <= row_upper, lower <= x <= upper``, some x integer.

    m rows, n columns; float64 NumPy arrays. Raises `BadInput` for what is no such model.
    """

    name: str
    matrix: scipy.sparse.csr_array  # (m, n)
    objective: np.ndarray  # (n,)
    row_lower: np.ndarray  # (m,)
    row_upper: np.ndarray  # (m,)
    lower: np.ndarray  # (n,)
    upper: np.ndarray  # (n,)
    integer: np.ndarray  # (n,) bool
    offset: float = 0.0

    def __post_init__(self):
        # Before any solver sees it: the simplex method of HiGHS does not end on a NaN cost, and takes a NaN in the matrix.
        if self.matrix.shape[1] == 0:
            raise BadInput(f"{self.name}: has no variables; give a model with at least one")
        for part, values in (("objective", self.objective), ("matrix", self.matrix.data), ("offset", [self.offset])):
            if not np.isfinite(values).all():
                raise BadInput(f"{self.name}: a number in the {part} is NaN or infinite; correct it in the model")
        for part, lower, upper in (("row", self.row_lower, self.row_upper), ("column", self.lower, self.upper)):
            bad = np.isnan(lower) | np.isnan(upper) | (lower == math.inf) | (upper == -math.inf) | (lower > upper)
            if bad.any():
                where = int(np.flatnonzero(bad)[0])
                raise BadInput(
                    f"{self.name}: {part} {where} has the bounds [{lower[where]}, {upper[where]}], between which nothing "
                    "lies; correct them in the model"
                )

    @property
    def key(self) -> str:
        """A hash of the numbers, and of the solver's version, since its root basis depends on it."""
        digest = hashlib.sha256(
            f"2 {importlib.metadata.version('highspy')} {self.matrix.shape} {self.offset!r}".encode()
        )
        matrix = self.matrix
        for values in (matrix.indptr, matrix.indices):
            digest.update(np.ascontiguousarray(values, dtype=np.int64))
        for values in (
            matrix.data,
            self.objective,
            self.row_lower,
            self.row_upper,
            self.lower,
            self.upper,
            self.integer,
        ):
            digest.update(np.ascontiguousarray(values, dtype=np.float64))
        return digest.hexdigest()[:24]


def read_model(path: str | os.PathLike) -> Model:
    """Read an MPS, free MPS or LP file, plain or gzipped, with HiGHS.

    A maximisation becomes the minimisation of the negated objective. Raises `BadInput`, which names the file, for one
    that does not exist or cannot be read, and `Unsupported` for models that are not mixed-integer linear.
    """
    path, solver = pathlib.Path(path), read_file(path)
    solver.ensureColwise()
    lp = solver.getLp()
    kinds = list(lp.integrality_)
    odd = {highspy.HighsVarType.kSemiContinuous, highspy.HighsVarType.kSemiInteger} & set(kinds)
    if odd or solver.getModel().hessian_.dim_:
        what = "semi-continuous variables" if odd else "a quadratic objective"
        raise Unsupported(f"{path.name} has {what}: not a mixed-integer linear model")
    rows, columns = lp.num_row_, lp.num_col_
    start, index, value = (np.array(part) for part in (lp.a_matrix_.start_, lp.a_matrix_.index_, lp.a_matrix_.value_))
    sign = -1.0 if lp.sense_ == highspy.ObjSense.kMaximize else 1.0
    continuous = highspy.HighsVarType.kContinuous
    return Model(
        name=model_name(path),
        matrix=scipy.sparse.csc_array((value, index, start), shape=(rows, columns)).tocsr(),
        objective=sign * np.array(lp.col_cost_, dtype=np.float64),
        row_lower=np.array(lp.row_lower_, dtype=np.float64),
        row_upper=np.array(lp.row_upper_, dtype=np.float64),
        lower=np.array(lp.col_lower_, dtype=np.float64),
        upper=np.array(lp.col_upper_, dtype=np.float64),
        integer=np.array([kind != continuous for kind in kinds] or [False] * columns, dtype=bool),
        offset=sign * lp.offset_,
    )


def silent_highs(**options):
    """A silent HiGHS on one thread. The public class prints a banner as it installs its callbacks."""
    solver = highspy._core._Highs()
    solver.resetGlobalScheduler(True)  # this thread's: one made by another's HiGHS would refuse our one thread
    for name, value in {"output_flag": False, "threads": 1, **options}.items():
        solver.setOptionValue(name, value)
    return solver


def highs_lp(model: Model) -> highspy.HighsLp:
    lp = highspy.HighsLp()
    lp.num_row_, lp.num_col_ = model.matrix.shape
    lp.col_cost_, lp.col_lower_, lp.col_upper_ = model.objective, model.lower, model.upper
    lp.row_lower_, lp.row_upper_ = model.row_lower, model.row_upper
    lp.a_matrix_.format_ = highspy.MatrixFormat.kRowwise
    lp.a_matrix_.num_row_, lp.a_matrix_.num_col_ = model.matrix.shape
    lp.a_matrix_.start_, lp.a_matrix_.index_ = model.matrix.indptr, model.matrix.indices
    lp.a_matrix_.value_ = model.matrix.data
    lp.offset_ = model.offset
    return lp
