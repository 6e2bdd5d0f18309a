"""What both machines share: closures, and the error of a program that breaks its instruction set's rules."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from heddle.support.diagnostics import VerifyError


class BytecodeError(VerifyError, RuntimeError):
    """Bytecode that breaks a rule of its instruction set."""


class VMClosure:
    """A function of a program, perhaps with its last parameters bound. `impl` takes the machine first.

    Called through a machine: `vm.invoke_closure(closure, *args)`. Where the function is bytecode, `target` is
    what the machine runs for it, with `bound` after the arguments; machines use them to enter it without
    recursion. `direct` is machine code that knows its machine.
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
