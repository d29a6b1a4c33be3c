"""Linear layers with packed codes, and models that have them: run on a CPU, saved as safetensors, and loaded."""

import json
import os
import pathlib
from collections.abc import Sequence

import safetensors
import safetensors.torch
import torch

from breakeven.contract import BadInput
from breakeven.methods.quantization.kernels import packing
from breakeven.problems.quantization import QuantizedLayer
from breakeven.problems.quantization.causal_lm import import_transformers, shared_parameters

FILE = "packed.safetensors"


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
    transformers = import_transformers()
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
    tied = {name for names in shared_parameters(model) for name in names if set(names) & set(tensors)}
    if unexpected or set(missing) - tied:
        wrong = sorted({*unexpected, *(set(missing) - tied)})
        raise BadInput(f"{file} and the configuration beside it do not fit each other: {', '.join(wrong[:5])}")
    if (pathlib.Path(folder) / "generation_config.json").exists():
        model.generation_config = transformers.GenerationConfig.from_pretrained(folder)
    return model.eval().requires_grad_(False)
