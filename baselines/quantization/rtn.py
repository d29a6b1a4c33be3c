"""Rounding to nearest: every weight to the nearest level of a grid that reaches its group's smallest and largest weight."""

from breakeven.contract import adapter
from breakeven.methods.quantization.kernels.rounding import grid_of, layer, to_nearest
from breakeven.problems.quantization import LayerProblem, QuantizedLayer


@adapter(title="Round to nearest", packages=("numba",))
def solve(problem: LayerProblem) -> QuantizedLayer:
    """No calibration data is used."""
    grid = grid_of(problem)
    return layer(to_nearest(problem.weight, grid), grid)
