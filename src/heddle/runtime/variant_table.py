"""Store several variants of one program in one file, and choose the variant for a machine.

    variants     per variant: name, target, platform, features, and for each of its sections the name and the
                 number of the part that holds the bytes
    part.<n>     bytes that one variant or several have

A variant's section names are those of a file with that program alone (`heddle.runtime.module`). Equal bytes
are stored once, so variants share constants. A variant uses a part at most once, so reading it takes no more
memory than the file has bytes.

**The choice.** Variants are stored by falling number of features; variants with equally many features keep
the user's order. A machine takes the first variant that it can run. If the features of one variant include
those of another, the former therefore comes first: the order in which the user names the targets cannot hide
faster code.
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
    """The name and the needs of a variant, on which the choice depends."""

    @property
    def name(self) -> str:
        """The name of the variant."""

    @property
    def needs(self) -> Needs:
        """The processor features that the variant needs."""


T = TypeVar("T", bound=Described)


@frozen
class StoredVariant:
    """A row of the table. `parts` maps each section name to the number of the part that holds its bytes."""

    name: str
    target: str
    needs: Needs
    parts: Mapping[str, int]


def part_name(number: int) -> str:
    """Return the section name of a part, from its number."""
    return f"part.{number}"


def by_preference(variants: Iterable[T]) -> list[T]:
    """Sort variants into file order: those with the most features first."""
    return sorted(variants, key=lambda variant: -len(variant.needs.features))


def first_that_runs(variants: Iterable[T], processor: Processor) -> T | None:
    """Return the first variant that the processor can run; None if there is none."""
    return next((variant for variant in variants if processor.runs(variant.needs)), None)


def choose(variants: Sequence[T], processor: Processor) -> T:
    """Return the first variant that the processor can run. Raises: FormatError F0112 if there is none."""
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
    """Return the variant with this name. Raises: UsageError U0508 if there is none."""
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
"""Variants, each with its sections. Their `parts` are not used."""


def variants_sections(variants: Rows) -> dict[str, SectionData]:
    """Return the sections of a file with these variants."""
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
    """Return, per variant, the file offsets of its sections by the variant's section names."""
    places = section_offsets(variants_sections(variants))
    return [{name: places[part_name(number)] for name, number in own.items()} for own in _parts(variants)[1]]


def _parts(variants: Rows) -> tuple[list[SectionData], list[dict[str, int]]]:
    """Return the distinct parts of a file and, per variant, which section name uses which part."""
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
    """Return the number of a part with these bytes that the variant does not use yet; add a part if there is
    none.
    """
    alike = known.setdefault(blake2b(data, digest_size=32).digest(), [])
    number = next((number for number in alike if number not in used), None)
    if number is None:
        number = len(parts)
        alike.append(number)
        parts.append(data)
    used.add(number)
    return number


def read_variants(sections: Mapping[str, Section]) -> list[StoredVariant]:
    """Read the table of a file, in file order.

    Raises: FormatError F0105, F0106 for a table that is missing or malformed: repeated names or parts, and
    parts that are missing or unused.
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
    """Return the checked sections of a variant by its own section names. Raises: FormatError F0104."""
    return {
        name: replace(require(sections, part_name(number)), name=name)
        for name, number in variant.parts.items()
    }
