"""Expressions as LLVM IR."""

from __future__ import annotations

from typing import TYPE_CHECKING

from heddle.systems import nodes as t
from heddle.systems.blocks import Block, BlockWriter
from heddle.systems.program import Program
from heddle.systems.types import BOOL, AtomicType, FloatType, IntType, TupleType, Type
from heddle.systems.words import Linkage, NativeFunction

_PREDICATES = {"<": "lt", "<=": "le", ">": "gt", ">=": "ge"}
_INSTRUCTIONS = {
    "+": "add",
    "-": "sub",
    "*": "mul",
    "//": "udiv",
    "%": "urem",
    "&": "and",
    "|": "or",
    "^": "xor",
    "<<": "shl",
}


def ir_type(kind: Type) -> str:
    """LLVM's name of a type of values."""
    if isinstance(kind, IntType):
        return f"i{kind.bits}"
    if kind == BOOL:
        return "i1"
    if isinstance(kind, FloatType):
        return "double"
    if isinstance(kind, AtomicType):
        return ir_type(kind.element)
    if isinstance(kind, TupleType):
        return f"{{ {', '.join(map(ir_type, kind.elements))} }}" if kind.elements else "void"
    return "ptr"


def instruction(op: str, kind: Type) -> str:
    """LLVM's name of an operator."""
    if op == ">>":
        return "ashr" if isinstance(kind, IntType) and kind.is_signed else "lshr"
    return _INSTRUCTIONS[op]


class ExpressionWriter(BlockWriter):
    """Writes expressions of one function. `key` names a local among those of functions put in place. `used`
    are the functions that the text names."""

    def __init__(self, program: Program, tree: t.FunctionTree) -> None:
        super().__init__()
        self.program = program
        self.tree = tree
        self.loops: list[tuple[Block, Block]] = []
        self.inlined: list[tuple[str, Block]] = []
        self.used: set[NativeFunction] = set()
        self._prefix = ""
        self._types: dict[str, Type] = {}

    if TYPE_CHECKING:

        def statements(self, body: tuple[t.Stmt, ...]) -> None:
            """Write statements; `FunctionWriter` does it."""

    def key(self, name: str) -> str:
        """What a local is called in `env`: apart from those of other calls that were put in place."""
        return f"{self._prefix}:{name}"

    def values(self, node: t.Expr) -> list[str]:
        """The values of an expression, several if it is a tuple."""
        if isinstance(node, t.MakeTuple):
            return [self.value(item) for item in node.items]
        if isinstance(node, t.Call) and node.callee.is_inline:
            return self._inline(node)
        value = self.value(node)
        if not isinstance(node.type, TupleType):
            return [value]
        kind = ir_type(node.type)
        return [self.define(f"extractvalue {kind} {value}, {n}") for n in range(len(node.type.elements))]

    def packed(self, kind: Type, values: list[str]) -> str:
        """One value of those of a tuple."""
        if not isinstance(kind, TupleType):
            return values[0]
        whole, text = "poison", ir_type(kind)
        for index, (value, element) in enumerate(zip(values, kind.elements, strict=True)):
            whole = self.define(f"insertvalue {text} {whole}, {ir_type(element)} {value}, {index}")
        return whole

    def value(self, node: t.Expr, hint: str = "v") -> str:
        """The operand that an expression gives. `hint` becomes part of its name."""
        writer = getattr(self, "_" + type(node).__name__, None)
        assert writer is not None, f"no instruction for {type(node).__name__}"
        found: str = writer(node, hint)
        return found

    # ---- names and memory

    def _Const(self, node: t.Const, hint: str) -> str:
        if node.type == BOOL:
            return "true" if node.value else "false"
        return str(node.value)

    def _Null(self, node: t.Null, hint: str) -> str:
        return "null"

    def _Local(self, node: t.Local, hint: str) -> str:
        return self.env[self.key(node.name)]

    def _GlobalAddress(self, node: t.GlobalAddress, hint: str) -> str:
        return f"@{node.name}"

    def _TextAddress(self, node: t.TextAddress, hint: str) -> str:
        return f"@{node.name}"

    def _FunctionAddress(self, node: t.FunctionAddress, hint: str) -> str:
        self.used.add(node.of)
        return f"@{node.of.name}"

    def _PlatformConst(self, node: t.PlatformConst, hint: str) -> str:
        return f"${node.of.name}"

    def _Load(self, node: t.Load, hint: str) -> str:
        return self.define(f"load {ir_type(node.type)}, ptr {self.value(node.pointer)}", hint)

    def _FieldAddress(self, node: t.FieldAddress, hint: str) -> str:
        base = self.value(node.base)
        if not node.field.offset_bytes:
            return base
        return self.define(
            f"getelementptr i8, ptr {base}, i64 {node.field.offset_bytes}", f"{node.field.name}_at"
        )

    def _ElementAddress(self, node: t.ElementAddress, hint: str) -> str:
        base, index = self.value(node.base), self._wide(node.index)
        return self.define(f"getelementptr [{node.element.size_bytes} x i8], ptr {base}, i64 {index}", "at")

    def _wide(self, node: t.Expr) -> str:
        """An index as i64."""
        assert isinstance(node.type, IntType)
        value = self.value(node)
        if node.type.bits == 64 or isinstance(node, t.Const):
            return value
        return self.define(f"{'sext' if node.type.is_signed else 'zext'} i{node.type.bits} {value} to i64")

    def _Room(self, node: t.Room, hint: str) -> str:
        kind, align = f"[{node.of.size_bytes} x i8]", max(16, node.of.align_bytes)
        if node.count is None:
            return self.room(f"alloca {kind}, align {align}")
        return self.define(f"alloca {kind}, i64 {self._wide(node.count)}, align {align}", "room")

    def _Copy(self, node: t.Copy, hint: str) -> str:
        to, source, size = self.value(node.to), self.value(node.source), str(node.size_bytes)
        if node.count is not None:
            count = self._wide(node.count)
            size = count if node.size_bytes == 1 else self.define(f"mul i64 {count}, {size}", "size")
        self.add(f"call void @llvm.memcpy.p0.p0.i64(ptr {to}, ptr {source}, i64 {size}, i1 false)")
        return ""

    def _Fill(self, node: t.Fill, hint: str) -> str:
        to, byte, count = self.value(node.to), self.value(node.byte), self.value(node.count)
        self.add(f"call void @llvm.memset.p0.i64(ptr {to}, i8 {byte}, i64 {count}, i1 false)")
        return ""

    # ---- arithmetic

    def _Binary(self, node: t.Binary, hint: str) -> str:
        left, right = self.value(node.left), self.value(node.right)
        return self.define(f"{instruction(node.op, node.type)} {ir_type(node.type)} {left}, {right}", hint)

    def _Compare(self, node: t.Compare, hint: str) -> str:
        left, right = self.value(node.left), self.value(node.right)
        kind = node.left.type
        if node.op in _PREDICATES:
            sign = "s" if isinstance(kind, IntType) and kind.is_signed else "u"
            name = sign + _PREDICATES[node.op]
        else:
            name = "eq" if node.op == "==" else "ne"
        return self.define(f"icmp {name} {ir_type(kind)} {left}, {right}", hint)

    def _Not(self, node: t.Not, hint: str) -> str:
        return self.define(f"xor i1 {self.value(node.operand)}, true", hint)

    def _MinMax(self, node: t.MinMax, hint: str) -> str:
        left, right = self.value(node.left), self.value(node.right)
        assert isinstance(node.type, IntType)
        kind = ir_type(node.type)
        name = f"llvm.{'s' if node.type.is_signed else 'u'}{node.op}.{kind}"
        return self.define(f"call {kind} @{name}({kind} {left}, {kind} {right})", hint)

    def _Magnitude(self, node: t.Magnitude, hint: str) -> str:
        kind = ir_type(node.type)
        return self.define(f"call {kind} @llvm.abs.{kind}({kind} {self.value(node.operand)}, i1 false)", hint)

    def _LeadingZeros(self, node: t.LeadingZeros, hint: str) -> str:
        kind = ir_type(node.type)
        return self.define(
            f"call {kind} @llvm.ctlz.{kind}({kind} {self.value(node.operand)}, i1 false)", hint
        )

    def _CycleCounter(self, node: t.CycleCounter, hint: str) -> str:
        return self.define("call i64 @llvm.readcyclecounter()", hint)

    def _Convert(self, node: t.Convert, hint: str) -> str:
        value, old, new = self.value(node.operand), ir_type(node.operand.type), ir_type(node.type)
        if old == new:
            return value
        if "ptr" in (old, new):
            return self.define(f"{'ptrtoint' if old == 'ptr' else 'inttoptr'} {old} {value} to {new}", hint)
        source = node.operand.type
        if int(old[1:]) > int(new[1:]):
            name = "trunc"
        else:
            name = "sext" if isinstance(source, IntType) and source.is_signed else "zext"
        return self.define(f"{name} {old} {value} to {new}", hint)

    # ---- choices

    def branch(self, test: t.Expr, then: Block, other: Block) -> None:
        """End the block with a jump to one of two."""
        if isinstance(test, t.Not):
            self.branch(test.operand, other, then)
        elif isinstance(test, t.Logic):
            more = self.new_block(test.op)
            self.branch(test.left, *((more, other) if test.op == "and" else (then, more)))
            self.start(more)
            self.branch(test.right, then, other)
        else:
            value = self.value(test)
            self.arrive(then)
            self.arrive(other)
            self.end(f"br i1 {value}, label %{then.label}, label %{other.label}")

    def _Logic(self, node: t.Logic, hint: str) -> str:
        if _is_cheap(node):
            left, right = self.value(node.left), self.value(node.right)
            return self.define(f"{node.op} i1 {left}, {right}", hint)
        true = t.Const(type=BOOL, line=node.line, value=1)
        false = t.Const(type=BOOL, line=node.line, value=0)
        return self._choose(node, true, false, BOOL, hint)

    def _Select(self, node: t.Select, hint: str) -> str:
        if _is_cheap(node.then) and _is_cheap(node.other):
            test, then, other = self.value(node.test), self.value(node.then), self.value(node.other)
            kind = ir_type(node.type)
            return self.define(f"select i1 {test}, {kind} {then}, {kind} {other}", hint)
        return self._choose(node.test, node.then, node.other, node.type, hint)

    def _choose(self, test: t.Expr, then: t.Expr, other: t.Expr, kind: Type, hint: str) -> str:
        key = self.key(self.fresh(hint))
        self.types[key] = ir_type(kind)
        yes, no, after = self.new_block("yes"), self.new_block("no"), self.new_block("chosen")
        self.branch(test, yes, no)
        for block, value in ((yes, then), (no, other)):
            self.start(block)
            self.env[key] = self.value(value)
            self.jump(after)
        self.start(after)
        return self.env.pop(key)

    # ---- calls

    def _MakeTuple(self, node: t.MakeTuple, hint: str) -> str:
        return self.packed(node.type, self.values(node))

    def _arguments(self, args: tuple[t.Expr, ...]) -> str:
        return ", ".join(f"{ir_type(arg.type)} {value}" for arg, value in [(a, self.value(a)) for a in args])

    def _called(self, callee: str, args: str, kind: Type, hint: str) -> str:
        if ir_type(kind) == "void":
            self.add(f"call void {callee}({args})")
            return ""
        return self.define(f"call {ir_type(kind)} {callee}({args})", hint)

    def _Call(self, node: t.Call, hint: str) -> str:
        if node.callee.is_inline:
            values = self._inline(node)
            return self.packed(node.type, values) if values else ""
        self.used.add(node.callee)
        if node.callee.linkage is Linkage.IR:
            return self._inline_ir(node, hint)
        return self._called(f"@{node.callee.name}", self._arguments(node.args), node.type, hint)

    def _CallAddress(self, node: t.CallAddress, hint: str) -> str:
        callee = self.value(node.callee)
        return self._called(callee, self._arguments(node.args), node.type, hint)

    def _inline_ir(self, node: t.Call, hint: str) -> str:
        names = [name for name, _ in self.program.head(node.callee).params]
        text = node.callee.text
        for name, arg in zip(names, node.args, strict=True):
            text = text.replace(f"{{{name}}}", self.value(arg))
        if node.type == TupleType(()):
            self.add(text)
            return ""
        return self.define(text, hint)

    def _inline(self, node: t.Call) -> list[str]:
        """Put a function in place of its call."""
        callee = self.program.functions[node.callee.name]
        args = [self.value(arg) for arg in node.args]
        outer, self._prefix = self._prefix, self.fresh(callee.name)
        after, key = self.new_block(callee.name + "_end"), self._prefix + ":result"
        for (name, kind), value in zip(callee.params, args, strict=True):
            self.env[self.key(name)] = value
            self.types[self.key(name)] = ir_type(kind)
        kinds = [] if callee.result is None else _elements(callee.result)
        for index, kind in enumerate(kinds):
            self.types[f"{key}.{index}"] = ir_type(kind)
        self.inlined.append((key, after))
        self.statements(callee.body)
        self.inlined.pop()
        self.jump(after)
        self.start(after)
        mine = f"{self._prefix}:"
        self._prefix = outer
        results = [self.env[f"{key}.{index}"] for index in range(len(kinds))]
        self.env = {name: value for name, value in self.env.items() if not name.startswith(mine)}
        return results

    def _AtomicOp(self, node: t.AtomicOp, hint: str) -> str:
        pointer, args = self.value(node.pointer), [self.value(arg) for arg in node.args]
        kind, orders = ir_type(node.element), " ".join(order.value for order in node.orders)
        tail = f"{orders}, align {node.element.size_bytes}"
        if node.op == "load":
            return self.define(f"load atomic {kind}, ptr {pointer} {tail}", hint)
        if node.op == "store":
            self.add(f"store atomic {kind} {args[0]}, ptr {pointer} {tail}")
            return ""
        if node.op == "compare_exchange":
            pair = self.define(f"cmpxchg ptr {pointer}, {kind} {args[0]}, {kind} {args[1]} {orders}", "pair")
            return self.define(f"extractvalue {{ {kind}, i1 }} {pair}, 1", hint)
        name = {"exchange": "xchg"}.get(node.op, node.op)
        return self.define(f"atomicrmw {name} ptr {pointer}, {kind} {args[0]} {orders}", hint)


def _elements(kind: Type) -> list[Type]:
    return list(kind.elements) if isinstance(kind, TupleType) else [kind]


def _is_cheap(node: t.Expr) -> bool:
    """Whether to compute a value that may not be needed: a few instructions that cannot fail."""
    if isinstance(
        node, (t.Const, t.Null, t.Local, t.GlobalAddress, t.TextAddress, t.FunctionAddress, t.PlatformConst)
    ):
        return True
    if isinstance(node, t.Binary):
        return node.op in "+-&|^" and _is_cheap(node.left) and _is_cheap(node.right)
    if isinstance(node, (t.Compare, t.Logic, t.MinMax)):
        return _is_cheap(node.left) and _is_cheap(node.right)
    if isinstance(node, (t.Not, t.Convert)):
        return _is_cheap(node.operand)
    return False
