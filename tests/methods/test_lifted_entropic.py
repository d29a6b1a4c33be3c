"""Entropic matching in linear memory against POT's dense one, with marginals that are exact."""

import numpy as np
import ot
import pytest
import torch

from breakeven.contract import Unsupported
from breakeven.datasets.gromov_wasserstein.blobs import blobs
from breakeven.methods.gromov_wasserstein.kernels.features import features_of
from breakeven.methods.gromov_wasserstein.lifted_entropic import solve
from breakeven.problems.gromov_wasserstein import MatchingProblem, dense_plan, loss_of

PROBES = MatchingProblem.probes()
TAKEN = [name for name in PROBES if name not in ("paths", "path_and_ring")]


@pytest.mark.parametrize("name", TAKEN)
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32], ids=str)
def test_probes_keep_their_marginals(name, dtype):
    problem = PROBES[name].astype(dtype)
    judged = problem.judge(solve(problem))
    assert judged["marginal_violation"] <= (1e-12 if dtype == torch.float64 else 1e-6)
    assert judged["excess_loss"] <= 0.01


@pytest.mark.filterwarnings("ignore:Sinkhorn did not converge")
def test_the_plan_is_that_of_pots_entropic_solver():
    problem = blobs(points=60)
    x, y = features_of(problem)
    costs = [c.numpy() for c in problem.costs()]
    a, b = problem.x_weights.numpy(), problem.y_weights.numpy()
    # POT's epsilon is in units of -4 C_x plan C_y; ours where features have a mean square of one.
    epsilon = 0.5
    of_pot = epsilon * (x.size * y.size) ** 2
    plan = ot.gromov.entropic_gromov_wasserstein(
        *costs, a, b, epsilon=of_pot, max_iter=500, tol=1e-12, symmetric=True, stopThr=1e-11
    )
    mine = solve(problem, epsilon=epsilon)
    assert np.abs(mine.rows(slice(None)) - plan).sum() < 0.02
    judged = problem.judge(mine)
    assert judged["marginal_violation"] < 1e-12
    assert judged["loss"] == pytest.approx(loss_of(problem, dense_plan(plan, 0)), rel=0.02)


def test_a_lower_temperature_comes_closer():
    problem = blobs(points=150)
    losses = [problem.judge(solve(problem, epsilon=epsilon))["loss"] for epsilon in (1.0, 0.1, 0.02)]
    assert losses[0] > 2 * losses[1] > 4 * losses[2]


def test_a_point_without_weight_gets_nothing():
    problem = PROBES["a_weight_of_zero_sqeuclidean"]
    rows = solve(problem).rows(slice(None))
    assert (rows[2] == 0).all()
    assert (rows[:, 0] == 0).all()


def test_unequal_sizes_have_exact_marginals():
    rng = np.random.default_rng(0)
    problem = MatchingProblem.of("sizes", rng.standard_normal((300, 3)), rng.standard_normal((4, 3)), "euclidean")
    assert problem.judge(solve(problem))["marginal_violation"] < 1e-12


def test_what_it_cannot_take_is_told():
    with pytest.raises(ValueError, match="epsilon is 0; it must be above 0"):
        solve(PROBES["line_euclidean"], epsilon=0)
    with pytest.raises(Unsupported, match="the costs of x are no squared distances"):
        solve(PROBES["paths"])
