"""Products with packed codes: an eighth of the bytes of float32 at 4 bits, unpacked in registers.

A product with few vectors is bound by the memory that the weight is read from. What remains is to unpack fast enough: codes lie
as `breakeven.problems.quantization.packing` has them, 32 side by side, so that a shift and a mask unpack as many at a time;
and inputs are rounded to 16 bits, so that one instruction multiplies and adds them.
"""

import torch

from breakeven.contract import Unsupported, adapter
from breakeven.methods.quantization.kernels.packing import product
from breakeven.problems.quantization import Product, ProductProblem


@adapter(
    title="Packed codes",
    devices=("cpu", "cuda"),
    derived="the layout and the kernel, with inputs of 16 bits",
    packages=("numba",),
)
def solve(problem: ProductProblem) -> Product:
    """In float64 code by code; in float32 to about 2e-5 of the product, where groups are of a multiple of 32 columns.

    On a GPU inputs are not rounded.

    Raises:
        Unsupported: on other devices.
    """
    if problem.packed.device.type == "cuda":
        from breakeven.methods.quantization.kernels import cuda  # loads Numba's CUDA

        return Product(cuda.product(problem.packed, problem.bits, problem.scales, problem.zeros, problem.x))
    if problem.packed.device.type != "cpu":
        raise Unsupported(f"products run on CPUs and NVIDIA GPUs, not on {problem.packed.device.type}")
    y = product(problem.packed.numpy(), problem.bits, problem.scales.numpy(), problem.zeros.numpy(), problem.x.numpy())
    return Product(torch.from_numpy(y))
