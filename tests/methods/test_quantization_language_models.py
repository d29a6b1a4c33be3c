"""Whole models of transformers with packed codes: the weights they have, what is saved and loaded, and what is refused."""

import math
import pathlib
import re

import pytest
import torch

from breakeven.baselines.quantization import gptq, rtn
from breakeven.contract import BadInput
from breakeven.datasets.quantization.trained_model import trained_model
from breakeven.methods.quantization import language_models, yaqa
from breakeven.methods.quantization.language_models import PackedLinear, load_model, observations, save_model
from breakeven.problems.quantization import LayerProblem, dequantized
from breakeven.problems.quantization.calibration import passes, tokens_of_files
from breakeven.problems.quantization.causal_lm import linear_layers, weight_of

transformers = pytest.importorskip("transformers")
tokenizers = pytest.importorskip("tokenizers")

ROOT = pathlib.Path(__file__).parents[2]

TOKENS = torch.randint(0, 128, (18, 10), generator=torch.Generator().manual_seed(0))


def llama(tied: bool = False, seed: int = 0):
    torch.manual_seed(seed)
    return transformers.LlamaForCausalLM(
        transformers.LlamaConfig(
            vocab_size=128, hidden_size=32, intermediate_size=64, num_hidden_layers=1, num_attention_heads=2,
            max_position_embeddings=64, tie_word_embeddings=tied, bos_token_id=0, eos_token_id=1,
        )
    ).eval()  # fmt: skip


def gpt2(seed: int = 0):
    """Conv1D layers with biases, and an output head that is tied to the embedding."""
    torch.manual_seed(seed)
    config = transformers.GPT2Config(
        vocab_size=128, n_embd=32, n_layer=1, n_head=2, n_positions=64, bos_token_id=0, eos_token_id=1
    )
    model = transformers.GPT2LMHeadModel(config).eval()
    for name, parameter in model.named_parameters():
        if name.endswith("bias"):
            torch.nn.init.normal_(parameter)
    return model


def logits(model):
    with torch.no_grad():
        return model(TOKENS).logits


@pytest.mark.parametrize("make", [llama, gpt2])
@pytest.mark.parametrize("bits", [2, 3, 4, 8])
def test_the_packed_model_computes_with_the_quantized_weights(make, bits):
    """Against the same model with dense weights that hold what the method has answered."""
    model, dense = make(), make()
    answers = {}

    def solve(problem):
        answers[problem.name] = rtn.solve(problem)
        return answers[problem.name]

    names = list(linear_layers(model))
    language_models.quantize_model(solve, model, TOKENS[:2], bits=bits, group_size=32, symmetric=bits != 3)
    assert all(isinstance(model.get_submodule(name), PackedLinear) for name in names)
    for name in names:
        layer = dense.get_submodule(name)
        weight = torch.from_numpy(dequantized(answers[name])).float()
        layer.weight.data = weight if isinstance(layer, torch.nn.Linear) else weight.T.contiguous()
    exact, original = logits(dense), logits(make())
    assert (logits(model) - exact).norm() < 1e-3 * exact.norm()
    assert (logits(model) - exact).norm() < 0.05 * (original - exact).norm()


def test_more_bits_are_nearer_to_the_original_whatever_the_method():
    original = logits(llama())
    for method in (yaqa, gptq):
        models = [method.quantize_model(llama(), TOKENS, bits=bits, group_size=32) for bits in (2, 4, 8)]
        errors = [float((logits(model) - original).norm() / original.norm()) for model in models]
        assert errors[0] > 2 * errors[1] > 8 * errors[2]
        assert errors[2] < 0.02


def test_a_method_gets_its_own_options_and_the_layer_that_the_model_shows():
    model = llama()
    layers = linear_layers(model)
    name = "model.layers.0.mlp.up_proj"
    x, g = observations(model.requires_grad_(False), {name: layers[name]}, list(TOKENS), seed=3)[name]
    problem = LayerProblem.of(name, weight_of(layers[name]), bits=3, group_size=16, inputs=x, gradients=g)
    alone = PackedLinear(yaqa.solve(problem, sketch="A", gate=False), 3)
    yaqa.quantize_model(model, TOKENS, bits=3, group_size=16, seed=3, sketch="A", gate=False)
    assert torch.equal(model.get_submodule(name).packed, alone.packed)
    assert torch.equal(model.get_submodule(name).scales, alone.scales)


@pytest.mark.parametrize(("make", "symmetric"), [(llama, True), (lambda: llama(tied=True), False), (gpt2, True)])
def test_a_saved_model_is_loaded_as_it_was_and_writes_the_same(make, symmetric, tmp_path):
    model = rtn.quantize_model(make(), TOKENS[:2], bits=3, group_size=32, symmetric=symmetric)
    save_model(model, tmp_path / "new")
    loaded = load_model(tmp_path / "new")
    assert torch.equal(logits(loaded), logits(model))
    written = [one.generate(TOKENS[:1, :4], max_new_tokens=5, do_sample=False) for one in (model, loaded)]
    assert torch.equal(*written)
    assert written[0].shape[1] > 4


def test_a_file_is_as_small_as_its_codes(tmp_path):
    layer = torch.nn.Linear(256, 512, bias=False)
    problem = LayerProblem.of("up", weight_of(layer), bits=4, group_size=64, input_hessian=torch.eye(256))
    packed = PackedLinear(rtn.solve(problem), 4)
    size = sum(tensor.nbytes for tensor in packed.state_dict().values())
    assert size == 512 * 256 // 2 + 4 * 512 * 4 + 4  # codes, scales, one zero


def test_tied_layers_and_heads_stay_as_they_are():
    model = gpt2()
    yaqa.quantize_model(model, TOKENS, bits=4, group_size=32)
    assert model.lm_head.weight is model.transformer.wte.weight
    assert type(model.lm_head) is torch.nn.Linear
    untied = yaqa.quantize_model(llama(), TOKENS, bits=4, group_size=32, skip=["model.layers.0.mlp.down_proj"])
    assert type(untied.lm_head) is type(untied.model.layers[0].mlp.down_proj) is torch.nn.Linear
    assert isinstance(untied.model.layers[0].mlp.up_proj, PackedLinear)


def test_padding_changes_nothing_on_either_side():
    answers = []
    for left, right in ((0, 0), (3, 0), (0, 4)):
        padded = torch.nn.functional.pad(TOKENS[:6], (left, right), value=77)
        mask = torch.zeros_like(padded)
        mask[:, left : left + 10] = 1
        model = gptq.quantize_model(llama(), padded, bits=3, group_size=32, mask=mask)
        answers.append(model.model.layers[0].mlp.down_proj.packed)
    assert torch.equal(answers[0], answers[1])
    assert torch.equal(answers[0], answers[2])


def test_recorded_gradients_are_those_of_the_weights():
    model = llama()
    name = "model.layers.0.self_attn.v_proj"
    layer = model.get_submodule(name)
    model.requires_grad_(False)
    x, g = observations(model, {name: layer}, [TOKENS[0], TOKENS[1, :6]], seed=5)[name]
    assert x.shape == (2, 10, 32)
    assert not x[1, 6:].any()
    generator = torch.Generator().manual_seed(5)
    layer.weight.requires_grad_(True)
    for s, tokens in enumerate((TOKENS[0], TOKENS[1, :6])):
        layer.weight.grad = None
        out = model(tokens[None]).logits[0]
        drawn = torch.multinomial(out.detach().softmax(dim=1), 1, generator=generator)[:, 0]
        torch.nn.functional.cross_entropy(out, drawn, reduction="sum").backward()
        assert torch.allclose(g[s].T @ x[s], layer.weight.grad, atol=1e-5)


def test_layers_are_recorded_in_as_many_passes_as_memory_allows():
    model = llama()
    layers = linear_layers(model)
    shapes = {name: tuple(weight_of(layer).shape) for name, layer in layers.items()}
    one = passes(shapes, TOKENS.numel(), 2**40)
    assert one == [list(layers)]
    samples = 8 * TOKENS.numel() * 96
    rounding = 4 * (4 * (32**2 + 64**2) + 6 * 32 * 64)
    several = passes(shapes, TOKENS.numel(), samples + rounding)
    assert len(several) > 2
    assert [name for names in several for name in names] == list(layers)
    whole, parts = (
        rtn.quantize_model(llama(), TOKENS, bits=4, group_size=32, memory=memory)
        for memory in (2**40, samples + rounding)
    )
    assert torch.equal(logits(whole), logits(parts))


def broken():
    model = llama()
    model.model.layers[0].mlp.up_proj.weight.data[3, 4] = math.nan
    return model


def with_an_expert_that_nobody_asks():
    model = llama()
    model.model.layers[0].mlp.expert = torch.nn.Linear(32, 32)
    return model


@pytest.mark.parametrize(
    ("make", "options", "words"),
    [
        (llama, {"group_size": 48}, r"group size 48 does not divide .*self_attn.q_proj \(32\), .* 2 more; divisors of 32 fit"),
        (llama, {"bits": 5}, "codes of 5 bits cannot be packed; there are layouts for 2, 3, 4, 8 bits"),
        (llama, {"skip": ["nobody"]}, "there is no linear layer called nobody; there are: model.layers.0"),
        (llama, {"mask": torch.ones(18, 9)}, r"mask has shape \(18, 9\), calibration \(18, 10\)"),
        (llama, {"mask": torch.zeros(18, 10)}, "no sequence of two tokens or more; give more text"),
        (llama, {"calibration": torch.zeros(0, 10, dtype=torch.int64)}, "no sequence of two tokens or more"),
        (llama, {"calibration": TOKENS.float()}, r"calibration tokens are torch.float32 of shape \(18, 10\); give int64"),
        (llama, {"calibration": TOKENS + 100}, "tokens of 1[0-9][0-9] to 2[0-9][0-9], the model knows 0 to 127"),
        (llama, {"calibration": "text.txt"}, "text files need a tokenizer"),
        (llama, {"memory": 1000}, r"gate_proj \(64, 32\) needs 0.000251 GiB beside the model, .* are free: give fewer"),
        (broken, {}, r"mlp.up_proj: its weight holds NaN or infinity; the model was broken"),
        (with_an_expert_that_nobody_asks, {}, r"calibration has not reached model.layers.0.mlp.expert \(experts that no token"),
    ],
)  # fmt: skip
def test_what_cannot_be_quantized_is_refused_before_any_layer_is(make, options, words):
    def solve(problem):
        raise AssertionError("work was done")

    model = make()
    options = {"calibration": TOKENS, "bits": 4, "group_size": 32} | options
    with pytest.raises(BadInput, match=words):
        language_models.quantize_model(solve, model, options.pop("calibration"), **options)
    assert not any(isinstance(layer, PackedLinear) for layer in model.modules())


def in_transformers(problem):
    """The built-in model as a Llama of transformers."""
    shape = problem.architecture
    model = transformers.LlamaForCausalLM(
        transformers.LlamaConfig(
            vocab_size=256, hidden_size=shape.width, intermediate_size=shape.hidden, num_hidden_layers=shape.blocks,
            num_attention_heads=shape.heads, rms_norm_eps=1e-6, rope_theta=1e4, bos_token_id=0, eos_token_id=1,
        )
    )  # fmt: skip
    parts = problem.parts()
    names = {"embedding": "model.embed_tokens.weight", "final_norm": "model.norm.weight", "head": "lm_head.weight"}
    for b in range(shape.blocks):
        block = f"model.layers.{b}"
        names |= {f"block{b}.{part}": f"{block}.self_attn.{part}_proj.weight" for part in "qkvo"}
        names |= {f"block{b}.{part}": f"{block}.mlp.{part}_proj.weight" for part in ("gate", "up", "down")}
        names[f"block{b}.attention_norm"] = f"{block}.input_layernorm.weight"
        names[f"block{b}.mlp_norm"] = f"{block}.post_attention_layernorm.weight"
    model.load_state_dict({theirs: parts[mine] for mine, theirs in names.items()})
    return model.eval()


def byte_tokenizer():
    """Of a token per letter of Latin-1, whose number is the byte."""
    letters = {chr(byte): byte for byte in range(256)}
    return transformers.PreTrainedTokenizerFast(
        tokenizer_object=tokenizers.Tokenizer(tokenizers.models.BPE(vocab=letters, merges=[]))
    )


class Letters:
    def __call__(self, text, add_special_tokens):
        assert not add_special_tokens
        return {"input_ids": [ord(letter) % 128 for letter in text]}


def test_text_files_are_cut_into_sequences(tmp_path):
    one, other = tmp_path / "one.txt", tmp_path / "other.txt"
    one.write_text("abcdefgh")
    other.write_text("ijk")
    tokens = tokens_of_files([one, other], Letters(), 5)
    assert tokens.tolist() == [[ord(letter) for letter in word] for word in ("abcde", "fghij")]
    assert tokens_of_files(other, Letters(), 5).tolist() == [[ord(letter) for letter in "ijk"]]
    model = rtn.quantize_model(llama(), [one, other], bits=4, group_size=32, tokenizer=Letters(), length=5)
    assert isinstance(model.model.layers[0].mlp.up_proj, PackedLinear)
    other.write_text(" \n")
    with pytest.raises(BadInput, match=r"other.txt: is empty; calibration needs text"):
        tokens_of_files([one, other], Letters(), 5)
    with pytest.raises(BadInput, match=r"none.txt: cannot be read as text"):
        tokens_of_files(tmp_path / "none.txt", Letters(), 5)


def test_folders_that_hold_no_model(tmp_path):
    with pytest.raises(BadInput, match=r"has no packed.safetensors; write one with save_model"):
        load_model(tmp_path)
    with pytest.raises(BadInput, match="has no packed layer; quantize it first"):
        save_model(llama(), tmp_path)
    with pytest.raises(BadInput, match="no causal language model can be loaded from there"):
        yaqa.quantize_model(tmp_path, TOKENS, bits=4)


def test_a_file_of_another_configuration_is_refused(tmp_path):
    save_model(rtn.quantize_model(llama(), TOKENS[:2], bits=4, group_size=32), tmp_path)
    config = tmp_path / "config.json"
    config.write_text(re.sub(r'"num_hidden_layers": 1', '"num_hidden_layers": 2', config.read_text()))
    with pytest.raises(BadInput, match=r"do not fit each other: model\.layers\.1"):
        load_model(tmp_path)


def test_a_model_of_a_folder_is_quantized_with_its_own_weights(tmp_path):
    model = llama()
    model.save_pretrained(tmp_path)
    quantized = [
        rtn.quantize_model(one, TOKENS[:2], bits=4, group_size=32, tokenizer=Letters()) for one in (model, tmp_path)
    ]
    assert torch.equal(*map(logits, quantized))


def test_the_documented_example_runs_on_the_built_in_model(tmp_path, monkeypatch):
    """The Llama of bytes that the tests train in seconds, as a folder of transformers with a tokenizer of bytes."""
    monkeypatch.setenv("BREAKEVEN_CACHE", str(tmp_path / "cache"))
    tiny = trained_model(size="tiny", group_size=32, sequences=8)
    model = in_transformers(tiny)
    with torch.no_grad():
        assert torch.allclose(model(tiny.held_out).logits, tiny.logits(tiny.held_out), atol=1e-3)
    model.save_pretrained(tmp_path / "models/my_llama")
    byte_tokenizer().save_pretrained(tmp_path / "models/my_llama")
    for name in ("notes.txt", "manual.txt"):
        (tmp_path / name).write_bytes(bytes(tiny.calibration.flatten().tolist()).decode("latin-1").encode())
    monkeypatch.chdir(tmp_path)
    page = (ROOT / "docs/QUANTIZATION.md").read_text(encoding="utf-8")
    code = re.search(r"## A model of your own\n.*?```python\n(.*?)```", page, re.S).group(1)
    known = {"prompt": tiny.held_out[:1, :20]}
    exec(compile(code.replace("group_size=64", "group_size=32"), "QUANTIZATION.md", "exec"), known)
    text = known["model"].generate(known["prompt"], max_new_tokens=20, do_sample=False)
    assert text.shape == (1, 40)
    with torch.no_grad():
        before, after = (one(tiny.held_out).logits.log_softmax(dim=2) for one in (model, known["model"]))
    assert float((before.exp() * (before - after)).sum(dim=2).mean()) < 0.05
