"""The conditional gradient with low-dimensional gradients ends where POT's does, which has dense ones."""

import numpy as np
import pytest
import scipy.sparse
import torch

from breakeven.baselines.gromov_wasserstein.conditional_gradient import solve as conditional_gradient
from breakeven.contract import Unsupported
from breakeven.datasets.gromov_wasserstein.blobs import blobs
from breakeven.methods.gromov_wasserstein import lifted_cg
from breakeven.methods.gromov_wasserstein.kernels.descent import descend_costs
from breakeven.methods.gromov_wasserstein.lifted_cg import solve
from breakeven.problems.gromov_wasserstein import METRICS, PRECOMPUTED, MatchingProblem, dense_plan, loss_of

PROBES = MatchingProblem.probes()


@pytest.mark.parametrize("name", PROBES)
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32], ids=str)
def test_probes(name, dtype):
    problem = PROBES[name].astype(dtype)
    judged = problem.judge(solve(problem))
    assert judged["marginal_violation"] <= (1e-9 if dtype == torch.float64 else 1e-6)
    assert judged["excess_loss"] <= 0.01


@pytest.mark.parametrize("metric", METRICS)
@pytest.mark.parametrize("points", [50, 200])
def test_it_ends_where_the_dense_one_does(points, metric):
    problem = blobs(points=points, metric=metric, noise=0.02)
    mine, peers = (problem.judge(method(problem)) for method in (solve, conditional_gradient))
    assert mine["loss"] == pytest.approx(peers["loss"], rel=1e-6)
    assert mine["marginal_violation"] < 1e-12


@pytest.mark.parametrize("seed", range(8))
def test_unequal_sizes_and_weights_end_as_low_as_the_dense_one(seed):
    rng = np.random.default_rng(seed)
    x, y = rng.standard_normal((25, 3)), rng.standard_normal((40, 2))
    weights = {"x_weights": rng.dirichlet(np.ones(25)), "y_weights": rng.dirichlet(np.ones(40))}
    problem = MatchingProblem.of("random", x, y, "euclidean", **weights)
    judged = problem.judge(solve(problem))
    assert judged["marginal_violation"] < 1e-12
    # Both are local: which minimum each ends in may differ.
    assert judged["loss"] <= 1.1 * problem.judge(conditional_gradient(problem))["loss"]


@pytest.mark.parametrize("seed", range(30))
def test_any_symmetric_costs_fall_to_a_stationary_plan(seed):
    """Adjacency matrices: the loss is not concave, so that steps are shorter than one and plans no vertices.

    With steps towards vertices alone, one start in a dozen zigzags; which ones, rounding decides.
    """
    rng = np.random.default_rng(seed)
    graphs = [np.triu(rng.random((20, 20)) < 0.3, 1).astype(float) for _ in range(2)]
    x, y = (graph + graph.T for graph in graphs)
    problem = MatchingProblem.of("graphs", x, y, PRECOMPUTED)
    plan = np.zeros((20, 20))
    found = solve(problem)
    np.add.at(plan, (found.row.numpy(), found.column.numpy()), found.mass.numpy())
    gradient = x @ plan @ y
    best = cheapest(-gradient)
    assert (-gradient * plan).sum() - best <= 1e-6 * abs(best)
    assert problem.judge(found)["marginal_violation"] < 1e-12


def cheapest(costs):
    import scipy.optimize

    row, column = scipy.optimize.linear_sum_assignment(costs)
    return costs[row, column].mean()


def test_the_loss_falls_from_step_to_step():
    rng = np.random.default_rng(1)
    graph = np.triu(rng.random((15, 15)) < 0.4, 1).astype(float)
    x, weights = graph + graph.T, np.full(15, 1 / 15)
    y = x[np.ix_(order := rng.permutation(15), order)]
    problem = MatchingProblem.of("graph", x, y, PRECOMPUTED)
    plan = scipy.sparse.csr_array(np.outer(weights, weights))
    losses = []
    for steps in range(1, 8):
        reached, _ = descend_costs(x, y, plan, weights, weights, np.zeros(15), 0.5, steps)
        losses.append(loss_of(problem, dense_plan(reached.toarray(), 0)))
    assert (np.diff(losses) <= 1e-12).all()
    assert losses[-1] < losses[0]


def test_what_it_cannot_take_is_told(monkeypatch):
    monkeypatch.setattr(lifted_cg, "DENSE", 100)
    with pytest.raises(Unsupported, match="12 x 12 points; up to 100 pairs of their costs are stored"):
        solve(PROBES["turned_cloud_euclidean"])
    solve(PROBES["turned_cloud_sqeuclidean"])
