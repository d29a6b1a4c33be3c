"""What calibration takes of a user: tokens without padding, which all layers are reached by."""

from collections.abc import Mapping

import torch

from breakeven.contract import BadInput
from breakeven.problems.quantization.calibration import tokens_of_files
from breakeven.problems.quantization.causal_lm import observed


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


def check_reached(model: torch.nn.Module, layers: Mapping[str, torch.nn.Module], sequences: list[torch.Tensor]) -> None:
    reached = set()

    def observe(name, x, y):
        if x.any():
            reached.add(name)

    with torch.no_grad(), observed(layers, observe):
        for tokens in sequences:
            model(input_ids=tokens[None], use_cache=False)
            if len(reached) == len(layers):
                break
    if missed := [name for name in layers if name not in reached]:
        more = f" and {len(missed) - 5} more" if len(missed) > 5 else ""
        raise BadInput(
            f"calibration has not reached {', '.join(missed[:5])}{more} (experts that no token was sent to?): calibrate on more "
            "text, or leave them as they are by skip="
        )
