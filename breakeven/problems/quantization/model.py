"""A whole language model of bytes, with text to calibrate on and to be judged by."""

import dataclasses
import math
import typing
from collections.abc import Mapping

import numpy as np
import torch

from breakeven.contract import BadInput
from breakeven.problems import Problem, Solution, Wrong
from breakeven.problems.quantization.grid import (
    QuantizedLayer,
    bits_of_grid,
    bits_per_weight,
    check_grid,
    check_layer,
    dequantized,
)
from breakeven.problems.quantization.layer import LayerProblem

VOCABULARY = 256  # bytes

_SEQUENCES = 16  # at a time


@dataclasses.dataclass(frozen=True)
class ModelProblem(Problem):
    """A language model of bytes, all of whose linear layers but the last are to be quantized, with text to calibrate on.

    Blocks of attention (rotary positions) and a gated MLP with RMS norms, as in Llama (Touvron et al., arXiv:2302.13971).
    ``parameters`` is one floating-point tensor that `parts` names. Text is int64 tokens of 0 to 255.

    Raises `BadInput` for sizes that do not fit, parameters that are not finite, no text, and group sizes that do not divide.
    """

    name: str
    parameters: torch.Tensor  # (P,)
    calibration: torch.Tensor  # (s, t) int64
    held_out: torch.Tensor  # (h, u) int64
    width: int
    blocks: int
    heads: int
    hidden: int
    bits: int
    group_size: int
    symmetric: bool

    def __post_init__(self):
        _check_model(self)

    def features(self) -> Mapping[str, float | str]:
        return {
            "name": self.name, "parameters": len(self.parameters), "bits": self.bits, "group_size": self.group_size,
            "tokens": self.calibration.numel(),
        }  # fmt: skip

    def shapes(self) -> dict[str, tuple[int, ...]]:
        """Of every part, in the order of ``parameters``."""
        square, wide = (self.width, self.width), (self.hidden, self.width)
        of_block = {
            "attention_norm": (self.width,), "q": square, "k": square, "v": square, "o": square,
            "mlp_norm": (self.width,), "gate": wide, "up": wide, "down": (self.width, self.hidden),
        }  # fmt: skip
        blocks = {f"block{b}.{part}": shape for b in range(self.blocks) for part, shape in of_block.items()}
        ends = {"final_norm": (self.width,), "head": (VOCABULARY, self.width)}
        return {"embedding": (VOCABULARY, self.width)} | blocks | ends

    def parts(self) -> dict[str, torch.Tensor]:
        """Views of the parameters by name."""
        shapes = self.shapes()
        split = self.parameters.split([math.prod(shape) for shape in shapes.values()])
        return {name: part.view(shape) for (name, shape), part in zip(shapes.items(), split, strict=True)}

    def linears(self) -> dict[str, tuple[int, int]]:
        """Shapes of what is quantized, in the order of a solution's codes."""
        return {name: shape for name, shape in self.shapes().items() if "block" in name and len(shape) == 2}

    def logits(self, tokens: torch.Tensor, linear=None) -> torch.Tensor:
        """(s, t, 256) of (s, t) tokens.

        Args:
            linear: what every quantized layer does: a function of its name and input; by its own weight where none is given.
        """
        parts = self.parts()
        linear = linear or (lambda name, x: x @ parts[name].T)
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

    def recorded(
        self, names: typing.Collection[str], tokens: torch.Tensor, seed: int = 0
    ) -> dict[str, tuple[torch.Tensor, torch.Tensor]]:
        """Inputs (s, t, n) of layers and gradients (s, t, m) at their outputs, of the log-likelihood of tokens that the model
        itself draws: those of the Fisher information, not of the text's own tokens."""
        parts, kept = self.parts(), {name: ([], []) for name in names}
        generator = torch.Generator().manual_seed(seed)
        for some in tokens.split(_SEQUENCES):
            seen = {}

            def linear(name, x, seen=seen):
                y = x @ parts[name].T
                if name in kept:
                    if not y.requires_grad:
                        y.requires_grad_()
                    y.retain_grad()
                    seen[name] = x.detach(), y
                return y

            with torch.enable_grad():
                logits = self.logits(some, linear).flatten(0, 1)
                drawn = torch.multinomial(logits.detach().softmax(dim=1), 1, generator=generator)
                torch.nn.functional.cross_entropy(logits, drawn[:, 0], reduction="sum").backward()
            for name, (x, y) in seen.items():
                kept[name][0].append(x)
                kept[name][1].append(y.grad)
        return {name: tuple(map(torch.cat, both)) for name, both in kept.items()}

    def layers(self, names: typing.Collection[str], *, held_out: bool = False) -> dict[str, LayerProblem]:
        """Problems of single layers with all their calibration data; with the judge's as well where these are to be judged."""
        parts, calibration = self.parts(), self.recorded(names, self.calibration)
        held = self.recorded(names, self.held_out, seed=1) if held_out else {}
        return {
            name: LayerProblem.of(
                f"{self.name}_{name}", parts[name], bits=self.bits, group_size=self.group_size, symmetric=self.symmetric,
                inputs=calibration[name][0], gradients=calibration[name][1], held_out=held.get(name),
            )
            for name in names
        }  # fmt: skip

    def with_weights(self, weights: Mapping[str, torch.Tensor]) -> typing.Self:
        """The model with other weights in some of its layers."""
        changed = dataclasses.replace(self, parameters=self.parameters.clone())
        parts = changed.parts()
        for name, weight in weights.items():
            parts[name].copy_(weight)
        return changed

    def judge(self, solution: "QuantizedModel") -> dict[str, float]:
        """Dequantize, and compare what both models predict of the held-out text, in float64.

        - ``kl``: the mean over tokens of the divergence ``KL(original || quantized)`` of the next token, in nats.
        - ``kl_error``: the half-width of its 95 % bootstrap interval over sequences.
        - ``perplexity`` and ``perplexity_before``: per byte of the text.
        - ``agreement``: the share of tokens where both deem the same next one most likely.
        - ``bits_per_weight``, ``excess_bits``: over all quantized weights, as of a layer.
        """
        layers = solution.layers(self)
        for name, layer in layers.items():
            try:
                check_layer(layer, self.linears()[name], self.bits, self.group_size, self.symmetric)
            except Wrong as wrong:
                raise Wrong(f"{name}: {wrong}") from None
        original = dataclasses.replace(self, parameters=self.parameters.detach().cpu().double()).to("cpu")
        changed = original.with_weights({name: torch.from_numpy(dequantized(layer)) for name, layer in layers.items()})
        divergence, likelihood, agreement = [], [], []
        with torch.no_grad():
            for some in original.held_out.split(_SEQUENCES):
                before, after = (model.logits(some).log_softmax(dim=2) for model in (original, changed))
                divergence.append((before.exp() * (before - after)).sum(dim=2).mean(dim=1))
                following = some[:, 1:, None]
                likelihood.append(
                    torch.stack([one[:, :-1].gather(2, following).mean() for one in (before, after)]) * len(some)
                )
                agreement.append((before.argmax(dim=2) == after.argmax(dim=2)).double().mean(dim=1))
        divergence = torch.cat(divergence).numpy()
        rng = np.random.default_rng(0)
        means = rng.choice(divergence, (1000, len(divergence))).mean(axis=1)
        before, after = torch.stack(likelihood).sum(dim=0) / len(divergence)
        sizes = np.array([math.prod(shape) for shape in self.linears().values()])
        bits = float(np.average([bits_per_weight(layer, self.bits) for layer in layers.values()], weights=sizes))
        return {
            "kl": max(0.0, float(divergence.mean())),
            "kl_error": float(np.ptp(np.quantile(means, [0.025, 0.975])) / 2),
            "perplexity": float((-after).exp()),
            "perplexity_before": float((-before).exp()),
            "agreement": float(torch.cat(agreement).mean()),
            "bits_per_weight": bits,
            "excess_bits": bits - bits_of_grid(self.bits, self.group_size, self.symmetric),
        }

    @classmethod
    def probes(cls) -> Mapping[str, typing.Self]:
        rng = np.random.default_rng(0)

        def probe(name, blocks, bits, symmetric, sequences=4):
            tokens = [torch.from_numpy(rng.integers(0, VOCABULARY, (s, 6))) for s in (sequences, 3)]
            count = 2 * VOCABULARY * 8 + 8 + blocks * (2 * 8 + 4 * 64 + 3 * 128)
            parameters = torch.from_numpy(rng.standard_normal(count))
            return cls(name, parameters, *tokens, 8, blocks, 2, 16, bits, 8, symmetric)

        return {
            "one_block": probe("one_block", 1, 3, True),
            "two_blocks": probe("two_blocks", 2, 2, True, sequences=20),
            "asymmetric": probe("asymmetric", 1, 4, False),
            "one_sequence": probe("one_sequence", 1, 2, False, sequences=1),
        }


@dataclasses.dataclass(frozen=True)
class QuantizedModel(Solution):
    """The quantized layers of a model, flat, one after the other in the order of `ModelProblem.linears`."""

    codes: torch.Tensor  # (N,) uint8
    scales: torch.Tensor  # (N / group_size,)
    zeros: torch.Tensor  # (N / group_size,)

    @classmethod
    def of(cls, layers: Mapping[str, QuantizedLayer]) -> typing.Self:
        """Raises `BadInput` for layers with a permutation, which has no place here."""
        permuted = [name for name, layer in layers.items() if len(layer.permutation)]
        if permuted:
            raise BadInput(
                f"{', '.join(permuted)}: groups by a permutation of columns; a model's layers have groups of neighbours"
            )
        parts = ([getattr(layer, part).flatten() for layer in layers.values()] for part in ("codes", "scales", "zeros"))
        return cls(*map(torch.cat, parts))

    def layers(self, problem: ModelProblem) -> dict[str, QuantizedLayer]:
        shapes = problem.linears()
        sizes = [math.prod(shape) for shape in shapes.values()]
        counts = {"codes": sizes, "scales": [size // problem.group_size for size in sizes]}
        counts["zeros"] = counts["scales"]
        split = {}
        for field, lengths in counts.items():
            value = getattr(self, field)
            if not isinstance(value, torch.Tensor) or tuple(value.shape) != (sum(lengths),):
                raise Wrong(f"{field} must be a tensor of shape ({sum(lengths)},)")
            split[field] = value.split(lengths)
        nowhere = torch.empty(0, dtype=torch.int64)
        return {
            name: QuantizedLayer(
                split["codes"][k].view(m, n), split["scales"][k].view(m, -1), split["zeros"][k].view(m, -1), nowhere
            )
            for k, (name, (m, n)) in enumerate(shapes.items())
        }


def _rms_norm(x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    return x * torch.rsqrt(x.square().mean(dim=-1, keepdim=True) + 1e-6) * weight


def _rotary(x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
    """Turn pairs of coordinates, k and k + half, by an angle that grows with the place (Su et al., arXiv:2104.09864)."""
    one, other = x.chunk(2, dim=-1)
    return torch.cat([one * cos - other * sin, other * cos + one * sin], dim=-1)


def _check_model(problem: ModelProblem) -> None:
    name = problem.name
    if problem.width % (2 * problem.heads) or min(problem.width, problem.blocks, problem.heads, problem.hidden) < 1:
        raise BadInput(
            f"{name}: width {problem.width} and {problem.heads} heads; each head needs an even part of the width"
        )
    count = sum(math.prod(shape) for shape in problem.shapes().values())
    if tuple(problem.parameters.shape) != (count,) or problem.parameters.dtype not in (torch.float64, torch.float32):
        kind = f"{problem.parameters.dtype} of shape {tuple(problem.parameters.shape)}"
        raise BadInput(f"{name}: parameters are {kind}; they must be float64 or float32 of shape ({count},)")
    if not torch.isfinite(problem.parameters).all():
        where = next(part for part, values in problem.parts().items() if not torch.isfinite(values).all())
        raise BadInput(f"{name}: {where} holds NaN or infinity; the model was broken before it was quantized")
    for field in ("calibration", "held_out"):
        tokens = getattr(problem, field)
        if tokens.dtype != torch.int64 or tokens.dim() != 2 or not len(tokens) or tokens.shape[1] < 2:
            raise BadInput(
                f"{name}: {field} must be int64 of shape (sequences, tokens), two tokens or more of at least one"
            )
        if tokens.min() < 0 or tokens.max() >= VOCABULARY:
            raise BadInput(f"{name}: {field} holds a token outside 0..{VOCABULARY - 1}")
    columns = {layer: n for layer, (_, n) in problem.linears().items()}
    check_grid(name, problem.bits, problem.group_size, problem.symmetric, columns)
