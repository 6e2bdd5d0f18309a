"""Programs without functions as values: `relay.transform.Defunctionalization`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from heddle.ir.attrs import NO_ATTRS
from heddle.ir.expr import Call, Expr, Function, GlobalVar, If, Var
from heddle.ir.module import IRModule
from heddle.ir.node import children, map_children, replace
from heddle.ir.op import Op
from heddle.ir.type_data import Constructor, GlobalTypeVar, TypeCall, TypeData
from heddle.ir.types import FuncType, Type
from heddle.ir.variables import free_vars
from heddle.ir.visitor import nesting, tree_size
from heddle.relay.builders import replace_vars, without_type
from heddle.relay.codes import Q0503
from heddle.relay.functor import TypeMutator
from heddle.relay.nodes import Clause, Let, Match, PatternConstructor, PatternTuple, PatternVar
from heddle.relay.text_values import type_text
from heddle.relay.transform.copying import Lines, branched, lets
from heddle.relay.transform.eta_expand import type_of_callee
from heddle.relay.transform.recursion import types_within
from heddle.relay.transform.to_a_normal_form import ToANormalFormExpr, is_atomic
from heddle.relay.typed import infer_expr, infer_module
from heddle.relay.unify import instantiate, is_generic, replace_type_vars, types_of_instance
from heddle.support.diagnostics import IRTypeError, UsageError
from heddle.support.names import NameSupply
from heddle.support.trampoline import Recursion, run

NOTHING: Mapping[Any, Type] = {}
MOST_INSTANCES = 1_000
"""How many functions one generic function may become, and how many data types."""
MOST_NESTED = 100
MOST_TYPE_NODES = 10_000
"""How deep and how large a type may be, counted as text shows it."""

Types = dict[Any, Type]


def Defunctionalization(func: Any, mod: IRModule) -> Function:
    """A function that computes the same without functions as values, and without generic functions.

        fn (%x: int32) -> int32 { let %f = fn (%y: int32) -> int32 { %x + %y }; %f(1) }

    becomes

        fn (%x: int32) -> int32 { let %f = Closure_f(%x); @apply(%f, 1) }

    Each type of functions becomes a data type with a constructor for each function that is made of this type:
    its fields are what the function captures. `apply` matches on them. `func`, or what it names in `mod`, has
    no type parameters and takes and gives no functions. The functions and data types that it uses come into
    `mod` beside the old ones, generic functions once for each types that they are called with.

    Raises: UsageError Q0503 for another function, for generic functions that nobody says the types of, where
    these would have no end, and where functions of one type but for its sizes meet in a tuple, reference or
    data type; IRTypeError where types do not fit. `mod` is then as it was.
    """
    infer_module(mod)
    typed = infer_expr(mod[func] if isinstance(func, GlobalVar) else func, mod)
    program = _Program(mod)
    if not isinstance(typed, Function):
        raise UsageError(Q0503, f"expected a function, got {type(func).__name__}", span=func.span)
    types = (*(param.ty for param in typed.params), typed.ret_ty)
    if typed.type_params or any(map(program.holds_functions, types)):
        message = "a function of the outside is generic, or takes or gives functions"
        raise UsageError(Q0503, message, span=typed.span)
    made = program.finish(typed)
    added = {**program.definitions(), **program.functions}
    whole = mod.clone()
    for name, item in added.items():
        whole[name] = item  # type: ignore[assignment]
    try:
        found: Function = infer_expr(made, whole)
        infer_module(whole)
    except IRTypeError as error:
        message = "functions of several types that differ in sizes are in one tuple, reference or data type"
        raise UsageError(Q0503, message, span=typed.span) from error
    for name, item in added.items():
        mod[name] = item  # type: ignore[assignment]
    return found


@dataclass(slots=True)
class _Kind:
    """The functions of one type: the data type that they are, what calls them, and a constructor for each,
    by what it stands for: a function that takes the constructor's fields and then the arguments."""

    ty: FuncType
    header: GlobalTypeVar
    apply: GlobalVar
    cases: dict[Any, Constructor] = field(default_factory=dict)

    def function(self) -> Function:
        """What calls a function of the type."""
        func = Var("f", TypeCall(self.header), dialect="relay")
        args = tuple(Var("x", ty, dialect="relay") for ty in self.ty.arg_types)
        clauses = []
        for callee, made in self.cases.items():
            held = tuple(Var("held", ty, dialect="relay") for ty in made.inputs)
            clauses.append(
                Clause(PatternConstructor(made, tuple(map(PatternVar, held))), Call(callee, (*held, *args)))
            )
        body = Match(func, tuple(clauses), complete=bool(clauses))
        return Function((func, *args), body, self.ty.ret, dialect="relay")


class _Program(TypeMutator):
    """What the functions of one program share; as a visitor, it maps types to those without functions.

    Raises: UsageError Q0503 for types without end, and for generic functions inside of types.
    """

    def __init__(self, mod: IRModule) -> None:
        self.mod = mod
        self.functions: dict[GlobalVar, Function] = {}
        constructors = (made for data in mod.type_definitions.values() for made in data.constructors)
        named = (*mod.functions, *mod.type_definitions, *constructors)
        self.names = NameSupply(item.name_hint for item in named)
        self._kinds: dict[str, _Kind] = {}
        self._headers: dict[str, TypeCall] = {}
        """What data types that hold functions become, by their text."""
        self._data: dict[GlobalTypeVar, TypeData] = {}
        self._instances: dict[tuple[str, ...], GlobalVar] = {}
        self._waiting: list[tuple[GlobalVar, Any, Types]] = []
        self._counts: Counter[int] = Counter()

    def finish(self, entry: Function) -> Function:
        """The entry function; all that it uses is made."""
        made: Function = run(_Maker(self, {}).function(self._normal(entry)))
        while self._waiting:
            var, func, types = self._waiting.pop()
            self.functions[var] = run(_Maker(self, types).function(self._normal(func)))
        for kind in self._kinds.values():
            self.functions[kind.apply] = kind.function()
        return made

    def _normal(self, func: Function) -> Any:
        return infer_expr(ToANormalFormExpr(func), self.mod)

    def definitions(self) -> dict[Any, TypeData]:
        """The data types that were made."""
        kinds = self._kinds.values()
        return self._data | {
            kind.header: TypeData(kind.header, (), tuple(kind.cases.values())) for kind in kinds
        }

    def instance(self, var: GlobalVar, types: tuple[Type, ...]) -> GlobalVar:
        """The name of a function for certain types."""
        func = self.mod[var]
        if not isinstance(func, Function):
            return var
        key = (var.name_hint, *map(type_text, types))
        if key not in self._instances:
            self.count(func)
            made = self._instances[key] = GlobalVar(self.names.fresh(var.name_hint))
            self._waiting.append((made, func, dict(zip(func.type_params, types, strict=True))))
        return self._instances[key]

    def count(self, func: Function) -> None:
        """Note one more instance of a function."""
        self._counts[id(func)] += 1
        if self._counts[id(func)] > MOST_INSTANCES:
            message = f"a generic function is needed for over {MOST_INSTANCES} types"
            raise UsageError(Q0503, message, span=func.span)

    # ---- types

    def holds_functions(self, ty: Any) -> bool:
        """Whether there may be a function in a value of a type."""
        return any(isinstance(node, FuncType) for node in types_within(self.mod, ty))

    def kind(self, ty: FuncType) -> _Kind:
        """The kind of functions of a type, as this becomes."""
        key = type_text(ty)
        if key not in self._kinds:
            header = GlobalTypeVar(self.names.fresh("Closure"))
            self._kinds[key] = _Kind(ty, header, GlobalVar(self.names.fresh("apply")))
        return self._kinds[key]

    def value(self, callee: Any, ty: FuncType, held: Mapping[Any, Type] = NOTHING) -> Call:
        """A function as a value: `callee` takes what is held, of these types, and the arguments."""
        kind = self.kind(ty)
        if callee not in kind.cases:
            name = self.names.fresh(f"Closure_{callee.name_hint}")
            kind.cases[callee] = Constructor(name, tuple(held.values()), kind.header)
        return Call(kind.cases[callee], tuple(held))

    def constructor(self, old: Constructor, ty: Any) -> Constructor:
        """What stands for a constructor of a value of a type, as this becomes."""
        made = self._data.get(ty.func)
        if made is None:
            return old
        return made.constructors[self.mod.type_definition(old.belong_to).constructors.index(old)]

    def bounded(self, ty: Type) -> Type:
        """The type. Raises: UsageError Q0503 for one that is too large: there will be ever larger ones."""
        if nesting(ty) > MOST_NESTED or tree_size(ty) > MOST_TYPE_NODES:
            message = f"generic code needs types over {MOST_NESTED} deep or of over {MOST_TYPE_NODES} parts"
            raise UsageError(Q0503, message)
        return ty

    def visit_func_type(self, typ: Any) -> TypeCall:
        return TypeCall(self.kind(self.signature(typ)).header)

    def signature(self, typ: FuncType) -> FuncType:
        """The type of a function, with what its arguments and its result become."""
        if typ.type_params:
            raise UsageError(Q0503, f"generic functions are used as values of {type_text(typ)}")
        return FuncType(tuple(map(self.visit, typ.arg_types)), self.visit(typ.ret))

    def visit_global_type_var(self, typ: GlobalTypeVar) -> Type:
        return self.visit_type_call(TypeCall(typ))

    def visit_type_call(self, typ: Any) -> Type:
        args = tuple(map(self.visit, typ.args))
        made = TypeCall(typ.func, args)
        if not self.holds_functions(typ.func):
            return made
        data, key = self.mod.type_definition(typ.func), type_text(self.bounded(made))
        if key not in self._headers:
            if len(self._headers) > MOST_INSTANCES:
                raise UsageError(Q0503, f"data type {typ.func.name_hint} has no end of instances")
            header = GlobalTypeVar(self.names.fresh(typ.func.name_hint))
            self._headers[key] = TypeCall(header)
            binds = dict(zip(data.type_vars, args, strict=True))
            fields = [
                tuple(self.visit(replace_type_vars(ty, binds)) for ty in inputs) for inputs in data.signatures
            ]
            constructors = tuple(
                Constructor(self.names.fresh(ctor.name_hint), inputs, header)
                for ctor, inputs in zip(data.constructors, fields, strict=True)
            )
            self._data[header] = TypeData(header, (), constructors)
        return self._headers[key]


@dataclass(slots=True)
class _Generic:
    """A generic function that a let binds, with the types around it, and its instances by their types."""

    func: Function
    hint: str
    types: Types
    made: dict[tuple[str, ...], Any] = field(default_factory=dict)


class _Maker:
    """Makes one function of the module, with those inside it, from its A-normal form with types."""

    def __init__(self, program: _Program, types: Types) -> None:
        self._program, self._types = program, types
        self._values: dict[Var, Any] = {}
        """What stands for variables: an atom, a `_Generic`, or another name of a generic function."""

    def _known(self, ty: Any) -> Type:
        """A type with what stands for its variables."""
        return self._program.bounded(replace_type_vars(ty, self._types))

    def _type(self, ty: Any) -> Any:
        return self._program.visit(self._known(ty))

    def function(self, func: Function) -> Recursion:
        params = tuple(map(self._bound, func.params))
        body = Call(func, params) if is_atomic(func) else (yield self._scope(func.body, func.ret_ty))
        attrs = NO_ATTRS if is_atomic(func) else func.attrs
        return Function(params, body, self._type(func.ret_ty), attrs=attrs, dialect="relay", span=func.span)

    def _bound(self, var: Var) -> Var:
        made = self._values[var] = replace(var, ty=self._type(var.ty))
        return made

    def _scope(self, expr: Any, wanted: Any) -> Recursion:
        lines: Lines = []
        while isinstance(expr, Let):
            var, value = expr.var, expr.value
            if isinstance(value, Function) and value.type_params:
                self._values[var] = _Generic(value, var.name_hint, self._types)
            elif is_generic(value.ty) and is_atomic(value):
                self._values[var] = value
            elif isinstance(value, Function):
                made = yield self._closure(value, self._bound(var), self._known(value.ty))
                lines.append((self._bound(var), made))
            else:
                made = yield self._value(value)
                lines.append((self._bound(var), made))
            expr = expr.body
        return lets(lines, (yield self._atom(expr, wanted)))

    def _closure(self, func: Function, itself: Var, ty: Any) -> Recursion:
        """A function inside another as a value: one of the module is made, which also takes what it captures.
        In its body `itself` stands for that value."""
        program, signature = self._program, self._program.signature(ty)
        made = yield self.function(func)
        captured: dict[Any, Any] = {var: var.ty for var in free_vars(made) if var is not itself}
        inner = {var: replace(var) for var in captured}
        name = GlobalVar(program.names.fresh(itself.name_hint))
        value = program.value(name, signature, {inner[var]: ty for var, ty in captured.items()})
        binds = inner | {itself: value}
        params = (*captured, *made.params)
        lifted = Function(params, made.body, made.ret_ty, dialect="relay", span=func.span)
        program.functions[name] = replace_vars(lifted, binds)
        return program.value(name, signature, captured)

    def _generic(self, generic: _Generic, types: tuple[Type, ...]) -> Recursion:
        """A local generic function for certain types as a value."""
        key = tuple(map(type_text, types))
        if key not in generic.made:
            func, around = generic.func, self._types
            self._program.count(func)
            self._types = generic.types | dict(zip(func.type_params, types, strict=True))
            plain = FuncType(*instantiate(func.ty, types)[:2])  # type: ignore[arg-type]
            ty = self._known(plain)
            itself = Var(generic.hint, self._type(plain), dialect="relay")
            known = dict(generic.made)
            generic.made[key] = itself
            made = yield self._closure(func, itself, ty)
            generic.made, self._types = known | {key: made}, around
        return generic.made[key]

    def _value(self, value: Any) -> Recursion:
        """What a let binds, but for functions."""
        if isinstance(value, Call):
            return (yield self._call(value))
        if isinstance(value, (If, Match)):
            old = value.cond if isinstance(value, If) else value.data
            subject, ty = (yield self._atom(old)), self._known(old.ty)
            scope, pattern = partial(self._scope, wanted=value.ty), partial(self._pattern, ty=ty)
            return (yield branched(value, subject, scope, pattern))
        if is_atomic(value):
            return (yield self._atom(value, value.ty))
        made = {}
        for child in children(value):
            if isinstance(child, Expr):
                made[id(child)] = yield self._atom(child)
        return without_type(map_children(value, lambda child: made.get(id(child), child)))

    def _pattern(self, pattern: Any, ty: Any) -> Any:
        """A pattern for values of a type."""
        if isinstance(pattern, PatternVar):
            return PatternVar(self._bound(pattern.var), span=pattern.span)
        if isinstance(pattern, PatternTuple):
            return PatternTuple(tuple(map(self._pattern, pattern.patterns, ty.fields)), span=pattern.span)
        if not isinstance(pattern, PatternConstructor):
            return pattern
        old = pattern.constructor
        types = getattr(ty, "args", ())
        fields = instantiate(self._constructor_type(old), types)[0]
        made = self._program.constructor(old, self._program.visit(ty))
        return PatternConstructor(
            made, tuple(map(self._pattern, pattern.patterns, fields)), span=pattern.span
        )

    def _constructor_type(self, constructor: Constructor) -> FuncType:
        return type_of_callee(constructor, self._program.mod)

    def _call(self, call: Call) -> Recursion:
        callee: Any = call.op
        if isinstance(callee, Op) or (isinstance(callee, Function) and is_atomic(callee)):
            args = []
            for arg in call.args:
                args.append((yield self._atom(arg)))
            return Call(callee, tuple(args), call.attrs, span=call.span)
        is_constructor = isinstance(callee, Constructor)
        types = tuple(map(self._known, call.ty_args))
        generic = self._constructor_type(callee) if is_constructor else self._known(callee.ty)
        params, ret, _ = instantiate(generic, types)  # type: ignore[arg-type]
        args = []
        for arg, param in zip(call.args, params, strict=True):
            args.append((yield self._atom(arg, param)))
        if is_constructor:
            ty = self._program.visit(ret)
            return Call(self._program.constructor(callee, ty), tuple(args), ty_args=ty.args, span=call.span)
        if isinstance(callee, GlobalVar):
            return Call(self._program.instance(callee, types), tuple(args), span=call.span)
        plain = FuncType(params, ret)
        func = yield self._atom(callee, plain)
        kind = self._program.kind(self._program.signature(plain))
        return Call(kind.apply, (func, *args), span=call.span)

    def _atom(self, atom: Any, wanted: Any = None) -> Recursion:
        """What stands for an atom. `wanted`: the type that it is used with. Raises: UsageError Q0503 for a
        generic function where that does not say the types."""
        known = self._values.get(atom) if isinstance(atom, Var) else None
        ty = self._constructor_type(atom) if isinstance(atom, Constructor) else atom.ty
        if not isinstance(ty, FuncType):
            return atom if known is None else known
        own, goal = self._known(ty), self._known(wanted) if isinstance(wanted, FuncType) else None
        types: tuple[Type, ...] = ()
        if is_generic(own):
            if known is not None and not isinstance(known, _Generic):
                return (yield self._atom(known, wanted))
            if goal is None or is_generic(goal) or not isinstance(atom, (Var, GlobalVar, Constructor)):
                message = "a generic function is used as a value, and nothing says with which types"
                raise UsageError(Q0503, message, span=atom.span)
            types = types_of_instance(own, goal)  # type: ignore[arg-type]
            own = FuncType(*instantiate(own, types)[:2])  # type: ignore[arg-type]
        signature = self._program.signature(own)  # type: ignore[arg-type]
        if isinstance(known, _Generic):
            known = yield self._generic(known, types)
        elif isinstance(atom, Function):
            known = yield self._closure(atom, Var("fn", self._type(own), dialect="relay"), own)
        elif known is None:
            is_global = isinstance(atom, GlobalVar)
            make: Any = self._program.instance if is_global else self._program.constructor
            known = self._program.value(make(atom, types if is_global else signature.ret), signature)
        return known if goal is None else self._fitted(known, signature, self._program.signature(goal))  # type: ignore[arg-type]

    def _fitted(self, value: Any, found: FuncType, wanted: FuncType) -> Any:
        """A function as one of another type, which says less of sizes or more."""
        kind = self._program.kind(found)
        if kind is self._program.kind(wanted):
            return value
        return self._program.value(kind.apply, wanted, {value: TypeCall(kind.header)})
