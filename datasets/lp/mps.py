"""A model of one's own, from a file."""

from breakeven.contract import dataset
from breakeven.datasets.lp._models import read_model
from breakeven.datasets.lp._questions import ask
from breakeven.problems.lp import LPBatch


@dataset(title="Your own model", source="an MPS or LP file", real=True, packages=("highspy",))
def mps(*, file: str, batch: int = 64, question: str = "branching", seed: int = 0) -> LPBatch:
    """A question about a model in a file.

    Args:
        file: path of an MPS, free MPS or LP file, plain or gzipped; a maximisation is turned into a minimisation.
        batch: children; of ``branching`` up to twice the number of fractional variables at the root.
        question: what is asked of it: ``branching``, ``tightening``, ``scenarios`` or ``single`` (`ask`).
        seed: of the children.
    """
    return ask(question, read_model(file), batch=batch, seed=seed)
