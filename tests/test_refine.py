"""Refinement on made-up cost curves: it finds the crossing, says why it stops, and asks for no cell twice."""

import math

import click.testing
import pytest
import simulation
import verdicts_at_scale

from breakeven import cli, refine, registry, sampling
from breakeven.cell import Cell
from breakeven.contract import Contest
from breakeven.records import Record, Side

CONTEST = Contest("lp", "race", "Who is faster?", "Toy", axes=("size",), baseline="old")


def listing(role: str, name: str, tmp_path) -> registry.Listing:
    file = tmp_path / f"{name}.py"
    file.write_text("")
    return registry.Listing(registry.Entry(role, "toy", name, name, str(file)), functions={"Toy": {}})


@pytest.fixture
def cells(tmp_path):
    """A coarse grid, powers of four."""
    sides = [registry.Entrant(name, listing("method", name, tmp_path), {}) for name in ("new", "old")]
    data = listing("dataset", "data", tmp_path)
    return [Cell(CONTEST, *sides, data, {"size": 4**k}, 0, "cpu", 1) for k in range(6)]


class Bench:
    """Measures cells in no time: the method's seconds over the baseline's are ``ratio(size)``, with noise."""

    def __init__(self, ratio, noise=simulation.QUIET, most=math.inf):
        self.ratio, self.noise, self.most = ratio, noise, most
        self.kept: list[Record] = []

    @property
    def sizes(self):
        return [record.sizes["size"] for record in self.kept]

    def measure(self, cells):
        done = []
        for cell in cells:
            if len(self.kept) >= self.most:
                break
            size = cell.sizes["size"]
            blocks, stopped = simulation.duel(1e-2 * self.ratio(size), 1e-2, self.noise, f"{size}", budget_seconds=2.0)
            record = Record(
                key=cell.key, contest="lp/race", dataset="data", sizes=dict(cell.sizes), seed=0, device="cpu", threads=1,
                given={}, method=Side("new"), baseline=Side("old"), blocks=blocks, stopped=stopped, machine="mine",
            )  # fmt: skip
            done.append(record)
            self.kept.append(done[-1])
        return done

    def refined(self, cells, **options):
        self.measure(cells)
        return refine.refine(cells, self.measure, lambda: self.kept, **options)


def crossing(at):
    """Both cost curves are powers of the size: the ratio falls through 1 at ``at``."""
    return lambda size: (size / at) ** -0.4


@pytest.mark.parametrize("at", [2.5, 7.0, 30.0, 100.0, 400.0])
def test_it_finds_where_the_winner_changes(cells, at):
    bench = Bench(crossing(at))
    (outcome,) = bench.refined(cells, within=1.25)
    assert outcome.ending in ("reached", "whole numbers", "noise")
    new = bench.sizes[len(cells) :]
    assert len(new) == len(set(new)) <= 5
    assert all(at / 4 <= size <= 4 * at for size in new)  # nothing far from the crossing is measured
    low, high = outcome.text.split("[")[1].split("]")[0].split(", ")
    assert float(low) / 1.1 <= at <= float(high) * 1.1


def test_a_narrower_factor_takes_more_cells(cells):
    wide, narrow = Bench(crossing(100.0)), Bench(crossing(100.0))
    wide.refined(cells, within=3.0)
    narrow.refined(cells, within=1.02)
    assert len(narrow.kept) > len(wide.kept)


def test_without_a_crossing_nothing_is_measured(cells):
    for ratio in (0.5, 2.0):
        bench = Bench(lambda size, ratio=ratio: ratio)
        assert bench.refined(cells) == []
        assert len(bench.kept) == len(cells)


def test_whole_numbers_end_it(cells):
    bench = Bench(lambda size: 3.0 if size < 2 else 0.3, noise=simulation.VERY_QUIET)
    (outcome,) = bench.refined(cells, within=1.01)
    assert outcome.ending == "whole numbers"
    assert "no whole size lies between" in outcome.text
    assert bench.sizes[len(cells) :] == [2]


def test_noise_ends_it(cells):
    bench = Bench(crossing(500.0), noise=simulation.WORST)
    (outcome,) = bench.refined(cells, within=1.02)
    assert outcome.ending == "noise"
    assert "the noise of this machine forbids" in outcome.text


def test_a_budget_that_ends_is_told(cells):
    bench = Bench(crossing(100.0), most=7)
    (outcome,) = bench.refined(cells, within=1.02)
    assert outcome.ending == "unfinished"
    assert len(bench.kept) == 7


def test_a_factor_of_one_cannot_be_reached(cells):
    with pytest.raises(ValueError, match="a factor above 1"):
        refine.refine(cells, lambda some: [], list, within=1.0)


# -- what it costs (at scale: tests/verdicts_at_scale.py) -------------------------------------------------------------

LINES = 24


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("adapters")


def test_a_factor_of_1_25_takes_a_third_of_a_full_grid_of_such_steps(folder):
    """The grid's neighbours are as far apart as the refined interval is wide: a table read without an estimator."""
    start = verdicts_at_scale.grid_of(4)
    found = {
        seed: verdicts_at_scale.refined(seed, simulation.QUIET, folder, within=1.25, start=start)
        for seed in range(LINES)
    }
    found = {seed: one for seed, one in found.items() if one}
    assert len(found) >= 0.9 * LINES
    assert all(one.ending == "reached" for one in found.values())
    assert sum(one.is_covered for one in found.values()) >= 0.85 * len(found)
    shares = [
        one.cost() / verdicts_at_scale.bare_grid(seed, simulation.QUIET, folder, max(one.width, 1.25))
        for seed, one in found.items()
    ]
    assert max(shares) < 1 / 3


def test_asking_by_how_much_refines_further_with_fewer_cells(folder, monkeypatch):
    """Cells near a break-even size are ties, and sampling that stops for one favours blocks that happen to agree."""

    def endings():
        start = verdicts_at_scale.grid_of(4)
        made = [
            verdicts_at_scale.refined(seed, simulation.QUIET, folder, within=1.02, start=start) for seed in range(LINES)
        ]
        made = [one for one in made if one]
        return sum(one.ending == "reached" for one in made) / len(made), sum(one.cells for one in made)

    reached, count = endings()
    assert reached >= 0.8
    monkeypatch.setitem(sampling.GOALS, "ratio", sampling.decide)
    assert endings()[0] < reached
    assert endings()[1] > count


def test_the_command_refines_by_how_much_and_sweeps_by_who(monkeypatch, tmp_path):
    asked = []

    def run(some, store, limits, **_):
        asked.append((len(some), limits.goal))
        return [Record("", "lp/race", "", {}, 0, "cpu", 1, {}, Side("new"), Side("old")) for _ in some]

    monkeypatch.setattr(cli.sweep, "run", run)
    monkeypatch.setattr(cli.refine, "refine", lambda cells, measure, records, within: measure(cells[:1]) and [])
    words = ["run", "lp/strong_branching", "--dataset", "set_cover", "--refine", "--results", str(tmp_path)]
    said = click.testing.CliRunner().invoke(cli.main, words, catch_exceptions=False)
    assert said.exit_code == 0, said.output
    assert [goal for _, goal in asked] == ["winner", "ratio"]
    assert asked[1][0] == 1
