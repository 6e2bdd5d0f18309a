"""The levels of a model for a page: each function as text, with the places that its lines come from."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence

from heddle.driver.page.facts import Level, Listing, Mark
from heddle.driver.page.tables import Tables
from heddle.driver.page.walk import kernel_calls, shared_places, spread
from heddle.ir.module import IRModule
from heddle.lower.normal_form import is_graph
from heddle.script.printer import function_lines
from heddle.support.span import SourceSpan, Span
from heddle.support.text import TextBuilder
from heddle.vm.disasm import instruction_text
from heddle.vm.executable import Executable

_STARTS = {
    "llvm": re.compile(r'define .*?@"?([^"(]+)"?\('),
    "asm": re.compile(r'\t\.type\t"?([^",]+)"?,[@%]function'),
    "c": re.compile(r"(?:static )?\w[\w ]*[ *]([A-Za-z_]\w*)\([^;]*\{$"),
}
"""The line that begins a function, and its name, in the texts of code generators."""
Shared = Mapping[str, Mapping[Span, Span]]
"""By kernel, what its places stand for: see `shared_places`."""
_BEFORE = "(before functions)"
"""The name of what stands before the first function of such a text."""


def module_level(tables: Tables, name: str, mod: IRModule) -> Level:
    """The functions of a module."""
    callers, shared = kernel_sets(tables, mod), shared_places(mod)
    listings = []
    for var, func in mod.functions.items():
        whole = tables.union([tables.set(func.span), *callers.get(var.name_hint, ())])
        kernel = "" if is_graph(func) else var.name_hint
        out = function_lines(func, var.name_hint, [])
        spans = spread(out.spans, shared.get(kernel, {}))
        listings.append(tables.listing(var.name_hint, out.build().split("\n"), spans, kernel, whole))
    return Level(name, listings)


def kernel_sets(tables: Tables, mod: IRModule) -> dict[str, list[int]]:
    """Of each loop function the sets of places of its calls."""
    found: dict[str, list[int]] = {}
    for _, kernel, span in kernel_calls(mod):
        found.setdefault(kernel, []).append(tables.set(span))
    return found


def loops_level(
    tables: Tables, name: str, mod: IRModule, kernels: Mapping[str, int], shared: Shared
) -> Level:
    """Loop functions that nothing in their module calls; `kernels` holds the sets of places of kernels."""
    listings = []
    for var, func in mod.functions.items():
        kernel = kernel_named(var.name_hint, kernels)
        out = function_lines(func, var.name_hint, [])
        lines, spans = out.build().split("\n"), spread(out.spans, shared.get(kernel, {}))
        listings.append(tables.listing(var.name_hint, lines, spans, kernel, kernels.get(kernel)))
    return Level(name, listings)


def code_level(
    tables: Tables, name: str, out: TextBuilder, kernels: Mapping[str, int], shared: Shared, prefix: str
) -> Level:
    """The text of a code generator, by function. `prefix` is what symbols of kernels begin with."""
    listings = []
    for function, lines, spans in _functions(out, _STARTS.get(name)):
        kernel = kernel_named(function.removeprefix(prefix), kernels)
        spans = spread(spans, shared.get(kernel, {}))
        listings.append(tables.listing(function, lines, spans, kernel, kernels.get(kernel)))
    return Level(name, listings)


def _functions(
    out: TextBuilder, start: re.Pattern[str] | None
) -> Iterator[tuple[str, Sequence[str], Sequence[Span | None]]]:
    name, lines, spans = _BEFORE, list[str](), list[Span | None]()
    for line, span in zip(out.build().split("\n"), out.spans, strict=True):
        found = None if start is None else start.match(line)
        if found is not None:
            if any(lines):
                yield name, lines, spans
            name, lines, spans = found[1], [], []
        lines.append(line)
        spans.append(span)
    if any(lines):
        yield name, lines, spans


def kernel_named(function: str, kernels: Mapping[str, int]) -> str:
    """The kernel whose name a function's begins with, the longest of them, or ""."""
    found = [name for name in kernels if function == name or function.startswith((f"{name}__", f"{name}."))]
    return max(found, key=len, default="")


def bytecode_level(tables: Tables, executable: Executable) -> Level:
    """The functions of a program, an instruction a line."""
    program = executable.program
    listings = []
    for row in program.functions:
        if row.has_bytecode:
            places = range(row.start, row.end)
            lines = [f"{index - row.start:>4}  {instruction_text(program, index)}" for index in places]
            spans = [program.line_table.get(index) for index in places]
            listings.append(tables.listing(row.name, lines, spans))
    return Level("bytecode", listings)


def model_level(tables: Tables, model: str) -> Level:
    """What the places that are known so far mean: lines of texts, and nodes of models in order."""
    sources: dict[str, tuple[SourceSpan, list[tuple[int, int]]]] = {}
    nodes: list[int] = []
    for number, span in enumerate(tables.spans):
        if isinstance(span, SourceSpan):
            line = span.line - span.source.first_line
            sources.setdefault(span.source.name, (span, []))[1].append((line, number))
        else:
            nodes.append(number)
    listings = [_source_listing(tables, *found) for found in sources.values()]
    if nodes:
        marks = [Mark(line, line, tables.set_of([number])) for line, number in enumerate(nodes)]
        text = tables.text(tables.facts.places[number] for number in nodes)
        listings.append(Listing(model, text, marks, tables.set_of(nodes)))
    return Level("model", listings)


def _source_listing(tables: Tables, span: SourceSpan, places: list[tuple[int, int]]) -> Listing:
    by_line: dict[int, list[int]] = {}
    for line, number in places:
        by_line.setdefault(line, []).append(number)
    marks = [Mark(line, line, tables.set_of(numbers)) for line, numbers in sorted(by_line.items())]
    lines = span.source.text.split("\n")
    return Listing(span.source.name, tables.text(lines), marks, tables.set_of(n for _, n in places))
