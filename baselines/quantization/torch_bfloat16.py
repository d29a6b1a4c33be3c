"""The dequantized weight in bfloat16, by torch: half the bytes of float32, without a kernel of one's own."""

import torch

from breakeven.baselines.quantization._halves import halves
from breakeven.contract import Unsupported, adapter
from breakeven.problems.quantization import Product, ProductProblem


@adapter(title="torch, bfloat16", packages=("torch",))
def solve(problem: ProductProblem) -> Product:
    """Each vector as two, see `halves`; in float64 there is no answer: nobody would ask half precision for it."""
    if problem.x.dtype != torch.float32:
        raise Unsupported("half precision is no answer in float64")
    y = torch.mm(problem.bfloat16.view(torch.bfloat16), halves(problem.x).T)
    return Product(y.float().view(-1, 2, len(problem.x)).sum(dim=1).T.contiguous())
