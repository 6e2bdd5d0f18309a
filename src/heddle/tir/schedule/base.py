"""The base of schedules: the program, the trace, the random numbers, and the recording of primitives."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from functools import wraps
from inspect import Parameter, Signature, signature
from typing import Any, overload

from heddle.ir.expr import GlobalVar
from heddle.ir.module import IRModule
from heddle.ir.node import Map
from heddle.prim.nodes import IntImm, PrimExpr, Var, constant
from heddle.runtime.dtype import DataType
from heddle.support.diagnostics import Code, VerifyError
from heddle.support.frozen import frozen
from heddle.tir.codes import T0401
from heddle.tir.nodes import Buffer, For, PrimFunc, SBlock
from heddle.tir.schedule.error import ScheduleError
from heddle.tir.schedule.handles import LoopRV, SBlockRV, map_handles, size_variables
from heddle.tir.schedule.instruction import Instruction
from heddle.tir.schedule.nested_regions import with_nested_regions
from heddle.tir.schedule.numbers import check_numbers
from heddle.tir.schedule.trace import Trace
from heddle.tir.schedule.tree import find_block, find_loop
from heddle.tir.verify import verify_prim_func


@frozen
class Primitive:
    """A recorded method, and the function on programs that it applies."""

    name: str
    method: Callable[..., Any]
    parameters: Signature
    rewrite: Callable[..., Any] | None


PRIMITIVES: dict[str, Primitive] = {}
"""Every primitive by name, in the order of declaration. What a saved trace may call."""


def recorded(
    rewrite: Callable[..., Any] | None = None, numbers: Code | None = None
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Put a primitive's call into the trace when it succeeds. `rewrite` is the function that it applies,
    `numbers` the code of the error for arguments that are not the numbers which the parameters ask for."""

    def declare(method: Callable[..., Any]) -> Callable[..., Any]:
        parameters = signature(method, eval_str=False)
        PRIMITIVES[method.__name__] = Primitive(method.__name__, method, parameters, rewrite)

        @wraps(method)
        def call(self: ScheduleBase, *args: Any, **kwargs: Any) -> Any:
            bound = parameters.bind(self, *args, **kwargs)
            bound.apply_defaults()
            given = dict(list(bound.arguments.items())[1:])
            for name, value in given.items():
                bound.arguments[name] = self._evaluated(value)
            check_numbers(self.func, method.__name__, parameters, bound.arguments, numbers)
            given |= self._buffers_by_number(bound.arguments)
            self._revised = {}
            result = method(*bound.args, **bound.kwargs)
            given |= self._revised
            decision = given.pop("decision", None)
            instruction = Instruction(method.__name__, _starred(parameters, given), _outputs(result))
            self._record(instruction, decision)
            return result

        return call

    return declare


def _starred(parameters: Signature, given: dict[str, Any]) -> dict[str, Any]:
    """Arguments by name, with a star where the parameter takes any number."""
    many = {name for name, p in parameters.parameters.items() if p.kind is Parameter.VAR_POSITIONAL}
    return {f"*{name}" if name in many else name: value for name, value in given.items()}


def _outputs(result: Any) -> tuple[Any, ...]:
    return tuple(result) if isinstance(result, list) else () if result is None else (result,)


class ScheduleBase:
    """Schedules a loop function: the function `main` of a module, its only loop function, or a single
    function.

    `seed` makes sampling repeatable. With a `debug_mask` other than "none", the program is verified after
    every primitive.
    """

    def __init__(
        self,
        mod: IRModule | PrimFunc,
        *,
        seed: int | None = None,
        debug_mask: str | int = "none",
        error_render_level: str = "detail",
        enable_check: bool = True,
    ) -> None:
        if isinstance(mod, PrimFunc):
            mod = IRModule(Map({GlobalVar("main"): mod}))
        self._mod = mod
        names = [var.name_hint for var, func in mod.functions.items() if isinstance(func, PrimFunc)]
        self._target = "main" if "main" in names else names[0]
        self._is_checked = debug_mask not in ("none", 0)
        self._revised: dict[str, Any] = {}
        self._values: dict[Var, PrimExpr] = {}
        self._random = random.Random(None if seed == -1 else seed)
        self.trace = Trace(sizes=size_variables(self.func))

    # ---- the program

    @property
    def mod(self) -> IRModule:
        """The module with the current state of the function."""
        return self._mod

    @property
    def func(self) -> PrimFunc:
        """The current state of the function."""
        func: PrimFunc = self._mod[self._target]
        return func

    @property
    def primitive_names(self) -> frozenset[str]:
        """What a trace may call."""
        return frozenset(PRIMITIVES)

    def _update(self, func: PrimFunc) -> None:
        func = with_nested_regions(func)
        mod = self._mod.with_functions({**self._mod.functions, self._mod.get_global_var(self._target): func})
        findings = verify_prim_func(func, mod) if self._is_checked else []
        if findings:
            raise VerifyError(findings)
        self._mod = mod

    def _name(self, block: SBlockRV | str) -> str:
        return block if isinstance(block, str) else block.name

    def _buffers_by_number(self, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """Buffers among the arguments as what they are to the block: ("read", 1). In an equal program the
        block has another buffer there."""
        buffers = {key: value for key, value in arguments.items() if isinstance(value, Buffer)}
        if not buffers or arguments.get("block") is None:
            return {}
        block: SBlock = find_block(self.func, self._name(arguments["block"])).stmt.block
        kinds = (("read", block.reads), ("write", block.writes))
        return {
            key: (kind, number)
            for key, buffer in buffers.items()
            for kind, regions in kinds
            for number, region in enumerate(regions)
            if region.buffer is buffer
        }

    @overload
    def get(self, handle: SBlockRV) -> SBlock: ...

    @overload
    def get(self, handle: LoopRV) -> For: ...

    @overload
    def get(self, handle: PrimExpr) -> int: ...

    def get(self, handle: Any) -> Any:
        """Return the block or loop of a handle, or the value of a sampled number or of an expression of such
        numbers. Raises: ScheduleError T0401, T0402."""
        if isinstance(handle, SBlockRV):
            return find_block(self.func, handle.name).stmt.block
        if isinstance(handle, LoopRV):
            return find_loop(self.func, handle.var).stmt
        found = self._value_of(handle)
        if found is None:
            raise ScheduleError(T0401, f"{handle} is no sampled number of this schedule", self.func)
        return found

    def _record(self, instruction: Instruction, decision: Any) -> None:
        """A primitive has done its work."""
        self.trace.append(instruction, decision)

    # ---- random numbers

    def seed(self, seed: int) -> None:
        """Seed the random number generator; -1 chooses a seed."""
        self._random = random.Random(None if seed == -1 else seed)

    def fork_seed(self) -> int:
        """Draw a seed for another generator."""
        return self._random.getrandbits(31)

    def _sampled(self, value: int) -> Var:
        """A variable that stands for a sampled number."""
        var = Var(f"v{len(self._values)}", DataType("int32"))
        self._values[var] = constant(int(value))
        return var

    def _evaluated(self, value: Any) -> Any:
        """An argument with sampled numbers put in."""
        if not self._values:
            return value
        found = map_handles(value, {id(var): number for var, number in self._values.items()})
        return _plain(found) if found is not value else value

    def _value_of(self, expr: Any) -> int | None:
        found = self._evaluated(expr)
        found = found.value if isinstance(found, IntImm) else found
        return found if isinstance(found, int) else None


def _plain(value: Any) -> Any:
    """Constants as Python's numbers."""
    if isinstance(value, (list, tuple)):
        return type(value)(_plain(item) for item in value)
    return value.value if isinstance(value, IntImm) else value
