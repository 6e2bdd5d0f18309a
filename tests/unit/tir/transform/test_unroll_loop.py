"""UnrollLoop: how much a function may grow by a word in its text."""

from __future__ import annotations

import pytest

from heddle.ir.expr import GlobalVar
from heddle.ir.module import IRModule
from heddle.ir.visitor import walk
from heddle.script.parser import parse
from heddle.tir.nodes import BufferStore, For, ForKind
from heddle.tir.transform.unroll_loop import MAX_COPIES, UnrollLoop

NESTS = {
    "one loop": (("T.unroll(1 << 30)",), 1),
    "one that just fits": ((f"T.unroll({MAX_COPIES})",), MAX_COPIES),
    "the inner loop fits": (("T.unroll(1 << 20)", "T.unroll(8)"), 8),
    "each fits, not both": ((f"T.unroll({MAX_COPIES // 4})", "T.unroll(8)"), 8),
    "a pragma": (('T.serial(1 << 20, annotations={"pragma_auto_unroll_max_step": 1 << 30})',), 1),
    "a size that is not known": (("T.unroll(n)",), 1),
}


def text_of(heads: tuple[str, ...]) -> str:
    lines = ["@T.prim_func", "def f(a: T.handle, n: T.int32):", '    A = T.match_buffer(a, (4,), "int32")']
    for depth, head in enumerate(heads):
        lines.append(f"{'    ' * (depth + 1)}for i{depth} in {head}:")
    lines.append(f"{'    ' * (len(heads) + 1)}A[0] = A[0] + {' + '.join(f'i{k}' for k in range(len(heads)))}")
    return "\n".join(lines)


def module_of(text: str) -> IRModule:
    return IRModule({GlobalVar("f"): parse(text)})


@pytest.mark.parametrize("name", NESTS)
def test_copies_are_bounded(name: str) -> None:
    heads, stores = NESTS[name]
    mod = UnrollLoop()(module_of(text_of(heads)))
    (func,) = mod.functions.values()
    assert sum(isinstance(node, BufferStore) for node in walk(func.body)) == stores
    assert all(node.kind is ForKind.SERIAL for node in walk(func.body) if isinstance(node, For))


def test_copies_are_bounded_for_all_loops_together() -> None:
    line = "    for i in T.unroll(512):\n        A[0] = A[0] + i"
    text = '@T.prim_func\ndef f(a: T.handle):\n    A = T.match_buffer(a, (4,), "int32")\n' + "\n".join(
        [line] * 40
    )
    (func,) = UnrollLoop()(module_of(text)).functions.values()
    fitting = MAX_COPIES // 512
    assert sum(isinstance(node, BufferStore) for node in walk(func.body)) == fitting * 512 + 40 - fitting


@pytest.mark.parametrize(
    ("rows", "scope", "is_unrolled"),
    [(8, "global", True), (9, "global", False), (32, "global", False), (32, "local", True)],
)
def test_a_loop_is_unrolled_for_a_buffer_that_fits_registers_or_is_local(
    rows: int, scope: str, is_unrolled: bool
) -> None:
    """Rows of 64 bytes, all in one buffer: 512 bytes fit 16 registers of 32 bytes."""
    text = f"""
@T.prim_func
def f(a: T.handle):
    A = T.match_buffer(a, (16,), "float32")
    B = T.alloc_buffer(({rows}, 16), "float32", scope="{scope}")
    for k in range({rows}):
        A[0] = A[0] + B[k, 0]
"""
    (func,) = UnrollLoop()(module_of(text)).functions.values()
    assert any(isinstance(node, For) for node in walk(func.body)) is not is_unrolled
