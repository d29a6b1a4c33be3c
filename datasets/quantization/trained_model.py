"""The built-in language model: of bytes, trained on the standard library's sources, with real text on either side."""

import numpy as np

from breakeven.contract import Unsupported, dataset
from breakeven.datasets.quantization._trained import CONTEXT, SIZES, model, text, windows
from breakeven.problems.quantization import ModelProblem

JUDGED = 128  # sequences


@dataset(
    title="Small language model",
    source="trained here on the standard library's sources",
    real=True,
    packages=("torch",),
)
def trained_model(
    *,
    size: str = "small",
    bits: int = 3,
    group_size: int = 64,
    symmetric: str = "yes",
    sequences: int = 128,
    training: str = "shared",
    seed: int = 0,
) -> ModelProblem:
    """Trained once in a few minutes of one core, and kept in the cache; see `_trained`.

    Args:
        size: ``small``, of 0.9 million parameters, or ``tiny``, for tests.
        sequences: of 128 bytes, of the text that the model was trained on, to calibrate with.
        training: ``shared`` by all seeds; or ``own``: a model for every seed, of other first weights and in another order of
            the text, a few minutes each.
        seed: of the pieces of text that are drawn, those to be judged by among them: these are of files not trained on.
    """
    if size not in SIZES or symmetric not in ("yes", "no") or training not in ("shared", "own") or sequences < 1:
        raise Unsupported(f"size={size} symmetric={symmetric} training={training} sequences={sequences}: a size of "
                          f"{', '.join(SIZES)}; yes or no; shared or own; one or more")  # fmt: skip
    shape = SIZES[size].architecture
    if not 1 <= bits <= 8 or group_size < 1 or shape.width % group_size or shape.hidden % group_size:
        raise Unsupported(
            f"bits={bits} group_size={group_size}: up to 8 bits, and a divisor of {shape.width} and {shape.hidden}"
        )
    rng = np.random.default_rng([seed])
    held_out = windows(text(held_out=True), JUDGED, CONTEXT, rng)
    calibration = windows(text(held_out=False), sequences, CONTEXT, rng)
    return model(size, seed if training == "own" else 0, calibration, held_out, bits, group_size, symmetric == "yes")
