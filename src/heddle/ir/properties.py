"""Properties of modules that pass contracts refer to: what a pass requires and what it establishes.

The packages of the dialects declare them: `declare_property("no blocks", "tir", ...)`. They are imported when
`VerifyEach` checks a contract.
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
    """A property of modules: `is_broken_by` is False for all nodes of the functions of `dialect`."""

    name: str
    dialect: str
    is_broken_by: Callable[[Any], bool]


@frozen
class Breach:
    """A part of a function that violates a property."""

    function: str
    part: Node


PROPERTIES: Registry[Property] = Registry("property of modules")


def declare_property(name: str, dialect: str, is_broken_by: Callable[[Any], bool]) -> Property:
    """Register a property. Raises: UsageError S0201."""
    return PROPERTIES.add(name, Property(name, dialect, is_broken_by), place=caller_place())


def breach_of(name: str, mod: IRModule) -> Breach | None:
    """Return the first part of a module that violates a property; None if the property holds.

    Raises: MissingNameError S0202 for an undeclared property.
    """
    wanted = PROPERTIES[name]
    for var, func in mod.functions.items():
        if func.dialect != wanted.dialect:
            continue
        for part in walk_distinct(func):
            if wanted.is_broken_by(part):
                return Breach(var.name_hint, part)
    return None
