"""Copies of statements beside them: each block stays itself, whatever names were free."""

from __future__ import annotations

from heddle.ir.visitor import walk
from heddle.script.parser import parse
from heddle.tir.analysis.blocks import blocks_in
from heddle.tir.nodes import BufferStore
from heddle.tir.schedule.tree import fresh_copy

HEAD = """
@T.prim_func
def f(a: T.handle):
    A = T.match_buffer(a, (4, 4), "float32")
"""
ONE = """
    for i in range(4):
        with T.sblock("{name}"):
            v = T.axis.spatial(4, i)
            A[{place}, v] = T.float32({value})
"""


def test_a_new_name_may_be_an_old_one_of_the_next_block() -> None:
    text = "".join(ONE.format(name=f"b_{k}" if k else "b", place=k, value=k) for k in range(4))
    several, single = parse(HEAD + text), parse(HEAD + ONE.format(name="b", place=0, value=0))
    copied = fresh_copy(single, several.body)
    stored = [node.value.value for node in walk(copied) if isinstance(node, BufferStore)]
    assert stored == [0, 1, 2, 3]
    names = [realize.block.name_hint for realize in (*blocks_in(copied), *blocks_in(single.body))]
    assert len(set(names)) == len(names)
