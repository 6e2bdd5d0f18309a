"""Which function imports which operator: by domain, name and the operator-set version from which it applies.

    @converts("Squeeze", since=1)
    def squeeze_1(ctx: NodeContext) -> Result: ...

    @converts("Squeeze", since=13)
    def squeeze(ctx: NodeContext) -> Result: ...

A model of operator set 11 gets the first, one of 13 or later the second. A symbolic rule computes an operator
on values whose elements are known as scalar expressions (`content`), so that shape arithmetic never becomes
tensors.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from heddle.support.registry import caller_place

Converter = Callable[..., Any]
SymbolicRule = Callable[..., Any]

ML = "ai.onnx.ml"
MICROSOFT = "com.microsoft"

MAX_OPSET = {"": 28, ML: 5, "ai.onnx.preview.training": 1, MICROSOFT: 1}
"""The newest operator set of each domain that the converters were written for."""

_CONVERTERS: dict[tuple[str, str], list[tuple[int, Converter, str]]] = {}
_SYMBOLIC: dict[tuple[str, str], SymbolicRule] = {}
_REASONS: dict[tuple[str, str], tuple[str, str]] = {}
_LIMITS: dict[tuple[str, str], list[str]] = {}
TEXT_OPERATORS = frozenset(
    {
        ("", name)
        for name in ("Equal", "Identity", "RegexFullMatch", "StringConcat", "StringNormalizer", "StringSplit")
    }
    | {("", name) for name in ("If", "Loop", "Scan")}
    | {(ML, name) for name in ("CategoryMapper", "LabelEncoder", "OneHotEncoder")}
)
"""Those that take tensors of strings."""
_DENIALS: dict[tuple[str, str], list[Callable[[Any], str | None]]] = {}


def add_converter(name: str, function: Converter, since: int = 1, domain: str = "") -> None:
    """Register a converter. Registering a version twice is refused with both places."""
    versions = _CONVERTERS.setdefault((domain, name), [])
    for version, _, place in versions:
        if version == since:
            raise ValueError(
                f"converter of {name} since {since} is declared twice: {place} and {caller_place()}"
            )
    versions.append((since, function, caller_place()))
    versions.sort(key=lambda entry: entry[0])


def converts(*names: str, since: int = 1, domain: str = "") -> Callable[[Converter], Converter]:
    """Register the decorated function as converter of operators."""

    def register(function: Converter) -> Converter:
        for name in names:
            add_converter(name, function, since, domain)
        return function

    return register


def symbolic(*names: str) -> Callable[[SymbolicRule], SymbolicRule]:
    """Register the decorated function as symbolic rule of operators: (context) → array of scalar expressions
    or None."""

    def register(function: SymbolicRule) -> SymbolicRule:
        for name in names:
            _SYMBOLIC["", name] = function
        return function

    return register


def denies(
    *names: str, domain: str = ""
) -> Callable[[Callable[[Any], str | None]], Callable[[Any], str | None]]:
    """Register a check that runs over the whole model before anything is built: (node) → what is unsupported,
    or None."""

    def register(function: Callable[[Any], str | None]) -> Callable[[Any], str | None]:
        for name in names:
            _DENIALS.setdefault((domain, name), []).append(function)
        return function

    return register


def refuses(name: str, reason: str, rewrite: str = "", domain: str = "") -> None:
    """Say why there is no converter of an operator, and what to write instead."""
    _REASONS[domain, name] = (reason, rewrite)


def lacks(name: str, form: str, domain: str = "") -> None:
    """Say which form of an operator is not imported."""
    _LIMITS.setdefault((domain, name), []).append(form)


def reason_against(domain: str, name: str) -> tuple[str, str] | None:
    """Why an operator has no converter, and the nearest rewrite."""
    return _REASONS.get((domain, name))


def refused_operators(domain: str) -> list[str]:
    """The names of operators without a converter that have a reason, sorted."""
    return sorted(name for own, name in _REASONS if own == domain)


def limits_of(domain: str, name: str) -> list[str]:
    """The forms of an operator that are not imported."""
    return _LIMITS.get((domain, name), [])


def converter_versions(domain: str, name: str) -> list[int]:
    """The operator sets since which there are converters, rising."""
    return [since for since, _, _ in _CONVERTERS.get((domain, name), ())]


def find_converter(domain: str, name: str, opset: int) -> Converter | None:
    """The converter of the newest version that is not newer than `opset`."""
    fitting = [function for since, function, _ in _CONVERTERS.get((domain, name), ()) if since <= opset]
    return fitting[-1] if fitting else None


def first_version(domain: str, name: str) -> int | None:
    """The oldest version that a converter exists for."""
    versions = _CONVERTERS.get((domain, name))
    return versions[0][0] if versions else None


def find_symbolic(domain: str, name: str) -> SymbolicRule | None:
    """The rule on contents for an operator; None where it has none."""
    return _SYMBOLIC.get((domain, name))


def denials(domain: str, name: str) -> list[Callable[[Any], str | None]]:
    """What may refuse a node of an operator: each gives a reason, or None."""
    return _DENIALS.get((domain, name), [])


def known_operators(domain: str = "") -> list[str]:
    """The names that have a converter, sorted."""
    return sorted(name for own, name in _CONVERTERS if own == domain)
