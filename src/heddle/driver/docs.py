"""Pages made from declarations: operators, passes, diagnostic codes, the instruction set, schedules.

`python -m heddle.driver.docs FOLDER` writes them; a test fails when the committed pages differ.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from functools import partial
from importlib import import_module
from inspect import Parameter, getdoc
from pathlib import Path
from typing import Any

import heddle
from heddle.driver.passes import modules_below, pass_classes
from heddle.ir.op import OP_ALIASES, OP_RECORDS
from heddle.ir.op_def import REQUIRED, AttrSpec, Input, OpDef, Without
from heddle.ir.transform import FunctionPass, Pass
from heddle.ops.load import load as load_operators
from heddle.support import settings
from heddle.support.diagnostics import CODES
from heddle.support.files import write_bytes
from heddle.support.limits import limit_rows
from heddle.tir.schedule.base import PRIMITIVES, Primitive
from heddle.vm.isa import Effect, FuncKind, InstructionSet, Kind
from heddle.vm.relax.isa import RELAX
from heddle.vm.relay.isa import RELAY

_MADE_BY = "<!-- made by `make docs`; change the declarations instead -->\n"


def page(title: str, text: str, lines: Sequence[str]) -> str:
    """The text of a generated page: a heading, a note that it is generated, words, and lines."""
    return "\n".join([f"# {title}", "", _MADE_BY, text, "", *lines]).rstrip() + "\n"


def first_line(text: str | None) -> str:
    """The first line of a docstring, "" where there is none."""
    return (text or "").strip().split("\n")[0].strip()


# ---- operators


def operators() -> list[OpDef]:
    """The records of all graph operators by name."""
    load_operators()
    OP_ALIASES.fill()  # which puts them on the records
    return [record for _, record in sorted(OP_RECORDS.items()) if isinstance(record, OpDef)]


def operator_rows() -> list[tuple[str, str]]:
    """(name, what it computes) of each operator."""
    return [(record.name, first_line(record.doc)) for record in operators()]


def ops_page() -> str:
    """Every operator: what it takes, what it does, and how it becomes code."""
    records = operators()
    lines = ["| operator | what it gives |", "|---|---|"]
    lines += [f"| [`{r.name}`](#{_anchor(r.name)}) | {_cell(first_line(r.doc))} |" for r in records]
    for record in records:
        lines += ["", *_operator_section(record)]
    text = f"{len(records)} operators of the graph dialect, from their records."
    return page("Operators", text, lines)


def _anchor(name: str) -> str:
    return name.replace(".", "").lower()


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


def _operator_section(record: OpDef) -> list[str]:
    params = [_input_text(item) for item in record.inputs] + [_attr_text(item) for item in record.attrs]
    lines = [f"## {record.name}", "", f"`{record.name}({', '.join(params)})`", "", record.doc.strip()]
    rows = [f"- `{item.name}` ({item.kind}): {item.meaning}" for item in record.inputs if item.meaning]
    rows += [f"- `{item.name}` ({item.kind}): {item.meaning}" for item in record.attrs if item.meaning]
    lines += ["", *rows] if rows else []
    return [
        *lines,
        "",
        f"Code: {_way(record)}. {'Pure' if record.is_pure else 'Has effects'}.{_aliases(record)}",
    ]


def _input_text(item: Input) -> str:
    if item.variadic:
        return f"*{item.name}"
    return f"{item.name}=None" if item.optional else item.name


def _attr_text(item: AttrSpec) -> str:
    return item.name if item.default is REQUIRED else f"{item.name}={item.default!r}"


def _way(record: OpDef) -> str:
    if isinstance(record.opaque, Without):
        return f"no loops ({record.opaque.reason})"
    return "a loop function" if record.lower is not None else "other operators"


def _aliases(record: OpDef) -> str:
    return "".join(f" In {alias.dialect}: `{alias.name}`." for alias in record.aliases)


# ---- passes


def _pass_text(step: type[Pass]) -> str:
    """What a pass does: its module's text, else its own."""
    text = sys.modules[step.__module__].__doc__ or step.__doc__ or ""
    return text.strip().removeprefix(f"{step.__name__}: ")


def pass_rows() -> list[tuple[str, str]]:
    """(name, what it does) of each pass, in the order of the names."""
    return [(name, first_line(_pass_text(step))) for name, step in pass_classes().items()]


def passes_page() -> str:
    """Every pass with its before and after and its contract."""
    classes = pass_classes()
    lines = ["| pass | what it does |", "|---|---|"]
    lines += [
        f"| [`{name}`](#{name.lower().replace('.', '')}) | {_cell(text)} |" for name, text in pass_rows()
    ]
    for name, step in classes.items():
        module = step.__module__.replace(".", "/")
        kind = "function by function" if issubclass(step, FunctionPass) else "on whole modules"
        lines += ["", f"## {name}", "", _pass_text(step), "", f"Works {kind}; `src/{module}.py`."]
        lines += [f"Functions of: {', '.join(step.dialects)}."] if step.dialects else []
        lines += [f"Requires: {', '.join(step.requires)}."] if step.requires else []
        lines += [f"Establishes: {', '.join(step.establishes)}."] if step.establishes else []
    return page("Passes", f"{len(classes)} passes, from their files.", lines)


# ---- diagnostics


def diagnostics_page() -> str:
    """Every code with its title and what causes it and helps."""
    for name in modules_below("heddle"):
        if name.rpartition(".")[2] == "codes":
            import_module(name)
    lines = []
    for name, code in sorted(CODES.items()):
        lines += [f"## {name}", "", f"**{code.title}**", "", code.meaning, ""]
    text = (
        f"{len(CODES)} codes. A message reads `error[CODE]: what was expected, what was got`, then the place."
    )
    return page("Diagnostics", text, lines)


# ---- the instruction set


def isa_page(isa: InstructionSet) -> str:
    """A machine's instructions, operands, kinds of arguments and kinds of functions."""
    lines = ["| instruction | opcode | operands | effects | fuel | semantics |", "|---|---|---|---|---|---|"]
    for spec in isa.instructions:
        operands = ", ".join(operand.name for operand in spec.operands)
        effects = [str(effect.name).lower() for effect in Effect if effect in spec.effects]
        shown = ", ".join([*effects, *(["jumps"] if spec.jumps else [])]) or "none"
        cells = (f"`{spec.mnemonic}`", spec.opcode, operands, shown, spec.fuel, f"`{_cell(spec.semantics)}`")
        lines.append(f"| {' | '.join(map(str, cells))} |")
    lines += ["", "## Operands", ""]
    lines += [f"- {operand.name}: {operand.meaning or operand.kind.value}" for operand in isa.operands()]
    if any(operand.kind is Kind.ARGUMENT for operand in isa.operands()):
        lines += ["", "## Kinds of arguments", ""]
        lines += [f"- {kind.value}: {kind.name.lower()}" for kind in isa.arg_kinds]
    lines += ["", "## Kinds of functions", "", *(f"- {kind.value}: {kind.name.lower()}" for kind in FuncKind)]
    return page(f"{isa.title}'s instruction set", isa.text.strip(), lines)


# ---- schedules


def schedule_page() -> str:
    """Every primitive of a schedule: its signature, and what it does to a program, before and after."""
    primitives = sorted(PRIMITIVES.values(), key=lambda primitive: primitive.name)
    lines = ["| primitive | what it does |", "|---|---|"]
    for item in primitives:
        name = item.name
        lines.append(f"| [`{name}`](#{name}) | {_cell(first_line(item.method.__doc__))} |")
    for item in primitives:
        lines += ["", *_primitive_section(item)]
    text = (
        f"{len(primitives)} primitives of `Schedule`. Each keeps what the program computes, or raises "
        "ScheduleError, which shows the block or loop, and changes nothing."
    )
    return page("Schedule primitives", text, lines)


def _primitive_section(item: Primitive) -> list[str]:
    """The method's own words, then the before and after of the rewrite that it applies."""
    params = [str(p).split(":")[0] + _default(p.default) for p in item.parameters.parameters.values()][1:]
    lines = [f"## {item.name}", "", f"`{item.name}({', '.join(params)})`", "", getdoc(item.method) or ""]
    shown = (getdoc(item.rewrite) or "") if item.rewrite is not None else ""
    if not shown:
        return lines
    before_after, _, words = shown.partition("\n\n")
    if "→" not in before_after:  # stands below, indented
        more, _, words = words.partition("\n\n")
        before_after = f"{before_after}\n\n{more}"
    return [*lines, "", "```text", before_after.rstrip(), "```", *(["", words.strip()] if words else [])]


def _default(value: Any) -> str:
    return "" if value is Parameter.empty else f"={value!r}"


# ---- limits


def limits_page() -> str:
    """Every limit with its default."""
    lines = ["| limit | default | what it bounds |", "|---|---|---|"]
    lines += [f"| `{name}` | {default:,} | {_cell(meaning)} |" for name, default, meaning in limit_rows()]
    text = (
        "What a file may ask of the compiler. A few bytes can describe any amount of work; what grows faster "
        "than the file is counted. Folding that would go beyond a limit is left to run time; a model or text "
        "beyond another one is refused with S0601. To raise a limit: `--limit NAME=VALUE` on the command "
        "line, `with heddle.config.limits(NAME=VALUE):` in Python.\n\n"
        "Loops of models are never unrolled by their number of iterations. That number has a limit where the "
        "model states it, and where an input states it of a loop that becomes one loop function (U0604). "
        "Other loops, and functions that call themselves, run for as long as inputs and conditions say, and "
        "an interrupt ends them: Ctrl-C ends the command line at every moment from its first line on, with "
        "130 (what happens before, while Python itself starts, is Python's). In a Python program "
        "the handlers of signals run in the main thread between two turns or calls, about a second later at "
        "most, in bytecode and in machine code; KeyboardInterrupt leaves the machine ready for other calls. "
        "A kernel that runs is not interrupted, nor is a library made for C programs, where a signal does "
        "what it does there. "
        "Loops of untrusted text have a limit when they run (U0604). What a model allocates while it "
        "runs is bounded by `memory_limit_bytes` of the allocator."
    )
    return page("Limits", text, lines)


# ---- settings


def settings_page() -> str:
    """The environment variables, which `heddle.support.settings` reads."""
    _, _, table = (settings.__doc__ or "").partition("\n\n")
    text = (
        "Environment variables are read once, when the first setting is asked for; one that has no meaning "
        "is an error (S0301). What a single call or command does is said by its arguments instead. Limits on "
        "models are options, too ([limits](limits.md)). Programs in libraries, from C too, read "
        "`HEDDLE_NUM_THREADS` alone."
    )
    return page("Settings", text, table.strip().splitlines())


# ---- ONNX


def onnx_page() -> str:
    """The standard's operators, which are imported, and what is missing and why."""
    from heddle.driver.onnx_support import support_lines  # other pages are made without the importer

    text = (
        "The operators of the ONNX standard, each in its newest version. Older versions are imported too, "
        "from the operator set that the table names. An operator that is imported by its body is a function "
        "of others in the standard. Element types are those that the specification allows an input and the "
        "importer lacks; which of the others ONNX's own tests cover, differs by operator. "
        "`heddle check MODEL` tells what a model asks for. The last table is of com.microsoft, where ONNX "
        "Runtime's optimiser and quantiser and many exporters put operators; SimplifiedLayerNormalization, "
        "which they put into ai.onnx, is listed there.\n\n"
        "Shapes, axes, bounds, counts, scales and amounts may be inputs of the running model wherever the "
        "standard allows it, as long as their number is known."
    )
    return page("ONNX support", text, list(support_lines()))


INSTRUCTION_SETS = (RELAX, RELAY)
PAGES: dict[str, Callable[[], str]] = {
    "ops.md": ops_page,
    "passes.md": passes_page,
    "diagnostics.md": diagnostics_page,
    **{f"isa-{isa.name}.md": partial(isa_page, isa) for isa in INSTRUCTION_SETS},
    "schedule.md": schedule_page,
    "limits.md": limits_page,
    "settings.md": settings_page,
    "onnx-support.md": onnx_page,
}


def write_pages(folder: Path) -> None:
    """Write every generated page into `folder`."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, make in PAGES.items():
        write_bytes(folder / name, make().encode())


if __name__ == "__main__":
    write_pages(Path(sys.argv[1]) if len(sys.argv) > 1 else Path(heddle.__path__[0]).parents[1] / "docs")
