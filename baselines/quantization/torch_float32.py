"""The dequantized weight in the problem's own dtype, by torch: what a model costs that was not quantized."""

import torch

from breakeven.contract import adapter
from breakeven.problems.quantization import Product, ProductProblem


@adapter(title="torch, float32", packages=("torch",))
def solve(problem: ProductProblem) -> Product:
    """By its product of a matrix and a vector for one vector, of two matrices for more."""
    if len(problem.x) == 1:
        return Product(torch.mv(problem.weight, problem.x[0])[None])
    return Product(problem.x @ problem.weight.T)
