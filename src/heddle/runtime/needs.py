"""The processor features that object code needs and that this processor has, without LLVM.

Feature names and feature lists are LLVM's. `heddle.runtime.processor` asks LLVM instead.
"""

from __future__ import annotations

import ctypes
import os
import sys
from collections.abc import Callable, Iterable, Mapping
from dataclasses import field
from functools import cache
from pathlib import Path

from heddle.runtime.wire import Reader, Writer
from heddle.support.frozen import frozen
from heddle.support.printable import printable

_MACHINES = {"amd64": "x86_64", "arm64": "aarch64"}
_SYSTEMS = {"linux": "linux", "darwin": "darwin", "macos": "darwin", "windows": "windows"}
_SHOWN, _LONGEST = 12, 80


def platform_of(triple: str) -> str:
    """Return the machine and system of a triple, such as "x86_64-linux". Object code is for one platform."""
    machine, _, rest = triple.partition("-")
    system = next((name for text, name in _SYSTEMS.items() if text in rest), "")
    return "-".join(part for part in (_MACHINES.get(machine, machine), system) if part)


@frozen
class Needs:
    """What object code requires: a platform ("" for any; "x86_64" for that machine with any system) and
    features by LLVM's names.
    """

    platform: str = ""
    features: frozenset[str] = field(default_factory=frozenset)

    def joined(self, other: Needs) -> Needs:
        """Return the union of two sets of needs."""
        return Needs(self.platform or other.platform, self.features | other.features)


@frozen
class Processor:
    """A processor. `features` is LLVM's list, "+avx2,-sse4a,..."; it is empty if the features are unknown."""

    triple: str
    cpu: str
    features: str

    @property
    def platform(self) -> str:
        """The machine and system, such as "x86_64-linux"."""
        return platform_of(self.triple)

    def is_for(self, needs: Needs) -> bool:
        """Whether code for the platform in `needs` is code for this platform. A platform without a system,
        such as `x86_64`, matches every system.
        """
        return needs.platform in ("", self.platform, self.platform.partition("-")[0])

    def lacks(self, needs: Needs) -> tuple[str, ...]:
        """Return the required features that are missing, sorted. Empty if the processor's features are
        unknown.
        """
        if not self.features:
            return ()
        has = {text[1:] for text in self.features.split(",") if text.startswith("+")}
        return tuple(sorted(needs.features - has))

    def runs(self, needs: Needs) -> bool:
        """Whether the processor has everything that the code needs."""
        return self.is_for(needs) and not self.lacks(needs)

    def __str__(self) -> str:
        return f"{self.cpu or 'unknown processor'} ({self.platform})"


def usable_features(features: str, may_use_tiles: Callable[[], bool]) -> str:
    """Remove tile register features (AMX) from a feature list if the system does not let this process use
    them. The system is asked only if the processor has them.
    """
    names = features.split(",")
    if "+amx-tile" not in names or may_use_tiles():
        return features
    return ",".join(f"-{name[1:]}" if name.startswith("+amx-") else name for name in names)


REQUEST_TILES = (158, 0x1023, 18)
"""The Linux system call on x86-64 that requests tile registers: arch_prctl(ARCH_REQ_XCOMP_PERM,
XFEATURE_XTILEDATA).

**Source**: Linux, Documentation/arch/x86/xstate.rst.
"""


def may_use_tiles() -> bool:
    """Whether the system lets this process use the processor's tile registers."""
    if sys.platform != "linux":
        return False
    return bool(ctypes.CDLL(None).syscall(*map(ctypes.c_long, REQUEST_TILES)) == 0)


_FLAGS_OF = {"x86_64": "flags", "aarch64": "Features"}
_RENAMED: Mapping[str, Mapping[str, str]] = {  # Linux's name of a feature: LLVM's name
    "x86_64": {
        "3dnowprefetch": "prfchw",
        "abm": "lzcnt",
        "bmi1": "bmi",
        "lahf_lm": "sahf",
        "lm": "64bit",
        "pclmulqdq": "pclmul",
        "pni": "sse3",
        "rdrand": "rdrnd",
        "sha_ni": "sha",
        "sse4_1": "sse4.1",
        "sse4_2": "sse4.2",
        "user_shstk": "shstk",
    },
    "aarch64": {
        "asimd": "neon",
        "asimddp": "dotprod",
        "asimdhp": "fullfp16",
        "asimdrdm": "rdm",
        "atomics": "lse",
        "crc32": "crc",
        "dcpop": "ccpp",
        "fcma": "complxnum",
        "fp": "fp-armv8",
        "jscvt": "jsconv",
        "lrcpc": "rcpc",
    },
}
_JOINT = {"amx_": "-"}  # avx512_vnni is avx512vnni, amx_tile is amx-tile
"""**Source** Linux, arch/x86/include/asm/cpufeatures.h and Documentation/arch/arm64/elf_hwcaps.rst."""


def features_of_flags(machine: str, flags: Iterable[str]) -> frozenset[str]:
    """Convert Linux's processor flags to LLVM's feature names. Unknown flags are kept."""
    renamed = _RENAMED.get(machine, {})
    return frozenset(renamed.get(flag, flag.replace("_", _JOINT.get(flag[:4], ""))) for flag in flags)


@cache
def processor_that_system_tells(information: str = "/proc/cpuinfo") -> Processor:
    """Describe this machine's processor from what Linux reports, without LLVM, for processes that only run
    programs.
    """
    machine = _MACHINES.get(os.uname().machine.lower(), os.uname().machine.lower())
    triple = f"{machine}-unknown-{sys.platform}"
    try:
        rows = [line.partition(":") for line in Path(information).read_text(errors="replace").splitlines()]
    except OSError:
        return Processor(triple, "", "")
    told = {key.strip(): value.strip() for key, _, value in reversed(rows)}  # of the first processor
    names = features_of_flags(machine, told.get(_FLAGS_OF.get(machine, ""), "").split())
    features = ",".join(f"+{name}" for name in sorted(names))
    return Processor(triple, told.get("model name", ""), usable_features(features, may_use_tiles))


def write_needs(writer: Writer, needs: Needs) -> None:
    """Write needs in the form that `read_needs` reads."""
    writer.text(needs.platform)
    writer.texts(sorted(needs.features))


def read_needs(reader: Reader) -> Needs:
    """Read needs from a file. Raises: FormatError F0106."""
    return Needs(reader.text(), frozenset(reader.texts()))


def listed(names: Iterable[str]) -> str:
    """Join names for a message. They may come from a hostile file, so their number and length are limited."""
    texts = [printable(name if len(name) <= _LONGEST else f"{name[:_LONGEST]}...") for name in names]
    more = len(texts) - _SHOWN
    return ", ".join(texts[:_SHOWN]) + (f" and {more} more" if more > 0 else "")
