"""What calibration takes: tokens without padding, what layers see of them, and the memory for it."""

import os
import pathlib
from collections.abc import Mapping

import torch

from breakeven.contract import BadInput
from breakeven.methods.quantization.language_models.layers import weight_of


def sequences_of(model: torch.nn.Module, calibration, mask, tokenizer, length: int) -> list[torch.Tensor]:
    """Tokens of every sequence, without padding; those of one token or none tell nothing, and are left out."""
    if not isinstance(calibration, torch.Tensor):
        calibration = tokens_of_files(calibration, tokenizer, length)
    if calibration.dim() != 2 or calibration.dtype != torch.int64:
        raise BadInput(
            f"calibration tokens are {calibration.dtype} of shape {tuple(calibration.shape)}; give int64, (sequences, tokens)"
        )
    kept = torch.ones_like(calibration).bool() if mask is None else torch.as_tensor(mask).bool()
    if kept.shape != calibration.shape:
        raise BadInput(
            f"mask has shape {tuple(kept.shape)}, calibration {tuple(calibration.shape)}; give one entry per token"
        )
    sequences = [tokens[some] for tokens, some in zip(calibration, kept, strict=True)]
    sequences = [tokens for tokens in sequences if len(tokens) > 1]
    if not sequences:
        raise BadInput("calibration holds no sequence of two tokens or more; give more text")
    vocabulary = model.get_input_embeddings().num_embeddings
    least, largest = (int(f(torch.cat(sequences))) for f in (torch.min, torch.max))
    if least < 0 or largest >= vocabulary:
        raise BadInput(
            f"calibration holds tokens of {least} to {largest}, the model knows 0 to {vocabulary - 1}: whose are they?"
        )
    return sequences


def tokens_of_files(files, tokenizer, length: int) -> torch.Tensor:
    """The text of one or several files as (s, length) tokens; what is left over at the end is dropped, unless it is all."""
    files = [files] if isinstance(files, str | os.PathLike) else list(files)
    if tokenizer is None:
        raise BadInput("text files need a tokenizer: give tokenizer=, or the model by its id or folder")
    tokens = []
    for file in files:
        try:
            text = pathlib.Path(file).read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise BadInput(f"{file}: cannot be read as text: {error}") from None
        if not text.strip():
            raise BadInput(f"{file}: is empty; calibration needs text")
        tokens.extend(tokenizer(text, add_special_tokens=False)["input_ids"])
    tokens = torch.tensor(tokens, dtype=torch.int64)
    return tokens[None] if len(tokens) < length else tokens[: len(tokens) // length * length].view(-1, length)


def passes(layers: Mapping[str, torch.nn.Module], sequences: list[torch.Tensor], memory: int) -> list[list[str]]:
    """Layers that are recorded together: as many as fit into half of the memory beside what rounding the largest takes."""
    tokens = len(sequences) * max(map(len, sequences))
    shapes = {name: weight_of(layer).shape for name, layer in layers.items()}
    samples = {
        name: 8 * tokens * (m + n) for name, (m, n) in shapes.items()
    }  # in float32, and once more while it is padded
    rounding = {name: 4 * (4 * (m * m + n * n) + 6 * m * n) for name, (m, n) in shapes.items()}
    largest = max(layers, key=lambda name: samples[name] + rounding[name])
    needed = samples[largest] + rounding[largest]
    if needed > memory:
        gib = [f"{size / 2**30:.3g} GiB" for size in (needed, samples[largest], memory)]
        raise BadInput(
            f"{largest} {tuple(shapes[largest])} needs {gib[0]} beside the model, {gib[1]} of them for {tokens} tokens of "
            f"calibration, and {gib[2]} are free: give fewer or shorter sequences, or leave it out by skip="
        )
    passes, room = [[]], 0
    for name, size in samples.items():
        if passes[-1] and room + size > max(samples[largest], (memory - needed) / 2):
            passes.append([])
            room = 0
        passes[-1].append(name)
        room += size
    return passes


def recorded(
    model: torch.nn.Module, layers: Mapping[str, torch.nn.Module], sequences: list[torch.Tensor], seed: int
) -> dict[str, tuple[torch.Tensor, torch.Tensor]]:
    """Inputs (s, t, n) of layers and gradients (s, t, m) at their outputs, of the log-likelihood of tokens that the model draws.

    One sequence at a time, so that what an expert sees of it is its own; short ones end in zeros.
    """
    kept = {name: ([], []) for name in layers}
    generator = torch.Generator().manual_seed(seed)
    for tokens in sequences:
        seen = {name: [] for name in layers}

        def record(name, arguments, output, seen=seen):
            if not output.requires_grad:
                output.requires_grad_()
            output.retain_grad()
            seen[name].append((arguments[0].detach(), output))

        hooks = [
            layer.register_forward_hook(lambda _, arguments, output, name=name: record(name, arguments, output))
            for name, layer in layers.items()
        ]
        try:
            with torch.enable_grad():
                logits = model(input_ids=tokens[None], use_cache=False).logits[0].float()
                drawn = torch.multinomial(logits.detach().softmax(dim=1), 1, generator=generator)
                torch.nn.functional.cross_entropy(logits, drawn[:, 0], reduction="sum").backward()
        finally:
            for hook in hooks:
                hook.remove()
        for name, calls in seen.items():
            m, n = weight_of(layers[name]).shape
            kept[name][0].append(torch.cat([torch.zeros(0, n), *(x.reshape(-1, n).float() for x, _ in calls)]))
            gradients = [torch.zeros_like(y) if y.grad is None else y.grad for _, y in calls]
            kept[name][1].append(torch.cat([torch.zeros(0, m), *(g.reshape(-1, m).float() for g in gradients)]))
    return {name: tuple(torch.nn.utils.rnn.pad_sequence(part, True) for part in both) for name, both in kept.items()}


def check_reached(model: torch.nn.Module, layers: Mapping[str, torch.nn.Module], sequences: list[torch.Tensor]) -> None:
    reached = set()
    hooks = [
        layer.register_forward_hook(
            lambda _, arguments, __, name=name: reached.add(name) if arguments[0].any() else None
        )
        for name, layer in layers.items()
    ]
    try:
        with torch.no_grad():
            for tokens in sequences:
                model(input_ids=tokens[None], use_cache=False)
                if len(reached) == len(layers):
                    break
    finally:
        for hook in hooks:
            hook.remove()
    if missed := [name for name in layers if name not in reached]:
        more = f" and {len(missed) - 5} more" if len(missed) > 5 else ""
        raise BadInput(
            f"calibration has not reached {', '.join(missed[:5])}{more} (experts that no token was sent to?): calibrate on more "
            "text, or leave them as they are by skip="
        )
