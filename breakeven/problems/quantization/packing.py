"""How codes of 2, 3, 4 and 8 bits lie in memory: a layout for vector registers that wastes no bit.

A row of n codes is ``ceil(n / 8) * bits`` bytes: whole tiles, then the rest.

- A tile is 32 words of 16 bits, little-endian. Word l holds the codes of the tile's columns l, 32 + l, 64 + l and so on, the
  first one lowest.
- A tile of 3 bits has 512 columns and three times 32 words, each of five codes, of 160 columns together. The highest bits of the
  three words l are the code of column 480 + l, the first one lowest.
- The rest, fewer columns than a tile's, is a stream of bits: every 8 codes are ``bits`` bytes, the first code lowest.
"""

import numpy as np

from breakeven.contract import BadInput

BITS = (2, 3, 4, 8)
"""For which there is a layout."""

LANES = 32
"""Words of a tile that lie side by side."""


def tile_columns(bits: int) -> int:
    """Codes of a tile. Raises `BadInput` for bits that have no layout."""
    if bits not in BITS:
        raise BadInput(f"codes of {bits} bits cannot be packed; there are layouts for {', '.join(map(str, BITS))} bits")
    return LANES * (16 if bits == 3 else 16 // bits)


def pack(codes: np.ndarray, bits: int) -> np.ndarray:
    """Codes, (m, n) uint8, all of them less than 2^bits, as (m, ceil(n / 8) * bits) uint8."""
    m, n = codes.shape
    tile = tile_columns(bits)
    whole = n - n % tile
    chunks = codes[:, :whole].reshape(m, -1, tile // LANES, LANES).astype("<u2")
    if bits == 3:
        top = [(chunks[:, :, 15] >> w & 1) << 15 for w in range(3)]
        words = np.stack([_words(chunks[:, :, 5 * w : 5 * w + 5], bits) | top[w] for w in range(3)], axis=2)
    else:
        words = _words(chunks, bits)
    rest = np.zeros((m, -(n - whole) % 8 + n - whole), np.uint8)
    rest[:, : n - whole] = codes[:, whole:]
    stream = np.unpackbits(rest[:, :, None], axis=2, bitorder="little")[:, :, :bits].reshape(m, -1)
    return np.hstack([words.reshape(m, -1).view(np.uint8), np.packbits(stream, axis=1, bitorder="little")])


def unpack(packed: np.ndarray, bits: int, columns: int) -> np.ndarray:
    """The inverse of `pack`: (m, columns) uint8."""
    m = len(packed)
    tile, mask = tile_columns(bits), np.uint16(2**bits - 1)
    tiles, parts = columns // tile, 3 if bits == 3 else 1
    whole = tiles * tile
    words = np.ascontiguousarray(packed[:, : whole // 8 * bits]).view("<u2").reshape(m, tiles, parts, LANES)
    shifts = (bits * np.arange(16 // bits, dtype=np.uint16))[:, None]
    chunks = (words[:, :, :, None] >> shifts & mask).reshape(m, tiles, parts * len(shifts), LANES)
    if bits == 3:
        last = sum((words[:, :, w] >> 15) << w for w in range(3))
        chunks = np.concatenate([chunks, last[:, :, None]], axis=2)
    stream = np.unpackbits(np.ascontiguousarray(packed[:, whole // 8 * bits :]), axis=1, bitorder="little")
    rest = np.packbits(stream.reshape(m, -1, bits), axis=2, bitorder="little")[:, : columns - whole, 0]
    return np.hstack([chunks.reshape(m, whole).astype(np.uint8), rest])


def _words(chunks: np.ndarray, bits: int) -> np.ndarray:
    shifts = (bits * np.arange(chunks.shape[2], dtype=np.uint16))[:, None]
    return np.bitwise_or.reduce(chunks << shifts, axis=2)
