"""Transport under many scenarios: thousands of tiny LPs that share a matrix and differ in demand, in cost, or in both."""

import numpy as np
import scipy.sparse

from breakeven.contract import BadInput, dataset
from breakeven.datasets.lp._models import Model
from breakeven.datasets.lp._questions import Children, batch_of, root_of
from breakeven.problems.lp import LPBatch

CHANGES = ("demand", "cost", "both")
SPREAD = 0.3
"""Demands and costs of a scenario differ from the forecast by up to this share."""


@dataset(title="Transport scenarios", packages=("highspy",))
def transport(
    *, plants: int = 10, customers: int = 20, batch: int = 1024, change: str = "demand", seed: int = 0
) -> LPBatch:
    """``min c'x; what a plant sends is at most its capacity; what a customer gets, and misses, is its demand; x >= 0``.

    What is missed costs more than any way (the recourse of a stochastic program), so that every scenario has a solution. With
    P plants and C customers: P C + C columns, P + C rows, 2 P C + C nonzeros. Costs are distances in a unit square, capacities
    together 1.2 times the forecast demand. The parent is the forecast.

    Args:
        plants: at least 1.
        customers: at least 1.
        batch: scenarios, at least 1.
        change: what a scenario changes: ``demand`` (row bounds), ``cost`` (the objective) or ``both``.
        seed: of the instance, and of its scenarios.
    """
    if plants < 1 or customers < 1 or batch < 1:
        raise BadInput(
            f"transport: {plants} plants, {customers} customers, {batch} scenarios were asked; ask for at least 1 of each"
        )
    if change not in CHANGES:
        raise BadInput(f"transport: scenarios cannot change {change!r}; there are: {', '.join(CHANGES)}")
    rng = np.random.default_rng([seed, plants, customers])
    places = rng.random((plants + customers, 2))
    distance = np.linalg.norm(places[:plants, None] - places[None, plants:], axis=2)
    demand = rng.uniform(5, 15, customers)
    capacity = rng.uniform(0.5, 1.5, plants)
    capacity *= 1.2 * demand.sum() / capacity.sum()
    missing = np.full(customers, 3.0)
    matrix = scipy.sparse.block_array(
        [
            [scipy.sparse.kron(scipy.sparse.eye_array(plants), np.ones((1, customers))), None],
            [
                scipy.sparse.kron(np.ones((1, plants)), scipy.sparse.eye_array(customers)),
                scipy.sparse.eye_array(customers),
            ],
        ],
        format="csr",
    )
    columns = (plants + 1) * customers
    model = Model(
        name=f"transport_{plants}x{customers}",
        matrix=scipy.sparse.csr_array(matrix),
        objective=np.concatenate([distance.ravel(), missing]),
        row_lower=np.concatenate([np.full(plants, -np.inf), demand]),
        row_upper=np.concatenate([capacity, demand]),
        lower=np.zeros(columns),
        upper=np.full(columns, np.inf),
        integer=np.zeros(columns, dtype=bool),
    )
    factor = np.random.default_rng([seed, 1]).uniform(1 - SPREAD, 1 + SPREAD, (batch, customers + columns)).T
    own_demand = demand[:, None] * factor[:customers]
    own = {}
    if change != "cost":
        infinite = np.full((plants, batch), -np.inf)
        own["row_lower"] = np.concatenate([infinite, own_demand])
        own["row_upper"] = np.concatenate([np.repeat(capacity[:, None], batch, axis=1), own_demand])
    if change != "demand":
        own["objective"] = model.objective[:, None] * factor[customers:]
    names = [f"{change} of {seed}, {k}" for k in range(batch)]
    return batch_of(model, root_of(model), Children(names=names, **own))
