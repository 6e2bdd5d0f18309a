"""Several variants of one program in one file: how they are stored, and which one a machine takes.

    variants     per variant: name, target, platform, features, and for each of its sections the name and the
                 number of the part that holds the bytes
    part.<n>     bytes that one variant or several have

What a variant calls its sections is what a file with that program alone would call them
(`heddle.runtime.module`). Bytes that are equal are stored once, so variants share constants. A variant uses a
part once at most, so that reading it takes no more memory than the file has bytes.

**The choice.** Variants lie in the file by falling number of features, those with as many in the order that
they were given in; a machine takes the first one that it can run. A variant whose features include another's
therefore always comes before it: the order in which targets are named cannot hide the better code.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from hashlib import blake2b
from typing import Protocol, TypeVar

from heddle.runtime.artefact import Section, require, section_offsets
from heddle.runtime.codes import F0106, F0112, U0508
from heddle.runtime.needs import Needs, Processor, listed, read_needs, write_needs
from heddle.runtime.wire import Reader, Writer
from heddle.support.diagnostics import FormatError, UsageError, did_you_mean
from heddle.support.frozen import frozen

VARIANTS = "variants"
_SHOWN = 8
_LEAST_BYTES = 40  # of a row
SectionData = bytes | memoryview


class Described(Protocol):
    """What a choice looks at."""

    @property
    def name(self) -> str:
        """What the variant is called."""

    @property
    def needs(self) -> Needs:
        """What it needs of a processor."""


T = TypeVar("T", bound=Described)


@frozen
class StoredVariant:
    """A row of the table: `parts` gives the number of the part that holds each section's bytes."""

    name: str
    target: str
    needs: Needs
    parts: Mapping[str, int]


def part_name(number: int) -> str:
    """The name of a part in the file, by its number."""
    return f"part.{number}"


def by_preference(variants: Iterable[T]) -> list[T]:
    """The order of the file: the most demanding ones first."""
    return sorted(variants, key=lambda variant: -len(variant.needs.features))


def first_that_runs(variants: Iterable[T], processor: Processor) -> T | None:
    """The first variant whose needs the processor has; None where there is none."""
    return next((variant for variant in variants if processor.runs(variant.needs)), None)


def choose(variants: Sequence[T], processor: Processor) -> T:
    """The first one that the processor can run. Raises: FormatError F0112 where there is none."""
    found = first_that_runs(variants, processor)
    if found is not None:
        return found
    reasons = [
        f"{listed([variant.name])} {_reason(variant.needs, processor)}" for variant in variants[:_SHOWN]
    ]
    more = f"; and {len(variants) - _SHOWN} more" if len(variants) > _SHOWN else ""
    names = sorted(text[1:] for text in processor.features.split(",") if text.startswith("+"))
    raise FormatError(
        F0112,
        f"no variant can run on this {processor}: {'; '.join(reasons)}{more}",
        notes=(f"the processor has {', '.join(names)}",),
        help="compile a variant for it too, such as 'llvm -mcpu=x86-64'; load_module(path, variant=NAME) "
        "loads one to be looked at",
    )


def _reason(needs: Needs, processor: Processor) -> str:
    if not processor.is_for(needs):
        return f"is for {listed([needs.platform])}"
    return f"needs {listed(processor.lacks(needs))}"


def find_variant(variants: Sequence[T], name: str) -> T:
    """The one of that name. Raises: UsageError U0508."""
    found = next((variant for variant in variants if variant.name == name), None)
    if found is not None:
        return found
    names = [variant.name for variant in variants]
    raise UsageError(
        U0508,
        f"there is no variant {name!r}: " + (f"there are {listed(names)}" if names else "there are none"),
        help=did_you_mean(name, names),
    )


Rows = Sequence[tuple[StoredVariant, Mapping[str, SectionData]]]
"""Variants with the sections of each; their `parts` are not looked at."""


def variants_sections(variants: Rows) -> dict[str, SectionData]:
    """The sections of a file with these variants."""
    parts, numbers = _parts(variants)
    table = Writer()
    table.u64(len(variants))
    for (variant, _), own in zip(variants, numbers, strict=True):
        table.text(variant.name)
        table.text(variant.target)
        write_needs(table, variant.needs)
        table.u64(len(own))
        for name, number in own.items():
            table.text(name)
            table.u64(number)
    return {VARIANTS: table.bytes(), **{part_name(number): data for number, data in enumerate(parts)}}


def variants_offsets(variants: Rows) -> list[dict[str, int]]:
    """Where in that file the sections of each variant will begin, by the variant's names."""
    places = section_offsets(variants_sections(variants))
    return [{name: places[part_name(number)] for name, number in own.items()} for own in _parts(variants)[1]]


def _parts(variants: Rows) -> tuple[list[SectionData], list[dict[str, int]]]:
    """The different parts of a file, and which of them each variant has under which name."""
    parts: list[SectionData] = []
    known: dict[bytes, list[int]] = {}
    numbers = []
    for _, sections in variants:
        used: set[int] = set()
        numbers.append({name: _part_of(data, parts, known, used) for name, data in sections.items()})
    return parts, numbers


def _part_of(
    data: SectionData, parts: list[SectionData], known: dict[bytes, list[int]], used: set[int]
) -> int:
    """The number of a part with these bytes that the variant does not use yet, a new one where needed."""
    alike = known.setdefault(blake2b(data, digest_size=32).digest(), [])
    number = next((number for number in alike if number not in used), None)
    if number is None:
        number = len(parts)
        alike.append(number)
        parts.append(data)
    used.add(number)
    return number


def read_variants(sections: Mapping[str, Section]) -> list[StoredVariant]:
    """The table of a file, in the file's order.

    Raises: FormatError F0105, F0106 for one that is missing or malformed: names and parts twice, parts that
    are not there or that no variant uses.
    """
    section = require(sections, VARIANTS)
    table = section.reader()
    rows = table.items(_LEAST_BYTES, lambda: _read_row(table, len(sections) - 1))
    table.done()
    if not rows:
        raise FormatError(F0106, "artefact holds no variant")
    if len({row.name for row in rows}) != len(rows):
        raise section.reader().fail("two variants have one name")
    used = {part_name(number) for row in rows for number in row.parts.values()}
    if used | {VARIANTS} != set(sections):
        raise section.reader().fail("the parts of the variants are not those of the file")
    return rows


def _read_row(table: Reader, count: int) -> StoredVariant:
    name, target, needs = table.text(), table.text(), read_needs(table)
    entries = table.items(16, lambda: (table.text(), table.u64()))
    parts = dict(entries)
    if len(parts) != len(entries) or len(set(parts.values())) != len(entries):
        raise table.fail(f"variant {name[:40]!r} has a section or a part twice")
    if any(number >= count for number in parts.values()):
        raise table.fail(
            f"variant {name[:40]!r} has a part of number {max(parts.values())}: there are {count}"
        )
    return StoredVariant(name, target, needs, parts)


def sections_of(sections: Mapping[str, Section], variant: StoredVariant) -> dict[str, Section]:
    """The sections of a variant by its own names, checked. Raises: FormatError F0104."""
    return {
        name: replace(require(sections, part_name(number)), name=name)
        for name, number in variant.parts.items()
    }
