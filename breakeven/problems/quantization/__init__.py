"""Rounding the weights of a linear layer to few bits: problems, quantized layers, and how they are judged.

A layer computes ``y = W x`` with a weight W of m rows (outputs) and n columns (inputs). A quantized weight is
``Q_ij = scale * (code_ij - zero)``, where a scale and a zero are shared by a row's group of columns, and ``E = W - Q`` is its
error. To second order, what E costs the whole network is ``<E, G_s>^2`` in the mean over sequences s, where
``G_s = sum over tokens t of g_t x_t^T`` is the gradient of the log-likelihood of tokens drawn from the network itself, with
respect to W (the Fisher information). Its approximation by a Kronecker product is ``tr(H_O E H_I E^T)``; with ``H_O = I`` and
``H_I = E[x x^T]`` it is the mean squared error of the layer's output, which GPTQ minimises (Frantar et al., arXiv:2210.17323;
Tseng, Sun and De Sa, arXiv:2505.22988).
"""

from breakeven.problems.quantization.byte_model import VOCABULARY, ByteModel
from breakeven.problems.quantization.causal_lm import CausalLM
from breakeven.problems.quantization.grid import (
    SCALE_BITS,
    QuantizedLayer,
    check_group_size,
    dequantized,
    min_max_grid,
)
from breakeven.problems.quantization.layer import DAMPING, LayerProblem, reference_rounding
from breakeven.problems.quantization.model import ModelProblem, QuantizedModel
from breakeven.problems.quantization.product import Product, ProductProblem

__all__ = [
    "DAMPING",
    "SCALE_BITS",
    "VOCABULARY",
    "ByteModel",
    "CausalLM",
    "LayerProblem",
    "ModelProblem",
    "Product",
    "ProductProblem",
    "QuantizedLayer",
    "QuantizedModel",
    "check_group_size",
    "dequantized",
    "min_max_grid",
    "reference_rounding",
]
