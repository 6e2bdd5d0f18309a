"""Attributes of operators and functions: an immutable record of named values.

Read as `call.attrs.axis`, `func.attrs["global_symbol"]` or `func.attrs.get("key", default)`.
"""

from __future__ import annotations

from collections.abc import ItemsView, Iterator, Mapping
from typing import Any

from heddle.ir.codes import I0402
from heddle.ir.node import EMPTY_MAP, Map, Node, node
from heddle.support.diagnostics import MissingNameError, did_you_mean


def freeze(value: Any) -> Any:
    """Lists and dicts as the immutable values that nodes hold."""
    if isinstance(value, (list, tuple)):
        return tuple(freeze(item) for item in value)
    if isinstance(value, Mapping):
        return Map({key: freeze(item) for key, item in value.items()})
    return value


@node("ir.Attrs")
class Attrs(Node):
    """Values are nodes, str, int, float, bool, None, DataType, tensors, tuples and Maps of these."""

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
        """The value of a name, or `default`."""
        return self.values.get(name, default)

    def get_int(self, name: str) -> int:
        """The value of a name as an integer. Raises: KeyError where there is none."""
        return int(self[name])

    def get_str(self, name: str) -> str:
        """The value of a name as a string. Raises: KeyError where there is none."""
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
        """These attributes and one more, or another value of one."""
        return Attrs(self.values.with_item(name, freeze(value)))

    def without(self, *names: str) -> Attrs:
        """These attributes without some names; those that are not there do not matter."""
        return Attrs(self.values.without(*names))


NO_ATTRS = Attrs(EMPTY_MAP, span=None)


def attrs_of(values: Mapping[str, Any] | Attrs | None) -> Attrs:
    """Attributes from a dict, or none."""
    if values is None or not len(values):
        return NO_ATTRS
    return values if isinstance(values, Attrs) else Attrs(freeze(values))
