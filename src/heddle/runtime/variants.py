"""Modules with several variants of one program: the same functions, compiled for different processors."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from heddle.runtime.artefact_file import write_artefact
from heddle.runtime.codes import U0503, U0508, U0509
from heddle.runtime.module import (
    Module,
    SectionData,
    is_linked,
    module_sections,
    sections_in,
    sections_to_run_alone,
)
from heddle.runtime.needs import Needs
from heddle.runtime.processor import this_processor
from heddle.runtime.shared_library import LinkTool
from heddle.runtime.variant_table import (
    VARIANTS,
    Rows,
    StoredVariant,
    by_preference,
    choose,
    find_variant,
    first_that_runs,
    part_name,
    read_variants,
    variants_offsets,
    variants_sections,
)
from heddle.support.diagnostics import MissingNameError, UsageError
from heddle.support.frozen import frozen


@frozen
class Variant:
    """A program compiled for `target`. `needs` are the processor features that its code requires."""

    name: str
    target: str
    needs: Needs
    module: Module


class VariantsModule(Module):
    """Several variants of one program, the one with the most required features first.

    Saving the module saves all of them. A `VirtualMachine` of this module, and `get_function`, use the first
    variant that this processor can run. The module itself is no executable. `select()` returns the chosen
    variant, which has `as_text`, `stats` and `metadata`.

    Raises: UsageError U0508 without variants, or with two variants of the same name.
    """

    kind = "variants"

    def __init__(self, variants: Sequence[Variant]) -> None:
        super().__init__()
        self.variants = tuple(by_preference(variants))
        names = [variant.name for variant in variants]
        if not names or len(set(names)) != len(names):
            raise UsageError(U0508, f"variants need names of their own, got {', '.join(names) or 'none'}")

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the variants, the most demanding one first."""
        return tuple(variant.name for variant in self.variants)

    @property
    def mod(self) -> VariantsModule:
        """The module itself. TVM scripts get the module from this attribute."""
        return self

    def select(self, name: str | None = None) -> Module:
        """Return the variant `name`, or without a name the one that this machine runs.

        Raises: FormatError F0112 if this machine can run none; UsageError U0508 for an unknown name.
        """
        if name is not None:
            return find_variant(self.variants, name).module
        return choose(self.variants, this_processor()).module

    def function_names(self) -> Sequence[str]:
        return self.variants[0].module.function_names()

    def find_function(self, name: str, query_imports: bool = False) -> Callable[..., Any] | None:
        return self.select().find_function(name, query_imports)

    def missing_function(self, name: str) -> MissingNameError:
        return self.variants[0].module.missing_function(name)

    def save_sections(self) -> Mapping[str, SectionData]:
        raise UsageError(
            U0503,
            f"variants are stored as a file of their own, not as a part of another module: "
            f"{', '.join(self.names)}",
            help=f"import one of them: module.import_module(variants.select({self.names[0]!r}))",
        )

    def export_library(self, path: str | os.PathLike[str], fcompile: LinkTool | None = None) -> None:
        """Write all variants to one file. Equal bytes are stored once.

        Raises: UsageError U0509 for a shared or static library; otherwise as `Module.export_library`.
        """
        if fcompile is not None or is_linked(path):
            raise UsageError(
                U0509,
                f"a library holds one program, and this has the variants {', '.join(self.names)}",
                help=f"select({self.names[0]!r}).export_library(path) makes one of it; another file name "
                "gives the one-file format",
            )
        write_artefact(path, variants_sections(self._to_be_stored()))

    def _to_be_stored(self) -> Rows:
        """Return the rows of the table, with the sections that let each variant run alone. These sections
        contain file offsets, but their length does not depend on the offsets. So they are made twice: first
        to learn the offsets, then with them.
        """
        heads = [StoredVariant(variant.name, variant.target, variant.needs, {}) for variant in self.variants]
        own = [module_sections(variant.module) for variant in self.variants]
        whole: list[dict[str, SectionData]] = own
        for _ in range(2):
            places = variants_offsets(list(zip(heads, whole, strict=True)))
            whole = [
                {**sections, **sections_to_run_alone(variant.module, sections, at)}
                for variant, sections, at in zip(self.variants, own, places, strict=True)
            ]
        return list(zip(heads, whole, strict=True))


@frozen
class VariantInfo:
    """A variant in a file. `missing` lists what this machine lacks: the platform if it is another one, else
    features. `own_bytes` of the `size_bytes` bytes are in no other variant.
    """

    name: str
    target: str
    needs: Needs
    missing: tuple[str, ...]
    is_chosen: bool
    size_bytes: int
    own_bytes: int


def variants_in(path: str | os.PathLike[str]) -> list[VariantInfo]:
    """Return the variants of a file in file order; empty for a file or a shared library with one program.
    Programs are not read.

    Raises: UsageError S0102; FormatError F01...
    """
    sections = sections_in(path)
    if VARIANTS not in sections:
        return []
    rows, processor = read_variants(sections), this_processor()
    chosen = first_that_runs(rows, processor)
    users: dict[int, int] = {}
    for row in rows:
        for number in row.parts.values():
            users[number] = users.get(number, 0) + 1
    made = []
    for row in rows:
        sizes = {number: sections.size_bytes(part_name(number)) for number in row.parts.values()}
        own = sum(size for number, size in sizes.items() if users[number] == 1)
        missing = processor.lacks(row.needs) if processor.is_for(row.needs) else (row.needs.platform,)
        size = sum(sizes.values())
        made.append(VariantInfo(row.name, row.target, row.needs, missing, row is chosen, size, own))
    return made
