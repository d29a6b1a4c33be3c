"""Capacitated facility location: which facilities to open, and who is served from where."""

import numpy as np
import scipy.sparse

from breakeven.contract import BadInput, dataset
from breakeven.datasets.lp._models import Model
from breakeven.datasets.lp._questions import ask
from breakeven.problems.lp import LPBatch

CAPACITY_RATIO = 5.0
"""Capacity of all facilities together over the demand of all customers."""


@dataset(title="Capacitated facility location", packages=("highspy",))
def facility_location(
    *, facilities: int = 30, customers: int = 100, batch: int = 32, question: str = "branching", seed: int = 0
) -> LPBatch:
    """The strong formulation: every customer's share from a facility is at most the facility's opening.

    ``min sum t_ij x_ij + sum f_j y_j; sum_j x_ij = 1; sum_i d_i x_ij <= s_j y_j; x_ij <= y_j; 0 <= x, y <= 1``, y integer.
    With F facilities and C customers: FC + F columns, FC + F + C rows, 4 FC + F nonzeros.

    Costs are as in class b of Körkel and Ghosh (Ghosh, Eur. J. Oper. Res. 150, 2003): integers drawn evenly from 1000 to
    2000, for serving a customer and for opening a facility alike. They are no distances on purpose: where they are, this
    relaxation leaves hardly a facility partly open, and with that hardly a child. Demands are from 5 to 35 and capacities
    from 10 to 160, the latter scaled to five times the demand (Cornuejols, Sridharan and Thizy, Eur. J. Oper. Res. 50, 1991).

    Args:
        facilities: at least 2.
        customers: at least 1.
        batch: children; of ``branching`` up to twice the number of facilities that are partly open at the root: about as many
            as there are facilities, and for some small instances none.
        question: what is asked of it: ``branching``, ``tightening``, ``scenarios`` or ``single`` (`ask`).
        seed: of the instance, and of its children.
    """
    if facilities < 2 or customers < 1:
        raise BadInput(
            f"facility_location: {facilities} facilities, {customers} customers were asked; ask for at least 2 and 1"
        )
    rng = np.random.default_rng([seed, facilities, customers])
    demand = rng.integers(5, 36, customers).astype(np.float64)
    capacity = rng.integers(10, 161, facilities).astype(np.float64)
    capacity *= CAPACITY_RATIO * demand.sum() / capacity.sum()
    transport = rng.integers(1000, 2001, (customers, facilities)).astype(np.float64)
    opening = rng.integers(1000, 2001, facilities).astype(np.float64)

    # Columns: x_ij at i F + j, then y_j. Rows: one per customer, one per facility, one per pair.
    pairs = facilities * customers
    each_facility = scipy.sparse.eye_array(facilities)
    none = scipy.sparse.csr_array((customers, facilities))
    matrix = scipy.sparse.block_array(
        [
            [scipy.sparse.kron(scipy.sparse.eye_array(customers), np.ones((1, facilities))), none],
            [scipy.sparse.kron(demand[None], each_facility), scipy.sparse.diags_array(-capacity)],
            [scipy.sparse.eye_array(pairs), -scipy.sparse.kron(np.ones((customers, 1)), each_facility)],
        ],
        format="csr",
    )
    below_zero = facilities + pairs
    columns = pairs + facilities
    model = Model(
        name=f"facility_location_{facilities}x{customers}",
        matrix=scipy.sparse.csr_array(matrix),
        objective=np.concatenate([transport.ravel(), opening]),
        row_lower=np.concatenate([np.ones(customers), np.full(below_zero, -np.inf)]),
        row_upper=np.concatenate([np.ones(customers), np.zeros(below_zero)]),
        lower=np.zeros(columns),
        upper=np.ones(columns),
        integer=np.arange(columns) >= pairs,
    )
    return ask(question, model, batch=batch, seed=seed)
