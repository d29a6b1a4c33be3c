"""Generalized assignment: jobs to agents that have so much capacity each."""

import numpy as np
import scipy.sparse

from breakeven.contract import BadInput, dataset
from breakeven.datasets.lp._models import Model
from breakeven.datasets.lp._questions import ask
from breakeven.problems.lp import LPBatch


@dataset(title="Generalized assignment", packages=("highspy",))
def generalized_assignment(
    *, agents: int = 10, jobs: int = 60, batch: int = 8, question: str = "branching", seed: int = 0
) -> LPBatch:
    """``min c'x; sum_i x_ij = 1 for every job; sum_j a_ij x_ij <= b_i for every agent; x binary``.

    Of type D (Chu and Beasley, Comput. Oper. Res. 24, 1997): resources a are integers from 1 to 100, costs are 111 - a and up to
    10 more or less, so that what is cheap needs much; capacities are 0.8 of an even share.

    Args:
        agents: at least 2.
        jobs: at least as many as agents.
        batch: children; of ``branching`` up to twice the number of fractional variables at the root, about four per agent.
        question: what is asked of it: ``branching``, ``tightening``, ``scenarios`` or ``single`` (`ask`).
        seed: of the instance, and of its children.
    """
    if agents < 2 or jobs < agents:
        raise BadInput(
            f"generalized_assignment: {agents} agents, {jobs} jobs were asked; ask for at least 2, and no fewer jobs than agents"
        )
    rng = np.random.default_rng([seed, agents, jobs])
    resource = rng.integers(1, 101, (agents, jobs)).astype(np.float64)
    cost = 111 - resource + rng.integers(-10, 11, (agents, jobs))
    capacity = np.floor(0.8 * resource.sum(1) / agents)
    # Columns: x_ij at i * jobs + j.
    every_job = scipy.sparse.kron(np.ones((1, agents)), scipy.sparse.eye_array(jobs))
    every_agent = scipy.sparse.block_diag([resource[i : i + 1] for i in range(agents)])
    columns = agents * jobs
    model = Model(
        name=f"generalized_assignment_{agents}x{jobs}",
        matrix=scipy.sparse.csr_array(scipy.sparse.vstack([every_job, every_agent])),
        objective=cost.ravel(),
        row_lower=np.concatenate([np.ones(jobs), np.full(agents, -np.inf)]),
        row_upper=np.concatenate([np.ones(jobs), capacity]),
        lower=np.zeros(columns),
        upper=np.ones(columns),
        integer=np.ones(columns, dtype=bool),
    )
    return ask(question, model, batch=batch, seed=seed)
