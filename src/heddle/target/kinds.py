"""The kinds of targets: a row each. The code generator of a kind is a folder, `heddle.codegen.<kind>`.

Every option of a kind changes something: what code is made, how loops are laid out, or what a target tells a
script that asks it. An option that would do nothing is refused.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from heddle.support.frozen import frozen


@frozen
class Option:
    """A text, a list of texts (`list`), or a number in `numbers`."""

    type: type
    meaning: str
    numbers: range | None = None


@frozen
class TargetKind:
    """`backend` is the module with the record of its code generator. `is_for_processor`: code is for one
    processor, which options name; otherwise for any that the platform's compiler knows. `vector_bits` is how
    wide vectors loops are laid out for where no processor says it.
    """

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
"""Options that other kinds or other compilers have, with what to do instead."""
