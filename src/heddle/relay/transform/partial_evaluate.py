"""What is known of a program, computed when it is compiled: calls, branches, matches and cells."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from dataclasses import replace as replace_fields
from typing import Any

from heddle.graph.values import is_true
from heddle.ir.call_graph import is_recursive, on_cycles
from heddle.ir.expr import Call, Constant, Function, GlobalVar, If, Tuple, TupleGetItem, Var, is_relay
from heddle.ir.module import IRModule
from heddle.ir.node import replace
from heddle.ir.op import Op
from heddle.ir.pass_options import option
from heddle.ir.structural import structural_equal
from heddle.ir.transform import PassContext
from heddle.ir.type_data import Constructor
from heddle.ir.types import Type
from heddle.ir.variables import free_vars
from heddle.ir.visitor import rebuild
from heddle.relay.nodes import Let, Match, RefCreate, RefRead, RefWrite
from heddle.relay.transform.copying import Lines, branched, lets
from heddle.relay.transform.fold_constant import Folder
from heddle.relay.transform.inline import INLINE
from heddle.relay.transform.known_values import (
    Cell,
    Closure,
    Data,
    Frame,
    Value,
    constant_parts,
    constant_value,
    fits,
    size_of,
)
from heddle.relay.transform.recursion import has_knots
from heddle.relay.transform.rewriting import TypedPass, array_of
from heddle.relay.transform.to_a_normal_form import ToANormalFormExpr, is_atomic
from heddle.relay.typed import infer_expr
from heddle.relay.types import is_dynamic
from heddle.relay.unify import types_of_instance
from heddle.support.diagnostics import HeddleError
from heddle.support.frozen import frozen
from heddle.support.trampoline import Recursion, run


@frozen
class PartialEvaluate(TypedPass):
    """Compute what is known: functions are written where they are called, branches and clauses that are known
    are chosen, cells are followed, operators on constants become constants.

        def @pow(%n: int32, %x: float32) -> float32 { if (%n == 0) { 1f } else { %x * @pow(%n - 1, %x) } }
        def @main(%x: float32) { @pow(2, %x) }

    becomes

        def @main(%x: float32) { let %a = %x * 1f; let %b = %x * %a; %b }

    beside `@pow`. The result is in A-normal form; effects stay, in their order. What nobody uses any more
    stays too: `DeadCodeElimination` and `RemoveUnusedFunctions` leave it out. A function that calls itself is
    unfolded where that comes to an end: each call has a smaller argument (data by constructors, an integer by
    its value), until none is left, or one of whose arguments nothing is known. In each function of a module
    as many calls as `unfoldings` says are unfolded. Where these are enough, the pass leaves its result alone.
    """

    unfoldings: int = option(1000, at_least=0)
    opt_level = 1

    def transform(self, mod: IRModule, ctx: PassContext) -> IRModule:
        made, before = TypedPass.transform(self, mod, ctx), on_cycles(mod)
        while before > (left := on_cycles(made)):  # those may be unfolded anywhere now
            made, before = TypedPass.transform(self, made, ctx), left
        return made

    def change(self, func: Function, mod: IRModule) -> Function:
        if not _is_plain(func):
            return func
        normal = infer_expr(ToANormalFormExpr(func), mod)
        made: Function = infer_expr(run(_Evaluator(mod, self.unfoldings).function(normal, {}, {})), mod)
        return func if structural_equal(made, func) else made


_REENTRIES = 16
"""So often a function without a name is unfolded in itself where it may have to do that for ever."""


def _is_plain(func: Any) -> bool:
    """Whether a function is one of Relay that may be written elsewhere: no kernel, and none of a compiler."""
    return is_relay(func) and set(func.attrs) <= {INLINE, "global_symbol"}


@dataclass(slots=True)
class _Evaluator:
    mod: IRModule
    left: int
    """So many calls may still be unfolded."""
    lines: Lines = field(default_factory=list)
    """The lets of the scope that is being made."""
    store: dict[Cell, Value] = field(default_factory=dict)
    _active: dict[int, tuple[float, ...]] = field(default_factory=dict)
    """For each function that is being evaluated, by identity, the least sizes of arguments so far."""
    _tried: set[int] = field(default_factory=set)
    """Functions that are being unfolded."""
    _endless: set[int] = field(default_factory=set)
    """Those of them that do not come to an end: the first call of each will stay a call."""
    _globals: dict[str, Closure | None] = field(default_factory=dict)
    _open: dict[Any, Type | None] = field(default_factory=dict)
    """The types of variables that have one before inference."""
    _has_knots: bool | None = None
    _folder: Folder | None = None

    # ---- functions and scopes

    def function(self, func: Function, values: dict[Var, Value], types: dict[Any, Type]) -> Recursion:
        """A function for any arguments, with variables of its own for types, too."""
        own = {item: replace(item) for item in func.type_params}
        frame = Frame(dict(values), {**types, **own})
        params = []
        for param in func.params:
            params.append(replace(param, ty=frame.type(param.ty)))
            self._open[params[-1]] = params[-1].ty
            frame.values[param] = Value(params[-1])
        outer, self.store, active = self.store, {}, self._active
        self._active = {**active, id(func): (math.inf,) * len(params)}
        body = yield self._scope(func.body, frame)
        self.store, self._active = outer, active
        ret = frame.type(func.ret_ty)
        kinds = tuple(own.values())
        return replace(func, params=tuple(params), body=body, ret_ty=ret, type_params=kinds, ty=None)

    def _scope(self, expr: Any, frame: Frame) -> Recursion:
        """A body, branch or right side with lets of its own."""
        outer, self.lines = self.lines, []
        found = yield self._body(expr, frame)
        made = lets(self.lines, found.atom)
        self.lines = outer
        return made

    def _body(self, expr: Any, frame: Frame) -> Recursion:
        """The value of a body whose lets go into the scope that is being made."""
        while isinstance(expr, Let):
            count = len(self.lines)
            found = yield self._value(expr.value, frame, expr.var)
            is_new = len(self.lines) > count and self.lines[-1][0] is found.atom
            frame.values[expr.var] = self._as_open(found, frame.type(expr.var.ty), expr.var, is_new)
            expr = expr.body
        return (yield self._value(expr, frame, None))

    def _emit(self, hint: Var | None, expr: Any, known: Any = None, size: float = math.inf) -> Value:
        var = Var("x" if hint is None else hint.name_hint, span=expr.span, dialect="relay")
        self.lines.append((var, expr))
        return Value(var, known, size)

    def _as_open(self, value: Value, ty: Any, hint: Var, is_new: bool = False) -> Value:
        """The value under a name of its type, where that leaves sizes open that may be known here: elsewhere
        they are others. `is_new` where the last let is the value's and nothing else names it yet."""
        if ty is None or not is_dynamic(ty) or structural_equal(self._open.get(value.atom), ty):
            return value
        var = Var(hint.name_hint, ty, span=hint.span, dialect="relay")
        self._open[var] = ty
        made = value.atom
        if is_new and made not in self._open:
            if isinstance(self.lines[-1][1], Function):
                return value
            made = self.lines.pop()[1]
        self.lines.append((var, made))
        return replace_fields(value, atom=var)

    # ---- values

    def _value(self, expr: Any, frame: Frame, hint: Var | None) -> Recursion:
        if is_atomic(expr):
            return self._atom(expr, frame)
        if isinstance(expr, Function):
            return (yield self._closure(expr, frame, hint))
        if isinstance(expr, Call):
            return (yield self._call(expr, frame, hint))
        if isinstance(expr, If):
            return (yield self._if(expr, frame, hint))
        if isinstance(expr, Match):
            return (yield self._match(expr, frame, hint))
        if isinstance(expr, Let):
            return (yield self._body(expr, frame))
        return self._simple(expr, frame, hint)

    def _atom(self, expr: Any, frame: Frame) -> Value:
        if isinstance(expr, Var):
            return frame.values.get(expr, Value(expr))
        if isinstance(expr, GlobalVar):
            return Value(expr, self._global(expr))
        return constant_value(expr) if isinstance(expr, Constant) else Value(expr)

    def _global(self, var: GlobalVar) -> Closure | None:
        name = var.name_hint
        if name not in self._globals:
            func: Any = self.mod.get(var)
            self._globals[name] = (
                Closure(infer_expr(ToANormalFormExpr(func), self.mod), {}, {}, is_recursive(self.mod, var))
                if _is_plain(func)
                else None
            )
        return self._globals[name]

    def _simple(self, expr: Any, frame: Frame, hint: Var | None) -> Value:
        """Tuples, their fields, and cells."""
        if isinstance(expr, Tuple):
            parts = tuple(self._atom(item, frame) for item in expr.fields)
            made = Tuple(tuple(part.atom for part in parts), span=expr.span)
            return self._emit(hint, made, parts, size_of(parts))
        if isinstance(expr, TupleGetItem):
            whole = self._atom(expr.tuple_value, frame)
            if isinstance(whole.known, tuple):
                part: Value = whole.known[expr.index]
                return part
            return self._emit(hint, TupleGetItem(whole.atom, expr.index, span=expr.span))
        if isinstance(expr, RefCreate):
            value, cell = self._atom(expr.value, frame), Cell()
            self.store[cell] = value
            return self._emit(hint, RefCreate(value.atom, span=expr.span), cell)
        ref = self._atom(expr.ref, frame)
        if isinstance(expr, RefRead):
            found = self.store.get(ref.known) if isinstance(ref.known, Cell) else None
            return found if found is not None else self._emit(hint, RefRead(ref.atom, span=expr.span))
        value = self._atom(expr.value, frame)
        if isinstance(ref.known, Cell):
            self.store[ref.known] = value
        else:
            self.store.clear()
        return self._emit(hint, RefWrite(ref.atom, value.atom, span=expr.span), ())

    def _closure(self, func: Function, frame: Frame, hint: Var | None) -> Recursion:
        var = Var("f" if hint is None else hint.name_hint, span=func.span, dialect="relay")
        free = free_vars(func)
        values = {each: frame.values[each] for each in free if each in frame.values}
        closure = Closure(func, values, frame.types, hint in free) if _is_plain(func) else None
        made = Value(var, closure)
        if hint in free:
            values[hint] = made
        function = yield self.function(func, values, frame.types)
        self.lines.append((var, function))
        if closure is not None:
            closure.calls_itself = closure.calls_itself and var in free_vars(function)
        return made

    # ---- calls

    def _call(self, call: Call, frame: Frame, hint: Var | None) -> Recursion:
        callee = self._atom(call.op, frame) if is_atomic(call.op) else Value(call.op)
        args = tuple(self._atom(arg, frame) for arg in call.args)
        types = tuple(map(frame.type, call.ty_args))
        atoms = tuple(arg.atom for arg in args)
        if isinstance(callee.atom, Op):
            return self._operator(call, args, hint)
        if isinstance(callee.atom, Constructor):
            made = Call(callee.atom, atoms, ty_args=() if atoms else types, span=call.span)
            return self._emit(hint, made, Data(callee.atom, args), 1 + size_of(args))
        closure = callee.known
        if isinstance(closure, Closure):
            if len(types) < len(closure.func.type_params):  # a generic function that stands for one of a type
                types = types_of_instance(closure.func.ty, frame.type(call.op.ty))  # type: ignore[arg-type]
            unfolded = yield self._unfolded(closure, args, types)
            if unfolded is not None:
                return unfolded
        self.store.clear()
        return self._emit(hint, Call(callee.atom, atoms, call.attrs, span=call.span))

    def _unfolded(self, closure: Closure, args: tuple[Value, ...], types: tuple[Type, ...]) -> Recursion:
        """The value of a call; None where it is to stay a call, and nothing has changed."""
        func, sizes = closure.func, self._progress(closure, args)
        if self._endless or self.left == 0:
            return None
        if sizes is None:
            begins = not closure.calls_itself or any(arg.size < math.inf for arg in args)
            if begins and id(func) in self._tried:  # by itself, this call would be unfolded
                self._endless.add(id(func))
            return None
        self.left -= 1
        inner = Frame(dict(closure.values), closure.types | dict(zip(func.type_params, types, strict=True)))
        is_first, num_lines, store = id(func) not in self._tried, len(self.lines), dict(self.store)
        self._tried.add(id(func))
        for param, arg in zip(func.params, args, strict=True):
            inner.values[param] = self._as_open(arg, inner.type(param.ty), param)
        active, self._active = self._active, {**self._active, id(func): sizes}
        made = yield self._body(func.body, inner)
        self._active = active
        if not is_first:
            return made
        self._tried.remove(id(func))
        if id(func) not in self._endless:
            return made
        self._endless.remove(id(func))
        self.store = store
        del self.lines[num_lines:]
        return None

    def _progress(self, closure: Closure, args: tuple[Value, ...]) -> tuple[float, ...] | None:
        """The least sizes of arguments with this call; None where it does not come nearer to an end."""
        sizes, before = tuple(arg.size for arg in args), self._active.get(id(closure.func))
        if not closure.calls_itself:
            left = min(before or (), default=math.inf)
            if left == math.inf or not self._knots():
                return (_REENTRIES,)
            return (left - 1,) if left > 0 else None
        least = before or (math.inf,) * len(args)
        now = tuple(map(min, sizes, least))
        return now if now != least else None

    def _knots(self) -> bool:
        if self._has_knots is None:
            self._has_knots = has_knots(self.mod)
        return self._has_knots

    def _operator(self, call: Call, args: tuple[Value, ...], hint: Var | None) -> Value:
        atoms = [arg.atom for arg in args]
        closed = [constant_parts(arg) for arg in args]
        if all(item is not None for item in closed):
            self._folder = self._folder or Folder(self.mod, fold_qnn=True)
            try:
                typed = infer_expr(Call(call.op, tuple(closed), call.attrs, span=call.span), self.mod)
            except HeddleError:  # the program asks at run time, if it comes to it
                atoms = [arg if isinstance(arg, Var) else self._emit(None, arg).atom for arg in atoms]
            else:
                folded = self._folder.fold(typed, typed)
                if isinstance(folded, Constant):
                    return constant_value(folded)
                if isinstance(folded, Tuple):
                    parts = tuple(map(constant_value, folded.fields))
                    return self._emit(hint, folded, parts, size_of(parts))
        return self._emit(hint, Call(call.op, tuple(atoms), call.attrs, span=call.span))

    # ---- branches

    def _if(self, expr: If, frame: Frame, hint: Var | None) -> Recursion:
        cond = self._atom(expr.cond, frame)
        if isinstance(cond.atom, Constant):
            chosen = expr.true_branch if is_true(array_of(cond.atom)) else expr.false_branch
            return (yield self._body(chosen, frame))
        return (yield self._branches(expr, cond.atom, frame, hint))

    def _match(self, expr: Match, frame: Frame, hint: Var | None) -> Recursion:
        data = self._atom(expr.data, frame)
        for clause in expr.clauses:
            bound: dict[Var, Value] = {}
            does_fit = fits(clause.lhs, data, bound)
            if does_fit:
                for var, value in bound.items():
                    frame.values[var] = self._as_open(value, frame.type(var.ty), var)
                return (yield self._body(clause.rhs, frame))
            if does_fit is None:
                break
        return (yield self._branches(expr, data.atom, frame, hint))

    def _branches(self, expr: If | Match, subject: Any, frame: Frame, hint: Var | None) -> Recursion:
        """Branches or clauses by themselves. Of the cells is known what all of them leave there."""
        outer, stores = self.store, list[dict[Cell, Value]]()

        def scope(body: Any) -> Recursion:
            self.store = dict(outer)
            made = yield self._scope(body, frame)
            stores.append(self.store)
            return made

        def own(old: Any, new: Any) -> Any:
            if not isinstance(old, Var):
                return new
            var = replace(old, ty=None)
            frame.values[old] = Value(var)
            return var

        made = yield branched(expr, subject, scope, lambda pattern: rebuild(pattern, own))
        self.store = {
            cell: value for cell, value in outer.items() if all(store.get(cell) is value for store in stores)
        }
        return self._emit(hint, made)
