"""YAQA (Tseng, Sun and De Sa, ICML 2026): adaptive rounding against the Hessian of the whole network's loss.

That is approximated by a Kronecker product ``H_O (x) H_I``. Its nearest one comes from power iteration on gradients
(sketches A and B); with ``H_O = L_O D_O L_O^T`` and ``H_I = L_I D_I L_I^T`` each weight is rounded after the feedback of all
errors below it and to its right: ``Q = Q(W + a^T E b + a^T E + E b)``, ``a = L_O - I``, ``b = L_I - I``.
"""

from collections.abc import Callable

import torch

from breakeven.contract import BadInput, adapter
from breakeven.methods.quantization.kernels.factors import (
    DAMPING,
    columns_by_size,
    exceeds_noise,
    second_moments,
    second_order_losses,
    sketch_a,
    sketch_b,
    unit_lower,
)
from breakeven.methods.quantization.kernels.model import quantized_model
from breakeven.methods.quantization.kernels.rounding import Grid, grid_of, layer, one_sided, two_sided
from breakeven.methods.quantization.language_models import quantizer
from breakeven.problems.quantization import LayerProblem, ModelProblem, QuantizedLayer, QuantizedModel

HELD_OUT = 8  # every so many sequences are the gate's
FEWEST = 16  # sequences, for less of which there is no gate


@adapter(
    title="YAQA",
    paper="arXiv:2505.22988",
    derived="the running form of the rounding; rows and columns in the order of their second moments; the gate, which answers "
    "with GPTQ's codes where sequences that neither has seen prefer these by more than their noise",
    packages=("numba",),
    variants={
        "output_only": {"sketch": "output_only"},
        "sketch_a": {"sketch": "A"},
        "ungated": {"gate": False},
        "plain_order": {"act_order": False},
    },
)
def solve(
    problem: LayerProblem, *, sketch: str = "B", gate: bool = True, act_order: bool = True, damping: float = DAMPING
) -> QuantizedLayer:
    """Round two-sidedly by a sketch of the problem's sequences, or by its factors where it has no gradients.

    Args:
        sketch: ``B``, of sequences, unbiased; ``A``, as if tokens were independent; or ``output_only``: the inputs'
            Hessian, and sketch B for the outputs.
        gate: round both ways by seven eighths of the sequences, and compare on the others what either costs. Where GPTQ costs
            less there by more than a standard error of the difference, answer with GPTQ. The answer is made of all sequences.
        act_order: round the rows and columns with the largest diagonals of the factors first; without it from the lower right.
        damping: share of each factor's mean diagonal that is added to it.

    Raises:
        BadInput: for another sketch, or a factor that is indefinite.
    """
    if sketch not in SKETCHES:
        raise BadInput(f"no sketch is called {sketch!r}; there are: {', '.join(SKETCHES)}")
    factors_of, x, g = SKETCHES[sketch], problem.inputs, problem.gradients
    if not g.any():
        factors = problem.input_hessian, problem.output_hessian
    elif gate and len(x) >= FEWEST and _misled(problem, factors_of, act_order, damping):
        factors = problem.input_hessian, None
    else:
        factors = factors_of(problem.input_hessian, x, g)
    return _rounded(problem, *factors, act_order, damping)[0]


def _misled(problem: LayerProblem, factors_of: Callable, act_order: bool, damping: float) -> bool:
    """Whether GPTQ costs less on the gate's sequences, which neither side's factors have seen."""
    x, g = problem.inputs, problem.gradients
    held = torch.zeros(len(x), dtype=torch.bool)
    held[HELD_OUT - 1 :: HELD_OUT] = True
    # The problem's own input Hessian has seen all of them.
    h_i = second_moments(x[~held])
    yaqa, gptq = (
        second_order_losses(_rounded(problem, *factors, act_order, damping)[1], x[held], g[held])
        for factors in (factors_of(h_i, x[~held], g[~held]), (h_i, None))
    )
    return exceeds_noise(yaqa - gptq)


def _rounded(
    problem: LayerProblem, h_i: torch.Tensor, h_o: torch.Tensor | None, act_order: bool, damping: float
) -> tuple[QuantizedLayer, torch.Tensor]:
    """By both factors, or where there is no H_O by LDLQ: the answer and its error."""
    m, n = problem.weight.shape
    columns = columns_by_size(h_i) if act_order else torch.arange(n)
    rows = columns_by_size(h_o) if act_order and h_o is not None else torch.arange(m)
    input_lower, pivots = unit_lower(h_i[columns][:, columns], damping)
    importance = torch.empty_like(pivots)
    importance[columns] = pivots
    grid = grid_of(problem, importance)
    in_order = Grid(grid.scales[rows], grid.zeros[rows], grid.group[columns], grid.top)
    weight = problem.weight[rows][:, columns]
    if h_o is None:
        done = one_sided(weight, input_lower, in_order)
    else:
        done = two_sided(weight, input_lower, unit_lower(h_o[rows][:, rows], damping)[0], in_order)
    codes, error = torch.empty_like(done.codes), torch.empty_like(done.error)
    codes[rows[:, None], columns], error[rows[:, None], columns] = done
    return layer(codes, grid), error


SKETCHES = {
    "A": lambda h_i, x, g: sketch_a(x, g),
    "B": lambda h_i, x, g: sketch_b(x, g),
    "output_only": lambda h_i, x, g: (h_i, sketch_b(x, g)[1]),
}


quantize_model = quantizer(solve)
"""A whole language model of transformers, with packed codes: see `language_models.quantize_model`."""


@adapter(
    title="YAQA",
    paper="arXiv:2505.22988",
    derived="as of single layers",
    packages=("numba",),
    variants={"output_only": {"sketch": "output_only"}, "sketch_a": {"sketch": "A"}},
)
def solve_model(problem: ModelProblem, *, sketch: str = "B", gate: bool = True) -> QuantizedModel:
    """Every layer of a model by its own sketch; see `solve`."""
    return quantized_model(problem, lambda layer: solve(layer, sketch=sketch, gate=gate))
