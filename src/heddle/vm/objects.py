"""Closures, and the error for invalid bytecode, which all machines share."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from heddle.support.diagnostics import VerifyError


class BytecodeError(VerifyError, RuntimeError):
    """Bytecode breaks a rule of its instruction set."""


class VMClosure:
    """A function of a program, possibly with its last parameters bound. `impl` takes the machine as first
    argument.

    Call it through a machine: `vm.invoke_closure(closure, *args)`. If the function is bytecode, the machine
    enters `target` without recursion and passes `bound` after the arguments. `direct` is machine code that
    already knows its machine.
    """

    __slots__ = ("__weakref__", "bound", "direct", "func_name", "impl", "target")

    def __init__(
        self,
        func_name: str,
        impl: Callable[..., Any],
        target: Any = None,
        bound: tuple[Any, ...] = (),
        direct: Callable[..., Any] | None = None,
    ) -> None:
        self.func_name = func_name
        self.impl = impl
        self.target = target
        self.bound = bound
        self.direct = direct

    def bind_last(self, bound: tuple[Any, ...]) -> VMClosure:
        """`bind_last((a, b))` called with `(y, z)` runs with `(y, z, a, b)`."""
        impl = self.impl
        return VMClosure(
            self.func_name, lambda vm, *args: impl(vm, *args, *bound), self.target, (*bound, *self.bound)
        )

    def __repr__(self) -> str:
        return f"VMClosure({self.func_name})"
