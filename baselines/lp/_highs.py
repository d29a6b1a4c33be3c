"""What the solvers of HiGHS have in common here: the model, going from child to child, and what comes out of a solve."""

import math
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

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
    """A solver that holds one child of a problem after the other; to be made and used in a thread of `in_shares`.

    HiGHS keeps a scheduler for each thread, and refuses to run there with another number of threads: in the caller's own
    thread that would be with ours, once the caller has used HiGHS.

    Attributes:
        solver: a HiGHS instance with the options given, single-threaded and silent.
        refused: whether it does not know one of the options.
    """

    def __init__(self, problem: LPBatch, model: highspy.HighsLp, options: dict):
        self.solver = highspy._core._Highs()  # the public class installs callbacks into Python, and prints a banner
        set_ = [
            self.solver.setOptionValue(*option) for option in {"output_flag": False, "threads": 1, **options}.items()
        ]
        self.refused = highspy.HighsStatus.kError in set_
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
        self._empty = np.bincount(problem.matrix.col_indices().numpy(), minlength=len(self._parent)) == 0

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

    def run(self, child: int, solution: LPSolution, *, cold: bool = True) -> highspy.HighsModelStatus:
        """Solve a child and write what is found into a solution whose columns are contiguous; what HiGHS says of it.

        ``dual_bound`` is the objective for now, and what is there of ``iterations`` is added to. Bounds that cross are known
        to be infeasible without a run.
        """
        if self.crossing(child):
            solution.status[child] = lp.INFEASIBLE
            return highspy.HighsModelStatus.kInfeasible
        self.hold(child)
        if cold:
            self.solver.clearSolver()
        self.solver.run()
        counts = ("simplex_iteration_count", "ipm_iteration_count", "pdlp_iteration_count")
        solution.iterations[child] += sum(max(0, self.solver.getInfoValue(name)[1]) for name in counts)
        return self._take(child, solution)

    def _take(self, child: int, solution: LPSolution) -> highspy.HighsModelStatus:
        solver, x, y = self.solver, solution.x.T[child].numpy(), solution.y.T[child].numpy()
        said = solver.getModelStatus()
        status = STATUS.get(said, lp.LIMIT)
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
            x[:] = ray if known else self._ray_of_an_empty_column(child)
        solution.status[child] = status
        return said

    def _ray_of_an_empty_column(self, child: int) -> np.ndarray:
        """HiGHS makes no ray where presolve, or an LP without rows, has left nothing to solve."""
        objective = self._held["objective"]
        lower, upper = self._parent.T.copy()
        lower[self._variable[child]], upper[self._variable[child]] = self._bounds[child]
        endless = self._empty & (((objective > 0) & np.isinf(lower)) | ((objective < 0) & np.isinf(upper)))
        return np.where(endless, -np.sign(objective), 0.0)


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


def in_shares(children: Sequence[int], solve: Callable[[list[int]], Any]) -> list:
    """Divide children evenly among torch's threads; the solvers let go of the interpreter's lock while they run."""
    shares = [share.tolist() for share in torch.as_tensor(children).tensor_split(torch.get_num_threads()) if len(share)]
    with ThreadPoolExecutor(max(1, len(shares))) as pool:
        return list(pool.map(solve, shares))


def until_accurate(
    problem: LPBatch, tolerance: float, solution: LPSolution, solve: Callable[[list[int], float], list[int]]
) -> None:
    """Solve all children at a tolerance, and those that are not as accurate as they should be again at a tenth and a hundredth.

    Solvers measure what they have scaled or presolved, and what that is worth on the problem itself comes out afterwards.

    Args:
        solve: solves some children at a tolerance; returns those of them that it would not vouch for.
    """
    todo = list(range(len(solution.status)))
    for share_of in (1.0, 0.1, 0.01):
        answers = in_shares(todo, lambda share, asked=share_of * tolerance: solve(share, asked))
        doubted = [child for answer in answers for child in answer]
        optimal = [child for child in todo if solution.status[child] == lp.OPTIMAL]
        if optimal:
            error = lp.relative_kkt(problem.children(optimal), solution.x[:, optimal], solution.y[:, optimal])
            doubted += [child for child, far in zip(optimal, (error > tolerance).tolist(), strict=True) if far]
        todo = sorted(set(doubted))
        if not todo:
            return


def solve_by_pdlp(problem: LPBatch, solver: str, tolerance: float, iteration_limit: int) -> LPSolution:
    """Solve every child by one of the PDLPs of HiGHS; what ends as "unknown" is not vouched for."""
    on_cpu(problem, f"the {solver} of HiGHS")
    solution, parent = nothing_yet(problem), model(problem)

    def solve_some(share: list[int], asked: float) -> list[int]:
        options = {"solver": solver, "kkt_tolerance": asked, "pdlp_iteration_limit": iteration_limit}
        children = Children(problem, parent, options)
        said = {child: children.run(child, solution) for child in share}
        return [child for child in share if said[child] == highspy.HighsModelStatus.kUnknown]

    until_accurate(problem, tolerance, solution, solve_some)
    return bounded(problem, solution)


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
