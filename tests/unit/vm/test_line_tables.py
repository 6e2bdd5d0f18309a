"""Places of instructions: they survive a file, and a failure at run time shows them as at compile time."""

from __future__ import annotations

import random
import re
from typing import Any

import numpy as np
import pytest

import heddle
from heddle.runtime import FunctionModule, Shape, cpu, load_module
from heddle.runtime.artefact import Section
from heddle.runtime.wire import Writer
from heddle.script.parser import DEFAULT_NAMES, parse_source
from heddle.support.diagnostics import FormatError, Trap
from heddle.support.span import (
    DerivedSpan,
    ModelSpan,
    Source,
    SourceSpan,
    Span,
    TextSpan,
    leaves,
    places_text,
)
from heddle.vm.line_table import kept_span, line_table_section, read_line_table
from heddle.vm.relax import VirtualMachine

from .programs import builder, run_machine

CAST = """
@I.ir_module
class Module:
    @R.function
    def main(x: R.Tensor(None, "float32")) -> R.Tensor(("n", 3), "float32"):
        y = R.match_cast(x, R.Tensor(("n", 3), "float32"))
        z = R.add(y, y)
        return z
"""


def random_span(rng: random.Random, depth: int = 2) -> Span:
    kind = rng.randrange(4 if depth else 3)
    if kind == 0:
        return TextSpan(rng.choice(("net.py:4", "", "a; b", "é\0")))
    if kind == 1:
        return ModelSpan(rng.choice(("m.onnx", "n.onnx")), f"node{rng.randrange(5)}", "Add")
    if kind == 2:
        text = "\n".join("x" * rng.randrange(9) for _ in range(rng.randint(1, 6)))
        first = rng.choice((1, 40))
        line = first + rng.randrange(text.count("\n") + 1)
        end_line = line + rng.randrange(2)
        return SourceSpan(Source("s.py", text, first), line, rng.randint(1, 9), end_line, rng.randint(1, 12))
    return DerivedSpan(
        f"Pass{rng.randrange(3)}", tuple(random_span(rng, depth - 1) for _ in range(rng.randint(1, 3)))
    )


def sections_of(name: str, data: bytes) -> dict[str, Section]:
    return {name: Section(name, memoryview(data), 0)}


def random_table(rng: random.Random) -> dict[int, Span]:
    spans = [kept_span(random_span(rng)) for _ in range(6)]
    return {pc: rng.choice([span for span in spans if span is not None]) for pc in range(rng.randrange(9))}


def test_places_survive_a_file() -> None:
    seed = random.Random().randrange(1 << 32)
    rng = random.Random(seed)
    for _ in range(300):
        table = random_table(rng)
        found = read_line_table(sections_of(*line_table_section(table)))
        assert found == table, f"seed {seed}"


def test_kept_places_read_as_the_original_ones() -> None:
    seed = random.Random().randrange(1 << 32)
    rng = random.Random(seed)
    for _ in range(300):
        span = random_span(rng)
        kept = kept_span(span)
        assert kept is not None
        assert kept_span(kept) == kept, f"seed {seed}"
        for leaf, old in zip(leaves(kept), leaves(span), strict=False):
            if isinstance(old, SourceSpan) and isinstance(leaf, SourceSpan):
                assert leaf.source.text == old.source.line(old.line), f"seed {seed}"
                assert leaf.excerpt()[:1] == old.excerpt()[:1], f"seed {seed}"


def test_damaged_tables_are_typed_errors() -> None:
    """Words and bytes changed at random: the table is read, or refused with its place in the file."""
    seed = random.Random().randrange(1 << 32)
    rng = random.Random(seed)
    refused = 0
    for _ in range(600):
        name, content = line_table_section(random_table(rng))
        data = bytearray(content)
        at = rng.randrange(len(data) // 8) * 8
        data[at : at + 8] = rng.choice((-1, 0, 1, 7, 1 << 40, (1 << 63) - 1)).to_bytes(
            8, "little", signed=True
        )
        try:
            for span in read_line_table(
                sections_of(name, bytes(data[: rng.choice((len(data), at))]))
            ).values():
                assert len("".join(span.excerpt())) < 200, f"seed {seed}"
                places_text(span)
        except FormatError as error:
            assert error.code == "F0106", f"seed {seed}"  # noqa: PT017 (reading may succeed as well)
            refused += 1
    assert refused > 100


def test_tables_of_texts_are_read() -> None:
    writer = Writer()
    writer.u64(1)
    writer.text("4")
    writer.text("net.py:9; net.py:10")
    old = {"line_table": Section("line_table", memoryview(writer.bytes()), 0)}
    assert read_line_table(old) == {4: TextSpan("net.py:9; net.py:10")}
    assert read_line_table({}) == {}


@pytest.mark.parametrize("exec_mode", ["bytecode", "compiled"])
@pytest.mark.parametrize("stored", [False, True], ids=["made", "loaded"])
def test_a_failure_at_run_time_shows_the_line(exec_mode: str, stored: bool, tmp_path: Any) -> None:
    mod = parse_source(Source("model.py", CAST), DEFAULT_NAMES)
    executable: Any = heddle.compile(mod, target="llvm", exec_mode=exec_mode)
    if stored:
        executable.export_library(tmp_path / "m.heddle")
        executable = load_module(tmp_path / "m.heddle")
    vm = VirtualMachine(executable, cpu())
    columns = random.Random().randrange(4, 9)
    with pytest.raises(Trap) as caught:
        vm["main"](np.ones((2, columns), "float32"))
    text = str(caught.value)
    number = next(n for n, line in enumerate(CAST.splitlines(), 1) if "match_cast" in line)
    assert re.search(
        rf"\n  --> model\.py:{number}:\d+\n    {number} \|.*match_cast.*\n      \| +\^+\n", text
    ), text
    assert f"got {columns}" in text
    assert text.count("error[") == 1
    span = caught.value.diagnostics[0].span
    assert isinstance(span, SourceSpan)
    assert span.line == number
    assert any("of 'main'" in note for note in caught.value.diagnostics[0].notes)


def test_a_failure_within_a_call_from_outside_names_both_places() -> None:
    made = builder()
    with made.function("inner", 1):
        made.emit_call("vm.builtin.tuple_getitem", [made.r(0), made.imm(9)], dst=made.r(1), place="in.py:1")
        made.emit_ret(made.r(1))
    with made.function("main", 1):
        made.emit_call("again", [made.r(0)], dst=made.r(1), place="out.py:2")
        made.emit_ret(made.r(1))
    again = FunctionModule({"again": lambda x: vm["inner"](x)})
    vm = VirtualMachine(made.get(imports=[again]), cpu())
    with pytest.raises(Trap, match="V0404") as caught:
        vm["main"]((1, 2))
    found = caught.value.diagnostics[0]
    assert found.span == TextSpan("in.py:1")
    assert found.notes == ("instruction 0 of 'inner'", "instruction 0 of 'main', which comes from out.py:2")


def test_a_failure_without_a_place_names_its_instruction() -> None:
    made = builder()
    with made.function("main", 1):
        made.emit_call("vm.builtin.tuple_getitem", [made.r(0), made.imm(2)], dst=made.r(1))
        made.emit_ret(made.r(1))
    with pytest.raises(Trap) as caught:
        run_machine(made)["main"]((Shape([1]),))
    assert str(caught.value).endswith("\n  note: instruction 0 of 'main'")
