"""A whole language model, with text to calibrate on and to be judged by."""

import dataclasses
import math
import re
import typing
from collections.abc import Callable, Iterable, Mapping

import numpy as np
import torch

from breakeven.contract import BadInput
from breakeven.problems import Problem, Solution, Wrong
from breakeven.problems.quantization.byte_model import ByteModel
from breakeven.problems.quantization.causal_lm import CausalLM
from breakeven.problems.quantization.grid import (
    QuantizedLayer,
    bits_of_grid,
    bits_per_weight,
    check_grid,
    check_layer,
    dequantized,
)
from breakeven.problems.quantization.layer import LayerProblem

_ENTRIES = 1 << 23  # of logits that are judged at a time, and at least one sequence's


@dataclasses.dataclass(frozen=True)
class ModelProblem(Problem):
    """A causal language model, whose linear layers but the last are to be quantized, with text to calibrate on.

    ``architecture`` says what is computed: the built-in `ByteModel`, or with `CausalLM` any model of transformers.
    ``parameters`` is one floating-point tensor that `parts` names. Text is int64 tokens.

    Raises `BadInput` for sizes that do not fit, parameters that are not finite, no text, and group sizes that do not divide.
    """

    name: str
    parameters: torch.Tensor  # (P,)
    calibration: torch.Tensor  # (s, t) int64
    held_out: torch.Tensor  # (h, u) int64
    architecture: ByteModel | CausalLM
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

    def parts(self) -> dict[str, torch.Tensor]:
        """Views of the parameters by name."""
        shapes = self.architecture.shapes()
        split = self.parameters.split([math.prod(shape) for shape in shapes.values()])
        return {name: part.view(shape) for (name, shape), part in zip(shapes.items(), split, strict=True)}

    def weights(self) -> dict[str, torch.Tensor]:
        """Views (m, n) of what is quantized, in the order of a solution's codes."""
        parts = self.parts()
        found = self.architecture.linears().items()
        return {name: parts[part].T if transposed else parts[part] for name, (part, transposed) in found}

    def linears(self) -> dict[str, tuple[int, int]]:
        """Shapes of what is quantized, (outputs, inputs)."""
        shapes = self.architecture.shapes()
        found = self.architecture.linears().items()
        return {name: shapes[part][::-1] if transposed else shapes[part] for name, (part, transposed) in found}

    def blocks(self) -> list[list[str]]:
        """Names of layers that belong to one block, which is what stands up to the first number in them."""
        blocks: dict[str, list[str]] = {}
        for name in self.linears():
            found = re.match(r"\D*\d+", name)
            blocks.setdefault(found.group() if found else name, []).append(name)
        return list(blocks.values())

    def logits(self, tokens: torch.Tensor, observe: Callable | None = None) -> torch.Tensor:
        """(s, t, vocabulary) of (s, t) tokens.

        Args:
            observe: hears the name, the input and the output of every layer that is to be quantized.
        """
        return self.architecture.logits(self.parts(), tokens, observe)

    def recorded(
        self, names: typing.Collection[str], tokens: torch.Tensor, seed: int = 0
    ) -> dict[str, tuple[torch.Tensor, torch.Tensor]]:
        """Inputs (s, t, n) of layers and gradients (s, t, m) at their outputs; see `recorded`."""
        shapes = {name: shape for name, shape in self.linears().items() if name in names}
        return recorded(self.logits, shapes, tokens.split(self.architecture.at_once), seed)

    def layers(self, names: typing.Collection[str], *, held_out: bool = False) -> dict[str, LayerProblem]:
        """Problems of single layers with all their calibration data; with the judge's as well where these are to be judged."""
        weights, calibration = self.weights(), self.recorded(names, self.calibration)
        held = self.recorded(names, self.held_out, seed=1) if held_out else {}
        return {
            name: LayerProblem.of(
                f"{self.name}_{name}", weights[name], bits=self.bits, group_size=self.group_size, symmetric=self.symmetric,
                inputs=calibration[name][0], gradients=calibration[name][1], held_out=held.get(name),
            )
            for name in names
        }  # fmt: skip

    def with_weights(self, weights: Mapping[str, torch.Tensor]) -> typing.Self:
        """The model with other weights in some of its layers."""
        changed = dataclasses.replace(self, parameters=self.parameters.clone())
        views = changed.weights()
        for name, weight in weights.items():
            views[name].copy_(weight)
        return changed

    def judge(self, solution: "QuantizedModel") -> dict[str, float]:
        """Dequantize, and compare what both models predict of the held-out text, in float64.

        - ``kl``: the mean over tokens of the divergence ``KL(original || quantized)`` of the next token, in nats.
        - ``kl_error``: the half-width of its 95 % bootstrap interval over sequences.
        - ``perplexity`` and ``perplexity_before``: per token of the text.
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
        changed = dataclasses.replace(original, parameters=original.parameters.clone())
        views = changed.weights()
        for name, layer in layers.items():  # one at a time: a model may fill the memory
            views[name].copy_(torch.from_numpy(dequantized(layer)))
        divergence, likelihood, agreement = [], [], []
        at_once = max(1, _ENTRIES // (self.held_out.shape[1] * self.architecture.vocabulary))
        with torch.no_grad():
            for some in original.held_out.split(min(at_once, 16)):
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
            tokens = [torch.from_numpy(rng.integers(0, 256, (s, 6))) for s in (sequences, 3)]
            architecture = ByteModel(width=8, blocks=blocks, heads=2, hidden=16)
            count = sum(math.prod(shape) for shape in architecture.shapes().values())
            parameters = torch.from_numpy(rng.standard_normal(count))
            return cls(name, parameters, *tokens, architecture, bits, 8, symmetric)

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


def recorded(
    forward: Callable, shapes: Mapping[str, tuple[int, int]], batches: Iterable[torch.Tensor], seed: int
) -> dict[str, tuple[torch.Tensor, torch.Tensor]]:
    """Inputs (s, t, n) of layers and gradients (s, t, m) at their outputs, of the log-likelihood of tokens that the model
    itself draws: those of the Fisher information, not of the text's own tokens.

    Args:
        forward: logits of (s, t) tokens; it shows ``observe`` what layers see and answer, as `ModelProblem.logits` does.
        shapes: of the layers that are wanted, (m, n).
        batches: sequences, (s, t) each; one at a time where a layer may see a part of a sequence only, as experts do.
            Shorter ones end in zeros.
        seed: of the drawn tokens.
    """
    kept = {name: ([], []) for name in shapes}
    generator = torch.Generator().manual_seed(seed)
    for tokens in batches:
        seen = {name: [] for name in shapes}

        def observe(name, x, y, seen=seen):
            if name in seen:
                if not y.requires_grad:
                    y.requires_grad_()
                y.retain_grad()
                seen[name].append((x.detach(), y))

        with torch.enable_grad():
            logits = forward(tokens, observe).flatten(0, 1)
            drawn = torch.multinomial(logits.detach().softmax(dim=1), 1, generator=generator)
            if logits.requires_grad:  # else no layer of these saw any token, as it may be with experts
                torch.nn.functional.cross_entropy(logits, drawn[:, 0], reduction="sum").backward()
        for name, (m, n) in shapes.items():
            s, (xs, gs) = len(tokens), kept[name]
            x = [x.reshape(s, -1, n).to(logits.dtype) for x, _ in seen[name]]
            g = [(torch.zeros_like(y) if y.grad is None else y.grad).reshape(s, -1, m).to(x[0]) for _, y in seen[name]]
            xs.extend(torch.cat(x, dim=1) if x else logits.new_zeros(s, 0, n).detach())
            gs.extend(torch.cat(g, dim=1) if g else logits.new_zeros(s, 0, m).detach())
    return {name: tuple(torch.nn.utils.rnn.pad_sequence(part, True) for part in both) for name, both in kept.items()}


def _check_model(problem: ModelProblem) -> None:
    name, vocabulary = problem.name, problem.architecture.vocabulary
    count = sum(math.prod(shape) for shape in problem.architecture.shapes().values())
    if tuple(problem.parameters.shape) != (count,) or problem.parameters.dtype not in (torch.float64, torch.float32):
        kind = f"{problem.parameters.dtype} of shape {tuple(problem.parameters.shape)}"
        raise BadInput(f"{name}: parameters are {kind}; they must be float64 or float32 of shape ({count},)")
    # Both ends tell, and take no copy of a large model as `isfinite` does.
    if not all(map(math.isfinite, problem.parameters.detach().aminmax())):
        where = next(part for part, values in problem.parts().items() if not torch.isfinite(values).all())
        raise BadInput(f"{name}: {where} holds NaN or infinity; the model was broken before it was quantized")
    for field in ("calibration", "held_out"):
        tokens = getattr(problem, field)
        if tokens.dtype != torch.int64 or tokens.dim() != 2 or not len(tokens) or tokens.shape[1] < 2:
            raise BadInput(
                f"{name}: {field} must be int64 of shape (sequences, tokens), two tokens or more of at least one"
            )
        if tokens.min() < 0 or tokens.max() >= vocabulary:
            raise BadInput(f"{name}: {field} holds a token outside 0..{vocabulary - 1}")
    columns = {layer: n for layer, (_, n) in problem.linears().items()}
    check_grid(name, problem.bits, problem.group_size, problem.symmetric, columns)
