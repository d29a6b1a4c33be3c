"""Axial three-index assignment: triples of workers, jobs and machines, each taken once. Vertices are highly degenerate."""

import numpy as np
import scipy.sparse

from breakeven.contract import BadInput, dataset
from breakeven.datasets.lp._models import Model
from breakeven.datasets.lp._questions import ask
from breakeven.problems.lp import LPBatch


@dataset(title="Axial three-index assignment", packages=("highspy",))
def axial_assignment(*, size: int = 10, batch: int = 16, question: str = "branching", seed: int = 0) -> LPBatch:
    """``min c'x; every index of each of the three sets is in one chosen triple; x binary`` (Balas and Saltzman, 1991).

    With n indices: n^3 columns, 3 n rows, 3 n^3 nonzeros; costs are integers from 0 to 100. A basis has 3 n - 2 columns, of which
    few are not zero at a vertex, so that the simplex method makes many steps that change nothing.

    Args:
        size: n, at least 3.
        batch: children; of ``branching`` up to twice the number of fractional variables at the root.
        question: what is asked of it: ``branching``, ``tightening``, ``scenarios`` or ``single`` (`ask`).
        seed: of the instance, and of its children.
    """
    if size < 3:
        raise BadInput(f"axial_assignment: size={size} was asked; ask for at least 3")
    rng = np.random.default_rng([seed, size])
    columns = size**3
    index = np.stack(np.unravel_index(np.arange(columns), (size,) * 3))  # (3, n^3)
    row = (index + size * np.arange(3)[:, None]).ravel()
    matrix = scipy.sparse.csr_array(
        (np.ones(3 * columns), (row, np.tile(np.arange(columns), 3))), shape=(3 * size, columns)
    )
    model = Model(
        name=f"axial_assignment_{size}",
        matrix=matrix,
        objective=rng.integers(0, 101, columns).astype(np.float64),
        row_lower=np.ones(3 * size),
        row_upper=np.ones(3 * size),
        lower=np.zeros(columns),
        upper=np.ones(columns),
        integer=np.ones(columns, dtype=bool),
    )
    return ask(question, model, batch=batch, seed=seed)
