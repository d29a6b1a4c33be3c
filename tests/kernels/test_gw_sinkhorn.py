"""Over-relaxed Sinkhorn iteration against POT's in the log domain, and what its potentials say of other points."""

import numpy as np
import ot
import pytest
import scipy.special

from breakeven.methods.gromov_wasserstein.kernels.features import centred
from breakeven.methods.gromov_wasserstein.kernels.sinkhorn import Scaling, smoothed


def spaces(n=30, m=25, seed=0):
    rng = np.random.default_rng(seed)
    sides = ((n, 3), (m, 2))
    return [centred(np.arange(s), rng.standard_normal((s, d)), rng.dirichlet(np.ones(s))) for s, d in sides]


def costs_of(x, y, z):
    return -16 * x.points @ z @ y.points.T - 4 * np.outer(x.squares, y.squares)


def test_the_plan_is_that_of_pot():
    x, y = spaces()
    z = np.random.default_rng(2).standard_normal((3, 2))
    scaling = Scaling(x, y)
    scaling.set(z, 5.0)
    scaling.sweep(60)
    plan = ot.sinkhorn(
        x.weights, y.weights, costs_of(x, y, z), 5.0, method="sinkhorn_log", stopThr=1e-12, numItermax=10_000
    )
    assert scaling.moments()[0] == pytest.approx(x.points.T @ plan @ y.points, abs=2e-5)
    assert scaling.missed() < 1e-5


def test_over_relaxation_gets_further_in_as_many_sweeps(monkeypatch):
    x, y = spaces()
    z = x.axes(2) @ y.axes(2).T
    missed = {}
    for relaxation in (1.0, 1.7):
        monkeypatch.setattr("breakeven.methods.gromov_wasserstein.kernels.sinkhorn.RELAXATION", np.float32(relaxation))
        scaling = Scaling(x, y)
        scaling.set(z, 0.5)
        scaling.sweep(60)
        missed[relaxation] = scaling.missed()
    assert missed[1.7] < missed[1.0] / 3


def test_rows_have_their_weights_after_a_sweep_and_missed_is_what_columns_lack():
    x, y = spaces()
    scaling = Scaling(x, y)
    scaling.set(x.axes(2) @ y.axes(2).T, 0.5)
    scaling.sweep(2)
    bias = scaling.u[:, None] + scaling.v + scaling.x_bias[:, None] + scaling.y_bias
    plan = 2.0 ** (scaling.left.astype(np.float64) @ scaling.right.T + bias)
    assert plan.sum(axis=1) == pytest.approx(x.weights, rel=1e-4)
    assert scaling.missed() == pytest.approx(np.abs(plan.sum(axis=0) - y.weights).sum(), rel=1e-3)
    assert scaling.moments()[0] == pytest.approx(x.points.T @ plan @ y.points, abs=1e-5)


def test_potentials_keep_their_value_when_the_temperature_changes():
    x, y = spaces()
    v = np.random.default_rng(0).standard_normal(25)
    scaling = Scaling(x, y, v)
    for epsilon in (3.0, 0.1):
        scaling.set(np.zeros((3, 2)), epsilon)
        assert scaling.potentials() == pytest.approx(v, rel=1e-5, abs=1e-6)


def test_the_points_themselves_would_have_the_potentials_that_they_have():
    x, y = spaces()
    scaling = Scaling(x, y)
    scaling.set(x.axes(2) @ y.axes(2).T, 2.0)
    scaling.sweep(60)
    assert scaling.potentials_of(y.points) == pytest.approx(scaling.potentials(), abs=1e-3)


def test_smoothed_potentials_are_those_of_entropic_transport():
    rng = np.random.default_rng(0)
    costs, a, b = 100 + rng.random((40, 30)), rng.dirichlet(np.ones(40)), rng.dirichlet(np.ones(30))
    v = smoothed(costs, a, b, np.zeros(30), (1.0, 0.5, 0.2, 0.1, 0.1, 0.1, 0.1))
    u = -0.1 * scipy.special.logsumexp((v - costs) / 0.1 + np.log(b), axis=1)
    plan = a[:, None] * b * np.exp((u[:, None] + v - costs) / 0.1)
    assert plan.sum(axis=0) == pytest.approx(b, abs=1e-4)
    assert smoothed(np.zeros((3, 3)), a[:3], b[:3], np.ones(3), (0.0,)) == pytest.approx(1)
