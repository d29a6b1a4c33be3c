"""Exact transport on candidate pairs against POT's network simplex and SciPy's assignment."""

import numpy as np
import ot
import pytest
import scipy.optimize
from hypothesis import given, settings
from hypothesis import strategies as st

from breakeven.methods.gromov_wasserstein.kernels.transport import (
    DenseCosts,
    FactoredCosts,
    cheapest_vertex,
    north_west,
)


def check_optimal(costs, a, b, vertex, best):
    n, m = costs.shape
    plan = np.zeros((n, m))
    np.add.at(plan, (vertex.row, vertex.column), vertex.mass)
    assert (vertex.mass > 0).all()
    assert plan.sum(axis=1) == pytest.approx(a, abs=1e-13)
    assert plan.sum(axis=0) == pytest.approx(b, abs=1e-13)
    scale = max(np.abs(costs).max(), 1e-300)
    assert (plan * costs).sum() == pytest.approx(best, abs=1e-10 * scale)
    # The potentials prove it: no pair undercuts what is paid, and what is used is paid in full.
    u = (costs - vertex.potentials).min(axis=1)
    assert a @ u + b @ vertex.potentials == pytest.approx(best, abs=1e-9 * max(scale, np.abs(vertex.potentials).max()))


@st.composite
def problems(draw):
    n, m, seed = draw(st.integers(1, 40)), draw(st.integers(1, 40)), draw(st.integers(0, 10**6))
    rng = np.random.default_rng(seed)
    kind = draw(st.sampled_from(["normal", "whole", "equal", "huge", "points"]))
    costs = rng.standard_normal((n, m))
    if kind == "whole":  # many ties
        costs = np.round(costs)
    elif kind == "equal":
        costs = np.full((n, m), -3.5)
    elif kind == "huge":
        costs *= 1e12
    elif kind == "points":
        costs = -np.outer(rng.standard_normal(n), rng.standard_normal(m))
    if draw(st.booleans()):
        return costs, np.full(n, 1 / n), np.full(m, 1 / m), rng
    concentration = draw(st.sampled_from([0.05, 1.0]))  # the first leaves points of almost no weight
    a, b = (rng.dirichlet(np.full(size, concentration)) + 1e-12 for size in (n, m))
    return costs, a / a.sum(), b / b.sum(), rng


@settings(deadline=None, max_examples=150)
@given(problems(), st.sampled_from(["nothing", "noise", "far off"]))
def test_the_vertex_is_as_cheap_as_that_of_the_network_simplex(problem, guess):
    costs, a, b, rng = problem
    scale = np.abs(costs).max() * {"nothing": 0.0, "noise": 0.3, "far off": 100.0}[guess]
    vertex = cheapest_vertex(DenseCosts(costs), a, b, scale * rng.standard_normal(len(b)))
    best = (ot.emd(a, b, costs - costs.min()) * costs).sum()
    if guess != "far off":
        check_optimal(costs, a, b, vertex, best)
    else:  # what is certain of the cost is what is certain of the potentials
        paid = (vertex.mass * costs[vertex.row, vertex.column]).sum()
        assert paid == pytest.approx(best, abs=1e-8 * max(np.abs(costs).max(), 1e-300))


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("size", [1, 7, 300, 700])
def test_an_assignment_is_that_of_scipy(size, seed):
    rng = np.random.default_rng(seed)
    left, right = rng.standard_normal((size, 4)), rng.standard_normal((size, 4))
    costs = -left @ right.T
    row, column = scipy.optimize.linear_sum_assignment(costs)
    weights = np.full(size, 1 / size)
    vertex = cheapest_vertex(FactoredCosts(left, right), weights, weights, np.zeros(size))
    assert sorted(vertex.column) == list(range(size))
    check_optimal(costs, weights, weights, vertex, costs[row, column].mean())


def test_factored_and_dense_costs_are_the_same():
    rng = np.random.default_rng(0)
    left, right = rng.standard_normal((30, 9)), rng.standard_normal((700, 9))
    factored, dense = FactoredCosts(left, right), DenseCosts(-left @ right.T)
    v = rng.standard_normal(700)
    for count in (1, 5, 24, 1000):
        columns, values = factored.cheapest(v, count)
        expected = np.sort(dense.matrix - v, axis=1)[:, :count]
        assert values == pytest.approx(expected, abs=1e-12)
        assert columns == pytest.approx(np.argsort(dense.matrix - v, axis=1)[:, :count])
        assert dense.cheapest(v, count)[1] == pytest.approx(values, abs=1e-12)
    assert factored.across().at(np.array([3]), np.array([7])) == pytest.approx(dense.matrix[7, 3])
    assert dense.across().matrix == pytest.approx(dense.matrix.T)


def test_few_candidates_are_made_up_for(monkeypatch):
    """A wrong guess makes the first candidates useless; pairs that undercut join until none is left."""
    monkeypatch.setattr("breakeven.methods.gromov_wasserstein.kernels.transport.CANDIDATES", 2)
    rng = np.random.default_rng(3)
    costs, weights = rng.random((60, 60)), np.full(60, 1 / 60)
    vertex = cheapest_vertex(DenseCosts(costs), weights, weights, 10 * rng.standard_normal(60))
    row, column = scipy.optimize.linear_sum_assignment(costs)
    assert vertex.rounds > 1
    check_optimal(costs, weights, weights, vertex, costs[row, column].mean())


@given(st.integers(1, 30), st.integers(1, 30), st.integers(0, 1000))
def test_the_north_west_corner_is_a_plan(n, m, seed):
    rng = np.random.default_rng(seed)
    a, b = rng.dirichlet(np.ones(n)), rng.dirichlet(np.ones(m))
    rows, columns, mass = north_west(a, b)
    assert np.bincount(rows, mass, n) == pytest.approx(a, abs=1e-15)
    assert np.bincount(columns, mass, m) == pytest.approx(b, abs=1e-15)
    assert len(mass) <= n + m
    assert (np.diff(rows) >= 0).all()
    assert (np.diff(columns) >= 0).all()


@settings(max_examples=25, deadline=None)
@given(
    st.integers(1, 200),
    st.integers(1, 400),
    st.integers(1, 24),
    st.sampled_from([0.1, 10.0]),
    st.booleans(),
    st.integers(0, 10**6),
)
def test_the_cheapest_columns_of_neighbours(n, m, count, spread, whole, seed):
    """Rows are looked at in blocks that leave out columns: none of the cheapest may be among these, ties or not."""
    rng = np.random.default_rng(seed)
    x, y = spread * rng.standard_normal((n, 3)), spread * rng.standard_normal((m, 3))
    if whole:
        x, y = np.round(x), np.round(y)
    x = x[np.argsort(x[:, 0])]
    costs = FactoredCosts(2 * x, y)
    potentials = -(y**2).sum(axis=1)
    columns, values = costs.cheapest(potentials, count)
    reduced = -2 * x @ y.T - potentials
    kept = min(count, m)
    assert columns.shape == values.shape == (n, kept)
    assert np.take_along_axis(reduced, columns, axis=1) == pytest.approx(values, abs=1e-9)
    assert values == pytest.approx(np.sort(reduced, axis=1)[:, :kept], abs=1e-9 * max(1.0, np.abs(reduced).max()))
    assert all(len(set(row)) == kept for row in columns)
