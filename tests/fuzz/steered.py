"""Programs and steps that suit a schedule primitive which chance alone seldom lets apply.

A family adds the last stages of a program, after those that chance chose; its step picks the blocks and loops
that they made. The primitive still refuses some: conditions, sizes and types are chance's.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

from heddle.tir.nodes import IterType, PrimFunc, SBlock
from heddle.tir.schedule import Schedule
from tests.fuzz.loop_programs import Program

PROPER = {
    "{c} + {x}": "{dtype}(0)",
    "{x} + {c}": "{dtype}(0)",
    "{c} * {x}": "{dtype}(1)",
    "T.max({c}, {x})": "min_value('{dtype}')",
    "T.min({x}, {c})": "max_value('{dtype}')",
}
"""Combinations that are associative, each from what changes nothing under it."""

# ---- last stages


def _reduction(program: Program, target: str) -> None:
    """A reduction by a proper combination."""
    form = program.rng.choice(list(PROPER))
    axes = program.grid()
    i, j, k = axes[0][0], axes[1][0], program.name("k")
    axes.insert(program.rng.choice([0, 1, 2]), (k, "R", program.rng.choice(["1", "2", "3", "4"])))
    own = f"{target}[v{i}, v{j}]"
    x = f"{program.value('v' + i, 'v' + j)} + T.Cast('{program.dtype}', v{k})"
    start = f"T.{PROPER[form].format(dtype=program.dtype)}"
    program.block(axes, f"{own} = {form.format(c=own, x=f'({x})')}", init=f"{own} = {start}")


def _producer(program: Program, target: str) -> None:
    """A map into a temporary, and a stage that reads it where it stores, or beside that."""
    made = program.temporary()
    axes = program.grid()
    (i, _, _), (j, _, _) = axes
    program.block(axes, f"{made}[v{i}, v{j}] = {program.value('v' + i, 'v' + j)}")
    axes = program.grid()
    (i, _, _), (j, _, _) = axes
    other = f"T.if_then_else(v{i} > 0, {made}[v{i} - 1, v{j}], {program.const(2)})"
    value = program.rng.choice(
        [f"{made}[v{i}, v{j}] + A[v{i}, v{j}]", f"{made}[v{i}, v{j}] * {made}[v{i}, v{j}]", other]
    )
    program.block(axes, f"{target}[v{i}, v{j}] = {value}")


def _consumer(program: Program, target: str) -> None:
    """A stage into a temporary, and a map of its elements one by one."""
    made = program.temporary()
    program.rng.choice([program.map, program.reduction, lambda name: _reduction(program, name)])(made)
    _each(program, made, target)


def _two_maps(program: Program, target: str) -> None:
    """A map into a temporary, and a map of its elements one by one."""
    made = program.temporary()
    axes = program.grid()
    (i, _, _), (j, _, _) = axes
    program.block(axes, f"{made}[v{i}, v{j}] = {program.value('v' + i, 'v' + j)}")
    _each(program, made, target)


def _each(program: Program, source: str, target: str) -> None:
    axes = program.grid()
    (i, _, _), (j, _, _) = axes
    own = f"{source}[v{i}, v{j}]"
    value = program.rng.choice([f"{own} + {program.const(1)}", f"{own} * A[v{i}, v{j}]"])
    program.block(axes, f"{target}[v{i}, v{j}] = {value}")


def _stencil(program: Program, target: str) -> None:
    """Windows of rows that overlap; the last rows stay as they were."""
    made, reach = program.temporary(), program.rng.choice([1, 2])
    axes = program.grid()
    (i, _, _), (j, _, _) = axes
    program.block(axes, f"{made}[v{i}, v{j}] = {program.value('v' + i, 'v' + j)}")
    i, j = program.name("i"), program.name("j")
    rows = f"{program.rows} - {reach}" if program.is_free else str(max(0, int(program.rows) - reach))
    if program.is_free:
        rows = f"T.max({rows}, T.int64(0))"
    window = " + ".join(f"{made}[v{i} + {k}, v{j}]" for k in range(reach + 1))
    program.block([(i, "S", rows), (j, "S", program.columns)], f"{target}[v{i}, v{j}] = {window}")


def _in_place(program: Program, target: str) -> None:
    """A change of what the caller gave."""
    axes = program.grid()
    (i, _, _), (j, _, _) = axes
    own = f"{target}[v{i}, v{j}]"
    program.block(axes, f"{own} = {program.rng.choice([f'{own} * {own}', f'{own} + A[v{i}, v{j}]'])}")


def _padding(program: Program, target: str) -> None:
    """Elements of another buffer where a condition holds, a constant elsewhere."""
    axes = program.grid()
    (i, _, _), (j, _, _) = axes
    condition = program.rng.choice(
        [f"v{i} >= 1", f"v{i} >= 1 and v{j} >= 1", f"v{j} >= 1 and v{i} < 3", f"v{j} < 2"]
    )
    row = f"v{i} - 1" if f"v{i} >= 1" in condition else f"v{i}"
    column = f"v{j} - 1" if f"v{j} >= 1" in condition else f"v{j}"
    source = program.rng.choice(program.buffers)
    value = f"T.if_then_else({condition}, {source}[{row}, {column}], {program.const(3)})"
    program.block(axes, f"{target}[v{i}, v{j}] = {value}")


def _siblings(program: Program, target: str) -> None:
    """Two nests of equal extents side by side."""
    made = program.temporary()
    for name in (made, target):
        axes = program.grid()
        (i, _, _), (j, _, _) = axes
        source = made if name is target and program.rng.random() < 0.5 else "A"
        program.block(axes, f"{name}[v{i}, v{j}] = {source}[v{i}, v{j}] + {program.const(1)}")


def _under_one_loop(program: Program, target: str) -> None:
    """Two blocks in the body of one loop."""
    made, outer = program.temporary(), program.name("o")
    program.lines.append(f"for {outer} in range({program.rows}):")
    for name in (made, target):
        column = program.name("j")
        axes = [(outer, "S", program.rows), (column, "S", program.columns)]
        program.block(axes, f"{name}[v{outer}, v{column}] = A[v{outer}, v{column}]", indent=1, extra=[outer])


FAMILIES: dict[str, Callable[[Program, str], None]] = {
    "reduction": _reduction,
    "producer": _producer,
    "consumer": _consumer,
    "two maps": _two_maps,
    "stencil": _stencil,
    "in place": _in_place,
    "padding": _padding,
    "siblings": _siblings,
    "under one loop": _under_one_loop,
}


def steered_program(rng: random.Random, family: str) -> PrimFunc:
    """Up to one stage by chance, then those of a family, the last of which makes the result."""
    program = Program(rng)
    if rng.random() < 0.5:
        made = program.temporary()
        program.stage(made)
        program.buffers.append(made)
    FAMILIES[family](program, "C")
    return program.func()


# ---- steps on what a family made


def _names(sch: Schedule) -> list[str]:
    return [str(handle.name) for handle in sch.blocks()]


def _of(sch: Schedule, name: str) -> SBlock:
    found = sch.get(sch.get_sblock(name))
    assert isinstance(found, SBlock)
    return found


def _reduction_loop(sch: Schedule, rng: random.Random) -> Any:
    """A loop that runs over a reduction axis of the last block."""
    name = _names(sch)[-1]
    reduced = [k for k, axis in enumerate(_of(sch, name).iter_vars) if axis.iter_type is IterType.CommReduce]
    return sch.get_loops(name)[rng.choice(reduced)]


def _before_last(sch: Schedule) -> str:
    return _names(sch)[-2]


def _decomposed(sch: Schedule, rng: random.Random) -> None:
    name = _names(sch)[-1]
    sch.decompose_reduction(name, rng.choice(sch.get_loops(name)))


def _padding_split(sch: Schedule, rng: random.Random) -> None:
    name = _names(sch)[-1]
    sch.decompose_padding(name, rng.choice(sch.get_loops(name)))


def _rolled(sch: Schedule, rng: random.Random) -> None:
    names = _names(sch)
    sch.compute_at(names[-2], sch.get_loops(names[-1])[0])
    sch.rolling_buffer(names[-2], 0)


def _in_place_cached(sch: Schedule, rng: random.Random) -> None:
    name = _names(sch)[-1]
    block = _of(sch, name)
    written = {region.buffer for region in block.writes}
    own = next(k for k, region in enumerate(block.reads) if region.buffer in written)
    sch.cache_inplace(name, own, "local")


def _merged(sch: Schedule, rng: random.Random) -> None:
    names, depth = _names(sch)[-2:], rng.choice([0, 1])
    sch.merge(*(sch.get_loops(name)[depth] for name in names))


def _output_shared(sch: Schedule, rng: random.Random) -> None:
    name = _names(sch)[-1]
    reads = _of(sch, name).reads
    inside = [k for k, region in enumerate(reads) if region.buffer not in sch.func.buffers]
    sch.share_output(name, rng.choice(inside))


def _rows_tiled(sch: Schedule, rng: random.Random) -> None:
    sch.tile_rows(_names(sch)[-1], rng.choice([0, 1]), rng.choice([1, 2, 3]))


def _write_staged(sch: Schedule, rng: random.Random) -> None:
    order = rng.choice([0, 1])
    sch.reindex_cache_write(_names(sch)[-1], 0, "local", lambda i, j: ((i, j), (j, i))[order])


STEERED: dict[str, tuple[tuple[str, ...], Callable[[Schedule, random.Random], Any]]] = {
    "rfactor": (("reduction",), lambda s, r: s.rfactor(_reduction_loop(s, r), r.choice([0, 1, 2]))),
    "decompose_reduction": (("reduction",), _decomposed),
    "merge": (("siblings", "siblings", "producer"), _merged),
    "compute_inline": (("producer",), lambda s, r: s.compute_inline(_before_last(s))),
    "reverse_compute_inline": (
        ("two maps", "consumer"),
        lambda s, r: s.reverse_compute_inline(_names(s)[-1]),
    ),
    "compute_at": (
        ("producer", "stencil", "consumer"),
        lambda s, r: s.compute_at(_before_last(s), r.choice(s.get_loops(_names(s)[-1])), r.random() < 0.5),
    ),
    "reverse_compute_at": (
        ("consumer",),
        lambda s, r: s.reverse_compute_at(_names(s)[-1], s.get_loops(_before_last(s))[0], r.random() < 0.5),
    ),
    "rolling_buffer": (("stencil",), _rolled),
    "cache_inplace": (("in place",), _in_place_cached),
    "reindex_cache_write": (("two maps", "producer"), _write_staged),
    "decompose_padding": (("padding",), _padding_split),
    "blockize two": (("under one loop",), lambda s, r: s.blockize(_names(s)[-2:])),
    "tile_rows": (("producer", "consumer"), _rows_tiled),
    "share_output": (("producer", "consumer"), _output_shared),
}
"""For a primitive: families of programs, and the step."""
