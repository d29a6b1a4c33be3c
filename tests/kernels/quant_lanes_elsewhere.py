"""Products with packed codes as another CPU would compute them: a program of its own, since what the host can is asked once.

Arguments: the CPU's name for LLVM, and prefixes of the features that it has not.
"""

import sys

import llvmlite.binding
import numpy as np

name, *missing = sys.argv[1:]
features = llvmlite.binding.get_host_cpu_features()
for feature in list(features):
    features[feature] = features[feature] and not feature.startswith(tuple(missing))
llvmlite.binding.get_host_cpu_features = lambda: features
llvmlite.binding.get_host_cpu_name = lambda: name

from breakeven.methods.quantization.kernels import packing  # noqa: E402
from breakeven.problems.quantization.packing import BITS, pack  # noqa: E402

for bits in BITS:
    rng = np.random.default_rng(bits)
    codes = rng.integers(0, 2**bits, (5, 1088), dtype=np.uint8)
    codes[0] = 2**bits - 1  # sums are largest
    scales, zeros = rng.random((5, 17)).astype(np.float32), rng.integers(0, 2**bits, (5, 17)).astype(np.float32)
    x = rng.standard_normal((2, 1088)).astype(np.float32)
    x[0] = 1
    found = packing.product(pack(codes, bits), bits, scales, zeros, x)
    exact = x.astype(float) @ (np.repeat(scales.astype(float), 64, axis=1) * (codes - np.repeat(zeros, 64, axis=1))).T
    size = np.abs(x).astype(float) @ np.repeat(scales, 64, axis=1).T * 2**bits
    assert (np.abs(found - exact) <= 2e-5 * size).all(), (bits, found, exact)
assembly = "".join(packing._product.inspect_asm().values())
print(len(packing.ROWS), "zmm" in assembly, "vpmaddwd" in assembly, "pmaddwd" in assembly)
