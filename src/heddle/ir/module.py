"""IRModule: the functions of a program by name, graph functions and loop functions together."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from heddle.ir.attrs import NO_ATTRS, Attrs, attrs_of
from heddle.ir.codes import I0301, I0302, I0305, I0306, I0308, I0312, I0509
from heddle.ir.expr import BaseFunc, Expr, Function, GlobalVar
from heddle.ir.node import EMPTY_MAP, Map, Node, added, node, replace
from heddle.ir.type_data import Constructor, GlobalTypeVar, TypeData
from heddle.ir.variables import free_type_vars, free_vars
from heddle.support.diagnostics import MissingNameError, UsageError, did_you_mean
from heddle.support.names import NameSupply
from heddle.support.registry import Registry

STANDARD_TEXTS: Registry[Callable[[IRModule], None]] = Registry("standard text")
"""By file name ("prelude.rly"): what puts its definitions into a module. They lie above: the table asks for
them when one is imported."""

_KEYS: dict[str, tuple[type, ...]] = {
    "functions": (str, GlobalVar),
    "attrs": (str,),
    "global_infos": (str,),
    "type_definitions": (str, GlobalTypeVar),
}
"""What a module has by what."""


@node("ir.IRModule")
class IRModule(Node):
    """A module. `functions` maps each GlobalVar to its function, in order of definition. `type_definitions`
    maps the name of each algebraic data type to its definition. By position they may also stand second, with
    the attributes third, as in TVM.

    It is the only mutable node: `mod["f"] = func` replaces a function, for TVM compatibility. Passes never do
    that; they build a new module with `with_functions`.
    """

    functions: Map = EMPTY_MAP
    attrs: Attrs = NO_ATTRS
    global_infos: Map = EMPTY_MAP
    type_definitions: Map = added(default=EMPTY_MAP)

    @property
    def text_family(self) -> str:
        return "module"

    def __post_init__(self) -> None:
        self._take_fields()
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
        if not isinstance(self.type_definitions, Map) or any(
            isinstance(key, str) for key in self.type_definitions
        ):
            named = self.type_definitions.items()
            items = {GlobalTypeVar(key) if isinstance(key, str) else key: value for key, value in named}
            self.set_derived("type_definitions", Map(items))

    def _take_fields(self) -> None:
        """Type definitions by position, and nothing where a field is None.

        Raises: UsageError I0308 for type definitions in two places, I0312 for fields of other kinds.
        """
        given: Any = self.attrs
        if isinstance(given, Mapping) and any(isinstance(value, TypeData) for value in given.values()):
            if self.type_definitions:
                raise UsageError(I0308, "type definitions are given second, and by name or fourth")
            self.set_derived("type_definitions", given)
            self.set_derived("attrs", self.global_infos or NO_ATTRS)
            self.set_derived("global_infos", EMPTY_MAP)
        for field, kinds in _KEYS.items():
            found: Any = getattr(self, field)
            if found is None:
                found = NO_ATTRS if field == "attrs" else EMPTY_MAP
                self.set_derived(field, found)
            if not isinstance(found, (Mapping, Attrs)):
                raise UsageError(I0312, f"IRModule: {field} is a mapping, got {type(found).__name__}")
            for key, value in found.items():
                is_fit = field != "global_infos" or (
                    isinstance(value, Iterable) and not isinstance(value, str)
                )
                if not isinstance(key, kinds) or not is_fit:
                    raise UsageError(I0312, f"IRModule: the item {key!r} of {field} is of another kind")

    @staticmethod
    def from_expr(
        expr: Expr,
        functions: Mapping[Any, BaseFunc] | None = None,
        type_defs: Mapping[GlobalTypeVar, TypeData] | None = None,
    ) -> IRModule:
        """Make a module from `functions` and one more function. Its name is its global_symbol, else `main`,
        or another name if that is taken. Any other expression becomes the body of a function over its free
        variables."""
        made = IRModule(Map(functions or {}), type_definitions=Map(type_defs or {}))
        func = expr if isinstance(expr, BaseFunc) else _function_of(expr)
        made[GlobalVar(made.names().fresh(func.attrs.get("global_symbol", "main")))] = func
        return made

    def __getitem__(self, name: str | GlobalVar | GlobalTypeVar) -> Any:
        if isinstance(name, GlobalTypeVar):
            return self.type_definition(name)
        key = name if isinstance(name, GlobalVar) else GlobalVar(name)
        if key not in self.functions:
            raise self._missing(key.name_hint)
        return self.functions[key]

    def get(self, name: str | GlobalVar) -> Any:
        """Return the function of a name or a GlobalVar; None if there is none."""
        return self.functions.get(name if isinstance(name, GlobalVar) else GlobalVar(name))

    def __setitem__(self, name: str | GlobalVar | GlobalTypeVar, func: BaseFunc | TypeData) -> None:
        if not isinstance(func, (BaseFunc, TypeData)):
            key = getattr(name, "name_hint", name)
            raise UsageError(
                I0312,
                f"item {key!r}: expected a function or a type definition, got {type(func).__name__}",
                help="IRModule.from_expr makes a function of an expression",
            )
        if isinstance(func, TypeData):
            header = GlobalTypeVar(name) if isinstance(name, str) else GlobalTypeVar(name.name_hint)
            self.set_derived("type_definitions", self.type_definitions.with_item(header, func))
            return
        assert not isinstance(name, GlobalTypeVar)
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
        """Yield each GlobalVar with its function, in the module's order."""
        return iter(self.functions.items())

    def get_global_var(self, name: str) -> GlobalVar:
        """Return the GlobalVar with a name. Raises: as `mod[name]` if there is none."""
        found: GlobalVar | None = next((var for var in self.functions if var.name_hint == name), None)
        if found is None:
            raise self._missing(name)
        return found

    # ---- data types

    def type_definition(self, name: str | GlobalTypeVar) -> TypeData:
        """Return the definition of a data type. Raises: MissingNameError I0305."""
        header = name if isinstance(name, GlobalTypeVar) else GlobalTypeVar(name)
        found: TypeData | None = self.type_definitions.get(header)
        if found is None:
            known = [item.name_hint for item in self.type_definitions]
            raise MissingNameError(
                I0305,
                f"the module has no type {header.name_hint!r}",
                help=did_you_mean(header.name_hint, known),
            )
        return found

    def get_global_type_var(self, name: str) -> GlobalTypeVar:
        """Return the name of a data type as a GlobalTypeVar. Raises: MissingNameError I0305."""
        return self.type_definition(name).header

    def get_global_type_vars(self) -> list[GlobalTypeVar]:
        """The names of the data types, in order."""
        return list(self.type_definitions)

    def get_type(self, name: str) -> tuple[Any, ...]:
        """Return a data type's GlobalTypeVar, followed by its constructors. Raises: MissingNameError
        I0305.
        """
        found = self.type_definition(name)
        return (found.header, *found.constructors)

    def get_constructor(self, tag: int) -> Constructor:
        """Return the constructor with a tag. Raises: MissingNameError I0306."""
        for definition in self.type_definitions.values():
            for constructor in definition.constructors:
                if constructor.tag == tag:
                    return constructor  # type: ignore[no-any-return]
        raise MissingNameError(I0306, f"the module has no constructor with tag {tag}")

    def import_from_std(self, file_name: str) -> None:
        """Add the definitions of a standard library file ("prelude.rly"). Existing definitions are kept.

        Raises: MissingNameError S0202.
        """
        STANDARD_TEXTS[file_name](self)

    def get_global_vars(self) -> list[GlobalVar]:
        """The names of the functions, in order."""
        return list(self.functions)

    def update_func(self, var: GlobalVar, func: BaseFunc) -> None:
        """Add or replace a function: `mod[var] = func`."""
        self[var] = func

    def update_type_def(self, header: GlobalTypeVar, definition: TypeData) -> None:
        """Add or replace a data type."""
        self[header] = definition

    def update(self, other: IRModule | Mapping[Any, BaseFunc]) -> None:
        """Add the functions and data types of another module, or functions by name. Existing ones of equal
        name are replaced."""
        if isinstance(other, IRModule):
            for header, definition in other.type_definitions.items():
                self[header] = definition
        for key, func in (other.functions if isinstance(other, IRModule) else other).items():
            self[key] = func

    def with_functions(self, functions: Mapping[GlobalVar, BaseFunc]) -> IRModule:
        """Return a copy with another function table."""
        return replace(self, functions=Map(functions))

    def clone(self) -> IRModule:
        """Return an independent copy with the same functions."""
        return replace(self)

    def with_attr(self, name: str, value: Any) -> IRModule:
        """Return a copy with one attribute added or replaced."""
        return replace(self, attrs=self.attrs.with_attr(name, value))

    def without_attr(self, name: str) -> IRModule:
        """The module without an attribute, if it has it."""
        return replace(self, attrs=self.attrs.without(name))

    def with_global_info(self, name: str, infos: Sequence[Any]) -> IRModule:
        """Return a copy with the global information of one kind (such as `"vdevice"`) replaced."""
        return replace(self, global_infos=self.global_infos.with_item(name, tuple(infos)))

    def update_global_info(self, name: str, infos: Sequence[Any]) -> None:
        """Replace the global information of one kind in place, for TVM compatibility."""
        self.set_derived("global_infos", self.global_infos.with_item(name, tuple(infos)))

    def get_attr(self, name: str) -> Any:
        """Return the value of an attribute; None if there is none."""
        return self.attrs.get(name)

    def names(self) -> NameSupply:
        """A supply of names that no function of the module has."""
        return NameSupply(var.name_hint for var in self.functions)


def checked_module(mod: Any, who: str) -> IRModule:
    """The module. Raises: UsageError I0509 for what is none; `who` is what takes it."""
    if not isinstance(mod, IRModule):
        help = "IRModule.from_expr(func) makes a module of a function"
        raise UsageError(I0509, f"{who} takes an IRModule, got {type(mod).__name__}", help=help)
    return mod


def _function_of(expr: Any) -> Function:
    """A function over an expression's free variables. Raises: UsageError I0509 for what is none."""
    expr = expr.as_node() if hasattr(expr, "as_node") else expr
    if not isinstance(expr, Expr):
        raise UsageError(I0509, f"a module is made of functions, got {type(expr).__name__}")
    return Function(free_vars(expr), expr, type_params=free_type_vars(expr), dialect="relay", span=expr.span)
