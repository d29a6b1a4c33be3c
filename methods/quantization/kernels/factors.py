"""Hessians of a layer: damping, factors, and the Kronecker sketches of YAQA."""

import itertools

import torch

from breakeven.contract import BadInput

DAMPING = 0.01  # of the mean diagonal: GPTQ's published default
LADDER = (1, 10, 100)  # times the damping that was asked for, until there is a factor


def damped(hessian: torch.Tensor, damping: float) -> torch.Tensor:
    """``H + damping * mean(diag H) * I``; the directions of dead inputs, which H says nothing of, count that much."""
    changed = hessian.clone()
    changed.diagonal().add_(damping * float(hessian.diagonal().mean()))
    return changed


def unit_lower(hessian: torch.Tensor, damping: float = DAMPING) -> tuple[torch.Tensor, torch.Tensor]:
    """L and the diagonal of D in ``H + damping = L D L^T``, L unit lower triangular.

    The damping grows where rounding has made a factor impossible.

    Raises:
        BadInput: for a Hessian that is not finite, or has an eigenvalue below minus its mean diagonal.
    """
    if not torch.isfinite(hessian).all():
        raise BadInput("a Hessian has an entry that is NaN or infinite; it was accumulated in too narrow a type")
    for times in LADDER:
        lower, failed = torch.linalg.cholesky_ex(damped(hessian, damping * times))
        if not failed:
            diagonal = lower.diagonal().clone()
            return lower.div_(diagonal), diagonal.square_()
    least = float(torch.linalg.eigvalsh(hessian.double())[0] / hessian.diagonal().double().mean())
    raise BadInput(
        f"a Hessian is indefinite: its least eigenvalue is {least:.2g} times the mean diagonal, and damping of "
        f"{damping * LADDER[-1]:g} does not mend that"
    )


def columns_by_size(hessian: torch.Tensor) -> torch.Tensor:
    """The order, (n,) int64, in which the largest second moment comes last, and so is rounded first; of equal ones the first."""
    return torch.argsort(hessian.diagonal(), descending=True, stable=True).flip(0)


def sketch_b(x: torch.Tensor, g: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """``E[G_s^T G_s]`` and ``E[G_s G_s^T]``, (n, n) and (m, m), of sequences: one power iteration from identities.

    For G_s = g^T x of t tokens the products of tokens, (t, t), are enough; G_s itself, (m, n), is made where it is smaller.

    Args:
        x: (s, t, n) inputs; g: (s, t, m) gradients of the log-likelihood at the outputs.
    """
    n, m = x.shape[2], g.shape[2]
    h_i, h_o = x.new_zeros(n, n), x.new_zeros(m, m)
    for inputs, gradients in zip(x, g, strict=True):
        if len(inputs) < min(m, n):
            h_i.addmm_(inputs.T @ (gradients @ gradients.T), inputs)
            h_o.addmm_(gradients.T @ (inputs @ inputs.T), gradients)
        else:
            both = gradients.T @ inputs
            h_i.addmm_(both.T, both)
            h_o.addmm_(both, both.T)
    return _symmetric(h_i / len(x)), _symmetric(h_o / len(x))


def sketch_a(x: torch.Tensor, g: torch.Tensor, half_steps: int = 6) -> tuple[torch.Tensor, torch.Tensor]:
    """The same factors as if tokens were independent: ``half_steps`` of power iteration on ``E[(g g^T) (x) (x x^T)]``.

    Each step costs a pass over the tokens; the first one, from ``H_O = I``, is left with its ``E[x x^T]`` as it is.
    """
    x, g = x.flatten(0, 1), g.flatten(0, 1)
    h_i = x.T @ x / len(x)
    h_o = torch.eye(g.shape[1], dtype=g.dtype)
    for step in itertools.islice(itertools.cycle(("output", "input")), half_steps - 1):
        if step == "output":
            weights = ((x @ h_i) * x).sum(dim=1, keepdim=True)
            h_o = _symmetric((g * weights).T @ g / (len(g) * h_i.square().sum()))
        else:
            weights = ((g @ h_o) * g).sum(dim=1, keepdim=True)
            h_i = _symmetric((x * weights).T @ x / (len(x) * h_o.square().sum()))
    return h_i, h_o


def second_moments(x: torch.Tensor) -> torch.Tensor:
    """The sum of x x^T over all tokens of (s, t, n) inputs: GPTQ's Hessian, (n, n), whose scale does not matter."""
    x = x.flatten(0, 1)
    return x.T @ x


def second_order_losses(error: torch.Tensor, x: torch.Tensor, g: torch.Tensor) -> torch.Tensor:
    """``<E, G_s>^2`` of every sequence, (s,) float64."""
    return ((x @ error.T) * g).sum(dim=(1, 2), dtype=torch.float64).square()


def exceeds_noise(differences: torch.Tensor) -> bool:
    """Whether the mean of paired differences, (s,), lies above 0 by more than its standard error."""
    return bool(differences.mean() > differences.std() / len(differences) ** 0.5)


def _symmetric(matrix: torch.Tensor) -> torch.Tensor:
    return (matrix + matrix.T) / 2
