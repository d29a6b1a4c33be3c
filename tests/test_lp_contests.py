"""The contests of linear programming: their sizes exist, their questions are asked, and wrong answers are wrong in each."""

import dataclasses
import importlib
import inspect
import json
import math
import os
import pathlib
import statistics

import pytest
import torch

from breakeven.baselines.lp import simplex
from breakeven.benchmarks import lp as contests
from breakeven.problems.lp import INFEASIBLE, LIMIT, LPBatch
from breakeven.sweep import Sweep

SWEEPS = [
    sweep
    for _, sweep in inspect.getmembers(contests, inspect.isclass)
    if issubclass(sweep, Sweep) and sweep is not Sweep
]


def made(dataset: str, sizes: dict, seed: int = 0) -> LPBatch:
    module = importlib.import_module(f"breakeven.datasets.lp.{dataset}")
    return getattr(module, dataset)(**sizes, seed=seed)


@pytest.fixture(autouse=True)
def own_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("BREAKEVEN_CACHE", str(tmp_path / "cache"))


def test_every_question_is_asked_at_two_accuracies():
    names = {sweep.contest.name for sweep in SWEEPS}
    questions = {"strong_branching", "bound_tightening", "single", "tiny"}
    assert names == questions | {f"{name}_precise" for name in questions}
    for sweep in SWEEPS:
        tolerance = 1e-6 if sweep.contest.name.endswith("_precise") else 1e-4
        assert sweep.contest.given == {"tolerance": tolerance}
        assert sweep.contest.subject_to == {"relative_kkt": tolerance, "bound_violation": 1e-6, "status_errors": 0}
        assert sweep.quick
        assert sweep.full
        assert sweep.of_a_file


@pytest.mark.parametrize("sweep", SWEEPS, ids=lambda sweep: sweep.contest.name)
def test_sizes_are_those_that_data_sets_take(sweep):
    for grid in (*sweep.quick, *sweep.full):
        function = getattr(importlib.import_module(f"breakeven.datasets.lp.{grid.dataset}"), grid.dataset)
        assert set(grid.sizes) <= set(function.dataset.sizes)
        for name, values in grid.sizes.items():
            if (default := function.dataset.sizes[name]) is not inspect.Parameter.empty:
                assert all(type(value) is type(default) for value in values)
    assert set(sweep.of_a_file) <= {"batch", "question"}


QUICK = [
    pytest.param(sweep, grid.dataset, sizes, seed, id=f"{sweep.contest.name} {grid.dataset} {sizes}")
    for sweep in SWEEPS
    for grid in sweep.quick
    for sizes, seed in grid.problems()
    if grid.dataset not in ("miplib", "netlib")
]


@pytest.mark.parametrize(("sweep", "dataset", "sizes", "seed"), QUICK)
def test_quick_problems_can_be_made_and_have_the_axes(sweep, dataset, sizes, seed):
    problem = made(dataset, sizes, seed)
    known = {**problem.features(), **sizes}
    assert set(sweep.contest.axes) <= set(known)
    if "tiny" in sweep.contest.name:
        assert known["columns"] < 1000
    if "single" in sweep.contest.name:
        assert problem.starts_from_slacks
        assert len(problem.reference) == 1


def smallest(sweep) -> LPBatch:
    grids = [grid for grid in sweep.quick + sweep.full if grid.dataset in ("set_cover", "transport")]
    grid = min(grids, key=lambda grid: (min(grid.sizes.get("rows", (0,))), min(grid.sizes["batch"])))
    sizes, seed = next(iter(grid.problems()))
    return made(grid.dataset, {**sizes, "batch": min(sizes["batch"], 16)}, seed)


@pytest.mark.parametrize("sweep", SWEEPS, ids=lambda sweep: sweep.contest.name)
def test_right_answers_are_right_and_wrong_ones_wrong(sweep):
    contest, problem = sweep.contest, smallest(sweep)
    right = simplex.solve(problem, **contest.given)

    def broken(**change) -> set[str]:
        judged = problem.judge(dataclasses.replace(right, **change))
        return {name for name, limit in contest.subject_to.items() if not judged[name] <= limit}

    assert broken() == set()
    last = len(problem.reference) - 1
    x, y, status, bound = (value.clone() for value in (right.x, right.y, right.status, right.dual_bound))
    away = x.clone()
    away[:, last] += 0.5
    assert "relative_kkt" in broken(x=away)
    assert "relative_kkt" in broken(y=torch.zeros_like(y)) or not y.any()
    status[last] = INFEASIBLE
    assert {"relative_kkt", "status_errors"} <= broken(status=status)
    status[last] = LIMIT
    assert "relative_kkt" in broken(status=status)
    bound[last] += 1e-3 * (1 + bound[last].abs())
    assert broken(dual_bound=bound) == {"bound_violation"}


@pytest.mark.parametrize(
    "sweep", [contests.StrongBranching, contests.BoundTightening], ids=lambda sweep: sweep.contest.name
)
def test_an_answer_to_the_parent_is_no_answer_to_its_children(sweep):
    problem = smallest(sweep)
    right = simplex.solve(problem)
    children = len(problem.reference)
    lazy = dataclasses.replace(
        right,
        x=problem.parent_x[:, None].repeat(1, children),
        y=problem.parent_y[:, None].repeat(1, children),
        status=torch.zeros_like(right.status),
    )
    assert problem.judge(lazy)["relative_kkt"] > 1e-4


def test_an_answer_at_four_digits_is_wrong_at_six():
    problem = smallest(contests.SinglePrecise)
    right = simplex.solve(problem)
    almost = dataclasses.replace(right, x=right.x * (1 + 2e-5))
    judged = problem.judge(almost)
    assert judged["relative_kkt"] <= contests.Single.contest.subject_to["relative_kkt"]
    assert judged["relative_kkt"] > contests.SinglePrecise.contest.subject_to["relative_kkt"]


def test_tightening_finds_ranges_that_were_worked_out_by_hand(tmp_path):
    """min x + 2 y; x + y >= 2; 0 <= x, y <= 3: the root is (2, 0), and x + 2 y <= 2 + 0.05 * 2 is the cutoff."""
    from breakeven.datasets.lp.mps import mps

    file = tmp_path / "tiny.lp"
    file.write_text("minimize\n obj: x + 2 y\nsubject to\n c: x + y >= 2\nbounds\n x <= 3\n y <= 3\nend\n")
    problem = mps(file=str(file), batch=4, question="tightening")
    found = simplex.solve(problem)
    value = (problem.child_objective * found.x).sum(0)
    ranges = {}
    for child, j in enumerate(problem.child_objective.abs().argmax(0).tolist()):
        way = 1 - 2 * (child % 2)
        ranges[j, way] = way * value[child].item()
    assert ranges == pytest.approx({(0, 1): 1.9, (0, -1): 2.1, (1, 1): 0.0, (1, -1): 0.1})
    assert torch.allclose(problem.reference, value)
    assert problem.judge(found)["relative_kkt"] < 1e-12


@pytest.mark.parametrize("sweep", SWEEPS, ids=lambda sweep: sweep.contest.name)
def test_named_instances_are_known(sweep):
    for grid in (*sweep.quick, *sweep.full):
        if grid.dataset in ("miplib", "netlib"):
            collection = importlib.import_module(f"breakeven.datasets.lp.{grid.dataset}").COLLECTION
            assert set(grid.sizes["instance"]) <= set(collection.checksums)


@pytest.mark.skipif(
    not any(
        pathlib.Path(folder, "lp", "miplib3").is_dir()
        for folder in os.environ.get("BREAKEVEN_DATA", "").split(os.pathsep)
    ),
    reason="no MIPLIB files at hand; name their folder in BREAKEVEN_DATA",
)
def test_real_instances_of_the_quick_sweep_are_there_and_solved():
    for sweep in SWEEPS:
        for grid in sweep.quick:
            if grid.dataset in ("miplib", "netlib"):
                for sizes, seed in grid.problems():
                    problem = made(grid.dataset, {**sizes, "batch": min(sizes["batch"], 4)}, seed)
                    judged = problem.judge(simplex.solve(problem, **sweep.contest.given))
                    assert judged["relative_kkt"] <= 1e-8
                    assert judged["status_errors"] == 0


# --- the rule of docs/LP.md


def measured() -> list[dict]:
    """The committed cells of strong branching in which both sides were right: newest record of each."""
    newest = {}
    for file in (pathlib.Path(contests.__file__).parents[1] / "results").glob("*/records/lp.strong_branching.jsonl"):
        for line in file.read_text().splitlines():
            record = json.loads(line)
            sides = record["method"], record["baseline"]
            if [side["name"] for side in sides] != ["batched_pdhg", "simplex"] or not record["blocks"]:
                continue
            if all(side["status"] == "ok" for side in sides):
                sizes = json.dumps(record["sizes"], sort_keys=True)
                newest[file, record["threads"], record["dataset"], sizes, record["seed"]] = record
    return [
        {
            "instance": record["sizes"].get("instance", record["dataset"]),
            "pivots": record["baseline"]["claims"]["iterations_median"],
            "iterations": record["method"]["claims"]["iterations_median"],
            "batch": record["problem"]["children"],
            "wins": statistics.median(
                mine / theirs
                for block in record["blocks"]
                for mine, theirs in zip(block["method"], block["baseline"], strict=True)
            )
            < 1,
        }
        for record in newest.values()
    ]


def right(cells: list[dict], share: float, pivot: float) -> int:
    """On how many cells ``iterations (1 + share / batch) < pivot * pivots`` says who wins."""
    return sum(
        (cell["iterations"] * (1 + share / cell["batch"]) < pivot * cell["pivots"]) == cell["wins"] for cell in cells
    )


def test_the_rule_is_right_on_instances_that_it_was_not_chosen_on():
    cells = measured()
    if len(cells) < 100:
        pytest.skip("too few cells of strong branching are committed")
    constants = [(share, 2 ** (k / 4)) for share in (0, 1, 2, 4, 8, 16, 32) for k in range(4, 32)]
    found = 0
    for instance in {cell["instance"] for cell in cells}:
        others = [cell for cell in cells if cell["instance"] != instance]
        counts = {chosen: right(others, *chosen) for chosen in constants}
        best = [chosen for chosen, count in counts.items() if count == max(counts.values())]
        share, pivot = (
            math.exp(statistics.mean(math.log(part + 1e-9) for part in parts)) for parts in zip(*best, strict=True)
        )
        found += right([cell for cell in cells if cell["instance"] == instance], share, pivot)
    assert found >= 0.85 * len(cells)
    assert right(cells, 8, 16) >= 0.95 * len(cells)
    assert found > 1.1 * max(sum(cell["wins"] for cell in cells), sum(not cell["wins"] for cell in cells))
