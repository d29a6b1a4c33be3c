"""Layers of the built-in language model, with the inputs and gradients that real text gives them."""

import dataclasses

import numpy as np

from breakeven.contract import Unsupported, dataset
from breakeven.datasets.quantization._trained import CONTEXT, SIZES, model, text, windows
from breakeven.problems.quantization import LayerProblem

JUDGED = 256  # sequences


@dataset(
    title="Layer of a small language model",
    source="trained here on the standard library's sources",
    real=True,
    packages=("torch",),
)
def trained_lm(
    *,
    layer: str = "block1.down",
    size: str = "small",
    bits: int = 3,
    group_size: int = 64,
    sequences: int = 256,
    seed: int = 0,
) -> LayerProblem:
    """The model is trained once in a few minutes of one core, and kept in the cache; see `_trained`.

    Args:
        layer: q, k, v, o, gate, up or down of a block, such as ``block0.q``.
        size: ``small``, of four blocks, or ``tiny``, of one, for tests.
        sequences: of 128 bytes to calibrate with; 256 others, of files that were not trained on, are for the judge.
        seed: of the pieces of text that are drawn, and of nothing else: the model and its weights are the same.
    """
    if size not in SIZES or sequences < 1 or not 1 <= bits <= 8:
        raise Unsupported(f"size={size} sequences={sequences} bits={bits}: a size of {', '.join(SIZES)}, one sequence or more, "
                          "and up to 8 bits")  # fmt: skip
    rng = np.random.default_rng([seed])
    held_out = windows(text(held_out=True), JUDGED, CONTEXT, rng)
    calibration = windows(text(held_out=False), sequences, CONTEXT, rng)
    whole = model(size, 0, calibration, held_out, bits, 1, True)
    shape = whole.linears().get(layer)
    if shape is None or group_size < 1 or shape[1] % group_size:
        raise Unsupported(f"layer={layer} group_size={group_size}: there are {', '.join(whole.linears())}; a group size divides "
                          "the number of its columns")  # fmt: skip
    problem = whole.layers([layer], held_out=True)[layer]
    return dataclasses.replace(problem, group_size=group_size).with_reference()
