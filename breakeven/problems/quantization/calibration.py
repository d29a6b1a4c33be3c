"""What calibration takes: text as tokens, and the memory for what layers see of it."""

import glob
import os
import pathlib
from collections.abc import Iterable, Mapping

import numpy as np
import torch

from breakeven.contract import BadInput

LEAST = 8  # sequences that an interval is drawn from
_LETTERS = 24  # of text for each token that is wanted: of a longer text a part at random is enough


def tokens_of_files(files, tokenizer, length: int) -> torch.Tensor:
    """The text of one or several files as (s, length) tokens; what is left over at the end is dropped, unless it is all."""
    if tokenizer is None:
        raise BadInput("text files need a tokenizer: give tokenizer=, or the model by its id or folder")
    files = [files] if isinstance(files, str | os.PathLike) else files
    tokens = [token for text in texts_of(files) for token in tokenizer(text, add_special_tokens=False)["input_ids"]]
    tokens = torch.tensor(tokens, dtype=torch.int64)
    return tokens[None] if len(tokens) < length else tokens[: len(tokens) // length * length].view(-1, length)


def texts_of(files: Iterable[str | os.PathLike]) -> list[str]:
    """What text files say. Raises `BadInput` for one that cannot be read, or says nothing."""
    texts = []
    for file in files:
        try:
            texts.append(pathlib.Path(file).read_text(encoding="utf-8"))
        except (OSError, UnicodeDecodeError) as error:
            raise BadInput(f"{file}: cannot be read as text: {error}") from None
        if not texts[-1].strip():
            raise BadInput(f"{file}: is empty; calibration needs text")
    return texts


def text_of(pattern: str) -> str:
    """The text of all files that a pattern names, in the order of their names."""
    files = sorted(glob.glob(os.path.expanduser(pattern), recursive=True))
    if not files:
        raise BadInput(f"{pattern!r} names no file; put a pattern in quotes, such as 'notes/*.txt'")
    return "\n".join(texts_of(files))


def drawn(text: str, tokenizer, count: int, length: int, rng: np.random.Generator) -> torch.Tensor:
    """Tokens from random places of a text, (count, length) int64. Raises `BadInput` for a text that has fewer than ``length``."""
    most = _LETTERS * count * length
    start = int(rng.integers(0, max(1, len(text) - most)))
    tokens = torch.tensor(
        tokenizer(text[start : start + most], add_special_tokens=False)["input_ids"], dtype=torch.int64
    )
    if len(tokens) < length:
        raise BadInput(
            f"a text of {len(tokens)} tokens has no sequence of {length}; give more text, or a shorter length"
        )
    return tokens[torch.from_numpy(rng.integers(0, len(tokens) - length + 1, (count, 1))) + torch.arange(length)]


def cut(text: str, tokenizer, count: int, length: int, rng: np.random.Generator) -> torch.Tensor:
    """Tokens of a text in pieces that share none, (count, length) int64 at most: each tells something of its own.

    Raises:
        BadInput: for a text that has fewer than `LEAST` pieces.
    """
    most = _LETTERS * count * length
    start = int(rng.integers(0, max(1, len(text) - most)))
    tokens = tokenizer(text[start : start + most], add_special_tokens=False)["input_ids"]
    pieces = torch.tensor(tokens, dtype=torch.int64)[: len(tokens) // length * length].view(-1, length)
    if len(pieces) < LEAST:
        raise BadInput(
            f"the text for the judge has {len(tokens)} tokens, and {LEAST} sequences of {length} need {LEAST * length}: "
            "give judged_by= or more text, or a shorter length"
        )
    return pieces[torch.from_numpy(rng.permutation(len(pieces))[:count])]


def passes(shapes: Mapping[str, tuple[int, int]], tokens: int, memory: int) -> list[list[str]]:
    """Layers that are recorded together: as many as fit into half of the memory beside what rounding the largest takes.

    Args:
        shapes: of the layers, (m, n); tokens: of calibration, padding among them; memory: bytes that may be used.

    Raises:
        BadInput: where one layer needs more than that.
    """
    samples = {
        name: 8 * tokens * (m + n) for name, (m, n) in shapes.items()
    }  # in float32, and once more while it is padded
    rounding = {name: 4 * (4 * (m * m + n * n) + 6 * m * n) for name, (m, n) in shapes.items()}
    largest = max(shapes, key=lambda name: samples[name] + rounding[name])
    needed = samples[largest] + rounding[largest]
    if needed > memory:
        gib = [f"{size / 2**30:.3g} GiB" for size in (needed, samples[largest], memory)]
        raise BadInput(
            f"{largest} {tuple(shapes[largest])} needs {gib[0]} beside the model, {gib[1]} of them for {tokens} tokens of "
            f"calibration, and {gib[2]} are free: give fewer or shorter sequences, or leave the layer out"
        )
    passes, room = [[]], 0
    for name, size in samples.items():
        if passes[-1] and room + size > max(samples[largest], (memory - needed) / 2):
            passes.append([])
            room = 0
        passes[-1].append(name)
        room += size
    return passes
