"""One linear layer: what is known of its inputs and gradients, and what an error of its weight costs."""

import dataclasses
import math
import typing
from collections.abc import Mapping

import numpy as np
import torch

from breakeven.contract import BadInput
from breakeven.problems import Problem, Wrong
from breakeven.problems.quantization.grid import (
    QuantizedLayer,
    as_float64,
    bits_of_grid,
    bits_per_weight,
    check_grid,
    check_layer,
    dequantized,
    min_max_grid,
    of_columns,
    quotient,
)

DAMPING = 0.01  # of the mean diagonal, in the reference rounding: GPTQ's published default

_BLOCK = 128  # columns


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
        weight = as_float64(self.weight)
        scales, zeros = (of_columns(solution, part) for part in (solution.scales, solution.zeros))
        codes = solution.codes.cpu().numpy().astype(np.float64)
        error = weight - scales * (codes - zeros)
        top = 2**self.bits - 1
        outside = (weight < scales * (-zeros - 0.5)) | (weight > scales * (top - zeros + 0.5))
        held_out, half_width = self._held_out_loss(error)
        bits = bits_per_weight(solution, self.bits)
        hessian = as_float64(self.input_hessian)
        return {
            "input_loss": _relative(_quadratic(error, hessian), _quadratic(weight, hessian)),
            "two_sided_loss": _relative(*self._two_sided(error, self.output_hessian, self.input_hessian)),
            "held_out_loss": held_out,
            "held_out_loss_error": half_width,
            "excess_loss": _excess(held_out, self.reference_loss),
            "clip_rate": float(outside.mean()),
            "bits_per_weight": bits,
            "excess_bits": bits - bits_of_grid(self.bits, self.group_size, self.symmetric),
        }

    def held_out_loss(self, error: np.ndarray) -> float:
        """What an (m, n) error of the weight costs on held-out data; see `judge`."""
        return self._held_out_loss(np.asarray(error, np.float64))[0]

    def with_reference(self) -> typing.Self:
        """The problem with the held-out loss of `reference_rounding` as what is compared with."""
        answer = reference_rounding(self)
        error = as_float64(self.weight) - dequantized(answer)
        return dataclasses.replace(self, reference_loss=self.held_out_loss(error))

    def _two_sided(self, error: np.ndarray, output_hessian: torch.Tensor, input_hessian: torch.Tensor):
        """``tr(H_O E H_I E^T)``, and what it would be for an error of the size of W without direction."""
        h_o, h_i = as_float64(output_hessian), as_float64(input_hessian)
        loss = np.vdot(h_o @ error, error @ h_i)
        return loss, (as_float64(self.weight) ** 2).sum() * h_o.trace() * h_i.trace() / error.size

    def _held_out_loss(self, error: np.ndarray) -> tuple[float, float]:
        if len(self.held_inputs):
            products, squares = [], []
            for x, g in zip(self.held_inputs, self.held_gradients, strict=True):
                x, g = as_float64(x), as_float64(g)
                products.append(np.vdot(x @ error.T, g))
                squares.append(np.vdot(x @ x.T, g @ g.T))
            products = np.square(products)
            size = (as_float64(self.weight) ** 2).sum() * np.mean(squares) / error.size
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
        check_grid(name, bits, group_size, symmetric, {name: n})
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
        return dataclasses.replace(problem, reference_loss=problem.held_out_loss(as_float64(self.weight)))


def reference_rounding(problem: LayerProblem) -> QuantizedLayer:
    """A plain GPTQ in NumPy and float64, as a yardstick: first column to last, grids from each group's smallest and largest
    weight, damping of 1 % of the mean diagonal.

    By the form of it that needs no inverse: with ``J H J = L D L^T``, J the reversal, each column is rounded from
    ``w_j + sum over earlier k of (w_k - q_k) L_kj`` (Chee et al., arXiv:2307.13304, section 4; equal to GPTQ by their theorem 6).
    """
    weight = as_float64(problem.weight)[:, ::-1]
    m, n = weight.shape
    hessian = as_float64(problem.input_hessian)[::-1, ::-1]
    damped = hessian + DAMPING * hessian.trace() / n * np.eye(n)
    lower = np.linalg.cholesky(damped)
    lower /= lower.diagonal()
    scales, zeros = min_max_grid(as_float64(problem.weight), problem.bits, problem.group_size, problem.symmetric)
    steps, shifts = (np.repeat(part, problem.group_size, axis=1)[:, ::-1] for part in (scales, zeros))
    codes, error = np.zeros((m, n)), np.zeros((m, n))
    for stop in range(n, 0, -_BLOCK):
        start = max(0, stop - _BLOCK)
        target = weight[:, start:stop] + error[:, stop:] @ lower[stop:, start:stop]
        for j in range(stop - 1, start - 1, -1):
            code = np.rint(quotient(target[:, j - start], steps[:, j]) + shifts[:, j])
            codes[:, j] = code.clip(0, 2**problem.bits - 1)
            error[:, j] = weight[:, j] - steps[:, j] * (codes[:, j] - shifts[:, j])
            target[:, : j - start] += np.outer(error[:, j], lower[j, start:j])
    dtype = problem.weight.dtype
    return QuantizedLayer(
        torch.from_numpy(codes[:, ::-1].astype(np.uint8)), torch.as_tensor(scales, dtype=dtype),
        torch.as_tensor(zeros, dtype=dtype), torch.empty(0, dtype=torch.int64),
    )  # fmt: skip


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
    check_grid(name, problem.bits, problem.group_size, problem.symmetric, {name: n})
    _check_hessian(name, "input_hessian", problem.input_hessian, n)
    _check_hessian(name, "output_hessian", problem.output_hessian, m)
    if len(problem.held_input_hessian) or len(problem.held_output_hessian):
        _check_hessian(name, "held_input_hessian", problem.held_input_hessian, n)
        _check_hessian(name, "held_output_hessian", problem.held_output_hessian, m)
    _check_samples(name, "inputs", problem.inputs, "gradients", problem.gradients, n, m)
    _check_samples(name, "held_inputs", problem.held_inputs, "held_gradients", problem.held_gradients, n, m)


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


def _check_answer(problem: LayerProblem, layer: QuantizedLayer) -> None:
    if not isinstance(layer, QuantizedLayer):
        raise Wrong(f"a {type(layer).__name__} is no QuantizedLayer")
    check_layer(layer, tuple(problem.weight.shape), problem.bits, problem.group_size, problem.symmetric)
