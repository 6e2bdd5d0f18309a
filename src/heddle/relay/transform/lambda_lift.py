"""Functions inside of functions, as functions of the module."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from heddle.ir.attrs import attrs_of
from heddle.ir.expr import Call, Function, GlobalVar, Var, is_relay
from heddle.ir.module import IRModule
from heddle.ir.node import replace
from heddle.ir.structural import structural_equal, structural_hash
from heddle.ir.transform import Pass, PassContext
from heddle.ir.variables import free_type_vars, free_vars
from heddle.ir.visitor import rebuild
from heddle.relay.builders import replace_vars, without_type
from heddle.relay.nodes import Let
from heddle.relay.placement import post_order
from heddle.relay.typed import infer_module
from heddle.support.frozen import frozen

CLOSURE = "Closure"
"""The attribute of a function that gives a function, with what that captures bound."""


@frozen
class LambdaLift(Pass):
    """Move functions into the module.

        def @main(%y: float32) { let %f = fn (%x: float32) { %x + %y }; %f(1f) }

    becomes

        def @lifted_name123(%y: float32, Closure=1) { fn (%x: float32) { %x + %y } }
        def @main(%y: float32) { let %f = @lifted_name123(%y); %f(1f) }

    A function without captures is lifted as it is. Equal functions are lifted once; names come from what they
    are. Kernels (`Primitive`) stay, and so does a function that needs type variables from outside.
    """

    opt_level = 1

    def transform(self, mod: IRModule, ctx: PassContext) -> IRModule:
        typed = infer_module(mod)
        lifter = _Lifter(typed)
        made = {var: lifter.top(func) if is_relay(func) else func for var, func in typed.functions.items()}
        if not lifter.lifted:
            return typed
        added = {GlobalVar(name): func for name, func in lifter.lifted.items()}
        return infer_module(typed.with_functions({**made, **added}))


@dataclass(slots=True)
class _Lifter:
    mod: IRModule
    lifted: dict[str, Function] = field(default_factory=dict)
    _shapes: dict[str, Function] = field(default_factory=dict)

    def top(self, func: Function) -> Function:
        """A function of the module: what lies in it is lifted. A closure's maker stays."""
        if func.attrs.get(CLOSURE) or func.attrs.get("Primitive"):
            return func
        names = {
            id(let.value): let.var
            for let in post_order(func)
            if isinstance(let, Let) and isinstance(let.value, Function)
        }

        def change(old: Any, new: Any) -> Any:
            if not isinstance(new, Function) or old is func or new.attrs.get("Primitive"):
                return without_type(new) if new is not old else new
            needs = free_type_vars(new) or any(free_type_vars(var.ty) for var in free_vars(new) if var.ty)
            return new if needs else self._lift(old, new, names.get(id(old)))

        made: Function = rebuild(func, change)
        return made

    def _lift(self, old: Function, func: Function, itself: Var | None) -> Any:
        """What stands for a function: a global one, or a call that binds what it captures. `itself` is the
        variable that a let gives it: inside, it is what stands for the function."""
        captured = tuple(var for var in free_vars(func) if var is not itself)
        fresh = tuple(replace(var) for var in captured)
        name = GlobalVar(self._named(func, itself))
        stand_in = Call(name, fresh) if captured else name
        binds = dict(zip(captured, fresh, strict=True)) | ({} if itself is None else {itself: stand_in})
        body = replace_vars(func, binds)
        if captured:
            body = Function(fresh, body, old.ty, attrs=attrs_of({CLOSURE: 1}), dialect="relay")
        self.lifted.setdefault(name.name_hint, replace(body, ret_ty=body.ret_ty or old.ret_ty, ty=None))
        return Call(name, captured) if captured else name

    def _named(self, func: Function, itself: Var | None) -> str:
        """A name that follows from what the function is; equal functions have one."""
        shape = func if itself is None else replace_vars(func, {itself: GlobalVar("itself")})
        captured = free_vars(shape)
        shape = Function(captured, shape, dialect="relay") if captured else shape
        base = f"lifted_name{structural_hash(shape)}"
        name, number = base, 0
        while name in self._shapes and not structural_equal(self._shapes[name], shape):
            number += 1
            name = f"{base}_{number}"
        self._shapes.setdefault(name, shape)
        return name
