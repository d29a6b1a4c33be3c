"""A scrambled Sobol sequence: what can be had without looking at any value."""

import numpy as np
import torch

from breakeven.contract import Unsupported, adapter
from breakeven.problems.bayesopt import BlackBox, Evaluations, Trace


@adapter(title="Sobol sequence", paper="Sobol, USSR Comput. Math. Math. Phys. 7, 1967")
def optimize(problem: BlackBox) -> Trace:
    """The first points of the sequence, scrambled by the seed (Owen's way); up to 21,201 dimensions."""
    if problem.bounds.device.type != "cpu":
        raise Unsupported("black boxes are evaluated on the CPU; use the CPU")
    if problem.dimension > torch.quasirandom.SobolEngine.MAXDIM:
        raise Unsupported(f"{problem.dimension} dimensions; the sequence has {torch.quasirandom.SobolEngine.MAXDIM}")
    low, high = problem.bounds.double().numpy().T
    sequence = torch.quasirandom.SobolEngine(problem.dimension, scramble=True, seed=problem.seed)
    evaluations = Evaluations(problem)
    while evaluations.left:
        unit = sequence.draw(min(problem.batch, evaluations.left), dtype=torch.float64).numpy()
        evaluations(np.clip(low + unit * (high - low), low, high))
    return evaluations.trace()
