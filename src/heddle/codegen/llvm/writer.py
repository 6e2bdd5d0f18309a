"""Writing LLVM IR text: a module's symbols and metadata, and one function at a time."""

from __future__ import annotations

import re
from collections.abc import Sequence

from heddle.codegen.llvm.types import string_constant
from heddle.codegen.llvm.unroll_budget import UnrollBudget
from heddle.support.names import NameSupply


class ModuleWriter:
    """Collects declarations, string constants, metadata and function texts of one LLVM module."""

    def __init__(self, triple: str, data_layout: str) -> None:
        self._head = [f'target datalayout = "{data_layout}"', f'target triple = "{triple}"', ""]
        self._declarations: dict[str, str] = {}
        self._strings: dict[str, str] = {}
        self._words: dict[tuple[int, ...], str] = {}
        self._functions: list[str] = []
        self._attributes: dict[str, str] = {}
        self._metadata: list[str] = []
        self._flags: list[str] = []
        self._shared: dict[str, str] = {}
        self.symbols = NameSupply()
        self.unrolled = UnrollBudget()

    def declare(self, name: str, result: str, params: Sequence[str]) -> str:
        """Declare an external function; its operand."""
        if name not in self.symbols:
            self._declarations.setdefault(name, f"declare {result} {symbol(name)}({', '.join(params)})")
        return symbol(name)

    def string(self, text: str) -> str:
        """A private constant with a final zero byte; its operand."""
        if text not in self._strings:
            self._strings[text] = f"@.str.{len(self._strings)}"
        return self._strings[text]

    def words(self, values: Sequence[int]) -> str:
        """A private array of 64-bit integers; its operand."""
        key = tuple(values)
        if key not in self._words:
            self._words[key] = f"@.words.{len(self._words)}"
        return self._words[key]

    def attributes(self, text: str) -> str:
        """An attribute group; its operand."""
        if text not in self._attributes:
            self._attributes[text] = f"#{len(self._attributes)}"
        return self._attributes[text]

    def metadata(self, text: str) -> str:
        """A metadata node; `{self}` in its text is the node itself."""
        name = f"!{len(self._metadata)}"
        self._metadata.append(f"{name} = {text.replace('{self}', name)}")
        return name

    def metadata_once(self, text: str) -> str:
        """A metadata node that is shared by all who ask for the same text."""
        if text not in self._shared:
            self._shared[text] = self.metadata(text)
        return self._shared[text]

    def flag(self, text: str) -> None:
        """A line of metadata that says something about the whole module."""
        if text not in self._flags:
            self._flags.append(text)

    def function(self, caller: FunctionWriter | None = None) -> FunctionWriter:
        """A writer for the next function, which was cut out of its caller where it has one."""
        return FunctionWriter()

    def add_function(self, name: str, text: str) -> None:
        """A finished function; it replaces a declaration of its name."""
        self._declarations.pop(name, None)
        self.symbols.reserve(name)
        self._functions.append(text)

    def build(self) -> str:
        """The module's text: what was collected, in the order that LLVM reads."""
        strings = [
            f"{name} = private unnamed_addr constant {string_constant(text)}"
            for text, name in self._strings.items()
        ]
        strings += [
            f"{name} = private unnamed_addr constant [{len(values)} x i64] "
            f"[{', '.join(f'i64 {value}' for value in values)}]"
            for values, name in self._words.items()
        ]
        groups = [f"attributes {name} = {{ {text} }}" for text, name in self._attributes.items()]
        parts = [
            *self._head,
            *strings,
            *self._declarations.values(),
            "",
            *self._functions,
            *groups,
            *self._metadata,
            *self._flags,
        ]
        return "\n".join(parts) + "\n"


_PURE = frozenset(
    (
        *("add", "sub", "mul", "and", "or", "xor", "shl", "lshr", "ashr", "icmp", "select"),
        *("fadd", "fsub", "fmul", "fneg", "fcmp", "sext", "zext", "trunc", "getelementptr"),
        *("insertelement", "extractelement", "shufflevector", "bitcast", "fpext", "fptrunc"),
    )
)
"""Instructions whose result depends on their operands alone, by their first word."""


class FunctionWriter:
    """Instructions of one function, in basic blocks. `value` gives the name of a register: a new one, or the
    one that holds the result of the same pure instruction earlier in the block."""

    def __init__(self) -> None:
        self._allocas: list[str] = []
        self._lines: list[str] = []
        self._registers = 0
        self._labels = 0
        self._results: dict[str, str] = {}
        self.block = "entry"
        self.terminated = False

    @property
    def num_lines(self) -> int:
        """The lines so far, without the stack memory at the entry."""
        return len(self._lines)

    def value(self, instruction: str) -> str:
        known = self._results.get(instruction)
        if known is not None and not self.terminated:
            return known
        name = self.reserve()
        self.define(name, instruction)
        if instruction.partition(" ")[0] in _PURE:
            self._results[instruction] = name
        return name

    def reserve(self) -> str:
        """A register name to be defined by `define`."""
        name = f"%v{self._registers}"
        self._registers += 1
        return name

    def define(self, name: str, instruction: str) -> None:
        self.effect(f"{name} = {instruction}")

    def effect(self, instruction: str) -> None:
        """Append an instruction. After the end of a block it begins one that nothing jumps to."""
        if self.terminated:
            self.start(self.label("dead"))
        self._lines.append(f"  {instruction}")

    def alloca(self, text: str, first: str = "") -> str:
        """Stack memory, taken once at the function's entry, where it may get its first value."""
        name = f"%s{len(self._allocas)}"
        self._allocas.append(f"  {name} = alloca {text}")
        if first:
            self._allocas.append(f"  store {first}, ptr {name}")
        return name

    def label(self, hint: str) -> str:
        """A new label that begins with `hint`; `start` begins its block."""
        self._labels += 1
        return f"{hint}{self._labels}"

    def start(self, label: str) -> None:
        """Begin a block; the one before it falls through unless it ended itself."""
        if not self.terminated:
            self.effect(f"br label %{label}")
        self._lines.append(f"{label}:")
        self._results.clear()
        self.block, self.terminated = label, False

    def terminate(self, instruction: str) -> None:
        """End the block. What is written after it, until the next `start`, is dead and goes to a block of its
        own.
        """
        self.effect(instruction)
        self.terminated = True

    def branch(self, condition: str, on_true: str, on_false: str, weights: str = "") -> None:
        tail = f", !prof {weights}" if weights else ""
        self.terminate(f"br i1 {condition}, label %{on_true}, label %{on_false}{tail}")

    def build(self, header: str) -> str:
        return "\n".join([f"{header} {{", "entry:", *self._allocas, *self._lines, "}", ""])


_PLAIN = re.compile(r"[A-Za-z_.$][A-Za-z0-9_.$]*")


def symbol(name: str) -> str:
    """`@name`, quoted where it needs to be."""
    escaped = name.replace("\\", "\\5C").replace('"', "\\22")
    return f"@{name}" if _PLAIN.fullmatch(name) else f'@"{escaped}"'
