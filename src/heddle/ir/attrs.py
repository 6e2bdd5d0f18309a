"""Attributes of operators and functions: an immutable record of named values.

Read as `call.attrs.axis`, `func.attrs["global_symbol"]` or `func.attrs.get("key", default)`.
"""

from __future__ import annotations

from collections.abc import ItemsView, Iterator, Mapping
from typing import Any

import numpy as np

from heddle.ir.codes import I0402
from heddle.ir.node import EMPTY_MAP, Map, Node, node
from heddle.support.diagnostics import MissingNameError, did_you_mean


def freeze(value: Any) -> Any:
    """Convert lists and dictionaries to the immutable values that nodes hold, numpy's numbers to Python's."""
    if isinstance(value, (list, tuple)):
        return tuple(freeze(item) for item in value)
    if isinstance(value, Mapping):
        return Map({key: freeze(item) for key, item in value.items()})
    return value.item() if isinstance(value, np.generic) else value


@node("ir.Attrs")
class Attrs(Node):
    """Immutable attributes by name. Values are nodes, str, int, float, bool, None, DataType, tensors, and
    tuples and Maps of these."""

    values: Map = EMPTY_MAP

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        return self[name]

    def __getitem__(self, name: str) -> Any:
        try:
            return self.values[name]
        except KeyError:
            raise MissingNameError(
                I0402, f"no attribute is called {name!r}", help=did_you_mean(name, self.values)
            ) from None

    def get(self, name: str, default: Any = None) -> Any:
        """Return the value of a name, or `default`."""
        return self.values.get(name, default)

    def get_int(self, name: str) -> int:
        """Return the value of a name as an integer. Raises: KeyError if there is none."""
        return int(self[name])

    def get_str(self, name: str) -> str:
        """Return the value of a name as a string. Raises: KeyError if there is none."""
        return str(self[name])

    def __contains__(self, name: str) -> bool:
        return name in self.values

    def __iter__(self) -> Iterator[str]:
        return iter(self.values)

    def __len__(self) -> int:
        return len(self.values)

    def __bool__(self) -> bool:
        return len(self.values) > 0

    def keys(self) -> Iterator[str]:
        """The names."""
        return iter(self.values)

    def items(self) -> ItemsView[str, Any]:
        """Pairs of a name and its value."""
        return self.values.items()

    def with_attr(self, name: str, value: Any) -> Attrs:
        """Return a copy with one attribute added or replaced."""
        return Attrs(self.values.with_item(name, freeze(value)))

    def without(self, *names: str) -> Attrs:
        """Return a copy without some names. Names that are not present are ignored."""
        return Attrs(self.values.without(*names))


NO_ATTRS = Attrs(EMPTY_MAP, span=None)


def attrs_of(values: Mapping[str, Any] | Attrs | None) -> Attrs:
    """Make Attrs from a dictionary or None."""
    if values is None or not len(values):
        return NO_ATTRS
    return values if isinstance(values, Attrs) else Attrs(freeze(values))
