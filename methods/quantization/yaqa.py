"""YAQA (Tseng, Sun and De Sa, ICML 2026): adaptive rounding against the Hessian of the whole network's loss.

That is approximated by a Kronecker product ``H_O (x) H_I``. Its nearest one comes from power iteration on gradients
(sketches A and B); with ``H_O = L_O D_O L_O^T`` and ``H_I = L_I D_I L_I^T`` each weight is rounded after the feedback of all
errors below it and to its right: ``Q = Q(W + a^T E b + a^T E + E b)``, ``a = L_O - I``, ``b = L_I - I``.
"""

import torch

from breakeven.contract import BadInput, adapter
from breakeven.methods.quantization.kernels.factors import (
    DAMPING,
    columns_by_size,
    second_order_loss,
    sketch_a,
    sketch_b,
    unit_lower,
)
from breakeven.methods.quantization.kernels.model import quantized_model
from breakeven.methods.quantization.kernels.rounding import Grid, grid_of, layer, one_sided, two_sided
from breakeven.problems.quantization import LayerProblem, ModelProblem, QuantizedLayer, QuantizedModel

HELD_OUT = 8  # every so many sequences are kept for the gate
FEWEST = 16  # sequences, for less of which nothing is kept


@adapter(
    title="YAQA",
    paper="arXiv:2505.22988",
    derived="the running form of the rounding; rows and columns in the order of their second moments; the gate, which keeps "
    "GPTQ's codes where held-out gradients prefer them",
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
        gate: keep an eighth of the sequences out of the sketch, round both ways, and answer with what costs less on them.
        act_order: round the rows and columns with the largest diagonals of the factors first; without it from the lower right.
        damping: share of each factor's mean diagonal that is added to it.

    Raises:
        BadInput: for another sketch, or a factor that is indefinite.
    """
    if sketch not in SKETCHES:
        raise BadInput(f"no sketch is called {sketch!r}; there are: {', '.join(SKETCHES)}")
    x, g = problem.inputs, problem.gradients
    held = torch.zeros(len(x), dtype=torch.bool)
    if not g.any():
        factors = problem.input_hessian, problem.output_hessian
    else:
        if gate and len(x) >= FEWEST:
            held[HELD_OUT - 1 :: HELD_OUT] = True
        factors = SKETCHES[sketch](problem, x[~held], g[~held])
    answer, error = _rounded(problem, *factors, act_order, damping)
    if held.any():
        plain, plain_error = _rounded(problem, problem.input_hessian, None, act_order, damping)
        if second_order_loss(plain_error, x[held], g[held]) < second_order_loss(error, x[held], g[held]):
            return plain
    return answer


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


def _output_only(problem: LayerProblem, x: torch.Tensor, g: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    return problem.input_hessian, sketch_b(x, g)[1]


SKETCHES = {
    "A": lambda problem, x, g: sketch_a(x, g),
    "B": lambda problem, x, g: sketch_b(x, g),
    "output_only": _output_only,
}


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
