"""LLVM IR of a program, as text.

Locals become SSA values at once: a local gets a phi where ways with different values of it meet, and at the
head of each loop that assigns to it. Functions marked `inline` are put in place of their calls, so the text
needs none of LLVM's optimisations before its code generator. Fields are addressed by their offsets; the
layout of structures is `types.py`'s alone.
"""

from __future__ import annotations

from collections.abc import Container, Iterator, Sequence
from types import ModuleType

from heddle.systems import nodes as t
from heddle.systems.emit_expressions import ExpressionWriter, instruction, ir_type
from heddle.systems.program import Program
from heddle.systems.types import SCALARS, AtomicType, FloatType, IntType, TupleType, Type
from heddle.systems.words import Global, Linkage, NativeFunction, Text

_LIBRARY = {
    "llvm.umin": "declare i{0} @llvm.umin.i{0}(i{0}, i{0})",
    "llvm.umax": "declare i{0} @llvm.umax.i{0}(i{0}, i{0})",
    "llvm.smin": "declare i{0} @llvm.smin.i{0}(i{0}, i{0})",
    "llvm.smax": "declare i{0} @llvm.smax.i{0}(i{0}, i{0})",
    "llvm.abs": "declare i{0} @llvm.abs.i{0}(i{0}, i1)",
    "llvm.ctlz": "declare i{0} @llvm.ctlz.i{0}(i{0}, i1)",
    "llvm.memcpy": "declare void @llvm.memcpy.p0.p0.i64(ptr, ptr, i64, i1)",
    "llvm.memset": "declare void @llvm.memset.p0.i64(ptr, i8, i64, i1)",
    "llvm.readcyclecounter": "declare i64 @llvm.readcyclecounter()",
}
"""Intrinsics, by the first words of their names."""


class FunctionWriter(ExpressionWriter):
    """Writes the statements of one function."""

    def write(self) -> str:
        """The function's definition in LLVM IR, its docstring before it as a comment."""
        tree = self.tree
        params = ", ".join(f"{ir_type(kind)} %{name}" for name, kind in tree.params)
        for name, kind in tree.params:
            self.set(name, f"%{name}", kind)
        self.statements(tree.body)
        if self.block is not None:
            self.end("ret void")
        linkage = "" if tree.declared.linkage is Linkage.EXPORTED else "internal "
        attributes = " cold noinline" if tree.declared.is_cold else ""
        attributes += "".join(f' "{mark}"' for mark in tree.declared.marks)
        result = "void" if tree.result is None else ir_type(tree.result)
        head = f"define {linkage}{result} @{tree.name}({params}){attributes} {{"
        return "\n".join([*_comment(tree.doc), head, *self.lines(), "}"])

    def statements(self, body: tuple[t.Stmt, ...]) -> None:
        """Write statements from the current block on."""
        for statement in body:
            self.statement(statement)

    def statement(self, node: t.Stmt) -> None:
        """Write a statement from the current block on."""
        if isinstance(node, t.Assign):
            self.set(node.name, self.value(node.value, node.name), node.value.type)
        elif isinstance(node, t.Unpack):
            assert isinstance(node.value.type, TupleType)
            values, kinds = self.values(node.value), node.value.type.elements
            for name, value, kind in zip(node.names, values, kinds, strict=True):
                self.set(name, value, kind)
        elif isinstance(node, t.Store):
            self._store(node)
        elif isinstance(node, t.Update):
            self._update(node)
        elif isinstance(node, t.Evaluate):
            self.value(node.value)
        elif isinstance(node, t.If):
            self._if(node)
        elif isinstance(node, t.While):
            self._while(node)
        elif isinstance(node, t.Return):
            self._return(node)
        else:
            self.jump(self.loops[-1][0 if isinstance(node, t.Continue) else 1])

    def set(self, name: str, value: str, kind: Type) -> None:
        """Let a local stand for a value from here on."""
        key = self.key(name)
        self.env[key], self.types[key] = value, ir_type(kind)

    def _store(self, node: t.Store) -> None:
        pointer = self.value(node.pointer)
        value = self.value(node.value)
        self.add(f"store {ir_type(node.value.type)} {value}, ptr {pointer}")

    def _update(self, node: t.Update) -> None:
        pointer, kind = self.value(node.pointer), ir_type(node.value.type)
        old = self.define(f"load {kind}, ptr {pointer}")
        new = self.define(f"{instruction(node.op, node.value.type)} {kind} {old}, {self.value(node.value)}")
        self.add(f"store {kind} {new}, ptr {pointer}")

    def _if(self, node: t.If) -> None:
        then, other, after = self.new_block("then"), self.new_block("else"), self.new_block("after")
        self.branch(node.test, then, other if node.other else after)
        self.start(then)
        self.statements(node.then)
        self.jump(after)
        if node.other:
            self.start(other)
            self.statements(node.other)
            self.jump(after)
        self.start(after)

    def _while(self, node: t.While) -> None:
        head, body, after = self.new_block("loop"), self.new_block("body"), self.new_block("after")
        self.jump(head)
        self.start(head, {self.key(name) for name in node.assigned})
        if isinstance(node.test, t.Const) and node.test.value:
            body = head
        else:
            self.branch(node.test, body, after)
            self.start(body)
        self.loops.append((head, after))
        self.statements(node.body)
        self.loops.pop()
        self.jump(head)
        self.start(after)

    def _return(self, node: t.Return) -> None:
        values = [] if node.value is None else self.values(node.value)
        if self.inlined:
            key, after = self.inlined[-1]
            for index, value in enumerate(values):
                self.env[f"{key}.{index}"] = value
            self.jump(after)
        elif node.value is None:
            self.end("ret void")
        else:
            packed = self.packed(node.value.type, values)
            self.end(f"ret {ir_type(node.value.type)} {packed}")


def _comment(doc: str) -> list[str]:
    return [f"; {line}".rstrip().replace("$", "$$") for line in doc.splitlines()]


def _zero(kind: Type) -> str:
    return "0.0" if isinstance(kind, FloatType) else "null"


def _global_line(name: str, declared: Global) -> str:
    kind = declared.type
    align = max(kind.align_bytes, declared.align_bytes)
    text, value = f"[{kind.size_bytes} x i8]", "zeroinitializer"
    if isinstance(kind, (*SCALARS, AtomicType)):
        element = kind.element if isinstance(kind, AtomicType) else kind
        text, value = ir_type(kind), str(declared.initial) if isinstance(element, IntType) else _zero(element)
    if declared.linkage is Linkage.EXTERNAL:
        return f"@{name} = external global {text}, align {align}"
    linkage = "" if declared.linkage is Linkage.EXPORTED else "internal "
    return f"@{name} = {linkage}global {text} {value}, align {align}"


def _text_line(name: str, declared: Text) -> str:
    data = declared.text.encode() + b"\0"
    shown = "".join(
        chr(byte) if 32 <= byte < 127 and byte not in b'"\\$' else f"\\{byte:02X}" for byte in data
    )
    return f'@{name} = internal constant [{len(data)} x i8] c"{shown}"'


def _symbol(line: str) -> str:
    return line[line.index("@") + 1 : line.index("(", line.index("@"))]


def _declarations(program: Program, used: Container[NativeFunction], body: str) -> Iterator[str]:
    """What the text uses and does not define."""
    for tree in program.functions.values():
        declared = tree.declared
        if declared in used and declared.linkage is Linkage.IR and declared.declaration:
            yield declared.declaration
        if declared in used and declared.linkage is Linkage.EXTERNAL:
            result = "void" if tree.result is None else ir_type(tree.result)
            yield f"declare {result} @{tree.name}({', '.join(ir_type(kind) for _, kind in tree.params)})"
    for name, form in _LIBRARY.items():
        for bits in (8, 16, 32, 64):
            line = form.format(bits)
            if _symbol(line).startswith(name) and f"@{_symbol(line)}(" in body:
                yield line
            if "{0}" not in form:
                break


def translate(program: Program, known: Container[str] = (), modules: Sequence[ModuleType] = ()) -> str:
    """LLVM IR of a program, or of the part of it that `modules` are. What is in `known` is declared by
    another part of the text that this becomes part of. Names `$NAME` are left for the platform to fill
    in."""
    names = [module.__name__ for module in modules]

    def is_part(declared: NativeFunction | Global | Text) -> bool:
        return not names or declared.module in names

    writers = [
        FunctionWriter(program, tree)
        for tree in program.functions.values()
        if tree.declared.linkage in (Linkage.INTERNAL, Linkage.EXPORTED) and not tree.declared.is_inline
        if is_part(tree.declared)
    ]
    body = "\n\n".join(writer.write() for writer in writers)
    used = {declared for writer in writers for declared in writer.used}
    memory = [_global_line(name, item) for name, item in program.globals.items() if is_part(item)]
    memory += [_text_line(name, item) for name, item in program.texts.items() if is_part(item)]
    declared = dict.fromkeys(
        line
        for line in _declarations(program, used, body)
        if not line.startswith("declare ") or _symbol(line) not in known
    )
    return "\n".join(["", *memory, "", *declared, "", body, ""])
