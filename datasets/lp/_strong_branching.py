"""Models with integer variables, and the child LPs of their root node, as strong branching solves them.

The root LP is solved once by HiGHS, and some children by themselves for their exact objectives; both are kept in a cache
on disk (the folder ``BREAKEVEN_CACHE``, or the user's cache folder), so that other batch sizes solve nothing again.
"""

import contextlib
import dataclasses
import hashlib
import importlib.metadata
import json
import math
import os
import pathlib
import tempfile
import zipfile

import highspy
import numpy as np
import platformdirs
import scipy.sparse
import torch

from breakeven.contract import BadInput, Unsupported
from breakeven.problems.lp import LPBatch, sparse_matrix

INTEGRALITY = 1e-6
"""A root value this near to an integer counts as one."""

REFERENCES = 32
"""So many children, the first of the batch, are solved exactly; the reference of the others is NaN. They are in random
order, so that the first are a fair sample, and a smaller batch shares them with a larger one."""

_EXACT = {"primal_feasibility_tolerance": 1e-9, "dual_feasibility_tolerance": 1e-9}
_INFEASIBLE, _UNBOUNDED = highspy.HighsModelStatus.kInfeasible, highspy.HighsModelStatus.kUnbounded


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
    path = pathlib.Path(path)
    if not path.is_file():
        raise BadInput(f"{path}: there is no such file; give the path of an MPS or LP file")
    if not path.name.removesuffix(".gz").endswith((".mps", ".lp")):
        raise BadInput(f"{path}: the ending does not say what it is; name it .mps or .lp, or one of these and .gz")
    solver = _solver()
    with tempfile.TemporaryDirectory() as folder:
        log = pathlib.Path(folder, "log")
        solver.setOptionValue("output_flag", True)
        solver.setOptionValue("log_to_console", False)
        solver.setOptionValue("log_file", str(log))
        status = solver.readModel(str(path))
        solver.setOptionValue("output_flag", False)
        solver.setOptionValue("log_file", "")
        said = log.read_text(errors="replace").splitlines() if log.exists() else []
    if status == highspy.HighsStatus.kError:
        complaints = [line.removeprefix("ERROR:").strip() for line in said if line.startswith("ERROR:")]
        reason = next((line for line in complaints if "Parser error" not in line), "it is not valid MPS or LP")
        raise BadInput(f"{path}: HiGHS cannot read it: {reason}; correct or replace the file")
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
        name=path.name.removesuffix(".gz").removesuffix(".mps").removesuffix(".lp"),
        matrix=scipy.sparse.csc_array((value, index, start), shape=(rows, columns)).tocsr(),
        objective=sign * np.array(lp.col_cost_, dtype=np.float64),
        row_lower=np.array(lp.row_lower_, dtype=np.float64),
        row_upper=np.array(lp.row_upper_, dtype=np.float64),
        lower=np.array(lp.col_lower_, dtype=np.float64),
        upper=np.array(lp.col_upper_, dtype=np.float64),
        integer=np.array([kind != continuous for kind in kinds] or [False] * columns, dtype=bool),
        offset=sign * lp.offset_,
    )


def branch(model: Model, *, batch: int, seed: int) -> LPBatch:
    """The first ``batch`` children of the model's root LP: for each fractional variable the down and the up branch.

    ``seed`` chooses the order of the variables; a smaller batch is the beginning of a larger one. Raises `Unsupported`
    where there are not so many children, or the root has no optimum, and `BadInput` for a batch below 1.
    """
    if batch < 1:
        raise BadInput(f"{model.name}: a batch of {batch} children was asked; ask for at least 1")
    cache = pathlib.Path(os.environ.get("BREAKEVEN_CACHE") or platformdirs.user_cache_dir("breakeven"), "lp", model.key)
    root = _root(model, cache)
    x = root["x"]
    fractional = np.flatnonzero(model.integer & (np.abs(x - np.round(x)) > INTEGRALITY))
    if not len(fractional):
        raise Unsupported(f"{model.name}: no fractional variable at the root")
    if batch > 2 * len(fractional):
        raise Unsupported(f"{model.name} has {2 * len(fractional)} children, {batch} asked")
    order = np.random.default_rng(seed).permutation(fractional)
    variable = np.repeat(order, 2)[:batch]
    up = np.tile([False, True], len(order))[:batch]
    lower = np.where(up, np.ceil(x[variable]), model.lower[variable])
    upper = np.where(up, model.upper[variable], np.floor(x[variable]))
    reference = np.full(batch, math.nan)
    reference[:REFERENCES] = _references(model, cache, variable[:REFERENCES], lower, upper, up)
    return LPBatch(
        name=model.name,
        matrix=sparse_matrix(model.matrix),
        objective=torch.from_numpy(model.objective),
        row_lower=torch.from_numpy(model.row_lower),
        row_upper=torch.from_numpy(model.row_upper),
        lower=torch.from_numpy(model.lower),
        upper=torch.from_numpy(model.upper),
        offset=float(model.offset),
        branch_variable=torch.from_numpy(variable.astype(np.int64)),
        branch_lower=torch.from_numpy(lower),
        branch_upper=torch.from_numpy(upper),
        parent_x=torch.from_numpy(x),
        parent_y=torch.from_numpy(root["y"]),
        parent_column_basis=torch.from_numpy(root["column_basis"]),
        parent_row_basis=torch.from_numpy(root["row_basis"]),
        reference=torch.from_numpy(reference),
    )


def _root(model: Model, cache: pathlib.Path) -> dict[str, np.ndarray]:
    """The root LP's optimum: x (n,), y (m,), and the basis as int8 codes; from the cache where it is there.

    Dual simplex, presolve off: the basis is one of the model itself, not of a reduced one.
    """
    file = cache / "root.npz"
    with contextlib.suppress(OSError, ValueError, EOFError, zipfile.BadZipFile), np.load(file) as kept:
        root = dict(kept)
        if root.keys() == {"x", "y", "column_basis", "row_basis"}:
            return root
    solver = _solver(presolve="off", solver="simplex", **_EXACT)
    solver.passModel(_highs_lp(model))
    solver.run()
    status = solver.getModelStatus()
    if status != highspy.HighsModelStatus.kOptimal:
        raise Unsupported(f"{model.name}: the root LP has no optimum: {solver.modelStatusToString(status).lower()}")
    solution, basis = solver.getSolution(), solver.getBasis()
    root = {
        "x": np.array(solution.col_value, dtype=np.float64),
        "y": np.array(solution.row_dual, dtype=np.float64),
        "column_basis": np.array([int(code) for code in basis.col_status], dtype=np.int8),
        "row_basis": np.array([int(code) for code in basis.row_status], dtype=np.int8),
    }
    with _replacing(file) as partial:
        np.savez(partial, **root)
    return root


def _references(model: Model, cache: pathlib.Path, variable, lower, upper, up) -> np.ndarray:
    """Exact objectives of children, from the cache or by cold solves: +inf infeasible, -inf unbounded, NaN unknown.

    Presolve on and nothing shared with the root, so that an error of a warm start cannot hide in both.
    """
    file = cache / "references.json"
    known: dict[str, float] = {}
    with contextlib.suppress(OSError, ValueError):
        known = dict(json.loads(file.read_text()))
    children = [f"{column}{'up' if side else 'down'}" for column, side in zip(variable, up, strict=False)]
    missing = [k for k, child in enumerate(children) if child not in known]
    if missing:
        solver = _solver(**_EXACT)
        solver.passModel(_highs_lp(model))
        for k in missing:
            column = int(variable[k])
            known[children[k]] = _cold_objective(solver, column, lower[k], upper[k])
            solver.changeColBounds(column, model.lower[column], model.upper[column])
        with _replacing(file) as partial:
            partial.write(json.dumps(known).encode())
    return np.array([known[child] for child in children])


def _cold_objective(solver, column: int, lower: float, upper: float) -> float:
    if lower > upper:
        return math.inf
    solver.changeColBounds(column, lower, upper)
    for presolve in ("choose", "off"):  # presolve may end with "unbounded or infeasible"
        solver.clearSolver()
        solver.setOptionValue("presolve", presolve)
        solver.run()
        status = solver.getModelStatus()
        if status != highspy.HighsModelStatus.kUnboundedOrInfeasible:
            break
    solver.setOptionValue("presolve", "choose")
    if status == highspy.HighsModelStatus.kOptimal:
        return solver.getInfo().objective_function_value
    return {_INFEASIBLE: math.inf, _UNBOUNDED: -math.inf}.get(status, math.nan)


def _solver(**options):
    """A silent HiGHS on one thread. The public class prints a banner as it installs its callbacks."""
    solver = highspy._core._Highs()
    for name, value in {"output_flag": False, "threads": 1, **options}.items():
        solver.setOptionValue(name, value)
    return solver


def _highs_lp(model: Model) -> highspy.HighsLp:
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


@contextlib.contextmanager
def _replacing(file: pathlib.Path):
    """Write a file that is there whole or not at all, whoever else writes it at the same time."""
    file.parent.mkdir(parents=True, exist_ok=True)
    partial = tempfile.NamedTemporaryFile(dir=file.parent, delete=False)  # noqa: SIM115 - closed before it is renamed
    try:
        with partial:
            yield partial
        os.replace(partial.name, file)
    except BaseException:
        pathlib.Path(partial.name).unlink(missing_ok=True)
        raise
