"""Products of 16-bit words in vector registers, of several rows at once, as values of Numba's.

Numba has no type for a vector register, and of a loop over packed codes LLVM makes a widening and a sum of floats per code.
A **words** value holds 32 words of 16 bits of each of R rows, a **sums** value 16 integers of 32 bits of each, a **totals** value
16 floats; R = len(rows). What is read of x serves all rows. A row's sums have an order of their own, whatever R is.
"""

import llvmlite.binding
from llvmlite import ir
from numba.core import cgutils, types
from numba.extending import intrinsic, models, register_model

from breakeven.problems.quantization.packing import LANES

_KINDS = {
    "words": ir.VectorType(ir.IntType(16), LANES),
    "sums": ir.VectorType(ir.IntType(32), LANES // 2),
    "totals": ir.VectorType(ir.FloatType(), LANES // 2),
}
_FEATURES = llvmlite.binding.get_host_cpu_features()
_WORD, _INDEX, _PLACE = ir.IntType(16), ir.IntType(64), ir.IntType(32)


class Lanes(types.Type):
    """The Numba type of a vector for each of R rows."""

    def __init__(self, kind: str, rows: int):
        self.kind, self.rows = kind, rows
        super().__init__(name=f"Lanes({kind}, {rows})")


@register_model(Lanes)
class _LanesModel(models.PrimitiveModel):
    def __init__(self, manager, lanes):
        super().__init__(manager, lanes, ir.ArrayType(_KINDS[lanes.kind], lanes.rows))


@intrinsic
def no_sums(typing_context, rows):
    """Sums of zero."""
    result = Lanes("sums", len(rows))
    return result(rows), lambda context, *_: ir.Constant(context.get_value_type(result), None)


@intrinsic
def no_totals(typing_context, rows):
    """Totals of zero."""
    result = Lanes("totals", len(rows))
    return result(rows), lambda context, *_: ir.Constant(context.get_value_type(result), None)


@intrinsic
def words_at(typing_context, packed, row, place, rows):
    """Words 32 place to 32 place + 31 of R rows, from ``row`` on, of an (m, bytes) uint8 array, C-contiguous.

    Those of the R rows behind are asked for: rows end before a prefetcher has learnt of their streams.
    """
    result = Lanes("words", len(rows))

    def generate(context, builder, signature, arguments):
        array = cgutils.create_struct_proxy(signature.args[0])(context, builder, arguments[0])
        row, place = _indices(context, builder, signature, arguments, 1, 2)
        stride = builder.extract_value(array.strides, 0)
        start = builder.add(builder.mul(row, stride), builder.mul(place, _INDEX(2 * LANES)))

        def load(r):
            address = builder.gep(array.data, [builder.add(start, builder.mul(stride, _INDEX(r)))])
            ahead = builder.gep(address, [builder.mul(stride, _INDEX(result.rows))])
            builder.call(_prefetch(builder), [ahead, _PLACE(0), _PLACE(3), _PLACE(1)])
            return builder.load(builder.bitcast(address, _KINDS["words"].as_pointer()), align=1)

        return _of_rows(builder, result.rows, load)

    return result(packed, row, place, rows), generate


@intrinsic
def bits_of(typing_context, words, shift, mask):
    """``words >> shift & mask``."""

    def generate(context, builder, signature, arguments):
        shift, mask = (
            _spread(builder, context.cast(builder, arguments[k], signature.args[k], types.uint16), _KINDS["words"])
            for k in (1, 2)
        )

        def bits(r):
            return builder.and_(builder.lshr(builder.extract_value(arguments[0], r), shift), mask)

        return _of_rows(builder, words.rows, bits)

    return words(words, shift, mask), generate


@intrinsic
def either(typing_context, words, others):
    """``words | others``."""

    def generate(context, builder, signature, arguments):
        return _of_rows(
            builder, words.rows, lambda r: builder.or_(*(builder.extract_value(one, r) for one in arguments))
        )

    return words(words, others), generate


@intrinsic
def plus_products(typing_context, sums, words, x, place):
    """``sums + words * x[32 place : 32 place + 32]``, neighbours added: what VPMADDWD or VPDPWSSD does.

    Args:
        x: (n,) int16, contiguous; products of two neighbours and their sums must stay below 2^31.
    """

    def generate(context, builder, signature, arguments):
        sums, words, x, _ = arguments
        data = cgutils.create_struct_proxy(signature.args[2])(context, builder, x).data
        (place,) = _indices(context, builder, signature, arguments, 3)
        address = builder.gep(data, [builder.mul(place, _INDEX(LANES))])
        inputs = builder.load(builder.bitcast(address, _KINDS["words"].as_pointer()), align=2)

        def add(r):
            products = _products_of_neighbours(builder, builder.extract_value(words, r), inputs)
            return builder.add(builder.extract_value(sums, r), products)

        return _of_rows(builder, signature.return_type.rows, add)

    return sums(sums, words, x, place), generate


@intrinsic
def plus_scaled(typing_context, totals, sums, step, scales, row, group):
    """``totals + step * scales[row + r, group] * sums`` of every row r.

    Args:
        step: float32; scales: (m, groups) float32, C-contiguous.
    """

    def generate(context, builder, signature, arguments):
        totals, sums, step = arguments[:3]
        array = cgutils.create_struct_proxy(signature.args[3])(context, builder, arguments[3])
        row, group = _indices(context, builder, signature, arguments, 4, 5)
        start = builder.add(builder.mul(row, builder.extract_value(array.shape, 1)), group)
        step = _spread(builder, step, _KINDS["totals"])

        def add(r):
            place = builder.add(start, builder.mul(builder.extract_value(array.shape, 1), _INDEX(r)))
            scale = _spread(builder, builder.load(builder.gep(array.data, [place])), _KINDS["totals"])
            values = builder.fmul(builder.sitofp(builder.extract_value(sums, r), _KINDS["totals"]), step)
            product = builder.fmul(values, scale, flags=("contract",))
            return builder.fadd(builder.extract_value(totals, r), product, flags=("contract",))

        return _of_rows(builder, signature.return_type.rows, add)

    return totals(totals, sums, step, scales, row, group), generate


@intrinsic
def add_totals(typing_context, totals, out, row):
    """Add the total of each row r to ``out[row + r]``, (m,) float32: halves are added until one is left."""

    def generate(context, builder, signature, arguments):
        data = cgutils.create_struct_proxy(signature.args[1])(context, builder, arguments[1]).data
        (row,) = _indices(context, builder, signature, arguments, 2)
        for r in range(totals.rows):
            part, width = builder.extract_value(arguments[0], r), LANES // 2
            while width > 1:
                width //= 2
                part = builder.fadd(*(_some(builder, part, range(k, k + width)) for k in (0, width)))
            address = builder.gep(data, [builder.add(row, _INDEX(r))])
            builder.store(builder.fadd(builder.load(address), builder.extract_element(part, _PLACE(0))), address)
        return context.get_dummy_value()

    return types.void(totals, out, row), generate


def _products_of_neighbours(builder, one, other):
    """``one[2k] other[2k] + one[2k + 1] other[2k + 1]``, by the one instruction that does it where there is one.

    Written out, LLVM would find it again only where no other sum has been mixed with it.
    """
    for feature, name, width in (("avx512bw", "avx512.pmaddw.d.512", 32), ("avx2", "avx2.pmadd.wd", 16)):
        if _FEATURES.get(feature):
            of_words, of_sums = (ir.VectorType(kind, size) for kind, size in ((_WORD, width), (_PLACE, width // 2)))
            function = cgutils.get_or_insert_function(
                builder.module, ir.FunctionType(of_sums, [of_words, of_words]), f"llvm.x86.{name}"
            )
            parts = [
                builder.call(function, [_some(builder, vector, range(k, k + width)) for vector in (one, other)])
                for k in range(0, LANES, width)
            ]
            return parts[0] if len(parts) == 1 else builder.shuffle_vector(*parts, _places(range(LANES // 2)))
    return builder.add(
        *(
            builder.mul(
                *(builder.sext(_some(builder, vector, range(k, LANES, 2)), _KINDS["sums"]) for vector in (one, other))
            )
            for k in (0, 1)
        )
    )


def _prefetch(builder):
    kinds = [ir.IntType(8).as_pointer(), _PLACE, _PLACE, _PLACE]
    return cgutils.get_or_insert_function(builder.module, ir.FunctionType(ir.VoidType(), kinds), "llvm.prefetch.p0")


def _indices(context, builder, signature, arguments, *positions):
    return (context.cast(builder, arguments[k], signature.args[k], types.int64) for k in positions)


def _of_rows(builder, rows, make):
    values = [make(r) for r in range(rows)]
    result = ir.ArrayType(values[0].type, rows)(ir.Undefined)
    for r, value in enumerate(values):
        result = builder.insert_value(result, value, r)
    return result


def _some(builder, vector, places):
    return builder.shuffle_vector(vector, vector.type(ir.Undefined), _places(places))


def _places(places):
    return ir.VectorType(_PLACE, len(places))(list(places))


def _spread(builder, value, vector_type):
    one = builder.insert_element(vector_type(ir.Undefined), value, _PLACE(0))
    return _some(builder, one, [0] * vector_type.count)
