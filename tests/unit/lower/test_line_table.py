"""Every instruction knows the user's nodes that it came from."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

import heddle
from heddle.runtime import load_module
from heddle.script.parser import DEFAULT_NAMES, parse_source
from heddle.support.span import DerivedSpan, ModelSpan, Source, places_text

BRANCHES = """
@I.ir_module
class Module:
    @R.function
    def main(x: R.Tensor(("n", 4), "float32"), c: R.Tensor((), "bool")) -> R.Tensor(("n", 4), "float32"):
        with R.dataflow():
            a = R.exp(x)
            b = R.nn.softmax(R.add(a, x))
            R.output(b)
        if c:
            y = R.sin(b)
        else:
            y = R.cos(b)
        return y
"""


def line_of(text: str) -> int:
    return next(n for n, line in enumerate(BRANCHES.splitlines(), 1) if text in line)


@pytest.fixture(scope="module")
def executable():
    return heddle.compile(parse_source(Source("model.py", BRANCHES), DEFAULT_NAMES), target="llvm")


def lines_at(executable, callee: str) -> list[set[int]]:
    """For each call of `callee`, the lines of model.py that its entry names."""
    found = []
    for index in range(len(executable.program.offsets)):
        instruction = executable.program.instruction(index)
        if instruction.spec.mnemonic == "call":
            name = executable.program.functions[instruction.value("func")].name
            if name == callee:
                place = places_text(executable.line_table[index])
                found.append({int(line) for line in re.findall(r"model[.]py:(\d+):", place)})
    return found


def test_every_instruction_has_a_place(executable):
    assert sorted(executable.line_table) == list(range(len(executable.program.offsets)))


def test_fused_kernels_name_all_their_lines(executable):
    assert lines_at(executable, "fused_exp_add") == [{line_of("R.exp(x)"), line_of("R.add(a, x)")}]


def test_branches_keep_their_lines(executable):
    assert lines_at(executable, "sin") == [{line_of("R.sin(b)")}]
    assert lines_at(executable, "cos") == [{line_of("R.cos(b)")}]


def test_memory_belongs_to_the_node_that_needs_it(executable):
    places = lines_at(executable, "vm.builtin.alloc_storage")
    assert {line_of("R.sin(b)")} in places
    assert all(places)


def test_the_table_survives_a_file(executable, tmp_path: Path):
    executable.export_library(tmp_path / "m.heddle")
    assert load_module(tmp_path / "m.heddle").line_table == executable.line_table


def test_all_places_of_a_rewrite_are_written():
    origins = tuple(ModelSpan("m.onnx", f"n{k}", "Add") for k in range(7))
    text = places_text(DerivedSpan("FuseOps", origins))
    assert text is not None
    assert [f"n{k}" in text for k in range(7)] == [True] * 7
    assert places_text(None) is None


def test_a_file_cannot_make_the_places_of_an_instruction_long():
    text = places_text(
        DerivedSpan("FuseOps", tuple(ModelSpan("A" * 10_000, f"n{k}", "Add") for k in range(3000)))
    )
    assert text is not None
    assert len(text) < 10_000
    assert text.endswith(f"{3000 - text.count(';')} more")


def test_the_compiled_program_still_computes(executable):
    x = np.random.default_rng().standard_normal((3, 4)).astype("float32")
    vm = heddle.relax.VirtualMachine(executable, heddle.cpu())
    s = np.exp(x) + x
    e = np.exp(s - s.max(-1, keepdims=True))
    expected = np.sin(e / e.sum(-1, keepdims=True))
    np.testing.assert_allclose(vm["main"](x, np.array(True)).numpy(), expected, rtol=1e-5, atol=1e-6)
