"""Parse graph functions from script text that `relax.print` or a user wrote."""

from __future__ import annotations

import ast
from collections.abc import Mapping, Sequence
from typing import Any

from heddle.graph.block_builder import BlockBuilder
from heddle.graph.claims import Claim, condition_problem
from heddle.graph.codes import R0307, R0308
from heddle.graph.infer import type_of
from heddle.graph.nodes import MatchCast, SeqExpr, VarBinding
from heddle.graph.op_builder import as_constant, build_call, const, graph_expr
from heddle.graph.op_words import TYPE_KEYWORDS, OpWord
from heddle.graph.type_relations import BaseCheck
from heddle.graph.types import VDevice
from heddle.graph.vdevices import vdevice_of
from heddle.ir.attrs import attrs_of
from heddle.ir.codes import I0301
from heddle.ir.expr import Call, Expr, ExternFunc, Function, GlobalVar, If, Tuple, TupleGetItem, Var
from heddle.ir.module import IRModule
from heddle.ir.op_def import OpDef
from heddle.ir.script_parser import ModuleAlias, decorator_of
from heddle.ir.types import AnyType, FuncType, Type
from heddle.prim.nodes import PrimExpr, SizeVar
from heddle.prim.nodes import Var as PrimVar
from heddle.relax import script
from heddle.relax.codes import R0401, R0402
from heddle.relax.metadata import NAME
from heddle.relax.script import (
    DataflowFrame,
    FuncAttrs,
    MatchCastWord,
    OutputWord,
    PackedCallWord,
    TypeWord,
)
from heddle.runtime.device import Device
from heddle.support.diagnostics import IRTypeError, did_you_mean
from heddle.support.span import Source, at
from heddle.support.syntax import parse_expression
from heddle.tir.parser import ScalarParser


def _metadata(constants: Sequence[Any] | None) -> dict[str, Any]:
    return {} if constants is None else {NAME: [as_constant(value) for value in constants]}


class FunctionParser(ScalarParser):
    """Parses the `@R.function` definitions of one module."""

    def __init__(
        self,
        source: Source,
        names: Mapping[str, Any],
        mod: IRModule | None = None,
        constants: Sequence[Any] | None = None,
        vdevices: Sequence[VDevice] = (),
    ) -> None:
        super().__init__(source, {**names, **_metadata(constants)})
        self.builder = BlockBuilder(mod)
        self._vdevices = vdevices
        self._attrs: list[dict[str, Any]] = []
        self._outputs: list[set[str]] = []

    # ---- functions

    def signature(self, node: ast.FunctionDef) -> FuncType:
        """Return the type of a function from its annotations, without its body."""
        with self.scope():
            params = tuple(self._parameter_type(arg) for arg in node.args.args)
            ret = self._signature_type(node.returns) if node.returns is not None else AnyType()
            return FuncType(params, ret, self._is_pure(node))

    def _is_pure(self, node: ast.FunctionDef) -> bool:
        option = decorator_of(node)[1].get("pure")
        return True if option is None else bool(self.eval(option))

    def parse(self, node: ast.FunctionDef, is_global: bool = True) -> Function:
        """Parse a function and bring it into normal form. Raises: ParseError, IRTypeError with the span."""
        private = not is_global or bool(decorator_of(node)[1].get("private"))
        with self.scope(), at(self.span(node)):
            self._define_numbers(node)
            params = []
            for arg in node.args.args:
                with at(self.span(arg)):
                    params.append(Var(arg.arg, self._parameter_type(arg)))
            for param in params:
                self.define(param.name_hint, param)
                self.builder.names.reserve(param.name_hint)
            declared = self._signature_type(node.returns) if node.returns is not None else None
            self._attrs.append({} if private else {"global_symbol": node.name})
            body = self._sequence(node.body)
            if declared is not None:
                self._claim("the result", declared, type_of(body.body))
            attrs = {key: value for key, value in self._attrs.pop().items() if value is not None}
            func = Function(tuple(params), body, declared, self._is_pure(node), attrs_of(attrs))
            return self.builder.normalize_function(func)

    def _define_numbers(self, node: ast.FunctionDef) -> None:
        """Define what `n = T.int64(is_size_var=False)` names in a body, for the result's type may use it."""
        for inner in ast.walk(node):
            if not isinstance(inner, ast.Assign) or not isinstance(inner.value, ast.Call):
                continue
            (target, *_), words = inner.targets, {word.arg: word.value for word in inner.value.keywords}
            says = words.get("is_size_var")
            if isinstance(target, ast.Name) and isinstance(says, ast.Constant) and says.value is False:
                made = self.eval(inner.value)
                if isinstance(made, PrimVar):
                    self.define(target.id, PrimVar(target.id, made.dtype, None, False))

    def _parameter_type(self, arg: ast.arg) -> Type:
        if arg.annotation is None:
            self.error(
                arg, R0401, f"parameter {arg.arg!r} has no type", 'write `x: R.Tensor((n, 4), "float32")`'
            )
        return self._signature_type(arg.annotation)

    def _signature_type(self, node: ast.expr) -> Type:
        """A type in which dimensions may be strings: new names in them are symbolic dimensions of the
        function."""
        return self._as_type(node, self.eval(node))

    def _as_type(self, node: ast.AST, value: Any) -> Type:
        if isinstance(value, TypeWord):
            return value.build(lambda dim: self._dim(node, dim))
        if isinstance(value, Type):
            return value
        self.error(node, R0401, f"expected a type such as R.Tensor, got {type(value).__name__}")

    def _dim(self, node: ast.AST, value: Any) -> Any:
        """A dimension given as text: a name, defined here where it is new, or an expression of names."""
        if not isinstance(value, str):
            return value
        try:
            tree = parse_expression(value)
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            self.error(node, R0401, f"dimension {value!r} is no expression")
        for name in sorted({n.id for n in ast.walk(tree) if isinstance(n, ast.Name)} - {"T"}):
            if not any(name in names for names in self.scopes):
                self.define(name, SizeVar(name))
        return self.eval(tree)

    # ---- statements

    def _sequence(self, nodes: list[ast.stmt], result: str | None = None) -> SeqExpr:
        """Bindings up to `return`, or up to the last assignment (to `result`) of a branch."""
        with self.scope(), self.builder.seq_scope() as scope:
            for node in nodes[:-1]:
                self._stmt(node)
            output = self._return(nodes[-1]) if result is None else self._branch_result(nodes[-1], result)
            scope.close_block()
            return SeqExpr(tuple(scope.blocks), output, type_of(output))

    def _return(self, node: ast.stmt) -> Expr:
        if not isinstance(node, ast.Return) or node.value is None:
            self.error(node, R0402, "a graph function ends with `return value`")
        with at(self.span(node)):
            return self.builder.leaf(self._value(node.value))

    def _branch_result(self, node: ast.stmt, name: str) -> Expr:
        target = (
            node.target
            if isinstance(node, ast.AnnAssign)
            else node.targets[0]
            if isinstance(node, ast.Assign)
            else None
        )
        if not isinstance(target, ast.Name) or target.id != name or node.value is None:  # type: ignore[attr-defined]
            self.error(node, R0402, f"both branches end with an assignment to {name!r}")
        with at(self.span(node)):
            return self.builder.leaf(self._value(node.value))  # type: ignore[attr-defined]

    def _value(self, node: ast.expr) -> Expr:
        return graph_expr(self.eval(node))

    def _stmt(self, node: ast.stmt) -> None:
        with at(self.span(node)):
            if isinstance(node, ast.Assign):
                self._assign(node, node.targets[0], node.value, None)
            elif isinstance(node, ast.AnnAssign) and node.value is not None:
                self._assign(node, node.target, node.value, node.annotation)
            elif isinstance(node, ast.Expr):
                self._expression(node)
            elif isinstance(node, ast.With):
                self._with(node)
            elif isinstance(node, ast.If):
                self._if(node)
            elif isinstance(node, ast.FunctionDef):
                self._local_function(node)
            elif not isinstance(node, ast.Pass):
                self.error(node, R0402, f"{type(node).__name__} is not a statement of graph functions")

    def _assign(
        self, node: ast.stmt, target: ast.expr, value_node: ast.expr, annotation: ast.expr | None
    ) -> None:
        value = self.eval(value_node)
        if isinstance(target, ast.Tuple) and isinstance(value_node, ast.Tuple) and _are_dims(value, target):
            for item, part in zip(target.elts, value_node.elts, strict=True):  # n, m = T.int64(), T.int64()
                self._assign(node, item, part, None)
            return
        if isinstance(target, ast.Tuple):
            self._unpack(target, graph_expr(value))
            return
        if not isinstance(target, ast.Name):
            self.error(node, R0402, "expected a name on the left")
        name = target.id
        if isinstance(value, ModuleAlias):
            self.define(name, value)
        elif isinstance(value, PrimVar) and isinstance(value_node, ast.Call):
            if not self._has_prim_var(name):
                self.define(name, SizeVar(name, value.dtype))
        elif isinstance(value, MatchCastWord):
            self._match_cast(value_node, name, value, annotation)
        else:
            ty = self._signature_type(annotation) if annotation is not None else None
            self._bind(name, graph_expr(value), ty)

    def _has_prim_var(self, name: str) -> bool:
        return any(isinstance(names.get(name), PrimVar) for names in self.scopes)

    def _bind(self, name: str, value: Expr, ty: Type | None) -> None:
        normal = self.builder.value(value)
        if ty is not None:
            self._claim(f"variable {name!r}", ty, type_of(normal))
        var = self._new_var(name, ty if ty is not None else type_of(normal))
        self.builder.names.reserve(name)
        self.builder.add(VarBinding(var, normal))
        self.define(name, var)

    def _claim(self, who: str, stated: Type, known: Type) -> None:
        """Check a stated type. Raises: IRTypeError R0307 if no value of the known type can have it."""
        claim = Claim(who, stated, known)
        if claim.check(self.builder.analyzer) is BaseCheck.FAIL_L0:
            raise IRTypeError(R0307, str(claim))

    def _new_var(self, name: str, ty: Type) -> Var:
        is_dataflow = self.builder.scopes[-1].is_dataflow and name not in self._outputs[-1]
        return Var(name, ty, is_dataflow)

    def _match_cast(self, node: ast.AST, name: str, word: MatchCastWord, annotation: ast.expr | None) -> None:
        ty = word.ty.build(lambda dim: self._dim(node, dim)) if isinstance(word.ty, TypeWord) else word.ty
        declared = self._signature_type(annotation) if annotation is not None else ty
        self._claim(f"variable {name!r}", declared, ty)
        var = self._new_var(name, declared)
        self.builder.add(MatchCast(var, self.builder.leaf(graph_expr(word.value)), ty))
        self.define(name, var)

    def _unpack(self, target: ast.Tuple, value: Expr) -> None:
        whole = self.builder.leaf(value)
        for index, element in enumerate(target.elts):
            if isinstance(element, ast.Name):
                self._bind(element.id, TupleGetItem(whole, index), None)

    def _expression(self, node: ast.Expr) -> None:
        if isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            return
        value = self.eval(node.value)
        if isinstance(value, FuncAttrs):
            attrs = self._attrs[-1]
            for key in value.values:
                attrs.pop(key, None)  # the order is that of the text
            attrs.update(value.values)
        elif not isinstance(value, OutputWord):
            self._bind(self.builder.get_unique_name("_"), graph_expr(value), None)

    def _with(self, node: ast.With) -> None:
        if not isinstance(self.eval(node.items[0].context_expr), DataflowFrame):
            self.error(node, R0402, "expected `with R.dataflow():`")
        self._outputs.append(self._output_names(node))
        with self.builder.dataflow():
            for stmt in node.body:
                self._stmt(stmt)
        self._outputs.pop()

    def _output_names(self, node: ast.With) -> set[str]:
        """Return the names in the block's `R.output(...)`. These variables are visible outside the block."""
        last = node.body[-1]
        call = last.value if isinstance(last, ast.Expr) else None
        if not (isinstance(call, ast.Call) and self.eval(call.func) is script.output):
            self.error(last, R0402, "a dataflow block ends with R.output(...)")
        return {arg.id for arg in call.args if isinstance(arg, ast.Name)}

    def _if(self, node: ast.If) -> None:
        last = node.body[-1]
        target = (
            last.target
            if isinstance(last, ast.AnnAssign)
            else last.targets[0]
            if isinstance(last, ast.Assign)
            else None
        )
        if not isinstance(target, ast.Name) or not node.orelse:
            self.error(
                node, R0402, "both branches of an if are needed and end with an assignment to one name"
            )
        condition = self.builder.leaf(self._value(node.test))
        problem = condition_problem(type_of(condition), self.builder.analyzer)
        if problem is not None:
            raise IRTypeError(R0308, problem)
        branches = self._sequence(node.body, target.id), self._sequence(node.orelse, target.id)
        annotation = last.annotation if isinstance(last, ast.AnnAssign) else None
        ty = self._signature_type(annotation) if annotation is not None else None
        self._bind(target.id, If(condition, *branches), ty)

    def _local_function(self, node: ast.FunctionDef) -> None:
        """Parse a local function. Its name is visible inside it, so that it may recurse."""
        var = Var(node.name, self.signature(node))
        self.define(node.name, var)
        func = self.parse(node, is_global=False)
        self.builder.add(VarBinding(var, func))

    # ---- expressions

    def eval_Attribute(self, node: ast.Attribute) -> Any:
        """`module.name`: a function of the module.

        Raises: ParseError I0301 where it has none of that name.
        """
        owner = self.eval(node.value)
        if isinstance(owner, ModuleAlias):
            if node.attr not in owner.functions:
                help = did_you_mean(node.attr, owner.functions)
                self.error(node, I0301, f"the module has no function {node.attr!r}", help)
            return owner.functions[node.attr]
        return super().eval_Attribute(node)

    def eval_Subscript(self, node: ast.Subscript) -> Any:
        """Evaluate `value[index]`: an item of a tuple in the graph, or Python indexing of other values."""
        owner = self.eval(node.value)
        if isinstance(owner, Expr) and not isinstance(owner, (Tuple, PrimExpr)):
            return TupleGetItem(owner, int(self.eval(node.slice)))
        return super().eval_Subscript(node)

    def call(self, node: ast.Call, function: Any, args: list[Any], kwargs: dict[str, Any]) -> Any:
        """A call in a graph function: of an operator, a packed function, a function of the module, or a word
        of `R`."""
        if function is script.Tensor:
            return function(*self._with_device(args, 2), **self._with_device_named(kwargs, "vdevice"))
        if function is const and len(args) > 1 and isinstance(args[1], TypeWord):
            return function(args[0], self._as_type(node, args[1]))
        if isinstance(function, OpWord):
            args, kwargs = self._device_attrs(function.record, args, kwargs)
            types = next((kwargs.pop(key) for key in TYPE_KEYWORDS if key in kwargs), ())
            return build_call(function.record, args, kwargs, self._types(node, types))
        if isinstance(function, PackedCallWord):
            types = next((kwargs.pop(key) for key in TYPE_KEYWORDS if key in kwargs), ())
            return function.build(args, kwargs, self._types(node, types))
        if isinstance(function, (Var, GlobalVar, ExternFunc)):
            attrs = attrs_of(kwargs.pop("attrs", None))
            types = self._types(node, kwargs.pop("ty_args", ()))
            return Call(function, tuple(graph_expr(arg) for arg in args), attrs, types)
        return super().call(node, function, args, kwargs)

    def _with_device(self, args: list[Any], at: int) -> list[Any]:
        """Arguments of which one may name a virtual device of the module."""
        if len(args) <= at or not isinstance(args[at], (str, Device)):
            return args
        return [*args[:at], vdevice_of(args[at], self._vdevices), *args[at + 1 :]]

    def _with_device_named(self, kwargs: dict[str, Any], name: str) -> dict[str, Any]:
        if not isinstance(kwargs.get(name), (str, Device)):
            return kwargs
        scope = kwargs.get("memory_scope", "global")
        return {**kwargs, name: vdevice_of(kwargs[name], self._vdevices, scope)}

    def _device_attrs(
        self, record: OpDef, args: list[Any], kwargs: dict[str, Any]
    ) -> tuple[list[Any], dict[str, Any]]:
        for position, spec in enumerate(record.attrs, len(record.inputs)):
            if spec.kind == "vdevice":
                args = self._with_device(args, position)
                kwargs = self._with_device_named(kwargs, spec.name)
        return args, kwargs

    def _types(self, node: ast.AST, given: Any) -> tuple[Type, ...]:
        items = given if isinstance(given, (list, tuple)) else [given]
        return tuple(self._as_type(node, item) for item in items)


def _are_dims(value: Any, target: ast.Tuple) -> bool:
    same = isinstance(value, tuple) and len(value) == len(target.elts)
    return same and all(isinstance(item, PrimVar) for item in value)
