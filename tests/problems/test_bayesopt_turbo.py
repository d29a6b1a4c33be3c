"""The trust region to ask and tell, and how batches are chosen: rules of the paper, bad input, going on from a file."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from breakeven.contract import BadInput
from breakeven.problems.bayesopt import LONGEST, SHORTEST, START, BlackBox, Observations
from breakeven.problems.bayesopt.acquisition import lowest_confidence, non_dominated
from breakeven.problems.bayesopt.turbo import Box, TrustRegion, at_observations, run

UNIT = np.tile([0.0, 1.0], (3, 1))


class First(TrustRegion):
    """Takes the first candidates."""

    def choose(self, candidates, count):
        return np.arange(count)


def told(optimizer, *batches):
    rng = np.random.default_rng(9)
    for values in batches:
        optimizer.tell(rng.random((len(values), len(optimizer.box))), np.array(values, dtype=float))
    return optimizer


# --- choosing


def test_the_lowest_confidence_bounds_are_chosen_best_first():
    mean, deviation = np.array([0.0, 3.0, 1.0, 5.0]), np.array([0.0, 4.0, 0.5, 1.0])
    assert lowest_confidence(mean, deviation, 3, np.random.default_rng(0)).tolist() == [1, 0, 2]


def test_ties_are_broken_at_random_but_by_the_seed():
    same = np.zeros(50), np.ones(50)
    drawn = [tuple(lowest_confidence(*same, 5, np.random.default_rng(seed))) for seed in (0, 0, 1)]
    assert drawn[0] == drawn[1] != drawn[2]


def dominates(a, b):
    return a[0] <= b[0] and a[1] >= b[1] and (a[0] < b[0] or a[1] > b[1])


def fronts_by_definition(points):
    left, fronts = list(range(len(points))), []
    while left:
        front = [i for i in left if not any(dominates(points[j], points[i]) for j in left)]
        fronts.append(set(front))
        left = [i for i in left if i not in front]
    return fronts


@settings(max_examples=100, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 4), st.integers(0, 4)), min_size=1, max_size=14), st.integers(1, 14))
def test_fronts_are_peeled_as_they_are_defined(points, count):
    count = min(count, len(points))
    mean, deviation = np.array(points, dtype=float).T
    chosen = non_dominated(mean, deviation, count, np.random.default_rng(0)).tolist()
    assert len(set(chosen)) == count == len(chosen)
    for front in fronts_by_definition(points):
        part, chosen = chosen[: len(front)], chosen[len(front) :]
        assert set(part) <= front
        if not chosen:
            return


# --- the region


def test_three_successes_double_the_length_up_to_a_limit():
    optimizer = told(First(UNIT, initial=2), [10, 9])
    for expected, value in zip([START] * 2 + [LONGEST] * 5, range(8, 1, -1), strict=True):
        told(optimizer, [value])
        assert optimizer.length == expected


def test_failures_halve_the_length_until_a_new_region_begins():
    optimizer = told(First(UNIT, initial=2), [1, 2])
    lengths = []
    while not optimizer.restarts:
        told(optimizer, [3, 3])  # ceil(max(4/2, 3/2)) = 2 batches of failures
        lengths.append(optimizer.length)
    assert lengths[:4] == [START, START / 2, START / 2, START / 4]
    assert min(lengths) >= SHORTEST
    assert lengths[-1] == START
    assert len(optimizer.active_y) == 0
    assert optimizer.best()[1] == 1  # of all that was told
    assert len(optimizer.ask(2)) == 2


@pytest.mark.parametrize("offset", [0.0, 1e6, -1e6])
def test_by_the_range_an_offset_changes_nothing(offset):
    optimizer = told(First(UNIT, initial=2, success="range"), [offset + 1, offset + 2], [offset + 0.9])
    assert optimizer.successes == 1
    told(optimizer, [offset + 0.8999])
    assert optimizer.failures == 1


def test_by_the_magnitude_an_offset_hides_successes_as_in_the_published_code():
    optimizer = told(First(UNIT, initial=2), [1e6 + 1, 1e6 + 2], [1e6 + 0.1])
    assert optimizer.failures == 1


def test_by_the_range_large_first_values_hide_successes_and_by_the_magnitude_they_do_not():
    published, by_range = (
        told(First(UNIT, initial=2, success=rule), [1.0, 1e6], [0.5]) for rule in ("magnitude", "range")
    )
    assert (published.successes, by_range.failures) == (1, 1)
    assert First(UNIT).success == "magnitude"


def test_the_initial_design_is_no_success_and_is_a_latin_hypercube():
    optimizer = First(UNIT, initial=10, seed=4)
    points = optimizer.ask(10)
    assert (np.sort(np.floor(points * 10), axis=0) == np.arange(10)[:, None]).all()
    optimizer.tell(points, np.arange(10.0))
    assert (optimizer.successes, optimizer.failures) == (0, 0)


@pytest.mark.parametrize("counts", [(4, 4, 4), (3, 9), (1,) * 8, (20,), (7, 1, 30)])
def test_the_initial_design_need_not_be_a_multiple_of_the_batch(counts):
    optimizer = First(UNIT, initial=10)
    for count in counts:
        points = optimizer.ask(count)
        assert points.shape == (count, 3)
        assert len(np.unique(points, axis=0)) == count
        optimizer.tell(points, points.sum(axis=1))


def test_candidates_lie_in_the_region_around_the_best_point_and_share_coordinates_with_it():
    box = np.tile([-3.0, 5.0], (40, 1))
    optimizer = First(box, initial=1, seed=1)
    at = np.full((1, 40), 4.9)
    optimizer.tell(at, [0.0])
    points = optimizer.ask(300)
    assert (points <= 5).all()
    assert (points >= 4.9 - 0.4 * 8 - 1e-9).all()
    changed = ~np.isclose(points, 4.9)
    assert changed.any(axis=1).all()
    assert changed.sum(axis=1).mean() == pytest.approx(20, abs=1)
    assert changed.any(axis=0).all()  # the last coordinate too, which the published code left out of single changes


# --- bad input, each from a report on a peer


@pytest.mark.parametrize(
    ("bounds", "said"),
    [([[0, 1], [1, 1]], "not equal"), ([[0, 1], [1, 0]], "the lower one first"), ([[0, math.inf]], "finite"),
     ([0, 1], "give \\(d, 2\\)"), ([], "give \\(d, 2\\)"), ([[math.nan, 1]], "finite")],
)  # fmt: skip
def test_bounds_that_are_none_are_refused(bounds, said):
    with pytest.raises(BadInput, match=said):
        First(bounds)


@pytest.mark.parametrize(
    "options",
    [{"seed": -1}, {"seed": 1.5}, {"initial": 0}, {"success": "luck"}, {"nonfinite": "hope"}, {"log": [0]}, {"log": [7]},
     {"integer": [-1]}],
)  # fmt: skip
def test_options_that_are_none_are_refused(options):
    with pytest.raises(BadInput):
        First(UNIT, **options)


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
def test_values_that_are_not_finite_are_dropped_and_counted_or_refused(bad):
    optimizer = told(First(UNIT, initial=2), [1, bad, 2, bad])
    assert optimizer.dropped == 2
    assert optimizer.y.tolist() == [1, 2]
    told(optimizer, [bad, bad])  # a batch of nothing is a failure
    assert (optimizer.failures, optimizer.dropped) == (1, 4)
    with pytest.raises(BadInput, match=r"y\[1\] is .*; 1 values are NaN or infinite"):
        told(First(UNIT, nonfinite="error"), [1, bad])


def test_a_run_goes_on_where_every_value_is_nan():
    optimizer = First(UNIT, initial=2)
    for _ in range(5):
        points = optimizer.ask(3)
        optimizer.tell(points, np.full(3, math.nan))
    assert optimizer.dropped == 15
    with pytest.raises(BadInput, match=r"nothing was told"):
        optimizer.best()


@pytest.mark.parametrize(
    ("x", "y", "said"),
    [([[0, 0, 2]], [1], r"x\[0, 2\] is 2.0, outside"), ([[0, 0, math.nan]], [1], "or NaN"), ([[0, 0]], [1], "give"),
     ([[0, 0, 0]], [1, 2], "give"), ([0, 0, 0], [1], "give")],
)  # fmt: skip
def test_what_cannot_have_been_observed_is_refused(x, y, said):
    with pytest.raises(BadInput, match=said):
        First(UNIT).tell(x, y)


@pytest.mark.parametrize("variance", [[-1.0], [1.0, 1.0]])
def test_variances_that_are_none_are_refused(variance):
    with pytest.raises(BadInput, match=r"variances"):
        First(UNIT).tell([[0, 0, 0]], [1], variance)


@pytest.mark.parametrize("count", [0, -1, 1.5, None])
def test_counts_that_are_none_are_refused(count):
    with pytest.raises(BadInput, match=r"asked for"):
        First(UNIT).ask(count)


def test_telling_before_asking_counts():
    optimizer = First(UNIT, initial=4)
    optimizer.tell(np.full((4, 3), 0.5), np.arange(4))  # whole numbers as well
    assert np.abs(optimizer.ask(2) - 0.5).max() <= START / 2


def test_single_precision_is_taken():
    optimizer = First(UNIT.astype(np.float32), initial=1)
    optimizer.tell(np.full((1, 3), 0.1, np.float32), np.ones(1, np.float32))
    assert optimizer.x.dtype == optimizer.y.dtype == optimizer.ask(1).dtype == np.float64


def test_what_is_given_is_not_kept():
    x, y = np.full((2, 3), 0.5), np.ones(2)
    optimizer = First(UNIT)
    optimizer.tell(x, y)
    x[:], y[:] = 0, 7
    assert optimizer.y.tolist() == [1, 1]
    np.testing.assert_allclose(optimizer.x, 0.5)


@pytest.mark.parametrize("seed", [0, 1])
def test_seeds_reproduce_zero_included(seed):
    problem = BlackBox.of("bowl", lambda x: (x**2).sum(axis=1), UNIT, budget=30, batch=4)
    first, second = (run(problem, First(UNIT, seed=seed)) for _ in range(2))
    assert first.x.numpy().tobytes() == second.x.numpy().tobytes()
    assert first.x.numpy().tobytes() != run(problem, First(UNIT, seed=seed + 7)).x.numpy().tobytes()


def test_the_budget_is_spent_to_the_last_evaluation_and_no_further():
    problem = BlackBox.of("bowl", lambda x: (x**2).sum(axis=1), UNIT, budget=29, batch=4)
    assert len(run(problem, First(UNIT)).x) == 29


# --- scales


def test_whole_numbers_and_logarithms():
    box = Box([[1, 4], [1e-3, 1e3], [0, 1]], log=[1], integer=[0])
    unit = np.linspace(0, 1, 401)[:, None] * np.ones(3)
    x = box.from_unit(unit)
    assert np.unique(x[:, 0]).tolist() == [1, 2, 3, 4]
    assert np.unique(x[:, 0], return_counts=True)[1] == pytest.approx(100, abs=1)  # each as likely as another
    assert x[200, 1] == pytest.approx(1)
    np.testing.assert_allclose(box.from_unit(box.to_unit(x)), x, rtol=1e-12, atol=1e-15)


def test_a_box_of_few_whole_numbers_is_proposed_without_repetition_while_there_are_any():
    optimizer = First([[0, 3], [0, 2]], integer=[0, 1], initial=1)
    optimizer.tell([[1, 1]], [0.0])
    optimizer.length = LONGEST
    points = optimizer.ask(8)
    assert len(np.unique(points, axis=0)) == 8
    assert [1, 1] not in points.tolist()  # it is known already
    assert optimizer.ask(30).shape == (30, 2)  # 12 there are


@settings(max_examples=50, deadline=None)
@given(st.floats(-1e12, 1e12), st.floats(1e-9, 1e12))
def test_points_stay_within_the_bounds_whatever_is_rounded(low, width):
    high = low + width
    if not low < high:
        return
    box = Box([[low, high]])
    x = box.from_unit(np.array([[0.0], [0.3], [1.0]]))
    assert ((x >= low) & (x <= high)).all()
    assert ((box.to_unit(x) >= 0) & (box.to_unit(x) <= 1)).all()


# --- going on


def test_a_run_goes_on_from_a_file_as_if_it_had_not_ended(tmp_path):
    def value(x):
        return ((x - 0.3) ** 2).sum(axis=1)

    def steps(optimizer, count):
        for _ in range(count):
            x = optimizer.ask(3)
            optimizer.tell(x, value(x))
        return optimizer

    whole = steps(First(UNIT, seed=2), 40)
    half = steps(First(UNIT, seed=2), 17)
    half.save(tmp_path / "run.npz")
    again = steps(First.load(tmp_path / "run.npz"), 23)
    assert whole.x.tobytes() == again.x.tobytes()
    assert (whole.length, whole.restarts, whole.failures) == (again.length, again.restarts, again.failures)
    assert whole.restarts > 0
    assert [file.name for file in tmp_path.iterdir()] == ["run.npz"]


def test_a_file_of_another_optimizer_is_refused(tmp_path):
    class Second(First):
        pass

    First(UNIT).save(tmp_path / "run.npz")
    with pytest.raises(BadInput, match=r"holds a First, not a Second"):
        Second.load(tmp_path / "run.npz")


def test_an_optimizer_is_put_where_a_problem_says():
    probe = Observations.probes()["at_a_corner"]
    optimizer = at_observations(First(probe.bounds.numpy()), probe)
    assert optimizer.length == SHORTEST
    assert optimizer.ask(5).max() <= SHORTEST / 2
