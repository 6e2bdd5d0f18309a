"""Properties of modules that the contracts of passes name: what a pass requires and what it establishes.

The rooms of the dialects declare theirs, `declare_property("no blocks", "tir", ...)`. `VerifyEach` asks for
them when passes run.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from heddle.ir.module import IRModule
from heddle.ir.node import Node
from heddle.ir.visitor import walk_distinct
from heddle.support.frozen import frozen
from heddle.support.registry import Registry, caller_place


@frozen
class Property:
    """Holds of a module where no function of `dialect` has a part that `is_broken_by` names."""

    name: str
    dialect: str
    is_broken_by: Callable[[Any], bool]


@frozen
class Breach:
    """A part of a function that breaks a property."""

    function: str
    part: Node


PROPERTIES: Registry[Property] = Registry("property of modules")


def declare_property(name: str, dialect: str, is_broken_by: Callable[[Any], bool]) -> Property:
    """Put a property in the table. Raises: UsageError S0201."""
    return PROPERTIES.add(name, Property(name, dialect, is_broken_by), place=caller_place())


def breach_of(name: str, mod: IRModule) -> Breach | None:
    """The first part of a module that breaks a property; None where it holds.

    Raises: MissingNameError S0202 for a property that is not declared.
    """
    wanted = PROPERTIES[name]
    for var, func in mod.functions.items():
        if func.dialect != wanted.dialect:
            continue
        for part in walk_distinct(func):
            if wanted.is_broken_by(part):
                return Breach(var.name_hint, part)
    return None
