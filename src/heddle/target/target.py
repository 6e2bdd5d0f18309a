"""Target: what a program is compiled for.

`Target("llvm")` is this machine. `Target("llvm -mcpu=skylake-avx512 -num-cores=8")`, `Target({"kind": "llvm",
"mcpu": "znver5"})` and `Target("llvm", host="llvm")` spell others; `str(target)` gives a text that reads back
as an equal target.
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping
from functools import cache
from types import MappingProxyType
from typing import Any

from heddle.runtime.needs import Needs, platform_of
from heddle.support.diagnostics import UsageError, did_you_mean
from heddle.support.scoped import Scoped
from heddle.support.span import Source, SourceSpan, TextSpan
from heddle.target.codes import H0101, H0102, H0103, H0104
from heddle.target.features import implied_features, vector_bits
from heddle.target.host import host as host_machine
from heddle.target.kinds import TARGET_KINDS, WITHOUT_EFFECT, TargetKind
from heddle.target.llvm_check import check_code_generation
from heddle.target.needs import needs_of

_NATIVE = "native"


class Target(Scoped):
    """Immutable; equal by kind, options and host.

    Raises: UsageError H0101 for a malformed description, H0102 for an unknown kind, H0103 for an unknown
    option. What options name is looked at when code is made: see `check`.
    """

    __slots__ = ("attrs", "host", "kind")

    kind: TargetKind
    attrs: Mapping[str, Any]
    host: Target | None

    def __init__(self, target: str | Mapping[str, Any] | Target, host: Any = None) -> None:
        given = _parse(target)
        kind = str(given.pop("kind"))
        if kind not in TARGET_KINDS:
            raise UsageError(
                H0102,
                f"unknown target kind {kind!r}, expected one of {', '.join(TARGET_KINDS)}",
                help=did_you_mean(kind, TARGET_KINDS),
            )
        self.kind = TARGET_KINDS[kind]
        own_host = given.pop("host", None)
        if isinstance(own_host, Mapping) and "host" in own_host:
            raise UsageError(H0101, "the host of a target has no host of its own")
        chosen = host if host is not None else own_host
        self.host = None if chosen is None else chosen if isinstance(chosen, Target) else Target(chosen)
        self.attrs = MappingProxyType(
            {name: _option(self.kind, name, given[name], target) for name in sorted(given)}
        )

    @staticmethod
    def current(allow_none: bool = True) -> Target | None:
        """The target of the innermost `with target:`. Raises: UsageError H0104 where there is none and one is
        needed.
        """
        found = Target.innermost()
        if found is None and not allow_none:
            raise UsageError(H0104, "no target is current", help='enclose the call in `with Target("llvm"):`')
        return found

    @staticmethod
    def from_device(device: Any) -> Target:
        """The target that compiles for a device: for "cpu" (or `cpu(0)`), this machine."""
        name = str(device).split(":")[0].split("(")[0]
        if name not in ("cpu", "llvm"):
            raise UsageError(H0102, f"no target kind compiles for device {str(device)!r}")
        return Target.native()

    @staticmethod
    def native() -> Target:
        """This machine, its processor spelled out, so that the text means the same elsewhere."""
        machine = host_machine()
        return Target({"kind": "llvm", "mcpu": machine.cpu, "num-cores": machine.num_cores})

    def with_host(self, host: Any) -> Target:
        """The same target, whose host is the given one."""
        return Target(self, host)

    def without_host(self) -> Target:
        """The same target without a host."""
        description = self.export()
        description.pop("host", None)
        return Target(description)

    def export(self) -> dict[str, Any]:
        """The description as a dict that `Target` takes."""
        found: dict[str, Any] = {"kind": self.kind.name, **self.attrs}
        if self.host is not None:
            found["host"] = self.host.export()
        return found

    # ---- what code generation asks

    @property
    def is_host_cpu(self) -> bool:
        """Whether no other processor or system is named: code is for this machine."""
        machine = host_machine()
        return self.attrs.get("mcpu", machine.cpu) in (machine.cpu, _NATIVE) and (
            self.attrs.get("mtriple", machine.triple) == machine.triple
        )

    @property
    def mcpu(self) -> str:
        """LLVM's name of the processor; this machine's for "native" and where nothing is named, neither a
        processor nor a machine; "" where none is known."""
        is_native = self.kind.is_for_processor and "mtriple" not in self.attrs
        given = self.attrs.get("mcpu", _NATIVE if is_native else "")
        return host_machine().cpu if given == _NATIVE else str(given)

    @property
    def mtriple(self) -> str:
        """Machine and system as LLVM names them; this machine's where none is named."""
        return str(self.attrs.get("mtriple", host_machine().triple))

    @property
    def mattr(self) -> tuple[str, ...]:
        """Features to add ("+name" or "name") and to leave out ("-name")."""
        return tuple(self.attrs.get("mattr", ()))

    @property
    def features(self) -> str:
        """LLVM's feature list: the host's for the host, then what `mattr` adds or removes."""
        base = (host_machine().features,) if self.is_host_cpu and self.kind.is_for_processor else ()
        return ",".join((*base, *(text if text[:1] in "+-" else f"+{text}" for text in self.mattr)))

    @property
    def feature_set(self) -> frozenset[str]:
        """The names of the features that the processor has, as far as name and options tell."""
        if not self.kind.is_for_processor:
            return frozenset()
        return _features_of(self.mtriple, self.mcpu, self.features)

    def check(self) -> None:
        """Raises: UsageError H0105, H0106 or H0107 where LLVM cannot make code for the target's processor."""
        if self.kind.is_for_processor:
            check_code_generation(self.mtriple, self.mcpu, self.features, self.mattr)

    @property
    def needs(self) -> Needs:
        """What a processor must have to run code for this target. Raises: as `check`."""
        self.check()
        if not self.kind.is_for_processor:
            return Needs(platform_of(self.mtriple))
        is_listed = self.is_host_cpu and not self.mattr
        return needs_of(self.mtriple, self.mcpu, self.features, is_listed)

    @property
    def processor_name(self) -> str:
        """The processor and what options add or remove: "x86-64-v4+avx512bf16"."""
        changes = (text if text[:1] in "+-" else f"+{text}" for text in self.mattr)
        return (self.mcpu or self.mtriple.partition("-")[0]) + "".join(changes)

    @property
    def num_cores(self) -> int:
        """Cores of the machine; this machine's where the target does not say."""
        return int(self.attrs.get("num-cores", host_machine().num_cores))

    @property
    def vector_width_bits(self) -> int:
        """The width in bits of the widest vector register that is worth using; 64 if there is none."""
        given = self.attrs.get("vector-width")
        return int(given) if given else self.kind.vector_bits or vector_bits(self.mtriple, self.feature_set)

    @property
    def l1_cache_bytes(self) -> int:
        """The first-level data cache of one core; 32 KiB where unknown."""
        return int(
            self.attrs.get("l1-cache-bytes", (self.is_host_cpu and host_machine().l1_bytes) or 32 << 10)
        )

    @property
    def l2_cache_bytes(self) -> int:
        """The second-level cache of one core; 1 MiB where unknown."""
        return int(
            self.attrs.get("l2-cache-bytes", (self.is_host_cpu and host_machine().l2_bytes) or 1 << 20)
        )

    @property
    def opt_level(self) -> int:
        """Effort of the code generator, 0 to 3; 3 where the target does not say."""
        return int(self.attrs.get("opt-level", 3))

    @property
    def keys(self) -> tuple[str, ...]:
        """The kind of device, alone."""
        return (self.kind.device,)

    def get_target_device_type(self) -> int:
        """DLPack's number of the device: 1, the CPU."""
        return 1

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Target) and other.export() == self.export()

    def __hash__(self) -> int:
        return hash(json.dumps(self.export(), sort_keys=True))

    def __str__(self) -> str:
        parts = [self.kind.name]
        for name, value in self.attrs.items():
            text = ",".join(value) if isinstance(value, tuple) else str(value)
            parts.append(shlex.quote(f"-{name}={text}"))
        if self.host is not None:
            parts.append(shlex.quote(f"-host={self.host}"))
        return " ".join(parts)

    def __repr__(self) -> str:
        return f"Target({str(self)!r})"


def _parse(target: str | Mapping[str, Any] | Target) -> dict[str, Any]:
    if isinstance(target, Target):
        return target.export()
    if isinstance(target, Mapping):
        given = dict(target)
        if "kind" not in given:
            raise UsageError(H0101, "a target description needs the entry 'kind'")
        if not all(isinstance(name, str) for name in given):
            raise UsageError(H0101, "the entries of a target description have texts as names")
        return given
    if not isinstance(target, str):
        raise UsageError(H0101, f"a target is a text or a mapping, got {type(target).__name__}")
    if target.lstrip().startswith("{"):
        try:
            return _parse(json.loads(target))
        except (ValueError, RecursionError) as error:
            raise UsageError(H0101, f"malformed target: {error}") from error
    try:
        words = shlex.split(target)
    except ValueError as error:
        raise UsageError(H0101, f"malformed target {target!r}: {error}") from error
    if not words or words[0].startswith("-"):
        raise UsageError(H0101, f"a target starts with its kind, got {target!r}")
    return {"kind": words[0], **_options(words[1:])}


def _options(words: list[str]) -> dict[str, Any]:
    given: dict[str, Any] = {}
    position = 0
    while position < len(words):
        word = words[position]
        if not word.startswith("-"):
            raise UsageError(H0101, f"expected a target option such as -mcpu=NAME, got {word!r}")
        name, equals, value = word.lstrip("-").partition("=")
        position += 1
        if not equals and position < len(words) and not words[position].startswith("-"):
            value = words[position]
            position += 1
        if name in given:
            raise UsageError(H0101, f"target option -{name} is given twice: {given[name]!r} and {value!r}")
        given[name] = value
    return given


def _option(kind: TargetKind, name: str, value: Any, described: Any) -> Any:
    option = kind.options.get(name)
    if option is None:
        known = name in WITHOUT_EFFECT
        raise UsageError(
            H0103,
            f"target kind {kind.name!r} has no option {name!r}",
            span=_place_of(name, described),
            help=WITHOUT_EFFECT[name] if known else did_you_mean(name, kind.options),
        )
    if value == "" and isinstance(described, str):
        raise UsageError(
            H0101,
            f"target option -{name} has no value",
            span=_place_of(name, described),
            help=f"write -{name}=VALUE",
        )
    if option.type is list:
        return _texts(name, value)
    if option.numbers is not None:
        return _number(name, value, option.numbers)
    if not isinstance(value, str):
        raise UsageError(H0101, f"target option {name!r} expects a text, got {_shown(value)}")
    return value


def _place_of(name: str, described: Any) -> SourceSpan | TextSpan:
    """Where the description of a target names an option."""
    if not isinstance(described, str):
        return TextSpan(f"target option {name!r}")
    at = max(described.find(name), 0)
    begin = at - len(described[:at]) + len(described[:at].rstrip("-"))
    return SourceSpan(Source("target", described), 1, begin + 1, 1, at + len(name) + 1)


def _texts(name: str, value: Any) -> tuple[str, ...]:
    items = [value] if isinstance(value, str) else value
    if not isinstance(items, (list, tuple)) or not all(isinstance(item, str) for item in items):
        raise UsageError(
            H0101, f"target option {name!r} expects a list of texts or one with commas, got {_shown(value)}"
        )
    return tuple(part for item in items for part in item.split(",") if part)


def _number(name: str, value: Any, allowed: range) -> int:
    try:
        number = int(value) if isinstance(value, (int, str)) and not isinstance(value, bool) else None
    except ValueError:
        number = None
    if number is None:
        raise UsageError(H0101, f"target option {name!r} expects a number, got {_shown(value)}")
    if number not in allowed:
        bounds = f"from {allowed.start} to {allowed.stop - 1}"
        raise UsageError(H0101, f"target option {name!r} expects a number {bounds}, got {_shown(number)}")
    if name == "vector-width" and number & (number - 1):
        raise UsageError(H0101, f"target option {name!r} expects a power of two, got {number}")
    return number


def _shown(value: Any) -> str:
    return repr(value)[:80]


@cache
def _features_of(triple: str, cpu: str, features: str) -> frozenset[str]:
    """What a processor has by its name, and what a list of features adds and removes."""
    found = set(implied_features(triple, cpu))
    for text in features.split(","):
        if text.startswith("+"):
            found.add(text[1:])
        elif text.startswith("-"):
            found.discard(text[1:])
    has_tiles = triple.startswith(("x86_64", "amd64"))  # in 64-bit mode only
    return frozenset(name for name in found if has_tiles or not name.startswith("amx-"))
