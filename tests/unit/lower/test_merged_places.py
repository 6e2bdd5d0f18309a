"""Loop functions that fusion makes of equal calls: everything in one comes from its own calls."""

from __future__ import annotations

from pathlib import Path

from heddle.driver.models import find_model, import_model
from heddle.driver.stages import stage_modules
from heddle.ir.visitor import walk_distinct
from heddle.prim.nodes import Call
from heddle.support.span import leaves
from heddle.tir.nodes import BufferStore, PrimFunc
from tests.page_models import write_text


def test_everything_in_a_merged_function_comes_from_its_own_calls(tmp_path: Path) -> None:
    mod = import_model(find_model(str(write_text(tmp_path, "twice.py"))))
    fused = [func for func in stage_modules(mod)["fused"].functions.values() if isinstance(func, PrimFunc)]
    assert len(fused) >= 2
    for func in fused:
        own = set(leaves(func.span))
        nodes = [node for node in walk_distinct(func.body) if isinstance(node, (BufferStore, Call))]
        found = {leaf for node in nodes for leaf in leaves(node.span)}
        assert found and found <= own, func.attrs
