"""The namespace `I` of scripts: modules and what belongs to them."""

from __future__ import annotations

from typing import Any

from heddle.graph.types import VDevice
from heddle.prim.nodes import Range
from heddle.script.decorators import parse_decorated, unwrapped

__all__ = ["Range", "ir_module", "module_attrs", "module_function_names", "module_global_infos", "vdevice"]


def ir_module(cls: Any = None, **options: Any) -> Any:
    """Decorator: the IRModule that a class of functions describes."""
    return unwrapped(cls, options, parse_decorated)


def vdevice(target: Any = "llvm", vdevice_id: int = 0, memory_scope: str = "global") -> VDevice:
    """A virtual device for `module_global_infos`."""
    return VDevice(target, vdevice_id, memory_scope)


def module_attrs(attrs: dict[str, Any]) -> dict[str, Any]:
    """Inside a module class: the module's attributes."""
    return attrs


def module_function_names(names: dict[str, str]) -> dict[str, str]:
    """Inside a module class: names of functions that Python does not let stand behind `def`, by what stands
    there."""
    return names


def module_global_infos(infos: dict[str, Any]) -> dict[str, Any]:
    """Inside a module class: virtual devices and other information by kind."""
    return infos
