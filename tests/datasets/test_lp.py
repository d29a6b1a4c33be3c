"""Data sets of LPs: the same every time, nested in the batch size, right in their references, clear about broken input."""

import gzip
import math
import os
import pathlib

import numpy as np
import pytest
import scipy.optimize
import torch

from breakeven.baselines.lp import simplex
from breakeven.contract import BadInput, Unsupported
from breakeven.datasets.lp import miplib as miplib_module
from breakeven.datasets.lp.facility_location import facility_location
from breakeven.datasets.lp.miplib import miplib
from breakeven.datasets.lp.mps import mps
from breakeven.datasets.lp.set_cover import set_cover

KNAPSACK = """\
maximize
 obj: 5 x + 4 y + 3 z + 7
subject to
 c: 2 x + 3 y + z <= 4
 d: 4 x + y + 2 z <= 5
bounds
 x <= 1
 y <= 1
 z <= 1
general
 x y z
end
"""


@pytest.fixture(autouse=True)
def own_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("BREAKEVEN_CACHE", str(tmp_path / "cache"))


@pytest.fixture
def knapsack(tmp_path):
    file = tmp_path / "knapsack.lp"
    file.write_text(KNAPSACK)
    return file


def real(pattern: str) -> list[pathlib.Path]:
    """Files among the data at hand: those of $BREAKEVEN_DATA, or beside the repository."""
    beside = pathlib.Path(miplib_module.__file__).parents[3] / "shared" / "data"
    folders = os.environ.get("BREAKEVEN_DATA", str(beside)).split(os.pathsep)
    return sorted(file for folder in folders for file in pathlib.Path(folder).rglob(pattern))


GENERATED = [
    (set_cover, {"rows": 100, "batch": 8}),
    (facility_location, {"facilities": 10, "customers": 25, "batch": 4}),
]


@pytest.mark.parametrize(("make", "sizes"), GENERATED)
def test_the_same_sizes_and_seed_give_the_same_problem(make, sizes):
    one, two, other = make(**sizes, seed=4), make(**sizes, seed=4), make(**sizes, seed=5 if "customers" in sizes else 3)
    for name, tensor in one.tensors().items():
        left, right = (t.to_dense() if t.layout == torch.sparse_csr else t for t in (tensor, two.tensors()[name]))
        assert torch.equal(left.nan_to_num(7.7), right.nan_to_num(7.7)), name
    assert not torch.equal(one.parent_x, other.parent_x)


@pytest.mark.parametrize(("make", "sizes"), GENERATED)
def test_a_smaller_batch_is_the_beginning_of_a_larger_one(make, sizes):
    small, large = make(**sizes | {"batch": 2}, seed=0), make(**sizes, seed=0)
    for name in ("branch_variable", "branch_lower", "branch_upper"):
        assert torch.equal(getattr(small, name), getattr(large, name)[:2])


@pytest.mark.parametrize(("make", "sizes"), GENERATED)
def test_children_cut_off_the_parent_s_optimum_and_references_are_exact(make, sizes):
    problem = make(**sizes, seed=0)
    matrix = problem.matrix.to_dense().numpy()
    parent = problem.parent_x[problem.branch_variable]
    assert ((parent < problem.branch_lower) | (parent > problem.branch_upper)).all()
    for child in range(len(problem.reference)):
        lower, upper = problem.lower.numpy().copy(), problem.upper.numpy().copy()
        variable = problem.branch_variable[child]
        lower[variable], upper[variable] = problem.branch_lower[child], problem.branch_upper[child]
        rows = scipy.optimize.LinearConstraint(matrix, problem.row_lower.numpy(), problem.row_upper.numpy())
        answer = scipy.optimize.milp(problem.objective.numpy(), constraints=rows, bounds=np.array([lower, upper]))
        exact = math.inf if answer.status == 2 else answer.fun + problem.offset
        assert problem.reference[child].item() == pytest.approx(exact, rel=1e-8)


def test_the_parent_is_optimal_by_its_duals():
    problem = facility_location(facilities=10, customers=25, batch=4, seed=2)
    reduced = problem.objective - problem.matrix.to_dense().T @ problem.parent_y
    below, above = problem.parent_x - problem.lower, problem.upper - problem.parent_x
    assert (reduced.clamp(min=0) * below).max() < 1e-6
    assert (reduced.clamp(max=0).abs() * above).max() < 1e-6


def test_formulations_have_the_sizes_that_they_say():
    problem = facility_location(facilities=10, customers=25, batch=4, seed=0)
    assert tuple(problem.matrix.shape) == (25 + 10 + 250, 250 + 10)
    assert problem.features()["nonzeros"] == 4 * 250 + 10
    cover = set_cover(rows=50, batch=8, seed=0)
    assert tuple(cover.matrix.shape) == (50, 100)
    assert (cover.matrix.values() == 1).all()


def test_a_maximisation_is_turned_around(knapsack):
    problem = mps(file=str(knapsack), batch=2, seed=0)
    assert problem.objective.tolist() == [-5, -4, -3]
    assert problem.offset == -7
    best = max(
        5 * x + 4 * y + 3 * z + 7
        for x in np.linspace(0, 1, 81) for y in np.linspace(0, 1, 81) for z in np.linspace(0, 1, 81)
        if 2 * x + 3 * y + z <= 4 + 1e-9 and 4 * x + y + 2 * z <= 5 + 1e-9
    )  # fmt: skip
    parent = problem.objective @ problem.parent_x + problem.offset
    assert -best - 0.2 <= parent.item() <= -best + 1e-9
    assert (problem.reference >= parent - 1e-9).all()


def test_compressed_files_are_the_same_model(knapsack, tmp_path):
    packed = tmp_path / "packed.lp.gz"
    packed.write_bytes(gzip.compress(KNAPSACK.encode()))
    assert torch.equal(mps(file=str(packed), batch=2).parent_x, mps(file=str(knapsack), batch=2).parent_x)


def test_the_root_is_solved_once_and_kept(knapsack, tmp_path, monkeypatch):
    first = mps(file=str(knapsack), batch=2)
    kept = list((tmp_path / "cache").rglob("*.npz"))
    assert kept
    monkeypatch.setattr("highspy.Highs.run", lambda self: pytest.fail("solved again"))
    monkeypatch.setattr("highspy._core._Highs.run", lambda self: pytest.fail("solved again"), raising=False)
    assert torch.equal(mps(file=str(knapsack), batch=2).reference, first.reference)


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        ("garbage.mps", "this is no model", "garbage.mps: HiGHS cannot read it"),
        ("empty.mps", "", "empty.mps"),
        ("model.txt", KNAPSACK, "the ending does not say what it is"),
        ("crossing.lp", KNAPSACK.replace("x <= 1", "3 <= x <= 1"), "crossing"),
        ("nan.lp", KNAPSACK.replace("5 x +", "nan x +"), "nan.lp"),
    ],
)
def test_broken_files_are_told_by_name(tmp_path, name, text, said):
    file = tmp_path / name
    file.write_text(text)
    with pytest.raises(BadInput, match=said):
        mps(file=str(file), batch=2)


def test_what_does_not_exist_is_told():
    with pytest.raises(BadInput, match="there is no such file"):
        mps(file="/nowhere/model.mps")
    with pytest.raises(BadInput, match="ask for at least 1"):
        set_cover(rows=50, batch=0)
    with pytest.raises(Unsupported, match=r"has \d+ children, 100000 asked"):
        set_cover(rows=50, batch=100000)
    with pytest.raises(BadInput, match="ask for at least"):
        facility_location(facilities=1, customers=0)


def test_models_without_a_question_are_unsupported(tmp_path):
    continuous = tmp_path / "continuous.lp"
    continuous.write_text(KNAPSACK.replace("general\n x y z\n", ""))
    with pytest.raises(Unsupported, match="no fractional variable at the root"):
        mps(file=str(continuous))
    infeasible = tmp_path / "infeasible.lp"
    infeasible.write_text(KNAPSACK.replace("end", "").replace("<= 4", "<= -4") + "end\n")
    with pytest.raises(Unsupported, match="the root LP has no optimum: infeasible"):
        mps(file=str(infeasible))


def test_a_missing_instance_says_which_file_to_put_where(tmp_path, monkeypatch):
    monkeypatch.setenv("BREAKEVEN_DATA", str(tmp_path))
    monkeypatch.setattr(miplib_module, "_folders", lambda: [tmp_path])
    with pytest.raises(Unsupported, match=f"put 10teams.gz of {miplib_module.COLLECTION}"):
        miplib(instance="10teams")
    with pytest.raises(BadInput, match="no name of an instance"):
        miplib(instance="../10teams")
    (tmp_path / "10teams.mps").write_text("NAME something else\n")
    with pytest.raises(BadInput, match="10teams"):
        miplib(instance="10teams")


def test_real_instances_have_the_optima_that_are_published():
    if not real("misc03.mps*"):
        pytest.skip("no MIPLIB files at hand; name their folder in BREAKEVEN_DATA")
    for name, optimum in {"misc03": 1910, "p0201": 6875, "stein27": 13, "qiu": -931.638846}.items():
        problem = miplib(instance=name, batch=2)
        parent = (problem.objective @ problem.parent_x).item() + problem.offset
        assert parent == pytest.approx(optimum, rel=1e-8)


@pytest.mark.parametrize("file", [*real("highs/*.mps"), *real("highs/*.lp"), *real("edge/*.mps")], ids=lambda f: f.name)
def test_odd_files_end_in_a_problem_or_in_a_clear_error(file):
    try:
        problem, said = mps(file=str(file), batch=2), ""
    except (BadInput, Unsupported) as error:
        problem, said = None, str(error)
    if problem is None:
        assert file.name.split(".")[0] in said
        assert "\n" not in said
    else:
        assert problem.judge(simplex.solve(problem))["relative_kkt"] <= 1e-6
