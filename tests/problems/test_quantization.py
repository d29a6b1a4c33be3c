"""The judge of quantized layers against the definitions, and clear words for layers that cannot be used."""

import dataclasses

import numpy as np
import pytest
import torch

from breakeven.contract import BadInput
from breakeven.problems import Wrong
from breakeven.problems.quantization import (
    ByteModel,
    LayerProblem,
    ModelProblem,
    QuantizedLayer,
    QuantizedModel,
    check_group_size,
    dequantized,
    min_max_grid,
    reference_rounding,
)

PROBES = LayerProblem.probes()


def samples(seed, sequences=9, tokens=5, n=12, m=8):
    rng = np.random.default_rng(seed)
    return rng.standard_normal((sequences, tokens, n)), rng.standard_normal((sequences, tokens, m))


def problem(**changes):
    rng = np.random.default_rng(0)
    x, g = samples(1)
    given = {"bits": 3, "group_size": 4, "inputs": x, "gradients": g, "held_out": samples(2)} | changes
    return LayerProblem.of("layer", rng.standard_normal((8, 12)), **given)


def test_losses_are_those_of_the_definitions():
    layer = problem(symmetric=False)
    answer = reference_rounding(layer)
    q = np.empty((8, 12))
    for i in range(8):
        for j in range(12):
            q[i, j] = answer.scales[i, j // 4] * (int(answer.codes[i, j]) - answer.zeros[i, j // 4])
    assert np.array_equal(q, dequantized(answer))
    w = layer.weight.numpy()
    error = w - q
    (x, g), (held_x, held_g) = samples(1), samples(2)
    h_i = np.einsum("sti,stj->ij", x, x) / 45
    h_o = np.mean([a.T @ b @ b.T @ a for a, b in zip(g, x, strict=True)], axis=0)
    squares = [(error * (b.T @ a)).sum() ** 2 for a, b in zip(held_x, held_g, strict=True)]
    whole = [((b.T @ a) ** 2).sum() for a, b in zip(held_x, held_g, strict=True)]
    size = (w**2).sum() / 96
    judged = layer.judge(answer)
    assert judged["input_loss"] == pytest.approx(np.trace(error @ h_i @ error.T) / np.trace(w @ h_i @ w.T))
    kronecker = error.ravel() @ np.kron(h_o, h_i) @ error.ravel()
    assert judged["two_sided_loss"] == pytest.approx(kronecker / (size * np.trace(h_o) * np.trace(h_i)))
    assert judged["held_out_loss"] == pytest.approx(np.mean(squares) / (size * np.mean(whole)))
    error_of_mean = 1.96 * np.std(squares, ddof=1) / 3
    assert judged["held_out_loss_error"] == pytest.approx(error_of_mean / (size * np.mean(whole)))
    assert judged["bits_per_weight"] == 3 + (16 + 3) / 4
    assert np.isnan(judged["excess_loss"])


def test_an_error_without_direction_has_a_held_out_loss_of_its_relative_size():
    """What makes the unit: the mean over errors that are a tenth as large as the weights is a hundredth."""
    rng = np.random.default_rng(3)
    layer = problem()
    losses = [layer.held_out_loss(0.1 * rng.standard_normal((8, 12))) for _ in range(4000)]
    assert np.mean(losses) == pytest.approx(0.96 / float((layer.weight**2).sum()), rel=0.1)


def test_held_out_factors_are_a_held_out_mean():
    """Gaussian tokens, independent of their gradients: ``E<E, G>^2`` is ``t tr(H_O E H_I E^T)``."""
    rng = np.random.default_rng(4)
    a, b = rng.standard_normal((12, 12)), rng.standard_normal((8, 8))
    x, g = rng.standard_normal((20000, 3, 12)) @ a, rng.standard_normal((20000, 3, 8)) @ b
    of_samples, of_factors = problem(held_out=(x, g)), problem(held_out=None, held_out_factors=(a.T @ a, b.T @ b))
    answer = reference_rounding(of_samples)
    assert of_samples.judge(answer)["held_out_loss"] == pytest.approx(
        of_factors.judge(answer)["held_out_loss"], rel=0.05
    )


def test_the_reference_is_a_published_gptq():
    """By the inverse Hessian's Cholesky factor, column after column."""
    for name in ("power_law", "two_bits", "asymmetric", "outliers", "singular", "samples", "dead_column"):
        layer = PROBES[name]
        h = layer.input_hessian.numpy()
        n = len(h)
        factor = np.linalg.cholesky(np.linalg.inv(h + 0.01 * np.trace(h) / n * np.eye(n))).T
        w = layer.weight.numpy().copy()
        scales, zeros = (
            np.repeat(part, layer.group_size, axis=1)
            for part in min_max_grid(w, layer.bits, layer.group_size, layer.symmetric)
        )
        codes = np.zeros_like(w)
        for j in range(n):
            codes[:, j] = np.rint(w[:, j] / scales[:, j] + zeros[:, j]).clip(0, 2**layer.bits - 1)
            e = (w[:, j] - scales[:, j] * (codes[:, j] - zeros[:, j])) / factor[j, j]
            w[:, j:] -= np.outer(e, factor[j, j:])
        assert np.array_equal(codes, reference_rounding(layer).codes), name


def test_rounding_scales_to_half_precision_changes_next_to_nothing():
    """Which is why a scale counts 16 bits."""
    for name in ("power_law", "two_bits", "asymmetric", "samples"):
        answer = reference_rounding(PROBES[name])
        half = dataclasses.replace(answer, scales=answer.scales.half().double())
        before, after = (PROBES[name].judge(one)["held_out_loss"] for one in (answer, half))
        assert after == pytest.approx(before, rel=0.02)


def test_bits_are_those_of_what_is_stored():
    layer = problem(symmetric=False)
    answer = reference_rounding(layer)
    order = torch.randperm(12, generator=torch.Generator().manual_seed(0))
    assert layer.judge(dataclasses.replace(answer, zeros=answer.zeros + 0.5))["bits_per_weight"] == 3 + 32 / 4
    assert layer.judge(dataclasses.replace(answer, zeros=0 * answer.zeros))["bits_per_weight"] == 3 + 16 / 4
    ordered = dataclasses.replace(answer, permutation=order)
    assert layer.judge(ordered)["bits_per_weight"] == 3 + 19 / 4 + 4 / 8
    assert layer.judge(ordered)["excess_bits"] == 0.5
    for place in range(12):
        column = order[place]
        expected = answer.scales[:, place // 4] * (answer.codes[:, column] - answer.zeros[:, place // 4])
        assert np.array_equal(dequantized(ordered)[:, column], expected)


def test_the_clip_rate_counts_weights_beyond_half_a_step():
    layer = LayerProblem.of("layer", [[-1.9, -1.0, 0.4, 2.6, 2.4]], bits=2, symmetric=False, input_hessian=np.eye(5))
    answer = QuantizedLayer(
        torch.zeros(1, 5, dtype=torch.uint8),
        torch.ones(1, 1).double(),
        torch.ones(1, 1).double(),
        torch.empty(0, dtype=torch.int64),
    )
    assert layer.judge(answer)["clip_rate"] == pytest.approx(0.4)


def test_padding_is_left_out_whatever_it_holds():
    x, g = samples(1)
    mask = np.ones((9, 5), bool)
    mask[3:, 3:] = False
    padded = x.copy(), g.copy()
    for part in padded:
        part[~mask] = np.nan
    masked = problem(inputs=padded[0], gradients=padded[1], mask=mask)
    tokens = x[mask]
    assert np.allclose(masked.input_hessian, tokens.T @ tokens / len(tokens))


def test_padding_is_left_out_of_what_is_held_out_whatever_it_holds():
    layer, (x, g) = problem(), samples(2)
    padded = [np.concatenate([part, np.full_like(part[:, :2], fill)], axis=1) for part, fill in ((x, np.nan), (g, 7.0))]
    mask = np.arange(7) < np.full((9, 1), 5)
    masked = problem(held_out=padded, held_out_mask=mask)
    answer = reference_rounding(layer)
    assert masked.judge(answer)["held_out_loss"] == pytest.approx(layer.judge(answer)["held_out_loss"], rel=1e-12)
    with pytest.raises(BadInput, match="held_inputs of sequence 0, token 5 is NaN or infinite; mask padding out"):
        problem(held_out=padded)


H = np.diag(np.arange(1.0, 13))


def changed(matrix, *entries):
    matrix = matrix.copy()
    for i, j, value in entries:
        matrix[i, j] = value
    return matrix


INDEFINITE = changed(
    np.eye(12), *((i, j, 0.9 if (i, j) != (0, 1) != (j, i) else -0.9) for i in range(3) for j in range(3) if i != j)
)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"group_size": 5}, r"group size 5 does not divide the number of columns of layer \(12\)"),
        ({"group_size": 24}, "group size 24 does not divide"),
        ({"bits": 0}, "codes have 1 to 8"),
        ({"bits": 9}, "codes have 1 to 8"),
        ({"input_hessian": changed(H, (2, 3, np.nan), (3, 2, np.nan))}, r"input_hessian\[2, 3\] is nan; calibration overflowed"),
        ({"input_hessian": changed(H, (1, 1, np.inf))}, r"input_hessian\[1, 1\] is inf"),
        ({"input_hessian": 0 * H}, "all zero: calibration has not reached this layer"),
        ({"input_hessian": changed(H, (4, 4, -1.0))}, r"input_hessian\[4, 4\] is -1; second moments are not negative"),
        ({"input_hessian": changed(H, (0, 5, 0.5))}, r"not symmetric at \[0, 5\]"),
        ({"input_hessian": changed(H, (0, 1, 9.0), (1, 0, 9.0))}, r"indefinite: \|H_ij\| exceeds"),
        ({"input_hessian": INDEFINITE}, "indefinite, with an eigenvalue of -"),
        ({"input_hessian": H[:5, :5]}, r"shape \(5, 5\); it must be \(12, 12\)"),
        ({"inputs": None, "gradients": None}, "neither an input Hessian nor calibration inputs"),
        ({"inputs": np.zeros((0, 5, 12)), "gradients": None}, "no calibration tokens"),
        ({"inputs": np.zeros((9, 5, 12))}, "all zero: calibration has not reached"),
        ({"inputs": changed(samples(1)[0], (2, 4, np.nan))}, "inputs of sequence 2, token 4 is NaN or infinite; mask padding"),
        ({"gradients": samples(1)[1][:, :3]}, "inputs and gradients alike"),
        ({"mask": np.ones((9, 4))}, r"mask has shape \(9, 4\)"),
        ({"held_out_mask": np.ones((9, 4))}, r"held_out_mask has shape \(9, 4\)"),
        ({"held_out": None, "held_out_mask": np.ones((9, 5))}, r"held_out_mask has shape \(9, 5\)"),
        ({"bits": 2.9}, "bits is 2.9; give a whole number"),
        ({"bits": True}, "bits is True; give a whole number"),
        ({"group_size": 4.9}, "group_size is 4.9; give a whole number"),
        ({"group_size": 0}, "group size 0 does not divide"),
        ({"symmetric": "no"}, "symmetric is 'no'; give True or False"),
    ],
)  # fmt: skip
def test_layers_that_cannot_be_used(changes, words):
    with pytest.raises(BadInput, match=words):
        problem(**changes)


def test_weights_that_are_not_finite_are_placed():
    with pytest.raises(BadInput, match=r"down: weight\[1, 0\] is nan; the model was broken before"):
        LayerProblem.of("down", [[1.0, 2], [np.nan, 4]], bits=3, input_hessian=np.eye(2))


def test_group_sizes_are_refused_for_all_layers_at_once():
    with pytest.raises(
        BadInput, match=r"group size 128 does not divide .* of q \(192\), up \(4304\); divisors of 16 fit"
    ):
        check_group_size(128, {"q": 192, "up": 4304, "o": 256})
    check_group_size(64, {"q": 192, "o": 256})


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda a: {"codes": a.codes + 8}, "the largest of 3 bits is 7"),
        (lambda a: {"codes": a.codes.long()}, "codes is torch.int64"),
        (lambda a: {"codes": a.codes[:, :4]}, "codes has shape"),
        (lambda a: {"scales": a.scales[:, :1]}, "scales has shape"),
        (lambda a: {"scales": -a.scales}, "a scale is negative"),
        (lambda a: {"scales": a.scales * np.nan}, "scales has an entry that is NaN"),
        (lambda a: {"zeros": a.zeros + torch.arange(3)}, "zeros differ"),
        (lambda a: {"permutation": torch.zeros(12, dtype=torch.int64)}, "every column once"),
        (lambda a: {"permutation": torch.arange(3)}, "permutation has shape"),
        (lambda a: {"scales": None}, "must be tensors"),
    ],
)
def test_answers_that_are_none(change, words):
    answer = reference_rounding(problem())
    with pytest.raises(Wrong, match=words):
        problem().judge(dataclasses.replace(answer, **change(answer)))


def test_probes_have_a_reference_that_the_plain_rounding_meets():
    for name, layer in PROBES.items():
        assert layer.judge(reference_rounding(layer))["excess_loss"] <= 0, name


MODELS = ModelProblem.probes()


def rounded_to(bits, model):
    """Every layer by the plain rounding, with the identity for a Hessian."""
    layers = {}
    for name, weight in model.parts().items():
        if name in model.linears():
            layers[name] = reference_rounding(
                LayerProblem.of(name, weight, bits=bits, group_size=8, input_hessian=np.eye(weight.shape[1]))
            )
    return QuantizedModel.of(layers)


def test_the_model_is_the_llama_of_transformers():
    transformers = pytest.importorskip("transformers")
    model = MODELS["two_blocks"]
    config = transformers.LlamaConfig(
        vocab_size=256, hidden_size=8, intermediate_size=16, num_hidden_layers=2, num_attention_heads=2,
        rms_norm_eps=1e-6, rope_theta=1e4, attn_implementation="eager",
    )  # fmt: skip
    peer = transformers.LlamaForCausalLM(config).double()
    parts = model.parts()
    names = {"embedding": "model.embed_tokens.weight", "final_norm": "model.norm.weight", "head": "lm_head.weight"}
    for b in range(2):
        block = f"model.layers.{b}"
        names |= {f"block{b}.{part}": f"{block}.self_attn.{part}_proj.weight" for part in "qkvo"}
        names |= {f"block{b}.{part}": f"{block}.mlp.{part}_proj.weight" for part in ("gate", "up", "down")}
        names[f"block{b}.attention_norm"] = f"{block}.input_layernorm.weight"
        names[f"block{b}.mlp_norm"] = f"{block}.post_attention_layernorm.weight"
    peer.load_state_dict({theirs: parts[mine] for mine, theirs in names.items()})
    with torch.no_grad():  # whose norms and angles are in float32, whatever the model's dtype
        assert torch.allclose(model.logits(model.held_out), peer(model.held_out).logits, rtol=0, atol=1e-5)


def test_recorded_gradients_are_those_of_the_weights():
    """Their sum over tokens, ``g x^T``, is what automatic differentiation finds for W itself."""
    model = MODELS["two_blocks"]
    names = list(model.linears())
    recorded = model.recorded(names, model.calibration, seed=5)
    leaf = dataclasses.replace(model, parameters=model.parameters.clone().requires_grad_())
    generator = torch.Generator().manual_seed(5)
    for start in (0, 16):  # as many sequences at a time
        logits = leaf.logits(leaf.calibration[start : start + 16]).flatten(0, 1)
        drawn = torch.multinomial(logits.detach().softmax(dim=1), 1, generator=generator)[:, 0]
        torch.nn.functional.cross_entropy(logits, drawn, reduction="sum").backward()
    gradients = dataclasses.replace(model, parameters=leaf.parameters.grad).parts()
    for name in names:
        x, g = recorded[name]
        assert torch.allclose(torch.einsum("stm,stn->mn", g, x), gradients[name], atol=1e-8)


def test_the_second_order_loss_of_a_layer_is_the_divergence_of_the_model():
    """KL = 1/2 <E, F E> for small E, with the Fisher information of the layer; F by many draws of the model's tokens."""
    model = dataclasses.replace(MODELS["one_block"], calibration=MODELS["one_block"].held_out.repeat(4000, 1))
    x, g = model.recorded(["block0.up"], model.calibration)["block0.up"]
    weight = model.parts()["block0.up"]
    error = 1e-3 * torch.from_numpy(np.random.default_rng(0).standard_normal(tuple(weight.shape)))
    changed = model.with_weights({"block0.up": weight + error})
    before, after = (one.logits(model.held_out).log_softmax(dim=2) for one in (model, changed))
    divergence = (before.exp() * (before - after)).sum(dim=(1, 2)).mean()
    products = torch.einsum("stm,stn,mn->s", g, x, error)
    assert float(products.square().mean() / 2) == pytest.approx(float(divergence), rel=0.1)


def test_a_model_is_judged_by_its_divergence():
    model = MODELS["one_block"]
    judged = {bits: dataclasses.replace(model, bits=bits).judge(rounded_to(bits, model)) for bits in (2, 4, 8)}
    assert judged[2]["kl"] > judged[4]["kl"] > 10 * judged[8]["kl"] > 0
    assert judged[8]["agreement"] > 0.9
    assert judged[8]["perplexity"] == pytest.approx(judged[8]["perplexity_before"], rel=0.05)
    assert judged[4]["bits_per_weight"] == 4 + 16 / 8
    changed = model.with_weights(
        {name: torch.from_numpy(dequantized(layer)) for name, layer in rounded_to(2, model).layers(model).items()}
    )
    p, q = (one.logits(model.held_out).softmax(dim=2) for one in (model, changed))
    assert judged[2]["kl"] == pytest.approx(float((p * (p / q).log()).sum(dim=2).mean()), rel=1e-9)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"parameters": MODELS["one_block"].parameters[:-1]}, "they must be float64 or float32 of shape"),
        ({"parameters": MODELS["one_block"].parameters * np.nan}, "embedding holds NaN or infinity"),
        ({"calibration": torch.zeros(0, 6, dtype=torch.int64)}, "calibration must be int64 of shape"),
        ({"held_out": torch.full((1, 4), 256)}, "held_out holds a token outside 0..255"),
        ({"group_size": 3}, r"group size 3 does not divide .* block0.q \(8\), .* and 2 more; divisors of 8"),
        ({"bits": 9}, "codes have 1 to 8"),
        ({"bits": 2.9}, "bits is 2.9; give a whole number"),
    ],
)
def test_models_that_cannot_be_used(changes, words):
    with pytest.raises(BadInput, match=words):
        dataclasses.replace(MODELS["one_block"], **changes)


def test_heads_share_the_width_in_even_parts():
    with pytest.raises(BadInput, match="width 8 and 3 heads; each head needs an even part of the width"):
        ByteModel(8, 1, 3, 16)


def test_answers_for_a_model_that_are_none():
    model = MODELS["one_block"]
    answer = rounded_to(3, model)
    with pytest.raises(Wrong, match="codes must be a tensor of shape"):
        model.judge(dataclasses.replace(answer, codes=answer.codes[1:]))
    with pytest.raises(Wrong, match=r"block0.q: a code is 255"):
        model.judge(dataclasses.replace(answer, codes=answer.codes | 255))


def test_a_model_has_no_place_for_a_permutation():
    layers = rounded_to(3, MODELS["one_block"]).layers(MODELS["one_block"])
    layers["block0.q"] = dataclasses.replace(layers["block0.q"], permutation=torch.arange(8).flip(0))
    with pytest.raises(BadInput, match=r"block0\.q: groups by a permutation of columns"):
        QuantizedModel.of(layers)


def test_whole_numbers_may_be_numpys():
    layer = problem(bits=np.int64(3), group_size=np.int32(4), symmetric=np.bool_(False))
    assert (layer.bits, layer.group_size, layer.symmetric) == (3, 4, False)
    assert type(layer.bits) is type(layer.group_size) is int
