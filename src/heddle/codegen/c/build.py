"""PrimFuncs → a module of C: its text, and the machine code that the system's compiler makes of it when it is
asked for.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import reduce

from heddle.codegen.c.module import emit_functions
from heddle.codegen.c.writer import ModuleWriter
from heddle.codegen.c_source import compile_text
from heddle.codegen.cache import KernelCache
from heddle.codegen.codes import G0205
from heddle.codegen.functions import is_entry, named
from heddle.codegen.pipeline import lower
from heddle.ir.module import IRModule
from heddle.ir.nesting import refusing_deep_nesting
from heddle.runtime.kernel_module import CSourceModule, KernelModule
from heddle.runtime.needs import Needs
from heddle.support.diagnostics import UsageError
from heddle.support.frozen import frozen
from heddle.support.names import is_c_name
from heddle.target import Target
from heddle.tir.nodes import PrimFunc

TEXT_FORMAT = "c"
_OPENING = """/* Made by heddle. Portable C99; the header comes with heddle. */

#include "heddle_c.h"
#include "heddle_program.h"

"""


@frozen
class Part:
    """The text of functions, without the lines that include headers; what they call of the host; the memory
    that kernels take (`ModuleWriter`)."""

    text: str
    hosted: frozenset[str]
    workspaces: Mapping[str, tuple[int | None, ...]]


def emit_part(funcs: Sequence[PrimFunc]) -> Part:
    """Lowered functions as C."""
    module = ModuleWriter()
    with refusing_deep_nesting("the emitter of C", funcs):
        emit_functions(module, funcs)
    workspaces = {name: tuple(sizes) for name, sizes in module.workspaces.items()}
    return Part(module.build(), frozenset(module.hosted), workspaces)


def emit(funcs: Sequence[PrimFunc], _: Target) -> str:
    """The C text of lowered functions, without the lines that include headers."""
    return emit_part(funcs).text


class CModule(CSourceModule):
    """Kernels as C. `parts` are the texts of functions; the compiler runs when code is asked for, which is
    when a kernel is called or the module is saved.
    """

    def __init__(self, parts: Sequence[Part], names: Sequence[str], target: Target) -> None:
        self.parts = tuple(parts)
        self._target = target
        text = _OPENING + "\n".join(part.text for part in parts)
        super().__init__(self._compile, names, str(target), TEXT_FORMAT, text, Needs(target.needs.platform))

    @property
    def hosted(self) -> frozenset[str]:
        """Functions that are called and are no kernels: the program's own, or the host's."""
        return frozenset(name for part in self.parts for name in part.hosted)

    @property
    def workspaces(self) -> dict[str, tuple[int | None, ...]]:
        """The bytes of each allocation that a kernel makes while it runs, by kernel; None where they depend
        on sizes."""
        return {name: sizes for part in self.parts for name, sizes in part.workspaces.items()}

    def _compile(self) -> Sequence[bytes]:
        """Raises: UsageError G0201 without a compiler, G0202 where it fails."""
        text = self.source[TEXT_FORMAT]
        what = f"target c, {len(self.names)} kernels"
        options = (f"-O{self._target.opt_level}", "-std=c99", "-ffp-contract=off", "-fno-math-errno")
        return [compile_text(text, TEXT_FORMAT, what, options)]


def build(given: IRModule, target: Target, _: KernelCache | None) -> KernelModule:
    """A module of all functions. Raises: UsageError G0101, G0103, G0205."""
    funcs = {var: named(var, func) for var, func in given.functions.items() if isinstance(func, PrimFunc)}
    lowered = lower(given.with_functions(funcs), target).functions.values()
    parts = [func for func in lowered if isinstance(func, PrimFunc)]
    names = [str(func.attrs["global_symbol"]) for func in parts if is_entry(func)]
    for name, func in zip(names, filter(is_entry, parts), strict=True):
        if not is_c_name(name):
            raise UsageError(
                G0205,
                f"no name for a function in C: {name!r}",
                span=func.span,
                help="name it, or give it a global_symbol, of ASCII letters, digits and underscores",
            )
    return CModule([emit_part(parts)], names, target)


def join(kernels: Sequence[KernelModule], made: KernelModule, target: Target) -> KernelModule:
    """One file of all functions; code that somebody else compiled is linked to it."""
    own = [module for module in (*kernels, made) if isinstance(module, CModule)]
    parts = [part for module in own for part in module.parts]
    joined = CModule(parts, [name for module in own for name in module.names], target)
    others = [module for module in kernels if not isinstance(module, CModule)]
    if not others:
        return joined
    names = [name for module in (joined, *others) for name in module.names]
    needs = reduce(Needs.joined, (module.needs for module in others), joined.needs)
    objects = [code for module in (joined, *others) for code in module.objects]
    return KernelModule(objects, names, str(target), joined.source, needs)
