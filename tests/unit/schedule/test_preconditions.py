"""Primitives refuse programs whose meaning they would change; cases are named by what is wrong with them."""

import numpy as np
import pytest

from heddle.ir.module import IRModule
from heddle.script import from_source
from heddle.tir.nodes import PrimFunc
from heddle.tir.schedule import Schedule, ScheduleError
from heddle.tir.verify import verify_prim_func
from tests.unit.schedule.programs import chain, check, matmul, window


def written(parameters: str, body: str) -> PrimFunc:
    """A function of parameters such as `A: 10, 4; C: 10`."""
    names = [part.split(": ") for part in parameters.split("; ")]
    signature = ", ".join(f'{name}: T.Buffer(({shape},), "float32")' for name, shape in names)
    lines = "\n        ".join(body.strip("\n").split("\n"))
    source = f"@I.ir_module\nclass Module:\n    @T.prim_func\n    def main({signature}):\n        {lines}\n"
    return from_source(source)["main"]


def temporaries(*declared: str) -> str:
    """`B: 10, 4` and so on."""
    pairs = [part.split(": ") for part in declared]
    return "".join(f'{name} = T.sblock_alloc_buffer(({shape},), "float32")\n' for name, shape in pairs)


KINDS = {"S": "spatial", "R": "reduce", "O": "opaque"}


def nest(name: str, axes: str, store: str, init: str = "", where: str = "", again: int = 0) -> str:
    """A block under loops of its own; `axes` such as `i S 10, j R 2:9`. `again` runs it so many times."""
    found = [axis.split() for axis in axes.split(", ")]
    lines = [f"for again in range({again}):"] if again else []
    for var, _, ends in found:
        lines.append(f"{'    ' * len(lines)}for {var} in range({ends.replace(':', ', ')}):")
    pad = "    " * len(lines)
    lines.append(f'{pad}with T.sblock("{name}"):')
    for var, kind, ends in found:
        domain = f"({ends.replace(':', ', ')})" if ":" in ends else ends
        lines.append(f"{pad}    v{var} = T.axis.{KINDS[kind]}({domain}, {var})")
    lines += [f"{pad}    T.where({where})"] if where else []
    lines += [f"{pad}    with T.init():", f"{pad}        {init}"] if init else []
    return "\n".join([*lines, f"{pad}    {store}"]) + "\n"


AC, ROWS = "A: 10, 4; C: 10, 4", "i S 10, j S 4"
B = temporaries("B: 10, 4")
MAKES_B = nest("B", ROWS, "B[vi, vj] = A[vi, vj] + T.float32(1)")
DOUBLES_B = nest("C", ROWS, "C[vi, vj] = B[vi, vj] * T.float32(2)")

NO_ROWS = {
    "rows that begin later": written(AC, nest("C", "i S 2:9, j S 4", "C[vi, vj] = A[vi, vj] + T.float32(1)")),
    "a temporary that two blocks write": written(
        AC, B + MAKES_B + nest("B1", "i S 10, j S 2", "B[vi, vj] = A[vi, vj] * T.float32(5)") + DOUBLES_B
    ),
    "a temporary that is changed in place": written(
        AC, B + MAKES_B + nest("B1", ROWS, "B[vi, vj] = B[vi, vj] * T.float32(5)") + DOUBLES_B
    ),
    "rows that are made from rows before": written(
        AC,
        B
        + nest(
            "B",
            "i O 10, j S 4",
            "B[vi, vj] = A[vi, vj] + T.if_then_else(vi > 0, B[vi - 1, vj], T.float32(0))",
        )
        + DOUBLES_B,
    ),
    "an init that reads other rows": written(
        "A: 10, 4; C: 10",
        temporaries("B: 10", "D: 10")
        + nest("B", "i S 10", "B[vi] = A[vi, 0] + T.float32(1)")
        + nest("D", "i S 10, j R 4", "D[vi] = D[vi] + A[vi, vj]", init="D[vi] = B[9 - vi]")
        + nest("C", "i S 10", "C[vi] = B[vi] + D[vi]"),
    ),
}


@pytest.mark.parametrize("name", NO_ROWS)
def test_rows_that_cannot_be_tiled(name):
    sch = Schedule(NO_ROWS[name])
    with pytest.raises(ScheduleError, match="T0426"):
        sch.tile_rows("C", 0, 3)
    assert sch.func is NO_ROWS[name]


def test_an_init_may_read_its_own_row():
    before = written(
        "A: 10, 4; C: 10",
        temporaries("B: 10")
        + nest("B", "i S 10", "B[vi] = A[vi, 0] + T.float32(1)")
        + nest("C", "i S 10, j R 4", "C[vi] = C[vi] + A[vi, vj]", init="C[vi] = B[vi]"),
    )
    sch = Schedule(before)
    sch.tile_rows("C", 0, 3)
    check(before, sch)


# ---- a result that holds a temporary

NO_PLACE = {
    "a block before reads the result": written(
        "C: 10, 4", B + nest("B", ROWS, "B[vi, vj] = C[vi, vj] * T.float32(3)") + DOUBLES_B
    ),
    "another block reads the result": written(
        AC,
        temporaries("B: 10, 4", "D: 10, 4")
        + MAKES_B
        + nest("D", ROWS, "D[vi, vj] = C[vi, vj] * T.float32(3)")
        + nest("C", ROWS, "C[vi, vj] = B[vi, vj] + D[vi, vj]"),
    ),
    "the block reads its result": written(
        AC, B + MAKES_B + nest("C", ROWS, "C[vi, vj] = B[vi, vj] + C[vi, vj]")
    ),
    "the block runs three times": written(
        AC, B + MAKES_B + nest("C", ROWS, "C[vi, vj] = B[vi, vj] * T.float32(2)", again=3)
    ),
    "elements are stored several times": written(
        "A: 8; C: 8",
        temporaries("B: 8")
        + nest("B", "i S 8", "B[vi] = A[vi] + T.float32(1)")
        + nest("C", "i S 5, j S 4", "C[vi + vj] = B[vi + vj] * T.float32(2)"),
    ),
    "only a part of the result is stored": written(
        AC, B + MAKES_B + nest("C", "i S 6, j S 4", "C[vi, vj] = B[vi, vj] * T.float32(2)")
    ),
    "the result is stored under a condition": written(
        AC, B + MAKES_B + nest("C", ROWS, "C[vi, vj] = B[vi, vj] * T.float32(2)", where="i < j + 5")
    ),
    "the temporary is allocated by a statement": written(
        AC, 'B = T.alloc_buffer((10, 4), "float32")\n' + MAKES_B + DOUBLES_B
    ),
}


@pytest.mark.parametrize("name", NO_PLACE)
def test_results_that_cannot_hold_a_temporary(name):
    sch = Schedule(NO_PLACE[name])
    with pytest.raises(ScheduleError, match="T0425"):
        sch.share_output("C", "B")
    assert sch.func is NO_PLACE[name]


def test_a_result_that_is_stored_in_parts_holds_a_temporary():
    before = written(AC, B + MAKES_B + DOUBLES_B)
    sch = Schedule(before)
    sch.split(sch.get_loops("C")[1], [None, 2])
    sch.split(sch.get_loops("C")[0], [None, 3])
    sch.fuse(*sch.get_loops("C")[2:])
    sch.share_output("C", "B")
    check(before, sch)


# ---- copies under conditions


def test_a_copy_by_axes_keeps_the_condition():
    before = matmul(5, 6, 4)
    sch = Schedule(before)
    sch.tile_rows("D", 0, 3)
    sch.reindex("D", ("write", 0))
    check(before, sch)


@pytest.mark.parametrize(
    ("store", "where", "code"),
    [
        ("C[vi, vj] = A[vi, vj]", "i + j < again + 9", "T0424"),
        ("C[vi - 2, vj] = A[vi, vj]", "", "T0416"),
    ],
)
def test_copies_by_axes_that_cannot_be(store, where, code):
    axes = "i S 10, j S 4" if where else "i S 2:9, j S 4"
    before = written(AC, nest("C", axes, store, where=where, again=3 if where else 0))
    with pytest.raises(ScheduleError, match=code):
        Schedule(before).reindex("C", ("write", 0))


# ---- reductions


@pytest.mark.parametrize("which", [0, 1])
def test_ragged_loops_have_no_partial_results(which):
    sch = Schedule(matmul(3, 10, 2))
    loops = sch.split_ragged(sch.get_loops("C")[2], 4)
    before = sch.func
    with pytest.raises(ScheduleError, match="T0412"):
        sch.rfactor(loops[which], 0)
    assert sch.func is before


def test_partial_results_begin_at_the_first():
    body = nest("C", "i S 4, j R 2:9", "C[vi] = C[vi] + A[vi, vj]", init="C[vi] = T.float32(0)")
    sch = Schedule(written("A: 4, 10; C: 4", body))
    with pytest.raises(ScheduleError, match="T0412"):
        sch.rfactor(sch.get_loops("C")[1], 0)


def test_a_reduction_that_runs_again_keeps_its_init():
    body = nest("C", "i S 4, j R 8", "C[vi] = C[vi] + A[vi, vj]", init="C[vi] = T.float32(0)", again=3)
    before = written("A: 4, 8; C: 4", body)
    sch = Schedule(before)
    with pytest.raises(ScheduleError, match="T0409"):
        sch.decompose_reduction("C", sch.get_loops("C")[0])
    sch.decompose_reduction("C", sch.get_loops("C")[1])
    check(before, sch)


def test_an_init_keeps_the_conditions_that_are_its_own():
    """Both the rows and the sum are cut into parts that do not divide them."""
    before = matmul(5, 7, 2)
    sch = Schedule(before)
    row, _, inner = sch.get_loops("C")
    sch.split(row, [None, 2])
    cut = sch.split(inner, [None, 3])[0]
    sch.decompose_reduction("C", cut)
    sch.reorder(*sch.get_loops("C_init")[::-1])
    check(before, sch)


# ---- places and axes


def test_a_condition_on_a_loop_that_is_left():
    sch = Schedule(window(4, 3, 3))
    copy = sch.cache_read("G", 0, "local")
    _, j, r = sch.get_loops("G")
    unit = sch.add_unit_loop(j)
    sch.compute_at(copy, r)
    sch.split(unit, [None, 2])
    with pytest.raises(ScheduleError, match="T0407"):
        sch.compute_at(copy, sch.get_loops("G")[0])


def test_a_producer_stays_behind_what_makes_its_input():
    before = window(4, 3, 3)
    sch = Schedule(before)
    copy = sch.cache_read("E", 0, "local")
    row, _, inner = sch.get_loops("G")
    sch.compute_at("E", inner)
    sch.compute_at(copy, row)
    with pytest.raises(ScheduleError, match="T0407"):
        sch.compute_at("E", row)
    check(before, sch)


def test_a_consumer_under_a_condition_is_not_inlined():
    before = matmul(7, 5, 1)
    sch = Schedule(before)
    sch.tile_rows("D", 0, 3)
    sch.cache_read("D", "C", "local")
    with pytest.raises(ScheduleError, match="T0406"):
        sch.reverse_compute_inline("D")
    check(before, sch)


def test_loops_without_iterations_are_fused():
    before = chain(0, 0)
    sch = Schedule(before)
    sch.fuse(*sch.get_loops("E"))
    check(before, sch)


STAGED_WRITES = {
    "cache_write": lambda sch: sch.cache_write("C", 0, "local"),
    "reindex": lambda sch: sch.reindex("C", ("write", 0)),
    "reindex_cache_write": lambda sch: sch.reindex_cache_write("C", 0, "local", lambda i, j: (j, i)),
    "reindex_cache_read": lambda sch: sch.reindex_cache_read("C", 0, "local", lambda i, j: (j, i)),
}


@pytest.mark.parametrize("name", STAGED_WRITES)
def test_what_a_block_changes_is_not_staged_from_nothing(name):
    """C = C + A begins from what the caller gave."""
    sch = Schedule(written(AC, nest("C", ROWS, "C[vi, vj] = C[vi, vj] + A[vi, vj]")))
    with pytest.raises(ScheduleError, match="reads what 'C' holds before"):
        STAGED_WRITES[name](sch)
    sch.cache_inplace("C", 0, "local")


@pytest.mark.parametrize(
    ("store", "rows"),
    [
        ("C[vi, vj] = A[vi, vj]", 6),
        ("C[vi + 4, vj] = A[vi, vj]", 6),
        ("C[vi * 2, vj] = A[vi, vj]", 5),
        ("C[vi // 2, vj] = A[vi, vj]", 10),
    ],
)
def test_elements_that_a_block_does_not_store_are_the_callers(store, rows):
    """cache_write copies the whole buffer out, and would overwrite them."""
    sch = Schedule(written(AC, nest("C", ROWS, store).replace("10", str(rows))))
    with pytest.raises(ScheduleError, match="may leave elements of 'C' as the caller gave them"):
        sch.cache_write("C", 0, "local")


@pytest.mark.parametrize(
    "size",
    ["n - n // 2", "T.max(n - n // 2, 0)", "(T.max(n - n // 2, 0) + 1) // 2", "T.max(n - 3, 0) * 2 + 1"],
)
def test_a_block_over_all_of_a_free_size_stores_all(size):
    """A size may have a simpler form where another one is not empty."""
    source = f"""
@T.prim_func
def main(a: T.handle, c: T.handle):
    n = T.int64(is_size_var=True)
    A = T.match_buffer(a, (n,), "float32")
    C = T.match_buffer(c, (n, {size}), "float32")
    for i, j in T.grid(n, {size}):
        with T.sblock("C"):
            vi, vj = T.axis.remap("SS", [i, j])
            C[vi, vj] = A[vi]
"""
    sch = Schedule(from_source(source))
    sch.cache_write("C", 0, "local")
    func = from_source(source.replace(f"T.grid(n, {size})", "T.grid(n, n // 2)"))
    with pytest.raises(ScheduleError, match="may leave elements of 'C' as the caller gave them"):
        Schedule(func).cache_write("C", 0, "local")


def test_a_block_in_tiles_stores_all():
    sch = Schedule(chain(10, 7))
    sch.split(sch.get_loops(sch.blocks()[-1].name)[0], [None, 4])
    before = chain(10, 7)
    sch.cache_write(sch.blocks()[-1].name, 0, "local")
    check(before, sch)


def test_lines_of_a_buffer_that_goes_are_not_asked_for():
    sch = Schedule(chain(4, 5))
    sch.prefetch("F", 0, sch.get_loops("F")[0], lambda i: (i, 0))
    sch.compute_inline("E")
    assert "prefetch" not in str(sch.func)
    assert not verify_prim_func(sch.func, IRModule.from_expr(sch.func))


def test_the_beginning_of_a_reduction_knows_no_reduction_axis():
    """The reduction begins from an element, which may not be copied to where a reduction axis says."""
    body = (
        "for i, k in T.grid(10, 8):\n"
        "            with T.sblock('C'):\n"
        "                vi, vk = T.axis.remap('SR', [i, k])\n"
        "                with T.init():\n"
        "                    C[vi, 0] = A[vi, 0]\n"
        "                C[vi, 0] = C[vi, 0] + T.float32(1)\n"
    )
    sch = Schedule(written(AC, body))
    with pytest.raises(ScheduleError, match="the beginning of reduction 'C' lacks"):
        sch.reindex_cache_read("C", 0, "local", lambda i, k: (i, k))
    sch.reindex_cache_read("C", 0, "local", lambda i, k: (i,))


def test_iterations_that_depend_on_others_keep_their_order():
    """The cell above to the right is another one's result."""
    diagonal = "C[vi, vj] = T.if_then_else(vi > 0 and vj < 7, C[vi - 1, vj + 1] + T.float32(1), A[vi, vj])"
    sch = Schedule(written(AC, nest("C", ROWS, diagonal)))
    for mapping in (lambda i, j: (j, i), lambda i, j: (j * 10 + i,)):
        with pytest.raises(ScheduleError, match="may depend on others"):
            sch.transform_block_layout("C", mapping)


def test_a_block_that_covers_a_part_keeps_its_axes():
    sch = Schedule(chain(4, 5))
    sch.loop_partition(sch.get_loops("E")[1], [2, None])
    with pytest.raises(ScheduleError, match="T0416"):
        sch.transform_block_layout("E", lambda i, j: (j, i))
    sch = Schedule(written(AC, nest("C", ROWS, "C[vi, vj] = A[vi, vj]").replace("range(10)", "range(6)")))
    with pytest.raises(ScheduleError, match="T0416"):
        sch.transform_block_layout("C", lambda i, j: (j, i))


# ---- numbers

NUMBERS = {
    "split": ("T0403", lambda sch, x: sch.split(sch.get_loops("C")[1], [None, x])),
    "split_ragged": ("T0403", lambda sch, x: sch.split_ragged(sch.get_loops("C")[1], x)),
    "split_overlapping": ("T0403", lambda sch, x: sch.split_overlapping(sch.get_loops("C")[1], x)),
    "narrow": ("T0403", lambda sch, x: sch.narrow(sch.get_loops("C")[1], x)),
    "loop_partition": ("T0420", lambda sch, x: sch.loop_partition(sch.get_loops("C")[1], [None, x])),
    "rfactor": ("T0412", lambda sch, x: sch.rfactor(sch.get_loops("C")[2], x)),
    "pad_einsum": ("T0410", lambda sch, x: sch.pad_einsum("C", [x, 2, 2])),
    "pad_einsum of no list": ("T0410", lambda sch, x: sch.pad_einsum("C", x)),
    "tile_rows": ("T0426", lambda sch, x: sch.tile_rows("D", 0, x)),
    "the axis of tile_rows": ("T0426", lambda sch, x: sch.tile_rows("D", x, 2)),
    "reorder_block_iter_var": ("T0416", lambda sch, x: sch.reorder_block_iter_var("D", [x, 1])),
    "storage_align": ("T0408", lambda sch, x: sch.storage_align("C", 0, 0, x, 1)),
    "prefetch": ("T0408", lambda sch, x: sch.prefetch("C", 0, sch.get_loops("C")[1], lambda *i: i, x)),
    "sample_perfect_tile": ("T0419", lambda sch, x: sch.sample_perfect_tile(sch.get_loops("C")[1], x)),
    "a decision": ("T0419", lambda sch, x: sch.sample_categorical([1, 2], [0.5, 0.5], [x])),
}


@pytest.mark.parametrize("given", [2.5, "3", True, (1,)], ids=str)
@pytest.mark.parametrize("name", NUMBERS)
def test_what_is_no_whole_number_is_refused(name, given):
    code, call = NUMBERS[name]
    sch = Schedule(matmul(4, 6, 8))
    with pytest.raises(ScheduleError, match=code):
        call(sch, [given] if "no list" in name and given == (1,) else given)


def test_factors_are_positive():
    sch = Schedule(matmul(4, 6, 8))
    with pytest.raises(ScheduleError, match="T0403"):
        sch.split(sch.get_loops("C")[1], [None, -2])
    assert len(sch.split(sch.get_loops("C")[1], [None, np.int64(2)])) == 2
