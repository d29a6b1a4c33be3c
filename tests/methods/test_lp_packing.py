"""What stands around the kernels of batched PDHG: lanes and who is in them, scaling, and what is found without iterations."""

import math
import random
from unittest import mock

import numba
import numpy as np
import pytest
import scipy.sparse
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from breakeven.methods.lp.kernels import cpu
from breakeven.methods.lp.kernels.layout import Lanes
from breakeven.methods.lp.kernels.node import Node
from breakeven.methods.lp.kernels.packing import EMPTY, LINE, WIDTHS, Packed
from breakeven.methods.lp.kernels.scaling import norm_of_sides, scale
from breakeven.problems import lp
from breakeven.problems.lp import (
    INFEASIBLE,
    LIMIT,
    OPTIMAL,
    PROOF_MARGIN,
    UNBOUNDED,
    LPBatch,
    farkas_margin,
    ray_margin,
    relative_kkt,
)
from breakeven.problems.lp.readers import from_scipy

PROBES = LPBatch.probes()
INF = math.inf
ROWS, COLUMNS = 3, 5


# --- lanes


def with_threads(number):
    return mock.patch.object(numba, "get_num_threads", return_value=number)


def scaled_lp():
    matrix = scipy.sparse.csr_array(np.arange(1.0, 1 + ROWS * COLUMNS).reshape(ROWS, COLUMNS))
    return scale(
        matrix, np.ones(COLUMNS), np.full(COLUMNS, -1.0), np.full(COLUMNS, 2.0), np.zeros(ROWS), np.full(ROWS, INF)
    ).lp


def variable_of(child):
    """Some have none."""
    return np.asarray(child) % (COLUMNS + 1) - 1


def packed_children(count):
    children = np.arange(count)
    return Packed(
        scaled_lp(), np.zeros((COLUMNS, count)), np.zeros((ROWS, count)), variable_of(children), -1.0 - children,
        1.0 + children,
    )  # fmt: skip


TAGGED = ("x_reflected", "x_anchor", "x_point", "y", "y_anchor", "y_point", "weight", "inner")


def tag(child, number, length=None):
    """Numbers that no other child, array or entry has."""
    first = 1000.0 * (child + 1) + 20.0 * number
    return first if length is None else first + np.arange(length)


def states(packed):
    arrays_ = [getattr(packed.lanes, name) for name in TAGGED]
    return [*arrays_, *packed.progress]


def write_tags(packed):
    for block, lane in np.argwhere(packed.running):
        for number, state in enumerate(states(packed)):
            child = int(packed.child[block, lane])
            if state.ndim == 3:
                state[block, :, lane] = tag(child, number, state.shape[1])
            else:
                state[block, lane] = tag(child, number)


def check_lanes(packed, children, threads):
    count, width = len(children), packed.child.shape[1]
    assert sorted(packed.child[packed.running].tolist()) == sorted(children)
    assert (packed.child[~packed.running] == EMPTY).all()
    assert width == expected_width(count, threads)
    assert packed.child.shape == (math.ceil(count / width), width)
    for state in (*packed.lanes[:-1], *packed.progress):
        assert (state.shape[0], state.shape[-1]) == packed.child.shape
        assert state.flags.c_contiguous  # `load` goes by the address of the first entry alone
        assert not np.isnan(state).any()
        if state.ndim == 3:
            assert state.ctypes.data % LINE == 0
    assert packed.lanes.branched.shape == (len(packed.child), COLUMNS)
    for block, lane in np.argwhere(packed.running):
        child = int(packed.child[block, lane])
        for number, state in enumerate(states(packed)):
            if state.ndim == 3:
                assert (state[block, :, lane] == tag(child, number, state.shape[1])).all()
            else:
                assert state[block, lane] == tag(child, number)
        variable = int(packed.lanes.variable[block, lane])
        assert variable == variable_of(child)
        assert packed.lanes.lower[block, lane] == -1 - child
        assert packed.lanes.upper[block, lane] == 1 + child
        assert variable == -1 or packed.lanes.branched[block, variable]


def expected_width(children, threads):
    for width in (16, 8, 4):
        if 2 * children > width * threads:
            return width
    return 4 if children > 1 else 1


@settings(max_examples=60, deadline=None)
@given(st.integers(1, 70), st.sampled_from([1, 2, 3, 8]), st.integers(0, 1 << 30))
def test_children_keep_their_state_while_others_are_dropped(count, threads, seed):
    choice = random.Random(seed)
    with with_threads(threads):
        packed, children = packed_children(count), list(range(count))
        write_tags(packed)
        check_lanes(packed, children, threads)
        while children:
            size = choice.choice([0, 1, 1, 2, len(children) // 3, len(children)])
            gone = choice.sample(children, min(size, len(children)))
            packed.drop(np.isin(packed.child, gone))
            children = [child for child in children if child not in gone]
            if children:
                check_lanes(packed, children, threads)
        assert not packed.running.any()


@pytest.mark.parametrize("threads", [1, 2, 5])
def test_widths(threads):
    with with_threads(threads):
        for count in (*range(1, 20), 31, 32, 33, 79, 80, 81):
            child = packed_children(count).child
            width = expected_width(count, threads)
            assert width in WIDTHS
            assert child.shape == (math.ceil(count / width), width)
            # Children lie in order, and what is spare is at the end.
            assert child.reshape(-1).tolist() == [*range(count), *[EMPTY] * (child.size - count)]


def test_width_in_numbers():
    counts = [1, 2, 3, 4, 5, 8, 15, 16, 17, 100]
    with with_threads(1):
        assert [packed_children(n).child.shape[1] for n in counts] == [1, 4, 4, 4, 8, 8, 16, 16, 16, 16]
    with with_threads(2):
        assert [packed_children(n).child.shape[1] for n in counts] == [1, 4, 4, 4, 4, 4, 8, 8, 16, 16]


def test_points_and_anchors_come_in_the_order_of_the_lanes():
    with with_threads(1):
        packed = packed_children(21)
        write_tags(packed)
        packed.drop(np.isin(packed.child, [0, 7, 20]))
        where = packed.running & (packed.child % 3 == 1)
        children = packed.child[where].tolist()
        assert sorted(children) == [1, 4, 10, 13, 16, 19]
        parts = zip((2, 5, 1, 4), (*packed.points(where), *packed.anchors(where)), strict=True)  # as in `TAGGED`
        for number, part in parts:
            expected = [tag(child, number, part.shape[0]) for child in children]
            assert part.T.tolist() == np.array(expected).tolist()


def test_children_start_in_their_boxes():
    problem = scaled_lp()
    x = np.linspace(-50, 50, COLUMNS * 4).reshape(COLUMNS, 4)
    y = np.arange(ROWS * 4.0).reshape(ROWS, 4)
    variable, lower, upper = np.array([0, 2, -1, 2]), np.array([5.0, 0.25, 9, -0.5]), np.array([6.0, 0.5, 9, -0.25])
    with with_threads(1):
        packed = Packed(problem, x, y, variable, lower, upper)
    expected = np.clip(x, problem.lower[:, None], problem.upper[:, None])
    for child in (0, 1, 3):
        j = variable[child]
        expected[j, child] = np.clip(expected[j, child], lower[child], upper[child])
    lanes = packed.lanes
    for name in ("x_reflected", "x_anchor", "x_point"):
        assert (getattr(lanes, name)[0] == expected).all(), name
    for name in ("y", "y_anchor", "y_point"):
        assert (getattr(lanes, name)[0] == y).all(), name
    assert (lanes.weight == 1).all()
    assert (lanes.inner == 0).all()
    assert lanes.branched[0].tolist() == [True, False, True, False, False]
    assert np.isinf(packed.progress.first_error).all()


def test_every_lane_iterates_for_itself():
    # Bit by bit the same in whatever lane, beside whatever neighbours, in blocks of one width.
    problem = scaled_lp()
    rng = np.random.default_rng(0)
    x, y = rng.standard_normal((COLUMNS, 16)), rng.standard_normal((ROWS, 16))
    variable, lower, upper = variable_of(np.arange(16)), np.full(16, -0.5), rng.random(16)
    order = rng.permutation(16)
    with with_threads(1):
        straight = Packed(problem, x, y, variable, lower, upper)
        mixed = Packed(problem, x[:, order], y[:, order], variable[order], lower[order], upper[order])
        for packed in (straight, mixed):
            cpu.iterate(problem, packed.lanes, 7)
            cpu.measure(problem, packed.lanes)
    for name in Lanes._fields[:-1]:
        assert (getattr(straight.lanes, name)[..., order] == getattr(mixed.lanes, name)).all(), name


# --- scaling

FAR = [(1e6, -1e6), (-INF, 1e-3), (1e3, INF), (-INF, INF)]


def dense(problem):
    shape = len(problem.row_lower), len(problem.lower)
    by_row = scipy.sparse.csr_array((problem.row_values, problem.row_indices, problem.row_starts), shape=shape)
    by_column = scipy.sparse.csr_array(
        (problem.column_values, problem.column_indices, problem.column_starts), shape=shape[::-1]
    )
    assert (by_row.toarray() == by_column.toarray().T).all()
    return by_row.toarray()


def random_lp(rows, columns, seed, spread=6):
    """Entries, sides and bounds from 1e-spread to 1e+spread, some sides infinite; no row or column is empty."""
    rng = np.random.default_rng(seed)

    def numbers(*shape):
        return rng.standard_normal(shape) * 10.0 ** rng.uniform(-spread, spread, shape)

    matrix = numbers(rows, columns) * (rng.random((rows, columns)) < 0.5)
    matrix[np.arange(rows), rng.integers(columns, size=rows)] = 2.5
    matrix[rng.integers(rows, size=columns), np.arange(columns)] = -0.5
    middle, width = numbers(rows), np.abs(numbers(rows))
    row_lower = np.where(rng.random(rows) < 0.3, -INF, middle)
    row_upper = np.where(rng.random(rows) < 0.3, INF, np.where(rng.random(rows) < 0.3, middle, middle + width))
    lower = np.where(rng.random(columns) < 0.3, -INF, -np.abs(numbers(columns)))
    upper = np.where(rng.random(columns) < 0.3, INF, np.abs(numbers(columns)))
    return scipy.sparse.csr_array(matrix), numbers(columns), lower, upper, row_lower, row_upper


@settings(max_examples=40, deadline=None)
@given(st.integers(1, 8), st.integers(1, 8), st.integers(0, 1 << 30))
def test_scaled_quantities_are_those_of_the_problem(rows, columns, seed):
    matrix, objective, lower, upper, row_lower, row_upper = data = random_lp(rows, columns, seed)
    scaled = scale(*data)
    small, rng = scaled.lp, np.random.default_rng(seed)
    x, y = rng.standard_normal(columns), rng.standard_normal(rows)
    scaled_x, scaled_y, of_scaled = x / scaled.x_unit, y / scaled.y_unit, dense(scaled.lp)
    close = {"rtol": 1e-9, "atol": 0.0}
    entries = matrix.toarray() * (scaled.y_unit[:, None] * scaled.x_unit) / scaled.value_unit
    np.testing.assert_allclose(of_scaled, entries, **close)
    for bound, own in ((small.lower, lower), (small.upper, upper)):
        np.testing.assert_allclose(bound * scaled.x_unit, own, **close)
    for side, own in ((small.row_lower, row_lower), (small.row_upper, row_upper)):
        np.testing.assert_allclose(side * small.row_unit, own, **close)
    assert scaled.value_unit * (small.objective @ scaled_x) == pytest.approx(objective @ x, rel=1e-9)
    terms = abs(matrix) @ np.abs(x)
    np.testing.assert_array_less(np.abs(small.row_unit * (of_scaled @ scaled_x) - matrix @ x), 1e-9 * terms + 1e-300)
    reduced, terms = objective - matrix.T @ y, np.abs(objective) + abs(matrix).T @ np.abs(y)
    of_y = small.column_unit * (small.objective - of_scaled.T @ scaled_y)
    np.testing.assert_array_less(np.abs(of_y - reduced), 1e-9 * terms + 1e-300)
    sides = np.concatenate([row_lower, row_upper[row_upper != row_lower]])
    norm = norm_of_sides(row_lower[:, None], row_upper[:, None])
    assert norm.tolist() == pytest.approx([np.linalg.norm(sides[np.isfinite(sides)])])
    assert all(unit.min() > 0 for unit in (scaled.x_unit, scaled.y_unit, small.row_unit, small.column_unit))


@settings(max_examples=40, deadline=None)
@given(st.integers(1, 8), st.integers(1, 8), st.integers(0, 1 << 30))
def test_scaling_evens_out_the_matrix(rows, columns, seed):
    entries = np.abs(dense(scale(*random_lp(rows, columns, seed)).lp))
    # Pock and Chambolle's pass comes last: its weights bound the product of what rows and columns sum up to.
    assert np.linalg.norm(entries, 2) <= 1 + 1e-9
    assert entries.sum(0).max() < 100
    assert entries.sum(1).max() < 100


def chain(length):
    return scipy.sparse.diags_array([np.ones(length), -np.ones(length - 1)], offsets=[0, 1], shape=(length, length))


def grid(size):
    """Flow in a square grid: a row for each node, a column for each arc."""
    difference = scipy.sparse.diags_array(
        [np.ones(size - 1), -np.ones(size - 1)], offsets=[0, 1], shape=(size - 1, size)
    )
    each = scipy.sparse.eye_array(size)
    return scipy.sparse.vstack([scipy.sparse.kron(difference, each), scipy.sparse.kron(each, difference)]).T


@pytest.mark.parametrize(
    "matrix",
    [[[5.0]], np.eye(4), np.full((6, 3), -2.0), np.diag([1e-6, 1.0, 1e6]) + np.triu(np.ones((3, 3)), 1), chain(100), grid(30)],
    ids=["one_entry", "identity", "rank_one", "badly_scaled", "chain", "grid"],
)  # fmt: skip
def test_the_step_is_short_enough(matrix):
    matrix = scipy.sparse.csr_array(matrix)
    rows, columns = matrix.shape
    scaled = scale(matrix, np.ones(columns), np.zeros(columns), np.ones(columns), np.zeros(rows), np.ones(rows))
    norm = np.linalg.norm(dense(scaled.lp), 2)
    assert 0.98 < scaled.lp.step * norm < 1


@pytest.mark.parametrize("iterations", [0, 13])
@pytest.mark.parametrize(
    "name", ["fractional_root", "free_variables", "badly_scaled", "ranged_and_free_rows", "planted_optimum"]
)
def test_measures_are_in_the_problems_units(name, iterations):
    node = Node(PROBES[name])
    scaled, problem = node.scaled, node.scaled.lp
    start = node.start()
    with with_threads(1):
        packed = Packed(problem, *start)
        cpu.iterate(problem, packed.lanes, iterations)
        measures = cpu.measure(problem, packed.lanes)
    where = packed.running
    x, y = packed.points(where)
    children = node.left[packed.child[where]]
    matrix = PROBES[name].matrix.to_dense().numpy()
    (rows, columns), left = matrix.shape, (x * scaled.x_unit[:, None], y * scaled.y_unit[:, None])
    x, y = node.x[:, children], np.zeros((rows, len(children)))
    x[node.columns], y[node.rows] = left
    assert len(node.columns) == columns  # a column that is left out has a value that is not measured
    row_lower, row_upper = node.row_lower, node.row_upper
    activity = matrix @ x
    violation = np.maximum(row_lower - activity, 0) + np.maximum(activity - row_upper, 0)
    lower, upper = (np.repeat(side[:, None], len(children), axis=1) for side in (node.lower, node.upper))
    lower[node.variable[children], range(len(children))] = node.branch_lower[children]
    upper[node.variable[children], range(len(children))] = node.branch_upper[children]
    reduced = node.objective - matrix.T @ y
    bound, side = np.where(reduced > 0, lower, upper), np.where(y > 0, row_lower, row_upper)
    residual = np.where(np.isinf(bound), reduced, 0)
    dual_value = (reduced * np.where(np.isinf(bound), 0, bound)).sum(0) + (y * np.where(np.isinf(side), 0, side)).sum(0)

    def close(measured, own, size):
        np.testing.assert_allclose(measured[where], own, rtol=1e-9, atol=1e-12 * size)

    size = 1 + np.abs(activity).max()
    close(np.sqrt(measures.primal_residual), np.linalg.norm(violation, axis=0), size)
    close(np.sqrt(measures.dual_residual), np.linalg.norm(residual, axis=0), 1 + np.abs(node.objective).max())
    close(
        scaled.value_unit * measures.primal_value,
        node.objective[:, 0] @ x,
        1 + np.abs(node.objective[:, 0]) @ np.abs(x).max(1),
    )
    terms = np.abs(reduced * np.where(np.isinf(bound), 0, bound)).sum(0) + np.abs(
        y * np.where(np.isinf(side), 0, side)
    ).sum(0)
    close(scaled.value_unit * measures.dual_value, dual_value, 1 + terms.max())


# --- what a node knows without iterations


def batch_of(*, matrix, rows, objective, columns, children, x=None, y=None):
    x, y = x or [0.0] * len(columns), y or [0.0] * len(rows)
    return lp._probe(
        LPBatch, "made_up", matrix=matrix, rows=rows, objective=objective, columns=columns, children=children, x=x, y=y,
        basis=([1] * len(columns), [1] * len(rows)),
    )  # fmt: skip


@pytest.mark.parametrize(("sides", "price"), [((2, INF), 1), ((-INF, -2), -1), ((1, 1), 1)])
def test_a_broken_empty_row_is_a_proof_for_every_child(sides, price):
    problem = batch_of(
        matrix=[[1.0, 1], [0, 0]], rows=[(1, INF), sides], objective=[1, 1], columns=[(0, 4), (0, 4)],
        children=[(0, 0, 2, INF), (0, 3, 2, INF)],
    )  # fmt: skip
    node = Node(problem)
    assert node.left.size == 0
    solution = node.solution()
    assert solution.status.tolist() == [INFEASIBLE] * 2
    assert solution.y.tolist() == [[0, 0], [price, 0]]  # the second one's bounds cross, which needs no duals
    assert (farkas_margin(problem, solution.y) > PROOF_MARGIN).all()
    assert solution.dual_bound.tolist() == [INF] * 2


def test_an_empty_row_that_holds_is_left_out():
    node = Node(PROBES["empty_row"])
    assert node.rows.tolist() == [0]
    assert node.left.tolist() == [0, 1]
    assert dense(node.scaled.lp).shape == (1, 2)


def test_crossing_bounds_are_infeasible_and_the_others_left():
    problem = batch_of(
        matrix=[[1.0, 1]], rows=[(1, INF)], objective=[1, 1], columns=[(0, 4), (0, 4)],
        children=[(0, 3, 2, INF), (1, 1, 2, 1), (1, 0, -1, INF), (0, 0, 3, 1)],
    )  # fmt: skip
    node = Node(problem)
    assert node.status.tolist() == [INFEASIBLE, LIMIT, INFEASIBLE, LIMIT]
    assert node.left.tolist() == [1, 3]


def test_empty_columns_take_their_best_bound():
    problem = batch_of(
        matrix=[[1.0, 0, 0, 0, 1]], rows=[(1, INF)], objective=[1, 2, -2, 0, 1],
        columns=[(0, 4), (-3, 5), (-4, 6), (-INF, INF), (0, 4)],
        children=[(0, 0, 2, -9.0), (1, 1, 2, -9.0), (2, 0, 1, -7.0), (3, 2, 7, -17.0), (3, -7, -2, -17.0)],
    )  # fmt: skip
    node = Node(problem)
    assert node.left.tolist() == [0, 1, 2, 3, 4]
    assert node.x[1:4].T.tolist() == [[-3, 6, 0], [1, 6, 0], [-3, 1, 0], [-3, 6, 2], [-3, 6, -2]]
    assert node.start()[2].tolist() == [0, -1, -1, -1, -1]  # what is branched on may not be in the scaled LP


@pytest.mark.parametrize("others", [(0, 1), (1, 2), (-2, -1)], ids=str)
def test_an_empty_column_without_an_end_is_a_ray(others):
    # Wherever the other empty columns are best, they do not move along the ray.
    problem = batch_of(
        matrix=[[0, 1.0, 0, 0, 1]], rows=[(1, INF)], objective=[1, 1, -1, 1, 1],
        columns=[others, (0, 4), (0, 3), others, (0, 4)],
        children=[(2, 0, INF, -INF), (2, 0, 5, 1 + 2 * others[0] - 5.0)], x=[others[0], 1, 3, others[0], 0],
    )  # fmt: skip
    node = Node(problem)
    assert node.status.tolist() == [UNBOUNDED, LIMIT]
    assert node.left.tolist() == [1]
    solution = node.solution()
    assert ray_margin(problem, solution.x)[0] > PROOF_MARGIN
    assert solution.dual_bound[0] == -INF
    assert node.x[:4, 1].tolist() == [others[0], 0, 5, others[0]]


def test_without_rows_everything_is_decided():
    node = Node(PROBES["no_rows"])
    assert node.left.size == 0
    node.end_without_rows(1e-12, 1e-12)
    solution = node.solution()
    assert solution.status.tolist() == [OPTIMAL, INFEASIBLE, OPTIMAL]
    assert (PROBES["no_rows"].objective @ solution.x)[[0, 2]].tolist() == [-4, -2.5]


def test_start_is_the_parents_optimum_scaled():
    problem = PROBES["planted_optimum"]
    node = Node(problem)
    x, y, variable, lower, upper, weight = node.start()
    assert (weight == 1).all()
    unit = node.scaled.x_unit
    np.testing.assert_allclose((x * unit[:, None]).T, [problem.parent_x.tolist()] * 8, rtol=1e-14)
    np.testing.assert_allclose((y * node.scaled.y_unit[:, None]).T, [problem.parent_y.tolist()] * 8, rtol=1e-14)
    assert variable.tolist() == problem.branch_variable.tolist()
    np.testing.assert_allclose(lower * unit[variable], problem.branch_lower.tolist(), rtol=1e-14)
    np.testing.assert_allclose(upper * unit[variable], problem.branch_upper.tolist(), rtol=1e-14)


def test_start_finds_variables_behind_empty_columns():
    problem = batch_of(
        matrix=[[0, 2.0, 0, 1], [0, 0, 0, 0], [0, 1, 0, -1]], rows=[(1, INF), (-1, 1), (-INF, 3)], objective=[1] * 4,
        columns=[(0, 4)] * 4, children=[(3, 0, 2, 0.5), (2, 1, 4, 1.5), (1, 1, 2, 1)], x=[0, 0.5, 0, 0.25], y=[0.5, 0, -0.5],
    )  # fmt: skip
    node = Node(problem)
    x, y, variable, _, upper, _ = node.start()
    assert variable.tolist() == [1, -1, 0]
    np.testing.assert_allclose(x[:, 0] * node.scaled.x_unit, [0.5, 0.25])
    np.testing.assert_allclose(y[:, 0] * node.scaled.y_unit, [0.5, -0.5])
    np.testing.assert_allclose(upper[[0, 2]] * node.scaled.x_unit[[1, 0]], [2, 2])


def scaled_points(node, x, y):
    """Columns in the problem's units, as `accept` and `prove` take them."""
    x, y = np.array(x, dtype=float).T, np.array(y, dtype=float).T
    return x[node.columns] / node.scaled.x_unit[:, None], y[node.rows] / node.scaled.y_unit[:, None]


def test_accept_looks_at_the_points_themselves():
    node = Node(PROBES["fractional_root"])  # children 0 and 1: the optima are (1, 1.5) and (2, 0)
    right = scaled_points(node, [[1, 1.5], [2, 0]], [[-0.5, 0], [0, -1]])
    primal, dual = scaled_points(node, [[1, 1.6], [2, 0]], [[-0.5, 0], [0, -0.5]])
    assert node.accept(np.array([0, 1]), primal, dual, 1e-6, INF).tolist() == [False, False]
    assert node.status.tolist() == [LIMIT] * 4
    assert node.accept(np.array([0, 1]), primal, dual, 0.5, INF).tolist() == [True, True]
    node = Node(PROBES["fractional_root"])
    half_right = (np.column_stack([right[0][:, 0], primal[:, 0]]), np.column_stack([right[1][:, 0], dual[:, 0]]))
    assert node.accept(np.array([0, 2]), *half_right, 1e-9, INF).tolist() == [True, False]
    assert node.accept(np.array([1]), right[0][:, 1:], right[1][:, 1:], 1e-9, INF).tolist() == [True]
    solution = node.solution()
    assert solution.status.tolist() == [OPTIMAL, OPTIMAL, LIMIT, LIMIT]
    np.testing.assert_allclose(solution.x.T.tolist(), [[1, 1.5], [2, 0], [0, 0], [0, 0]], atol=1e-15)
    np.testing.assert_allclose(solution.y.T.tolist(), [[-0.5, 0], [0, -1], [0, 0], [0, 0]], atol=1e-15)
    np.testing.assert_allclose(
        solution.dual_bound.tolist(), [-2.5, -2, -11, -20], rtol=1e-12
    )  # of zero duals in the last two


@pytest.mark.parametrize(
    ("x", "y", "error"),
    [([1, 0], [0], 2 / 4), ([3, 0], [0.5], 2.5 / 3.5), ([6, 0], [0], 0.0), ([4, 0], [-0.5], 0.5)],
    ids=["primal", "gap", "none", "dual"],
)
def test_accept_measures_each_residual(x, y, error):
    # No objective, x + z >= 3, x <= 8, z <= 0.5: the dual -0.5 prices an absent side.
    problem = batch_of(
        matrix=[[1.0, 1]], rows=[(3, INF)], objective=[0, 0], columns=[(0, 9), (0, 0)], children=[(0, 0, 8, 0), (1, 0, 0.5, 0)],
        x=[3, 0], y=[0],
    )  # fmt: skip
    for tolerance in (0.99 * error - 1e-12, 1.01 * error + 1e-12):
        node = Node(problem)
        points = scaled_points(node, [x], [y])
        assert node.accept(np.array([0]), *points, tolerance, INF).tolist() == [tolerance > error]


def test_accept_puts_points_into_the_childs_box():
    node = Node(PROBES["fractional_root"])
    x, y = scaled_points(node, [[1 + 1e-9, 1.5]], [[-0.5, 0]])
    assert node.accept(np.array([0]), x, y, 1e-6, INF).tolist() == [True]
    assert node.x[0, 0] == 1


@pytest.mark.parametrize(("x", "y", "right"), [(900.0, 0.9, False), (999.9, 0.9999, True)])
def test_accept_looks_at_what_violations_are_worth(x, y, right):
    # Beside a row of 1e7 the first, of 1000, may be missed by a tenth; the objective must not.
    problem = from_scipy([[1.0, 1, 0, 0], [0, 0, 1, 1]], [1, 1, 0, 0], row_lower=[1000, 1e7])
    node = Node(problem)
    points = scaled_points(node, [[x, 0, 1e7, 0]], [[y, 0]])
    whole_x, whole_y = torch.tensor([[x, 0, 1e7, 0]]).double().T, torch.tensor([[y, 0]]).double().T
    assert relative_kkt(problem, whole_x, whole_y)[0] <= 1e-4
    assert node.accept(np.array([0]), *points, 1e-4, INF).tolist() == [right]


def test_prove_wants_a_margin():
    node = Node(PROBES["equality_rows"])  # child 1, x >= 2, is infeasible by y = (-1, -1); child 0 is not
    x, y = scaled_points(node, [[0, 0, 0]] * 2, [[-1, -1]] * 2)
    assert node.prove(np.array([0, 1]), x, y).tolist() == [False, True]
    assert node.status.tolist() == [LIMIT, INFEASIBLE]
    solution = node.solution()
    assert solution.y.T.tolist() == [[0, 0], pytest.approx([-1, -1])]
    assert solution.dual_bound[1] == INF
    sliver = batch_of(
        matrix=[[1.0, 1], [1.0, 1]], rows=[(0.1 + 0.2, INF), (-INF, 0.5)], objective=[1, 0], columns=[(0, 1), (0, 0)],
        children=[(0, 0, 0.3, 0.3), (1, 0, 1, 0)],
    )  # fmt: skip
    node = Node(sliver)
    assert node.prove(np.array([0]), *scaled_points(node, [[0, 0]], [[1, 0]])).tolist() == [False]
    assert node.status.tolist() == [LIMIT] * 2


def test_prove_knows_rays():
    node = Node(PROBES["unbounded_child"])
    x, y = scaled_points(node, [[2, 2]] * 2, [[0]] * 2)
    assert node.prove(np.array([0, 1]), x, y).tolist() == [False, True]
    solution = node.solution()
    assert solution.status.tolist() == [LIMIT, UNBOUNDED]
    assert solution.dual_bound[1] == -INF
    assert solution.x.T.tolist() == [[0, 0], pytest.approx([2, 2])]


@given(arrays(np.float64, (2, 4), elements=st.floats(-1e6, 1e6)))
@settings(max_examples=30, deadline=None)
def test_bounds_of_given_up_children_hold_for_any_dual(y):
    node = Node(PROBES["fractional_root"])
    x, y = scaled_points(node, [[0, 0]] * 4, y.T)
    node.give_up(np.arange(4), x, y)
    assert (node.solution().dual_bound <= PROBES["fractional_root"].reference).all()


def test_tensors_come_in_the_problems_dtype():
    for dtype in (torch.float32, torch.float64):
        solution = Node(PROBES["no_rows"].astype(dtype)).solution()
        assert {solution.x.dtype, solution.y.dtype, solution.dual_bound.dtype} == {dtype}
        assert solution.status.dtype == torch.int8
        assert solution.iterations.dtype == torch.int64
