"""Rows of free length that may have one element: loops of their own for that.

    for i, j in grid(m, n):          if n == 1:                # over the same memory, as A1: (m,)
        B[i, j] = f(A[i, j])    →        for i in range(m): B1[i, 0] = f(A1[i, 0])
                                     else:
                                         for i, j in grid(m, n): B[i, j] = f(A[i, j])

A rule puts the last axis into lanes and runs over the others one by one, which a single column fills badly:
one lane of a strip, a loop that turns once. Where the size is known to be one, the rules see that the axis
before it is the last that counts.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator

from heddle.ir.node import Map, replace
from heddle.ir.visitor import walk
from heddle.prim.nodes import EQ, FloorDiv, IntImm, PrimExpr, Var, constant, is_const_int
from heddle.prim.substitute import free_vars
from heddle.tir.analysis.blocks import walk_stmts
from heddle.tir.nodes import (
    Buffer,
    BufferLoad,
    BufferStore,
    DeclBuffer,
    For,
    IfThenElse,
    PrimFunc,
    SBlockRealize,
    Stmt,
    seq,
    statements,
)
from heddle.tir.schedule.tree import fresh_copy
from heddle.tir.substitute import substitute_stmt

ANY_COLUMNS = "tir.any_columns"
"""Attribute of functions that `either` has made: how many forms stand before the one for any length."""
FEW_ROWS = 16
"""Rows that are not worth code of their own."""


def size_of_rows(func: PrimFunc) -> Var | None:
    """The free size of the last dimension of all that a function writes for others, if there are more rows
    than FEW_ROWS or nobody knows how many; None otherwise."""
    stores = (node for node in walk_stmts(func.body) if isinstance(node, BufferStore))
    written = {node.buffer for node in stores if node.buffer in func.buffers}
    last = {buffer.shape[-1] if buffer.shape else None for buffer in written}
    size = last.pop() if len(last) == 1 else None
    if not isinstance(size, Var) or not all(_has_many(buffer.shape[:-1], size) for buffer in written):
        return None
    return size


def _has_many(rows: tuple[PrimExpr, ...], size: Var) -> bool:
    count = 1
    for extent in rows:
        if not isinstance(extent, IntImm) and extent is not size:
            return True
        count *= extent.value if isinstance(extent, IntImm) else 1
    return count > FEW_ROWS


def turns_for_each_row(func: PrimFunc, size: Var) -> bool:
    """Whether scheduled loops run over rows one by one: some loop is as long as a row, or
    over strips of it."""
    extents = [node.extent for node in walk_stmts(func.body) if isinstance(node, For)]
    strips = (part for extent in extents for part in walk(extent) if isinstance(part, FloorDiv))
    return any(set(free_vars(extent)) == {size} for extent in extents) or any(
        size in free_vars(part) for part in strips
    )


def with_one_column(func: PrimFunc, size: Var) -> PrimFunc:
    """The function where a size is one, as that of rows of one element is. Its buffers lie over the same
    pointers."""
    buffers = {old: _over(old, size) for old in func.buffers if size in free_vars(*old.shape)}
    body = substitute_stmt(func.body, {size: constant(1, size.dtype)}, buffers)
    given = {param: buffers.get(buffer, buffer) for param, buffer in func.buffer_map.items()}
    return PrimFunc(func.params, body, func.ret_type, Map(given), func.attrs, span=func.span)


def _over(buffer: Buffer, size: Var) -> Buffer:
    made = substitute_stmt(buffer, {size: constant(1, size.dtype)})
    assert isinstance(made, Buffer)
    return made


def either(condition: PrimExpr, special: PrimFunc, general: PrimFunc) -> PrimFunc:
    """The function that does what `special` does where a condition on sizes holds, and else what `general`
    does."""
    first, second = fresh_copy(general, special.body), general.body
    assert isinstance(first, SBlockRealize) and isinstance(second, SBlockRealize)
    used = {node.buffer for node in walk(first) if isinstance(node, (BufferLoad, BufferStore))}
    declared = [DeclBuffer(b) for b in special.buffers if b in used and b not in general.buffers]
    body = IfThenElse(condition, seq(*declared, first.block.body), second.block.body)
    allocated = (*first.block.alloc_buffers, *second.block.alloc_buffers)
    block = replace(second.block, body=body, alloc_buffers=allocated)
    forms = int(general.attrs.get(ANY_COLUMNS, 0)) + 1
    made: PrimFunc = general.with_body(replace(second, block=block)).with_attr({ANY_COLUMNS: forms})
    return made


def _forms(func: PrimFunc) -> Iterator[IfThenElse]:
    """What `either` has put into a function, the outermost first."""
    assert isinstance(func.body, SBlockRealize)
    stmt: Stmt | None = func.body.block.body
    for _ in range(func.attrs.get(ANY_COLUMNS, 0)):
        assert isinstance(stmt, IfThenElse)
        yield stmt
        stmt = stmt.else_case


def _is_one(form: IfThenElse) -> Var | None:
    """The size that is one where a form is taken; None for a form under another condition."""
    condition = form.condition
    if isinstance(condition, EQ) and isinstance(condition.a, Var) and is_const_int(condition.b, 1):
        return condition.a
    return None


def sizes_of_one(func: PrimFunc) -> set[Var]:
    """The sizes for which a scheduled function has loops of their own where they are one."""
    return {size for form in _forms(func) if (size := _is_one(form)) is not None}


def where_one(func: PrimFunc, sizes: Collection[Var]) -> PrimFunc:
    """What a scheduled function does where these sizes are one, over the buffers of any size: its loops for
    that, if it has such."""
    found = next((form for form in _forms(func) if _is_one(form) in sizes), None)
    made = for_any_length(func) if found is None else _with_body(func, _over_all(found.then_case, func))
    assert isinstance(made.body, SBlockRealize)
    same = {buffer: buffer for buffer in (*made.buffers, *made.body.block.alloc_buffers)}
    ones = {size: constant(1, size.dtype) for size in sizes}
    return made.with_body(substitute_stmt(made.body, ones, same))


def _with_body(func: PrimFunc, body: Stmt) -> PrimFunc:
    """The function with one of its forms alone, and the memory that this takes."""
    root = func.body
    assert isinstance(root, SBlockRealize)
    used = {node.buffer for node in walk(body) if isinstance(node, (BufferLoad, BufferStore))}
    kept = tuple(buffer for buffer in root.block.alloc_buffers if buffer in used)
    block = replace(root.block, body=body, alloc_buffers=kept)
    made: PrimFunc = func.with_body(replace(root, block=block)).without_attr(ANY_COLUMNS)
    return made


def _over_all(stmt: Stmt, func: PrimFunc) -> Stmt:
    """Statements on a function's own buffers, not on those that `either` declared over the same memory."""
    own = {buffer.data: buffer for buffer in func.buffers}
    declared = {
        part.buffer: own[part.buffer.data] for part in statements(stmt) if isinstance(part, DeclBuffer)
    }
    rest = seq(*(part for part in statements(stmt) if not isinstance(part, DeclBuffer)))
    made: Stmt = substitute_stmt(rest, {}, declared)
    return made


def for_any_length(func: PrimFunc) -> PrimFunc:
    """The function without the loops that `either` has put beside those for rows of any length."""
    if ANY_COLUMNS not in func.attrs:
        return func
    *_, last = _forms(func)
    assert last.else_case is not None
    return _with_body(func, last.else_case)
