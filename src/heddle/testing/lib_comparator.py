"""Comparing two libraries of the same kernels while a program runs: an instrument of the machine.

vm = VirtualMachine(executable, cpu())
vm.set_instrument(LibCompareVMInstrument(other_library, cpu()))
vm["main"](x)   # every kernel that other_library has too runs there as well, and must give the same
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from heddle.runtime.device import Device
from heddle.runtime.module import Module
from heddle.runtime.tensor import Tensor
from heddle.testing.checks import assert_allclose

_BUILTINS = "vm.builtin."


class LibCompareVMInstrument:
    """After each call of a kernel, run the kernel of that name in `mod` on copies and compare the results.

    `mod` is a module of kernels (or one that imports some), `device` where they run. Left out are builtins,
    functions that `mod` has not, and calls with an operand that is no tensor. The last operand is taken for
    the result and compared. Copies are made before the call, so kernels may work in place.

    Overridable: `compare`, and `skip_instrument` for kernels that cannot be compared so.
    """

    def __init__(
        self, mod: Module, device: Device, verbose: bool = True, rtol: float = 1e-5, atol: float = 1e-5
    ) -> None:
        self.mod = mod
        self.device = device
        self.verbose = verbose
        self.rtol = rtol
        self.atol = atol
        self.counter = 0
        """How many calls were compared."""
        self._copies: list[Tensor] | None = None

    def skip_instrument(self, func: Any, name: str, before_run: bool, ret_val: Any, *args: Any) -> bool:
        """Whether a call is to be left out, although it could be compared."""
        return False

    def compare(
        self, name: str, ref_args: Sequence[Tensor], new_args: Sequence[Tensor], ret_indices: Sequence[int]
    ) -> None:
        """Compare the operands at `ret_indices`. Raises: AssertionError that names the kernel."""
        for index in ret_indices:
            try:
                assert_allclose(new_args[index].numpy(), ref_args[index].numpy(), self.rtol, self.atol)
            except AssertionError as error:
                raise AssertionError(f"kernel {name!r} differs in operand {index}: {error}") from error

    def __call__(self, func: Any, name: str, before_run: bool, ret_val: Any, *args: Any) -> None:
        if name.startswith(_BUILTINS) or not args or not all(isinstance(arg, Tensor) for arg in args):
            return
        kernel = self.mod.find_function(name, query_imports=True)
        if kernel is None:
            return
        if before_run:
            skipped = self.skip_instrument(func, name, before_run, ret_val, *args)
            self._copies = None if skipped else [arg.copyto(self.device) for arg in args]
            return
        copies, self._copies = self._copies, None
        if copies is None:
            return
        kernel(*copies)
        self.counter += 1
        if self.verbose:
            print(f"[{self.counter}] {name}: {', '.join(f'{arg.dtype}{list(arg.shape)}' for arg in args)}")
        self.compare(name, args, copies, (len(args) - 1,))
