"""Which variables an expression uses and which it defines, from the declarations of its nodes' fields.

The order is that of the first visit. A variable is bound where a field that defines (`defines()`) reaches it;
it is free where no node of the expression does.
"""

from __future__ import annotations

from typing import Any

from heddle.ir.expr import Var
from heddle.ir.node import ALL, NOTHING, Defining, Node, is_defined
from heddle.ir.type_data import Constructor
from heddle.ir.types import Type, TypeVar
from heddle.ir.visitor import walk_distinct


def defined_and_used(*roots: Node) -> tuple[dict[Node, None], dict[Node, None]]:
    """The identity nodes that are defined in the nodes below `roots`, and all of them, in order of the first
    visit."""
    defined: dict[Node, None] = {}
    found: dict[Node, None] = {}
    seen: set[tuple[int, Defining]] = set()
    todo: list[tuple[object, Defining]] = [(root, NOTHING) for root in reversed(roots)]
    while todo:
        value, defining = todo.pop()
        if isinstance(value, Node):
            if (id(value), defining) in seen:
                continue
            seen.add((id(value), defining))
            if value.identity:
                found.setdefault(value)
                if is_defined(value, defining):
                    defined.setdefault(value)
            # The type of a variable that is defined here is only used here.
            within = NOTHING if value.identity else defining
            fields = reversed(value.compared)
            todo += [(getattr(value, name), defines == ALL or within or defines) for name, defines in fields]
        elif type(value) is tuple:
            todo += [(item, defining) for item in reversed(value)]
    return defined, found


def all_vars(expr: Node) -> tuple[Var, ...]:
    """Every variable, bound or free."""
    return tuple(node for node in defined_and_used(expr)[1] if isinstance(node, Var))


def bound_vars(expr: Node) -> tuple[Var, ...]:
    """The variables that the expression defines."""
    return tuple(node for node in defined_and_used(expr)[0] if isinstance(node, Var))


def free_vars(expr: Node) -> tuple[Var, ...]:
    """The variables that the expression uses and does not define."""
    defined, found = defined_and_used(expr)
    return tuple(node for node in found if isinstance(node, Var) and node not in defined)


def all_type_vars(expr: Node, mod: Any = None) -> tuple[Type, ...]:
    """Every variable for types; with the module that defines them, also those of the data types whose
    constructors are used."""
    return tuple(found for found in _types_in(expr, mod)[1] if isinstance(found, TypeVar))


def bound_type_vars(expr: Node, mod: Any = None) -> tuple[Type, ...]:
    """The variables for types that functions and function types define; with a module, also data types."""
    return tuple(found for found in _types_in(expr, mod)[0] if isinstance(found, TypeVar))


def free_type_vars(expr: Node, mod: Any = None) -> tuple[Type, ...]:
    """The variables for types that are used and not defined."""
    defined, found = _types_in(expr, mod)
    return tuple(item for item in found if isinstance(item, TypeVar) and item not in defined)


def _types_in(expr: Node, mod: Any) -> tuple[dict[Node, None], dict[Node, None]]:
    """As `defined_and_used`. Raises: MissingNameError I0305 for a data type that the module lacks."""
    defined, found = defined_and_used(expr)
    if mod is not None:
        for node in walk_distinct(expr):
            if isinstance(node, Constructor):
                own = dict.fromkeys(mod.type_definition(node.belong_to).type_vars)
                defined |= own
                found |= own
    return defined, found
