"""Certified reuse of bases (manylp): each optimal basis is tried on all children at once, and only the rest is solved."""

import numpy as np
import scipy.sparse
import scipy.sparse.linalg
import torch
from manylp import BatchLPSolver, LexLP

from breakeven.baselines.lp._highs import Children, bounded, in_shares, model, nothing_yet, on_cpu
from breakeven.contract import Unsupported, adapter
from breakeven.problems import lp
from breakeven.problems.lp import LPBatch, LPSolution

CERTIFIED = 1  # manylp's status of an optimum


@adapter(title="Basis reuse (manylp)", paper="Wets, bunching, 1983; manylp 0.1", packages=("manylp", "highspy"))
def solve(problem: LPBatch, *, tolerance: float = 1e-4) -> LPSolution:
    """Solve children that differ in bounds of variables or rows; vertices, from no cache of an earlier call.

    manylp hands out points and bases, from which the duals are made here, one system for each basis. What it does not certify,
    and the proofs for infeasible children, HiGHS's simplex method makes. Its mode of separate processes is off, since starting
    them takes longer than most batches.

    Args:
        problem: m rows, n columns, B children, on the CPU, all with the same objective.
        tolerance: not used; vertices are certified to 1e-9.

    Returns:
        float64 throughout; ``dual_bound`` is what y proves (`safe_dual_bound`). ``iterations`` counts HiGHS's steps for
        children that were not certified; those of manylp itself are not told apart.
    """
    on_cpu(problem, "manylp here")
    if problem.child_objective is not None:
        raise Unsupported("manylp takes changes of bounds only, not of the objective")
    solution = nothing_yet(problem)
    matrix = problem.matrix
    constraints = scipy.sparse.csr_matrix(
        (matrix.values().double().numpy(), matrix.col_indices().numpy(), matrix.crow_indices().numpy()),
        shape=matrix.shape,
    ).tocsc()
    rows, children = matrix.shape[0], len(problem.branch_variable)
    lower, upper, row_lower, row_upper = (
        getattr(problem, name).double().numpy() for name in ("lower", "upper", "row_lower", "row_upper")
    )
    branched, place = np.unique(problem.branch_variable.numpy(), return_inverse=True)
    own_rows = problem.child_row_lower is not None
    sides = []
    for column_side, own_side, row_side in (
        (lower, problem.branch_lower, problem.child_row_lower), (upper, problem.branch_upper, problem.child_row_upper)
    ):  # fmt: skip
        side = np.repeat(column_side[branched][None], children, axis=0)
        side[np.arange(children), place] = own_side.double().numpy()
        sides.append(np.concatenate([side, row_side.double().T.numpy()], axis=1) if own_rows else side)
    family = LexLP(
        constraints, -problem.objective.double().numpy(), lower, upper, row_lower, row_upper,
        param_cols=branched, param_rows=np.arange(rows if own_rows else 0),
    )  # fmt: skip
    solver = BatchLPSolver("cpu", n_workers=torch.get_num_threads(), max_bases=children + 1, min_yield=0.0)
    try:
        group = solver.register_group(family)
        found = solver.solve_batch(group, *sides)
    finally:
        solver.close()

    x, y = solution.x.numpy(), solution.y.numpy()
    cost = np.concatenate([problem.objective.double().numpy(), np.zeros(rows)])
    certified = (found.status == CERTIFIED) & found.certified
    for number in np.unique(found.basis_id[certified]):
        basis = group.pool.get(number)
        mine = np.flatnonzero(certified & (found.basis_id == number))
        if basis is None:
            certified[mine] = False
            continue
        # A basic row has the dual 0, and a basic column the reduced cost 0.
        duals = (
            scipy.sparse.linalg.splu(family.Abar[:, basis.basic].T.tocsc()).solve(cost[basis.basic]) if rows else 0.0
        )
        x[:, mine], y[:, mine] = found.z[mine].T, np.reshape(duals, (-1, 1))
        solution.status.numpy()[mine] = lp.OPTIMAL
    parent = model(problem)

    def by_simplex(share: list[int]) -> None:
        children = Children(problem, parent, {"solver": "simplex", "presolve": "off"})
        for child in share:
            children.run(child, solution)

    in_shares(np.flatnonzero(~certified), by_simplex)
    return bounded(problem, solution)
