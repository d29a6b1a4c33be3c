"""The kernels of batched PDHG for CPUs: against `lp_reference`, against their neighbours, and rows against NumPy."""

import contextlib
import functools

import numba
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kernels import lp_reference as reference

from breakeven.methods.lp.kernels import cpu
from breakeven.methods.lp.kernels.layout import Lanes
from breakeven.methods.lp.kernels.simd import choose, load, store, sum_of_rows, zeros

INF, NAN = np.inf, np.nan
ODD = (0.0, -0.0, 1.5, -1.5, INF, -INF, NAN)

every_width = pytest.mark.parametrize("width", [1, 4, 8, 16])
on_threads = pytest.mark.parametrize("threads", [1, 2])
quick = settings(max_examples=25, deadline=None)


@contextlib.contextmanager
def threads_are(threads):
    if threads > numba.config.NUMBA_NUM_THREADS:
        pytest.skip(f"Numba has {numba.config.NUMBA_NUM_THREADS} thread(s) here, {threads} are asked for")
    before = numba.get_num_threads()
    numba.set_num_threads(threads)
    try:
        yield
        assert numba.get_num_threads() == threads  # the kernels leave it as it was
    finally:
        numba.set_num_threads(before)


def each_lane(lp, lanes):
    for b, w in np.ndindex(lanes.weight.shape):
        yield b, w, reference.column(lp, lanes, b, w)


@every_width
@on_threads
@quick
@given(data=st.data(), iterations=st.integers(0, 6))
def test_iterate(width, threads, data, iterations):
    lp, lanes = data.draw(reference.problems(width))
    before = reference.copied(lanes)
    with threads_are(threads):
        cpu.iterate(lp, lanes, iterations)
    for b, w, column in each_lane(lp, before):
        reference.assert_state(lanes, b, w, reference.iterate(column, iterations))


@every_width
@on_threads
@quick
@given(data=st.data())
def test_measure(width, threads, data):
    lp, lanes = data.draw(reference.problems(width))
    before = reference.copied(lanes)
    with threads_are(threads):
        found = cpu.measure(lp, lanes)
    for b, w, column in each_lane(lp, before):
        after, expected = reference.measure(column)
        reference.assert_state(lanes, b, w, after)
        for name, value in expected._asdict().items():
            reference.assert_near(getattr(found, name)[b, w], value, name)


@every_width
@on_threads
@quick
@given(data=st.data())
def test_rays(width, threads, data):
    lp, lanes = data.draw(reference.problems(width))
    before = reference.copied(lanes)
    with threads_are(threads):
        found = cpu.rays(lp, lanes)
    for b, w, column in each_lane(lp, before):
        reference.assert_state(lanes, b, w, column)
        for name, value in reference.rays(column)._asdict().items():
            reference.assert_near(getattr(found, name)[b, w], value, name)


@every_width
@on_threads
@quick
@given(data=st.data(), seed=st.integers(0, 2**32))
def test_restart(width, threads, data, seed):
    lp, lanes = data.draw(reference.problems(width))
    before = reference.copied(lanes)
    where = np.random.default_rng(seed).integers(0, 2, lanes.weight.shape).astype(np.float64)
    with threads_are(threads):
        cpu.restart(lanes, where, lanes.weight)
    for b, w, column in each_lane(lp, before):
        reference.assert_state(lanes, b, w, reference.restart(column) if where[b, w] else column)


@every_width
@quick
@given(data=st.data(), seed=st.integers(0, 2**32), fill=st.sampled_from([None, NAN, INF]))
def test_a_lane_does_not_depend_on_its_neighbours_or_its_place(width, data, seed, fill):
    """Bit for bit: it is moved into another block and lane, among other children, or among numbers that have blown up."""
    lp, lanes = data.draw(reference.problems(width))
    rng = np.random.default_rng(seed)
    others = reference.problem(lp.row_lower.size, lp.objective.size, 2, width, seed)[1]
    if fill is not None:
        for state in others[:8]:
            state[:] = fill
    here, there = (tuple(rng.integers(0, lanes_.weight.shape)) for lanes_ in (lanes, others))
    for mine, other in zip(lanes[:-1], others[:-1], strict=True):
        other[there[0], ..., there[1]] = mine[here[0], ..., here[1]]
    others.branched[:] |= rng.random(others.branched.shape) < 0.3  # where nobody branches it must not matter
    if lanes.variable[here] >= 0:
        others.branched[there[0], int(lanes.variable[here])] = True
    found = [walk(lp, some, place) for some, place in ((lanes, here), (others, there))]
    assert found[0] == found[1]


def walk(lp, lanes: Lanes, place) -> bytes:
    """All that the kernels do to a lane, and tell of it."""
    b, w = place
    cpu.iterate(lp, lanes, 3)
    told = [*cpu.measure(lp, lanes), *cpu.rays(lp, lanes)]
    cpu.restart(lanes, np.ones(lanes.weight.shape), lanes.weight)
    cpu.iterate(lp, lanes, 2)
    told += cpu.measure(lp, lanes)
    state = [np.ascontiguousarray(array[b, ..., w]) for array in lanes[:8]]
    return b"".join(part.tobytes() for part in (np.array([values[b, w] for values in told]), *state))


def test_blocks_are_shared_out_among_any_number_of_threads():
    lp, lanes = reference.problem(4, 5, 7, 4, seed=1)
    walked = []
    for threads in range(1, numba.config.NUMBA_NUM_THREADS + 1):
        mine = reference.copied(lanes)
        with threads_are(threads):
            cpu.iterate(lp, mine, 3)
            walked.append(b"".join(array.tobytes() for array in (*mine, *cpu.measure(lp, mine))))
    assert len(set(walked)) == 1


# Rows of lanes.


@numba.njit
def elementwise(a, b, c, number, out, width):
    """Every operation of rows, on two rows, on a row and a number, and on a number and a row; one result per row of out."""
    x, y, z = load(a, 0, width), load(b, 0, width), load(c, 0, width)
    total = zeros(width)
    total += x
    total += number
    results = (
        x + y, x - y, x * y, min(x, y), max(x, y), choose(z, x, y),
        x + number, x - number, x * number, min(x, number), max(x, number), choose(z, x, number),
        number + y, number - y, number * y, min(number, y), max(number, y), choose(z, number, y),
        choose(number, x, y), choose(z, number, 2.0), abs(x), total,
    )  # fmt: skip
    for k in range(len(results)):
        store(out, k, results[k])


def one_by_one(x, y, z, number):
    """What Python makes of the same, of one lane."""
    return (
        x + y, x - y, x * y, min(x, y), max(x, y), choose(z, x, y),
        x + number, x - number, x * number, min(x, number), max(x, number), choose(z, x, number),
        number + y, number - y, number * y, min(number, y), max(number, y), choose(z, number, y),
        choose(number, x, y), choose(z, number, 2.0), abs(x), 0.0 + x + number,
    )  # fmt: skip


@every_width
@settings(max_examples=150, deadline=None)
@given(seed=st.integers(0, 2**32))
def test_rows_compute_what_python_does_with_their_numbers(width, seed):
    rng = np.random.default_rng(seed)
    a, b, c = (rng.choice([*ODD, rng.normal(), rng.normal()], width) for _ in range(3))
    number = float(rng.choice(ODD))
    out = np.zeros((22, width))
    elementwise(a[None], b[None], c[None], number, out, (0,) * width)
    with np.errstate(invalid="ignore"):
        expected = [one_by_one(*map(float, lane), number) for lane in zip(a, b, c, strict=True)]
    np.testing.assert_array_equal(out, np.transpose(expected))


@numba.njit
def copy_row(source, i, target, k, width):
    store(target, k, load(source, i, width))


@every_width
def test_load_and_store_touch_their_row_alone(width):
    source = np.arange(5.0 * width).reshape(5, width)
    for i in range(5):
        target = np.full((4, width), NAN)
        copy_row(source, i, target, 2, (0,) * width)
        expected = np.full((4, width), NAN)
        expected[2] = source[i]
        np.testing.assert_array_equal(target, expected)


@every_width
def test_rows_need_no_alignment_but_that_of_their_numbers(width):
    memory = np.arange(4.0 * width + 1)
    target = np.zeros((1, width))
    copy_row(memory[1:].reshape(4, width), 3, target, 0, (0,) * width)
    np.testing.assert_array_equal(target[0], memory[1 + 3 * width :])


@numba.njit
def sum_into(start, stop, indices, values, rows, out, width):
    store(out, 0, sum_of_rows(start, stop, indices, values, rows, width))


@every_width
def test_sum_of_rows(width):
    """Of whole numbers, whose sums are exact in any order: empty ranges, and every remainder of an unrolled loop."""
    rng = np.random.default_rng(width)
    indices = rng.integers(0, 9, 40).astype(np.int32)
    values, rows = rng.integers(-9, 10, 40).astype(np.float64), rng.integers(-9, 10, (9, width)).astype(np.float64)
    call = functools.partial(sum_into, indices=indices, values=values, rows=rows, width=(0,) * width)
    for start in (0, 1, 2, 3, 7, 40):
        for stop in range(start, min(start + 18, 40) + 1):
            out = np.full((1, width), NAN)
            call(start, stop, out=out)
            np.testing.assert_array_equal(out[0], values[start:stop] @ rows[indices[start:stop]])


@every_width
def test_sum_of_rows_keeps_what_is_not_finite_in_its_lane(width):
    rows = np.ones((3, width))
    rows[1, 0], rows[2, -1] = INF, NAN
    out = np.empty((1, width))
    sum_into(0, 3, np.arange(3, dtype=np.int32), np.array([2.0, -1.0, 1.0]), rows, out, (0,) * width)
    np.testing.assert_array_equal(out[0], np.array([2.0, -1.0, 1.0]) @ rows)
