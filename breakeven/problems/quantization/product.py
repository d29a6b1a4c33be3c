"""Products of a quantized weight with a few vectors, as a language model needs them for every token that it writes."""

import dataclasses
import typing
from collections.abc import Mapping

import numpy as np
import torch

from breakeven.contract import BadInput
from breakeven.problems import Problem, Solution, Wrong
from breakeven.problems.quantization.grid import QuantizedLayer, as_float64, check_grid, dequantized
from breakeven.problems.quantization.packing import pack, unpack

TORCH_INT4 = (32, 64, 128, 256)
"""Group sizes of torch's own format of 4 bits."""


@dataclasses.dataclass(frozen=True)
class ProductProblem(Problem):
    """A quantized weight Q, (m, n), in several formats of the same codes, and vectors x to multiply: wanted is ``x Q^T``.

    Whoever is asked has the weight in the format that suits it, made before the clock starts, as a model is stored once and used
    for many tokens. Formats of 16 bits are kept as integers; ``view(torch.bfloat16)`` reads them. Floating-point tensors are
    float32 or float64, all alike. `ProductProblem.of` makes all formats.

    Raises `BadInput` for shapes that do not fit, values that are not finite, bits that cannot be packed.
    """

    name: str
    packed: torch.Tensor  # (m, ceil(n / 8) * bits) uint8, see `breakeven.problems.quantization.packing`
    scales: torch.Tensor  # (m, n / group_size)
    zeros: torch.Tensor  # (m, n / group_size)
    weight: torch.Tensor  # (m, n), dequantized
    bfloat16: torch.Tensor  # (m, n) int16, the same in bfloat16
    torch_int4: torch.Tensor  # (m, n / 2) uint8, torch's format for its CPU kernel, or (0, 0) where it has none
    torch_grid: torch.Tensor  # (n / group_size, m, 2) int16, its scales and shifts in bfloat16, or (0, 0, 0)
    x: torch.Tensor  # (b, n)
    bits: int  # 2, 3, 4 or 8
    group_size: int

    def __post_init__(self):
        _check(self)

    def features(self) -> Mapping[str, float | str]:
        m, n = self.weight.shape
        return {
            "name": self.name, "rows": m, "columns": n, "batch": len(self.x), "bits": self.bits,
            "group_size": self.group_size,
        }  # fmt: skip

    def judge(self, solution: "Product") -> dict[str, float]:
        """Unpack, dequantize and multiply in float64.

        - ``relative_error``: ``|y - x Q^T| / |x Q^T|``, norms over all entries; of a product that is 0 the norm of y itself.
        """
        y = solution.y if isinstance(solution, Product) else None
        if not isinstance(y, torch.Tensor) or not y.is_floating_point():
            raise Wrong("the answer must be a Product with a floating-point tensor y")
        m, n = self.weight.shape
        if tuple(y.shape) != (len(self.x), m):
            raise Wrong(f"y has shape {tuple(y.shape)}, not {(len(self.x), m)}")
        codes = torch.from_numpy(unpack(self.packed.cpu().numpy(), self.bits, n))
        exact = as_float64(self.x) @ dequantized(_layer(codes, self.scales, self.zeros)).T
        size = np.linalg.norm(exact)
        return {"relative_error": float(np.linalg.norm(as_float64(y) - exact) / (size if size > 0 else 1.0))}

    @classmethod
    def of(cls, name: str, layer: QuantizedLayer, x: torch.Tensor, *, bits: int, group_size: int) -> typing.Self:
        """Of a layer whose groups are of neighbouring columns and vectors (b, n) in the dtype of its scales."""
        if len(layer.permutation):
            raise BadInput(f"{name}: groups by a permutation of columns; products are of groups of neighbours")
        weight = torch.from_numpy(dequantized(layer)).to(layer.scales.dtype)
        check_grid(name, bits, group_size, False, {name: weight.shape[1]})
        packed = torch.from_numpy(pack(layer.codes.numpy(), bits))
        return cls(
            name, packed, layer.scales, layer.zeros, weight, weight.bfloat16().view(torch.int16),
            *_for_torch(layer, bits, group_size), x, bits, group_size,
        )  # fmt: skip

    @classmethod
    def probes(cls) -> Mapping[str, typing.Self]:
        rng = np.random.default_rng(0)

        def probe(name, m, groups, group_size, bits, batch=1, zero=None):
            codes = torch.from_numpy(rng.integers(0, 2**bits, (m, groups * group_size), dtype=np.uint8))
            scales = torch.from_numpy(rng.random((m, groups)) + 0.1)
            zeros = torch.from_numpy(rng.integers(0, 2**bits, (m, groups)).astype(float))
            if zero is not None:
                zeros[:] = zero
            x = torch.from_numpy(rng.standard_normal((batch, groups * group_size)))
            return cls.of(name, _layer(codes, scales, zeros), x, bits=bits, group_size=group_size)

        probes = [
            probe("four_bits", 32, 4, 64, 4, zero=7.5),
            probe("asymmetric", 48, 8, 32, 4, batch=3),
            probe("two_bits", 9, 6, 64, 2),
            probe("three_bits", 7, 9, 64, 3, zero=3.5),
            probe("eight_bits", 6, 3, 96, 8, batch=2),
            probe("odd_groups", 5, 7, 3, 3),
            probe("many_vectors", 5, 2, 64, 4, batch=20),
            probe("one_row", 1, 2, 128, 4, zero=7.5),
            probe("one_column_of_groups", 4, 9, 1, 2),
        ]
        zero = probe("zeros", 4, 2, 64, 4)
        probes.append(dataclasses.replace(zero, x=torch.zeros_like(zero.x)))
        return {problem.name: problem for problem in probes}


@dataclasses.dataclass(frozen=True)
class Product(Solution):
    """``x Q^T``."""

    y: torch.Tensor  # (b, m)


def _layer(codes: torch.Tensor, scales: torch.Tensor, zeros: torch.Tensor) -> QuantizedLayer:
    return QuantizedLayer(codes, scales, zeros, torch.empty(0, dtype=torch.int64))


def _for_torch(layer: QuantizedLayer, bits: int, group_size: int) -> tuple[torch.Tensor, torch.Tensor]:
    """In torch's own format, ``scale * (code - 8) + shift`` in bfloat16, where it has one for these sizes."""
    make = getattr(torch.ops.aten, "_convert_weight_to_int4pack_for_cpu", None)
    if make is None or bits != 4 or group_size not in TORCH_INT4 or len(layer.codes) % 16:
        return torch.zeros(0, 0, dtype=torch.uint8), torch.zeros(0, 0, 0, dtype=torch.int16)
    grid = torch.stack([layer.scales, layer.scales * (8 - layer.zeros)], dim=2).transpose(0, 1)
    return make(layer.codes.int(), 1), grid.bfloat16().contiguous().view(torch.int16)


def _check(problem: ProductProblem) -> None:
    name = problem.name
    if problem.weight.dim() != 2 or 0 in problem.weight.shape or problem.x.dim() != 2 or not len(problem.x):
        shapes = f"weight {tuple(problem.weight.shape)} and x {tuple(problem.x.shape)}"
        raise BadInput(f"{name}: {shapes}; give (outputs, inputs) and (vectors, inputs)")
    m, n = problem.weight.shape
    check_grid(name, problem.bits, problem.group_size, False, {name: n})
    groups = (m, n // problem.group_size)
    shapes = {
        "packed": (m, -(-n // 8) * problem.bits), "scales": groups, "zeros": groups, "bfloat16": (m, n),
        "x": (len(problem.x), n),
    }  # fmt: skip
    for field, shape in shapes.items():
        found = tuple(getattr(problem, field).shape)
        if found != shape:
            raise BadInput(f"{name}: {field} has shape {found}; it must be {shape}")
    for field, value in problem.tensors().items():
        if value.is_floating_point() and (
            value.dtype != problem.weight.dtype or value.dtype not in (torch.float32, torch.float64)
        ):
            raise BadInput(f"{name}: {field} is {value.dtype}; give float32 or float64, all alike")
        if value.is_floating_point() and not torch.isfinite(value).all():
            raise BadInput(f"{name}: {field} has an entry that is NaN or infinite")
