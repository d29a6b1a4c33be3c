"""W float64 numbers in vector registers as one value of Numba's: what a row of lanes is.

Numba has no such type, and a loop over the lanes inside a loop over nonzeros makes LLVM keep sums in memory or vectorise
the wrong loop. With rows as values the same iteration is 2 to 3 times as fast, at every width. Rows are loaded from and
stored into arrays; they add, subtract and multiply with each other and with floats, and have `min`, `max`, `abs` and
`choose`. All of it is elementwise, so that a lane's result does not depend on what its neighbours hold.
"""

import operator

from llvmlite import ir
from numba.core import cgutils, types
from numba.core.typing import signature
from numba.core.typing.templates import AbstractTemplate, infer_global
from numba.extending import intrinsic, lower_builtin, models, overload, register_model

_DOUBLE, _INDEX = ir.DoubleType(), ir.IntType(64)


class Row(types.Type):
    """The Numba type of W float64 numbers."""

    def __init__(self, width: int):
        self.width = width
        super().__init__(name=f"Row({width})")


@register_model(Row)
class _RowModel(models.PrimitiveModel):
    def __init__(self, manager, row):
        super().__init__(manager, row, ir.VectorType(_DOUBLE, row.width))


def choose(test, positive, otherwise):
    """``positive`` where ``test > 0``, else ``otherwise``."""
    return positive if test > 0.0 else otherwise


@intrinsic
def load(typing_context, array, row, width):
    """Row number ``row`` of a C-contiguous float64 array of rows of W = len(width) numbers."""
    result = Row(len(width))

    def generate(context, builder, signature, arguments):
        pointer = _pointer(context, builder, signature, arguments, 0, result)
        return builder.load(pointer, align=8)

    return result(array, row, width), generate


@intrinsic
def store(typing_context, array, row, value):
    """Write a row into a C-contiguous float64 array of rows."""

    def generate(context, builder, signature, arguments):
        pointer = _pointer(context, builder, signature, arguments, 0, value)
        builder.store(arguments[2], pointer, align=8)
        return context.get_dummy_value()

    return types.void(array, row, value), generate


def entry(array, block, j, width):
    """Entry j of what all lanes share, (n,), as a float; or of what each lane has its own of, (K, n, W), as a row."""
    raise NotImplementedError("for compiled code")


@overload(entry)
def _entry(array, block, j, width):
    if array.ndim == 1:
        return lambda array, block, j, width: array[j]
    return lambda array, block, j, width: load(array, block * array.shape[1] + j, width)


@intrinsic
def zeros(typing_context, width):
    """A row of W = len(width) zeros."""
    result = Row(len(width))
    return result(width), lambda context, *_: context.get_value_type(result)([0.0] * result.width)


@intrinsic
def sum_of_rows(typing_context, start, stop, indices, values, rows, width):
    """``sum over k in start:stop of values[k] * rows[indices[k]]``, as a row.

    Args:
        start, stop: int64; an empty range gives zeros.
        indices: (nnz,) int32, contiguous.
        values: (nnz,) float64, contiguous.
        rows: (r, W) float64, C-contiguous.
        width: a tuple of length W.

    The order of the sum depends on W alone.
    """
    result = Row(len(width))
    unroll = 4 if result.width <= 8 else 1  # a wider row is registers enough to hide the latency of an addition

    def generate(context, builder, signature, arguments):
        start, stop = arguments[:2]
        indices, values, rows = (_data(context, builder, signature, arguments, position) for position in (2, 3, 4))
        row_type = context.get_value_type(result)

        def add_term(total, k):
            index = builder.sext(builder.load(builder.gep(indices, [k])), _INDEX)
            row = builder.load(_row_pointer(builder, rows, index, row_type), align=8)
            value = _spread(builder, builder.load(builder.gep(values, [k])), row_type)
            product = builder.fmul(value, row, flags=("contract",))
            builder.store(builder.fadd(builder.load(total), product, flags=("contract",)), total)

        totals = [cgutils.alloca_once_value(builder, row_type([0.0] * result.width)) for _ in range(unroll)]
        rest = builder.srem(builder.sub(stop, start), _INDEX(unroll))
        middle = builder.sub(stop, rest)
        with cgutils.for_range_slice(builder, start, middle, _INDEX(unroll)) as (k, _):
            for offset, total in enumerate(totals):
                add_term(total, builder.add(k, _INDEX(offset)))
        with cgutils.for_range_slice(builder, middle, stop, _INDEX(1)) as (k, _):
            add_term(totals[0], k)
        while len(totals) > 1:
            one, other = totals.pop(), totals[0]
            builder.store(builder.fadd(builder.load(one), builder.load(other)), other)
        return builder.load(totals[0])

    return result(start, stop, indices, values, rows, width), generate


def _data(context, builder, signature, arguments, position):
    """The address of an array's first entry."""
    array = cgutils.create_struct_proxy(signature.args[position])
    return array(context, builder, arguments[position]).data


def _row_pointer(builder, base, index, row_type):
    return builder.bitcast(builder.gep(base, [builder.mul(index, _INDEX(row_type.count))]), row_type.as_pointer())


def _pointer(context, builder, signature, arguments, position, row):
    base = _data(context, builder, signature, arguments, position)
    index = context.cast(builder, arguments[position + 1], signature.args[position + 1], types.int64)
    return _row_pointer(builder, base, index, context.get_value_type(row))


def _spread(builder, value, row_type):
    """A number as a row; a row as it is."""
    if value.type == row_type:
        return value
    undefined = row_type(ir.Undefined)
    one = builder.insert_element(undefined, value, ir.IntType(32)(0))
    everywhere = ir.VectorType(ir.IntType(32), row_type.count)([0] * row_type.count)
    return builder.shuffle_vector(one, undefined, everywhere)


def _elementwise(function, arity, build) -> None:
    """Teach Numba a function of rows and floats, at least one of them a row."""

    @infer_global(function)
    class Template(AbstractTemplate):
        def generic(self, args, kws):
            rows = [arg for arg in args if isinstance(arg, Row)]
            if len(args) == arity and rows and not kws:
                return signature(rows[0], *(arg if isinstance(arg, Row) else types.float64 for arg in args))

    def generate(context, builder, signature, arguments):
        row_type = context.get_value_type(signature.return_type)
        return build(builder, *(_spread(builder, argument, row_type) for argument in arguments))

    for kinds in range(1, 2**arity):
        lower_builtin(function, *(Row if kinds >> position & 1 else types.Float for position in range(arity)))(generate)


def _zero(row):
    return row.type([0.0] * row.type.count)


# A multiplication and an addition may become one instruction; nothing else may be changed: bounds are infinite.
for addition in (operator.add, operator.iadd):
    _elementwise(addition, 2, lambda builder, a, b: builder.fadd(a, b, flags=("contract",)))
_elementwise(operator.sub, 2, lambda builder, a, b: builder.fsub(a, b, flags=("contract",)))
_elementwise(operator.mul, 2, lambda builder, a, b: builder.fmul(a, b, flags=("contract",)))
# As Python's: the first argument unless the second is strictly smaller, or larger.
_elementwise(min, 2, lambda builder, a, b: builder.select(builder.fcmp_ordered("<", b, a), b, a))
_elementwise(max, 2, lambda builder, a, b: builder.select(builder.fcmp_ordered(">", b, a), b, a))
_elementwise(abs, 1, lambda builder, a: builder.select(builder.fcmp_ordered("<", a, _zero(a)), builder.fneg(a), a))
_elementwise(choose, 3, lambda builder, test, a, b: builder.select(builder.fcmp_ordered(">", test, _zero(test)), a, b))
