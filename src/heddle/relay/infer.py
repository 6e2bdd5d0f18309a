"""Type inference: every expression gets a type, every variable and result its annotation.

Types are made the same as the program says (`relay.unify`); operators are relations between types that are
tried again until none goes on (`relay.relations`). A let is monomorphic unless its value is a function with
type parameters. Globals are seen with their annotated types. The work grows with the number of distinct
nodes.
"""

from __future__ import annotations

from types import GeneratorType
from typing import Any

from heddle.graph.infer import function_type
from heddle.graph.types import TensorType
from heddle.ir.expr import Call, Constant, Function, GlobalVar, If, Tuple, TupleGetItem, Var, is_relay
from heddle.ir.module import IRModule
from heddle.ir.op import Op
from heddle.ir.structural import structural_equal
from heddle.ir.type_data import Constructor, TypeCall
from heddle.ir.types import FuncType, TupleType, Type
from heddle.ir.visitor import walk_distinct
from heddle.relay.cases import unmatched_cases
from heddle.relay.codes import Q0301, Q0302, Q0303, Q0304, Q0305, Q0306, Q0307, Q0308
from heddle.relay.expand import without_symbols
from heddle.relay.functor import methods_by_class
from heddle.relay.kinds import check_kind
from heddle.relay.nodes import (
    IncompleteType,
    Let,
    Match,
    PatternConstructor,
    PatternTuple,
    PatternVar,
    RefCreate,
    RefRead,
    RefType,
    RefWrite,
)
from heddle.relay.print import pattern_text
from heddle.relay.relations import Relations
from heddle.relay.text_values import type_text
from heddle.relay.unify import Mismatch, instantiate
from heddle.runtime.dtype import DataType
from heddle.support.diagnostics import Code, Diagnostic, HeddleError, IRTypeError, did_you_mean
from heddle.support.trampoline import Recursion

MOST_FINDINGS = 20
ANNOTATE = "give parameters and results types, or use the function on values that have them"
_BOOL = TensorType((), DataType("bool"))


class Inference:
    """The types of the expressions of one program."""

    def __init__(self, mod: IRModule) -> None:
        self.mod = mod
        self.findings: list[Diagnostic] = []
        self.relations = Relations(self._report)
        self.unifier = self.relations.unifier
        self.types: dict[int, Type] = {}
        self.vars: dict[Var, Type] = {}
        self.globals: dict[GlobalVar, Type] = {}
        self.type_args: dict[int, tuple[Type, ...]] = {}
        self.matches: list[Match] = []
        self._checked: set[int] = set()
        self._done: set[int] = set()
        """The functions whose bodies were seen."""

    # ---- findings

    def _report(self, finding: Diagnostic) -> None:
        if len(self.findings) < MOST_FINDINGS:
            self.findings.append(finding)

    def error(self, code: Code, message: str, node: Any, *notes: str, help: str | None = None) -> Type:
        """Note what is wrong; gives the type that inference goes on with."""
        self._report(Diagnostic(code, message, node.span, notes, help))
        return IncompleteType(span=None)

    def same(
        self, got: Type, expected: Type, what: str, node: Any, user: Any = None, help: str | None = None
    ) -> Type:
        """Make two types the same. Notes what is wrong at `node`; at `user`, which names it, where that is a
        variable, whose place is its definition."""
        try:
            return self.unifier.unify(expected, got)
        except Mismatch as error:
            code = Q0308 if error.is_infinite else Q0301
            message = f"{what}: expected {self.text(expected)}, got {self.text(got)}"
            place = user if user is not None and isinstance(node, Var) else node
            return self.error(code, message, place, error.reason, help=help)

    def text(self, ty: Type) -> str:
        """A type as messages show it."""
        return type_text(self.unifier.resolve(ty))

    # ---- definitions

    def var_type(self, var: Var) -> Type:
        """The type of a variable, the same object each time: its annotation, or an incomplete type."""
        known = self.vars.get(var)
        if known is None:
            known = self.vars[var] = self._annotation(var.ty, var)
        return known

    def _annotation(self, ty: Type | None, node: Any) -> Type:
        """A type as it is written, checked; an incomplete one where there is none."""
        if ty is None:
            return IncompleteType(span=None)
        if id(ty) not in self._checked:
            self._checked.add(id(ty))
            try:
                kind = check_kind(ty, self.mod)
                if kind not in (0, 2):
                    return self.error(
                        Q0306, f"expected a type of values, got {type_text(ty)} of kind {kind.name}", node
                    )
            except HeddleError as error:
                return self.error(error.diagnostics[0].code, error.diagnostics[0].message, node)
        return ty

    def signature(self, func: Function) -> FuncType:
        """The type of a function, from its annotations; what is missing is incomplete."""
        known = self.types.get(id(func))
        if known is None:
            params = tuple(self.var_type(param) for param in func.params)
            ret = self._annotation(func.ret_ty, func)
            known = self.types[id(func)] = FuncType(params, ret, True, func.type_params)
        assert isinstance(known, FuncType)
        return known

    def global_type(self, var: GlobalVar, node: Any) -> Type:
        """The type of a function of the module. Notes Q0307 at `node` where there is no such function."""
        known = self.globals.get(var)
        if known is None:
            func = self.mod.get(var)
            if isinstance(func, Function) and not is_relay(func):
                known = without_symbols(function_type(func))
            elif isinstance(func, Function):
                known = func.ty if func.ty and is_current(func, self.mod) else self.signature(func)
            elif func is not None and getattr(func, "ty", None) is not None:
                known = func.ty
            else:
                names = [item.name_hint for item in self.mod.functions]
                known = self.error(
                    Q0307,
                    f"the module has no function @{var.name_hint}",
                    node,
                    help=did_you_mean(var.name_hint, names),
                )
            self.globals[var] = known
        return known

    # ---- expressions

    def infer(self, expr: Any) -> Recursion:
        """The type of an expression; the same for a shared one."""
        known = self.types.get(id(expr))
        if known is not None and not isinstance(expr, Function):
            return known
        method = _RULES.get(type(expr))
        if method is None:
            return self.error(Q0303, f"{type(expr).__name__} is no expression of Relay", expr)
        found = method(self, expr)
        if isinstance(found, GeneratorType):
            found = yield found
        self.types[id(expr)] = found
        return found

    def _var(self, expr: Var) -> Type:
        return self.var_type(expr)

    def _global_var(self, expr: GlobalVar) -> Recursion:
        func = self.mod.get(expr)
        if isinstance(func, Function) and func.ret_ty is None and func.dialect == "relay":
            yield self.infer(func)  # what it gives is known only from its body
        return self.global_type(expr, expr)

    def _constant(self, expr: Constant) -> Type:
        return TensorType(tuple(expr.data.shape), expr.data.dtype)

    def _op(self, expr: Op) -> Type:
        return self.error(
            Q0303,
            f"operator {expr.name} is used as a value",
            expr,
            help=f"write a function that calls it: fn (%x) {{ {expr.name}(%x) }}",
        )

    def _constructor(self, expr: Constructor) -> Type:
        """A function that is generic in the variables of the data type."""
        definition = self.mod.type_definitions.get(expr.belong_to)
        if definition is None:
            return self.error(
                Q0307, f"the module has no type {expr.belong_to.name_hint}, of {expr.name_hint}", expr
            )
        own = definition.constructor(expr.name_hint) or expr
        for field in own.inputs:
            self._annotation(field, own if own.span is not None else expr)
        result = TypeCall(definition.header, definition.type_vars)
        return FuncType(own.inputs, result, True, definition.type_vars)

    def _tuple(self, expr: Tuple) -> Recursion:
        fields = []
        for item in expr.fields:
            fields.append((yield self.infer(item)))
        return TupleType(tuple(fields))

    def _tuple_getitem(self, expr: TupleGetItem) -> Recursion:
        value = yield self.infer(expr.tuple_value)
        return self.relations.add(expr, [value])

    def _if(self, expr: If) -> Recursion:
        cond = yield self.infer(expr.cond)
        hint = "compare numbers, and reduce tensors with all or any"
        self.same(cond, _BOOL, "the condition of if", expr.cond, expr, help=hint)
        true = yield self.infer(expr.true_branch)
        false = yield self.infer(expr.false_branch)
        return self.same(false, true, "the branches of if differ", expr.false_branch, expr)

    def _let(self, expr: Let) -> Recursion:
        """The variable has the type of the value: that of a function is known before its body, which may call
        it."""
        value = expr.value
        known = self.signature(value) if isinstance(value, Function) else (yield self.infer(value))
        if expr.var.ty is None and expr.var not in self.vars:
            self.vars[expr.var] = known
        else:
            self.same(known, self.var_type(expr.var), f"the value of %{expr.var.name_hint}", value, expr)
        if isinstance(value, Function):
            yield self.infer(value)
        return (yield self.infer(expr.body))

    def _function(self, expr: Function) -> Recursion:
        known = self.signature(expr)
        if id(expr) in self._done:
            return known
        self._done.add(id(expr))
        body = yield self.infer(expr.body)
        self.same(body, known.ret, "the result of the function", expr.body, expr)
        return known

    def _match(self, expr: Match) -> Recursion:
        data = yield self.infer(expr.data)
        if expr.complete:
            self.matches.append(expr)
        result: Type = IncompleteType(span=None)
        for clause in expr.clauses:
            self.pattern(clause.lhs, data)
            found = yield self.infer(clause.rhs)
            result = self.same(found, result, "the clauses of match differ", clause.rhs, clause)
        return result

    def pattern(self, pattern: Any, ty: Type) -> None:
        """Match a pattern with a value's type, and give its variables theirs. Notes what is wrong."""
        if isinstance(pattern, PatternVar):
            self.same(ty, self.var_type(pattern.var), f"pattern variable %{pattern.var.name_hint}", pattern)
        elif isinstance(pattern, PatternTuple):
            fields = tuple(IncompleteType(span=None) for _ in pattern.patterns)
            found = self.same(ty, TupleType(fields), "a tuple pattern", pattern)
            self._patterns(pattern, found.fields if isinstance(found, TupleType) else fields)
        elif isinstance(pattern, PatternConstructor):
            whole = self._constructor(pattern.constructor)
            if not isinstance(whole, FuncType):
                return
            inputs, result, _ = instantiate(whole)
            self.same(ty, result, f"pattern {pattern.constructor.name_hint}", pattern)
            if len(inputs) != len(pattern.patterns):
                self.error(
                    Q0302,
                    f"constructor {pattern.constructor.name_hint} has {len(inputs)} fields, the pattern "
                    f"{len(pattern.patterns)}",
                    pattern,
                )
            self._patterns(pattern, inputs)

    def _patterns(self, pattern: Any, types: tuple[Type, ...]) -> None:
        for item, ty in zip(pattern.patterns, types, strict=False):
            self.pattern(item, ty)

    def _ref_create(self, expr: RefCreate) -> Recursion:
        return RefType((yield self.infer(expr.value)))

    def _ref_read(self, expr: RefRead) -> Recursion:
        ref = yield self.infer(expr.ref)
        return self._referred(ref, expr)

    def _ref_write(self, expr: RefWrite) -> Recursion:
        ref = yield self.infer(expr.ref)
        value = yield self.infer(expr.value)
        self.same(value, self._referred(ref, expr), "what is written to the reference", expr.value, expr)
        return TupleType(())

    def _referred(self, ref: Type, expr: Any) -> Type:
        known = self.unifier.root(ref)
        if isinstance(known, RefType):
            return known.value
        value = IncompleteType(span=None)
        self.same(ref, RefType(value), "a reference", expr.ref, expr)
        return value

    # ---- calls

    def _call(self, expr: Call) -> Recursion:
        callee = None if isinstance(expr.op, Op) else (yield self.infer(expr.op))
        args = []
        for arg in expr.args:
            args.append((yield self.infer(arg)))
        if callee is None:
            return self.relations.add(expr, args)
        return self._apply(expr, self.unifier.root(callee), args)

    def _apply(self, expr: Call, callee: Type, args: list[Type]) -> Type:
        if isinstance(callee, IncompleteType):
            found = IncompleteType(span=None)
            self.same(FuncType(tuple(args), found), callee, "the callee", expr)
            return found
        if not isinstance(callee, FuncType):
            message = f"a value of type {self.text(callee)} is called"
            return self.error(Q0303, message, expr, help="functions, operators and constructors are called")
        if len(expr.ty_args) > len(callee.type_params):
            return self.error(
                Q0302,
                f"{_name(expr.op)} takes {len(callee.type_params)} type arguments, got {len(expr.ty_args)}",
                expr,
            )
        if callee.type_params:
            callee = self.unifier.resolve(callee)  # what its body said of a result without annotation
            assert isinstance(callee, FuncType)
        given = tuple(self._annotation(item, expr) for item in expr.ty_args)
        params, ret, type_args = instantiate(callee, given)
        self.type_args[id(expr)] = type_args
        if len(params) != len(args):
            message = f"{_name(expr.op)} takes {len(params)} arguments, got {len(args)}"
            return self.error(Q0302, message, expr, help=f"its type is {self.text(callee)}")
        for place, (param, arg) in enumerate(zip(params, args, strict=True)):
            what = f"argument {place} of {_name(expr.op)}"
            self.same(self.unifier.root(arg), param, what, expr.args[place], expr)
        return ret

    # ---- the end

    def finish(self) -> None:
        """Settle what waits. Raises: IRTypeError with all findings."""
        self.relations.settle()
        if not self.findings:
            for relation in self.relations.all:
                if relation.known is None:
                    opened = self._open(relation.args)
                    self.error(Q0304, "unable to infer a type", relation.expr, opened, help=ANNOTATE)
        if not self.findings:
            for match in self.matches:
                self._check_cases(match)
        self.raise_findings()

    def _open(self, args: list[Type]) -> str:
        shown = ", ".join(self.text(arg) for arg in args)
        return f"the types of the arguments are ({shown}): annotate a variable"

    def _check_cases(self, match: Match) -> None:
        missed = unmatched_cases(match, self.mod)
        if missed:
            shown = ", ".join(pattern_text(case) for case in missed[:5])
            more = f" and {len(missed) - 5} more" if len(missed) > 5 else ""
            self.error(
                Q0305, f"the match does not cover {shown}{more}", match, help="add clauses, or write match?"
            )

    def raise_findings(self) -> None:
        """Raises: IRTypeError with what was noted, if something was."""
        if self.findings:
            raise IRTypeError(self.findings)


def _name(callee: Any) -> str:
    if isinstance(callee, GlobalVar):
        return f"@{callee.name_hint}"
    if isinstance(callee, Var):
        return f"%{callee.name_hint}"
    return callee.name_hint if isinstance(callee, Constructor) else "the function"


_RULES = methods_by_class(Inference)


def is_current(func: Function, mod: IRModule) -> bool:
    """Whether a function has the types that inference would find: it was inferred as it is (who changes a
    part of an expression drops the types around it), and what it names has the same type still."""
    if func.ty is None or func.ret_ty is None:
        return False
    for node in walk_distinct(func):
        if isinstance(node, GlobalVar):
            known = mod.get(node)
            ty = getattr(known, "ty", None)
            if ty is not None and not is_relay(known):
                ty = without_symbols(ty)
            if node.ty is None or ty is None or not (node.ty is ty or structural_equal(node.ty, ty)):
                return False
        elif isinstance(node, Constructor):
            definition = mod.type_definitions.get(node.belong_to)
            if definition is None or definition.constructor(node.name_hint) is not node:
                return False
    return True
