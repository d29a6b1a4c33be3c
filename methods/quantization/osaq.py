"""OSAQ (Li et al., ICML 2026): suppress outliers by a change of the weights that the loss does not see, then round.

Eigenvectors of the Hessian with next to no eigenvalue are rows of N, (K, n). For every row w of the weight the change is
``b^T N`` with the b that minimises ``1/2 sum_j s_j (w_j + b^T n_j)^2 + 1/2 b^T (mu_1 + Lambda) b + mu_2 / 2 (b^T v)^2``, where s
is the softmax of ``|w_j| / tau``, so that the largest weights count most; ``v = N 1`` keeps the row from shifting as a whole.
"""

import torch

from breakeven.contract import adapter
from breakeven.methods.quantization.kernels.factors import DAMPING, columns_by_size, unit_lower
from breakeven.methods.quantization.kernels.model import quantized_model
from breakeven.methods.quantization.kernels.rounding import Grid, better_rows, gptq, grid_of, layer, to_nearest
from breakeven.methods.quantization.language_models import quantizer
from breakeven.problems.quantization import LayerProblem, ModelProblem, QuantizedLayer, QuantizedModel

LARGEST = 32  # weights of a row that its softmax is taken over: all others weigh next to nothing
STEPS = 4  # of reweighting, where each must pay
ROWS = 256  # at a time
MU_1, MU_2 = 1e-3, 1e-2  # beside weights s that sum to 1


@adapter(
    title="OSAQ",
    paper="arXiv:2605.04738",
    derived="the paper was known by its abstract and a description of its equations: the softmax's temperature and the "
    "weights mu, the choice of the Hessian, Lambda in the objective, and the guard, which takes of each row's change what "
    "pays by the expected loss of rounding",
    packages=("numba",),
    variants={"nearest": {"feedback": False}, "unguarded": {"guard": False}},
)
def solve(
    problem: LayerProblem,
    *,
    tail: float = 1e-3,
    temperature: float = 0.1,
    guard: bool = True,
    feedback: bool = True,
    damping: float = DAMPING,
) -> QuantizedLayer:
    """Change the weights, then round them by GPTQ in its act-order.

    Args:
        tail: share of the Hessian's trace that the directions of next to no loss may hold together.
        temperature: tau of the softmax, as a share of a row's largest weight.
        guard: take the share of each change, of 1, 1/2, 1/4 and 0, that is expected to lose least, and a row as it was where
            it comes out better so.
        feedback: by GPTQ; without it, to nearest.
        damping: share of the Hessian's mean diagonal that is added to it for GPTQ.

    Raises:
        BadInput: for a Hessian that is indefinite.
    """
    hessian = problem.input_hessian
    importance = hessian.diagonal().clone()
    if feedback:
        columns = columns_by_size(hessian)
        importance[columns] = unit_lower(hessian[columns][:, columns], damping)[1]

    def rounded(weight: torch.Tensor) -> tuple[torch.Tensor, Grid]:
        if feedback:
            return gptq(problem, weight, damping)
        grid = grid_of(problem, importance, weight)
        return to_nearest(weight, grid), grid

    changed = rounded(suppressed(problem, importance, tail, temperature, guard))
    return better_rows(problem, rounded(problem.weight), changed) if guard else layer(*changed)


def suppressed(
    problem: LayerProblem, importance: torch.Tensor, tail: float, temperature: float, guard: bool
) -> torch.Tensor:
    """The (m, n) weight with smaller outliers; the same where no direction is free."""
    # In float64: of a Hessian with a few huge eigenvalues, float32 knows the small ones' directions too badly to move along.
    eigenvalues, vectors = torch.linalg.eigh(problem.input_hessian.double())
    eigenvalues = eigenvalues.clamp_(min=0.0)
    free = int((eigenvalues.cumsum(0) <= tail * eigenvalues.sum()).sum())
    if not free:
        return problem.weight
    weight = problem.weight.to(torch.float64, copy=True)
    null, cost = vectors[:, :free].T.contiguous(), eigenvalues[:free]
    # Relative to the mean eigenvalue, as s is to 1.
    stiffness = MU_1 / weight.shape[1] + cost / eigenvalues.mean()
    of_group = importance.double().view(-1, problem.group_size).sum(dim=1)
    for start in range(0, len(weight), ROWS):
        rows, moved = (
            weight[start : start + ROWS],
            torch.zeros(len(weight[start : start + ROWS]), free, dtype=weight.dtype),
        )
        original = rows.clone()
        for _ in range(STEPS):
            step = _least_squares(original + moved @ null, moved, null, stiffness, temperature)
            if guard:
                shares = torch.tensor([0.0, 1.0, 0.5, 0.25], dtype=weight.dtype)
                candidates = moved + shares[:, None, None] * step
                losses = torch.stack([_expected(original + b @ null, b, cost, of_group, problem) for b in candidates])
                best = losses.argmin(dim=0)
                moved = candidates[best, torch.arange(len(rows))]
                if not best.any():
                    break
            else:
                moved = moved + step
        weight[start : start + ROWS] = original + moved @ null
    return weight.to(problem.weight.dtype)


def _least_squares(
    rows: torch.Tensor, moved: torch.Tensor, null: torch.Tensor, stiffness: torch.Tensor, temperature: float
) -> torch.Tensor:
    """The best further step of every row, (rows, K), by Woodbury's identity: its systems have one equation per large weight.

    ``(D + U S U^T) b = U S y - D moved`` with D the stiffness; U holds N's columns of the largest weights, and v.
    """
    size = rows.abs()
    largest, place = size.topk(min(LARGEST, rows.shape[1]), dim=1)
    peak = largest[:, :1].clamp(min=torch.finfo(rows.dtype).tiny)
    softmax = torch.softmax(largest / (temperature * peak), dim=1)
    shift = null.sum(dim=1)
    u = torch.cat([null.T[place], shift.expand(len(rows), 1, -1)], dim=1)  # (rows, p + 1, K)
    weights = torch.cat([softmax, softmax.new_full((len(rows), 1), MU_2)], dim=1)
    # What is to be reached from the present point, apart from the pull back to no change at all.
    wanted = torch.cat([-rows.gather(1, place), -(moved @ shift)[:, None]], dim=1) + torch.einsum(
        "rpk,rk->rp", u, moved
    )
    scaled = u / stiffness
    system = scaled @ u.transpose(1, 2)
    system.diagonal(dim1=1, dim2=2).add_(1 / weights.clamp(min=torch.finfo(rows.dtype).eps))
    total = torch.einsum("rpk,rp->rk", scaled, torch.linalg.solve(system, wanted))
    return total - moved


def _expected(
    rows: torch.Tensor, moved: torch.Tensor, cost: torch.Tensor, of_group: torch.Tensor, problem: LayerProblem
) -> torch.Tensor:
    """What the change loses, and rounding to grids that reach all weights: a step's square over 12, times D of each group."""
    groups = rows.view(len(rows), -1, problem.group_size)
    low, high = groups.amin(dim=2), groups.amax(dim=2)
    span = 2 * torch.maximum(high, -low) if problem.symmetric else high.clamp(min=0) - low.clamp(max=0)
    step = span / (2**problem.bits - 1)
    return moved.square() @ cost + step.square() @ of_group / 12


quantize_model = quantizer(solve)
"""A whole language model of transformers, with packed codes: see `language_models.quantize_model`."""


@adapter(title="OSAQ", paper="arXiv:2605.04738", derived="as of single layers", packages=("numba",))
def solve_model(problem: ModelProblem) -> QuantizedModel:
    """Every layer of a model, with the inputs that it has in the original one."""
    return quantized_model(problem, solve)
