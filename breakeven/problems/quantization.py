"""Rounding the weights of a linear layer to few bits: problems, quantized layers, and how they are judged.

A layer computes ``y = W x`` with a weight W of m rows (outputs) and n columns (inputs). A quantized weight is
``Q_ij = scale * (code_ij - zero)``, where a scale and a zero are shared by a row's group of columns, and ``E = W - Q`` is its
error. To second order, what E costs the whole network is ``<E, G_s>^2`` in the mean over sequences s, where
``G_s = sum over tokens t of g_t x_t^T`` is the gradient of the log-likelihood of tokens drawn from the network itself, with
respect to W (the Fisher information). Its approximation by a Kronecker product is ``tr(H_O E H_I E^T)``; with ``H_O = I`` and
``H_I = E[x x^T]`` it is the mean squared error of the layer's output, which GPTQ minimises (Frantar et al., arXiv:2210.17323;
Tseng, Sun and De Sa, arXiv:2505.22988).
"""

import dataclasses
import math
import typing
from collections.abc import Mapping

import numpy as np
import torch

from breakeven.contract import BadInput
from breakeven.problems import Problem, Solution, Wrong

SCALE_BITS = 16
"""What a scale, or a zero that is no code, takes: half precision, in which all common formats keep them."""

DAMPING = 0.01  # of the mean diagonal, in the reference rounding: GPTQ's published default

VOCABULARY = 256  # bytes

_BLOCK = 128  # columns
_SEQUENCES = 16  # at a time


@dataclasses.dataclass(frozen=True)
class LayerProblem(Problem):
    """A weight to be quantized, with what is known of its inputs and of the gradients at its outputs.

    ``input_hessian`` and ``output_hessian`` are what a method may round by; their scale does not matter. Where calibration
    sequences are known, ``inputs`` and ``gradients`` hold them, s sequences of t tokens, and the two factors are their
    ``E[x x^T]`` and ``E[G_s G_s^T]``; where they are not, s is 0. ``held_*`` are for the judge alone: sequences, or the factors
    that errors are truly weighted by; both may be missing. All floating-point tensors share one device and dtype, float64
    or float32. `LayerProblem.of` makes one of what is known.

    Raises `BadInput` for shapes that do not fit, values that are not finite, a group size that does not divide n, Hessians that
    are not symmetric, all zero, or cannot be positive semidefinite.
    """

    name: str
    weight: torch.Tensor  # (m, n)
    input_hessian: torch.Tensor  # (n, n)
    output_hessian: torch.Tensor  # (m, m)
    inputs: torch.Tensor  # (s, t, n)
    gradients: torch.Tensor  # (s, t, m)
    held_inputs: torch.Tensor  # (h, u, n)
    held_gradients: torch.Tensor  # (h, u, m)
    held_input_hessian: torch.Tensor  # (n, n) or (0, 0)
    held_output_hessian: torch.Tensor  # (m, m) or (0, 0)
    bits: int  # 1 to 8
    group_size: int  # columns that share a scale; n for one scale per row
    symmetric: bool  # whether one zero serves the whole layer
    reference_loss: float  # the held-out loss of a plain GPTQ, NaN where it is not known

    def __post_init__(self):
        _check(self)

    def features(self) -> Mapping[str, float | str]:
        m, n = self.weight.shape
        return {
            "name": self.name, "rows": m, "columns": n, "bits": self.bits, "group_size": self.group_size,
            "grid": "symmetric" if self.symmetric else "asymmetric", "sequences": len(self.inputs),
        }  # fmt: skip

    def judge(self, solution: "QuantizedLayer") -> dict[str, float]:
        """Dequantize and measure in float64.

        - ``input_loss``: ``tr(E H E^T) / tr(W H W^T)`` with the input Hessian: the layer's relative squared error on the
          calibration data.
        - ``two_sided_loss``: ``tr(H_O E H_I E^T)`` with both calibration factors, relative to an error of the size of W without
          direction, ``|W|^2 tr(H_O) tr(H_I) / (m n)``.
        - ``held_out_loss``: the mean of ``<E, G_s>^2`` over held-out sequences, or ``tr(H_O E H_I E^T)`` of the held-out factors,
          relative in the same way, ``|W|^2 E|G_s|^2 / (m n)``; NaN where nothing is held out.
        - ``held_out_loss_error``: the half-width of its 95 % interval over sequences; 0 for factors.
        - ``excess_loss``: how far the held-out loss lies above the reference, relative to that; negative where it is better.
        - ``clip_rate``: the share of weights that lie more than half a step outside of their group's grid.
        - ``bits_per_weight``: with all that is stored: scales of 16 bits; zeros of as many as a code, of 16 where they are no
          codes, of none where one zero serves the whole layer; the columns' order where there is one.
        - ``excess_bits``: how many of these are more than the problem's grid takes.
        """
        _check_answer(self, solution)
        weight = _float64(self.weight)
        scales, zeros = (_of_columns(solution, part) for part in (solution.scales, solution.zeros))
        codes = solution.codes.cpu().numpy().astype(np.float64)
        error = weight - scales * (codes - zeros)
        top = 2**self.bits - 1
        outside = (weight < scales * (-zeros - 0.5)) | (weight > scales * (top - zeros + 0.5))
        held_out, half_width = self._held_out_loss(error)
        bits = _bits_per_weight(solution, self.bits)
        hessian = _float64(self.input_hessian)
        return {
            "input_loss": _relative(_quadratic(error, hessian), _quadratic(weight, hessian)),
            "two_sided_loss": _relative(*self._two_sided(error, self.output_hessian, self.input_hessian)),
            "held_out_loss": held_out,
            "held_out_loss_error": half_width,
            "excess_loss": _excess(held_out, self.reference_loss),
            "clip_rate": float(outside.mean()),
            "bits_per_weight": bits,
            "excess_bits": bits - _bits_of_grid(self.bits, self.group_size, self.symmetric),
        }

    def held_out_loss(self, error: np.ndarray) -> float:
        """What an (m, n) error of the weight costs on held-out data; see `judge`."""
        return self._held_out_loss(np.asarray(error, np.float64))[0]

    def with_reference(self) -> typing.Self:
        """The problem with the held-out loss of `reference_rounding` as what is compared with."""
        answer = reference_rounding(self)
        error = _float64(self.weight) - dequantized(answer)
        return dataclasses.replace(self, reference_loss=self.held_out_loss(error))

    def _two_sided(self, error: np.ndarray, output_hessian: torch.Tensor, input_hessian: torch.Tensor):
        """``tr(H_O E H_I E^T)``, and what it would be for an error of the size of W without direction."""
        h_o, h_i = _float64(output_hessian), _float64(input_hessian)
        loss = np.vdot(h_o @ error, error @ h_i)
        return loss, (_float64(self.weight) ** 2).sum() * h_o.trace() * h_i.trace() / error.size

    def _held_out_loss(self, error: np.ndarray) -> tuple[float, float]:
        if len(self.held_inputs):
            products, squares = [], []
            for x, g in zip(self.held_inputs, self.held_gradients, strict=True):
                x, g = _float64(x), _float64(g)
                products.append(np.vdot(x @ error.T, g))
                squares.append(np.vdot(x @ x.T, g @ g.T))
            products = np.square(products)
            size = (_float64(self.weight) ** 2).sum() * np.mean(squares) / error.size
            half_width = 1.96 * products.std(ddof=1) / math.sqrt(len(products)) if len(products) > 1 else math.inf
            return _relative(products.mean(), size), _relative(half_width, size)
        if len(self.held_input_hessian):
            return _relative(*self._two_sided(error, self.held_output_hessian, self.held_input_hessian)), 0.0
        return math.nan, math.nan

    @classmethod
    def of(
        cls,
        name: str,
        weight,
        *,
        bits: int,
        group_size: int | None = None,
        symmetric: bool = True,
        input_hessian=None,
        output_hessian=None,
        inputs=None,
        gradients=None,
        mask=None,
        held_out=None,
        held_out_mask=None,
        held_out_factors=None,
        reference_loss: float = math.nan,
    ) -> typing.Self:
        """A problem of what is known of a layer; everything is given as what torch can make a tensor of.

        Args:
            weight: (m, n), whose dtype the problem has; float64 for anything but float32.
            group_size: None for one scale per row.
            input_hessian: (n, n), or None for that of the inputs.
            output_hessian: (m, m), or None for that of the inputs and gradients, or the identity where there are no gradients.
            inputs: (s, t, n) calibration activations.
            gradients: (s, t, m) gradients of the log-likelihood at the same tokens; all zero where they are not given.
            mask: (s, t) of what is a token and what is padding, which is left out of everything.
            held_out: inputs and gradients of other sequences, for the judge, (h, u, n) and (h, u, m), with
            held_out_mask: (h, u), as ``mask``, where these are padded; or
            held_out_factors: the factors that errors are truly weighted by, (n, n) and (m, m).

        Raises:
            BadInput: as the class does, for a Hessian with a negative eigenvalue, bits or a group size that are no whole numbers,
                and where there is no calibration data at all.
        """
        weight = torch.as_tensor(weight)
        dtype = weight.dtype if weight.dtype == torch.float32 else torch.float64

        def tensor(values, *shape):
            return torch.zeros(shape, dtype=dtype) if values is None else torch.as_tensor(values).to(dtype).contiguous()

        weight = weight.to(dtype).contiguous()
        if weight.dim() != 2 or 0 in weight.shape:
            raise BadInput(f"{name}: weight has shape {tuple(weight.shape)}; give (outputs, inputs)")
        m, n = weight.shape
        if inputs is None and input_hessian is None:
            raise BadInput(f"{name}: neither an input Hessian nor calibration inputs; give one of the two")
        x = tensor(inputs, 0, 0, n)
        g = tensor(gradients, *x.shape[:2], m)
        if mask is not None:
            x, g = _without_padding(name, "mask", mask, x, g)
        _check_samples(name, "inputs", x, "gradients", g, n, m)
        given = {"input_hessian": input_hessian, "output_hessian": output_hessian}
        if input_hessian is None:
            if not x.numel():
                raise BadInput(f"{name}: no calibration tokens; give inputs of shape (sequences, tokens, {n})")
            input_hessian = _second_moments(x)
        if output_hessian is None:
            output_hessian = _output_factor(x, g) if g.numel() and g.any() else torch.eye(m)
        held_x, held_g = held_out or (None, None)
        held_x, held_g = tensor(held_x, 0, 0, n), tensor(held_g, 0, 0, m)
        if held_out_mask is not None:
            held_x, held_g = _without_padding(name, "held_out_mask", held_out_mask, held_x, held_g)
        held_i, held_o = held_out_factors or (None, None)
        group_size = n if group_size is None else group_size
        _check_grid(name, bits, group_size, symmetric, {name: n})
        problem = cls(
            name, weight, tensor(input_hessian), tensor(output_hessian), x, g, held_x, held_g,
            tensor(held_i, 0, 0), tensor(held_o, 0, 0), int(bits), int(group_size), bool(symmetric), float(reference_loss),
        )  # fmt: skip
        for which in (name for name, hessian in given.items() if hessian is not None):
            _check_semidefinite(problem.name, which, getattr(problem, which))
        return problem

    @classmethod
    def probes(cls) -> Mapping[str, typing.Self]:
        """Their ``reference_loss`` is that of no layer at all, W = 0: no method promises more on any problem."""
        rng = np.random.default_rng(0)

        def spectrum(size, decay):
            axes = np.linalg.qr(rng.standard_normal((size, size)))[0]
            return axes * np.arange(1.0, size + 1) ** -decay @ axes.T

        weight = rng.standard_normal((12, 16))
        outliers = weight.copy()
        outliers[3, 5], outliers[7, 0] = 9.0, -7.0
        dead, silent = spectrum(16, 1.0), weight.copy()
        dead[:, 2] = dead[2] = 0.0
        silent[4] = 0.0
        thin = rng.standard_normal((16, 5))
        x, g = rng.standard_normal((24, 6, 16)) @ spectrum(16, 1.0), rng.standard_normal((24, 6, 12))
        held = x[12:], g[12:]
        i16, o12 = spectrum(16, 1.0), spectrum(12, 1.5)
        made = {
            "isotropic": cls.of("isotropic", weight, bits=3, input_hessian=np.eye(16)),
            "power_law": cls.of("power_law", weight, bits=3, group_size=8, input_hessian=i16, output_hessian=o12),
            "two_bits": cls.of("two_bits", weight, bits=2, group_size=4, input_hessian=i16, output_hessian=o12),
            "asymmetric": cls.of("asymmetric", weight + 1, bits=4, group_size=8, symmetric=False, input_hessian=i16),
            "eight_bits": cls.of("eight_bits", 1e-3 * weight, bits=8, input_hessian=1e6 * i16),
            "outliers": cls.of("outliers", outliers, bits=3, group_size=16, input_hessian=i16, output_hessian=o12),
            "dead_column": cls.of("dead_column", weight, bits=3, group_size=8, input_hessian=dead),
            "row_of_zeros": cls.of("row_of_zeros", silent, bits=2, group_size=8, input_hessian=i16),
            "weight_of_zeros": cls.of("weight_of_zeros", 0 * weight, bits=2, input_hessian=i16),
            "singular": cls.of("singular", weight, bits=3, group_size=8, input_hessian=thin @ thin.T),
            "one_output": cls.of("one_output", weight[:1], bits=4, group_size=8, input_hessian=i16),
            "one_input": cls.of("one_input", weight[:, :1], bits=4, group_size=1, input_hessian=np.eye(1)),
            "one_weight": cls.of("one_weight", [[0.7]], bits=3, input_hessian=[[2.0]]),
            "samples": cls.of(
                "samples", weight, bits=3, group_size=8, inputs=x[:12], gradients=g[:12], held_out=held
            ),
            "one_sequence": cls.of("one_sequence", weight, bits=3, inputs=x[:1], gradients=g[:1], held_out=held),
            "no_gradients": cls.of("no_gradients", weight, bits=3, inputs=x[:12], held_out=held),
        }  # fmt: skip
        return {name: problem._judged_by_nothing() for name, problem in made.items()}

    def _judged_by_nothing(self) -> typing.Self:
        factors = {} if len(self.held_inputs) else {
            "held_input_hessian": self.input_hessian, "held_output_hessian": self.output_hessian,
        }  # fmt: skip
        problem = dataclasses.replace(self, **factors)
        return dataclasses.replace(problem, reference_loss=problem.held_out_loss(_float64(self.weight)))


@dataclasses.dataclass(frozen=True)
class QuantizedLayer(Solution):
    """Codes on a grid: ``Q_ij = scales[i, k] * (codes[i, j] - zeros[i, k])`` with ``k = place of j // group_size``.

    The place of a column is itself, or where ``permutation`` has it: groups are runs of ``group_size`` of its entries.
    A group may have the scale 0, and is 0 then.
    """

    codes: torch.Tensor  # (m, n) uint8, less than 2^bits
    scales: torch.Tensor  # (m, n / group_size), not negative
    zeros: torch.Tensor  # (m, n / group_size)
    permutation: torch.Tensor  # (n,) int64, or (0,) where groups are of neighbours

    def claims(self) -> Mapping[str, float | str]:
        return {}


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
                _check_layer(layer, self.linears()[name], self.bits, self.group_size, self.symmetric)
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
        bits = float(np.average([_bits_per_weight(layer, self.bits) for layer in layers.values()], weights=sizes))
        return {
            "kl": max(0.0, float(divergence.mean())),
            "kl_error": float(np.ptp(np.quantile(means, [0.025, 0.975])) / 2),
            "perplexity": float((-after).exp()),
            "perplexity_before": float((-before).exp()),
            "agreement": float(torch.cat(agreement).mean()),
            "bits_per_weight": bits,
            "excess_bits": bits - _bits_of_grid(self.bits, self.group_size, self.symmetric),
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


def dequantized(layer: QuantizedLayer) -> np.ndarray:
    """The (m, n) weight of a quantized layer in float64."""
    scales, zeros = (_of_columns(layer, part) for part in (layer.scales, layer.zeros))
    return scales * (layer.codes.cpu().numpy() - zeros)


def reference_rounding(problem: LayerProblem) -> QuantizedLayer:
    """A plain GPTQ in NumPy and float64, as a yardstick: first column to last, grids from each group's smallest and largest
    weight, damping of 1 % of the mean diagonal.

    By the form of it that needs no inverse: with ``J H J = L D L^T``, J the reversal, each column is rounded from
    ``w_j + sum over earlier k of (w_k - q_k) L_kj`` (Chee et al., arXiv:2307.13304, section 4; equal to GPTQ by their theorem 6).
    """
    weight = _float64(problem.weight)[:, ::-1]
    m, n = weight.shape
    hessian = _float64(problem.input_hessian)[::-1, ::-1]
    damped = hessian + DAMPING * hessian.trace() / n * np.eye(n)
    lower = np.linalg.cholesky(damped)
    lower /= lower.diagonal()
    scales, zeros = min_max_grid(_float64(problem.weight), problem.bits, problem.group_size, problem.symmetric)
    steps, shifts = (np.repeat(part, problem.group_size, axis=1)[:, ::-1] for part in (scales, zeros))
    codes, error = np.zeros((m, n)), np.zeros((m, n))
    for stop in range(n, 0, -_BLOCK):
        start = max(0, stop - _BLOCK)
        target = weight[:, start:stop] + error[:, stop:] @ lower[stop:, start:stop]
        for j in range(stop - 1, start - 1, -1):
            code = np.rint(_quotient(target[:, j - start], steps[:, j]) + shifts[:, j])
            codes[:, j] = code.clip(0, 2**problem.bits - 1)
            error[:, j] = weight[:, j] - steps[:, j] * (codes[:, j] - shifts[:, j])
            target[:, : j - start] += np.outer(error[:, j], lower[j, start:j])
    dtype = problem.weight.dtype
    return QuantizedLayer(
        torch.from_numpy(codes[:, ::-1].astype(np.uint8)), torch.as_tensor(scales, dtype=dtype),
        torch.as_tensor(zeros, dtype=dtype), torch.empty(0, dtype=torch.int64),
    )  # fmt: skip


def min_max_grid(weight: np.ndarray, bits: int, group_size: int, symmetric: bool) -> tuple[np.ndarray, np.ndarray]:
    """Scales and zeros, (m, n / group_size) each, that reach each group's smallest and largest weight.

    A symmetric grid has no level at 0 but as many on either side: its zero is ``(2^bits - 1) / 2``. An asymmetric one has
    0 among its levels, and so a range that holds it.
    """
    groups = weight.reshape(len(weight), -1, group_size)
    top = 2**bits - 1
    if symmetric:
        scales = np.abs(groups).max(axis=2) * (2 / top)
        return scales, np.full_like(scales, top / 2)
    low, high = np.minimum(groups.min(axis=2), 0), np.maximum(groups.max(axis=2), 0)
    scales = (high - low) / top
    return scales, np.rint(_quotient(-low, scales)).clip(0, top)


def check_group_size(group_size: int, columns: Mapping[str, int]) -> None:
    """Raise `BadInput` where a group size does not divide the number of columns of some layers, and name them."""
    wrong = [f"{name} ({n})" for name, n in columns.items() if not 1 <= group_size <= n or n % group_size]
    if wrong:
        common = math.gcd(*columns.values())
        more = f" and {len(wrong) - 5} more" if len(wrong) > 5 else ""
        raise BadInput(
            f"group size {group_size} does not divide the number of columns of {', '.join(wrong[:5])}{more}; "
            f"divisors of {common} fit every layer"
        )


def _bits_of_grid(bits: int, group_size: int, symmetric: bool) -> float:
    """Per weight, with a scale for every group, and a zero where zeros differ."""
    return bits + (SCALE_BITS + (0 if symmetric else bits)) / group_size


def _bits_per_weight(layer: QuantizedLayer, bits: int) -> float:
    zeros = layer.zeros.double()
    of_zeros = SCALE_BITS
    if (zeros == zeros.flatten()[0]).all():
        of_zeros = 0
    elif ((zeros == zeros.round()) & (zeros >= 0) & (zeros < 2**bits)).all():
        of_zeros = bits
    m, n = layer.codes.shape
    of_order = math.ceil(math.log2(n)) / m if len(layer.permutation) and n > 1 else 0.0
    return bits + (SCALE_BITS + of_zeros) / (n // layer.scales.shape[1]) + of_order


def _quotient(values: np.ndarray, steps: np.ndarray) -> np.ndarray:
    return np.divide(values, steps, out=np.zeros_like(values), where=steps > 0)


def _of_columns(layer: QuantizedLayer, part: torch.Tensor) -> np.ndarray:
    """A part of the grid, (m, groups), for every column: (m, n)."""
    n = layer.codes.shape[1]
    group = np.arange(n) // max(1, n // max(1, part.shape[1]))
    if len(layer.permutation):
        group[layer.permutation.cpu().numpy()] = group.copy()
    return _float64(part)[:, group]


def _quadratic(error: np.ndarray, hessian: np.ndarray) -> float:
    return float(np.vdot(error @ hessian, error))


def _relative(loss: float, size: float) -> float:
    """Sums of products may end a little below the zero that they are."""
    loss = max(0.0, float(loss))
    if not loss:
        return 0.0
    return float(loss / size) if size > 0 else math.inf


def _excess(loss: float, reference: float) -> float:
    if loss == reference == 0:
        return 0.0
    return loss / reference - 1 if reference else math.inf


def _second_moments(x: torch.Tensor) -> torch.Tensor:
    """``E[x x^T]`` over tokens that are not padding, (n, n); of each sequence in its dtype, summed in float64."""
    total = torch.zeros(x.shape[2], x.shape[2], dtype=torch.float64)
    for inputs in x:
        total += inputs.T @ inputs
    return (total + total.T) / (2 * max(1, int((x != 0).any(dim=2).sum())))


def _output_factor(x: torch.Tensor, g: torch.Tensor) -> torch.Tensor:
    """``E[G_s G_s^T]``, (m, m), without any G_s: ``G G^T = g^T (x x^T) g`` for the tokens of a sequence; summed in float64."""
    total = torch.zeros(g.shape[2], g.shape[2], dtype=torch.float64)
    for inputs, gradients in zip(x, g, strict=True):
        total += gradients.T @ (inputs @ inputs.T) @ gradients
    return (total + total.T) / (2 * len(x))


def _rms_norm(x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    return x * torch.rsqrt(x.square().mean(dim=-1, keepdim=True) + 1e-6) * weight


def _rotary(x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
    """Turn pairs of coordinates, k and k + half, by an angle that grows with the place (Su et al., arXiv:2104.09864)."""
    one, other = x.chunk(2, dim=-1)
    return torch.cat([one * cos - other * sin, other * cos + one * sin], dim=-1)


def _float64(tensor: torch.Tensor) -> np.ndarray:
    return tensor.detach().to("cpu", torch.float64).numpy()


def _check(problem: LayerProblem) -> None:
    name, weight = problem.name, problem.weight
    for field, value in problem.tensors().items():
        if value.dtype not in (torch.float64, torch.float32):
            raise BadInput(f"{name}: {field} is {value.dtype}; give a float64 or float32 tensor")
        if value.dtype != weight.dtype or value.device != weight.device:
            raise BadInput(
                f"{name}: {field} is {value.dtype} on {value.device}, weight is not; use one dtype and device"
            )
    if weight.dim() != 2 or 0 in weight.shape:
        raise BadInput(f"{name}: weight has shape {tuple(weight.shape)}; give (outputs, inputs)")
    if not torch.isfinite(weight).all():
        i, j = (~torch.isfinite(weight)).nonzero()[0].tolist()
        raise BadInput(
            f"{name}: weight[{i}, {j}] is {float(weight[i, j])}; the model was broken before it was quantized"
        )
    m, n = weight.shape
    _check_grid(name, problem.bits, problem.group_size, problem.symmetric, {name: n})
    _check_hessian(name, "input_hessian", problem.input_hessian, n)
    _check_hessian(name, "output_hessian", problem.output_hessian, m)
    if len(problem.held_input_hessian) or len(problem.held_output_hessian):
        _check_hessian(name, "held_input_hessian", problem.held_input_hessian, n)
        _check_hessian(name, "held_output_hessian", problem.held_output_hessian, m)
    _check_samples(name, "inputs", problem.inputs, "gradients", problem.gradients, n, m)
    _check_samples(name, "held_inputs", problem.held_inputs, "held_gradients", problem.held_gradients, n, m)


def _check_grid(name: str, bits, group_size, symmetric, columns: Mapping[str, int]) -> None:
    for field, value in (("bits", bits), ("group_size", group_size)):
        if isinstance(value, bool) or not isinstance(value, (int, np.integer)):
            raise BadInput(f"{name}: {field} is {value!r}; give a whole number")
    if not isinstance(symmetric, (bool, np.bool_)):
        raise BadInput(f"{name}: symmetric is {symmetric!r}; give True or False")
    if not 1 <= bits <= 8:
        raise BadInput(f"{name}: {bits} bits; codes have 1 to 8")
    check_group_size(group_size, columns)


def _check_hessian(name: str, field: str, hessian: torch.Tensor, size: int) -> None:
    if tuple(hessian.shape) != (size, size):
        raise BadInput(f"{name}: {field} has shape {tuple(hessian.shape)}; it must be ({size}, {size})")
    if not torch.isfinite(hessian).all():
        i, j = (~torch.isfinite(hessian)).nonzero()[0].tolist()
        raise BadInput(
            f"{name}: {field}[{i}, {j}] is {float(hessian[i, j])}; calibration overflowed: accumulate it in float32 or wider"
        )
    diagonal = hessian.diagonal()
    if not diagonal.any():
        raise BadInput(
            f"{name}: {field} is all zero: calibration has not reached this layer (an expert that no token was sent to?); "
            "calibrate on more text, or give the identity to round to nearest"
        )
    if (diagonal < 0).any():
        j = int((diagonal < 0).nonzero()[0])
        raise BadInput(
            f"{name}: {field}[{j}, {j}] is {float(diagonal[j]):g}; second moments are not negative: what was accumulated?"
        )
    slack = float(torch.finfo(hessian.dtype).eps) * 64 * float(diagonal.max())
    apart = (hessian - hessian.T).abs()
    if apart.max() > slack:
        i, j = divmod(int(apart.argmax()), size)
        raise BadInput(f"{name}: {field} is not symmetric at [{i}, {j}]; a factor, or half of a matrix, was given")
    roots = diagonal.sqrt()
    beyond = hessian.abs() - torch.outer(roots, roots)
    if beyond.max() > slack:
        i, j = divmod(int(beyond.argmax()), size)
        raise BadInput(f"{name}: {field} is indefinite: |H_ij| exceeds sqrt(H_ii H_jj) at [{i}, {j}]")


def _check_semidefinite(name: str, field: str, hessian: torch.Tensor) -> None:
    least = float(torch.linalg.eigvalsh(hessian.double())[0])
    mean = float(hessian.diagonal().double().mean())
    if least < -1e-3 * mean:
        raise BadInput(
            f"{name}: {field} is indefinite, with an eigenvalue of {least / mean:.2g} times its mean diagonal; "
            "a sum of x x^T has none below 0: accumulate it in float32 or wider"
        )


def _without_padding(
    name: str, field: str, mask, x: torch.Tensor, g: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    kept = torch.as_tensor(mask).bool()
    if not kept.shape == x.shape[:2] == g.shape[:2]:
        shapes = f"{tuple(x.shape)} and {tuple(g.shape)}"
        raise BadInput(
            f"{name}: {field} has shape {tuple(kept.shape)}, inputs and gradients {shapes}; give (sequences, tokens)"
        )
    # Padding may hold anything, NaN too, which no multiplication by zero removes.
    return torch.where(kept[..., None], x, 0.0), torch.where(kept[..., None], g, 0.0)


def _check_samples(name: str, one: str, x: torch.Tensor, other: str, g: torch.Tensor, n: int, m: int) -> None:
    for field, values, size in ((one, x, n), (other, g, m)):
        if values.dim() != 3 or values.shape[2] != size or values.shape[:2] != x.shape[:2]:
            raise BadInput(
                f"{name}: {field} has shape {tuple(values.shape)}; it must be (sequences, tokens, {size}), "
                f"{one} and {other} alike"
            )
        if not torch.isfinite(values).all():
            s, t, _ = (~torch.isfinite(values)).nonzero()[0].tolist()
            raise BadInput(
                f"{name}: {field} of sequence {s}, token {t} is NaN or infinite; mask padding out, or drop it"
            )


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
    _check_grid(name, problem.bits, problem.group_size, problem.symmetric, columns)


def _check_answer(problem: LayerProblem, layer: QuantizedLayer) -> None:
    if not isinstance(layer, QuantizedLayer):
        raise Wrong(f"a {type(layer).__name__} is no QuantizedLayer")
    _check_layer(layer, tuple(problem.weight.shape), problem.bits, problem.group_size, problem.symmetric)


def _check_layer(layer: QuantizedLayer, shape: tuple[int, int], bits: int, group_size: int, symmetric: bool) -> None:
    m, n = shape
    if len(layer.tensors()) != 4:
        raise Wrong("codes, scales, zeros and permutation must be tensors")
    for field, value in layer.tensors().items():
        shapes = {"codes": shape, "permutation": (n if len(layer.permutation) else 0,)}
        expected = shapes.get(field, (m, n // group_size))
        if tuple(value.shape) != expected:
            raise Wrong(f"{field} has shape {tuple(value.shape)}, not {expected}")
        kind = {"codes": torch.uint8, "permutation": torch.int64}.get(field)
        if value.dtype != kind if kind else not value.is_floating_point():
            raise Wrong(f"{field} is {value.dtype}, not {kind or 'floating point'}")
        if value.is_floating_point() and not torch.isfinite(value).all():
            raise Wrong(f"{field} has an entry that is NaN or infinite")
    if int(layer.codes.max()) >= 2**bits:
        raise Wrong(f"a code is {int(layer.codes.max())}, the largest of {bits} bits is {2**bits - 1}")
    if (layer.scales < 0).any():
        raise Wrong("a scale is negative")
    if symmetric and not (layer.zeros == layer.zeros.flatten()[0]).all():
        raise Wrong("zeros differ, where one zero must serve the whole layer")
    columns = torch.arange(n, device=layer.permutation.device)
    if len(layer.permutation) and not torch.equal(layer.permutation.sort().values, columns):
        raise Wrong("permutation does not hold every column once")
