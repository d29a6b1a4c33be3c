"""The built-in language model: of bytes, as small as a few minutes of training allow."""

import dataclasses
from collections.abc import Callable, Mapping

import torch

from breakeven.contract import BadInput

VOCABULARY = 256  # bytes


@dataclasses.dataclass(frozen=True)
class ByteModel:
    """Blocks of attention (rotary positions) and a gated MLP with RMS norms, as in Llama (Touvron et al., arXiv:2302.13971).

    Raises `BadInput` for a width that heads cannot share in even parts.
    """

    width: int
    blocks: int
    heads: int
    hidden: int

    vocabulary = VOCABULARY
    at_once = 16
    """Sequences that are recorded at a time."""

    def __post_init__(self):
        if min(dataclasses.astuple(self)) < 1 or self.width % (2 * self.heads):
            raise BadInput(f"width {self.width} and {self.heads} heads; each head needs an even part of the width")

    def shapes(self) -> dict[str, tuple[int, ...]]:
        """Of every part, in the order of the parameters."""
        square, wide = (self.width, self.width), (self.hidden, self.width)
        of_block = {
            "attention_norm": (self.width,), "q": square, "k": square, "v": square, "o": square,
            "mlp_norm": (self.width,), "gate": wide, "up": wide, "down": (self.width, self.hidden),
        }  # fmt: skip
        blocks = {f"block{b}.{part}": shape for b in range(self.blocks) for part, shape in of_block.items()}
        ends = {"final_norm": (self.width,), "head": (VOCABULARY, self.width)}
        return {"embedding": (VOCABULARY, self.width)} | blocks | ends

    def linears(self) -> dict[str, tuple[str, bool]]:
        """The part that each layer to be quantized multiplies with, and whether it lies there transposed."""
        shapes = self.shapes().items()
        return {name: (name, False) for name, shape in shapes if "block" in name and len(shape) == 2}

    def logits(
        self, parts: Mapping[str, torch.Tensor], tokens: torch.Tensor, observe: Callable | None = None
    ) -> torch.Tensor:
        """(s, t, 256) of (s, t) tokens; see `ModelProblem.logits`."""

        def linear(name, x):
            y = x @ parts[name].T
            if observe:
                observe(name, x, y)
            return y

        s, t = tokens.shape
        size = self.width // self.heads
        x = torch.nn.functional.embedding(tokens, parts["embedding"])
        angles = torch.arange(t, dtype=torch.float64)[:, None] * 1e4 ** (-torch.arange(0, size, 2).double() / size)
        turn = [angle.to(x) for angle in (angles.cos(), angles.sin())]
        for b in range(self.blocks):
            normed = _rms_norm(x, parts[f"block{b}.attention_norm"])
            q, k, v = (
                linear(f"block{b}.{part}", normed).view(s, t, self.heads, size).transpose(1, 2) for part in "qkv"
            )
            mixed = torch.nn.functional.scaled_dot_product_attention(
                _rotary(q, *turn), _rotary(k, *turn), v, is_causal=True
            )
            x = x + linear(f"block{b}.o", mixed.transpose(1, 2).reshape(s, t, -1))
            normed = _rms_norm(x, parts[f"block{b}.mlp_norm"])
            gated = torch.nn.functional.silu(linear(f"block{b}.gate", normed)) * linear(f"block{b}.up", normed)
            x = x + linear(f"block{b}.down", gated)
        return _rms_norm(x, parts["final_norm"]) @ parts["head"].T


def _rms_norm(x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    return x * torch.rsqrt(x.square().mean(dim=-1, keepdim=True) + 1e-6) * weight


def _rotary(x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
    """Turn pairs of coordinates, k and k + half, by an angle that grows with the place (Su et al., arXiv:2104.09864)."""
    one, other = x.chunk(2, dim=-1)
    return torch.cat([one * cos - other * sin, other * cos + one * sin], dim=-1)
