"""torch's own kernel for weights of 4 bits on a CPU, which torchao's int4 layout calls; its answers are in bfloat16."""

import torch

from breakeven.baselines.quantization._halves import halves
from breakeven.contract import Unsupported, adapter
from breakeven.problems.quantization import Product, ProductProblem


@adapter(title="torch, int4", packages=("torch",))
def solve(problem: ProductProblem) -> Product:
    """Each vector as two, see `halves`. Scales are rounded to bfloat16, as the kernel has them."""
    if problem.x.dtype != torch.float32:
        raise Unsupported("half precision is no answer in float64")
    if not len(problem.torch_int4):
        raise Unsupported(
            "torch has no int4 kernel for these sizes: it takes 4 bits, groups of 32 to 256 columns, and rows by 16"
        )
    grid = problem.torch_grid.view(torch.bfloat16)
    y = torch.ops.aten._weight_int4pack_mm_for_cpu(halves(problem.x), problem.torch_int4, problem.group_size, grid)
    return Product(y.float().view(2, len(problem.x), -1).sum(dim=0))
