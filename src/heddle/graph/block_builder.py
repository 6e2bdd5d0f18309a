"""BlockBuilder: building graph functions binding by binding.

bb = BlockBuilder()
with bb.function("main", [x, w]):
    with bb.dataflow():
        y = bb.emit(op.matmul(x, w))
        z = bb.emit_output(op.nn.relu(y))
    bb.emit_func_output(z)
mod = bb.get()
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from heddle.graph.codes import R0501
from heddle.graph.core_ops import CALL_TIR
from heddle.graph.infer import function_type, type_of
from heddle.graph.nodes import Binding, MatchCast, SeqExpr, VarBinding
from heddle.graph.normalize import Normalizer, Scope
from heddle.graph.op_builder import graph_expr
from heddle.graph.te_call import te_call
from heddle.graph.types import ShapeExpr
from heddle.ir.attrs import attrs_of
from heddle.ir.expr import BaseFunc, Call, Expr, Function, GlobalVar, Tuple, Var
from heddle.ir.module import IRModule
from heddle.ir.op import Op
from heddle.ir.structural import structural_digest, structural_equal, structural_start
from heddle.ir.types import Type
from heddle.support.diagnostics import UsageError
from heddle.support.span import Span, ambient_span


@dataclass(slots=True)
class _FunctionFrame:
    name: str
    params: tuple[Var, ...]
    attrs: Mapping[str, Any]
    is_pure: bool
    private: bool
    span: Span | None
    output: Expr | None = None
    known: dict[Var, Expr] = field(default_factory=dict)


@dataclass
class _Added:
    """A function that was added to a module. Its digest is made where another one begins alike."""

    var: GlobalVar
    func: BaseFunc

    @cached_property
    def digest(self) -> bytes:
        return structural_digest(self.func)


class BlockBuilder(Normalizer):
    """Builds functions from bindings, and a module from functions. Values are normalised and typed when they
    are added."""

    def __init__(self, mod: IRModule | None = None) -> None:
        super().__init__(mod.clone() if mod is not None else IRModule())
        self._frames: list[_FunctionFrame] = []
        self._alike: dict[bytes, list[_Added]] = {}
        self.global_names = self.module.names()

    @property
    def module(self) -> IRModule:
        """Return the module with the finished functions."""
        assert self.mod is not None
        return self.mod

    def get(self) -> IRModule:
        """The module so far."""
        return self.module.clone()

    finalize = get

    # ---- functions and blocks

    @contextmanager
    def function(
        self,
        name: str = "main",
        params: Var | Sequence[Var] | None = None,
        attrs: Mapping[str, Any] | None = None,
        private: bool = False,
        pure: bool = True,
    ) -> Iterator[None]:
        """Open a function. When the `with` block ends, it is added to the module. Raises: UsageError R0501
        without `emit_func_output`."""
        given = (params,) if isinstance(params, Var) else tuple(params or ())
        frame = _FunctionFrame(name, given, dict(attrs or {}), pure, private, ambient_span())
        self._frames.append(frame)
        for param in given:
            self.names.reserve(param.name_hint)
        with self.scope() as scope:
            yield
            scope.close_block()
        self._frames.pop()
        self._finish(frame, scope)

    def _finish(self, frame: _FunctionFrame, scope: Scope) -> None:
        if frame.output is None:
            raise UsageError(R0501, f"function {frame.name!r} ends without emit_func_output", span=frame.span)
        body = SeqExpr(tuple(scope.blocks), frame.output, type_of(frame.output))
        attrs = dict(frame.attrs)
        if not frame.private:
            attrs.setdefault("global_symbol", frame.name)
        func = Function(
            frame.params, body, type_of(frame.output), frame.is_pure, attrs_of(attrs), span=frame.span
        )
        self.module[frame.name] = self.normalize_function(func)

    @contextmanager
    def dataflow(self) -> Iterator[None]:
        """Open a dataflow block inside a function."""
        scope = self._scope()
        scope.close_block()
        scope.is_dataflow = True
        yield
        scope.close_block()

    @contextmanager
    def seq_scope(self) -> Iterator[Scope]:
        """Open a nested sequence (a branch); the caller takes its blocks."""
        with self.scope() as scope:
            yield scope

    def _scope(self) -> Scope:
        if not self.scopes:
            raise UsageError(
                R0501, "a binding needs an open function", help="use `with bb.function(name, params):`"
            )
        return self.scopes[-1]

    # ---- bindings

    def emit(self, expr: Any, name_hint: str = "", is_output: bool = False) -> Var:
        """Bind an expression to a new variable and return it. Inside a dataflow block it is a dataflow
        variable."""
        scope = self._scope()
        if isinstance(expr, VarBinding):
            self.rebind(expr)
            return expr.var
        value = self.value(graph_expr(expr))
        hint = name_hint or ("gv" if is_output or not scope.is_dataflow else "lv")
        var = self.bind(value, hint, is_output)
        if self._frames:
            self._frames[-1].known[var] = value
        return var

    def emit_output(self, expr: Any, name_hint: str = "") -> Var:
        """Bind an output of the open dataflow block: a variable that is visible outside the block."""
        return self.emit(expr, name_hint, is_output=True)

    def emit_normalized(self, binding: Binding) -> Var:
        """Add a binding that is already in normal form."""
        self._scope()
        self.add(binding)
        return binding.var

    def match_cast(self, value: Any, ty: Type, name_hint: str = "") -> Var:
        """Bind a variable to a value whose type is checked at run time."""
        scope = self._scope()
        leaf = self.leaf(graph_expr(value))
        var = Var(self.names.fresh(name_hint or "lv"), ty, scope.is_dataflow)
        self.add(MatchCast(var, leaf, ty))
        return var

    def emit_func_output(self, output: Any, params: Sequence[Var] | None = None) -> GlobalVar:
        """Set the result of the open function; several values become a tuple."""
        if not self._frames:
            raise UsageError(R0501, "emit_func_output needs an open function")
        frame = self._frames[-1]
        if frame.output is not None:
            raise UsageError(R0501, f"function {frame.name!r} has an output already")
        if params is not None:
            frame.params = tuple(params)
        scope = self._scope()
        if scope.is_dataflow:
            raise UsageError(R0501, "emit_func_output inside a dataflow block", help="close the block first")
        frame.output = self.leaf(graph_expr(output))
        return GlobalVar(frame.name)

    def lookup_binding(self, var: Var) -> Expr | None:
        """Return the value to which a variable is bound."""
        return next((frame.known[var] for frame in reversed(self._frames) if var in frame.known), None)

    def normalize(self, expr: Expr) -> Expr:
        """Return the expression in normal form. Bindings that it needs are added to the open block."""
        if isinstance(expr, Function):
            return self.normalize_function(expr)
        if self.scopes:
            return self.value(graph_expr(expr))
        with self.scope() as scope:
            value = self.value(graph_expr(expr))
            scope.close_block()
            return (
                value if not scope.blocks else SeqExpr(tuple(scope.blocks), self.leaf(value), type_of(value))
            )

    def get_unique_name(self, hint: str) -> str:
        """Return a name that begins with `hint` and that no variable has yet."""
        return self.names.fresh(hint)

    # ---- functions of the module

    def add_func(self, func: BaseFunc, name: str) -> GlobalVar:
        """Add a function to the module under a unique name. If there is an equal private loop function, that
        one is used instead."""
        bare = func.without_attr("global_symbol") if "global_symbol" in func.attrs else func
        alike = self._alike.setdefault(structural_start(bare), [])
        digest = structural_digest(bare) if alike else b""
        for other in alike:
            if other.digest == digest and structural_equal(bare, self.module[other.var]):
                return other.var
        var = GlobalVar(self.global_names.fresh(name), function_type(func))
        self.module[var] = bare
        alike.append(_Added(var, bare))
        return var

    def update_func(self, var: GlobalVar, func: BaseFunc) -> None:
        """Replace a function of the module."""
        self.module[var] = func

    # ---- tensor expressions

    def call_te(self, function: Callable[..., Any], *args: Any, **kwargs: Any) -> Call:
        """Create a loop function from a tensor-expression function, and return a `call_tir` of it with these
        arguments.

        The keyword `primfunc_name_hint` names the function.
        """
        own = getattr(function, "__name__", "")
        name = kwargs.pop("primfunc_name_hint", None) or (own if own.isidentifier() else "te_func")
        func, tensors, out, symbols = te_call(self.leaf, function, args, kwargs)
        var = self.add_func(func, name)
        call_args: list[Expr] = [var, Tuple(tuple(tensors))]
        if symbols:
            call_args.append(ShapeExpr(tuple(symbols)))
        return Call(Op.get(CALL_TIR), tuple(call_args), attrs_of({}), (out,))

    def emit_te(self, function: Callable[..., Any], *args: Any, **kwargs: Any) -> Var:
        """Bind the result of `call_te`. Keyword `name_hint` names the variable."""
        hint = kwargs.pop("name_hint", "")
        return self.emit(self.call_te(function, *args, **kwargs), hint)
