"""Random set covering: the LP relaxation of choosing the cheapest sets that cover every row."""

import numpy as np
import scipy.sparse

from breakeven.contract import BadInput, dataset
from breakeven.datasets.lp._models import Model
from breakeven.datasets.lp._questions import ask
from breakeven.problems.lp import LPBatch

DENSITY = 0.05


@dataset(title="Set covering", packages=("highspy",))
def set_cover(*, rows: int = 300, batch: int = 64, question: str = "branching", seed: int = 0) -> LPBatch:
    """``min c'x, A x >= 1, x binary`` with twice as many columns as rows.

    As in Balas and Ho (Math. Program. Study 12, 1980): each entry of A is 1 with probability 0.05, every row has at least
    two entries and every column at least one, and costs are integers drawn evenly from 1 to 100.

    Args:
        rows: elements to be covered, at least 2.
        batch: children; of ``branching`` up to twice the number of fractional variables at the root.
        question: what is asked of it: ``branching``, ``tightening``, ``scenarios`` or ``single`` (`ask`).
        seed: of the instance, and of its children.
    """
    if rows < 2:
        raise BadInput(f"set_cover: rows={rows} was asked; ask for at least 2")
    columns = 2 * rows
    rng = np.random.default_rng([seed, rows])
    covered = rng.random((rows, columns)) < DENSITY
    for row in np.flatnonzero(covered.sum(1) < 2):
        covered[row, rng.choice(columns, 2, replace=False)] = True
    for column in np.flatnonzero(~covered.any(0)):
        covered[rng.integers(rows), column] = True
    model = Model(
        name=f"set_cover_{rows}x{columns}",
        matrix=scipy.sparse.csr_array(covered.astype(np.float64)),
        objective=rng.integers(1, 101, columns).astype(np.float64),
        row_lower=np.ones(rows),
        row_upper=np.full(rows, np.inf),
        lower=np.zeros(columns),
        upper=np.ones(columns),
        integer=np.ones(columns, dtype=bool),
    )
    return ask(question, model, batch=batch, seed=seed)
