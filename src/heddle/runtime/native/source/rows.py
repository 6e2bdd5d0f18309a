"""Copies between a tensor and the parts that it has along an axis, both ways: tensors joined and split.

The tensor is rows, one for each index before the axis, and each row has a run of bytes of every part. Threads
take lines of the tensor's memory, so that few long rows are shared as well as many short ones: of the rows
that lie within its lines a thread copies part after part, of the row at either end what lies within.
"""

from heddle.runtime.native.abi import Value
from heddle.runtime.native.source.chains import elements_of, tensor_in
from heddle.runtime.native.source.fork_join import heddle_parallel_for
from heddle.systems.types import Address, Pointer, Struct, i32, i64, u64
from heddle.systems.words import cast, copy, inline, native, offset

NO_AXIS = -1
LINE_BYTES = 64
LINES_OF_A_THREAD = 1 << 13  # half a MiB: the least that is worth waking a thread for


class Rows(Struct):
    """A tensor of rows of `row_bytes`, and its parts. A part has `index_bytes` in a row for each index that
    it has along `axis`, or for one where it lacks the axis."""

    whole: Address
    parts: Pointer[Value]
    count: i64
    axis: i64
    index_bytes: i64
    row_bytes: i64
    size_bytes: i64
    is_split: i64


@inline
def quotient(number: i64, by: i64) -> i64:
    """Of numbers that are not negative."""
    return i64(u64(number) // u64(by))


@inline
def run_bytes(rows: Pointer[Rows], number: i64) -> i64:
    """What a row has of a part."""
    if rows.axis == NO_AXIS:
        return rows.index_bytes
    return rows.index_bytes * tensor_in(rows.parts[number]).sizes[rows.axis]


@native
def copy_runs(to: Address, to_step: i64, source: Address, source_step: i64, run: i64, count: i64) -> None:
    """So many runs of bytes, each a step behind the last one."""
    number: i64 = 0
    if (run == to_step) & (run == source_step):
        copy(to, source, run * count)
        return
    while number < count:
        copy(offset(to, number * to_step), offset(source, number * source_step), run)
        number += 1


@native
def copy_whole_rows(rows: Pointer[Rows], first: i64, last: i64) -> None:
    """Whole rows, part after part."""
    step = rows.row_bytes
    count = last - first
    place = offset(rows.whole, first * step)
    number: i64 = 0
    while number < rows.count:
        run = run_bytes(rows, number)
        part = offset(elements_of(tensor_in(rows.parts[number])), first * run)
        if rows.is_split != 0:
            copy_runs(part, run, place, step, run, count)
        else:
            copy_runs(place, step, part, run, run, count)
        place = offset(place, run)
        number += 1


@native
def copy_within(rows: Pointer[Rows], row: i64, begin: i64, end: i64) -> None:
    """The bytes of one row from `begin` to `end`."""
    base: i64 = 0
    number: i64 = 0
    while (number < rows.count) & (base < end):
        run = run_bytes(rows, number)
        start = max(begin, base)
        size = min(end, base + run) - start
        if size > 0:
            place = offset(rows.whole, row * rows.row_bytes + start)
            part = offset(elements_of(tensor_in(rows.parts[number])), row * run + start - base)
            if rows.is_split != 0:
                copy(part, place, size)
            else:
                copy(place, part, size)
        base += run
        number += 1


@native
def copy_lines(first_line: u64, last_line: u64, ctx: Address) -> i32:
    """The lines of a tensor's memory that one thread takes. Gives 0."""
    rows = cast(Pointer[Rows], ctx)
    step = rows.row_bytes
    begin = i64(first_line) * LINE_BYTES
    end = min(i64(last_line) * LINE_BYTES, rows.size_bytes)
    first = quotient(begin + step - 1, step)
    last = quotient(end, step)
    if first > last:  # within one row
        copy_within(rows, last, begin - last * step, end - last * step)
        return 0
    if begin < first * step:
        copy_within(rows, first - 1, begin - (first - 1) * step, step)
    copy_whole_rows(rows, first, last)
    if last * step < end:
        copy_within(rows, last, 0, end - last * step)
    return 0


@inline
def copy_parts(rows: Pointer[Rows]) -> None:
    """All of a tensor's memory, or of its parts'."""
    lines = quotient(rows.size_bytes + LINE_BYTES - 1, LINE_BYTES)
    heddle_parallel_for(copy_lines, cast(Address, rows), lines, LINES_OF_A_THREAD)
