"""Dot products of a few narrow factors a lane, as instructions do them: declared as data, picked by features.

A dot product adds to every lane n of an accumulator the products of `depth` factors that lie side by side:

    accumulator[n] += sum(cast(data[p]) * cast(weights[n, p]) for p in range(depth))

The data are the same in all lanes. Products of integers are exact, and sums wrap around as all int32 do. An
instruction for floats may round and treat subnormal numbers in its own way; what `rounding` says is the
contract against the sum above.
"""

from __future__ import annotations

from collections.abc import Iterable

from heddle.support.frozen import frozen

DOT_PRODUCT = "dot_product"
"""Annotation of a loop over the factors that lie side by side, directly inside the loop over lanes."""

TILE_PRODUCT = "tile_product"
"""Annotation of a loop over steps of a sum whose body is a product of tiles: loops over tiles of
accumulators, and inside them those over pairs, rows, lanes and the factors of a pair. Rows that repeat the
last one of the data, beyond its end, may be left out: the schedule states that nobody reads their sums."""


@frozen
class DotProduct:
    """An instruction for a dot product.

    `rows`, `lanes` and `depth` are the sides of the product: of accumulators (rows, lanes), data (rows,
    depth) and weights (lanes, depth). Of one row, `llvm_intrinsic` takes the accumulator, the data repeated
    in every lane, and the weights, as vectors of `accumulator`, `data` and `weights`; it takes the two
    factors alone, and gives their sums, where `adds` is False. Tile instructions have more than one row:
    sides are the largest that they take, and the intrinsic takes the numbers of three tile registers; weights
    of a tile lie in rows of pairs, (depth / 2, lanes, 2).
    """

    name: str
    features: frozenset[str]
    data: str
    weights: str
    accumulator: str
    rows: int
    lanes: int
    depth: int
    llvm_intrinsic: str
    rounding: str
    adds: bool = True


_BF16_ROUNDING = "products are added to the sum without fusing, to nearest even; subnormal numbers are zero"
_EXACT = "none"
_TILE_ROUNDING = (
    "first and second factors of pairs are summed apart by fused multiply-adds, from zero; the two sums are "
    "added, and then to the accumulator, each to nearest even; subnormal numbers are zero"
)


def _vdpbf16ps(lanes: int, *features: str) -> DotProduct:
    bits = 32 * lanes
    return DotProduct(
        f"vdpbf16ps.{bits}",
        frozenset(("avx512bf16", *features)),
        "bfloat16",
        "bfloat16",
        "float32",
        1,
        lanes,
        2,
        f"llvm.x86.avx512bf16.dpbf16ps.{bits}",
        _BF16_ROUNDING,
    )


def _vpdpbusd(lanes: int, *features: str) -> DotProduct:
    bits, name = 32 * lanes, f"llvm.x86.avx512.vpdpbusd.{32 * lanes}"
    own = frozenset(features)
    return DotProduct(f"vpdpbusd.{bits}", own, "uint8", "int8", "int32", 1, lanes, 4, name, _EXACT)


def _vpdpwssd(lanes: int, *features: str) -> DotProduct:
    bits, name = 32 * lanes, f"llvm.x86.avx512.vpdpwssd.{32 * lanes}"
    own = frozenset(features)
    return DotProduct(f"vpdpwssd.{bits}", own, "int16", "int16", "int32", 1, lanes, 2, name, _EXACT)


def _pmaddwd(lanes: int, feature: str, intrinsic: str) -> DotProduct:
    name, own = f"pmaddwd.{32 * lanes}", frozenset((feature,))
    return DotProduct(name, own, "int16", "int16", "int32", 1, lanes, 2, intrinsic, _EXACT, adds=False)


DOT_PRODUCTS: tuple[DotProduct, ...] = (
    _vdpbf16ps(16),
    _vdpbf16ps(8, "avx512vl"),
    _vdpbf16ps(4, "avx512vl"),
    DotProduct(
        "tdpbf16ps",
        frozenset(("amx-tile", "amx-bf16")),
        "bfloat16",
        "bfloat16",
        "float32",
        16,
        16,
        32,
        "llvm.x86.tdpbf16ps",
        _TILE_ROUNDING,
    ),
    _vpdpbusd(16, "avx512vnni"),
    _vpdpbusd(8, "avx512vnni", "avx512vl"),
    _vpdpbusd(4, "avx512vnni", "avx512vl"),
    _vpdpbusd(8, "avxvnni"),
    _vpdpbusd(4, "avxvnni"),
    _vpdpwssd(16, "avx512vnni"),
    _vpdpwssd(8, "avx512vnni", "avx512vl"),
    _vpdpwssd(4, "avx512vnni", "avx512vl"),
    _vpdpwssd(8, "avxvnni"),
    _vpdpwssd(4, "avxvnni"),
    _pmaddwd(16, "avx512bw", "llvm.x86.avx512.pmaddw.d.512"),
    _pmaddwd(8, "avx2", "llvm.x86.avx2.pmadd.wd"),
    _pmaddwd(4, "sse2", "llvm.x86.sse2.pmadd.wd"),
)
"""All that are known; of several that do the same, a processor's first is taken.

**Source**: Intel 64 and IA-32 Architectures Software Developer's Manual, volume 2: VDPBF16PS, TDPBF16PS,
VPDPBUSD, VPDPWSSD, PMADDWD.
"""

DEPTHS: dict[tuple[str, str], int] = {
    ("bfloat16", "bfloat16"): 2,
    ("int16", "int16"): 2,
    ("int16", "int8"): 2,
    ("uint8", "int8"): 4,
}
"""Element types of data and weights → how many steps of a reduction are packed side by side in weights for
dot products. Weights that are narrower than what an instruction takes are widened when they are read."""

ACCUMULATORS: dict[str, str] = {"bfloat16": "float32", "int16": "int32", "uint8": "int32"}
"""Element type of data → that of the sums of its dot products."""


def packed_depth(data: object, weights: object, accumulator: object) -> int | None:
    """How many steps of a sum of products lie side by side for a dot product of these element types; None
    where there is none."""
    depth = DEPTHS.get((str(data), str(weights)))
    return depth if ACCUMULATORS.get(str(data)) == str(accumulator) else None


def dot_products_of(features: Iterable[str]) -> tuple[DotProduct, ...]:
    """The dot products that a processor with these features has."""
    have = frozenset(features)
    return tuple(row for row in DOT_PRODUCTS if row.features <= have)


def tile_product_of(features: Iterable[str]) -> DotProduct | None:
    """The product of tiles that a processor with these features has."""
    return next((row for row in dot_products_of(features) if row.rows > 1), None)
