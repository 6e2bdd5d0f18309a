"""Images that are interpolated a row at a time.

    parallel rows of the result:
        for columns of the image, in lanes:
            row[column] = what lies above and below, by weights         (memory in order)
        for columns of the result, in lanes:
            result[column] = row[left], row[right], by weights          (anywhere in the row)

Inlined, what makes a row would be done again for each of its elements that a column of the result takes, and
read from places far from each other.
"""

from __future__ import annotations

from heddle.ir.structural import structural_equal
from heddle.ir.visitor import walk
from heddle.prim.nodes import Cast, PrimExpr, Var
from heddle.prim.substitute import free_vars
from heddle.target import Target
from heddle.tir.schedule.rules.elementwise import axis_of, loads_of, repeated_maps, schedule_map
from heddle.tir.schedule.rules.rule import ScheduleRule, block_of, inline_maps, is_spatial, try_primitive
from heddle.tir.schedule.schedule import SBlockRV, Schedule
from heddle.tir.transform.run_in_lanes import MAP


class InterpolatedRows(ScheduleRule):
    wants_columns = True

    def apply(self, sch: Schedule, target: Target) -> Schedule | None:
        if not all(is_spatial(block_of(sch, handle)) for handle in sch.blocks()):
            return None
        rows = [handle for handle in sch.blocks() if _is_read_apart(sch, handle)]
        if not rows:
            return None
        sch = sch.copy()
        inline_maps(sch, keep=[*repeated_maps(sch), *(handle.name for handle in rows)])
        done: set[str] = set()
        for handle in rows:
            reader = _compute_by_rows(sch, handle)
            if reader is None:
                return None
            done |= {handle.name, reader.name}
        for handle in sch.blocks():
            if handle.name not in done:
                schedule_map(sch, handle)
        return sch


def _is_read_apart(sch: Schedule, handle: SBlockRV) -> bool:
    """Whether each element of a map's only reader takes several elements of one row, at places that are
    rounded."""
    block, readers = block_of(sch, handle), sch.get_consumers(handle)
    if len(readers) != 1:
        return False
    reader = block_of(sch, readers[0])
    loads = loads_of(reader, {region.buffer for region in block.writes})
    if not reader.iter_vars:
        return False
    axis = reader.iter_vars[-1].var
    rows = [load.indices[:-1] for load in loads]
    return (
        len(loads) > 1
        and all(structural_equal(row, rows[0]) for row in rows)
        and axis not in free_vars(*rows[0])
        and all(load.indices and _is_rounded(load.indices[-1], axis) for load in loads)
    )


def _is_rounded(index: PrimExpr, axis: Var) -> bool:
    return any(
        isinstance(part, Cast) and part.value.dtype.is_float and axis in free_vars(part)
        for part in walk(index)
    )


def _compute_by_rows(sch: Schedule, handle: SBlockRV) -> SBlockRV | None:
    """Compute a row where its reader begins one; gives the reader, None where it has no rows of its own."""
    readers = sch.get_consumers(handle)
    if len(readers) != 1 or len(sch.get_loops(readers[0])) < 2:
        return None
    reader: SBlockRV = readers[0]
    schedule_map(sch, reader)
    row, *inner = sch.get_loops(reader)
    if not inner or axis_of(sch, reader, inner[-1]) is not block_of(sch, reader).iter_vars[-1].var:
        return None
    if not try_primitive(sch, lambda: sch.compute_at(handle, row)):
        return None
    for block in (handle, reader):
        sch.annotate(sch.get_loops(block)[-1], MAP, True)
    return reader
