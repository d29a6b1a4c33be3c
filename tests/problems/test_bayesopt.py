"""Black boxes, observations and predictions: what is accepted, and what the judge measures."""

import dataclasses
import math

import numpy as np
import pytest
import scipy.integrate
import scipy.stats
import torch

from breakeven.contract import BadInput
from breakeven.problems import Wrong
from breakeven.problems.bayesopt import (
    LEAST_REGRET,
    BlackBox,
    Evaluations,
    Observations,
    Predictions,
    Proposals,
    Regression,
    Trace,
)

UNIT = np.tile([0.0, 1.0], (2, 1))
SOME = np.array([[0.1, 0.2], [0.5, 0.5], [0.9, 0.1]])


def bowl(x):
    return ((x - 0.5) ** 2).sum(axis=1)


def observed(**changes):
    return Observations.of("some", SOME, bowl(SOME), UNIT, **{"batch": 2, "function": bowl} | changes)


def box(**changes):
    return BlackBox.of("bowl", bowl, UNIT, **{"budget": 6, "batch": 2, "best": 0.0, "typical": 0.5} | changes)


@pytest.mark.parametrize(
    ("x", "y", "bounds", "said"),
    [
        (SOME, [1, 2, math.nan], UNIT, "y\\[2\\] is nan, and 1 in all are NaN or infinite; drop"),
        (SOME, [1, -math.inf, 2], UNIT, "y\\[1\\] is -inf"),
        (SOME, [1, 2], UNIT, "y has shape \\(2,\\); it must be \\(3,\\)"),
        (SOME, [1, 2, 3], [[0, 1], [1, 0]], "bounds\\[1\\] is \\[1.0, 0.0\\], reversed"),
        (SOME, [1, 2, 3], [[0, 1], [1, 1]], "of no width; drop the dimension"),
        (SOME, [1, 2, 3], [[0, 1], [0, math.inf]], "finite bounds"),
        (SOME, [1, 2, 3], [0, 1], "bounds must be"),
        (SOME + 1, [1, 2, 3], UNIT, "x\\[0, 0\\] is 1.1, outside"),
        (SOME * math.nan, [1, 2, 3], UNIT, "or NaN"),
        (SOME[:0], [], UNIT, "at least one point"),
        (SOME[:, :1], [1, 2, 3], UNIT, "x has shape"),
    ],
)
def test_broken_observations_are_refused(x, y, bounds, said):
    with pytest.raises(BadInput, match=said):
        Observations.of("broken", x, y, bounds)


@pytest.mark.parametrize(
    "changes",
    [{"batch": 0}, {"batch": 1.5}, {"seed": -1}, {"length": 0.0}, {"length": math.nan}, {"length": 2.0},
     {"y_variance": [1, 2]}, {"y_variance": [1, 2, -3]}, {"y_variance": [1, 2, math.inf]}],
)  # fmt: skip
def test_broken_options_are_refused(changes):
    with pytest.raises(BadInput, match=r"^some: "):
        observed(**changes)


def test_other_dtypes_are_refused():
    with pytest.raises(BadInput, match=r"y is torch.float32; all tensors must be"):
        dataclasses.replace(observed(), y=torch.zeros(3))
    with pytest.raises(BadInput, match=r"torch.int64"):
        dataclasses.replace(observed(), x=torch.zeros(3, 2, dtype=torch.int64))


@pytest.mark.parametrize(
    "changes",
    [{"budget": 0}, {"batch": 0}, {"noise": -1}, {"noise": math.inf}, {"cost": math.nan}, {"seed": -1},
     {"target": 0.1, "best": math.nan}, {"target": 0.1, "typical": math.nan}, {"best": -math.inf}],
)  # fmt: skip
def test_broken_black_boxes_are_refused(changes):
    with pytest.raises(BadInput, match=r"^bowl: "):
        box(**changes)


@pytest.mark.parametrize("best", [0.5, 1.0])
def test_a_best_value_that_is_not_below_the_typical_one_is_refused_with_a_target_and_without(best):
    for target in (0.1, -math.inf):
        with pytest.raises(BadInput, match=rf"bowl: best={best} is not below typical=0.5"):
            box(best=best, target=target)


def test_a_target_that_is_no_number_is_refused():
    with pytest.raises(BadInput, match=r"target=nan; give a normalised regret, or -inf for none"):
        box(target=math.nan)


def test_either_reference_may_be_unknown():
    for unknown in ("best", "typical"):
        problem = box(**{unknown: math.nan})
        assert math.isnan(problem.judge(spent(problem, SOME))["regret"])


@pytest.mark.parametrize("best", [0.0, 1e-17, 0.1])
def test_regrets_at_and_below_the_best_value_have_a_logarithm(best):
    problem = box(best=best)  # the middle of SOME is the minimum, where the value is 0
    assert problem.judge(spent(problem, SOME))["regret"] == LEAST_REGRET
    assert problem.regret(0.0) <= 0


def test_proposals_are_measured_by_the_truth():
    judged = observed().judge(Proposals(torch.tensor([[0.5, 0.4], [0.1, 0.2]], dtype=torch.float64)))
    assert judged["repeated"] == 1
    scale = np.std(bowl(SOME))
    assert judged["improvement"] == pytest.approx((0 - 0.01) / scale)
    assert judged["rank"] == pytest.approx(np.median([1 / 3, 2 / 3 if bowl(SOME)[0] > bowl(SOME)[2] else 1 / 3]))


@pytest.mark.parametrize(
    ("points", "said"),
    [
        ([[0.1, 0.1], [0.1, 0.1]], "1 of 2 proposals repeat another one"),
        ([[0.1, 0.1]], "shape \\(1, 2\\); it must be \\(2, 2\\)"),
        ([[0.1, 0.1], [0.2, 1.0000001]], "x\\[1, 1\\] is 1.0000001"),
        ([[0.1, 0.1], [0.2, math.nan]], "x\\[1, 1\\] is nan"),
    ],
)
def test_proposals_that_are_none_are_wrong(points, said):
    with pytest.raises(Wrong, match=said):
        observed().judge(Proposals(torch.tensor(points, dtype=torch.float64)))
    with pytest.raises(Wrong, match=r"no Proposals"):
        observed().judge(Predictions(torch.zeros(2), torch.ones(2)))


def test_random_proposals_are_over_the_limit_and_those_near_the_best_point_are_not():
    x = np.random.default_rng(0).random((100, 2))
    problem = Observations.of("even", x, bowl(x), UNIT, batch=1000, function=bowl)
    random = problem.judge(Proposals(torch.from_numpy(np.random.default_rng(1).random((1000, 2)))))
    assert random["rank_among_random"] == pytest.approx(0.5, abs=0.05)
    near = problem.judge(Proposals(torch.from_numpy(0.5 + 0.1 * np.random.default_rng(1).random((1000, 2)))))
    assert near["rank_among_random"] < 0.1


def test_nothing_is_held_against_proposals_where_the_truth_is_not_known():
    judged = observed(function=None).judge(Proposals(torch.tensor([[0.5, 0.4], [0.1, 0.2]], dtype=torch.float64)))
    assert judged["rank_among_random"] == 0
    assert math.isnan(judged["rank"])


def spent(problem, points):
    evaluations = Evaluations(problem)
    for start in range(0, len(points), problem.batch):
        evaluations(points[start : start + problem.batch])
    return evaluations.trace()


def test_a_trace_is_measured_by_evaluating_anew():
    problem = box(cost=2.0)
    judged = problem.judge(spent(problem, np.vstack([SOME, SOME / 2])))
    assert judged["best_value"] == 0
    assert judged["regret"] == LEAST_REGRET
    assert judged["evaluations"] == 6
    assert judged["missed"] == 0
    assert judged["time_to_target"] == pytest.approx(12 + judged["proposal_seconds"])


def test_the_search_ends_at_the_target_and_is_counted_up_to_it():
    problem = box(target=0.1, cost=3.0, batch=3)
    evaluations = Evaluations(problem)
    evaluations(SOME)
    assert evaluations.left == 0
    judged = problem.judge(evaluations.trace())
    assert judged["missed"] == 0
    assert judged["time_to_target"] == pytest.approx(6.0, abs=0.5)  # the second of three reaches it
    missed = problem.judge(spent(problem, SOME[[0]]))
    assert missed["missed"] == pytest.approx(bowl(SOME)[0] / 0.5 - 0.1)


def test_noise_is_the_same_for_everyone_and_is_taken_off_by_the_judge():
    problem = box(noise=0.3, seed=5)
    first, second = spent(problem, np.tile(SOME, (2, 1))), spent(problem, np.tile(SOME, (2, 1)))
    assert torch.equal(first.y, second.y)
    assert first.y[0] != first.y[3]
    judged = problem.judge(first)
    assert judged["best_value"] == pytest.approx(float(bowl(first.x[[first.recommended]].numpy())[0]))
    assert not torch.equal(first.y, spent(box(noise=0.3, seed=6), np.tile(SOME, (2, 1))).y)


def test_seconds_are_those_outside_of_the_function():
    def slow(x):
        until = problem_clock() + 0.05
        while problem_clock() < until:
            pass
        return bowl(x)

    from time import perf_counter as problem_clock

    problem = BlackBox.of("slow", slow, UNIT, budget=4, batch=2)
    assert problem.judge(spent(problem, SOME[[0, 1, 2, 2]]))["proposal_seconds"] < 0.05


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"y": lambda t: t.y - 1}, "is said to be"),
        ({"x": lambda t: t.x + 1}, "outside"),
        ({"x": lambda t: t.x[:-1]}, "must be"),
        ({"y": lambda t: t.y * math.nan}, "finite"),
        ({"waited": lambda t: t.waited.flip(0) - 1}, "must not fall"),
        ({"recommended": lambda t: 17}, "evaluation 17 is recommended"),
    ],
)
def test_traces_that_the_problem_cannot_have_given_are_wrong(change, said):
    problem = box()
    trace = spent(problem, np.vstack([SOME, SOME]))
    with pytest.raises(Wrong, match=said):
        problem.judge(dataclasses.replace(trace, **{name: make(trace) for name, make in change.items()}))


def test_more_than_the_budget_is_wrong_and_cannot_be_evaluated():
    problem = box(budget=2)
    trace = spent(box(), np.vstack([SOME, SOME]))
    with pytest.raises(Wrong, match=r"the budget is 2"):
        problem.judge(trace)
    evaluations = Evaluations(problem)
    with pytest.raises(BadInput, match=r"give 1 to 2"):
        evaluations(SOME)
    with pytest.raises(BadInput, match=r"outside the bounds"):
        evaluations(SOME[:1] + 1)
    assert evaluations.left == 2


def test_a_function_of_a_wrong_shape_is_told():
    problem = BlackBox.of("column", lambda x: x, UNIT)
    with pytest.raises(BadInput, match=r"column: its function gives shape \(3, 2\) for 3 points"):
        Evaluations(problem)(SOME)


def test_predictions_are_scored_as_the_definitions_say():
    truth, y = np.array([0.0, 1.0, 2.0, 4.0]), np.array([0.1, 0.9, 2.5, 4.0])
    mean, deviation = np.array([0.2, 1.0, 1.0, 4.1]), np.array([0.5, 0.1, 0.7, 2.0])
    problem = Regression.of("some", SOME, bowl(SOME), UNIT, np.full((4, 2), 0.5), y, truth)
    judged = problem.judge(Predictions(torch.from_numpy(mean), torch.from_numpy(deviation)))
    scale = truth.std()
    assert judged["nrmse"] == pytest.approx(np.sqrt(np.mean((mean - truth) ** 2)) / scale)

    def crps(m, s, value):
        def below(t):
            return scipy.stats.norm.cdf(t, m, s) ** 2

        def above(t):
            return (scipy.stats.norm.cdf(t, m, s) - 1) ** 2

        low, high = min(m, value) - 12 * s, max(m, value) + 12 * s
        return scipy.integrate.quad(below, low, value)[0] + scipy.integrate.quad(above, value, high)[0]

    assert judged["crps"] == pytest.approx(
        np.mean([crps(*one) for one in zip(mean, deviation, y, strict=True)]) / scale
    )
    densities = scipy.stats.norm.logpdf(y / scale, mean / scale, deviation / scale)
    assert judged["nll"] == pytest.approx(-densities.mean())
    inside = np.abs(y - mean) <= scipy.stats.norm.ppf(0.95) * deviation
    assert judged["coverage_error"] == pytest.approx(abs(inside.mean() - 0.9))


@pytest.mark.parametrize(
    ("mean", "deviation", "said"),
    [
        ([0.0], [1.0], "mean must be"),
        ([0.0, math.nan], [1.0, 1.0], "finite"),
        ([0.0, 0.0], [1.0, -1.0], "deviation\\[1\\]"),
    ],
)
def test_predictions_that_are_none_are_wrong(mean, deviation, said):
    problem = Regression.of("some", SOME, bowl(SOME), UNIT, SOME[:2], [0.0, 1.0], [0.0, 1.0])
    with pytest.raises(Wrong, match=said):
        problem.judge(Predictions(torch.tensor(mean), torch.tensor(deviation)))


def test_probes_are_problems_in_either_precision():
    for kind in (Observations, BlackBox, Regression):
        for probe in kind.probes().values():
            assert probe.astype(torch.float32).features()["name"] == probe.name


def test_only_seconds_may_differ_between_two_answers():
    assert Trace.measured == ("waited",)
