"""Compile one program for several targets."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from heddle.driver.codes import D0103, D0105
from heddle.driver.pipeline import OptionError
from heddle.driver.targets import as_target
from heddle.runtime.module import Module
from heddle.runtime.variants import Variant, VariantsModule
from heddle.target import Target


def is_several(target: Any) -> bool:
    """Whether an argument is a list of targets."""
    return isinstance(target, (list, tuple))


def targets_of(given: Sequence[Any]) -> tuple[Target, ...]:
    """Return the targets of a list, each resolved like a single target. Raises: OptionError D0103 for an
    empty list, D0105 for two targets of which the second would never be chosen; UsageError H01.. for a
    malformed target."""
    if not given:
        raise OptionError(D0103, "a list of targets needs one at least")
    targets = tuple(as_target(each) for each in given)
    first: dict[Any, Target] = {}
    for target in targets:
        other = first.setdefault(target.needs, target)
        if other is not target:
            raise OptionError(
                D0105,
                f"targets '{other}' and '{target}' need the same of a processor: the second would never be "
                "taken",
                help="leave one of them out",
            )
    return targets


def variant_names(targets: Sequence[Target]) -> list[str]:
    """Return a name for each target: its processor with the changed features, or the whole target if two are
    equal."""
    names = [target.processor_name for target in targets]
    return [
        name if names.count(name) == 1 else str(target) for name, target in zip(names, targets, strict=True)
    ]


def spelled_out(target: Target) -> Target:
    """Return the same target with its processor named; a target for this machine may not name it."""
    if "mtriple" in target.attrs or not target.kind.is_for_processor:
        return target
    return Target({**target.export(), "mcpu": target.mcpu})


def make_variants(targets: Sequence[Target], make: Callable[[Target], Module]) -> VariantsModule:
    """What `make` makes for each target, of which no two need the same (see `targets_of`)."""
    return VariantsModule(
        [
            Variant(name, str(spelled_out(target)), target.needs, make(target))
            for name, target in zip(variant_names(targets), targets, strict=True)
        ]
    )
