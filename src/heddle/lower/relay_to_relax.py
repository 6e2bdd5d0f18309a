"""Convert Relay programs to the normal form that both virtual machines are compiled from.

    def @main(%x: Tensor[(?, 3), float32]) { nn.relu(concatenate((%x, %x), axis=0)) }

becomes

    def main(x: R.Tensor((x_0, 3), "float32")):
        lv = R.concat((x, x), axis=0)
        return R.nn.relu(lv)

Lets are bindings, calls of operators what their records say (`relay.expand`). Each `?` of a parameter is a
symbolic dimension; a result of unknown sizes is cast to a type with new ones. A generic function becomes a
function for each of the types that it is called with. Data types, matches and references: see `relay_data`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from heddle.graph.infer import function_type, infer, type_of
from heddle.graph.nodes import MatchCast, SeqExpr, VarBinding
from heddle.graph.normalize import Scope as Bindings
from heddle.graph.type_relations import definable_vars, erase_vars, symbolic_vars
from heddle.graph.types import ShapeExpr, ShapeType, VDevice
from heddle.ir.attrs import attrs_of
from heddle.ir.expr import (
    Call,
    Constant,
    Expr,
    Function,
    GlobalVar,
    If,
    Tuple,
    TupleGetItem,
    Var,
    is_relay,
)
from heddle.ir.module import IRModule, checked_module
from heddle.ir.nesting import refusing_deep_nesting
from heddle.ir.node import Map, replace
from heddle.ir.op import Op
from heddle.ir.type_data import Constructor
from heddle.ir.types import FuncType, TupleType, Type
from heddle.lower.codes import L0301, L0302
from heddle.lower.origin import ORIGIN
from heddle.lower.relay_data import DataLowering, has_references
from heddle.lower.relay_devices import (
    COPY,
    DEVICE_ATTRS,
    leaf_on,
    located,
    plan_devices,
    plan_of,
    with_devices,
    with_param_devices,
)
from heddle.lower.relay_types import (
    INTERPRET,
    is_vaguer,
    known_type,
    named_dims,
    normal_type,
    refined,
    too_generic,
    type_arguments,
    type_map,
    with_own_dims,
)
from heddle.relay.expand import expand
from heddle.relay.nodes import Let, Match, RefCreate, RefRead, RefWrite
from heddle.relay.text_values import type_text
from heddle.relay.transform.defuse_ops import without_kernels
from heddle.relay.transform.to_a_normal_form import PRIMITIVE, ToANormalForm
from heddle.relay.typed import infer_module
from heddle.relay.unify import instantiate, is_generic, types_of_instance
from heddle.support.diagnostics import UsageError
from heddle.support.names import NameSupply
from heddle.support.span import at
from heddle.support.trampoline import Recursion, run

MOST_NESTED = 64
"""How many instances of one generic function may be in the making inside one another."""


def to_relax(mod: IRModule, entry_functions: Sequence[str] | None = None) -> IRModule:
    """The module with its Relay functions in normal form: those that the entry functions need. These are
    `main` where there is one, else all that are not generic; functions of other dialects stay.

    Raises: UsageError L0302 for a generic function with too many instances, L0303 for one as a value or
    entry, L0304 for a reference that may lead to itself; IRTypeError where types or devices do not fit;
    MissingNameError I0301 for an entry that is not there; UsageError I0509 for what is no module, I0510 for
    what nests too deep.
    """
    checked_module(mod, "to_relax")
    with refusing_deep_nesting("the lowering of Relay", mod.functions.values()):
        return _lowered(mod, entry_functions)


def _lowered(mod: IRModule, entry_functions: Sequence[str] | None) -> IRModule:
    typed = infer_module(ToANormalForm()(plan_devices(without_kernels(mod))))
    entries = _entries(typed, entry_functions)
    program = _Program(typed, is_pure=not has_references(typed, [typed[var] for var in entries]))
    for var in entries:
        func = typed[var]
        if func.type_params:
            raise too_generic(f"the entry function @{var.name_hint} is generic", func.span or var.span)
        run(program.instance(var, (), var))
        made = program.module[var]
        made = with_param_devices(made, func, program.module, program.plan)
        program.module[var] = made.with_attr("global_symbol", var.name_hint)
    return program.module


def _entries(mod: IRModule, names: Sequence[str] | None) -> list[GlobalVar]:
    if names is not None:
        return [var for var in map(mod.get_global_var, names) if is_relay(mod[var])]
    found = [var for var, func in mod.functions.items() if is_relay(func)]
    main = [var for var in found if var.name_hint == "main"]
    return main or [var for var in found if not mod[var].type_params]


class _Program:
    """What the functions of one program share. `is_pure`: none has effects; where there are references, all
    functions are taken to have some."""

    def __init__(self, mod: IRModule, *, is_pure: bool) -> None:
        self.plan = plan_of(mod)
        self.mod, self.is_pure = mod, is_pure
        mod = with_devices(mod, self.plan)
        others = {var: func for var, func in mod.functions.items() if not is_relay(func)}
        self.module = replace(mod, functions=Map(others), type_definitions=Map({}))
        self.nesting: Counter[int] = Counter()
        """The instances in the making, by the identity of the function."""
        self._names = NameSupply(var.name_hint for var in mod.functions)
        self._instances: dict[tuple[str, ...], _Instance] = {}
        self._constructors: dict[Constructor, GlobalVar] = {}

    def instance(self, var: GlobalVar, types: tuple[Type, ...], node: Any) -> Recursion:
        """The name of a function for certain types; the function is made where it is not there."""
        func = self.mod[var]
        if not is_relay(func):
            return GlobalVar(var.name_hint, function_type(func))
        key = (var.name_hint, *(type_text(ty) for ty in types))
        known = self._instances.get(key)
        if known is None:
            name = self._names.fresh(var.name_hint) if types else var.name_hint
            maker = _Maker(self, type_map(func.type_params, types))
            params = maker.parameters(func)
            known = self._instances[key] = _Instance(GlobalVar(name, maker.declared(func, params)))
            self.enter(func, node)
            made = yield maker.function(func, params, known)
            self.nesting[id(func)] -= 1
            known.var = GlobalVar(name, made.ty)
            known.is_open = False
            self.module[known.var] = made
        elif known.is_open:
            known.calls_itself = True
        return known.var

    def constructor(self, constructor: Constructor) -> GlobalVar:
        """The name of a function that calls a constructor; it is made where it is not there."""
        known = self._constructors.get(constructor)
        if known is None:
            made = _Maker(self, {}).constructor_function(constructor)
            known = GlobalVar(self._names.fresh(constructor.name_hint), made.ty)
            self._constructors[constructor] = known
            self.module[known] = made
        return known

    def enter(self, func: Function, node: Any) -> None:
        """Raises: UsageError L0302 where too many instances of a function are in the making."""
        self.nesting[id(func)] += 1
        if self.nesting[id(func)] > MOST_NESTED:
            raise UsageError(
                L0302,
                f"a generic function needs itself for ever other types, over {MOST_NESTED} deep",
                span=node.span or func.span,
            )


@dataclass(slots=True)
class _Instance:
    """A function in the making: whoever calls it before it is made relies on the type of `var`."""

    var: Any
    is_open: bool = True
    calls_itself: bool = False


@dataclass(slots=True, eq=False)
class _Generic:
    """A generic function that a let binds, with the types around it. `made`: its instances, each with the
    sequence that it stands in."""

    func: Function
    hint: str
    types: dict[Any, Type]
    made: list[tuple[Bindings, tuple[str, ...], _Instance]] = field(default_factory=list)


class _Maker(DataLowering):
    """Makes one function of the module, with those inside it."""

    def __init__(self, program: _Program, types: dict[Any, Type]) -> None:
        super().__init__(program.module)
        self.program, self.types = program, types
        self.definitions, self.is_pure, self.plan = program.mod, program.is_pure, program.plan
        self.nesting = 0
        self.values: dict[Var, Any] = {}
        """What stands for variables: a leaf, an `_Instance` or a `_Generic`."""

    def type(self, ty: Any, node: Any) -> Type:
        return known_type(ty, self.types, node)

    def normal(self, ty: Any, node: Any, device: VDevice | None, dims: str | None = None) -> Type:
        return located(normal_type(self.type(ty, node), node, dims, is_pure=self.is_pure), device)

    # ---- functions

    def parameters(self, func: Function) -> tuple[Var, ...]:
        made = []
        for param in func.params:
            name = self.names.fresh(param.name_hint)
            ty = self.normal(param.ty, param, self.device(param), name)
            self.values[param] = Var(name, ty, span=param.span)
            made.append(self.values[param])
        return tuple(made)

    def declared(self, func: Function, params: tuple[Var, ...]) -> FuncType:
        """The type of a function whose body is not made yet."""
        ret = self.normal(func.ret_ty, func, self.device_of_result(func))
        return FuncType(tuple(type_of(param) for param in params), ret, self.is_pure)

    def function(self, func: Function, params: tuple[Var, ...], instance: _Instance) -> Recursion:
        """The function; its result has the type that the body shows, unless somebody relied on less."""
        body = yield self.branch(func.body, self.type(func.ret_ty, func), self.device_of_result(func))
        found = type_of(body.body)
        given = {dim for param in params for dim in definable_vars(type_of(param))}
        ret = erase_vars(found, set(symbolic_vars(found)) - given)
        if instance.calls_itself:
            ret = type_of(instance.var).ret  # type: ignore[attr-defined]
        attrs = {key: item for key, item in func.attrs.items() if key not in (PRIMITIVE, *DEVICE_ATTRS)}
        attrs[ORIGIN] = "relay"
        made = Function(params, replace(body, ty=found), ret, self.is_pure, attrs_of(attrs), span=func.span)
        return replace(made, ty=infer(made))

    def branch(self, expr: Any, wanted: Type, device: VDevice | None) -> Recursion:
        """A body or branch, which is to have a type of Relay and a device, as a sequence."""
        with self.scope() as scope:
            result = leaf_on((yield self.inline(expr, wanted)), device)
            scope.close_block()
        made = SeqExpr(tuple(scope.blocks), result, span=expr.span)
        return replace(made, ty=infer(made))

    def inline(self, expr: Any, wanted: Type) -> Recursion:
        """The leaf that a body or branch gives, its lets bound in the sequence that is being made."""
        while isinstance(expr, Let):
            yield self.let(expr)
            expr = expr.body
        return (yield self.operand(expr, wanted))

    def local(self, func: Function, hint: str, instance: _Instance) -> Recursion:
        """Bind a function inside the one that is made; gives its variable."""
        params = self.parameters(func)
        declared = with_own_dims(self.declared(func, params))
        instance.var = Var(self.names.fresh(hint), declared, span=func.span)
        made = yield self.function(func, params, instance)
        instance.is_open = False
        if not instance.calls_itself:
            instance.var = replace(instance.var, ty=with_own_dims(made.ty))
        self.bind_as(instance.var, made)
        return instance.var

    def local_instance(self, generic: _Generic, types: tuple[Type, ...], node: Any) -> Recursion:
        """The variable of a local generic function for certain types."""
        key = tuple(type_text(ty) for ty in types)
        for scope, known_key, instance in generic.made:
            if known_key == key and any(scope is seen for seen in self.scopes):
                instance.calls_itself |= instance.is_open
                return instance.var
        instance = _Instance(None)
        generic.made.append((self.scopes[-1], key, instance))
        self.program.enter(generic.func, node)
        around = self.types, self.values
        self.types = {**generic.types, **type_map(generic.func.type_params, types)}
        self.values = dict(self.values)
        made = yield self.local(generic.func, generic.hint, instance)
        self.types, self.values = around
        self.program.nesting[id(generic.func)] -= 1
        return made

    # ---- bindings

    def let(self, let: Let) -> Recursion:
        value, hint = let.value, let.var.name_hint
        if isinstance(value, Function):
            if value.type_params:
                self.values[let.var] = _Generic(value, hint, self.types)
                return
            instance = self.values[let.var] = _Instance(None)
            self.values[let.var] = yield self.local(value, hint, instance)
        elif is_generic(value.ty):
            self.values[let.var] = value  # another name of a generic function
        else:
            self.values[let.var] = yield self.value_of(value, hint)

    def bind_as(self, var: Var, value: Expr) -> None:
        with at(value.span):
            self.add(VarBinding(var, value))

    def value_of(self, expr: Any, hint: str) -> Recursion:
        """What stands for the value of a let: a leaf whose sizes have names."""
        if isinstance(expr, Call):
            made = yield self.call(expr)
        elif isinstance(expr, If):
            cond = yield self.operand(expr.cond)
            self.enter_branch(expr)
            ty, device = self.type(expr.ty, expr), self.device(expr)
            true = yield self.branch(expr.true_branch, ty, device)
            false = yield self.branch(expr.false_branch, ty, device)
            self.nesting -= 1
            found = If(cond, true, false, span=expr.span)
            made = replace(found, ty=infer(found))
        elif isinstance(expr, TupleGetItem):
            source = yield self.operand(expr.tuple_value)
            if isinstance(source, Tuple):
                return source.fields[expr.index]
            made = TupleGetItem(source, expr.index, span=expr.span)
        elif isinstance(expr, Match):
            made = yield self.match(expr)
        elif isinstance(expr, (RefCreate, RefRead, RefWrite)):
            made = yield self.reference(expr)
        else:
            return (yield self.operand(expr))
        with at(expr.span):
            made = made if isinstance(made, If) else self.value(made)
            leaf = made if isinstance(made, (Var, Constant, Tuple, GlobalVar)) else self.bind(made, hint)
            placed = self.settled(leaf, self.device(expr))
            return self.cast(placed, self.type(expr.ty, expr), expr, hint)

    def cast(self, leaf: Expr, wanted: Type, node: Any, hint: str) -> Expr:
        """A leaf whose type says as much as Relay's does, with names for sizes that are not known."""
        found = type_of(leaf)
        if isinstance(leaf, Tuple) and isinstance(wanted, TupleType):
            items = zip(leaf.fields, wanted.fields, strict=True)
            made = Tuple(tuple(self.cast(item, ty, node, hint) for item, ty in items), span=leaf.span)
            return replace(made, ty=infer(made))
        if not is_vaguer(found, wanted):
            return leaf
        name = self.names.fresh(hint)
        ty = refined(found, wanted, node, name, is_pure=self.is_pure)
        var = Var(name, ty)
        self.add(MatchCast(var, leaf, ty))
        return var

    # ---- leaves and calls

    def leaf(self, expr: Expr) -> Expr:
        """A leaf as the normal form has it. A value inside of an operator's expression whose sizes nothing
        says gets names for them: the operators around it are compiled for symbolic sizes."""
        found = super().leaf(expr)
        if not isinstance(found, Var) or (ty := named_dims(found.ty, found.name_hint)) is None:
            return found
        var = Var(self.names.fresh(found.name_hint), ty)
        self.add(MatchCast(var, found, ty))
        named: Expr = ShapeExpr(ty.values or ()) if isinstance(ty, ShapeType) else var
        if id(expr) in self.scopes[-1].bound:
            self.scopes[-1].bound[id(expr)] = expr, named
        return named

    def operand(self, expr: Any, wanted: Type | None = None) -> Recursion:
        """The leaf for an atom, or for the value of a let that is one or a tuple of them. `wanted` is the
        type that a generic function is used with."""
        if is_generic(expr.ty):
            if not isinstance(wanted, FuncType) or wanted.type_params:
                raise too_generic("a generic function is used as a value", expr.span)
            return (yield self.callee(expr, types_of_instance(self.type(expr.ty, expr), wanted), expr))  # type: ignore[arg-type]
        if isinstance(expr, Tuple):
            fields = []
            for item in expr.fields:
                fields.append((yield self.operand(item)))
            made = Tuple(tuple(fields), span=expr.span)
            return replace(made, ty=infer(made))
        if isinstance(expr, Constant):
            return self.value(expr)
        if isinstance(expr, (Var, GlobalVar, Function, Constructor)):
            return (yield self.callee(expr, (), expr))
        raise _refused(expr, expr)

    def callee(self, expr: Any, types: tuple[Type, ...], node: Any) -> Recursion:
        """The leaf for a function, a generic one for certain types, or for any variable."""
        if isinstance(expr, Constructor):
            return self.program.constructor(expr)
        if isinstance(expr, GlobalVar):
            return (yield self.program.instance(expr, types, node))
        if isinstance(expr, Function):
            return (yield self.local(expr, "fn", _Instance(None)))
        known = self.values.get(expr)
        if isinstance(known, _Instance):
            known.calls_itself |= known.is_open
            return known.var
        if isinstance(known, _Generic):
            return (yield self.local_instance(known, types, node))
        if known is not None and is_generic(known.ty):
            return (yield self.callee(known, types, node))
        if known is None:
            return (yield self.operand(expr))
        return known

    def call(self, call: Call) -> Recursion:
        """The call as an expression of the normal form, or of the records that an operator stands for."""
        if isinstance(call.op, Op):
            args = []
            for arg in call.args:
                args.append(self._unpacked((yield self.operand(arg))))
            args = self.arguments_on(args, call)
            with at(call.span):
                if call.op.name == COPY and self.plan is not None:
                    return self.copied(args[0], call)
                return expand(call.op.name, args, call.attrs)
        if isinstance(call.op, Constructor):
            return (yield self.data(call))
        if not isinstance(call.op, (Var, GlobalVar, Function)):
            raise _refused(call.op, call)
        ty = self.type(call.op.ty, call)
        types = type_arguments(call, self.types)
        params = instantiate(ty, types)[0]  # type: ignore[arg-type]
        callee = yield self.callee(call.op, types, call)
        args = []
        for arg, param in zip(call.args, params, strict=True):
            args.append((yield self.operand(arg, param)))
        return Call(callee, tuple(self.arguments_on(args, call)), span=call.span)

    def _unpacked(self, leaf: Expr) -> Expr:
        """A tuple as operators take it: field by field."""
        ty = type_of(leaf)
        if isinstance(leaf, Tuple) or not isinstance(ty, TupleType):
            return leaf
        items = (self._unpacked(self.leaf(TupleGetItem(leaf, place))) for place in range(len(ty.fields)))
        made = Tuple(tuple(items))
        return replace(made, ty=infer(made))


def _refused(expr: Any, node: Any) -> UsageError:
    """The error for an expression that the normal form has not; it stands at `node`."""
    return UsageError(L0301, f"a {type(expr).__name__} cannot be compiled", span=node.span, help=INTERPRET)
