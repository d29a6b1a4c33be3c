"""Rounding to nearest on grids that clip: the share of each group's range whose squared error is the least."""

import torch

from breakeven.contract import adapter
from breakeven.methods.quantization.kernels.model import quantized_model
from breakeven.methods.quantization.kernels.rounding import grid_of, layer, to_nearest
from breakeven.problems.quantization import LayerProblem, ModelProblem, QuantizedLayer, QuantizedModel


@adapter(
    title="Round to nearest, clipped",
    packages=("numba",),
    variants={"of_inputs": {"weigh_by_inputs": True}},
)
def solve(problem: LayerProblem, *, weigh_by_inputs: bool = False) -> QuantizedLayer:
    """
    Args:
        weigh_by_inputs: a weight's error counts by the second moment of its input.
    """
    importance = torch.ones_like(problem.input_hessian.diagonal())
    if weigh_by_inputs:
        importance = problem.input_hessian.diagonal().contiguous()
    grid = grid_of(problem, importance)
    return layer(to_nearest(problem.weight, grid), grid)


@adapter(title="Round to nearest, clipped", packages=("numba",))
def solve_model(problem: ModelProblem) -> QuantizedModel:
    """Every layer of a model; no calibration data is used."""
    return quantized_model(problem, solve, calibrate=False)
