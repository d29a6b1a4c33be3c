"""Codes on a grid: quantized layers, what they take to store, and the plain grid that reaches all weights."""

import dataclasses
import math
from collections.abc import Mapping

import numpy as np
import torch

from breakeven.contract import BadInput
from breakeven.problems import Solution, Wrong

SCALE_BITS = 16
"""What a scale, or a zero that is no code, takes: half precision, in which all common formats keep them."""


@dataclasses.dataclass(frozen=True)
class QuantizedLayer(Solution):
    """Codes on a grid: ``Q_ij = scales[i, k] * (codes[i, j] - zeros[i, k])`` with ``k = place of j // group_size``.

    The place of a column is itself, or where ``permutation`` has it: groups are runs of ``group_size`` of its entries.
    A group may have the scale 0, and is 0 then.
    """

    codes: torch.Tensor  # (m, n) uint8, less than 2^bits
    scales: torch.Tensor  # (m, n / group_size), not negative
    zeros: torch.Tensor  # (m, n / group_size)
    permutation: torch.Tensor  # (n,) int64, or (0,) where groups are of neighbours

    def claims(self) -> Mapping[str, float | str]:
        return {}


def dequantized(layer: QuantizedLayer) -> np.ndarray:
    """The (m, n) weight of a quantized layer in float64."""
    scales, zeros = (of_columns(layer, part) for part in (layer.scales, layer.zeros))
    return scales * (layer.codes.cpu().numpy() - zeros)


def min_max_grid(weight: np.ndarray, bits: int, group_size: int, symmetric: bool) -> tuple[np.ndarray, np.ndarray]:
    """Scales and zeros, (m, n / group_size) each, that reach each group's smallest and largest weight.

    A symmetric grid has no level at 0 but as many on either side: its zero is ``(2^bits - 1) / 2``. An asymmetric one has
    0 among its levels, and so a range that holds it.
    """
    groups = weight.reshape(len(weight), -1, group_size)
    top = 2**bits - 1
    if symmetric:
        scales = np.abs(groups).max(axis=2) * (2 / top)
        return scales, np.full_like(scales, top / 2)
    low, high = np.minimum(groups.min(axis=2), 0), np.maximum(groups.max(axis=2), 0)
    scales = (high - low) / top
    return scales, np.rint(quotient(-low, scales)).clip(0, top)


def check_group_size(group_size: int, columns: Mapping[str, int]) -> None:
    """Raise `BadInput` where a group size does not divide the number of columns of some layers, and name them."""
    wrong = [f"{name} ({n})" for name, n in columns.items() if not 1 <= group_size <= n or n % group_size]
    if wrong:
        common = math.gcd(*columns.values())
        more = f" and {len(wrong) - 5} more" if len(wrong) > 5 else ""
        raise BadInput(
            f"group size {group_size} does not divide the number of columns of {', '.join(wrong[:5])}{more}; "
            f"divisors of {common} fit every layer"
        )


def check_grid(name: str, bits, group_size, symmetric, columns: Mapping[str, int]) -> None:
    """Raise `BadInput` for bits, a group size or a kind of grid that are none, or that do not fit the layers' columns."""
    for field, value in (("bits", bits), ("group_size", group_size)):
        if isinstance(value, bool) or not isinstance(value, (int, np.integer)):
            raise BadInput(f"{name}: {field} is {value!r}; give a whole number")
    if not isinstance(symmetric, (bool, np.bool_)):
        raise BadInput(f"{name}: symmetric is {symmetric!r}; give True or False")
    if not 1 <= bits <= 8:
        raise BadInput(f"{name}: {bits} bits; codes have 1 to 8")
    check_group_size(group_size, columns)


def check_layer(layer: QuantizedLayer, shape: tuple[int, int], bits: int, group_size: int, symmetric: bool) -> None:
    """Raise `Wrong` for a layer that is no answer to the (m, n) weight of these bits and groups."""
    m, n = shape
    if len(layer.tensors()) != 4:
        raise Wrong("codes, scales, zeros and permutation must be tensors")
    for field, value in layer.tensors().items():
        shapes = {"codes": shape, "permutation": (n if len(layer.permutation) else 0,)}
        expected = shapes.get(field, (m, n // group_size))
        if tuple(value.shape) != expected:
            raise Wrong(f"{field} has shape {tuple(value.shape)}, not {expected}")
        kind = {"codes": torch.uint8, "permutation": torch.int64}.get(field)
        if value.dtype != kind if kind else not value.is_floating_point():
            raise Wrong(f"{field} is {value.dtype}, not {kind or 'floating point'}")
        if value.is_floating_point() and not torch.isfinite(value).all():
            raise Wrong(f"{field} has an entry that is NaN or infinite")
    if int(layer.codes.max()) >= 2**bits:
        raise Wrong(f"a code is {int(layer.codes.max())}, the largest of {bits} bits is {2**bits - 1}")
    if (layer.scales < 0).any():
        raise Wrong("a scale is negative")
    if symmetric and not (layer.zeros == layer.zeros.flatten()[0]).all():
        raise Wrong("zeros differ, where one zero must serve the whole layer")
    columns = torch.arange(n, device=layer.permutation.device)
    if len(layer.permutation) and not torch.equal(layer.permutation.sort().values, columns):
        raise Wrong("permutation does not hold every column once")


def bits_of_grid(bits: int, group_size: int, symmetric: bool) -> float:
    """Per weight, with a scale for every group, and a zero where zeros differ."""
    return bits + (SCALE_BITS + (0 if symmetric else bits)) / group_size


def bits_per_weight(layer: QuantizedLayer, bits: int) -> float:
    """What a layer takes to store, all of it; see `LayerProblem.judge`."""
    zeros = layer.zeros.double()
    of_zeros = SCALE_BITS
    if (zeros == zeros.flatten()[0]).all():
        of_zeros = 0
    elif ((zeros == zeros.round()) & (zeros >= 0) & (zeros < 2**bits)).all():
        of_zeros = bits
    m, n = layer.codes.shape
    of_order = math.ceil(math.log2(n)) / m if len(layer.permutation) and n > 1 else 0.0
    return bits + (SCALE_BITS + of_zeros) / (n // layer.scales.shape[1]) + of_order


def of_columns(layer: QuantizedLayer, part: torch.Tensor) -> np.ndarray:
    """A part of the grid, (m, groups), for every column: (m, n)."""
    n = layer.codes.shape[1]
    group = np.arange(n) // max(1, n // max(1, part.shape[1]))
    if len(layer.permutation):
        group[layer.permutation.cpu().numpy()] = group.copy()
    return as_float64(part)[:, group]


def quotient(values: np.ndarray, steps: np.ndarray) -> np.ndarray:
    """``values / steps``, 0 where a step is."""
    return np.divide(values, steps, out=np.zeros_like(values), where=steps > 0)


def as_float64(tensor: torch.Tensor) -> np.ndarray:
    return tensor.detach().to("cpu", torch.float64).numpy()
