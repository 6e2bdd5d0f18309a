"""The builtins: functions `vm.builtin.*` that compiled programs call by name, one file per group."""

from heddle.vm.builtins.load import register_builtins

__all__ = ["register_builtins"]
