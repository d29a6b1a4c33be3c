"""What tests of several solvers of linear programs ask of their answers."""

from collections.abc import Callable

import torch

from breakeven.problems.lp import LPBatch, LPSolution


def assert_right(problem: LPBatch, solution: LPSolution, tolerance: float) -> None:
    """Every child is solved within the tolerance, with the right status, and no bound is too high."""
    judged = problem.judge(solution)
    assert judged["relative_kkt"] <= tolerance
    assert judged["status_errors"] == judged["unsolved"] == 0
    assert judged["bound_violation"] <= 1e-9


def on_one_and_two_threads(solve: Callable[[LPBatch], LPSolution], problem: LPBatch) -> tuple[LPSolution, LPSolution]:
    """Its answers by one of torch's threads and by two; their number is as before afterwards."""
    before, answers = torch.get_num_threads(), []
    try:
        for number in (1, 2):
            torch.set_num_threads(number)
            answers.append(solve(problem))
    finally:
        torch.set_num_threads(before)
    return answers[0], answers[1]
