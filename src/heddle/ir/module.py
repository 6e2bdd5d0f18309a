"""IRModule: the functions of a program by name, graph and loop functions side by side."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from heddle.ir.attrs import NO_ATTRS, Attrs, attrs_of
from heddle.ir.codes import I0301, I0302
from heddle.ir.expr import BaseFunc, GlobalVar
from heddle.ir.node import EMPTY_MAP, Map, Node, node, replace
from heddle.support.diagnostics import MissingNameError, UsageError, did_you_mean
from heddle.support.names import NameSupply


@node("ir.IRModule")
class IRModule(Node):
    """`functions` maps each GlobalVar to its function, in order of definition.

    The one node with changing content: `mod["f"] = func` swaps the function table, as users' programs do.
    Passes never
    do it; they build a new module with `with_functions`.
    """

    functions: Map = EMPTY_MAP
    attrs: Attrs = NO_ATTRS
    global_infos: Map = EMPTY_MAP

    @property
    def text_family(self) -> str:
        return "module"

    def __post_init__(self) -> None:
        table: dict[GlobalVar, Any] = {}
        for key, func in self.functions.items():
            name = key if isinstance(key, GlobalVar) else GlobalVar(key)
            if name in table:
                raise UsageError(I0302, f"the module defines {name.name_hint!r} twice")
            table[name] = func
        self.set_derived("functions", Map(table))
        self.set_derived("attrs", attrs_of(self.attrs))
        if not isinstance(self.global_infos, Map):
            infos = {name: tuple(items) for name, items in dict(self.global_infos).items()}
            self.set_derived("global_infos", Map(infos))

    @staticmethod
    def from_expr(func: BaseFunc) -> IRModule:
        """A module with one function, named by its global_symbol, else `main`."""
        return IRModule(Map({GlobalVar(func.attrs.get("global_symbol", "main")): func}))

    def __getitem__(self, name: str | GlobalVar) -> Any:
        key = name if isinstance(name, GlobalVar) else GlobalVar(name)
        if key not in self.functions:
            raise self._missing(key.name_hint)
        return self.functions[key]

    def get(self, name: str | GlobalVar) -> Any:
        return self.functions.get(name if isinstance(name, GlobalVar) else GlobalVar(name))

    def __setitem__(self, name: str | GlobalVar, func: BaseFunc) -> None:
        key = name if isinstance(name, GlobalVar) else self._global_var_or_new(name)
        self.set_derived("functions", self.functions.with_item(key, func))

    def __delitem__(self, name: str | GlobalVar) -> None:
        self.set_derived(
            "functions", self.functions.without(name if isinstance(name, GlobalVar) else GlobalVar(name))
        )

    def __contains__(self, name: str | GlobalVar) -> bool:
        return (name if isinstance(name, GlobalVar) else GlobalVar(name)) in self.functions

    def __iter__(self) -> Iterator[GlobalVar]:
        return iter(self.functions)

    def __len__(self) -> int:
        return len(self.functions)

    def _global_var_or_new(self, name: str) -> GlobalVar:
        found: GlobalVar | None = next((var for var in self.functions if var.name_hint == name), None)
        return found or GlobalVar(name)

    def _missing(self, name: str) -> MissingNameError:
        known = [var.name_hint for var in self.functions]
        return MissingNameError(I0301, f"the module has no function {name!r}", help=did_you_mean(name, known))

    def functions_items(self) -> Iterator[tuple[GlobalVar, Any]]:
        return iter(self.functions.items())

    def get_global_var(self, name: str) -> GlobalVar:
        found: GlobalVar | None = next((var for var in self.functions if var.name_hint == name), None)
        if found is None:
            raise self._missing(name)
        return found

    def get_global_vars(self) -> list[GlobalVar]:
        return list(self.functions)

    def update_func(self, var: GlobalVar, func: BaseFunc) -> None:
        self[var] = func

    def update(self, other: IRModule | Mapping[Any, BaseFunc]) -> None:
        for key, func in (other.functions if isinstance(other, IRModule) else other).items():
            self[key] = func

    def with_functions(self, functions: Mapping[GlobalVar, BaseFunc]) -> IRModule:
        """A copy with another function table."""
        return replace(self, functions=Map(functions))

    def clone(self) -> IRModule:
        return replace(self)

    def with_attr(self, name: str, value: Any) -> IRModule:
        return replace(self, attrs=self.attrs.with_attr(name, value))

    def without_attr(self, name: str) -> IRModule:
        return replace(self, attrs=self.attrs.without(name))

    def with_global_info(self, name: str, infos: Sequence[Any]) -> IRModule:
        """A copy with the information of one kind (`"vdevice"`, say) replaced."""
        return replace(self, global_infos=self.global_infos.with_item(name, tuple(infos)))

    def update_global_info(self, name: str, infos: Sequence[Any]) -> None:
        """Replace the information of one kind in place, as users' programs do."""
        self.set_derived("global_infos", self.global_infos.with_item(name, tuple(infos)))

    def get_attr(self, name: str) -> Any:
        return self.attrs.get(name)

    def names(self) -> NameSupply:
        """A supply of names that no function of the module has."""
        return NameSupply(var.name_hint for var in self.functions)
