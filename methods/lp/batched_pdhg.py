"""Batched PDHG: many LPs that share a matrix, solved at once by a restarted, reflected first-order method.

The iteration is r2HPDHG (Lu and Yang, arXiv:2407.16144): from z = (x, y) a step of the primal-dual hybrid gradient method
gives z-hat; its reflection 2 z-hat - z is averaged with an anchor z0, z <- k+1/k+2 (2 z-hat - z) + 1/k+2 z0 (Halpern); where
the fixed-point error has fallen enough, both restart from z-hat, and the weight between x and y is set anew. All columns
share the step size 0.998 / ||A||; weight, restart and termination are each column's own (arXiv:2601.21990).
"""

import dataclasses
import math

import numpy as np
import scipy.sparse
import torch

from breakeven.contract import Unsupported, adapter
from breakeven.methods.lp.kernels import cpu
from breakeven.methods.lp.kernels.blocks import Blocks
from breakeven.methods.lp.kernels.residuals import kkt_error
from breakeven.methods.lp.kernels.scaling import Scaled
from breakeven.problems.lp import (
    INFEASIBLE, LIMIT, OPTIMAL, PROOF_MARGIN, UNBOUNDED, LPBatch, LPSolution, farkas_margin, ray_margin, safe_dual_bound,
)  # fmt: skip

CHECK_EVERY = 40
FIRST_PROOFS = 200


@adapter(
    title="Batched PDHG",
    paper="arXiv:2601.21990",
    derived="the paper was known by its abstract: weights, restarts and their constants follow cuPDLPx, blocking is ours",
    packages=("numba",),
)
def solve(problem: LPBatch, *, tolerance: float = 1e-4, iteration_limit: int = 100_000) -> LPSolution:
    """Solve every child to a relative KKT error of ``tolerance`` in the 2-norm, on unscaled data.

    Args:
        problem: m rows, n columns, B children, on the CPU.
        iteration_limit: per child; beyond it a child's status is ``LIMIT``.

    Returns:
        float64 inside and the problem's dtype outside; ``dual_bound`` is what y proves (`safe_dual_bound`), or -inf.
    """
    if problem.matrix.device.type != "cpu":
        raise Unsupported("the CUDA kernels of batched PDHG are not complete yet; use the CPU")
    batch = _Batch(problem)
    while batch.iterate(tolerance, iteration_limit):
        pass
    return batch.solution()


class _Batch:
    """The state of all columns: blocks of those that run, and results of those that have ended."""

    def __init__(self, problem: LPBatch):
        self.problem = problem
        matrix = problem.matrix
        self.matrix = scipy.sparse.csr_array(
            (_array(matrix.values()), matrix.col_indices().numpy(), matrix.crow_indices().numpy()), shape=matrix.shape
        )
        names = ("objective", "lower", "upper", "row_lower", "row_upper", "branch_lower", "branch_upper")
        self.cost, self.lower, self.upper, self.row_lower, self.row_upper, branch_lower, branch_upper = (
            _array(getattr(problem, name)) for name in names
        )
        self.branch = np.stack([problem.branch_variable.numpy().astype(np.float64), branch_lower, branch_upper])
        rows, columns = self.matrix.shape
        children = self.branch.shape[1]
        self.x, self.y = np.zeros((columns, children)), np.zeros((rows, children))
        self.status = np.full(children, LIMIT, np.int8)
        self.iterations = np.zeros(children, np.int64)
        self.endless = bool(np.isinf([*self.lower, *self.upper, *branch_lower, *branch_upper]).any())
        self.rows = np.flatnonzero(np.diff(self.matrix.indptr))
        self.columns = np.flatnonzero(np.bincount(self.matrix.indices, minlength=columns))
        left = self._closed_form()
        self.blocks = None
        if left.size and self.rows.size:
            self._start(left)
        else:
            self.status[left] = OPTIMAL

    def _closed_form(self) -> np.ndarray:
        """What empty rows and columns and crossing bounds decide by themselves; returns the children that are left."""
        empty_rows = np.setdiff1d(np.arange(self.matrix.shape[0]), self.rows)
        broken = empty_rows[(self.row_lower[empty_rows] > 0) | (self.row_upper[empty_rows] < 0)]
        crossing = self.branch[1] > self.branch[2]
        self.status[crossing | (broken.size > 0)] = INFEASIBLE
        if broken.size:
            self.y[broken[0]] = 1.0 if self.row_lower[broken[0]] > 0 else -1.0
        for j in np.setdiff1d(np.arange(self.matrix.shape[1]), self.columns):
            mine = self.branch[0] == j
            low, high = np.where(mine, self.branch[1], self.lower[j]), np.where(mine, self.branch[2], self.upper[j])
            best = low if self.cost[j] > 0 else high if self.cost[j] < 0 else np.clip(0.0, low, high)
            endless = np.isinf(best) & (self.status == LIMIT)
            self.x[:, endless] = 0.0
            self.x[j] = np.where(endless, -np.sign(self.cost[j]), np.where(np.isinf(best), 0.0, best))
            self.status[endless] = UNBOUNDED
        return np.flatnonzero(self.status == LIMIT)

    def _start(self, left: np.ndarray) -> None:
        """Scale what is not empty, and start every child at the parent's optimum, clipped to the child's bounds."""
        scaled = self.scaled = Scaled.of(
            self.matrix[self.rows][:, self.columns], self.cost[self.columns], self.lower[self.columns],
            self.upper[self.columns], self.row_lower[self.rows], self.row_upper[self.rows],
        )  # fmt: skip
        self.eta = 0.998 / scaled.norm()
        place = np.full(self.matrix.shape[1], -1)
        place[self.columns] = np.arange(self.columns.size)
        variable = place[self.branch[0, left].astype(np.int64)]
        unit = scaled.theta_bound / scaled.column[variable]
        branch = np.stack([variable.astype(np.float64), unit * self.branch[1, left], unit * self.branch[2, left]])
        x = scaled.theta_bound * _array(self.problem.parent_x)[self.columns] / scaled.column
        x = np.repeat(np.clip(x, scaled.lower, scaled.upper)[:, None], left.size, axis=1)
        inside = variable >= 0
        x[variable[inside], inside.nonzero()[0]] = np.clip(x[variable[inside], inside.nonzero()[0]], *branch[1:, inside])
        y = scaled.theta_cost * _array(self.problem.parent_y)[self.rows] / scaled.row
        self.blocks = Blocks(scaled, left, x, np.repeat(y[:, None], left.size, axis=1), branch)
        self.done, self.next_proofs = 0, FIRST_PROOFS

    def iterate(self, tolerance: float, limit: int) -> bool:
        """Iterate until the next check, and take out the children that have ended; whether any is left."""
        blocks = self.blocks
        if blocks is None:
            return False
        blocks.advance(CHECK_EVERY, self.eta, tolerance)
        self.done += CHECK_EVERY
        running = blocks.running()
        ended = running[blocks.status.reshape(-1)[running] == cpu.SOLVED]
        ended = ended[self._take(ended, OPTIMAL, tolerance)]
        if self.done >= self.next_proofs:
            self.next_proofs = math.ceil(1.5 * self.done)
            unsolved = np.setdiff1d(running, ended)
            ended = np.union1d(ended, self._prove(unsolved)) if unsolved.size else ended
        if self.done >= limit:
            late = np.setdiff1d(running, ended)
            self._take(late, LIMIT, math.inf)
            ended = running
        left = np.setdiff1d(running, ended)
        if ended.size and left.size:
            blocks.keep(left)
        return left.size > 0

    def _take(self, places: np.ndarray, status: int, tolerance: float) -> np.ndarray:
        """Record x-hat and y-hat of those columns that hold in float64 on the problem's own numbers; which ones do."""
        children = self.blocks.children[places]
        x, y = self.x[:, children], np.zeros((self.matrix.shape[0], children.size))
        x[self.columns], y[self.rows] = self._unscaled("x_hat", places), self._unscaled("y_hat", places)
        variable = self.branch[0, children].astype(np.int64)
        lower, upper = (np.repeat(bound[:, None], children.size, axis=1) for bound in (self.lower, self.upper))
        lower[variable, np.arange(children.size)] = self.branch[1, children]
        upper[variable, np.arange(children.size)] = self.branch[2, children]
        x = np.clip(x, lower, upper)
        error = kkt_error(self.matrix, self.cost, lower, upper, self.row_lower, self.row_upper, x, y)
        good = error <= tolerance
        self._record(children[good], x[:, good], y[:, good], status)
        return good

    def _prove(self, places: np.ndarray) -> np.ndarray:
        """Columns of which an iterate, or how far it went since the restart, proves that they have no optimum.

        Source: Applegate et al. (arXiv:2102.04592): both sequences tend to a certificate where there is one.
        """
        children = self.blocks.children[places]
        names = ("branch_variable", "branch_lower", "branch_upper", "reference")
        some = dataclasses.replace(self.problem, **{name: getattr(self.problem, name)[children] for name in names})
        proven = np.zeros(places.size, bool)
        kinds = [("y", farkas_margin, INFEASIBLE), ("x", ray_margin, UNBOUNDED)]
        for letter, margin, status in kinds if self.endless else kinds[:1]:
            hat, anchor = (self._unscaled(f"{letter}{which}", places) for which in ("_hat", "0"))
            kept, size = (self.rows, self.y.shape[0]) if letter == "y" else (self.columns, self.x.shape[0])
            for candidate in (hat - anchor, hat):
                ray = np.zeros((size, places.size))
                ray[kept] = candidate
                found = ~proven & (margin(some, torch.from_numpy(ray)).numpy() > PROOF_MARGIN)
                none = np.zeros((self.x.shape[0] + self.y.shape[0] - size, int(found.sum())))
                x, y = (none, ray[:, found]) if letter == "y" else (ray[:, found], none)
                self._record(children[found], x, y, status)
                proven |= found
        return places[proven]

    def _record(self, children: np.ndarray, x: np.ndarray, y: np.ndarray, status: int) -> None:
        self.x[:, children], self.y[:, children] = x, y
        self.status[children], self.iterations[children] = status, self.done

    def _unscaled(self, name: str, places: np.ndarray) -> np.ndarray:
        scaled = self.scaled
        unit = scaled.column / scaled.theta_bound if name.startswith("x") else scaled.row / scaled.theta_cost
        return self.blocks.columns(name, places) * unit[:, None]

    def solution(self) -> LPSolution:
        y, status = torch.from_numpy(self.y), torch.from_numpy(self.status)
        bound = safe_dual_bound(self.problem, y)
        bound[status == INFEASIBLE] = math.inf
        bound[status == UNBOUNDED] = -math.inf
        kind = self.problem.objective.dtype
        x = torch.from_numpy(self.x).to(kind)
        return LPSolution(x, y.to(kind), status, bound.to(kind), torch.from_numpy(self.iterations))


def _array(tensor: torch.Tensor) -> np.ndarray:
    return tensor.double().numpy()
