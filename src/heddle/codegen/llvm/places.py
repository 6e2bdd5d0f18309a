"""Where each line of LLVM IR and of assembly comes from.

    %v3 = fadd float %v1, %v2, !dbg !DILocation(line: 2, scope: !16777219)

A location's line is a number of a table of spans (`Places`); line 0 is no place. LLVM keeps locations through
its passes, and its assembly has them as directives `.loc`. Texts with places only tell about those without,
of which code is made that runs, and which are shown: `read_llvm` and `read_assembly` give these with the span
of each line.
"""

from __future__ import annotations

import re
from collections import deque
from typing import Any

from heddle.codegen.llvm.emit_stmt import StmtEmitter
from heddle.codegen.llvm.writer import FunctionWriter, ModuleWriter
from heddle.support.span import Span
from heddle.support.text import TextBuilder
from heddle.tir.nodes import Stmt

_FIRST = 1 << 24
"""The number of the first node of metadata about places: the numbers of all others stay what they are."""
_HEAD = f"""!llvm.module.flags = !{{!{_FIRST}}}
!llvm.dbg.cu = !{{!{_FIRST + 1}}}
!{_FIRST} = !{{i32 2, !"Debug Info Version", i32 3}}
!{_FIRST + 1} = distinct !DICompileUnit(language: DW_LANG_C, file: !{_FIRST + 2}, \
emissionKind: DebugDirectivesOnly)
!{_FIRST + 2} = !DIFile(filename: "places", directory: "")
!{_FIRST + 3} = !DISubroutineType(types: !{{}})"""
"""Metadata of a module with places. LLVM writes directives `.loc` for it, and no debug sections."""
_NUM_HEAD_NODES = 4


class Places:
    """The spans that lines of one text come from, by numbers from 1 on."""

    def __init__(self) -> None:
        self._numbers: dict[Span, int] = {}
        self._spans: list[Span | None] = [None]

    def number(self, span: Span | None) -> int:
        """The number of a span; 0 of none."""
        if span is None:
            return 0
        number = self._numbers.setdefault(span, len(self._spans))
        if number == len(self._spans):
            self._spans.append(span)
        return number

    def span(self, number: int) -> Span | None:
        """The span that has a number."""
        return self._spans[number]


class PlacedModule(ModuleWriter):
    """Writes a module whose instructions have places."""

    def __init__(self, triple: str, data_layout: str, places: Places) -> None:
        super().__init__(triple, data_layout)
        self.places = places
        self._num_functions = 0

    def function(self, caller: FunctionWriter | None = None) -> FunctionWriter:
        scope = f"!{_FIRST + _NUM_HEAD_NODES + self._num_functions}"
        self._num_functions += 1
        place = caller.place if isinstance(caller, _PlacedFunction) else 0
        return _PlacedFunction(self.places, scope, place)

    def build(self) -> str:
        first = _FIRST + _NUM_HEAD_NODES
        scopes = [
            f"!{number} = distinct !DISubprogram(file: !{_FIRST + 2}, type: !{_FIRST + 3}, "
            f"unit: !{_FIRST + 1}, spFlags: DISPFlagDefinition)"
            for number in range(first, first + self._num_functions)
        ]
        return super().build() + "\n".join([_HEAD, *scopes]) + "\n"


class _PlacedFunction(FunctionWriter):
    """Gives each instruction the place that was set last."""

    def __init__(self, places: Places, scope: str, place: int) -> None:
        super().__init__()
        self._places, self._scope = places, scope
        self.place = place

    def begin(self, span: Span | None) -> int:
        """Instructions from now on come from there, where that is known. Gives the place before."""
        before = self.place
        self.place = self._places.number(span) or before
        return before

    def effect(self, instruction: str) -> None:
        super().effect(f"{instruction}, !dbg !DILocation(line: {self.place}, scope: {self._scope})")

    def build(self, header: str) -> str:
        return super().build(f"{header} !dbg {self._scope}")


class PlacedEmitter(StmtEmitter):
    """Emits statements and expressions with their places; what has none takes that of what is around it."""

    out: _PlacedFunction

    def run(self, stmt: Stmt) -> None:
        before = self.out.begin(stmt.span)
        super().run(stmt)
        self.out.place = before

    def emit_effect(self, expr: Any) -> str:
        before = self.out.begin(expr.span)
        result = super().emit_effect(expr)
        self.out.place = before
        return result


_LOCATION = re.compile(r", !dbg !DILocation\(line: (\d+), scope: !\d+\)$")
_DIRECTIVE = re.compile(r"\t\.loc\t\d+ (\d+) ")


def read_llvm(text: str, placed: str, places: Places) -> TextBuilder:
    """The lines of LLVM IR with the span of each, as the same text with places says."""
    shown = TextBuilder()
    for line, same in zip(text.split("\n"), placed.split("\n"), strict=False):
        found = _LOCATION.search(same)
        _add(shown, line, places.span(int(found[1])) if found else None)
    return shown


def read_assembly(text: str, placed: str, places: Places) -> TextBuilder:
    """The lines of assembly with the span of each, as the assembly with places says. An instruction comes
    from where its like in the same basic block does: LLVM may order them otherwise where it keeps places."""
    lines = text.split("\n")
    labels = frozenset(line for line in lines if line.endswith(":"))
    spans: dict[tuple[str, str], deque[Span | None]] = {}
    label, span = "", None
    for line in placed.split("\n"):
        if line in labels:
            label = line
        elif found := _DIRECTIVE.match(line):
            span = places.span(int(found[1]))
        elif _is_instruction(line):
            spans.setdefault((label, line), deque()).append(span)
    shown, label = TextBuilder(), ""
    for line in lines:
        label = line if line in labels else label
        found_spans = spans.get((label, line)) if _is_instruction(line) else None
        _add(shown, line, found_spans.popleft() if found_spans else None)
    return shown


def _is_instruction(line: str) -> bool:
    """Whether a line of assembly is neither a label nor a directive."""
    return line.startswith("\t") and not line.startswith("\t.")


def _add(shown: TextBuilder, line: str, span: Span | None) -> None:
    before = shown.begin(span)
    shown.line(line)
    shown.end(before)
