"""Matrices of normal weights, rounded to nearest, with normal vectors: products take as long whatever the values are."""

import numpy as np
import torch

from breakeven.contract import Unsupported, dataset
from breakeven.problems.quantization import ProductProblem, QuantizedLayer, min_max_grid
from breakeven.problems.quantization.packing import BITS


@dataset(title="Quantized matrix")
def quantized_matrix(
    *, rows: int = 1024, columns: int = 1024, batch: int = 1, bits: int = 4, group_size: int = 64, seed: int = 0
) -> ProductProblem:
    """In float32, on symmetric grids.

    Args:
        batch: vectors; group_size: columns that share a scale, 0 for one per row.
    """
    group_size = group_size or columns
    if min(rows, columns, batch, group_size) < 1 or columns % group_size or bits not in BITS:
        raise Unsupported(f"rows={rows} columns={columns} batch={batch} bits={bits} group_size={group_size}: at least one of "
                          f"each, {', '.join(map(str, BITS))} bits, and a group size that divides the columns")  # fmt: skip
    rng = np.random.default_rng([seed, rows, columns])
    weight = rng.standard_normal((rows, columns), dtype=np.float32)
    scales, zeros = min_max_grid(weight, bits, group_size, symmetric=True)
    codes = np.rint(weight.reshape(rows, -1, group_size) / scales[:, :, None] + zeros[:, :, None]).clip(0, 2**bits - 1)
    layer = QuantizedLayer(
        torch.from_numpy(codes.astype(np.uint8).reshape(rows, columns)),
        torch.from_numpy(scales),
        torch.from_numpy(zeros),
        torch.empty(0, dtype=torch.int64),
    )
    x = torch.from_numpy(rng.standard_normal((batch, columns), dtype=np.float32))
    return ProductProblem.of(f"{rows}x{columns}_{bits}bit", layer, x, bits=bits, group_size=group_size)
