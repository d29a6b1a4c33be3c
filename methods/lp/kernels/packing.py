"""Which child is in which lane, and how the children that still run move together when others have ended."""

import math
import typing

import numba
import numpy as np

from breakeven.methods.lp.kernels import cpu
from breakeven.methods.lp.kernels.layout import Lanes, ScaledLP

WIDTHS = (16, 8, 4, 1)
"""Lanes to a block: 16 are two AVX-512 registers, or four of AVX2, of float64."""

EMPTY = -1
OWN = ("objective", "row_lower", "row_upper")
LINE = 64  # bytes of a cache line


class Progress(typing.NamedTuple):
    """What a restart of a lane depends on, beside its iterates: (K, W) each."""

    first_error: np.ndarray  # the fixed-point error right after the last restart; inf where it is not measured yet
    last_error: np.ndarray  # at the last check
    wait: np.ndarray  # iterations before which it is not looked at again, since what its errors promised did not hold


class Packed:
    """Children in lanes. A lane that is `EMPTY` iterates like its neighbours, and nobody looks at it.

    Attributes:
        child: (K, W) int64, the number of the child in each lane.
        lp: what children have of their own in it is in lanes too.
        lanes, progress: their state.
        kernels: the module whose functions take them.
    """

    kernels = cpu

    def __init__(self, lp: ScaledLP, x, y, variable, lower, upper, weight=1.0):
        """Start B children at ``x`` (n, B) and ``y`` (m, B), clipped to their boxes; ``weight`` is the primal weight, (B,).

        Child b has the bounds ``lower[b]`` and ``upper[b]`` of the variable number ``variable[b]``, (B,) each; -1 for none.
        """
        children = variable.size
        inside = variable >= 0
        x = np.clip(x, lp.lower[:, None], lp.upper[:, None])
        x[variable[inside], inside.nonzero()[0]] = np.clip(
            x[variable[inside], inside.nonzero()[0]], lower[inside], upper[inside]
        )
        columns = x.T[None], y.T[None]  # one block, one lane after the other
        zero, far = (np.full((1, children), value) for value in (0.0, np.inf))
        self.child = np.arange(children)[None]
        own = {name: getattr(lp, name) for name in OWN}
        self.lp = lp._replace(**{name: values[None] for name, values in own.items() if values.ndim == 2})
        self.lanes = Lanes(
            *(np.moveaxis(state, 1, 2) for state in [columns[0]] * 3 + [columns[1]] * 3),
            weight=np.broadcast_to(weight, (1, children)), inner=zero, variable=variable[None].astype(np.float64),
            lower=lower[None], upper=upper[None], branched=np.zeros((1, x.shape[0]), np.bool_),
        )  # fmt: skip
        self.progress = Progress(far, far, zero)
        self._gather()

    @property
    def running(self) -> np.ndarray:
        """(K, W): where a lane has a child."""
        return self.child != EMPTY

    def points(self, where: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The points (n, c) and (m, c) of the c lanes where ``where`` (K, W) holds."""
        return self._columns(where, self.lanes.x_point, self.lanes.y_point)

    def anchors(self, where: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Their anchors, likewise."""
        return self._columns(where, self.lanes.x_anchor, self.lanes.y_anchor)

    def _columns(self, where: np.ndarray, *states) -> tuple[np.ndarray, ...]:
        block, lane = np.nonzero(where)
        return tuple(self.kernels.columns_of(state, block, lane) for state in states)

    def drop(self, where: np.ndarray) -> None:
        """Empty lanes, and close the gaps where that leaves fewer blocks."""
        self.child[where] = EMPTY
        left = np.count_nonzero(self.running)
        if left and self._width(left) != self.child.shape[1]:
            self._gather()
        elif left:
            self._fill_gaps(-(-left // self.child.shape[1]))

    def _fill_gaps(self, blocks: int) -> None:
        """Move children from the last blocks into empty lanes of the first ones, and cut off the last ones."""
        if blocks == len(self.child):
            return
        running = self.running
        block, lane = np.nonzero(running[blocks:])
        block += blocks
        to_block, to_lane = (place[: block.size] for place in np.nonzero(~running[:blocks]))
        own = self._own()
        for state in (*self.lanes[:-1], *self.progress, self.child, *own.values()):
            if state.ndim == 3:
                state[to_block, :, to_lane] = state[block, :, lane]
            else:
                state[to_block, to_lane] = state[block, lane]
        self.lp = self.lp._replace(**{name: values[:blocks] for name, values in own.items()})
        self.lanes = Lanes(*(state[:blocks] for state in self.lanes))
        self.progress = Progress(*(state[:blocks] for state in self.progress))
        self.child = self.child[:blocks]
        self._mark_branched()

    def _gather(self) -> None:
        """Lay the running children out anew, in blocks as wide as their number allows."""
        block, lane = np.nonzero(self.running)
        width = self._width(block.size)
        blocks = -(-block.size // width)
        spare = blocks * width - block.size
        block, lane = (np.append(place, np.repeat(place[0], spare)) for place in (block, lane))

        def gathered(state):
            if state.ndim == 2:
                return state[block, lane].reshape(blocks, width)
            columns = state[block, :, lane].reshape(blocks, width, state.shape[1])
            out = _aligned((blocks, state.shape[1], width))
            out[:] = np.moveaxis(columns, 1, 2)
            return out

        branched = np.zeros((blocks, self.lanes.branched.shape[1]), np.bool_)
        self.lanes = Lanes(*map(gathered, self.lanes[:-1]), branched=branched)
        self.progress = Progress(*map(gathered, self.progress))
        self.lp = self.lp._replace(**{name: gathered(values) for name, values in self._own().items()})
        self.child = gathered(self.child)
        self.child.reshape(-1)[blocks * width - spare :] = EMPTY
        self._mark_branched()

    def _width(self, children: int) -> int:
        """The widest blocks of which every thread has more than half of one; a block of 4 costs little more than one lane."""
        per_thread = children / numba.get_num_threads()
        return next((width for width in WIDTHS[:-1] if per_thread > width / 2), 4 if children > 1 else 1)

    def _own(self) -> dict[str, np.ndarray]:
        """What each child has of its own in the LP, in lanes."""
        return {name: values for name in OWN if (values := getattr(self.lp, name)).ndim == 3}

    def _mark_branched(self) -> None:
        block, lane = np.nonzero(self.lanes.variable >= 0)
        self.lanes.branched[block, self.lanes.variable[block, lane].astype(np.int64)] = True


def _aligned(shape: tuple[int, ...]) -> np.ndarray:
    """An array that starts with a cache line: else every row of lanes would straddle two, at up to twice the time."""
    count = math.prod(shape)
    buffer = np.empty(count + LINE // 8)
    start = -buffer.ctypes.data % LINE // 8
    return buffer[start : start + count].reshape(shape)
