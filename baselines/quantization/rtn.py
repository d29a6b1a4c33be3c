"""Rounding to nearest: every weight to the nearest level of a grid that reaches its group's smallest and largest weight."""

from breakeven.contract import adapter
from breakeven.methods.quantization.kernels.model import quantized_model
from breakeven.methods.quantization.kernels.rounding import grid_of, layer, to_nearest
from breakeven.methods.quantization.language_models import quantizer
from breakeven.problems.quantization import LayerProblem, ModelProblem, QuantizedLayer, QuantizedModel


@adapter(title="Round to nearest", packages=("numba",))
def solve(problem: LayerProblem) -> QuantizedLayer:
    """No calibration data is used."""
    grid = grid_of(problem)
    return layer(to_nearest(problem.weight, grid), grid)


quantize_model = quantizer(solve)
"""A whole language model of transformers, with packed codes: see `language_models.quantize_model`."""


@adapter(title="Round to nearest", packages=("numba",))
def solve_model(problem: ModelProblem) -> QuantizedModel:
    """Every layer of a model; no calibration data is used."""
    return quantized_model(problem, solve, calibrate=False)
