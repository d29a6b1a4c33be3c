"""A model of one's own, from a file."""

from breakeven.contract import dataset
from breakeven.datasets.lp._strong_branching import branch, read_model
from breakeven.problems.lp import LPBatch


@dataset(title="Your own model", source="an MPS or LP file", real=True, packages=("highspy",))
def mps(*, file: str, batch: int = 64, seed: int = 0) -> LPBatch:
    """The children of the root node of a mixed-integer model in a file.

    Args:
        file: path of an MPS, free MPS or LP file, plain or gzipped; a maximisation is turned into a minimisation.
        batch: children, up to twice the number of fractional variables at the root.
        seed: of the order of the children.
    """
    return branch(read_model(file), batch=batch, seed=seed)
