"""Fixed-charge multicommodity network design: which arcs to open, and how goods flow through them."""

import numpy as np
import scipy.sparse

from breakeven.contract import BadInput, dataset
from breakeven.datasets.lp._models import Model
from breakeven.datasets.lp._questions import ask
from breakeven.problems.lp import LPBatch

ARCS_PER_NODE = 4
CAPACITY_SHARE = 0.25
"""Capacity of an arc, as a share of all demands; at random up to half of it more or less."""


@dataset(title="Multicommodity network design", packages=("highspy",))
def multicommodity_flow(
    *, nodes: int = 10, commodities: int = 10, batch: int = 16, question: str = "branching", seed: int = 0
) -> LPBatch:
    """``min flow costs + opening costs``; flows are conserved, share the capacity of their arc, and need it to be open.

    The strong formulation (Gendron, Crainic and Frangioni, 1999): ``x_ka <= d_k y_a`` for each commodity k and arc a, beside
    ``sum_k x_ka <= u_a y_a``, with y binary. With N nodes, K commodities and A = 4 N arcs: A (K + 1) columns,
    N K + A + A K rows. Arcs go to random nodes, and around a ring whose arcs are wide enough for everything and ten times as
    dear, so that there is always a flow.

    Args:
        nodes: at least 5.
        commodities: at least 1.
        batch: children; of ``branching`` up to twice the number of fractional variables at the root.
        question: what is asked of it: ``branching``, ``tightening``, ``scenarios`` or ``single`` (`ask`).
        seed: of the instance, and of its children.
    """
    if nodes < 5 or commodities < 1:
        raise BadInput(
            f"multicommodity_flow: {nodes} nodes, {commodities} commodities were asked; ask for at least 5 and 1"
        )
    rng = np.random.default_rng([seed, nodes, commodities])
    around = np.arange(nodes)
    tail = np.repeat(around, ARCS_PER_NODE)
    head = (tail + 1).reshape(nodes, ARCS_PER_NODE) % nodes  # the first arc of each node is the ring's
    for node in around:
        others = np.delete(around, [node, (node + 1) % nodes])
        head[node, 1:] = rng.choice(others, ARCS_PER_NODE - 1, replace=False)
    head = head.ravel()
    arcs, ring = len(tail), np.arange(len(tail)) % ARCS_PER_NODE == 0
    demand = rng.integers(5, 26, commodities).astype(np.float64)
    source = rng.integers(nodes, size=commodities)
    sink = (source + rng.integers(1, nodes, commodities)) % nodes
    capacity = np.ceil(CAPACITY_SHARE * demand.sum() * rng.uniform(0.5, 1.5, arcs))
    capacity[ring] = demand.sum()
    flow_cost, opening = rng.integers(1, 11, arcs).astype(np.float64), rng.integers(50, 151, arcs).astype(np.float64)
    flow_cost[ring] *= 10
    opening[ring] *= 10

    # Columns: x_ka at k A + a, then y_a. Rows: conservation at k N + node, capacity per arc, opening per commodity and arc.
    each, every = scipy.sparse.eye_array(arcs), scipy.sparse.eye_array(commodities)
    incidence = scipy.sparse.csr_array(
        (np.repeat([1.0, -1.0], arcs), (np.concatenate([tail, head]), np.tile(np.arange(arcs), 2))), shape=(nodes, arcs)
    )
    matrix = scipy.sparse.block_array(
        [
            [scipy.sparse.kron(every, incidence), scipy.sparse.csr_array((nodes * commodities, arcs))],
            [scipy.sparse.kron(np.ones((1, commodities)), each), scipy.sparse.diags_array(-capacity)],
            [scipy.sparse.eye_array(arcs * commodities), -scipy.sparse.kron(demand[:, None], each)],
        ],
        format="csr",
    )
    supply = np.zeros((commodities, nodes))
    supply[np.arange(commodities), source] = demand
    supply[np.arange(commodities), sink] = -demand
    below_zero = arcs + arcs * commodities
    flows = arcs * commodities
    model = Model(
        name=f"multicommodity_flow_{nodes}x{commodities}",
        matrix=scipy.sparse.csr_array(matrix),
        objective=np.concatenate([np.tile(flow_cost, commodities), opening]),
        row_lower=np.concatenate([supply.ravel(), np.full(below_zero, -np.inf)]),
        row_upper=np.concatenate([supply.ravel(), np.zeros(below_zero)]),
        lower=np.zeros(flows + arcs),
        upper=np.concatenate([np.repeat(demand, arcs), np.ones(arcs)]),
        integer=np.arange(flows + arcs) >= flows,
    )
    return ask(question, model, batch=batch, seed=seed)
