"""Indices that tensors give: checked where they are used.

`tir.checked_index(i, n, from_end)` is the position that index i means along an axis of n elements: i itself,
or i + n for a negative i where `from_end` is 1. An index outside [-n, n) (or [0, n)) is an error of code
U1001 that names it, where an element is read or written through it. Machine code leaves the kernel before
the access (a comparison and a branch that is never taken); numpy references and interpreters raise the same.
In vector code a fourth argument, a mask, says which lanes are asked.

`tir.require_index(i, n, from_end)` raises the same error and gives the same value. It has an effect, so that
it stays as a statement where nobody asks for the value.
"""

from __future__ import annotations

from typing import Any, TypeGuard

import numpy as np

from heddle.ir.op import OP_RECORDS, Op
from heddle.prim.intrinsics import PURE, SAFE, WRITES, Intrinsic
from heddle.prim.nodes import Call, PrimExpr, as_expr, constant
from heddle.prim.ops import cast
from heddle.prim.signatures import Signature
from heddle.runtime.codes import U1001
from heddle.support.diagnostics import TrapIndexError

CHECKED_INDEX = "tir.checked_index"
REQUIRE_INDEX = "tir.require_index"
MESSAGE = "index %g is out of range for an axis of %e elements"
"""`%g` and `%e` stand for the index and the number of elements."""
MESSAGE_SOMEWHERE = "an index is out of range for an axis of %e elements"


def checked_positions(indices: Any, size: Any, from_end: Any = True, mask: Any = True) -> Any:
    """Positions from 0 as int64, of any shape. Raises: TrapIndexError U1001 with the first index that is out
    of range.
    """
    given = np.asarray(indices)
    signed = given.astype(np.int64)
    low = -size if from_end and given.dtype.kind != "u" else np.zeros_like(size)
    bad = ((signed < low) | (signed >= size)) & mask
    if np.any(bad):
        wrong = np.broadcast_to(signed, bad.shape)[bad].reshape(-1)[0]
        extent = np.broadcast_to(size, bad.shape)[bad].reshape(-1)[0]
        raise TrapIndexError(U1001, MESSAGE.replace("%g", str(wrong)).replace("%e", str(extent)))
    return np.where((signed < 0) & bool(from_end), signed + size, signed)


def checked_index(index: PrimExpr, size: PrimExpr, from_end: bool = True) -> PrimExpr:
    """The int64 position that an index means; unsigned ones do not count from the end."""
    counts = constant(int(from_end and not index.dtype.is_unsigned), "int32")
    args = (cast("int64", index), cast("int64", as_expr(size)), counts)
    return Call(args[0].dtype, Op.get(CHECKED_INDEX), args)


def _evaluate(indices: Any, size: Any, from_end: Any, mask: Any = True) -> Any:
    return checked_positions(indices, size, bool(np.any(from_end)), mask)


def is_index_check(node: object) -> TypeGuard[Call]:
    """Whether a node is a checked index."""
    return isinstance(node, Call) and node.op.name == CHECKED_INDEX


def require_index(checked: Call) -> Call:
    """A check alone, as a statement's value."""
    return Call(checked.dtype, Op.get(REQUIRE_INDEX), checked.args)


_CHECK = Signature(("position", "position", "literal"), "condition", "int64s")
for _name, _effect, _meaning in (
    (CHECKED_INDEX, PURE, "the position that an index means, which must be valid"),
    (REQUIRE_INDEX, WRITES, "an index must be valid"),
):
    OP_RECORDS.add(_name, Intrinsic(_name, _CHECK, _effect, _evaluate, _meaning, SAFE))
