"""GPTQ (Frantar et al., ICLR 2023): columns one after the other, each followed by the best change of those not yet rounded.

Published with the inverse Hessian's Cholesky factor R: ``e = (w_j - q_j) / R_jj``, ``w_k -= e R_jk``. Codes are the same by
``J H J = L D L^T``, J the reversal, without an inverse: ``q_j = Q(w_j + sum over earlier k of (w_k - q_k) L_kj)``
(Chee et al., arXiv:2307.13304, theorem 6). So this is LDLQ in another order of the columns.
"""

import torch

from breakeven.contract import adapter
from breakeven.methods.quantization.kernels.factors import DAMPING, columns_by_size, unit_lower
from breakeven.methods.quantization.kernels.model import quantized_model
from breakeven.methods.quantization.kernels.rounding import (
    Grid,
    Rounded,
    grid_of,
    layer,
    one_sided,
    round_block,
    targets,
)
from breakeven.methods.quantization.language_models import quantizer
from breakeven.problems.quantization import LayerProblem, ModelProblem, QuantizedLayer, QuantizedModel


@adapter(
    title="GPTQ",
    paper="arXiv:2210.17323",
    derived="grids clip where the rounding's own loss, the sum of D xi^2, falls by it; the release compares plain errors",
    packages=("numba",),
    variants={
        "first_to_last": {"act_order": False},
        "plain": {"act_order": False, "clip": False},
        "fresh_groups": {"act_order": False, "fresh": True},
    },
)
def solve(
    problem: LayerProblem, *, damping: float = DAMPING, act_order: bool = True, clip: bool = True, fresh: bool = False
) -> QuantizedLayer:
    """Grids are those of neighbouring columns and of the original weights ("static groups"), unless they are fresh.

    Args:
        damping: share of the Hessian's mean diagonal that is added to it; ten and a hundred times that where it is singular.
        act_order: columns whose inputs have the largest second moments come first; without it, first to last.
        clip: grids need not reach the largest weights.
        fresh: a group's grid is made when its first column is reached, of weights that have been changed by then; groups
            must be of neighbours in the order of columns, so not with ``act_order``.

    Raises:
        BadInput: for a Hessian that is indefinite.
        ValueError: for fresh groups in another order.
    """
    if fresh and act_order:
        raise ValueError("fresh groups are of neighbouring columns: say act_order=False")
    order = columns_by_size(problem.input_hessian)
    if not act_order:
        order = torch.arange(len(order)).flip(0)  # the last one of an order is rounded first
    lower, pivots = unit_lower(problem.input_hessian[order][:, order], damping)
    importance = torch.empty_like(pivots)
    importance[order] = pivots
    if fresh:
        return _fresh(problem, lower, importance if clip else None)
    grid = grid_of(problem, importance if clip else None)
    in_order = grid._replace(group=grid.group[order])
    codes = torch.empty(problem.weight.shape, dtype=torch.uint8)
    codes[:, order] = one_sided(problem.weight[:, order], lower, in_order).codes
    return layer(codes, grid)


def _fresh(problem: LayerProblem, lower: torch.Tensor, importance: torch.Tensor | None) -> QuantizedLayer:
    """First to last, a group at a time: its grid is that of the group's best weights, given what has been rounded.

    These are ``W_G + E_D L_DG L_GG^-1`` with D the columns that are done: targets hold no more than what each column needs in
    its turn, when the group's others before it have been rounded too.
    """
    m, n = problem.weight.shape
    size = problem.group_size
    weight = problem.weight.flip(1)
    done = Rounded(torch.empty(m, n, dtype=torch.uint8), weight.new_empty(m, n))
    scales, zeros = problem.weight.new_empty(2, m, n // size)
    group = torch.arange(n).flip(0) // size
    for stop in range(n, 0, -size):
        start = stop - size
        target = targets(weight, done, lower, start, stop)
        some = None if importance is None else importance[n - stop : n - start].contiguous()
        k = (n - stop) // size
        before, within = weight[:, start:stop], lower[start:stop, start:stop]
        change = torch.linalg.solve_triangular(within, target - before, upper=False, left=False, unitriangular=True)
        grid = grid_of(problem, some, (before + change).flip(1))
        scales[:, k : k + 1], zeros[:, k : k + 1] = grid.scales, grid.zeros
        round_block(weight, target, lower, Grid(scales, zeros, group, grid.top), start, done)
    return layer(done.codes.flip(1), Grid(scales, zeros, group, grid.top))


quantize_model = quantizer(solve)
"""A whole language model of transformers, with packed codes: see `language_models.quantize_model`."""


@adapter(title="GPTQ", paper="arXiv:2210.17323", packages=("numba",), variants={"sequential": {"sequential": True}})
def solve_model(problem: ModelProblem, *, sequential: bool = False) -> QuantizedModel:
    """Every layer of a model.

    Args:
        sequential: with the inputs that the quantized blocks before it produce, as published, instead of the original ones.
    """
    return quantized_model(problem, solve, sequential=sequential)
