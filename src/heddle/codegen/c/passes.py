"""The passes between scheduled loops and C, in order.

What schedules mark for vectors, tiles of registers and copies of bodies stays loops: C's compilers make
vectors of them, and the text stays short.
"""

from __future__ import annotations

from heddle.ir.transform import Pass
from heddle.runtime.dtype import DataType
from heddle.target import Target
from heddle.tir.transform.bf16_legalize import BF16Legalize
from heddle.tir.transform.check_bounds import CheckBounds
from heddle.tir.transform.compact_buffers import CompactBuffers
from heddle.tir.transform.count_rows import CountRows
from heddle.tir.transform.flatten_buffer import FlattenBuffer
from heddle.tir.transform.hoist_divisions import HoistDivisions
from heddle.tir.transform.hoist_if import HoistIfThenElse
from heddle.tir.transform.hoist_index_checks import HoistIndexChecks
from heddle.tir.transform.lower_blocks import LowerBlocks
from heddle.tir.transform.lower_intrinsics import LowerIntrin
from heddle.tir.transform.lower_small_float import LowerSmallFloat
from heddle.tir.transform.make_packed_api import MakePackedAPI
from heddle.tir.transform.place_allocations import PlaceAllocations
from heddle.tir.transform.remove_assume import RemoveAssume
from heddle.tir.transform.remove_no_op import RemoveNoOp
from heddle.tir.transform.simplify import Simplify
from heddle.tir.transform.storage_rewrite import StorageRewrite
from heddle.tir.transform.vectorize_loop import VectorizeLoop
from heddle.tir.vector_math.small_float import SMALL_FLOATS


def lowering_passes(_: Target) -> tuple[Pass, ...]:
    """From scheduled functions, blocks and all, to what the emitter takes."""
    smallest = tuple(name for name in SMALL_FLOATS if DataType(name).is_small_float)
    return (
        LowerBlocks(),
        PlaceAllocations(),
        CompactBuffers(),
        CheckBounds(),
        FlattenBuffer(),
        Simplify(),
        HoistIndexChecks(),
        VectorizeLoop(enable=False),
        HoistIfThenElse(),
        StorageRewrite(),
        Simplify(),
        CountRows(),
        HoistDivisions(),
        RemoveNoOp(),
        RemoveAssume(),
        LowerIntrin(calls_c=True),
        BF16Legalize((*smallest, "float16", "bfloat16")),
        LowerSmallFloat(smallest, halves_doubles=True),  # the header converts the floats of 16 bits
        MakePackedAPI(),
    )
