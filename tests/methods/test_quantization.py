"""What each method of quantization promises, by the judge, where a closed form or an equal says what is right."""

import dataclasses

import numpy as np
import pytest
import torch

from breakeven.contract import BadInput
from breakeven.methods.quantization import inverse_hessian_clipping, osaq, yaqa
from breakeven.methods.quantization.kernels.factors import sketch_b
from breakeven.problems.quantization import LayerProblem, ModelProblem, dequantized


def layer(rank: int = 64, bits: int = 2, seed: int = 0, outliers: bool = True) -> LayerProblem:
    """64 x 64, with an input Hessian of some rank, an output Hessian that falls, and a few large weights."""
    rng = np.random.default_rng(seed)
    weight = rng.standard_normal((64, 64))
    if outliers:
        weight[np.arange(64), rng.integers(0, 64, 64)] = 6.0
    roots = rng.standard_normal((64, rank))
    axes = np.linalg.qr(rng.standard_normal((64, 64)))[0]
    output = axes / np.arange(1.0, 65) @ axes.T
    h_i = roots @ roots.T
    return LayerProblem.of(
        "layer",
        weight,
        bits=bits,
        group_size=32,
        input_hessian=h_i,
        output_hessian=output,
        held_out_factors=(h_i, output),
    )


def sampled(sequences: int, seed: int = 0) -> LayerProblem:
    """Gradients that are correlated across outputs, in sequences of 8 tokens; 256 others are held out."""
    rng = np.random.default_rng(seed)
    a, b = (rng.standard_normal((size, size)) / np.arange(1.0, size + 1) for size in (32, 24))
    x, g = rng.standard_normal((sequences + 256, 8, 32)) @ a, rng.standard_normal((sequences + 256, 8, 24)) @ b
    return LayerProblem.of(
        "sampled", rng.standard_normal((24, 32)), bits=3, group_size=16, inputs=x[256:], gradients=g[256:],
        held_out=(x[:256], g[:256]),
    )  # fmt: skip


def plain(problem: LayerProblem):
    """GPTQ's codes: without a factor for the outputs."""
    return yaqa._rounded(problem, problem.input_hessian, None, True, 0.01)[0]


def test_yaqa_halves_the_loss_of_the_network_and_raises_that_of_the_layer():
    problem = layer(bits=4, outliers=False)
    one, two = (problem.judge(answer) for answer in (plain(problem), yaqa.solve(problem)))
    assert two["held_out_loss"] < 0.7 * one["held_out_loss"]
    assert two["input_loss"] > one["input_loss"]


def test_yaqa_without_gradients_has_an_identity_for_its_output_factor():
    problem = dataclasses.replace(layer(), output_hessian=torch.eye(64).double())
    columns_first = dataclasses.replace(problem, output_hessian=7.0 * torch.eye(64).double())
    assert torch.equal(yaqa.solve(problem).codes, plain(problem).codes)
    assert torch.equal(yaqa.solve(columns_first).codes, plain(problem).codes)


def test_yaqa_rounds_by_the_sketch_of_its_sequences():
    problem = sampled(64)
    h_i, h_o = sketch_b(problem.inputs, problem.gradients)
    by_factors = yaqa._rounded(problem, h_i, h_o, True, 0.01)[0]
    assert torch.equal(yaqa.solve(problem, gate=False).codes, by_factors.codes)
    with_layer_inputs = yaqa._rounded(problem, problem.input_hessian, h_o, True, 0.01)[0]
    assert torch.equal(yaqa.solve(problem, sketch="output_only", gate=False).codes, with_layer_inputs.codes)


def test_the_gate_answers_with_gptq_where_the_sketch_misleads():
    """Sequences whose gradients tell nothing, but for those that are kept out of the sketch."""
    problem = sampled(64)
    g = problem.gradients.clone()
    misled = torch.ones(64, dtype=torch.bool)
    misled[yaqa.HELD_OUT - 1 :: yaqa.HELD_OUT] = False
    # The small gradients are taken for the large ones.
    scale = g.square().mean(dim=(0, 1)).sqrt()
    g[misled] = g[misled] / scale * scale.sort().values[torch.argsort(torch.argsort(scale, descending=True))]
    wrong = dataclasses.replace(problem, gradients=g)
    assert torch.equal(yaqa.solve(wrong).codes, plain(wrong).codes)
    assert not torch.equal(yaqa.solve(problem).codes, plain(problem).codes)
    assert not torch.equal(yaqa.solve(wrong, gate=False).codes, plain(wrong).codes)


def by_sketch_b(problem: LayerProblem):
    return yaqa._rounded(problem, *sketch_b(problem.inputs, problem.gradients), True, 0.01)


def of_the_gate(problem: LayerProblem) -> torch.Tensor:
    held = torch.zeros(len(problem.inputs), dtype=torch.bool)
    held[yaqa.HELD_OUT - 1 :: yaqa.HELD_OUT] = True
    return held


@pytest.mark.parametrize(("sketch", "tokens"), [("B", 1), ("output_only", 8)])
def test_the_rival_at_the_gate_has_not_seen_its_sequences(sketch, tokens):
    """A Hessian that knows them would win there: their own gradients', in place of the inputs'."""
    problem = sampled(64)
    # Eight sequences of one token leave most directions free to whoever knows them.
    first = {field: getattr(problem, field)[:, :tokens].contiguous() for field in ("inputs", "gradients")}
    problem = dataclasses.replace(problem, **first)
    held = of_the_gate(problem)
    x, g = problem.inputs[held], problem.gradients[held]
    whole = torch.einsum("stm,stn->smn", g, x).flatten(0, 1)
    knowing = dataclasses.replace(problem, input_hessian=whole.T @ whole)
    answers = [yaqa.solve(knowing, sketch=sketch, gate=gate).codes for gate in (True, False)]
    assert torch.equal(*answers)
    assert not torch.equal(answers[0], plain(knowing).codes)


def test_the_gate_does_not_decide_on_noise():
    """Outputs that all matter alike: where GPTQ is the better one by less than a standard error, nothing is known."""
    tried = 0
    for seed in range(30):
        rng = np.random.default_rng(seed)
        x, g = rng.standard_normal((32, 8, 24)), rng.standard_normal((32, 8, 6))
        problem = LayerProblem.of("alike", rng.standard_normal((6, 24)), bits=3, inputs=x, gradients=g)
        held = of_the_gate(problem)
        rest = dataclasses.replace(problem, inputs=problem.inputs[~held], gradients=problem.gradients[~held])
        h_i = rest.inputs.flatten(0, 1).T @ rest.inputs.flatten(0, 1)
        errors = by_sketch_b(rest)[1], yaqa._rounded(rest, h_i, None, True, 0.01)[1]
        whole = torch.einsum("stm,stn->smn", problem.gradients, problem.inputs)[held]
        one, other = (torch.einsum("mn,smn->s", error, whole) ** 2 for error in errors)
        worse, noise = float((one - other).mean()), float((one - other).std() / 2)  # of 4 sequences
        expected = plain(problem) if worse > noise else by_sketch_b(problem)[0]
        assert torch.equal(yaqa.solve(problem).codes, expected.codes)
        tried += 0 < worse < noise
    assert tried > 3


def test_the_gates_winner_is_made_of_all_sequences():
    problem = sampled(64)
    assert torch.equal(yaqa.solve(problem).codes, by_sketch_b(problem)[0].codes)


def test_an_unknown_sketch_is_named():
    with pytest.raises(BadInput, match="no sketch is called 'C'; there are: A, B, output_only"):
        yaqa.solve(sampled(4), sketch="C")


@pytest.mark.parametrize("method", [osaq, inverse_hessian_clipping])
def test_outliers_move_into_directions_that_inputs_never_take(method):
    """Half of all directions are free: GPTQ's steps shrink with the outliers."""
    problem = layer(rank=32)
    one, two = (problem.judge(answer) for answer in (plain(problem), method.solve(problem)))
    assert two["held_out_loss"] < 0.7 * one["held_out_loss"]


@pytest.mark.parametrize("method", [osaq, inverse_hessian_clipping])
def test_no_row_loses_more_than_by_gptq(method):
    """With a direction that is free for nobody too, where no change can pay."""
    for problem in (
        layer(),
        layer(rank=32, bits=4),
        dataclasses.replace(layer(), input_hessian=torch.eye(64).double()),
    ):
        losses = []
        for answer in (plain(problem), method.solve(problem)):
            error = problem.weight - torch.from_numpy(dequantized(answer))
            losses.append(((error @ problem.input_hessian) * error).sum(dim=1))
        assert (losses[1] <= losses[0] * (1 + 1e-9)).all()


def test_osaq_solves_its_normal_equations():
    """``(sum of s_j n_j n_j^T + D + mu_2 v v^T) b = -sum of s_j w_j n_j``, written out for every row."""
    rng = np.random.default_rng(0)
    rows, null = torch.from_numpy(rng.standard_normal((5, 20))), torch.from_numpy(rng.standard_normal((6, 20)))
    stiffness = torch.from_numpy(rng.random(6) + 0.1)
    start = torch.from_numpy(0.1 * rng.standard_normal((5, 6)))
    present = rows + start @ null
    step = osaq._least_squares(present, start, null, stiffness, 0.1)
    v = null.sum(dim=1)
    for row, moved, b, original in zip(present, start, step, rows, strict=True):
        s = torch.softmax(row.abs() / (0.1 * row.abs().max()), dim=0)
        system = (null * s) @ null.T + torch.diag(stiffness) + osaq.MU_2 * torch.outer(v, v)
        assert torch.allclose(system @ (moved + b), -(null * s) @ original, atol=1e-8)


def test_the_guard_of_osaq_never_expects_a_greater_loss():
    problem = layer(rank=40)
    importance = torch.ones(64).double()
    eigenvalues, vectors = torch.linalg.eigh(problem.input_hessian)
    free = int((eigenvalues.clamp(min=0).cumsum(0) <= 1e-2 * eigenvalues.sum()).sum())
    moved = osaq.suppressed(problem, importance, 1e-2, 0.1, True)
    change = moved - problem.weight
    b = change @ vectors[:, :free]
    assert change.abs().max() > 0.1
    assert torch.allclose(b @ vectors[:, :free].T, change, atol=1e-8)
    of_group = torch.full((2,), 32.0).double()
    losses = [
        osaq._expected(rows, shift, eigenvalues[:free], of_group, problem)
        for rows, shift in ((problem.weight, 0 * b), (moved, b))
    ]
    assert (losses[1] <= losses[0] + 1e-9).all()


def test_a_model_is_quantized_layer_by_layer():
    problem = ModelProblem.probes()["two_blocks"]
    answer = yaqa.solve_model(problem).layers(problem)
    for name, single in problem.layers(list(problem.linears())).items():
        assert torch.equal(answer[name].codes, yaqa.solve(single).codes)
