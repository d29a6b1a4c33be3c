"""Sums of matrix rows in vector registers, which Numba has no words for.

A loop over the lanes inside a loop over nonzeros makes LLVM keep the sums in memory, or vectorise the wrong loop. Written as
LLVM vectors of a fixed length, the same sum is 2 to 7 times as fast (10teams, 32 lanes: 28 GFLOP/s instead of 11).
"""

from llvmlite import ir
from numba.core import cgutils, types
from numba.extending import intrinsic

_REGISTERS = 32  # doubles in flight: enough to hide the latency of an addition, few enough not to spill


@intrinsic
def sum_of_rows(typing_context, start, stop, indices, values, rows, out, lanes):
    """``out[:] = sum over k in start:stop of values[k] * rows[indices[k]]``.

    Args:
        start, stop: int64; an empty range gives zeros.
        indices: (nnz,) int32, contiguous.
        values: (nnz,) float64, contiguous.
        rows: (r, W) float64, contiguous.
        out: (W,) float64, contiguous; may not overlap the others.
        lanes: a tuple of W integers. Its length tells the compiler W; its values are not used.

    The order of the sum depends on W alone: equal columns give equal sums, whatever lies beside them.
    """
    width = len(lanes)
    signature = types.void(start, stop, indices, values, rows, out, lanes)
    unroll = max(1, min(4, _REGISTERS // width))
    index_type, lane_type = ir.IntType(64), ir.VectorType(ir.DoubleType(), width)

    def generate(context, builder, signature, arguments):
        def data(position):
            array = cgutils.create_struct_proxy(signature.args[position])
            return array(context, builder, arguments[position]).data

        start, stop = arguments[:2]
        indices, values, rows, out = map(data, (2, 3, 4, 5))

        def row_pointer(base, row):
            return builder.bitcast(builder.gep(base, [builder.mul(row, index_type(width))]), lane_type.as_pointer())

        def add_term(total, k):
            row = builder.load(row_pointer(rows, builder.sext(builder.load(builder.gep(indices, [k])), index_type)))
            row.align = 8
            one = builder.insert_element(
                lane_type(ir.Undefined), builder.load(builder.gep(values, [k])), ir.IntType(32)(0)
            )
            everywhere = ir.VectorType(ir.IntType(32), width)([0] * width)
            value = builder.shuffle_vector(one, lane_type(ir.Undefined), everywhere)
            product = builder.fmul(value, row, flags=("contract",))
            builder.store(builder.fadd(builder.load(total), product, flags=("contract",)), total)

        totals = [cgutils.alloca_once_value(builder, lane_type([0.0] * width)) for _ in range(unroll)]
        count = builder.sub(stop, start)
        whole = builder.add(start, builder.sub(count, builder.srem(count, index_type(unroll))))
        with cgutils.for_range_slice(builder, start, whole, index_type(unroll)) as (k, _):
            for offset, total in enumerate(totals):
                add_term(total, builder.add(k, index_type(offset)))
        with cgutils.for_range_slice(builder, whole, stop, index_type(1)) as (k, _):
            add_term(totals[0], k)
        total = builder.load(totals[0])
        for other in totals[1:]:
            total = builder.fadd(total, builder.load(other))
        builder.store(total, row_pointer(out, index_type(0))).align = 8
        return context.get_dummy_value()

    return signature, generate
