"""Clipping through the inverse Hessian: cut a row's largest weights, and let the others make up for it before rounding.

For a row w with the level c, P the places of its weights beyond c, the cheapest change that cuts them is
``dw = H^-1[:, P] (H^-1[P, P])^-1 (clip(w_P) - w_P)``, and it costs ``dw H dw^T`` (the optimal brain surgeon, Hassibi and Stork,
1992). Weights that it pushes beyond c join P. The level is the one of least cost with what rounding is then expected
to lose. Unlike MagR or OSAQ it needs neither iterations over the matrix nor an eigendecomposition.
"""

import numpy as np
import torch

from breakeven.contract import adapter
from breakeven.methods.quantization.kernels import cpu
from breakeven.methods.quantization.kernels.factors import DAMPING, columns_by_size, damped, unit_lower
from breakeven.methods.quantization.kernels.model import quantized_model
from breakeven.methods.quantization.kernels.rounding import better_rows, gptq
from breakeven.methods.quantization.language_models import quantizer
from breakeven.problems.quantization import LayerProblem, ModelProblem, QuantizedLayer, QuantizedModel

LEVELS = np.array(
    [1.0, 0.95, 0.9, 0.85, 0.8, 0.75, 0.7, 0.65, 0.6, 0.55, 0.5, 0.45, 0.4]
)  # of each group's largest weight
ROUNDS = 4  # in which weights may join those that are cut
MOST = 64  # weights of a row that are cut


@adapter(
    title="Inverse-Hessian clipping",
    derived="all of it: no paper is known that proposes it",
    packages=("numba",),
)
def solve(problem: LayerProblem, *, damping: float = DAMPING) -> QuantizedLayer:
    """Cut, then round by GPTQ in its act-order; rows that come out better without being cut are left as they are.

    Args:
        damping: share of the Hessian's mean diagonal that is added to it, for the inverse and for GPTQ.

    Raises:
        BadInput: for a Hessian that is indefinite.
    """
    hessian = problem.input_hessian
    columns = columns_by_size(hessian)
    pivots = unit_lower(hessian[columns][:, columns], damping)[1]
    importance = torch.empty_like(pivots)
    importance[columns] = pivots
    inverse = torch.cholesky_inverse(torch.linalg.cholesky(damped(hessian, damping)))
    weight = problem.weight.clone()
    top = 2**problem.bits - 1
    # A step's square over 12, a step being the span over the number of steps; a symmetric grid spans twice the largest weight.
    share = (4 if problem.symmetric else 1) / (12 * top**2) * importance.view(-1, problem.group_size).sum(dim=1)
    kind = weight.numpy().dtype.type
    cpu.cut_outliers(
        weight.numpy(),
        inverse.numpy(),
        share.numpy(),
        problem.group_size,
        problem.symmetric,
        LEVELS.astype(kind),
        ROUNDS,
        MOST,
    )
    return better_rows(problem, gptq(problem, problem.weight, damping), gptq(problem, weight, damping))


quantize_model = quantizer(solve)
"""A whole language model of transformers, with packed codes: see `language_models.quantize_model`."""


@adapter(title="Inverse-Hessian clipping", derived="as of single layers", packages=("numba",))
def solve_model(problem: ModelProblem) -> QuantizedModel:
    """Every layer of a model, with the inputs that it has in the original one."""
    return quantized_model(problem, solve)
