"""LDLQ (QuIP's rounding): columns from last to first, each corrected by the errors of those behind it."""

from breakeven.contract import adapter
from breakeven.methods.quantization.kernels.factors import DAMPING, unit_lower
from breakeven.methods.quantization.kernels.model import quantized_model
from breakeven.methods.quantization.kernels.rounding import grid_of, layer, one_sided
from breakeven.methods.quantization.language_models import quantizer
from breakeven.problems.quantization import LayerProblem, ModelProblem, QuantizedLayer, QuantizedModel


@adapter(title="LDLQ", paper="arXiv:2307.13304", packages=("numba",))
def solve(problem: LayerProblem, *, damping: float = DAMPING) -> QuantizedLayer:
    """Grids clip where this makes ``sum of D_j xi_j^2`` smaller; see `grid_of`.

    Args:
        damping: share of the Hessian's mean diagonal that is added to it; ten and a hundred times that where it is singular.

    Raises:
        BadInput: for a Hessian that is indefinite.
    """
    lower, importance = unit_lower(problem.input_hessian, damping)
    grid = grid_of(problem, importance)
    return layer(one_sided(problem.weight, lower, grid).codes, grid)


quantize_model = quantizer(solve)
"""A whole language model of transformers, with packed codes: see `language_models.quantize_model`."""


@adapter(title="LDLQ", paper="arXiv:2307.13304", packages=("numba",))
def solve_model(problem: ModelProblem) -> QuantizedModel:
    """Every layer of a model, with the inputs that it has in the original one."""
    return quantized_model(problem, solve)
