"""Blobs: seeded, turned by a rotation, with a truth that is one."""

import pytest
import scipy.spatial.distance
import torch

from breakeven.contract import Unsupported
from breakeven.datasets.gromov_wasserstein.blobs import blobs


def test_seeds_and_sizes_are_theirs():
    one = blobs(points=40, seed=1)
    assert torch.equal(one.x, blobs(points=40, seed=1).x)
    assert not torch.equal(one.x, blobs(points=40, seed=2).x)
    assert one.x.shape == one.y.shape == (40, 3)
    assert float(one.x.norm(dim=1).max()) == pytest.approx(1)


def test_without_noise_the_truth_keeps_all_distances():
    problem = blobs(points=40, noise=0.0)
    assert sorted(problem.truth[0].tolist()) == list(range(40))
    distances = [scipy.spatial.distance.cdist(z, z) for z in (problem.x, problem.y[problem.truth[0]])]
    assert distances[0] == pytest.approx(distances[1], abs=1e-12)
    assert problem.reference_loss == pytest.approx(0, abs=1e-12)
    assert 0 < blobs(points=40).reference_loss < 1e-3


@pytest.mark.parametrize("sizes", [{"points": 2}, {"dimension": 0}, {"metric": "cosine"}])
def test_what_does_not_exist_is_told(sizes):
    with pytest.raises(Unsupported, match="3 points, 1 dimension or more"):
        blobs(**sizes)
