"""Throw-away distributions of adapters, as another project would install them, and an honest adapter to start from."""

import os
import pathlib
import sys
import textwrap
from collections.abc import Iterable, Mapping

import pytest

from breakeven import check, devices, registry

HONEST = '''
import math

import highspy
import numpy as np
import scipy.sparse
import torch

from breakeven.contract import Unsupported, adapter
from breakeven.problems.lp import INFEASIBLE, LIMIT, OPTIMAL, UNBOUNDED, LPBatch, LPSolution, safe_dual_bound


def highs(matrix, row_lower, row_upper, objective, lower, upper, offset=0.0):
    model = highspy.HighsLp()
    model.num_row_, model.num_col_ = matrix.shape
    csc = scipy.sparse.csc_array(matrix)
    model.a_matrix_.format_ = highspy.MatrixFormat.kColwise
    model.a_matrix_.start_, model.a_matrix_.index_, model.a_matrix_.value_ = csc.indptr, csc.indices, csc.data
    model.row_lower_, model.row_upper_ = row_lower, row_upper
    model.col_cost_, model.col_lower_, model.col_upper_, model.offset_ = objective, lower, upper, offset
    solver = highspy.Highs()
    solver.silent()
    for name, value in {"threads": 1, "presolve": "off", "solver": "simplex", "kkt_tolerance": 1e-9}.items():
        solver.setOptionValue(name, value)
    solver.passModel(model)
    solver.run()
    solution = solver.getSolution()
    return solver.getModelStatus(), np.array(solution.col_value), np.array(solution.row_dual)


def solve_child(matrix, row_lower, row_upper, objective, lower, upper):
    """Status, x and y of one LP; a Farkas proof or a ray where there is no optimum."""
    rows, columns = matrix.shape
    nothing = np.zeros(columns), np.zeros(rows)
    if (lower > upper).any():
        return INFEASIBLE, *nothing
    status, x, y = highs(matrix, row_lower, row_upper, objective, lower, upper)
    if status == highspy.HighsModelStatus.kOptimal:
        return OPTIMAL, x, y
    # The least total violation of the rows: where it is positive, its duals prove it.
    elastic = scipy.sparse.hstack([matrix, scipy.sparse.eye_array(rows), -scipy.sparse.eye_array(rows)])
    costs = np.concatenate([np.zeros(columns), np.ones(2 * rows)])
    low, high = np.concatenate([lower, np.zeros(2 * rows)]), np.concatenate([upper, np.full(2 * rows, math.inf)])
    _, point, proof = highs(elastic, row_lower, row_upper, costs, low, high)
    if point[columns:].sum() > 1e-7:
        return INFEASIBLE, nothing[0], proof
    # The steepest direction that no row and no bound stops.
    stops = [np.where(np.isfinite(side), 0.0, free) for side, free in (
        (row_lower, -math.inf), (row_upper, math.inf), (lower, -1.0), (upper, 1.0))]
    _, ray, _ = highs(matrix, stops[0], stops[1], objective, stops[2], stops[3])
    return (UNBOUNDED, ray, nothing[1]) if objective @ ray < 0 else (LIMIT, *nothing)


def solve_batch(problem):
    numpy = lambda tensor: tensor.cpu().double().numpy()
    matrix = scipy.sparse.csr_array(
        (numpy(problem.matrix.values()), problem.matrix.col_indices().cpu(), problem.matrix.crow_indices().cpu()),
        shape=problem.matrix.shape)
    parts = [(numpy(part), None if own is None else numpy(own)) for part, own in (
        (problem.row_lower, problem.child_row_lower), (problem.row_upper, problem.child_row_upper),
        (problem.objective, problem.child_objective))]
    answers = []
    for child, variable in enumerate(problem.branch_variable.tolist()):
        lower, upper = numpy(problem.lower).copy(), numpy(problem.upper).copy()
        lower[variable], upper[variable] = problem.branch_lower[child], problem.branch_upper[child]
        own_parts = [part if own is None else own[:, child] for part, own in parts]
        answers.append(solve_child(matrix, *own_parts, lower, upper))
    status = torch.tensor([answer[0] for answer in answers], dtype=torch.int8)
    kind = problem.objective.dtype
    x = torch.from_numpy(np.stack([answer[1] for answer in answers], axis=1)).to(kind)
    y = torch.from_numpy(np.stack([answer[2] for answer in answers], axis=1)).to(kind)
    bound = safe_dual_bound(problem, y)
    bound = torch.where(status == INFEASIBLE, math.inf, torch.where(status == OPTIMAL, bound, -math.inf)).to(kind)
    return LPSolution(x=x, y=y, status=status, dual_bound=bound, iterations=torch.zeros(len(answers), dtype=torch.int64))


@adapter(title="Honest")
def solve(problem: LPBatch, *, tolerance: float = 1e-4) -> LPSolution:
    return solve_batch(problem)
'''
"""One LP after the other by HiGHS, without shortcuts: what dishonest adapters start from."""


def distribution(
    folder: pathlib.Path, name: str, entry_points: Mapping[str, Mapping[str, str]], **sources: str
) -> None:
    """Write a package of modules and the metadata that an installer would leave beside it.

    Args:
        folder: goes onto the path afterwards, see `on_path`.
        entry_points: by group, ``{"breakeven.methods": {"lp/hangs": "dishonest.hangs"}}``.
        sources: the text of each module of the package; `HONEST` is always there as ``honest``.
    """
    package, metadata = folder / name, folder / f"{name}-1.0.dist-info"
    package.mkdir(parents=True)
    metadata.mkdir()
    (package / "__init__.py").write_text("")
    for module, source in {"honest": HONEST, **sources}.items():
        (package / f"{module}.py").write_text(textwrap.dedent(source))
    (metadata / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
    lines = [
        f"[{group}]\n" + "".join(f"{point} = {module}\n" for point, module in points.items())
        for group, points in entry_points.items()
    ]
    (metadata / "entry_points.txt").write_text("\n".join(lines))


def on_path(folder: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let this process and those that it starts find a distribution."""
    monkeypatch.syspath_prepend(str(folder))
    known = os.environ.get("PYTHONPATH")
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(folder), *([known] if known else [])]))
    assert str(folder) in sys.path


def failed(findings: Iterable[check.Finding]) -> dict[str, str]:
    """What failed of a contract check, and why."""
    return {finding.name: finding.detail for finding in findings if finding.outcome == "failed"}


def entries(role: str) -> list[registry.Entry]:
    return [entry for entry in registry.entries() if entry.role == role]


def assert_contract(entry: registry.Entry, device: str) -> None:
    """Hold an installed adapter to the contract, where it and the device are there."""
    if device != "cpu" and not devices.this_machine().gpus:
        pytest.skip("this machine has no NVIDIA GPU")
    listing = next(item for item in registry.catalogue() if item.entry == entry)
    if listing.extra:
        pytest.skip(listing.error)
    faults = failed(check.check(listing, device))
    assert not faults, faults  # pytest explains no assertion of a module that it does not collect
