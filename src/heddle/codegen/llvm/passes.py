"""The passes between scheduled loops and LLVM IR, in order."""

from __future__ import annotations

from heddle.ir.transform import Pass
from heddle.runtime.dtype import DataType
from heddle.target import Target, has_half_conversion, has_ldexp
from heddle.tir.dot_product import dot_products_of, tile_product_of
from heddle.tir.transform.bf16_legalize import BF16Legalize
from heddle.tir.transform.check_bounds import CheckBounds
from heddle.tir.transform.compact_buffers import CompactBuffers
from heddle.tir.transform.count_rows import CountRows
from heddle.tir.transform.fill_private_lanes import FillPrivateLanes
from heddle.tir.transform.fit_tiles import FitTiles
from heddle.tir.transform.flatten_buffer import FlattenBuffer
from heddle.tir.transform.hoist_divisions import HoistDivisions
from heddle.tir.transform.hoist_if import HoistIfThenElse
from heddle.tir.transform.hoist_index_checks import HoistIndexChecks
from heddle.tir.transform.lower_blocks import LowerBlocks
from heddle.tir.transform.lower_dot_products import LowerDotProducts
from heddle.tir.transform.lower_intrinsics import LowerIntrin
from heddle.tir.transform.lower_small_float import LowerSmallFloat
from heddle.tir.transform.lower_tile_products import LowerTileProducts
from heddle.tir.transform.make_packed_api import MakePackedAPI
from heddle.tir.transform.move_whole_vectors import MoveWholeVectors
from heddle.tir.transform.peel_last_pair import PeelLastPair
from heddle.tir.transform.place_allocations import PlaceAllocations
from heddle.tir.transform.remove_assume import RemoveAssume
from heddle.tir.transform.remove_no_op import RemoveNoOp
from heddle.tir.transform.run_in_lanes import RunInLanes
from heddle.tir.transform.simplify import Simplify
from heddle.tir.transform.storage_rewrite import StorageRewrite
from heddle.tir.transform.transpose_in_registers import TransposeInRegisters
from heddle.tir.transform.unroll_loop import UnrollLoop
from heddle.tir.transform.vectorize_loop import VectorizeLoop
from heddle.tir.vector_math.small_float import SMALL_FLOATS

NATIVE_HALF = {"bfloat16": "native-bfloat16-arithmetic", "float16": "avx512fp16"}
"""16-bit floats and the processor feature that computes with them."""


def lowering_passes(target: Target) -> tuple[Pass, ...]:
    """From scheduled functions, blocks and all, to what the emitter takes."""
    smallest = tuple(name for name in SMALL_FLOATS if DataType(name).is_small_float)
    narrow = smallest + tuple(
        name for name, native in NATIVE_HALF.items() if native not in target.feature_set
    )
    by_bits = smallest if has_half_conversion(target.mtriple, target.feature_set) else (*smallest, "float16")
    return (
        LowerBlocks(),
        PlaceAllocations(),
        CompactBuffers(),
        CheckBounds(),  # of functions that ask for it: indices still have their dimensions
        FlattenBuffer(),  # one index an access: what vectorising and storage sharing look at
        Simplify(),  # guards that always hold go before they become masks
        HoistIndexChecks(),  # before rows run in lanes: the check has a loop of its own
        FitTiles(),  # before loops become vector code and unroll
        RunInLanes(
            target.vector_width_bits
        ),  # rows of any length as vectors, before loops become vector code
        TransposeInRegisters(),
        LowerTileProducts(tile_product_of(target.feature_set)),
        PeelLastPair(),
        LowerDotProducts(dot_products_of(target.feature_set)),
        VectorizeLoop(),
        FillPrivateLanes(),
        HoistIfThenElse(),
        StorageRewrite(),  # before unrolling, which copies allocations
        Simplify(),
        CountRows(),
        HoistDivisions(),  # before unrolling, which copies them
        MoveWholeVectors("avx512vl" in target.feature_set),  # of what is staged, most needs no masks
        UnrollLoop(),  # constant indices into local buffers: LLVM makes registers of them
        RemoveNoOp(),
        RemoveAssume(),
        LowerIntrin(has_ldexp(target.feature_set, target.vector_width_bits)),
        BF16Legalize(narrow),  # after LowerIntrin, whose float16 functions are casts around float32 ones
        LowerSmallFloat(by_bits, NATIVE_HALF["float16"] in target.feature_set),
        MakePackedAPI(by_runtime=True),  # checks of arguments are most of a small kernel's code
    )
