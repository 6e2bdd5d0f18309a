"""Passes over loop functions."""

from heddle.tir.transform.bf16_legalize import BF16Legalize
from heddle.tir.transform.check_bounds import CheckBounds
from heddle.tir.transform.count_rows import CountRows
from heddle.tir.transform.flatten_buffer import FlattenBuffer
from heddle.tir.transform.hoist_divisions import HoistDivisions
from heddle.tir.transform.hoist_if import HoistIfThenElse
from heddle.tir.transform.hoist_index_checks import HoistIndexChecks
from heddle.tir.transform.lower_dot_products import LowerDotProducts
from heddle.tir.transform.lower_intrinsics import LowerIntrin
from heddle.tir.transform.lower_small_float import LowerSmallFloat
from heddle.tir.transform.lower_tile_products import LowerTileProducts
from heddle.tir.transform.make_packed_api import MakePackedAPI
from heddle.tir.transform.move_whole_vectors import MoveWholeVectors
from heddle.tir.transform.peel_last_pair import PeelLastPair
from heddle.tir.transform.remove_assume import RemoveAssume
from heddle.tir.transform.remove_no_op import RemoveNoOp
from heddle.tir.transform.simplify import Simplify
from heddle.tir.transform.storage_rewrite import StorageRewrite
from heddle.tir.transform.unroll_loop import UnrollLoop
from heddle.tir.transform.vectorize_loop import VectorizeLoop

__all__ = [
    "BF16Legalize",
    "CheckBounds",
    "CountRows",
    "FlattenBuffer",
    "HoistDivisions",
    "HoistIfThenElse",
    "HoistIndexChecks",
    "LowerDotProducts",
    "LowerIntrin",
    "LowerSmallFloat",
    "LowerTileProducts",
    "MakePackedAPI",
    "MoveWholeVectors",
    "PeelLastPair",
    "RemoveAssume",
    "RemoveNoOp",
    "Simplify",
    "StorageRewrite",
    "UnrollLoop",
    "VectorizeLoop",
]
