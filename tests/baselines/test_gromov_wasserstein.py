"""POT's conditional gradient as the baseline: right on probes, and near the truth."""

import dataclasses

import pytest
import torch

from breakeven.baselines.gromov_wasserstein import conditional_gradient
from breakeven.contract import Unsupported
from breakeven.datasets.gromov_wasserstein.blobs import blobs
from breakeven.problems.gromov_wasserstein import METRICS, MatchingProblem

PROBES = MatchingProblem.probes()


@pytest.mark.parametrize("name", PROBES)
def test_conditional_gradient_keeps_the_weights(name):
    judged = PROBES[name].judge(conditional_gradient.solve(PROBES[name]))
    assert judged["marginal_violation"] <= 1e-9
    assert judged["excess_loss"] <= 0.01


@pytest.mark.parametrize("metric", METRICS)
def test_conditional_gradient_finds_the_truth(metric):
    problem = blobs(points=100, metric=metric)
    judged = problem.judge(conditional_gradient.solve(problem))
    assert judged["excess_loss"] <= 0.01
    assert judged["accuracy"] > 0.9


def test_what_is_too_large_is_told(monkeypatch):
    monkeypatch.setattr(conditional_gradient, "DENSE", 100)
    with pytest.raises(Unsupported, match="50 x 50 points"):
        conditional_gradient.solve(blobs(points=50))


def test_problems_stay_as_they_are():
    problem = blobs(points=30)
    before = dataclasses.replace(problem, x=problem.x.clone(), y=problem.y.clone())
    conditional_gradient.solve(problem)
    assert torch.equal(before.x, problem.x)
    assert torch.equal(before.y, problem.y)
