"""What is asked of a model: which LPs that share its matrix are to be solved.

The root LP is solved once by HiGHS, and some children by themselves for their exact objectives; both are kept in a cache
on disk (the folder ``BREAKEVEN_CACHE``, or the user's cache folder), so that other batch sizes solve nothing again.
"""

import contextlib
import dataclasses
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
from breakeven.datasets.lp._models import Model, highs_lp, silent_highs
from breakeven.problems.lp import LPBatch, sparse_matrix

INTEGRALITY = 1e-6
"""A root value this near to an integer counts as one."""

CUTOFF_GAP = 0.05
"""Bound tightening looks where the objective is at most the root's value and so much of its size: as if an incumbent were
known that is 5 % worse than the LP relaxation."""

COST_SPREAD = 0.1
"""Costs of a scenario differ from the model's by up to this share."""

REFERENCES = 32
"""So many children, the first of the batch, are solved exactly; the reference of the others is NaN. They are in random
order, so that the first are a fair sample, and a smaller batch shares them with a larger one."""

_EXACT = {"primal_feasibility_tolerance": 1e-9, "dual_feasibility_tolerance": 1e-9}
_INFEASIBLE, _UNBOUNDED = highspy.HighsModelStatus.kInfeasible, highspy.HighsModelStatus.kUnbounded


def ask(question: str, model: Model, *, batch: int, seed: int) -> LPBatch:
    """The first ``batch`` children of a question; a smaller batch is the beginning of a larger one.

    - ``branching``: for each fractional variable of the root LP the down and the up branch.
    - ``tightening``: for each variable that is not fixed, how small and how large it can be where the objective is at most
      `CUTOFF_GAP` above the root's value, which is one more row (optimality-based bound tightening).
    - ``scenarios``: the model with its costs changed at random by up to `COST_SPREAD`.
    - ``single``: the LP relaxation itself, without a point to start from.

    ``seed`` chooses the order of variables, and the costs. Raises `Unsupported` where there are not so many children, or the
    root has no optimum, and `BadInput` for a batch below 1 and for other questions.
    """
    if question not in _QUESTIONS:
        raise BadInput(f"{model.name}: no question is called {question!r}; there are: {', '.join(_QUESTIONS)}")
    if batch < 1:
        raise BadInput(f"{model.name}: a batch of {batch} children was asked; ask for at least 1")
    return _QUESTIONS[question](model, batch, seed)


def _branching(model: Model, batch: int, seed: int) -> LPBatch:
    root = root_of(model)
    x = root["x"]
    fractional = np.flatnonzero(model.integer & (np.abs(x - np.round(x)) > INTEGRALITY))
    if not len(fractional):
        raise Unsupported(f"{model.name}: no fractional variable at the root")
    _has(model, 2 * len(fractional), batch)
    order = np.random.default_rng(seed).permutation(fractional)
    variable = np.repeat(order, 2)[:batch]
    up = np.tile([False, True], len(order))[:batch]
    children = Children(
        names=[f"{column}{'up' if side else 'down'}" for column, side in zip(variable, up, strict=True)],
        variable=variable,
        lower=np.where(up, np.ceil(x[variable]), model.lower[variable]),
        upper=np.where(up, model.upper[variable], np.floor(x[variable])),
    )
    return batch_of(model, root, children)


def _tightening(model: Model, batch: int, seed: int) -> LPBatch:
    root = root_of(model)
    value = float(model.objective @ root["x"])
    columns = len(model.objective)
    matrix, row_lower, row_upper = model.matrix, model.row_lower, model.row_upper
    row_basis, y = root["row_basis"], np.zeros_like(root["y"])
    if model.objective.any():
        matrix = scipy.sparse.csr_array(scipy.sparse.vstack([matrix, scipy.sparse.csr_array(model.objective[None])]))
        row_lower = np.append(row_lower, -math.inf)
        row_upper = np.append(row_upper, value + CUTOFF_GAP * max(1.0, abs(value)))
        row_basis, y = np.append(row_basis, np.int8(1)), np.append(y, 0.0)
    feasible = dataclasses.replace(
        model, matrix=matrix, objective=np.zeros(columns), offset=0.0, row_lower=row_lower, row_upper=row_upper
    )
    free = np.flatnonzero(model.lower < model.upper)
    _has(model, 2 * len(free), batch)
    variable = np.repeat(np.random.default_rng(seed).permutation(free), 2)[:batch]
    sign = np.tile([1.0, -1.0], len(free))[:batch]
    objective = np.zeros((columns, batch))
    objective[variable, np.arange(batch)] = sign
    children = Children(
        names=[f"{column}{'least' if way > 0 else 'most'}" for column, way in zip(variable, sign, strict=True)],
        objective=objective,
    )
    return batch_of(feasible, {**root, "row_basis": row_basis, "y": y}, children)


def _scenarios(model: Model, batch: int, seed: int) -> LPBatch:
    change = np.random.default_rng(seed).uniform(-COST_SPREAD, COST_SPREAD, (batch, len(model.objective)))
    children = Children(
        names=[f"costs of {seed}, {k}" for k in range(batch)], objective=((1 + change) * model.objective).T
    )
    return batch_of(model, root_of(model), children)


def _single(model: Model, batch: int, seed: int) -> LPBatch:
    if batch != 1:
        raise Unsupported(f"{model.name}: a single LP has a batch of 1, {batch} asked")
    bounded_below, bounded_above = np.isfinite(model.lower), np.isfinite(model.upper)
    start = {
        "x": np.clip(0.0, model.lower, model.upper),
        "y": np.zeros(len(model.row_lower)),
        "column_basis": np.select([bounded_below, bounded_above], [0, 2], 3).astype(np.int8),
        "row_basis": np.ones(len(model.row_lower), dtype=np.int8),
    }
    return batch_of(model, start, Children(names=["itself"]))


_QUESTIONS = {"branching": _branching, "tightening": _tightening, "scenarios": _scenarios, "single": _single}


def _has(model: Model, children: int, batch: int) -> None:
    if batch > children:
        raise Unsupported(f"{model.name} has {children} children, {batch} asked")


@dataclasses.dataclass(frozen=True)
class Children:
    """What B children change; a part that is None is the model's. ``names`` are what their references are kept by."""

    names: list[str]
    variable: np.ndarray | None = None  # (B,), with its bounds
    lower: np.ndarray | None = None  # (B,)
    upper: np.ndarray | None = None  # (B,)
    objective: np.ndarray | None = None  # (n, B)
    row_lower: np.ndarray | None = None  # (m, B)
    row_upper: np.ndarray | None = None  # (m, B)


def batch_of(model: Model, root: dict[str, np.ndarray], children: Children) -> LPBatch:
    """The problem of solving these children from the root's optimum, with references."""
    batch = len(children.names)
    variable = np.zeros(batch, dtype=np.int64) if children.variable is None else children.variable
    lower = model.lower[variable] if children.lower is None else children.lower
    upper = model.upper[variable] if children.upper is None else children.upper
    reference = np.full(batch, math.nan)
    reference[:REFERENCES] = _references(model, children, variable, lower, upper)

    def tensor(array):
        return None if array is None else torch.from_numpy(np.ascontiguousarray(array))

    return LPBatch(
        name=model.name,
        matrix=sparse_matrix(model.matrix),
        objective=tensor(model.objective),
        row_lower=tensor(model.row_lower),
        row_upper=tensor(model.row_upper),
        lower=tensor(model.lower),
        upper=tensor(model.upper),
        offset=float(model.offset),
        branch_variable=tensor(variable.astype(np.int64)),
        branch_lower=tensor(lower),
        branch_upper=tensor(upper),
        parent_x=tensor(root["x"]),
        parent_y=tensor(root["y"]),
        parent_column_basis=tensor(root["column_basis"]),
        parent_row_basis=tensor(root["row_basis"]),
        reference=tensor(reference),
        child_objective=tensor(children.objective),
        child_row_lower=tensor(children.row_lower),
        child_row_upper=tensor(children.row_upper),
    )


def root_of(model: Model) -> dict[str, np.ndarray]:
    """The root LP's optimum: x (n,), y (m,), and the basis as int8 codes; from the cache where it is there.

    Dual simplex, presolve off: the basis is one of the model itself, not of a reduced one.
    """
    file = _cache(model) / "root.npz"
    with contextlib.suppress(OSError, ValueError, EOFError, zipfile.BadZipFile), np.load(file) as kept:
        root = dict(kept)
        if root.keys() == {"x", "y", "column_basis", "row_basis"}:
            return root
    solver = silent_highs(presolve="off", solver="simplex", **_EXACT)
    solver.passModel(highs_lp(model))
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


def _references(model: Model, children: Children, variable, lower, upper) -> np.ndarray:
    """Exact objectives of the first children, from the cache or by cold solves: +inf infeasible, -inf unbounded, NaN unknown.

    Presolve on and nothing shared with the root, so that an error of a warm start cannot hide in both.
    """
    file = _cache(model) / "references.json"
    known: dict[str, float] = {}
    with contextlib.suppress(OSError, ValueError):
        known = dict(json.loads(file.read_text()))
    names = children.names[:REFERENCES]
    missing = [k for k, name in enumerate(names) if name not in known]
    if missing:
        solver = silent_highs(**_EXACT)
        solver.passModel(highs_lp(model))
        all_rows = np.arange(len(model.row_lower), dtype=np.int32)
        all_columns = np.arange(len(model.objective), dtype=np.int32)
        for k in missing:
            column = int(variable[k])
            if lower[k] > upper[k]:
                known[names[k]] = math.inf
                continue
            solver.changeColBounds(column, lower[k], upper[k])
            if children.objective is not None:
                solver.changeColsCost(len(all_columns), all_columns, np.ascontiguousarray(children.objective[:, k]))
            if children.row_lower is not None:
                sides = (np.ascontiguousarray(part[:, k]) for part in (children.row_lower, children.row_upper))
                solver.changeRowsBounds(len(all_rows), all_rows, *sides)
            known[names[k]] = _cold_objective(solver)
            solver.changeColBounds(column, model.lower[column], model.upper[column])
        with _replacing(file) as partial:
            partial.write(json.dumps(known).encode())
    return np.array([known[name] for name in names])


def _cold_objective(solver) -> float:
    """Presolve may end with "unbounded or infeasible", and 1e-9 may be more than an LP can give: infeasible is what is so at
    1e-7 too."""
    status = None
    for presolve, accuracy in (("choose", 1e-9), ("off", 1e-9), ("off", 1e-7)):
        solver.clearSolver()
        solver.setOptionValue("presolve", presolve)
        for feasibility in ("primal_feasibility_tolerance", "dual_feasibility_tolerance"):
            solver.setOptionValue(feasibility, accuracy)
        solver.run()
        status = solver.getModelStatus()
        if status in (highspy.HighsModelStatus.kOptimal, _UNBOUNDED):
            break
    solver.setOptionValue("presolve", "choose")
    if status == highspy.HighsModelStatus.kOptimal:
        return solver.getInfo().objective_function_value
    return {_INFEASIBLE: math.inf, _UNBOUNDED: -math.inf}.get(status, math.nan)


def _cache(model: Model) -> pathlib.Path:
    folder = os.environ.get("BREAKEVEN_CACHE") or platformdirs.user_cache_dir("breakeven")
    return pathlib.Path(folder, "lp", model.key)


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
