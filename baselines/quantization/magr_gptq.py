"""MagR (Zhang et al., NeurIPS 2024): make the largest weights smaller where the layer's outputs hardly change, then GPTQ.

Row by row ``min 1/2 (w - w_0) H (w - w_0)^T + alpha sum over groups |w_G|_inf`` with H of norm 1, by proximal gradient steps:
``w <- prox(w - (w - w_0) H)``. The proximal step of the largest absolute value clips each group at the level t with
``sum of max(|w_j| - t, 0) = alpha``, which is what is left by a projection onto the l1 ball.
"""

import torch
from numba import njit, prange

from breakeven.contract import adapter
from breakeven.methods.quantization.kernels.factors import DAMPING
from breakeven.methods.quantization.kernels.model import quantized_model
from breakeven.methods.quantization.kernels.rounding import gptq, layer
from breakeven.methods.quantization.language_models import quantizer
from breakeven.problems.quantization import LayerProblem, ModelProblem, QuantizedLayer, QuantizedModel

PENALTY = 0.005
"""Of the weights' root mean square. The release has 1e-4 for groups, for weights of about 0.02."""


@adapter(
    title="MagR, GPTQ",
    paper="arXiv:2406.00800",
    derived="the paper was known by its released code; the penalty is relative to the weights' size, by which the released "
    "constant is measured; rows as they are changed are rounded by the GPTQ here",
    packages=("numba",),
)
def solve(
    problem: LayerProblem, *, penalty: float = PENALTY, steps: int = 150, damping: float = DAMPING
) -> QuantizedLayer:
    """Change the weights, then round them by GPTQ in its act-order.

    Args:
        penalty: alpha, as a share of the root mean square of the weights.
        steps: of proximal gradient descent; 150 in the release, for groups.
        damping: share of the Hessian's mean diagonal that is added to it for GPTQ.

    Raises:
        BadInput: for a Hessian that is indefinite.
    """
    return layer(*gptq(problem, reduced(problem, penalty, steps), damping))


def reduced(problem: LayerProblem, penalty: float, steps: int) -> torch.Tensor:
    """The (m, n) weight with smaller largest values."""
    original = problem.weight
    size = penalty * float(original.square().mean().sqrt())
    norm = float(torch.linalg.eigvalsh(problem.input_hessian)[-1])
    if not size or norm <= 0:
        return original
    hessian = problem.input_hessian / norm
    weight = original.clone()
    for _ in range(steps):
        weight -= (weight - original) @ hessian
        cut_largest(weight.numpy(), problem.group_size, weight.numpy().dtype.type(size))
    return weight


@njit(parallel=True, cache=True, error_model="numpy")
def cut_largest(weight, group_size, amount):
    """Clip every group of an (m, n) weight, in place, so that ``amount`` is cut off in all; one that has less becomes 0.

    The level is found from below: the mean of what lies above it, less its share of the amount, until no more falls below it
    (Michelot, 1986). Rounding may put a value above a level again that was below the last, which must not start it anew.
    """
    for i in prange(weight.shape[0]):
        for start in range(0, weight.shape[1], group_size):
            values = weight[i, start : start + group_size]
            level, count = -amount, values.size + 1
            while True:
                total, above = type(amount)(0), 0
                for value in values:
                    if abs(value) > level:
                        total += abs(value)
                        above += 1
                if above >= count or above == 0:
                    break
                count, level = above, (total - amount) / type(amount)(above)
            level = max(level, type(amount)(0))
            for j in range(values.size):
                values[j] = min(max(values[j], -level), level)


quantize_model = quantizer(solve)
"""A whole language model of transformers, with packed codes: see `language_models.quantize_model`."""


@adapter(title="MagR, GPTQ", paper="arXiv:2406.00800", derived="as of single layers", packages=("numba",))
def solve_model(problem: ModelProblem) -> QuantizedModel:
    """Every layer of a model, with the inputs that it has in the original one."""
    return quantized_model(problem, solve)
