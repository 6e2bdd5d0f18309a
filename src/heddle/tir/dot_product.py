"""Dot products of a few narrow factors a lane, as instructions do them: declared as data, picked by features.

A dot product adds to every lane n of an accumulator the products of `depth` factors that lie side by side:

    accumulator[n] += sum(cast(data[p]) * cast(weights[n, p]) for p in range(depth))

The data are the same in all lanes. An instruction may round and treat subnormal numbers in its own way; what
`rounding` says is the contract against the sum above.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

DOT_PRODUCT = "dot_product"
"""Annotation of a loop over the factors that lie side by side, directly inside the loop over lanes."""

TILE_PRODUCT = "tile_product"
"""Annotation of a loop over steps of a sum whose body is a product of tiles: loops over tiles of
accumulators, and inside them those over pairs, rows, lanes and the factors of a pair. Rows that repeat the
last one of the data, beyond its end, may be left out: the schedule states that nobody reads their sums."""


@dataclass(frozen=True, slots=True)
class DotProduct:
    """An instruction for a dot product.

    `rows`, `lanes` and `depth` are the sides of the product: of accumulators (rows, lanes), data (rows,
    depth) and weights (lanes, depth). Of one row, `llvm_intrinsic` takes the accumulator, the data repeated
    in every lane, and the weights, as vectors of `dtype` and `accumulator`. Tile instructions have more than
    one row: sides are the largest that they take, and the intrinsic takes the numbers of three tile
    registers; weights of a tile lie in rows of pairs, (depth / 2, lanes, 2).
    """

    name: str
    features: frozenset[str]
    dtype: str
    accumulator: str
    rows: int
    lanes: int
    depth: int
    llvm_intrinsic: str
    rounding: str


_BF16_ROUNDING = "products are added to the sum without fusing, to nearest even; subnormal numbers are zero"


def _vdpbf16ps(lanes: int, *features: str) -> DotProduct:
    bits = 32 * lanes
    return DotProduct(
        f"vdpbf16ps.{bits}",
        frozenset(("avx512bf16", *features)),
        "bfloat16",
        "float32",
        1,
        lanes,
        2,
        f"llvm.x86.avx512bf16.dpbf16ps.{bits}",
        _BF16_ROUNDING,
    )


_TILE_ROUNDING = (
    "first and second factors of pairs are summed apart by fused multiply-adds, from zero; the two sums are "
    "added, and then to the accumulator, each to nearest even; subnormal numbers are zero"
)

DOT_PRODUCTS: tuple[DotProduct, ...] = (
    _vdpbf16ps(16),
    _vdpbf16ps(8, "avx512vl"),
    _vdpbf16ps(4, "avx512vl"),
    DotProduct(
        "tdpbf16ps",
        frozenset(("amx-tile", "amx-bf16")),
        "bfloat16",
        "float32",
        16,
        16,
        32,
        "llvm.x86.tdpbf16ps",
        _TILE_ROUNDING,
    ),
)
"""All that are known.

**Source**: Intel 64 and IA-32 Architectures Software Developer's Manual, volume 2, VDPBF16PS and TDPBF16PS.
"""

DEPTHS: dict[str, int] = {"bfloat16": 2}
"""Element type of weights → how many steps of a reduction are packed side by side for dot products."""


def dot_products_of(features: Iterable[str]) -> tuple[DotProduct, ...]:
    """The dot products that a processor with these features has."""
    have = frozenset(features)
    return tuple(row for row in DOT_PRODUCTS if row.features <= have)


def tile_product_of(features: Iterable[str]) -> DotProduct | None:
    """The product of tiles that a processor with these features has."""
    return next((row for row in dot_products_of(features) if row.rows > 1), None)
