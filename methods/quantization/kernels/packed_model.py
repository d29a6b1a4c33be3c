"""A user's own language model with packed codes: quantized by any method for single layers, saved, loaded, and run on a CPU.

Any causal language model of transformers will do. Its ``Linear`` layers, and GPT-2's ``Conv1D``, which hold weights transposed,
become `PackedLinear` ones; embeddings, whatever is tied to them, the output head and norms stay as they are.
"""

import functools
import json
import os
import pathlib
from collections.abc import Callable, Iterable, Mapping, Sequence

import psutil
import safetensors
import safetensors.torch
import torch

from breakeven.contract import BadInput
from breakeven.methods.quantization.kernels import packing
from breakeven.problems.quantization import LayerProblem, QuantizedLayer, check_group_size
from breakeven.problems.quantization.packing import tile_columns

FILE = "packed.safetensors"

Solve = Callable[[LayerProblem], QuantizedLayer]


class PackedLinear(torch.nn.Module):
    """``y = Q x + bias`` with a packed Q; for inference, on a CPU.

    Codes take their bits, and a scale float32 for each group of a row. A zero that all groups share is kept once, and zeros that
    are codes as bytes.
    """

    def __init__(self, layer: QuantizedLayer, bits: int, bias: torch.Tensor | None = None):
        super().__init__()
        if len(layer.permutation):
            raise BadInput(
                "groups by a permutation of columns cannot be packed; choose a method with groups of neighbours"
            )
        self.bits, self.shape = bits, tuple(layer.codes.shape)
        zeros = layer.zeros.float()
        if (zeros == zeros.flatten()[0]).all():
            zeros = zeros[:1, :1]
        elif ((zeros == zeros.round()) & (zeros >= 0) & (zeros < 256)).all():
            zeros = zeros.byte()
        self.register_buffer("packed", torch.from_numpy(packing.pack(layer.codes.numpy(), bits)))
        self.register_buffer("scales", layer.scales.float().contiguous())
        self.register_buffer("zeros", zeros.contiguous())
        self.register_buffer("bias", None if bias is None else bias.detach().float())
        self._zeros = None

    @classmethod
    def empty(cls, bits: int, shape: Sequence[int], groups: int, zeros: torch.Tensor, bias: bool) -> "PackedLinear":
        """A layer to be filled by `load_state_dict`; ``zeros`` has the shape and dtype that its own will have."""
        codes = torch.zeros(tuple(shape), dtype=torch.uint8)
        none = torch.empty(0, dtype=torch.int64)
        layer = QuantizedLayer(codes, torch.zeros(shape[0], groups), torch.zeros(shape[0], groups), none)
        made = cls(layer, bits, torch.zeros(shape[0]) if bias else None)
        made.zeros = torch.zeros_like(zeros)
        return made

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if self._zeros is None:
            self._zeros = self.zeros.float().expand(self.scales.shape).contiguous().numpy()
        flat = x.detach().reshape(-1, self.shape[1]).float().contiguous()
        y = torch.from_numpy(
            packing.product(self.packed.numpy(), self.bits, self.scales.numpy(), self._zeros, flat.numpy())
        )
        if self.bias is not None:
            y += self.bias
        return y.view(*x.shape[:-1], self.shape[0]).to(x.dtype)

    def extra_repr(self) -> str:
        return (
            f"{self.shape[1]} -> {self.shape[0]}, {self.bits} bits, groups of {self.shape[1] // self.scales.shape[1]}"
        )


def quantizer(solve: Solve) -> Callable:
    """`quantize_model` by one method, whose options may be given along."""

    @functools.wraps(quantize_model, assigned=("__doc__",))
    def by_method(model, calibration, **options):
        known = quantize_model.__kwdefaults__
        of_method = {name: options.pop(name) for name in list(options) if name not in known and name != "bits"}
        return quantize_model(functools.partial(solve, **of_method), model, calibration, **options)

    return by_method


def quantize_model(
    solve: Solve,
    model,
    calibration,
    *,
    bits: int,
    group_size: int = 64,
    symmetric: bool = True,
    mask=None,
    skip: Iterable[str] = (),
    tokenizer=None,
    length: int = 512,
    seed: int = 0,
    memory: int | None = None,
) -> torch.nn.Module:
    """Replace the linear layers of a causal language model by packed ones, in place; returns the model, in evaluation mode.

    Args:
        solve: a method for single layers; ``from breakeven.methods.quantization.yaqa import quantize_model`` has it filled in,
            and passes options that it does not know on to the method.
        model: one of transformers, or the id or folder of one.
        calibration: tokens, (s, t) int64; or a text file or several, whose text is cut into sequences of ``length`` tokens.
        bits: 2, 3, 4 or 8.
        group_size: columns that share a scale; it must divide the inputs of every layer.
        mask: (s, t), what is a token and what is padding: padding is not fed to the model at all.
        skip: names of layers to be left as they are.
        tokenizer: for text files; the model's own where that is an id or a folder.
        seed: of the tokens that are drawn from the model, whose gradients are the Fisher information.
        memory: bytes that may be used beside the model; those that are free where it is not given.

    Raises:
        BadInput: before any work for a group size that does not fit, weights that are not finite, no tokens, and too little
            memory; after one pass over the text for layers that it has not reached.
    """
    loaded, tokenizer = _loaded(model, tokenizer)
    sequences = _sequences(loaded, calibration, mask, tokenizer, length)
    layers = linear_layers(loaded, skip)
    tile_columns(bits)
    check_group_size(group_size, {name: weight_of(layer).shape[1] for name, layer in layers.items()})
    for name, layer in layers.items():
        if not torch.isfinite(layer.weight).all():
            raise BadInput(f"{name}: its weight holds NaN or infinity; the model was broken before it was quantized")
    parts = _passes(layers, sequences, psutil.virtual_memory().available if memory is None else memory)
    loaded.eval().requires_grad_(False)
    _check_reached(loaded, layers, sequences)
    packed = {}
    for names in parts:
        samples = recorded(loaded, {name: layers[name] for name in names}, sequences, seed)
        for name in names:
            x, g = samples.pop(name)
            problem = LayerProblem.of(
                name,
                weight_of(layers[name]),
                bits=bits,
                group_size=group_size,
                symmetric=symmetric,
                inputs=x,
                gradients=g,
            )
            packed[name] = PackedLinear(solve(problem), bits, layers[name].bias)
    for name, layer in packed.items():
        loaded.set_submodule(name, layer)
    return loaded


def save_model(model: torch.nn.Module, folder: str | os.PathLike) -> None:
    """Write a quantized model: its configuration, and all tensors as safetensors, weights as packed codes."""
    folder = pathlib.Path(folder)
    layers = {name: one for name, one in model.named_modules() if isinstance(one, PackedLinear)}
    if not layers:
        raise BadInput("the model has no packed layer; quantize it first")
    facts = {name: {"bits": layer.bits, "shape": layer.shape} for name, layer in layers.items()}
    folder.mkdir(parents=True, exist_ok=True)
    model.config.save_pretrained(folder)
    if getattr(model, "generation_config", None) is not None:
        model.generation_config.save_pretrained(folder)
    seen, tensors = set(), {}
    for name, tensor in model.state_dict().items():
        if tensor.data_ptr() not in seen or not tensor.numel():  # tied ones are tied again when it is loaded
            seen.add(tensor.data_ptr())
            tensors[name] = tensor.contiguous()
    safetensors.torch.save_file(tensors, folder / FILE, metadata={"breakeven": json.dumps(facts)})


def load_model(folder: str | os.PathLike) -> torch.nn.Module:
    """A model that `save_model` has written, in evaluation mode."""
    transformers = _transformers()
    file = pathlib.Path(folder) / FILE
    if not file.exists():
        raise BadInput(f"{folder} has no {FILE}; write one with save_model")
    with safetensors.safe_open(file, "pt") as opened:
        facts = json.loads((opened.metadata() or {}).get("breakeven", "null"))
        tensors = {name: opened.get_tensor(name) for name in opened.keys()}  # noqa: SIM118, it is no mapping
    if facts is None:
        raise BadInput(f"{file} was not written by save_model: it does not say how its codes are packed")
    config = transformers.AutoConfig.from_pretrained(folder)
    model = transformers.AutoModelForCausalLM.from_config(config)
    for name, fact in facts.items():
        of_layer = {part: tensors.get(f"{name}.{part}") for part in ("scales", "zeros", "bias")}
        groups, bias = of_layer["scales"].shape[1], of_layer["bias"] is not None
        model.set_submodule(name, PackedLinear.empty(fact["bits"], fact["shape"], groups, of_layer["zeros"], bias))
    missing, unexpected = model.load_state_dict(tensors, strict=False)
    model.tie_weights()
    tied = {name for names in _shared(model) for name in names if set(names) & set(tensors)}
    if unexpected or set(missing) - tied:
        wrong = sorted({*unexpected, *(set(missing) - tied)})
        raise BadInput(f"{file} and the configuration beside it do not fit each other: {', '.join(wrong[:5])}")
    if (pathlib.Path(folder) / "generation_config.json").exists():
        model.generation_config = transformers.GenerationConfig.from_pretrained(folder)
    return model.eval().requires_grad_(False)


def linear_layers(model: torch.nn.Module, skip: Iterable[str] = ()) -> dict[str, torch.nn.Module]:
    """What is quantized, by name: all layers but the output head, those that share their weight, and those to be skipped."""
    skip = set(skip)
    found = {name: one for name, one in model.named_modules() if _is_linear(one)}
    if unknown := sorted(skip - set(found)):
        raise BadInput(
            f"there is no linear layer called {', '.join(unknown)}; there are: {', '.join(list(found)[:9])}, ..."
        )
    head = model.get_output_embeddings() if hasattr(model, "get_output_embeddings") else None
    shared = {name for names in _shared(model) for name in names}
    layers = {
        name: one
        for name, one in found.items()
        if one is not head and f"{name}.weight" not in shared and name not in skip
    }
    if not layers:
        raise BadInput("the model has no linear layer to be quantized")
    return layers


def weight_of(layer: torch.nn.Module) -> torch.Tensor:
    """(outputs, inputs) float32."""
    weight = layer.weight.detach().float()
    return weight.contiguous() if isinstance(layer, torch.nn.Linear) else weight.T.contiguous()


def recorded(
    model: torch.nn.Module, layers: Mapping[str, torch.nn.Module], sequences: list[torch.Tensor], seed: int
) -> dict[str, tuple[torch.Tensor, torch.Tensor]]:
    """Inputs (s, t, n) of layers and gradients (s, t, m) at their outputs, of the log-likelihood of tokens that the model draws.

    One sequence at a time, so that what an expert sees of it is its own; short ones end in zeros.
    """
    kept = {name: ([], []) for name in layers}
    generator = torch.Generator().manual_seed(seed)
    for tokens in sequences:
        seen = {name: [] for name in layers}

        def record(name, arguments, output, seen=seen):
            if not output.requires_grad:
                output.requires_grad_()
            output.retain_grad()
            seen[name].append((arguments[0].detach(), output))

        hooks = [
            layer.register_forward_hook(lambda _, arguments, output, name=name: record(name, arguments, output))
            for name, layer in layers.items()
        ]
        try:
            with torch.enable_grad():
                logits = model(input_ids=tokens[None], use_cache=False).logits[0].float()
                drawn = torch.multinomial(logits.detach().softmax(dim=1), 1, generator=generator)
                torch.nn.functional.cross_entropy(logits, drawn[:, 0], reduction="sum").backward()
        finally:
            for hook in hooks:
                hook.remove()
        for name, calls in seen.items():
            m, n = weight_of(layers[name]).shape
            kept[name][0].append(torch.cat([torch.zeros(0, n), *(x.reshape(-1, n).float() for x, _ in calls)]))
            gradients = [torch.zeros_like(y) if y.grad is None else y.grad for _, y in calls]
            kept[name][1].append(torch.cat([torch.zeros(0, m), *(g.reshape(-1, m).float() for g in gradients)]))
    return {name: tuple(torch.nn.utils.rnn.pad_sequence(part, True) for part in both) for name, both in kept.items()}


def _is_linear(layer: torch.nn.Module) -> bool:
    # By its name: GPT-2's class is transformers', which need not be there.
    return isinstance(layer, torch.nn.Linear) or type(layer).__name__ == "Conv1D"


def _shared(model: torch.nn.Module) -> list[list[str]]:
    """Names of parameters that are one."""
    names = {}
    for name, parameter in model.named_parameters(remove_duplicate=False):
        names.setdefault(id(parameter), []).append(name)
    return [some for some in names.values() if len(some) > 1]


def _transformers():
    try:
        import transformers
    except ImportError:
        raise BadInput("transformers is not installed: pip install 'breakeven[models]'") from None
    return transformers


def _loaded(model, tokenizer) -> tuple[torch.nn.Module, object]:
    if isinstance(model, torch.nn.Module):
        return model, tokenizer
    transformers = _transformers()
    try:
        loaded = transformers.AutoModelForCausalLM.from_pretrained(model, dtype=torch.float32)
        tokenizer = tokenizer or transformers.AutoTokenizer.from_pretrained(model)
    except (OSError, ValueError) as error:
        raise BadInput(
            f"{model}: no causal language model can be loaded from there: {str(error).splitlines()[0]}"
        ) from error
    return loaded, tokenizer


def _sequences(model: torch.nn.Module, calibration, mask, tokenizer, length: int) -> list[torch.Tensor]:
    """Tokens of every sequence, without padding; those of one token or none tell nothing, and are left out."""
    if not isinstance(calibration, torch.Tensor):
        calibration = tokens_of_files(calibration, tokenizer, length)
    if calibration.dim() != 2 or calibration.dtype != torch.int64:
        raise BadInput(
            f"calibration tokens are {calibration.dtype} of shape {tuple(calibration.shape)}; give int64, (sequences, tokens)"
        )
    kept = torch.ones_like(calibration).bool() if mask is None else torch.as_tensor(mask).bool()
    if kept.shape != calibration.shape:
        raise BadInput(
            f"mask has shape {tuple(kept.shape)}, calibration {tuple(calibration.shape)}; give one entry per token"
        )
    sequences = [tokens[some] for tokens, some in zip(calibration, kept, strict=True)]
    sequences = [tokens for tokens in sequences if len(tokens) > 1]
    if not sequences:
        raise BadInput("calibration holds no sequence of two tokens or more; give more text")
    vocabulary = model.get_input_embeddings().num_embeddings
    least, largest = (int(f(torch.cat(sequences))) for f in (torch.min, torch.max))
    if least < 0 or largest >= vocabulary:
        raise BadInput(
            f"calibration holds tokens of {least} to {largest}, the model knows 0 to {vocabulary - 1}: whose are they?"
        )
    return sequences


def tokens_of_files(files, tokenizer, length: int) -> torch.Tensor:
    """The text of one or several files as (s, length) tokens; what is left over at the end is dropped, unless it is all."""
    files = [files] if isinstance(files, str | os.PathLike) else list(files)
    if tokenizer is None:
        raise BadInput("text files need a tokenizer: give tokenizer=, or the model by its id or folder")
    tokens = []
    for file in files:
        try:
            text = pathlib.Path(file).read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise BadInput(f"{file}: cannot be read as text: {error}") from None
        if not text.strip():
            raise BadInput(f"{file}: is empty; calibration needs text")
        tokens.extend(tokenizer(text, add_special_tokens=False)["input_ids"])
    tokens = torch.tensor(tokens, dtype=torch.int64)
    return tokens[None] if len(tokens) < length else tokens[: len(tokens) // length * length].view(-1, length)


def _passes(layers: Mapping[str, torch.nn.Module], sequences: list[torch.Tensor], memory: int) -> list[list[str]]:
    """Layers that are recorded together: as many as fit into half of the memory beside what rounding the largest takes."""
    tokens = len(sequences) * max(map(len, sequences))
    shapes = {name: weight_of(layer).shape for name, layer in layers.items()}
    samples = {
        name: 8 * tokens * (m + n) for name, (m, n) in shapes.items()
    }  # in float32, and once more while it is padded
    rounding = {name: 4 * (4 * (m * m + n * n) + 6 * m * n) for name, (m, n) in shapes.items()}
    largest = max(layers, key=lambda name: samples[name] + rounding[name])
    needed = samples[largest] + rounding[largest]
    if needed > memory:
        gib = [f"{size / 2**30:.3g} GiB" for size in (needed, samples[largest], memory)]
        raise BadInput(
            f"{largest} {tuple(shapes[largest])} needs {gib[0]} beside the model, {gib[1]} of them for {tokens} tokens of "
            f"calibration, and {gib[2]} are free: give fewer or shorter sequences, or leave it out by skip="
        )
    passes, room = [[]], 0
    for name, size in samples.items():
        if passes[-1] and room + size > max(samples[largest], (memory - needed) / 2):
            passes.append([])
            room = 0
        passes[-1].append(name)
        room += size
    return passes


def _check_reached(
    model: torch.nn.Module, layers: Mapping[str, torch.nn.Module], sequences: list[torch.Tensor]
) -> None:
    reached = set()
    hooks = [
        layer.register_forward_hook(
            lambda _, arguments, __, name=name: reached.add(name) if arguments[0].any() else None
        )
        for name, layer in layers.items()
    ]
    try:
        with torch.no_grad():
            for tokens in sequences:
                model(input_ids=tokens[None], use_cache=False)
                if len(reached) == len(layers):
                    break
    finally:
        for hook in hooks:
            hook.remove()
    if missed := [name for name in layers if name not in reached]:
        more = f" and {len(missed) - 5} more" if len(missed) > 5 else ""
        raise BadInput(
            f"calibration has not reached {', '.join(missed[:5])}{more} (experts that no token was sent to?): calibrate on more "
            "text, or leave them as they are by skip="
        )
