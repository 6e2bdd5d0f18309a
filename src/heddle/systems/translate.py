"""LLVM IR of a program, as text.

Locals become SSA values at once: a local gets a phi where ways with different values of it meet, and at the
head of each loop that assigns to it. Functions marked `inline` are put in place of their calls, so the text
needs none of LLVM's optimisations before its code generator. Fields are addressed by their offsets; the
layout of structures is `types.py`'s alone.
"""

from __future__ import annotations

from collections.abc import Container, Iterator, Sequence

from heddle.systems import nodes as t
from heddle.systems.emit_expressions import ExpressionWriter, instruction, ir_type
from heddle.systems.program import Program
from heddle.systems.types import SCALARS, ArrayType, AtomicType, IntType, Sized, StructType, TupleType, Type
from heddle.systems.words import Global, Linkage, Text

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
        tree = self.tree
        params = ", ".join(f"{ir_type(kind)} %{name}" for name, kind in tree.params)
        for name, kind in tree.params:
            self.set(name, f"%{name}", kind)
        self.statements(tree.body)
        if self.block is not None:
            self.end("ret void")
        linkage = "" if tree.declared.linkage is Linkage.EXPORTED else "internal "
        attributes = " cold noinline" if tree.declared.is_cold else ""
        result = "void" if tree.result is None else ir_type(tree.result)
        head = f"define {linkage}{result} @{tree.name}({params}){attributes} {{"
        return "\n".join([*_comment(tree.doc), head, *self.lines(), "}"])

    def statements(self, body: tuple[t.Stmt, ...]) -> None:
        for statement in body:
            self.statement(statement)

    def statement(self, node: t.Stmt) -> None:
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


def _memory_type(kind: Sized) -> str:
    """A type in memory by LLVM's names, for text that is written by hand."""
    if isinstance(kind, StructType):
        return f"%{kind.name}"
    if isinstance(kind, ArrayType):
        return f"[{kind.count} x {_memory_type(kind.element)}]"
    return ir_type(kind)


def _struct_line(kind: StructType) -> str:
    fields = ", ".join(_memory_type(item.type) for item in kind.fields.values())
    return f"%{kind.name} = type {{ {fields} }}"


def _global_lines(name: str, declared: Global) -> str:
    kind = declared.type
    align = max(kind.align_bytes, declared.align_bytes)
    if isinstance(kind, (*SCALARS, AtomicType)):
        is_integer = isinstance(kind.element if isinstance(kind, AtomicType) else kind, IntType)
        value = str(declared.initial) if is_integer else "null"
        return f"@{name} = internal global {ir_type(kind)} {value}, align {align}"
    return f"@{name} = internal global [{kind.size_bytes} x i8] zeroinitializer, align {align}"


def _text_line(name: str, declared: Text) -> str:
    data = declared.text.encode() + b"\0"
    shown = "".join(
        chr(byte) if 32 <= byte < 127 and byte not in b'"\\$' else f"\\{byte:02X}" for byte in data
    )
    return f'@{name} = internal constant [{len(data)} x i8] c"{shown}"'


def _declarations(program: Program, body: str, known: Container[str]) -> Iterator[str]:
    """What the text uses and does not define, but for the names that are declared elsewhere."""
    for tree in program.functions.values():
        if tree.declared.linkage is Linkage.IR and tree.declared.declaration:
            yield tree.declared.declaration
        if tree.declared.linkage is Linkage.EXTERNAL and tree.name not in known:
            result = "void" if tree.result is None else ir_type(tree.result)
            yield f"declare {result} @{tree.name}({', '.join(ir_type(kind) for _, kind in tree.params)})"
    for name, form in _LIBRARY.items():
        for bits in (8, 16, 32, 64):
            line = form.format(bits)
            symbol = line[line.index("@") + 1 : line.index("(")]
            if symbol.startswith(name) and f"@{symbol}(" in body and symbol not in known:
                yield line
            if "{0}" not in form:
                break


def translate(program: Program, known: Container[str] = (), structs: Sequence[StructType] = ()) -> str:
    """LLVM IR of all functions of a program. Functions in `known` are declared by another part of the text
    that it becomes part of, which gets `structs` by their names. Names `$NAME` are left for the platform to
    fill in."""
    functions = [
        FunctionWriter(program, tree).write()
        for tree in program.functions.values()
        if tree.body or tree.declared.linkage in (Linkage.INTERNAL, Linkage.EXPORTED)
        if not tree.declared.is_inline
    ]
    body = "\n\n".join(functions)
    memory = [_global_lines(name, item) for name, item in program.globals.items()]
    memory += [_text_line(name, item) for name, item in program.texts.items()]
    declared = list(dict.fromkeys(_declarations(program, body, known)))
    return "\n".join([*map(_struct_line, structs), "", *memory, "", *declared, "", body, ""])
