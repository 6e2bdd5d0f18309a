"""Loop functions from script text: what `tir.print_stmt` writes, and what users write by hand.

Operators build nodes as written, nothing is folded, so that reading what was printed gives an equal
structure. Where operand dtypes differ the usual casts are inserted.

Over 450 lines: one class, with a method for each form of text.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from heddle.ir.op import Op
from heddle.ir.script_parser import ScriptParser, decorator_of
from heddle.ir.types import PointerType, PrimType, Type
from heddle.ir.visitor import walk_distinct
from heddle.prim.nodes import (
    EQ,
    GE,
    GT,
    LE,
    LT,
    NE,
    Add,
    And,
    Call,
    Div,
    FloorDiv,
    FloorMod,
    Let,
    Max,
    Min,
    Mod,
    Mul,
    Not,
    Or,
    PrimExpr,
    Range,
    Sub,
    Var,
    as_expr,
    constant,
)
from heddle.prim.operators import EqualOp
from heddle.prim.ops import if_then_else, match_types, maximum, minimum, negative, truncdiv, truncmod
from heddle.runtime.dtype import DataType
from heddle.support.span import Source, at
from heddle.tir import script
from heddle.tir.analysis.access_region import block_access_regions
from heddle.tir.codes import T0301, T0302, T0303
from heddle.tir.frames import (
    AttrFrame,
    Axis,
    AxisRemap,
    BindValue,
    BlockAttrs,
    BufferSpec,
    FuncAttrs,
    HandleType,
    InitFrame,
    LoopFrame,
    Reads,
    SBlockFrame,
    Where,
    Writes,
)
from heddle.tir.nodes import (
    AllocBuffer,
    AssertStmt,
    AttrStmt,
    Bind,
    Buffer,
    BufferLoad,
    BufferRegion,
    BufferStore,
    DeclBuffer,
    Evaluate,
    For,
    IfThenElse,
    IterType,
    IterVar,
    MatchBufferRegion,
    PrimFunc,
    SBlock,
    SBlockRealize,
    Stmt,
    While,
    decl_buffer,
    seq,
)
from heddle.tir.script import ScalarType, extent_between

_BINARY: dict[type[ast.operator], Any] = {
    ast.Add: Add,
    ast.Sub: Sub,
    ast.Mult: Mul,
    ast.Div: Div,
    ast.FloorDiv: FloorDiv,
    ast.Mod: FloorMod,
}
_COMPARE: dict[type[ast.cmpop], Any] = {
    ast.Eq: EQ,
    ast.NotEq: NE,
    ast.Lt: LT,
    ast.LtE: LE,
    ast.Gt: GT,
    ast.GtE: GE,
}
_RAW_WORDS: dict[Any, Any] = {minimum: Min, maximum: Max, truncdiv: Div, truncmod: Mod}
_FunctionKind = type(minimum)


class ScalarParser(ScriptParser):
    """Scalar expressions; the graph dialects' parsers build on it for symbolic dimensions."""

    def call(self, node: ast.Call, function: Any, args: list[Any], kwargs: dict[str, Any]) -> Any:
        """Call a word of the script. Operands of different dtypes get the usual casts."""
        raw = _RAW_WORDS.get(function) if isinstance(function, _FunctionKind) else None
        if raw is not None and len(args) == 2:
            return raw(*match_types(*args))
        if function is if_then_else and len(args) == 3:
            chosen = match_types(args[1], args[2])
            return Call(chosen[0].dtype, Op.get("tir.if_then_else"), (as_expr(args[0]), *chosen))
        if function is script.var or function is Var:
            return Var(*args)
        return super().call(
            node, function, [a.asexpr() if isinstance(a, EqualOp) else a for a in args], kwargs
        )

    def eval_Call(self, node: ast.Call) -> Any:
        """The value of a call in the text; `T.Let(..., where={v: value})` binds its variables first."""
        where = next((k.value for k in node.keywords if k.arg == "where"), None)
        if isinstance(node.func, ast.Attribute) and node.func.attr == "Let" and isinstance(where, ast.Dict):
            return self._let(node.args[0], where)
        return super().eval_Call(node)

    def _let(self, body: ast.expr, where: ast.Dict) -> PrimExpr:
        """`T.Let(body, where={T.Var("x", "int32"): value})`: the body sees the variables."""
        with self.scope() as names:
            bound: list[tuple[Var, PrimExpr]] = []
            for key, value_node in zip(where.keys, where.values, strict=True):
                value = as_expr(self.eval(value_node))
                var = self.eval(key) if key is not None else None
                if not isinstance(var, Var):
                    self.error(where, T0302, "Let binds variables: T.Var(name, dtype)")
                self.define(var.name, var)
                bound.append((var, value))
            result = as_expr(self.eval(body))
        own = {var.name for var, _ in bound}
        for name, value in names.items():
            if name not in own:  # `:=` holds outside, too
                self.define(name, value)
        for var, value in reversed(bound):
            result = Let(var, value, result)
        return result

    def binary(self, op: type[ast.operator], a: Any, b: Any) -> Any:
        """An operator with two operands: an expression where one of them is, else Python's own value."""
        if op in _BINARY and (isinstance(a, PrimExpr) or isinstance(b, PrimExpr)):
            return _BINARY[op](*match_types(a, b))
        return super().binary(op, a, b)

    def compare(self, op: type[ast.cmpop], a: Any, b: Any) -> Any:
        """A comparison: an expression where one of its operands is, else Python's own value."""
        if op in _COMPARE and (isinstance(a, PrimExpr) or isinstance(b, PrimExpr)):
            return _COMPARE[op](*match_types(a, b))
        return super().compare(op, a, b)

    def boolean(self, op: type[ast.boolop], a: Any, b: Any) -> Any:
        """`and` or `or`: an expression where one of its operands is, else Python's own value."""
        if isinstance(a, PrimExpr) or isinstance(b, PrimExpr):
            return (And if op is ast.And else Or)(*match_types(a, b))
        return super().boolean(op, a, b)

    def unary(self, op: type[ast.unaryop], a: Any) -> Any:
        """`not` or a sign: an expression where the operand is, else Python's own value."""
        if isinstance(a, PrimExpr):
            return Not(a) if op is ast.Not else negative(a) if op is ast.USub else super().unary(op, a)
        return super().unary(op, a)


@dataclass(slots=True)
class _BlockInfo:
    """What the statements at the head of a block declare."""

    iter_vars: list[IterVar] = field(default_factory=list)
    iter_values: list[PrimExpr] = field(default_factory=list)
    reads: tuple[BufferRegion, ...] | None = None
    writes: tuple[BufferRegion, ...] | None = None
    predicate: PrimExpr | None = None
    annotations: dict[str, Any] = field(default_factory=dict)
    alloc_buffers: list[Buffer] = field(default_factory=list)
    match_buffers: list[MatchBufferRegion] = field(default_factory=list)
    init: Stmt | None = None


class PrimFuncParser(ScalarParser):
    """Parses one `@T.prim_func` at a time."""

    def __init__(self, source: Source, names: Mapping[str, Any]) -> None:
        super().__init__(source, names)
        self._ranges: dict[Var, tuple[PrimExpr, PrimExpr]] = {}
        self._blocks: list[_BlockInfo] = []
        self._attrs: dict[str, Any] = {}
        self._buffer_map: dict[Var, Buffer] = {}

    def parse(self, node: ast.FunctionDef) -> PrimFunc:
        """The function of a definition. Raises: ParseError with the place."""
        private = bool(decorator_of(node)[1].get("private"))
        self._ranges, self._attrs, self._buffer_map = {}, {} if private else {"global_symbol": node.name}, {}
        self._blocks = [_BlockInfo()]
        with self.scope(), at(self.span(node)):
            params = [self._parameter(arg) for arg in node.args.args]
            body = self._implicit_root(self.body(node.body))
            attrs = {k: v for k, v in self._attrs.items() if v is not None}
            returns = self._type(node.returns) if node.returns is not None else None
            return PrimFunc(tuple(params), body, returns, self._buffer_map, attrs)  # type: ignore[arg-type]

    def _implicit_root(self, body: Stmt) -> Stmt:
        """Blocks outside any block, and block allocations, get the root block that the text leaves out."""
        allocated = self._blocks[0].alloc_buffers
        is_root = isinstance(body, SBlockRealize) and body.block.name_hint == "root" and not allocated
        has_blocks = any(isinstance(inner, SBlockRealize) for inner in walk_distinct(body))
        if is_root or not (allocated or has_blocks):
            return body
        root = SBlock((), (), (), "root", body, None, tuple(allocated))
        return SBlockRealize((), constant(True), root)

    # ---- parameters and types

    def _parameter(self, arg: ast.arg) -> Var:
        if arg.annotation is None:
            self.error(
                arg, T0301, f"parameter {arg.arg!r} has no type", "write `A: T.Buffer(...)` or `n: T.int64`"
            )
        value = self.eval(arg.annotation)
        if isinstance(value, BufferSpec):
            buffer = self._make_buffer(value, arg.arg)
            param = Var(arg.arg, DataType("handle"))
            self._buffer_map[param] = buffer
            self.define(arg.arg, buffer)
            return param
        param = self._typed_var(arg, arg.arg, value)
        self.define(arg.arg, param)
        return param

    def _typed_var(self, node: ast.AST, name: str, annotation: Any) -> Var:
        ty = self._as_type(node, annotation)
        if isinstance(ty, PrimType):
            return Var(name, ty.dtype)
        return Var(name, DataType("handle"), ty)

    def _type(self, node: ast.expr) -> Type | None:
        return self._as_type(node, self.eval(node))

    def _as_type(self, node: ast.AST, annotation: Any) -> Type | None:
        if isinstance(annotation, ScalarType):
            return PrimType(annotation.dtype)
        if isinstance(annotation, HandleType):
            if annotation.dtype is None:
                return None
            return PointerType(PrimType(DataType(annotation.dtype)), annotation.scope)
        if annotation is None:
            return None
        self.error(node, T0301, f"expected a scalar or handle type, got {type(annotation).__name__}")

    def _make_buffer(self, spec: BufferSpec, name: str) -> Buffer:
        data = spec.data if isinstance(spec.data, Var) else None
        return decl_buffer(
            spec.shape, spec.dtype, name, data, spec.strides, spec.elem_offset, spec.scope, spec.align
        )

    # ---- statements

    def body(self, nodes: list[ast.stmt]) -> Stmt:
        """The statements of a text as one. Raises: ParseError with the place of what is no statement of the
        dialect.
        """
        made = [self._stmt(node) for node in nodes]
        kept = [stmt for stmt in made if stmt is not None]
        return kept[0] if len(kept) == 1 else seq(*kept)

    def _stmt(self, node: ast.stmt) -> Stmt | None:
        method = getattr(self, f"stmt_{type(node).__name__}", None)
        if method is None:
            self.error(node, T0302, f"{type(node).__name__} is not a statement of loop functions")
        with at(self.span(node)):
            result: Stmt | None = method(node)
            return result

    def stmt_Pass(self, _node: ast.Pass) -> Stmt:
        """`pass`: a statement without effect."""
        return Evaluate(constant(0))

    def stmt_Expr(self, node: ast.Expr) -> Stmt | None:
        """An expression that stands alone: a call with an effect, a vector store; a text is a comment."""
        if isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            return None
        value: Any = self._vstore(node.value)
        if value is None:
            value = self.eval(node.value)
        if isinstance(value, Stmt):
            return value
        if isinstance(value, PrimExpr):
            return Evaluate(value)
        self._head(node, value)
        return None

    def _vstore(self, node: ast.expr) -> Stmt | None:
        """`A.vstore([i], value, predicate=p)`."""
        if not (
            isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "vstore"
        ):
            return None
        buffer = self.eval(node.func.value)
        indices, value = self.eval(node.args[0]), as_expr(self.eval(node.args[1]))
        predicate = next((self.eval(k.value) for k in node.keywords if k.arg == "predicate"), None)
        return BufferStore(buffer, value, tuple(indices), predicate)

    def _head(self, node: ast.AST, value: Any) -> None:
        """A declaration at the head of a block or function."""
        info = self._blocks[-1]
        if isinstance(value, Reads):
            info.reads = tuple(self._region(region) for region in _flat(value.regions))
        elif isinstance(value, Writes):
            info.writes = tuple(self._region(region) for region in _flat(value.regions))
        elif isinstance(value, Where):
            info.predicate = as_expr(value.predicate)
        elif isinstance(value, BlockAttrs):
            info.annotations.update(value.values)
        elif isinstance(value, FuncAttrs):
            self._attrs.update(value.values)
        else:
            self.error(node, T0302, f"{type(value).__name__} is not a statement of loop functions")

    def _region(self, value: Any) -> BufferRegion:
        if isinstance(value, BufferRegion):
            return value
        if isinstance(value, BufferLoad):
            ranges = tuple(Range.from_min_extent(i, constant(1, i.dtype)) for i in value.indices)
            return BufferRegion(value.buffer, ranges)
        if isinstance(value, Buffer):
            return value.full_region()
        raise TypeError(f"expected a buffer region, got {type(value).__name__}")

    def stmt_Assign(self, node: ast.Assign) -> Stmt | None:
        """`A[i] = x`, a store; `v = x`, a name for a value, a buffer or a frame."""
        target = node.targets[0]
        if isinstance(target, ast.Subscript):
            return self._store(target, node.value)
        value = self.eval(node.value)
        if isinstance(target, ast.Tuple):
            self._unpack(node, target, value)
            return None
        if not isinstance(target, ast.Name):
            self.error(node, T0302, "expected a name or a buffer element on the left")
        return self._assign(node, target.id, value)

    def _store(self, target: ast.Subscript, value_node: ast.expr) -> Stmt:
        buffer = self.eval(target.value)
        if not isinstance(buffer, Buffer):
            self.error(target, T0302, f"{type(buffer).__name__} cannot be stored to")
        indices = self.eval(target.slice)
        indices = indices if isinstance(indices, tuple) else (indices,)
        with at(self.span(target)):
            value = as_expr(self.eval(value_node), buffer.dtype)
            if (
                value.dtype != buffer.dtype
                and value.dtype.lanes == 1
                and isinstance(value_node, ast.Constant)
            ):
                value = constant(value_node.value, buffer.dtype)
            return BufferStore(buffer, value, indices)

    def _unpack(self, node: ast.Assign, target: ast.Tuple, value: Any) -> None:
        names = [element.id for element in target.elts if isinstance(element, ast.Name)]
        if isinstance(value, AxisRemap):
            kinds = {"S": IterType.DataPar, "R": IterType.CommReduce}
            if not (len(names) == len(value.kinds) == len(value.values)):
                self.error(
                    node, T0303, f"{len(names)} names for {len(value.values)} loops of kinds {value.kinds!r}"
                )
            for name, kind, loop in zip(names, value.kinds, value.values, strict=True):
                self._axis(node, name, Axis(kinds[kind], self._loop_domain(node, loop), loop))
            return
        for name, item in zip(names, value, strict=True):
            self.define(name, item)

    def _loop_domain(self, node: ast.AST, loop: Any) -> Range:
        if loop not in self._ranges:
            self.error(
                node, T0303, "T.axis.remap takes loop variables", "write T.axis.spatial(domain, value)"
            )
        return Range.from_min_extent(*self._ranges[loop])

    def _assign(self, node: ast.Assign, name: str, value: Any) -> Stmt | None:
        if isinstance(value, Axis):
            self._axis(node, name, value)
            return None
        if isinstance(value, BufferSpec):
            return self._declare_buffer(node, name, value)
        if isinstance(value, AxisRemap):
            self._unpack(node, ast.Tuple([ast.Name(name)], ast.Store()), value)
            return None
        if isinstance(value, BindValue):
            return self._bind(name, as_expr(value.value))
        if isinstance(value, Var) and isinstance(node.value, ast.Call):
            value = Var(name, value.dtype, value.type_annotation, value.is_size)
        elif isinstance(value, PrimExpr):
            return self._bind(name, value)
        self.define(name, value)
        return None

    def _bind(self, name: str, value: PrimExpr, var: Var | None = None) -> Stmt:
        bound = Var(name, value.dtype) if var is None else var
        self.define(name, bound)
        return Bind(bound, value)

    def stmt_AnnAssign(self, node: ast.AnnAssign) -> Stmt:
        """`v: T.int32 = x`: a variable that is bound to a value. Raises: ParseError T0302 without a value."""
        if not isinstance(node.target, ast.Name) or node.value is None:
            self.error(node, T0302, "expected `name: type = value`")
        var = self._typed_var(node, node.target.id, self.eval(node.annotation))
        value = self.eval(node.value)
        value = value.value if isinstance(value, BindValue) else value
        return self._bind(node.target.id, as_expr(value, var.dtype), var)

    def _axis(self, node: ast.AST, name: str, axis: Axis) -> None:
        value = as_expr(axis.value)
        domain = axis.domain
        if isinstance(domain, tuple):
            domain = Range.from_min_extent(as_expr(domain[0]), extent_between(domain[0], domain[1]))
        elif not isinstance(domain, Range):
            domain = Range(as_expr(domain))
        var = Var(name, domain.extent.dtype)
        self.define(name, var)
        self._blocks[-1].iter_vars.append(IterVar(domain, var, axis.iter_type))
        self._blocks[-1].iter_values.append(value)

    def _declare_buffer(self, node: ast.AST, name: str, spec: BufferSpec) -> Stmt | None:
        buffer = self._make_buffer(spec, name)
        self.define(name, buffer)
        if spec.role == "alloc":
            return AllocBuffer(buffer, spec.annotations)  # type: ignore[arg-type]
        if spec.role == "sblock":
            self._blocks[-1].alloc_buffers.append(buffer)
        elif spec.role == "decl":
            return DeclBuffer(buffer) if isinstance(spec.data, Var) else AllocBuffer(buffer)
        elif isinstance(spec.source, Var):
            self._buffer_map[spec.source] = buffer
        else:
            self._blocks[-1].match_buffers.append(MatchBufferRegion(buffer, self._region(spec.source)))
        return None

    # ---- control

    def stmt_If(self, node: ast.If) -> Stmt:
        """`if` with its branches, each with names of its own."""
        condition = as_expr(self.eval(node.test))
        with self.scope():
            then_case = self.body(node.body)
        with self.scope():
            else_case = self.body(node.orelse) if node.orelse else None
        return IfThenElse(condition, then_case, else_case)

    def stmt_While(self, node: ast.While) -> Stmt:
        """`while`: a loop whose number of turns is not known."""
        condition = as_expr(self.eval(node.test))
        with self.scope():
            return While(condition, self.body(node.body))

    def stmt_Assert(self, node: ast.Assert) -> Stmt:
        """`assert condition, "message"`."""
        message = self.eval(node.msg) if node.msg is not None else "assertion failed"
        return AssertStmt(as_expr(self.eval(node.test)), str(message))

    def stmt_For(self, node: ast.For) -> Stmt:
        """`for`: one loop for each variable, of the kind that the frame names."""
        frame = self._loop_frame(node)
        names = (
            [e.id for e in node.target.elts if isinstance(e, ast.Name)]
            if isinstance(node.target, ast.Tuple)
            else ([node.target.id] if isinstance(node.target, ast.Name) else [])
        )
        if len(names) != len(frame.bounds):
            self.error(node.target, T0303, f"{len(frame.bounds)} loops need as many names, got {len(names)}")
        loops = []
        with self.scope():
            for name, (low, extent) in zip(names, frame.bounds, strict=True):
                low, extent = match_types(low, extent)
                var = Var(name, extent.dtype)
                self._ranges[var] = (low, extent)
                self.define(name, var)
                loops.append((var, low, extent))
            body = self.body(node.body)
        for var, low, extent in reversed(loops):
            body = For(var, low, extent, frame.kind, body, frame.thread, frame.annotations)  # type: ignore[arg-type]
        return body

    def _loop_frame(self, node: ast.For) -> LoopFrame:
        iterator = node.iter
        if (
            isinstance(iterator, ast.Call)
            and isinstance(iterator.func, ast.Name)
            and iterator.func.id == "range"
        ):
            result: LoopFrame = script.serial(*(self.eval(arg) for arg in iterator.args))
            return result
        frame = self.eval(iterator)
        if not isinstance(frame, LoopFrame):
            self.error(iterator, T0302, "a loop runs over range(...), T.grid(...), T.serial(...) or the like")
        return frame

    def stmt_With(self, node: ast.With) -> Stmt | None:
        """`with`: a block, its initial value, an attribute, or an allocation and its uses."""
        frame = self.eval(node.items[0].context_expr)
        if isinstance(frame, SBlockFrame):
            return self._sblock(node, frame)
        if isinstance(frame, InitFrame):
            with self.scope():
                self._blocks[-1].init = self.body(node.body)
            return None
        if isinstance(frame, AttrFrame):
            with self.scope():
                return AttrStmt(frame.node, frame.key, frame.value, self.body(node.body))
        self.error(node, T0302, "expected T.sblock, T.init or T.attr")

    def _sblock(self, node: ast.With, frame: SBlockFrame) -> Stmt:
        with self._block_scope() as info:
            body = self.body(node.body)
        block = SBlock(
            tuple(info.iter_vars),
            info.reads or (),
            info.writes or (),
            frame.name,
            body,
            info.init,
            tuple(info.alloc_buffers),
            tuple(info.match_buffers),
            info.annotations,  # type: ignore[arg-type]
        )
        if info.reads is None or info.writes is None:
            found_reads, found_writes = block_access_regions(block)
            block = SBlock(
                block.iter_vars,
                found_reads if info.reads is None else block.reads,
                found_writes if info.writes is None else block.writes,
                block.name_hint,
                block.body,
                block.init,
                block.alloc_buffers,
                block.match_buffers,
                block.annotations,
            )
        if frame.no_realize:
            return block
        predicate = info.predicate if info.predicate is not None else constant(True)
        return SBlockRealize(tuple(info.iter_values), predicate, block)

    @contextmanager
    def _block_scope(self) -> Iterator[_BlockInfo]:
        self._blocks.append(_BlockInfo())
        with self.scope():
            yield self._blocks[-1]
        self._blocks.pop()


def _flat(regions: tuple[Any, ...]) -> list[Any]:
    return [
        item for region in regions for item in (region if isinstance(region, (list, tuple)) else (region,))
    ]
