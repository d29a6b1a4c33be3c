"""Layers with chosen spectra, and the built-in language model."""

import numpy as np
import pytest
import torch

from breakeven.contract import Unsupported
from breakeven.datasets.quantization import _trained
from breakeven.datasets.quantization.synthetic_layer import SPECTRA, synthetic_layer
from breakeven.datasets.quantization.trained_lm import trained_lm
from breakeven.datasets.quantization.trained_model import trained_model


@pytest.mark.parametrize("spectrum", SPECTRA)
def test_spectra_are_what_was_asked_for(spectrum):
    problem = synthetic_layer(rows=24, columns=64, spectrum=spectrum, output_spectrum="isotropic", tokens=20_000)
    eigenvalues = torch.linalg.eigvalsh(problem.held_input_hessian.double()).flip(0).numpy()
    assert eigenvalues.sum() == pytest.approx(64, rel=1e-5)
    share = np.cumsum(eigenvalues) / 64
    expected = {
        "isotropic": eigenvalues[0] == pytest.approx(1, rel=1e-4),
        "power_law": eigenvalues[0] / eigenvalues[9] == pytest.approx(10, rel=1e-4),
        "spiked": share[4] == pytest.approx(0.999, rel=1e-4) and share[3] < 0.81,
        "low_rank": share[31] == pytest.approx(1, rel=1e-4) and share[30] < 0.98,
    }
    assert expected[spectrum]
    assert torch.allclose(problem.held_output_hessian, torch.eye(24), atol=1e-5)
    apart = (problem.input_hessian - problem.held_input_hessian).norm() / problem.held_input_hessian.norm()
    assert 0 < apart < 0.1


def test_the_same_sizes_and_seed_give_the_same_layer():
    one, same, other = (synthetic_layer(columns=64, rows=8, seed=seed) for seed in (3, 3, 4))
    assert all(torch.equal(value, same.tensors()[name]) for name, value in one.tensors().items())
    assert not torch.equal(one.weight, other.weight)
    assert one.reference_loss > 0


def test_gradients_are_all_that_is_seen_of_the_outputs():
    few, many = (synthetic_layer(columns=64, rows=48, gradients=gradients) for gradients in (8, 50_000))
    for name in ("weight", "input_hessian", "held_input_hessian", "held_output_hessian"):
        assert torch.equal(getattr(few, name), getattr(many, name)), name
    assert torch.linalg.matrix_rank(few.output_hessian.double(), rtol=1e-5) == 8
    true = many.held_output_hessian
    assert (many.output_hessian - true).norm() < 0.05 * true.norm() < (few.output_hessian - true).norm()


def test_outliers_are_eight_times_as_large():
    plain, outliers = (synthetic_layer(columns=128, outliers=kind).weight for kind in ("no", "yes"))
    ratio = (outliers / plain)[outliers != plain]
    assert 3 < len(ratio) < 40
    assert torch.allclose(ratio, torch.tensor(8.0))


def test_sizes_that_do_not_exist():
    for wrong in ({"columns": 100}, {"spectrum": "flat"}, {"bits": 9}, {"outliers": "maybe"}, {"gradients": 0}):
        with pytest.raises(Unsupported):
            synthetic_layer(**wrong)
    for wrong in ({"layer": "block7.q"}, {"group_size": 24}, {"size": "huge"}, {"bits": 0}):
        with pytest.raises(Unsupported):
            trained_lm(**{"size": "tiny", "layer": "block0.q", "group_size": 32} | wrong)
    for wrong in ({"size": "huge"}, {"group_size": 5}, {"sequences": 0}, {"training": "none"}):
        with pytest.raises(Unsupported):
            trained_model(**{"size": "tiny", "group_size": 32} | wrong)


@pytest.fixture(scope="module")
def cache(tmp_path_factory):
    """An empty cache: the tiny model is trained."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("BREAKEVEN_CACHE", str(tmp_path_factory.mktemp("cache")))
        yield


def test_the_tiny_model_has_learnt_from_the_sources(cache):
    problem = trained_model(size="tiny", group_size=32, sequences=4)
    logits = problem.logits(problem.held_out)[:, :-1].flatten(0, 1)
    loss = float(torch.nn.functional.cross_entropy(logits, problem.held_out[:, 1:].flatten()))
    assert loss < 3.0  # of log 256 = 5.5 without a clue
    assert torch.equal(_trained.parameters("tiny"), problem.parameters)


def test_each_seed_may_have_a_model_of_its_own(cache):
    one, same, other = (trained_model(size="tiny", group_size=32, training="own", seed=seed) for seed in (0, 0, 1))
    assert torch.equal(one.parameters, same.parameters)
    assert not torch.equal(one.parameters, other.parameters)
    shared = [trained_model(size="tiny", group_size=32, seed=seed).parameters for seed in (0, 1)]
    assert torch.equal(*shared)
    assert torch.equal(shared[0], one.parameters)


def test_text_to_be_judged_by_is_of_other_files():
    held, trained = _trained.text(True), _trained.text(False)
    assert 5e4 < len(held) < len(trained) / 4
    line = held[1000:1200].tobytes()
    assert line not in trained.tobytes()


def test_layers_have_the_inputs_and_gradients_of_the_model(cache):
    problem = trained_lm(size="tiny", layer="block0.down", group_size=32, sequences=6)
    assert problem.weight.shape == (32, 64)
    assert problem.inputs.shape == (6, _trained.CONTEXT, 64)
    assert problem.held_gradients.shape == (256, _trained.CONTEXT, 32)
    other = trained_lm(size="tiny", layer="block0.down", group_size=32, sequences=6, seed=1)
    assert torch.equal(problem.weight, other.weight)
    assert not torch.equal(problem.inputs, other.inputs)
