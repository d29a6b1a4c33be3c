"""Which cells a gate times with its budget, and what becomes of those that fail or find no room."""

import random
import tempfile

import pytest

from breakeven.gate import measurement, schedule, sides, verdicts
from breakeven.gate.schedule import BASE, HEAD


def chosen(costs: dict[str, float], seconds: float, start_seconds: float = 0.0) -> set[str]:
    """Cells are named by their line and size: ``a1`` to ``a9``."""
    return set(schedule.affordable({name: name[0] for name in costs}, costs, seconds, start_seconds))


def test_all_cells_are_timed_where_there_is_time():
    costs = {f"{line}{size}": 0.3 for line in "abc" for size in range(3)}
    assert chosen(costs, 600) == set(costs)


def test_a_line_without_room_is_left_out_and_one_is_timed_however_short_the_time():
    costs = {"a1": 5.0, "a2": 2.0, "a3": 9.0, "b1": 1.0, "b2": 30.0}
    assert chosen(costs, 1) == chosen(costs, 100, start_seconds=100) == {"b1"}
    assert chosen(costs, 24 * 5) == {"a2", "b1"}
    assert chosen(costs | {"c1": 100.0}, 24 * 5) == {"a2", "b1"}


def test_the_largest_that_fits_stands_for_its_line_and_the_rest_of_the_room_is_used():
    costs = {"a1": 0.1, "b1": 0.1, "a2": 1.0, "b2": 20.0, "a3": 20.0, "b3": 40.0}
    assert chosen(costs, 24 * 5) == {"a2", "b1", "a1"}
    assert {"a3", "b2"} <= chosen(costs, 24 * 50)


def test_the_usual_number_of_pairs_fits_into_the_seconds():
    draw = random.Random(0)
    for _ in range(200):
        costs = {f"{line}{size}": draw.expovariate(1.0) for line in "abcd" for size in range(5)}
        seconds, start = draw.uniform(200, 900), draw.uniform(1, 4)
        picked = chosen(costs, seconds, start)
        process = start + sum(costs[name] + schedule.ROOM_TO_SAMPLE for name in picked)
        assert len(picked) == 1 or 2 * schedule.USUAL_PAIRS * process <= seconds


def test_a_cell_that_is_not_timed_passes_with_its_answers_judged():
    one = verdicts.CellResult("toy/race", "m", "data size=1 seed=0", verdicts.JUDGED)
    assert not one.regressed
    assert verdicts.Report("a", "b", (one,), 0, (), 600.0, 1.0).exit_code == verdicts.PASSED


class QuickSession:
    """Stands in for a process: every cell is the same on both sides, and making a problem takes as long as its size says."""

    def __init__(self, build, threads):
        pass

    def __enter__(self):
        return self

    def __exit__(self, *_):
        pass

    def measure(self, facts, limits, *, key, against_control, alone=False):
        spent = {"start": 1.0, "problem": float(facts["sizes"]["size"]), "first call": 90.0}
        ends = facts.get("ends", "ok")
        seconds = ends if isinstance(ends, list) else [0.01]
        status, seconds = ("ok" if ends is seconds else ends), seconds.pop(0) if len(seconds) > 1 else seconds[0]
        return sides.Outcome(
            status, "so it says", value=random.Random(key).gauss(0, 1e-3), seconds=seconds, spent=spent
        )

    def peak_bytes(self, facts, limits):
        return 1000


@pytest.fixture
def compared(monkeypatch, tmp_path):
    """Compares cells of one line, one for each size, without a process; their facts may be changed side by side."""
    monkeypatch.setattr(measurement, "Session", QuickSession)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))

    def compare(budget: float, sizes=(1, 10, 30), changed=("method",), said=None, **ends: dict) -> dict:
        metric = {"name": "seconds", "lower_is_better": True, "scale": "ratio", "margin": 0.05}
        pairs = {}
        for size in sizes:
            facts = {"contest": "toy/race", "method": "new", "baseline": "old", "dataset": "data", "problem": f"size={size}",
                     "sizes": {"size": size}, "rank_by": metric, "subject_to": {}, "job": {}}  # fmt: skip
            pair = [
                facts | ({"ends": ends[side][size]} if size in ends.get(side, {}) else {}) for side in ("base", "head")
            ]
            pairs[str(size)] = measurement.Pair(*pair, changed, False)
        said = [] if said is None else said
        request = measurement.Request("base", budget_seconds=budget)
        results = measurement.Measurement(request, dict.fromkeys((BASE, HEAD)), 1, pairs, said.append).results()
        return dict(zip(pairs, results, strict=True))

    return compare


@pytest.mark.parametrize(
    ("budget", "expected"),
    [
        (24 * 70.0, ["same"] * 3),
        (24 * 20.0, ["same", "same", "judged"]),
        (24 * 10.5, ["same", "judged", "judged"]),
    ],
)
def test_a_gate_times_what_its_budget_holds_and_judges_the_rest(budget, expected, compared):
    said: list[str] = []
    assert [one.verdict for one in compared(budget, said=said).values()] == expected
    assert any("cells are timed; a longer --budget holds more" in one for one in said) == (expected != ["same"] * 3)


def test_unchanged_code_that_is_too_slow_for_the_budget_holds_nothing_up(compared):
    found = compared(24 * 5.0, changed=(), sizes=(1, 10, 30, 40))
    assert [one.verdict for one in found.values()] == ["same", "judged", "left out", "left out"]
    assert "a smaller size took 101 s: the budget does not hold 24 such processes" in found["40"].notes[0]
    assert not any(one.regressed for one in found.values())


def test_what_takes_several_times_as_long_is_slower_even_where_the_budget_does_not_time_it(compared):
    took = {30: [0.8, 1.0]}
    found = compared(24 * 20.0, base=took, head={30: [3.5, 3.4]})
    assert [one.verdict for one in found.values()] == ["same", "same", "slower"]
    assert "single calls took 0.8 and 1 s at BASE, 3.5 and 3.4 s at HEAD" in found["30"].notes[0]
    assert found["30"].regressed
    found = compared(24 * 5.0, sizes=(1, 30), base={30: [3.5, 3.4]}, head={30: [0.8, 1.0]})
    assert [one.verdict for one in found.values()] == ["same", "faster"]
    # Once is no proof, nor is a smaller factor; and what is timed is decided by its times.
    assert compared(24 * 20.0, head={30: [1.0, 0.01]})["30"].verdict == "judged"
    assert compared(24 * 20.0, base={30: [1.0]}, head={30: [2.5]})["30"].verdict == "judged"
    assert compared(24 * 70.0, head={30: [1.0]})["30"].verdict == "same"


def test_what_is_wrong_or_late_on_both_sides_is_failing_and_is_not_tried_again(compared):
    found = compared(24 * 70.0, base={1: "wrong", 10: "crash"}, head={1: "wrong", 10: "crash"})
    assert [one.verdict for one in found.values()] == ["failing", "failing", "same"]
    assert "wrong at BASE and wrong at HEAD" in found["1"].notes[0]


def test_nothing_is_fixed_or_broken_by_a_failure_that_the_time_kept_from_a_second_try(compared, monkeypatch):
    """BASE failed twice, HEAD once, in another way: it is not known whether HEAD answers well."""
    tried = measurement.Measurement._measure

    def no_second_try_at_head(self, side, names, *rest, **job):
        again = any(self._outcomes[name][side] for name in names)
        return {} if side == HEAD and again else tried(self, side, names, *rest, **job)

    monkeypatch.setattr(measurement.Measurement, "_measure", no_second_try_at_head)
    found = compared(24 * 70.0, sizes=(1,), base={1: "wrong"}, head={1: "crash"})
    assert found["1"].verdict == "undecided"
    assert any("failed once in 1 processes at HEAD" in note for note in found["1"].notes)
