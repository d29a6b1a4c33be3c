"""What the solvers of HiGHS have in common here: the model, going from child to child, and what comes out of a solve."""

import math
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import highspy
import numpy as np
import torch

from breakeven.contract import Unsupported
from breakeven.problems import lp
from breakeven.problems.lp import LPBatch, LPSolution

STATUS = {
    highspy.HighsModelStatus.kOptimal: lp.OPTIMAL,
    highspy.HighsModelStatus.kInfeasible: lp.INFEASIBLE,
    highspy.HighsModelStatus.kUnbounded: lp.UNBOUNDED,
}
"""What HiGHS says, in our words; all else is LIMIT, "unbounded or infeasible" too."""


class Children:
    """A solver that holds one child of a problem after the other.

    Attributes:
        solver: a HiGHS instance with the options given, single-threaded and silent.
    """

    def __init__(self, problem: LPBatch, model: highspy.HighsLp, options: dict):
        self.solver = highspy._core._Highs()  # the public class installs callbacks into Python, and prints a banner
        for name, value in {"output_flag": False, "threads": 1, **options}.items():
            self.solver.setOptionValue(name, value)
        self.solver.passModel(model)
        self._variable = problem.branch_variable.tolist()
        self._bounds = np.stack([problem.branch_lower.double().numpy(), problem.branch_upper.double().numpy()], axis=1)
        self._parent = np.stack([problem.lower.double().numpy(), problem.upper.double().numpy()], axis=1)
        self._objective, self._row_lower, self._row_upper = (
            None if own is None else own.double().T.contiguous().numpy()
            for own in (problem.child_objective, problem.child_row_lower, problem.child_row_upper)
        )
        self._held = {name: getattr(problem, name).double().numpy() for name in ("objective", "row_lower", "row_upper")}
        self._changed = None

    def crossing(self, child: int) -> bool:
        return self._bounds[child, 0] > self._bounds[child, 1]

    def hold(self, child: int) -> None:
        """Make the solver's model that of a child; only what differs from the one before is changed."""
        if self._changed is not None:
            self.solver.changeColBounds(self._changed, *self._parent[self._changed])
        self._changed = self._variable[child]
        self.solver.changeColBounds(self._changed, *self._bounds[child])
        if self._objective is not None:
            own = self._objective[child]
            where = np.flatnonzero(own != self._held["objective"]).astype(np.int32)
            self.solver.changeColsCost(len(where), where, own[where])
            self._held["objective"] = own
        if self._row_lower is not None:
            low, high = self._row_lower[child], self._row_upper[child]
            where = np.flatnonzero((low != self._held["row_lower"]) | (high != self._held["row_upper"])).astype(
                np.int32
            )
            self.solver.changeRowsBounds(len(where), where, low[where], high[where])
            self._held.update(row_lower=low, row_upper=high)

    def take(self, child: int, solution: LPSolution) -> None:
        """Write what the solver has found into a solution whose columns are contiguous; ``dual_bound`` is the objective."""
        solver, x, y = self.solver, solution.x.T[child].numpy(), solution.y.T[child].numpy()
        status = STATUS.get(solver.getModelStatus(), lp.LIMIT)
        if status == lp.OPTIMAL:
            found = solver.getSolution()
            x[:] = np.fromiter(found.col_value, np.float64, len(x))
            y[:] = np.fromiter(found.row_dual, np.float64, len(y))
            solution.dual_bound[child] = solver.getInfoValue("objective_function_value")[1]
        elif status == lp.INFEASIBLE:
            _, known, ray = solver.getDualRay()
            y[:] = ray if known else 0
        elif status == lp.UNBOUNDED:
            _, known, ray = solver.getPrimalRay()
            x[:] = ray if known else 0
        solution.status[child] = status


def nothing_yet(problem: LPBatch) -> LPSolution:
    """A solution in which every child is still given up, its columns contiguous."""
    (rows, columns), children = problem.matrix.shape, len(problem.branch_variable)
    return LPSolution(
        x=torch.zeros(children, columns, dtype=torch.float64).T,
        y=torch.zeros(children, rows, dtype=torch.float64).T,
        status=torch.full((children,), lp.LIMIT, dtype=torch.int8),
        dual_bound=torch.full((children,), -math.inf, dtype=torch.float64),
        iterations=torch.zeros(children, dtype=torch.int64),
    )


def in_shares(children: int, solve: Callable[[list[int]], None]) -> None:
    """Divide the children evenly among torch's threads; the solvers let go of the interpreter's lock while they run."""
    shares = [share.tolist() for share in torch.arange(children).tensor_split(torch.get_num_threads()) if len(share)]
    with ThreadPoolExecutor(len(shares)) as pool:
        list(pool.map(solve, shares))


def bounded(problem: LPBatch, solution: LPSolution) -> LPSolution:
    """The solution with the bounds that its y proves."""
    solution.dual_bound.copy_(lp.safe_dual_bound(problem, solution.y))
    solution.dual_bound[solution.status == lp.INFEASIBLE] = math.inf
    solution.dual_bound[(solution.status == lp.UNBOUNDED) | (solution.status == lp.LIMIT)] = -math.inf
    return solution


def on_cpu(problem: LPBatch, what: str) -> None:
    if problem.matrix.device.type != "cpu":
        raise Unsupported(f"{what} runs on the CPU only")


def model(problem: LPBatch) -> highspy.HighsLp:
    """The parent LP as HiGHS takes it."""
    model, matrix = highspy.HighsLp(), problem.matrix
    model.num_row_, model.num_col_ = model.a_matrix_.num_row_, model.a_matrix_.num_col_ = matrix.shape
    model.offset_ = problem.offset
    model.a_matrix_.format_ = highspy.MatrixFormat.kRowwise
    model.a_matrix_.start_, model.a_matrix_.index_ = matrix.crow_indices().numpy(), matrix.col_indices().numpy()
    model.a_matrix_.value_ = matrix.values().double().numpy()
    model.col_cost_ = problem.objective.double().numpy()
    model.col_lower_, model.col_upper_ = problem.lower.double().numpy(), problem.upper.double().numpy()
    model.row_lower_, model.row_upper_ = problem.row_lower.double().numpy(), problem.row_upper.double().numpy()
    return model
