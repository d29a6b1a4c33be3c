"""A language model of one's own, of transformers, with text of one's own to calibrate on and to be judged by."""

import json
import math
import pathlib

import numpy as np
import psutil
import torch

from breakeven.contract import BadInput, Unsupported, dataset
from breakeven.datasets.quantization import _trained
from breakeven.problems.quantization import CausalLM, ModelProblem
from breakeven.problems.quantization.calibration import cut, drawn, text_of
from breakeven.problems.quantization.causal_lm import import_transformers, loaded_model

JUDGED = 64  # sequences, if the text has so many
BYTES = 4 * 2 + 8 * 2
"""For each parameter: the problem and its copy in float32, and the judge's two models in float64."""


@dataset(
    title="Your own language model",
    source="a folder of transformers, or an id",
    real=True,
    packages=("torch", "transformers"),
)
def hugging_face(
    *,
    file: str,
    text: str = "",
    judged_by: str = "",
    bits: int = 3,
    group_size: int = 64,
    symmetric: str = "yes",
    sequences: int = 128,
    length: int = 128,
    seed: int = 0,
) -> ModelProblem:
    """Any causal language model with ``Linear`` layers or GPT-2's ``Conv1D``; its embeddings and its head stay as they are.

    Args:
        file: the model's folder, any file in it, or its id.
        text: text files to calibrate on, as one path or pattern; without it, the sources of Python's standard library.
        judged_by: text files for the judge; without it, the last tenth of ``text``, which is not calibrated on then.
        group_size: must divide the inputs of every layer.
        sequences: to calibrate with, of ``length`` tokens each; 64 others, or as many as the text has, are for the judge.
        seed: of the pieces of text that are drawn.

    Raises:
        BadInput: for what is no such model, text that is empty or too short, a group size that does not divide, and a model that
            does not fit into memory, with the figure, before it is loaded.
    """
    if symmetric not in ("yes", "no") or sequences < 1 or length < 2 or not 1 <= bits <= 8:
        raise Unsupported(f"symmetric={symmetric} sequences={sequences} length={length} bits={bits}: yes or no; one sequence or "
                          "more, of two tokens or more; up to 8 bits")  # fmt: skip
    place = pathlib.Path(file)
    where = str(place.parent if place.is_file() else place)
    _check_memory(where, psutil.virtual_memory().available)
    model, tokenizer = loaded_model(where, None)
    architecture, parameters = CausalLM.of(model)
    rng = np.random.default_rng([seed])
    held, known = _texts(text, judged_by)
    held_out = cut(held, tokenizer, JUDGED, length, rng)
    calibration = drawn(known, tokenizer, sequences, length, rng)
    problem = ModelProblem(
        place.parent.name if place.is_file() else place.name, parameters, calibration, held_out, architecture, bits, group_size,
        symmetric == "yes",
    )  # fmt: skip
    with torch.no_grad():
        wanted = model.eval()(input_ids=held_out[:1], use_cache=False).logits.float()
        if not torch.allclose(problem.logits(held_out[:1]), wanted, rtol=1e-3, atol=1e-3 * float(wanted.abs().max())):
            raise BadInput(
                f"{file}: the model computes with more than its parameters and its configuration; it is not supported"
            )
    return problem


def _texts(text: str, judged_by: str) -> tuple[str, str]:
    """What is held out, and what is calibrated on."""
    if not text:
        held, known = (_trained.text(held_out).tobytes().decode("utf-8", "replace") for held_out in (True, False))
        return text_of(judged_by) if judged_by else held, known
    known = text_of(text)
    if judged_by:
        return text_of(judged_by), known
    most = len(known) * 9 // 10
    return known[most:], known[:most]


def _check_memory(where: str, available: int) -> None:
    """Raises `BadInput` for a folder whose model would not fit; of ids and broken folders the loader tells more."""
    try:
        facts = json.loads(pathlib.Path(where, "config.json").read_text(encoding="utf-8"))
        transformers = import_transformers()
        config = transformers.AutoConfig.for_model(**facts)
        with torch.device("meta"):
            empty = transformers.AutoModelForCausalLM.from_config(config)
    except (OSError, ValueError, KeyError, TypeError):
        return
    count = sum(math.prod(part.shape) for part in empty.parameters())
    if count * BYTES > available:
        raise BadInput(
            f"{where}: a model of {count:,} parameters needs {count * BYTES / 2**30:.3g} GiB to be judged in float64, and "
            f"{available / 2**30:.3g} GiB are free: take a smaller one, or a machine with more memory"
        )
