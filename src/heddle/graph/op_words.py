"""Operators as words of scripts and programs: `op.add(x, y)`, `op.nn.conv2d(data, weight, strides=(2, 2))`.

The names come from the operator table, so an operator has its word as soon as it is declared.
"""

from __future__ import annotations

from typing import Any, ClassVar

from heddle.graph.op_builder import build_call
from heddle.ir.expr import Call
from heddle.ir.op import GRAPH_PREFIX, OP_RECORDS
from heddle.ir.op_def import OpDef
from heddle.ir.types import Type, type_given
from heddle.support.frozen import frozen

TYPE_KEYWORDS = ("ty_args", "out_ty", "out_sinfo", "sinfo_args")
"""What result types among the arguments may be called."""


@frozen
class OpWord:
    """An operator as a function: `R.add(x, y)`. Result types that it takes (of `call_tir`, say) may be among
    the arguments, or have one of the names in `TYPE_KEYWORDS`."""

    record: OpDef

    def __call__(self, *args: Any, **kwargs: Any) -> Call:
        named = next((kwargs.pop(key) for key in TYPE_KEYWORDS if key in kwargs), ())
        types = (*_types_in(named), *(ty for arg in args for ty in _types_in(arg)))
        return build_call(self.record, [arg for arg in args if not _types_in(arg)], kwargs, types)


def _types_in(value: Any) -> tuple[Type, ...]:
    """The types that an argument consists of, none where it is something else."""
    items = tuple(value) if isinstance(value, (tuple, list)) else (value,)
    are_types = all(isinstance(item, Type) or hasattr(item, "as_type") for item in items)
    return tuple(type_given(item) for item in items) if are_types else ()


@frozen
class OpNamespace:
    """The operators whose names begin with a prefix: `nn`."""

    is_script_namespace: ClassVar[bool] = True
    _prefix: str
    _owner: str

    def __getattr__(self, name: str) -> Any:
        return operator(f"{self._prefix}.{name}", self._owner)

    def __dir__(self) -> list[str]:
        return operator_names(f"{self._prefix}.")


def operator(name: str, owner: str = "op") -> Any:
    """The operator or namespace of operators of a name. Raises: AttributeError where there is none.

    `owner` is what the message says that the name was looked up in.
    """
    if name.startswith("__"):  # Python asks for these as it imports the module
        raise AttributeError(f"{owner} has no attribute {name!r}")
    record = OP_RECORDS.get(f"{GRAPH_PREFIX}{name}")
    if isinstance(record, OpDef):
        return OpWord(record)
    if any(key.startswith(f"{GRAPH_PREFIX}{name}.") for key in OP_RECORDS):
        return OpNamespace(name, owner)
    raise AttributeError(f"{owner} has no attribute {name!r}")


def operator_names(prefix: str = "") -> list[str]:
    """The words that follow a prefix (`"nn."`) in the names of operators, each once, in order."""
    start = f"{GRAPH_PREFIX}{prefix}"
    return sorted({key[len(start) :].split(".")[0] for key in OP_RECORDS if key.startswith(start)})
