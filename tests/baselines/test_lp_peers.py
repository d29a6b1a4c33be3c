"""The peers of the simplex baseline: right within the tolerance they were asked for, or else shown as wrong by the judge."""

import importlib
import math
import os
import pathlib

import pytest
import torch
from lp_answers import assert_right, on_one_and_two_threads

from breakeven.baselines.lp import _highs, interior_point, simplex
from breakeven.contract import Unsupported
from breakeven.datasets.lp.facility_location import facility_location
from breakeven.datasets.lp.mps import mps
from breakeven.datasets.lp.set_cover import set_cover
from breakeven.datasets.lp.transport import transport
from breakeven.problems.lp import INFEASIBLE, LIMIT, OPTIMAL, UNBOUNDED, LPBatch, relative_kkt

PROBES = LPBatch.probes()
SOLVERS = ("simplex", "interior_point", "pdlp_highs", "hipdlp_highs", "pdlp_ortools", "manylp")
OF_OTHERS = {"pdlp_ortools": "ortools", "manylp": "manylp"}


@pytest.fixture(params=SOLVERS)
def solve(request):
    if request.param in OF_OTHERS:
        pytest.importorskip(OF_OTHERS[request.param], reason="the extra breakeven[peers] is not installed")
    function = importlib.import_module(f"breakeven.baselines.lp.{request.param}").solve

    def solve(problem, **options):
        if request.param == "manylp" and problem.child_objective is not None:
            with pytest.raises(Unsupported, match="bounds only"):
                function(problem, **options)
            pytest.skip("manylp takes no objectives")
        return function(problem, **options)

    solve.name = request.param
    return solve


@pytest.fixture(autouse=True)
def own_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("BREAKEVEN_CACHE", str(tmp_path / "cache"))


@pytest.mark.parametrize("name", PROBES)
def test_probes_are_solved_with_proofs(solve, name):
    assert_right(PROBES[name], solve(PROBES[name], tolerance=1e-4), 1e-4)


@pytest.mark.parametrize("tolerance", [1e-4, 1e-6])
@pytest.mark.parametrize(
    ("make", "sizes"),
    [
        (set_cover, {"rows": 50, "batch": 4}),
        (set_cover, {"rows": 50, "batch": 4, "question": "tightening"}),
        (set_cover, {"rows": 50, "batch": 1, "question": "single"}),
        (facility_location, {"facilities": 10, "customers": 25, "batch": 4}),
        (transport, {"plants": 4, "customers": 8, "batch": 8, "change": "demand"}),
        (transport, {"plants": 4, "customers": 8, "batch": 8, "change": "both"}),
    ],
    ids=["branching", "tightening", "single", "location", "demand", "both"],
)
def test_what_is_generated_is_solved_as_accurately_as_asked(solve, make, sizes, tolerance):
    problem = make(**sizes)
    solution = solve(problem, tolerance=tolerance)
    assert_right(problem, solution, tolerance)
    objective = problem.objective[:, None] if problem.child_objective is None else problem.child_objective
    value = (objective * solution.x).sum(0) + problem.offset
    assert torch.allclose(value, problem.reference, rtol=100 * tolerance, atol=100 * tolerance)


def test_the_public_error_is_the_judge_s(solve):
    problem = set_cover(rows=50, batch=4)
    solution = solve(problem)
    assert relative_kkt(problem, solution.x, solution.y).max().item() == problem.judge(solution)["relative_kkt"]


def test_threads_change_nothing_but_time(solve):
    if solve.name in ("simplex", "manylp"):
        pytest.skip("warm starts of HiGHS keep what differs in the last bits")
    one, two = on_one_and_two_threads(solve, set_cover(rows=50, batch=5))
    for name, tensor in one.tensors().items():
        assert torch.equal(tensor, getattr(two, name)), name


def test_children_are_solved_by_themselves(solve):
    """What a child's solver held before must not show: every child is the first of some batch."""
    problem = PROBES["own_objectives_and_rows"]
    together = solve(problem)
    for child in range(len(problem.reference)):
        alone = solve(problem.children([child]))
        assert torch.equal(alone.status, together.status[[child]])
        assert torch.allclose(alone.x, together.x[:, [child]], atol=1e-6)


def test_a_solver_that_this_highs_lacks_is_unsupported():
    with pytest.raises(Unsupported, match="'simplex' is none of ipx, hipo"):
        interior_point.solve(PROBES["fractional_root"], solver="simplex")
    problem = PROBES["fractional_root"]
    if _highs.Children(problem, _highs.model(problem), {"solver": "hipo"}).refused:
        with pytest.raises(Unsupported, match="built without hipo"):
            interior_point.solve(problem, solver="hipo")
    else:
        assert problem.judge(interior_point.solve(problem, solver="hipo"))["relative_kkt"] <= 1e-4


# --- odd files


def odd(pattern: str) -> list[pathlib.Path]:
    """Files among the data at hand: those of $BREAKEVEN_DATA, or beside the repository."""
    beside = pathlib.Path(__file__).parents[3] / "shared" / "data"
    folders = os.environ.get("BREAKEVEN_DATA", str(beside)).split(os.pathsep)
    return sorted(file for folder in folders for file in pathlib.Path(folder).rglob(pattern))


NO_LP = {
    "garbage.mps",
    "nan0.mps",
    "nan1.mps",
    "nan2.mps",
    "warnings.mps",
    "crossing_bounds.mps",
}  # refused as they are read


@pytest.mark.parametrize(
    "file",
    [file for file in [*odd("edge/*.mps"), *odd("highs/*.mps")] if file.name not in NO_LP],
    ids=lambda file: file.name,
)
@pytest.mark.parametrize("exact", [simplex.solve, interior_point.solve], ids=["simplex", "interior_point"])
def test_simplex_and_interior_point_say_what_odd_files_are(exact, file):
    problem = mps(file=str(file), batch=1, question="single")
    solution = exact(problem)
    judged = problem.judge(solution)
    assert judged["relative_kkt"] <= 1e-4
    assert judged["status_errors"] == judged["unsolved"] == 0
    assert not math.isnan(problem.reference.item())


# File by file, in which way each first-order peer is wrong; on all others of a folder it is right.
WRONG = {
    "edge": {
        "pdlp_highs": {"bigrhs_hides": LIMIT, "ortools3956": LIMIT},
        "hipdlp_highs": {"bigrhs_hides": LIMIT, "ortools3956": LIMIT},
        "pdlp_ortools": {"ortools3956": UNBOUNDED},
    },
    "highs": {
        "pdlp_highs": dict.fromkeys(("bgetam", "box1", "cplex1", "ex72a", "forest6", "klein1", "refinery"), LIMIT),
        "hipdlp_highs": dict.fromkeys(
            ("bgetam", "box1", "cplex1", "ex72a", "forest6", "klein1", "refinery", "sp150x300d"), LIMIT
        ),
        "pdlp_ortools": {
            "bgetam": INFEASIBLE, "cplex1": INFEASIBLE, "forest6": INFEASIBLE, "woodinfe": INFEASIBLE,
            "gas11": LIMIT, "klein1": LIMIT, "refinery": LIMIT,
        },
    },
}  # fmt: skip
SLOW = {"cplex1"}


@pytest.mark.parametrize("folder", WRONG)
@pytest.mark.parametrize("name", WRONG["edge"])
def test_wrong_answers_of_peers_are_shown_as_wrong(name, folder):
    files = [file for file in odd(f"{folder}/*.mps") if file.name not in NO_LP and file.stem not in SLOW]
    if not files:
        pytest.skip("no such files at hand; name their folder in BREAKEVEN_DATA")
    if name == "pdlp_ortools":
        pytest.importorskip("ortools", reason="the extra breakeven[peers] is not installed")
    peer = importlib.import_module(f"breakeven.baselines.lp.{name}")
    found = {}
    for file in files:
        problem = mps(file=str(file), batch=1, question="single")
        solution = peer.solve(problem, tolerance=1e-4)
        if problem.judge(solution)["relative_kkt"] > 1e-4:
            found[file.stem] = solution.status.item()
    expected = {stem: status for stem, status in WRONG[folder][name].items() if stem not in SLOW}
    assert found == expected


def test_one_large_side_hides_a_violation_from_every_relative_norm():
    """x >= 3 beside w <= 1e9: x = 0 has a relative residual of 3e-9, which the absolute one tells."""
    inf = math.inf
    beside = LPBatch(
        name="hidden", matrix=torch.eye(2).double().to_sparse_csr(), objective=torch.tensor([1e-9, 0.0]).double(),
        row_lower=torch.tensor([3.0, -inf]).double(), row_upper=torch.tensor([inf, 1e9]).double(),
        lower=torch.zeros(2).double(), upper=torch.full((2,), inf).double(), offset=0.0,
        branch_variable=torch.zeros(1, dtype=torch.int64), branch_lower=torch.zeros(1).double(),
        branch_upper=torch.full((1,), inf).double(), parent_x=torch.zeros(2).double(), parent_y=torch.zeros(2).double(),
        parent_column_basis=torch.zeros(2, dtype=torch.int8), parent_row_basis=torch.ones(2, dtype=torch.int8),
        reference=torch.tensor([3e-9]).double(),
    )  # fmt: skip
    exact = simplex.solve(beside)
    assert exact.status.item() == OPTIMAL
    hidden = type(exact)(
        torch.zeros(2, 1).double(), torch.zeros(2, 1).double(), exact.status, exact.dual_bound, exact.iterations
    )
    judged = beside.judge(hidden)
    assert judged["relative_kkt"] < 1e-8
    assert judged["absolute_violation"] == 3
