"""Exact optimal transport in linear memory: shortest augmenting paths on a few cheap pairs, and pairs added until none lacks.

Of n x m pairs a vertex of the transport polytope uses n + m - 1 at most. The problem is solved on some candidates, the
cheapest of each row by the cost less a potential that Sinkhorn's iteration has left (successive shortest paths with
potentials: Edmonds and Karp 1972; Jonker and Volgenant 1987). Its duals tell which of all other pairs would have been cheaper;
these join the candidates, until there are none. What remains is optimal among all pairs.
"""

import itertools
import typing

import numpy as np
from numba import njit, prange

from breakeven.methods.gromov_wasserstein.kernels.cpu import BLOCK, ball_around, reach_of, scores

CANDIDATES = 24
"""Pairs per row, and half as many per column, to begin with."""

ADDED = 4
"""Pairs per row that may join in one round."""

TOLERANCE = 1e-11
"""Reduced costs are zero below this share of the largest cost."""


class Costs(typing.Protocol):
    """Costs between n and m points, however they are kept."""

    shape: tuple[int, int]

    def cheapest(self, potentials: np.ndarray, count: int) -> tuple[np.ndarray, np.ndarray]:
        """Per row the ``count`` columns of the smallest ``cost - potential``: columns and these values, ascending."""

    def across(self) -> "Costs":
        """The same costs with rows and columns exchanged."""

    def at(self, rows: np.ndarray, columns: np.ndarray) -> np.ndarray:
        """Single costs."""


class FactoredCosts:
    """``cost_ij = -left_i . right_j``, of (n, d) and (m, d)."""

    def __init__(self, left: np.ndarray, right: np.ndarray):
        self.left, self.right = left, right
        self.shape = len(left), len(right)

    def cheapest(self, potentials, count):
        return _cheapest_of_products(
            self.left, np.ascontiguousarray(self.right.T), potentials, min(count, self.shape[1])
        )

    def across(self):
        return FactoredCosts(self.right, self.left)

    def at(self, rows, columns):
        return _products_at(self.left, self.right, rows, columns)


class DenseCosts:
    """Costs in a matrix, (n, m)."""

    def __init__(self, matrix: np.ndarray):
        self.matrix, self.shape = matrix, matrix.shape

    def cheapest(self, potentials, count):
        return _cheapest_of_rows(self.matrix, potentials, min(count, self.shape[1]))

    def across(self):
        return DenseCosts(np.ascontiguousarray(self.matrix.T))

    def at(self, rows, columns):
        return self.matrix[rows, columns]


class Vertex(typing.NamedTuple):
    """An optimal plan by its entries, and the dual potentials of the columns.

    It is a vertex but where several are equally cheap and weights unequal: then it may be a mixture of a few.
    """

    row: np.ndarray
    column: np.ndarray
    mass: np.ndarray
    potentials: np.ndarray
    candidates: np.ndarray  # the pairs among which it was found, as row * m + column, ascending
    rounds: int


def cheapest_vertex(
    costs: Costs, a: np.ndarray, b: np.ndarray, potentials: np.ndarray, candidates: np.ndarray | None = None
) -> Vertex:
    """The vertex of the transport polytope of a and b (both positive, sum 1) whose cost is least.

    Args:
        potentials: (m,) a guess of the columns' duals: the better it is, the faster; zeros will do.
        candidates: those of a vertex for similar costs, to begin with; they are looked for unless given.
    """
    n, m = costs.shape
    v = potentials.astype(np.float64)
    pairs = _candidates(costs, a, b, v) if candidates is None else candidates
    edge_costs = costs.at(pairs // m, pairs % m)
    tolerance = TOLERANCE * max(np.abs(edge_costs).max(), np.abs(v).max())
    flow = np.zeros(len(pairs))
    equal = n == m and np.ptp(a) <= 1e-12 * a[0] and np.ptp(b) <= 1e-12 * a[0]
    supply, demand = (np.ones(n), np.ones(m)) if equal else (a.copy(), b * (a.sum() / b.sum()))
    for rounds in itertools.count(1):  # noqa: B007 - told below
        row, column = pairs // m, pairs % m
        starts = np.searchsorted(row, np.arange(n + 1))
        u = _feasible(starts, column, edge_costs, flow, supply, demand, v, tolerance)
        _augment(starts, row, column, edge_costs, flow, supply, demand, u, v)
        columns, values = costs.cheapest(v, ADDED)
        short = values < u[:, None] - tolerance
        if not short.any():
            break
        new = np.sort(np.repeat(np.arange(n), short.sum(axis=1)) * m + columns[short])
        new = new[pairs[np.searchsorted(pairs, new).clip(max=len(pairs) - 1)] != new]
        if not len(new):
            break
        order = np.argsort(np.concatenate([pairs, new]), kind="stable")
        pairs = np.concatenate([pairs, new])[order]
        edge_costs = np.concatenate([edge_costs, costs.at(new // m, new % m)])[order]
        flow = np.concatenate([flow, np.zeros(len(new))])[order]
    used = flow > 0
    mass = flow[used] / n if equal else flow[used]
    return Vertex(pairs[used] // m, pairs[used] % m, mass, v, pairs, rounds)


def dual_bound(costs: Costs, a: np.ndarray, b: np.ndarray, potentials: np.ndarray) -> float:
    """What no plan costs less than, by these duals of the columns: the higher, the better a guess."""
    _, values = costs.cheapest(potentials, 1)
    return float(a @ values[:, 0] + b @ potentials)


def _candidates(costs: Costs, a: np.ndarray, b: np.ndarray, v: np.ndarray) -> np.ndarray:
    """The cheapest pairs of each row and of each column, and the stairs of a vertex, without which there might be no plan."""
    n, m = costs.shape
    columns, values = costs.cheapest(v, CANDIDATES)
    others, _ = costs.across().cheapest(values[:, 0].copy(), CANDIDATES // 2)
    of_rows = np.repeat(np.arange(n), columns.shape[1]) * m + columns.ravel()
    of_columns = others.ravel() * m + np.repeat(np.arange(m), others.shape[1])
    row, column, _ = north_west(a, b)
    return np.unique(np.concatenate([of_rows, of_columns, row * m + column]))


def north_west(a: np.ndarray, b: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The vertex of the north-west corner rule, for weights of the same sum: rows, columns and masses."""
    x_ends, y_ends = np.cumsum(a), np.cumsum(b)
    x_ends[-1] = y_ends[-1] = max(x_ends[-1], y_ends[-1])
    ends = np.union1d(x_ends, y_ends)
    mass = np.diff(ends, prepend=0.0)
    middles = ends - mass / 2
    rows = np.searchsorted(x_ends, middles).clip(max=len(a) - 1)
    return rows, np.searchsorted(y_ends, middles).clip(max=len(b) - 1), mass


def sorted_vertex(x_means: np.ndarray, y_means: np.ndarray, a: np.ndarray, b: np.ndarray):
    """The vertex that is cheapest for ``-x_means_i y_means_j``: both sides in the same order."""
    x_order, y_order = np.argsort(x_means, kind="stable"), np.argsort(y_means, kind="stable")
    rows, columns, mass = north_west(a[x_order], b[y_order])
    return x_order[rows], y_order[columns], mass


@njit(parallel=True, cache=True)
def _products_at(left, right, rows, columns):
    """``-left_i . right_j`` of single pairs, without a copy of the points of each."""
    out = np.empty(len(rows))
    for k in prange(len(rows)):
        i, j = rows[k], columns[k]
        total = 0.0
        for d in range(left.shape[1]):
            total += left[i, d] * right[j, d]
        out[k] = -total
    return out


@njit(cache=True)
def _feasible(starts, column, costs, flow, supply, demand, v, tolerance):
    """Duals of the rows that no candidate undercuts; flow on pairs that are no longer tight goes back."""
    n = len(starts) - 1
    u = np.empty(n)
    for i in range(n):
        least = np.inf
        for e in range(starts[i], starts[i + 1]):
            least = min(least, costs[e] - v[column[e]])
        u[i] = least
        for e in range(starts[i], starts[i + 1]):
            if flow[e] > 0 and costs[e] - v[column[e]] - least > tolerance:
                supply[i] += flow[e]
                demand[column[e]] += flow[e]
                flow[e] = 0.0
    return u


@njit(cache=True)
def _push(heap, keys, size, key, item):
    place = size
    while place > 0:
        parent = (place - 1) >> 1
        if keys[parent] <= key:
            break
        keys[place], heap[place] = keys[parent], heap[parent]
        place = parent
    keys[place], heap[place] = key, item
    return size + 1


@njit(cache=True)
def _pop(heap, keys, size):
    """Removes the least; the caller has read it at place 0."""
    size -= 1
    key, item = keys[size], heap[size]
    place = 0
    while True:
        child = 2 * place + 1
        if child >= size:
            break
        if child + 1 < size and keys[child + 1] < keys[child]:
            child += 1
        if keys[child] >= key:
            break
        keys[place], heap[place] = keys[child], heap[child]
        place = child
    keys[place], heap[place] = key, item
    return size


@njit(cache=True)
def _unchain(first, following, j, pair):
    """Take a pair out of the chain of column j."""
    if first[j] == pair:
        first[j] = following[pair]
        return
    e = first[j]
    while following[e] != pair:
        e = following[e]
    following[e] = following[pair]


@njit(cache=True)
def _augment(starts, row, column, costs, flow, supply, demand, u, v):
    """Send every row's supply along shortest paths of reduced costs; changes flow, supply, demand, u and v."""
    n, m = len(supply), len(demand)
    least = 1e-15 * max(supply.max(), demand.max())
    # Tight pairs first: no path is shorter.
    for i in range(n):
        for e in range(starts[i], starts[i + 1]):
            j = column[e]
            if supply[i] > least and demand[j] > least and costs[e] - u[i] - v[j] <= 0:
                sent = min(supply[i], demand[j])
                flow[e] += sent
                supply[i] -= sent
                demand[j] -= sent
    # Pairs with flow, a chain for each column: of a column's pairs, few have any.
    first, following = np.full(m, -1), np.full(len(column), -1)
    for e in range(len(column)):
        if flow[e] > 0:
            first[column[e]], following[e] = e, first[column[e]]
    distance = np.full(m, np.inf)
    by = np.empty(m, np.int64)  # the pair by which a column was reached
    done = np.zeros(m, np.bool_)
    reached_by = np.empty(n, np.int64)  # the pair by which a row was reached, backwards
    row_distance = np.full(n, np.inf)
    rows, seen = np.empty(n, np.int64), np.empty(m, np.int64)
    heap, keys = np.empty(len(column) + 1, np.int64), np.empty(len(column) + 1)
    scanned = 0
    for source in range(n):
        while supply[source] > least:
            size, rows_count, seen_count = 0, 0, 0
            i, here, last = source, 0.0, -1
            reached_by[source] = -1
            row_distance[source] = 0.0
            rows[0], rows_count = source, 1
            next_row = 0
            while last < 0:
                while next_row < rows_count:
                    i = rows[next_row]
                    next_row += 1
                    base = row_distance[i] - u[i]
                    for e in range(starts[i], starts[i + 1]):
                        j = column[e]
                        if done[j]:
                            continue
                        through = max(base + costs[e] - v[j], row_distance[i])
                        if through < distance[j]:
                            if distance[j] == np.inf:
                                seen[seen_count] = j
                                seen_count += 1
                            distance[j], by[j] = through, e
                            if size == len(heap):  # stale entries fill it up: make room
                                heap, keys = np.append(heap, np.empty(size, np.int64)), np.append(keys, np.empty(size))
                            size = _push(heap, keys, size, through, j)
                    scanned += 1
                if size == 0:
                    break
                here, j = keys[0], heap[0]
                size = _pop(heap, keys, size)
                if done[j] or here > distance[j]:
                    continue
                done[j] = True
                if demand[j] > least:
                    last = j
                    break
                e = first[j]
                while e >= 0:
                    if row_distance[row[e]] == np.inf:
                        reached_by[row[e]], row_distance[row[e]] = e, here
                        rows[rows_count] = row[e]
                        rows_count += 1
                    e = following[e]
            if last >= 0:
                for k in range(rows_count):
                    u[rows[k]] += here - row_distance[rows[k]]
                for k in range(seen_count):
                    if done[seen[k]]:
                        v[seen[k]] -= here - distance[seen[k]]
                sent, j = min(supply[source], demand[last]), last
                while True:
                    i = row[by[j]]
                    if reached_by[i] < 0:
                        break
                    sent = min(sent, flow[reached_by[i]])
                    j = column[reached_by[i]]
                supply[source] -= sent
                demand[last] -= sent
                j = last
                while True:
                    e = by[j]
                    if flow[e] == 0:
                        first[j], following[e] = e, first[j]
                    flow[e] += sent
                    back = reached_by[row[e]]
                    if back < 0:
                        break
                    j = column[back]
                    flow[back] -= sent
                    if flow[back] == 0:
                        _unchain(first, following, j, back)
            for k in range(rows_count):
                row_distance[rows[k]] = np.inf
            for k in range(seen_count):
                distance[seen[k]], done[seen[k]] = np.inf, False
            if last < 0:
                break  # rounding has left this row a crumb that no column wants
    return scanned


@njit(inline="always")
def _insert(values, columns, value, j):
    """Into the ascending values, of which the last one falls out."""
    place = len(values) - 1
    while place > 0 and values[place - 1] > value:
        values[place], columns[place] = values[place - 1], columns[place - 1]
        place -= 1
    values[place], columns[place] = value, j


@njit(error_model="numpy")
def _cheapest_of_product(left, right, potentials, values, columns):
    """One row of `_cheapest_of_products`; columns are places among these."""
    found = np.empty(256)
    values[:] = np.inf
    columns[:] = 0
    for start in range(0, right.shape[1], len(found)):
        stop = min(start + len(found), right.shape[1])
        if -scores(left, right, potentials, start, stop, found) < values[-1]:
            for k in range(stop - start):
                if -found[k] < values[-1]:
                    _insert(values, columns, -found[k], start + k)


@njit(error_model="numpy")
def _near(left, right, potentials, values, columns):
    """Columns among which are the cheapest of each of these rows: all that are not surely dearer than those of their middle."""
    size = right.shape[1]
    middle, radius = ball_around(left)
    found, reach = np.empty(size), np.empty(size)
    scores(middle, right, potentials, 0, size, found)
    _cheapest_of_product(middle, right, potentials, values, columns)
    reach_of(radius, right, columns[0], reach)
    least = np.inf
    for j in columns:
        least = min(least, found[j] - reach[j])
    least -= 1e-12 * np.abs(found).max()
    return np.flatnonzero(found + reach >= least)


@njit(error_model="numpy")
def _cheapest_of_block(left, right, potentials, values, columns):
    near = _near(left, right, potentials, values[0], columns[0])
    some, their_potentials = np.empty((right.shape[0], len(near))), potentials[near]
    for d in range(right.shape[0]):
        for k in range(len(near)):
            some[d, k] = right[d, near[k]]
    for i in range(len(left)):
        _cheapest_of_product(left[i], some, their_potentials, values[i], columns[i])
        for k in range(columns.shape[1]):
            columns[i, k] = near[columns[i, k]]


@njit(parallel=True, cache=True, error_model="numpy")
def _cheapest_of_products(left, right, potentials, count):
    columns, values = np.empty((len(left), count), np.int64), np.empty((len(left), count))
    for block in prange((len(left) + BLOCK - 1) // BLOCK):
        rows = slice(block * BLOCK, (block + 1) * BLOCK)
        _cheapest_of_block(left[rows], right, potentials, values[rows], columns[rows])
    return columns, values


@njit
def _cheapest_of_row(costs, potentials, values, columns):
    values[:] = np.inf
    columns[:] = 0
    for j in range(len(costs)):
        if costs[j] - potentials[j] < values[-1]:
            _insert(values, columns, costs[j] - potentials[j], j)


@njit(parallel=True, cache=True, error_model="numpy")
def _cheapest_of_rows(costs, potentials, count):
    columns, values = np.empty((len(costs), count), np.int64), np.empty((len(costs), count))
    for i in prange(len(costs)):
        _cheapest_of_row(costs[i], potentials, values[i], columns[i])
    return columns, values
