"""Combinatorial auctions: which bids on bundles of items to accept, no item being sold twice."""

import numpy as np
import scipy.sparse

from breakeven.contract import BadInput, dataset
from breakeven.datasets.lp._models import Model
from breakeven.datasets.lp._questions import ask
from breakeven.problems.lp import LPBatch

ONE_MORE = 0.65
"""The chance that a bundle gets one more item."""

SUPERADDITIVE = 0.2
"""A bundle of k items is worth k ** (1 + this) times the mean of their values, as its parts are worth more together."""


@dataset(title="Combinatorial auction", packages=("highspy",))
def combinatorial_auction(
    *, items: int = 100, bids: int = 0, batch: int = 64, question: str = "branching", seed: int = 0
) -> LPBatch:
    """``max sum of accepted prices``, at most one accepted bid for each item; a minimisation of the negative.

    In the manner of the *arbitrary* distribution of CATS (Leyton-Brown, Pearson and Shoham, EC 2000), simplified: items have
    common values from 1 to 100, and pairs of items an affinity. A bundle begins with a random item and grows with probability
    0.65 by one that is drawn by its affinity to those that it has. Each bidder has a private value per item, up to half the
    common one more or less, and bids for the bundle the sum of these, times k ** 0.2.

    Args:
        items: rows, at least 2.
        bids: columns; five times the items where 0.
        batch: children; of ``branching`` up to twice the number of fractional variables at the root.
        question: what is asked of it: ``branching``, ``tightening``, ``scenarios`` or ``single`` (`ask`).
        seed: of the instance, and of its children.
    """
    bids = bids or 5 * items
    if items < 2 or bids < 1:
        raise BadInput(f"combinatorial_auction: {items} items, {bids} bids were asked; ask for at least 2 and 1")
    rng = np.random.default_rng([seed, items, bids])
    value = rng.uniform(1, 100, items)
    affinity = np.triu(rng.random((items, items)), 1)
    affinity += affinity.T
    starts, members, prices = [0], [], []
    for _ in range(bids):
        bundle = [int(rng.integers(items))]
        pull = affinity[bundle[0]].copy()
        while len(bundle) < items and rng.random() < ONE_MORE:
            pull[bundle] = 0
            item = int(np.searchsorted(pull.cumsum(), rng.random() * pull.sum(), side="right"))
            bundle.append(item)
            pull += affinity[item]
        private = value[bundle] * rng.uniform(0.5, 1.5, len(bundle))
        prices.append(float(np.ceil(private.sum() * len(bundle) ** SUPERADDITIVE)))
        members += sorted(bundle)
        starts.append(len(members))
    matrix = scipy.sparse.csc_array((np.ones(len(members)), members, starts), shape=(items, bids)).tocsr()
    wanted = np.flatnonzero(np.diff(matrix.indptr))  # an item on which nobody bids has no row
    model = Model(
        name=f"combinatorial_auction_{items}x{bids}",
        matrix=matrix[wanted],
        objective=-np.array(prices),
        row_lower=np.full(len(wanted), -np.inf),
        row_upper=np.ones(len(wanted)),
        lower=np.zeros(bids),
        upper=np.ones(bids),
        integer=np.ones(bids, dtype=bool),
    )
    return ask(question, model, batch=batch, seed=seed)
