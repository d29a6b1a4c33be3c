"""Rounding to nearest on grids that clip: the share of each group's range whose squared error is the least."""

from breakeven.contract import adapter
from breakeven.methods.quantization.kernels.model import quantized_model
from breakeven.methods.quantization.kernels.rounding import grid_of, layer, to_nearest
from breakeven.methods.quantization.language_models import quantizer
from breakeven.problems.quantization import LayerProblem, ModelProblem, QuantizedLayer, QuantizedModel


@adapter(title="Round to nearest, clipped", packages=("numba",))
def solve(problem: LayerProblem) -> QuantizedLayer:
    """No calibration data is used."""
    grid = grid_of(problem, problem.weight.new_ones(problem.weight.shape[1]))
    return layer(to_nearest(problem.weight, grid), grid)


quantize_model = quantizer(solve)
"""A whole language model of transformers, with packed codes: see `language_models.quantize_model`."""


@adapter(title="Round to nearest, clipped", packages=("numba",))
def solve_model(problem: ModelProblem) -> QuantizedModel:
    """Every layer of a model; no calibration data is used."""
    return quantized_model(problem, solve, calibrate=False)
