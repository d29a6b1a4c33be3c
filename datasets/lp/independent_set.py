"""Maximum weight independent sets: as many nodes of a graph as possible, no two of them neighbours."""

import networkx
import numpy as np
import scipy.sparse

from breakeven.contract import BadInput, dataset
from breakeven.datasets.lp._models import Model
from breakeven.datasets.lp._questions import ask
from breakeven.problems.lp import LPBatch


@dataset(title="Independent set", packages=("highspy", "networkx"))
def independent_set(
    *, nodes: int = 200, affinity: int = 4, batch: int = 64, question: str = "branching", seed: int = 0
) -> LPBatch:
    """``max w'x``, at most one node of each clique of a cover of the edges; a minimisation of the negative.

    The graph is one of preferential attachment (Barabási and Albert, Science 286, 1999); its edges are covered by cliques, found
    greedily, and edges that lie in none are rows of their own. Weights are integers from 1 to 10.

    Args:
        nodes: columns; more than ``affinity``.
        affinity: edges that a new node brings; at least 1.
        batch: children; of ``branching`` up to twice the number of fractional variables at the root.
        question: what is asked of it: ``branching``, ``tightening``, ``scenarios`` or ``single`` (`ask`).
        seed: of the instance, and of its children.
    """
    if affinity < 1 or nodes <= affinity:
        raise BadInput(
            f"independent_set: {nodes} nodes with affinity {affinity} were asked; ask for an affinity of at least 1, and more "
            "nodes than that"
        )
    rng = np.random.default_rng([seed, nodes, affinity])
    graph = networkx.barabasi_albert_graph(nodes, affinity, seed=int(rng.integers(2**31)))
    neighbours = [set(graph[node]) for node in range(nodes)]
    covered: set[tuple[int, int]] = set()
    cliques = []
    for one, other in sorted(tuple(sorted(edge)) for edge in graph.edges):
        if (one, other) in covered:
            continue
        clique, common = [one, other], neighbours[one] & neighbours[other]
        while common:
            node = max(common, key=lambda candidate: (len(neighbours[candidate] & common), -candidate))
            clique.append(node)
            common &= neighbours[node]
        clique.sort()
        covered.update((a, b) for place, a in enumerate(clique) for b in clique[place + 1 :])
        cliques.append(clique)
    starts = np.cumsum([0, *map(len, cliques)])
    members = np.concatenate(cliques)
    model = Model(
        name=f"independent_set_{nodes}",
        matrix=scipy.sparse.csr_array((np.ones(len(members)), members, starts), shape=(len(cliques), nodes)),
        objective=-rng.integers(1, 11, nodes).astype(np.float64),
        row_lower=np.full(len(cliques), -np.inf),
        row_upper=np.ones(len(cliques)),
        lower=np.zeros(nodes),
        upper=np.ones(nodes),
        integer=np.ones(nodes, dtype=bool),
    )
    return ask(question, model, batch=batch, seed=seed)
