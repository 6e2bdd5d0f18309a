"""The namespace `I` of scripts: modules and their attributes."""

from __future__ import annotations

from typing import Any

from heddle.graph.types import VDevice
from heddle.prim.nodes import Range
from heddle.script.decorators import parse_decorated, unwrapped

__all__ = ["Range", "ir_module", "module_attrs", "module_function_names", "module_global_infos", "vdevice"]


def ir_module(cls: Any = None, **options: Any) -> Any:
    """Decorate a class: return the IRModule that its functions describe."""
    return unwrapped(cls, options, parse_decorated)


def vdevice(target: Any = "llvm", vdevice_id: int = 0, memory_scope: str = "global") -> VDevice:
    """Make a virtual device for `module_global_infos`."""
    return VDevice(target, vdevice_id, memory_scope)


def module_attrs(attrs: dict[str, Any]) -> dict[str, Any]:
    """In a module class: set the module's attributes."""
    return attrs


def module_function_names(names: dict[str, str]) -> dict[str, str]:
    """In a module class: map the names after `def` to the real names of functions that are not valid Python
    names."""
    return names


def module_global_infos(infos: dict[str, Any]) -> dict[str, Any]:
    """In a module class: set virtual devices and other global information, by kind."""
    return infos
