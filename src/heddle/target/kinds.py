"""The table of target kinds. The code generator of a kind is the package `heddle.codegen.<kind>`.

Every option of a kind has an effect: on the generated code, on loop schedules, or on the target's attributes
that scripts can read. Options without effect are rejected.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from heddle.support.frozen import frozen


@frozen
class Option:
    """An option: a text, a list of texts (`list`), or a number in the range `numbers`."""

    type: type
    meaning: str
    numbers: range | None = None


@frozen
class TargetKind:
    """A target kind. `backend` is the module with the record of its code generator. With `is_for_processor`,
    code is for one processor, which options name; otherwise it is for any processor that the platform's
    compiler supports. `vector_bits` is the vector width for loop schedules if no processor determines it."""

    name: str
    device: str
    options: Mapping[str, Option]
    backend: str
    is_for_processor: bool
    vector_bits: int = 0


_MACHINE: dict[str, Option] = {
    "num-cores": Option(int, "cores of the machine, for scripts that ask the target", range(1, 1 << 16)),
    "vector-width": Option(int, "bits of the widest vector worth using", range(64, 2049)),
    "l1-cache-bytes": Option(int, "first-level data cache of a core, for scripts", range(1, 1 << 40)),
    "l2-cache-bytes": Option(int, "second-level cache of a core, for scripts", range(1, 1 << 40)),
}
_LLVM: dict[str, Option] = {
    "mcpu": Option(str, "LLVM's name of the processor"),
    "mtriple": Option(str, "machine and system"),
    "mattr": Option(list, "features of the processor to add or leave out"),
    "opt-level": Option(int, "effort of LLVM", range(4)),
    **_MACHINE,
}
_C: dict[str, Option] = {
    "opt-level": Option(int, "-O of the compiler, where code is loaded into this process", range(4)),
    **_MACHINE,
}
TARGET_KINDS: dict[str, TargetKind] = {
    kind.name: kind
    for kind in (
        TargetKind("llvm", "cpu", MappingProxyType(_LLVM), "heddle.codegen.llvm.backend", True),
        TargetKind("c", "cpu", MappingProxyType(_C), "heddle.codegen.c.backend", False, vector_bits=128),
    )
}
WITHOUT_EFFECT: dict[str, str] = {
    "libs": "no target calls libraries for operators: leave it out",
    "keys": "schedules follow from what the processor has: leave it out, or name the processor with -mcpu",
    "device": "schedules follow from what the processor has: leave it out, or name the processor with -mcpu",
    "model": "it would be a comment: leave it out, or name the processor with -mcpu",
    "tag": "it would be a comment: leave it out",
    "mcpu": "C is compiled for a processor by its compiler's options, such as -march",
    "mtriple": "C is compiled for a machine by its compiler",
    "mattr": "C is compiled for a processor by its compiler's options, such as -march",
    "runtime": "programs choose how they are run when they are compiled: exec_mode of heddle.compile",
    "system-lib": "give the module the attribute system_lib_prefix",
    "executor": "programs choose how they are run when they are compiled: exec_mode of heddle.compile",
    "link-params": "weights are part of every compiled program: leave it out",
    "march": "name the processor with -mcpu",
}
"""Options of other kinds or of other compilers, with the advice what to use instead."""
