"""Rounding with feedback, block by block: matrix products between blocks, `cpu`'s loops within them.

A **grid** is what codes stand for: scales and zeros of every row's groups of columns.
"""

import typing

import numpy as np
import torch

from breakeven.methods.quantization.kernels import cpu
from breakeven.methods.quantization.kernels.factors import columns_by_size, unit_lower
from breakeven.problems.quantization import LayerProblem, QuantizedLayer

BLOCK = 128  # columns between two matrix products
WIDE, TILE = (
    256,
    128,
)  # columns and rows of a tile of the two-sided rounding, between two products that all threads share
SHRINKS = np.arange(100, 20, -4) / 100  # shares of a group's range that are tried as its grid's


class Grid(typing.NamedTuple):
    """``Q_ij = scales[i, group[j]] * (code_ij - zeros[i, group[j]])`` with codes of 0 to ``top``."""

    scales: torch.Tensor  # (m, groups)
    zeros: torch.Tensor  # (m, groups)
    group: torch.Tensor  # (n,) int64
    top: float


class Rounded(typing.NamedTuple):
    codes: torch.Tensor  # (m, n) uint8
    error: torch.Tensor  # (m, n), W - Q


def grid_of(problem: LayerProblem, importance: torch.Tensor | None = None, weight: torch.Tensor | None = None) -> Grid:
    """The grid of least ``sum of importance_j (Q(w_j) - w_j)^2`` in every group, of those that clip its largest weights.

    With LDLQ's diagonal D as the importance this is its loss, were targets spread as the weights are: ``tr(E H E^T)`` is
    exactly ``sum of D_j xi_j^2`` over the residuals xi of its rounding. Without importance, grids reach all weights.
    """
    weight = problem.weight if weight is None else weight
    m, n = weight.shape
    kind = weight.numpy().dtype.type
    scales, zeros = weight.new_empty(2, m, n // problem.group_size)
    shrinks = SHRINKS[:1] if importance is None else SHRINKS
    cpu.clip_search(
        weight.numpy(), np.ones(n, kind) if importance is None else importance.numpy(), problem.group_size,
        kind(2**problem.bits - 1), problem.symmetric, shrinks.astype(kind), scales.numpy(), zeros.numpy(),
    )  # fmt: skip
    return Grid(scales, zeros, torch.arange(n) // problem.group_size, 2**problem.bits - 1)


def layer(codes: torch.Tensor, grid: Grid) -> QuantizedLayer:
    """The answer, with groups of neighbouring columns."""
    return QuantizedLayer(codes, grid.scales, grid.zeros, torch.empty(0, dtype=torch.int64))


def to_nearest(weight: torch.Tensor, grid: Grid) -> torch.Tensor:
    """The nearest codes, (m, n)."""
    codes = torch.empty(weight.shape, dtype=torch.uint8)
    kind = weight.numpy().dtype.type
    cpu.round_to_nearest(
        weight.numpy(), grid.scales.numpy(), grid.zeros.numpy(), grid.group.numpy(), kind(grid.top), codes.numpy()
    )
    return codes


def one_sided(weight: torch.Tensor, lower: torch.Tensor, grid: Grid, *, block: int = BLOCK) -> Rounded:
    """LDLQ (Chee et al., arXiv:2307.13304), last column to first:
    ``q_j = Q(w_j + sum over k > j of (w_k - q_k) L_kj)``, which minimises ``tr(E H E^T)`` greedily for ``H = L D L^T``.

    In any other order of the columns, all arguments are in that order. What the block size is does not change the sums, but
    for their rounding.
    """
    m, n = weight.shape
    done = Rounded(torch.empty(m, n, dtype=torch.uint8), weight.new_empty(m, n))
    for stop in range(n, 0, -block):
        start = max(0, stop - block)
        round_block(weight, targets(weight, done, lower, start, stop), lower, grid, start, done)
    return done


def targets(weight: torch.Tensor, done: Rounded, lower: torch.Tensor, start: int, stop: int) -> torch.Tensor:
    """A block's weights with the feedback of all columns behind it, (m, stop - start)."""
    return torch.addmm(weight[:, start:stop], done.error[:, stop:], lower[stop:, start:stop])


def round_block(
    weight: torch.Tensor, target: torch.Tensor, lower: torch.Tensor, grid: Grid, start: int, done: Rounded
) -> None:
    """Round the columns from ``start`` on that have targets, which are spent, into ``done``."""
    stop = start + target.shape[1]
    kind = weight.numpy().dtype.type
    cpu.round_columns(
        weight.numpy(), target.numpy(), lower[start:stop, start:stop].contiguous().numpy(), grid.scales.numpy(),
        grid.zeros.numpy(), grid.group.numpy(), kind(grid.top), start, done.codes.numpy(), done.error.numpy(),
    )  # fmt: skip


def gptq(problem: LayerProblem, weight: torch.Tensor, damping: float) -> tuple[torch.Tensor, Grid]:
    """Codes of a weight by GPTQ at its best: LDLQ from the largest second moment on, on grids that clip where that pays."""
    columns = columns_by_size(problem.input_hessian)
    lower, pivots = unit_lower(problem.input_hessian[columns][:, columns], damping)
    importance = torch.empty_like(pivots)
    importance[columns] = pivots
    grid = grid_of(problem, importance, weight)
    codes = torch.empty(weight.shape, dtype=torch.uint8)
    codes[:, columns] = one_sided(weight[:, columns], lower, grid._replace(group=grid.group[columns])).codes
    return codes, grid


def better_rows(
    problem: LayerProblem, one: tuple[torch.Tensor, Grid], other: tuple[torch.Tensor, Grid]
) -> QuantizedLayer:
    """Of two roundings the row with the smaller ``e H e^T`` against the problem's weight; the first where they are equal."""
    losses = []
    for codes, grid in (one, other):
        error = problem.weight - grid.scales[:, grid.group] * (codes - grid.zeros[:, grid.group])
        losses.append(((error @ problem.input_hessian) * error).sum(dim=1))
    second = (losses[1] < losses[0])[:, None]
    parts = zip((one[0], *one[1][:2]), (other[0], *other[1][:2]), strict=True)
    return QuantizedLayer(*(torch.where(second, b, a) for a, b in parts), torch.empty(0, dtype=torch.int64))


def two_sided(
    weight: torch.Tensor,
    input_lower: torch.Tensor,
    output_lower: torch.Tensor,
    grid: Grid,
    *,
    block: int = WIDE,
    tile: int = TILE,
) -> Rounded:
    """YAQA's rounding (arXiv:2505.22988): ``Q = Q(W + L_O^T (E L_I) - E)`` entry by entry from the lower right corner, which
    minimises ``tr(H_O E H_I E^T)`` greedily.

    In running form: ``R = E L_I`` of the columns behind a block comes from one matrix product, ``L_O^T R`` of the rows
    below a tile from another. Any order gives the same sums in which an entry comes after all to its right and below it.
    """
    m, n = weight.shape
    kind = weight.numpy().dtype.type
    codes, error = torch.empty(m, n, dtype=torch.uint8), weight.new_empty(m, n)
    diagonals = {
        top: output_lower[max(0, top - tile) : top, max(0, top - tile) : top].contiguous() for top in range(m, 0, -tile)
    }
    for stop in range(n, 0, -block):
        start = max(0, stop - block)
        running = error[:, stop:] @ input_lower[stop:, start:stop]
        products = torch.empty_like(running)
        within = input_lower[start:stop, start:stop].contiguous().numpy()
        group = grid.group[start:stop].numpy()
        for bottom in range(m, 0, -tile):
            top = max(0, bottom - tile)
            above = products[bottom:].T @ output_lower[bottom:, top:bottom]
            some = slice(top, bottom), slice(start, stop)
            cpu.round_tile(
                weight[some].numpy(), running[top:bottom].numpy(), above.numpy(), within, diagonals[bottom].numpy(),
                grid.scales[top:bottom].numpy(), grid.zeros[top:bottom].numpy(), group, kind(grid.top),
                codes[some].numpy(), error[some].numpy(), products[top:bottom].numpy(),
            )  # fmt: skip
    return Rounded(codes, error)
