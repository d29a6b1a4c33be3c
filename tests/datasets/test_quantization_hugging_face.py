"""Any language model of transformers as a problem: whole models made here, in a folder, without a network."""

import dataclasses
import math
import re

import numpy as np
import psutil
import pytest
import torch

from breakeven import cli, registry, sweep
from breakeven.baselines.quantization import gptq, rtn
from breakeven.benchmarks.quantization import LayerLoss, ModelKL
from breakeven.contract import BadInput, Unsupported
from breakeven.datasets.quantization import hugging_face as module
from breakeven.datasets.quantization.hugging_face import hugging_face
from breakeven.methods.quantization import yaqa
from breakeven.problems.quantization import CausalLM, dequantized
from breakeven.problems.quantization.model import recorded

transformers = pytest.importorskip("transformers")
tokenizers = pytest.importorskip("tokenizers")

SIZES = {"group_size": 16, "sequences": 18, "length": 12}


def llama():
    config = transformers.LlamaConfig(
        vocab_size=256, hidden_size=32, intermediate_size=64, num_hidden_layers=2, num_attention_heads=2,
        num_key_value_heads=1, max_position_embeddings=64, attention_bias=True, bos_token_id=0, eos_token_id=1,
    )  # fmt: skip
    return transformers.LlamaForCausalLM(config)


def gpt2():
    """Conv1D layers with biases, and an output head that is tied to the embedding."""
    config = transformers.GPT2Config(
        vocab_size=256, n_embd=32, n_layer=2, n_head=2, n_positions=64, bos_token_id=0, eos_token_id=1
    )
    return transformers.GPT2LMHeadModel(config)


def mixtral():
    """Experts, of which each sees a part of the tokens."""
    config = transformers.MixtralConfig(
        vocab_size=256, hidden_size=32, intermediate_size=32, num_hidden_layers=1, num_attention_heads=2,
        num_key_value_heads=1, max_position_embeddings=64, num_local_experts=2, bos_token_id=0, eos_token_id=1,
    )  # fmt: skip
    return transformers.MixtralForCausalLM(config)


MODELS = {"llama": llama, "gpt2": gpt2, "mixtral": mixtral}


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    """Models of bytes with random weights, larger than transformers makes them, and biases."""
    made = {}
    for name, make in MODELS.items():
        torch.manual_seed(0)
        model = make().eval()
        for part in model.parameters():
            torch.nn.init.normal_(part, std=0.2)
        made[name] = folder = tmp_path_factory.mktemp("models") / name
        model.save_pretrained(folder)
        letters = {chr(byte): byte for byte in range(256)}
        bytewise = tokenizers.Tokenizer(tokenizers.models.BPE(vocab=letters, merges=[]))
        transformers.PreTrainedTokenizerFast(tokenizer_object=bytewise).save_pretrained(folder)
    return made


def loaded(folder):
    return transformers.AutoModelForCausalLM.from_pretrained(folder).eval()


@pytest.mark.parametrize("name", MODELS)
def test_the_problem_computes_what_the_model_does(folders, name):
    problem = hugging_face(file=str(folders[name]), **SIZES)
    with torch.no_grad():
        assert torch.allclose(
            problem.logits(problem.held_out), loaded(folders[name])(problem.held_out).logits, atol=1e-4
        )
    assert problem.features()["tokens"] == 18 * 12
    assert problem.features()["parameters"] == sum(part.numel() for part in loaded(folders[name]).parameters())
    same, other = (hugging_face(file=str(folders[name] / "config.json"), **SIZES, seed=seed) for seed in (0, 1))
    assert all(torch.equal(value, same.tensors()[field]) for field, value in problem.tensors().items())
    assert not torch.equal(problem.calibration, other.calibration)


def test_what_is_quantized_is_every_linear_layer_but_the_head(folders):
    problem = hugging_face(file=str(folders["gpt2"]), **SIZES)
    assert problem.linears() == {
        f"transformer.h.{block}.{part}": shape
        for block in (0, 1)
        for part, shape in {
            "attn.c_attn": (96, 32), "attn.c_proj": (32, 32), "mlp.c_fc": (128, 32), "mlp.c_proj": (32, 128)
        }.items()
    }  # fmt: skip
    weight = loaded(folders["gpt2"]).transformer.h[1].mlp.c_fc.weight
    assert torch.equal(problem.weights()["transformer.h.1.mlp.c_fc"], weight.T)
    assert [len(block) for block in problem.blocks()] == [4, 4]


@pytest.mark.parametrize("name", MODELS)
def test_recorded_gradients_are_those_of_the_weights(folders, name):
    """Their sum over tokens, ``g x^T``, is what automatic differentiation finds for W itself."""
    problem = hugging_face(file=str(folders[name]), **SIZES)
    names = list(problem.linears())
    recorded = problem.recorded(names, problem.calibration, seed=5)
    model, generator = loaded(folders[name]), torch.Generator().manual_seed(5)
    for s, tokens in enumerate(problem.calibration[:3]):
        model.zero_grad()
        logits = model(tokens[None]).logits[0]
        drawn = torch.multinomial(logits.detach().softmax(dim=1), 1, generator=generator)[:, 0]
        torch.nn.functional.cross_entropy(logits, drawn, reduction="sum").backward()
        for layer in names:
            x, g = recorded[layer]
            gradient = model.get_submodule(layer).weight.grad
            gradient = gradient.T if name == "gpt2" else gradient
            assert torch.allclose(g[s].T @ x[s], gradient, atol=1e-3 * float(gradient.abs().max())), layer


@pytest.mark.parametrize("name", MODELS)
def test_it_is_judged_by_the_divergence_of_the_dequantized_model(folders, name):
    problem = hugging_face(file=str(folders[name]), bits=2, **SIZES)
    answer = yaqa.solve_model(problem)
    judged = problem.judge(answer)
    model, changed = loaded(folders[name]), loaded(folders[name])
    for layer, codes in answer.layers(problem).items():
        weight = torch.from_numpy(dequantized(codes)).float()
        changed.get_submodule(layer).weight.data = weight.T.contiguous() if name == "gpt2" else weight
    with torch.no_grad():
        before, after = (one(problem.held_out).logits.double().log_softmax(dim=2) for one in (model, changed))
    assert judged["kl"] == pytest.approx(float((before.exp() * (before - after)).sum(dim=2).mean()), rel=1e-3)
    nearest = problem.judge(rtn.solve_model(problem))
    assert judged["kl"] < nearest["kl"]
    assert judged["bits_per_weight"] == 2 + 16 / 16


def test_sequential_calibration_goes_block_by_block(folders):
    problem = hugging_face(file=str(folders["gpt2"]), bits=2, **SIZES)
    one, other = (gptq.solve_model(problem, sequential=how).layers(problem) for how in (True, False))
    same = {name: torch.equal(one[name].codes, other[name].codes) for name in one}
    assert all(same[name] for name in same if ".0." in name)
    assert not all(same.values())


def test_text_of_ones_own_is_calibrated_on_and_held_out(folders, tmp_path):
    (tmp_path / "a.txt").write_text("abcdefgh" * 120)
    (tmp_path / "b.txt").write_text("ABCDEFGH" * 16)
    given = {"file": str(folders["llama"]), **SIZES}
    problem = hugging_face(**given, text=str(tmp_path / "a.txt"), judged_by=str(tmp_path / "b.txt"))
    assert problem.calibration.min() == ord("a")
    assert problem.held_out.max() == ord("H")
    split = hugging_face(**given, text=str(tmp_path / "*.txt"))
    assert problem.held_out.shape == (10, 12)
    text = "abcdefgh" * 120 + "\n" + "ABCDEFGH" * 16
    held = {tuple(ord(letter) for letter in text[k : k + 12]) for k in range(len(text) * 9 // 10, len(text) - 11)}
    assert {tuple(tokens) for tokens in split.held_out.tolist()} <= held
    assert split.calibration[:, -1].max() <= ord("h")
    assert not np.isin(split.calibration, list(map(ord, "EFGH"))).any()


def test_a_model_whose_buffers_are_its_own_is_refused(folders):
    model = loaded(folders["llama"])
    model.model.rotary_emb.inv_freq.mul_(3)
    with pytest.raises(BadInput, match="more than its configuration says"):
        CausalLM.of(model)


def test_a_sequence_may_reach_none_of_the_layers():
    for x, gradient in recorded(
        lambda tokens, observe: torch.zeros(1, 3, 5), {"expert": (2, 4)}, [torch.zeros(1, 3, dtype=torch.int64)], 0
    ).values():
        assert x.shape == (1, 0, 4)
        assert gradient.shape == (1, 0, 2)


def test_too_little_memory_is_no_crash(folders, monkeypatch):
    problem = hugging_face(file=str(folders["llama"]), bits=2, **SIZES)
    monkeypatch.setattr(psutil, "virtual_memory", lambda: type("Memory", (), {"available": 1000}))
    for sequential in (True, False):
        with pytest.raises(MemoryError, match=r"9\.31e-07 GiB are free"):
            gptq.solve_model(problem, sequential=sequential)


def test_what_cannot_be_used_is_said(folders, tmp_path, monkeypatch):
    given = {"file": str(folders["llama"]), **SIZES}
    (tmp_path / "empty.txt").write_text(" \n")
    (tmp_path / "short.txt").write_text("abc" * 10)
    for changes, words in (
        ({"group_size": 48}, r"group size 48 does not divide .*layers.0.self_attn.q_proj \(32\)"),
        ({"text": str(tmp_path / "none.txt")}, "none.txt' names no file"),
        ({"text": str(tmp_path / "empty.txt")}, "empty.txt: is empty; calibration needs text"),
        (
            {"text": str(tmp_path / "short.txt")},
            "the text for the judge has 3 tokens, and 8 sequences of 12 need 96: give judged_by= or more text",
        ),
        ({"file": str(tmp_path)}, "no causal language model can be loaded from there"),
    ):
        with pytest.raises(BadInput, match=words):
            hugging_face(**given | changes)
    for wrong in ({"symmetric": "maybe"}, {"sequences": 0}, {"length": 1}, {"bits": 9}):
        with pytest.raises(Unsupported):
            hugging_face(**given | wrong)
    memory = type("Memory", (), {"available": 1000})
    monkeypatch.setattr(module.psutil, "virtual_memory", lambda: memory)
    monkeypatch.setattr(module, "loaded_model", lambda *_: pytest.fail("it was loaded"))
    with pytest.raises(
        BadInput, match=r"parameters needs 0\.\d+ GiB to be judged in float64, and 9.31e-07 GiB are free"
    ):
        hugging_face(**given)


def test_weights_that_are_not_finite_are_placed(folders, tmp_path):
    model = loaded(folders["llama"])
    model.model.layers[1].mlp.up_proj.weight.data[3, 4] = math.nan
    model.save_pretrained(tmp_path)
    transformers.AutoTokenizer.from_pretrained(folders["llama"]).save_pretrained(tmp_path)
    with pytest.raises(BadInput, match=re.escape("model.layers.1.mlp.up_proj.weight holds NaN or infinity")):
        hugging_face(file=str(tmp_path), **SIZES)


def test_a_folder_is_taken_from_the_command_line_as_a_model(folders, tmp_path, monkeypatch):
    (tmp_path / "notes.txt").write_text("abc")
    monkeypatch.chdir(tmp_path)  # workers run elsewhere
    files = cli._files(str(folders["llama"]))
    assert files == (str(folders["llama"]),)
    choice = sweep.Choice(methods=("rtn",), threads=1, files=files, sizes={"bits": 2, "text": "notes.txt"}, seed=3)
    listings = registry.catalogue()
    (cell,) = sweep.plan(ModelKL, choice, listings)
    assert cell.dataset.entry.name == "hugging_face"
    assert cell.sizes == {"file": files[0], "bits": 2, "text": str(tmp_path / "notes.txt")}
    assert cell.seed == 3
    with pytest.raises(BadInput, match="quantization/layer_loss has no data set that reads files"):
        sweep.plan(LayerLoss, choice, listings)
    with pytest.raises(BadInput, match="no size of data set hugging_face is called 'bit'; did you mean 'bits'"):
        sweep.plan(ModelKL, dataclasses.replace(choice, sizes={"bit": 2}), listings)
