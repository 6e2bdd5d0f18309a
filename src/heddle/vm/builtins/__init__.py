"""The functions that compiled programs call by name, `vm.builtin.*`; a file a group."""

from heddle.vm.builtins.load import register_builtins

__all__ = ["register_builtins"]
