"""A user's own language model, quantized by any method for single layers: packed, saved, loaded, and run on a CPU.

Any causal language model of transformers will do. Its ``Linear`` layers, and GPT-2's ``Conv1D``, which hold weights transposed,
become `PackedLinear` ones; embeddings, whatever is tied to them, the output head and norms stay as they are.
"""

import functools
from collections.abc import Callable, Iterable, Mapping

import psutil
import torch

from breakeven.contract import BadInput
from breakeven.methods.quantization.language_models.calibration import check_reached, sequences_of
from breakeven.methods.quantization.language_models.packed import PackedLinear, load_model, save_model
from breakeven.problems.quantization import LayerProblem, QuantizedLayer, check_group_size
from breakeven.problems.quantization.calibration import passes
from breakeven.problems.quantization.causal_lm import linear_layers, loaded_model, observed, weight_of
from breakeven.problems.quantization.model import recorded
from breakeven.problems.quantization.packing import tile_columns

__all__ = ["PackedLinear", "load_model", "quantize_model", "quantizer", "save_model"]

Solve = Callable[[LayerProblem], QuantizedLayer]


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
    loaded, tokenizer = loaded_model(model, tokenizer)
    sequences = sequences_of(loaded, calibration, mask, tokenizer, length)
    layers = linear_layers(loaded, skip)
    tile_columns(bits)
    shapes = {name: tuple(weight_of(layer).shape) for name, layer in layers.items()}
    check_group_size(group_size, {name: n for name, (_, n) in shapes.items()})
    for name, layer in layers.items():
        if not torch.isfinite(layer.weight).all():
            raise BadInput(f"{name}: its weight holds NaN or infinity; the model was broken before it was quantized")
    tokens = len(sequences) * max(map(len, sequences))
    parts = passes(shapes, tokens, psutil.virtual_memory().available if memory is None else memory)
    loaded.eval().requires_grad_(False)
    check_reached(loaded, layers, sequences)
    packed = {}
    for names in parts:
        samples = observations(loaded, {name: layers[name] for name in names}, sequences, seed)
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


def observations(
    model: torch.nn.Module, layers: Mapping[str, torch.nn.Module], sequences: Iterable[torch.Tensor], seed: int
) -> dict[str, tuple[torch.Tensor, torch.Tensor]]:
    """What layers see of each sequence, and the gradients at their outputs; see `recorded`."""

    def forward(tokens, observe):
        with observed(layers, observe):
            return model(input_ids=tokens, use_cache=False).logits.float()

    shapes = {name: tuple(weight_of(layer).shape) for name, layer in layers.items()}
    return recorded(forward, shapes, (tokens[None] for tokens in sequences), seed)
