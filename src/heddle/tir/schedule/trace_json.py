"""Traces as JSON.

    [[["get_sblock", {"name": "\\"C\\""}, ["b0"]], ["get_loops", {"block": "b0"}, ["l1", "l2"]],
      ["split", {"loop": "l1", "factors": [null, 8]}, ["l3", "l4"]]],
     [[instruction number, decision], ...]]

A handle is its name, text stands in quotes of its own, and other values of the IR are saved nodes; variables
in those with the name of a handle are sampled numbers or the variables of loops, `n0` and so on what is
variable in the shapes of the program. A block that no instruction gave is its own name, as text. Reading
calls nothing but primitives.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from heddle.ir.json_codec import load_json, save_json
from heddle.ir.node import Node
from heddle.prim.nodes import PrimExpr, Var
from heddle.support.diagnostics import FormatError, HeddleError
from heddle.tir.codes import T0421
from heddle.tir.index_map import IndexMap
from heddle.tir.schedule.handles import LoopRV, SBlockRV, map_handles, size_variables, variables_of
from heddle.tir.schedule.instruction import Instruction


def trace_to_json(
    insts: Sequence[Instruction], decisions: Mapping[Instruction, Any], names: dict[int, str]
) -> list[Any]:
    """Plain lists, dictionaries, numbers and text. Raises: FormatError T0421 for what has no text."""
    lines = [
        [
            inst.kind,
            {name: _saved(value, names, inst) for name, value in inst.arguments.items()},
            [names[id(output)] for output in inst.outputs],
        ]
        for inst in insts
    ]
    return [lines, [[k, decisions[inst]] for k, inst in enumerate(insts) if inst in decisions]]


def _saved(value: Any, names: dict[int, str], inst: Instruction) -> Any:
    if id(value) in names and not _is_in_expressions(value, names):
        return names[id(value)]
    if isinstance(value, SBlockRV):
        return json.dumps(value.name)
    if value is None or isinstance(value, (bool, int, float)):
        return value
    if isinstance(value, str):
        return json.dumps(value)
    if isinstance(value, (list, tuple)):
        return [_saved(item, names, inst) for item in value]
    if isinstance(value, dict):
        return {"dict": {key: _saved(item, names, inst) for key, item in value.items()}}
    if isinstance(value, (PrimExpr, IndexMap)):
        if all(id(var) in names for var in variables_of(value)):
            renamed = {id(var): Var(names[id(var)], var.dtype) for var in variables_of(value)}
            return {"node": save_json(map_handles(value, renamed))}
    elif isinstance(value, Node):
        return {"node": save_json(value)}
    what = type(value).__name__
    raise FormatError(T0421, f"an argument of {inst.kind} is a {what}, which cannot be saved: {value}")


def _is_in_expressions(value: Any, names: Mapping[int, str]) -> bool:
    """Whether a value is a variable that only expressions have: that of a loop, or of a size."""
    return isinstance(value, Var) and names[id(value)][0] in "ln"


def apply_json_to_schedule(data: Any, sch: Any) -> None:
    """Run a saved trace on a schedule.

    Raises: FormatError T0421 for a malformed trace; ScheduleError where a primitive does not apply.
    """
    lines, decisions = _parts(json.loads(data) if isinstance(data, str) else data)
    allowed = sch.primitive_names
    handles: dict[str, Any] = {f"n{place}": var for place, var in enumerate(size_variables(sch.func))}
    for k, line in enumerate(lines):
        if not (isinstance(line, list) and len(line) == 3 and line[0] in allowed):
            raise FormatError(
                T0421, f"instruction {k}: expected a primitive, arguments and names, got {line!r}"
            )
        kind, saved, outputs = line
        if not isinstance(saved, dict) or not isinstance(outputs, list):
            raise FormatError(T0421, f"instruction {k}: expected arguments by name, got {saved!r}")
        arguments = {name: _loaded(value, handles, k) for name, value in saved.items()}
        if k in decisions:
            arguments["decision"] = decisions[k]
        try:
            found = Instruction(kind, arguments, ()).apply(sch, arguments)
        except TypeError as error:
            raise FormatError(T0421, f"instruction {k}: {kind} does not take these arguments") from error
        if len(found) != len(outputs):
            raise FormatError(T0421, f"instruction {k}: {kind} gave {len(found)} handles, not {len(outputs)}")
        handles.update(zip(outputs, found, strict=True))


def _parts(data: Any) -> tuple[list[Any], dict[int, Any]]:
    good = isinstance(data, (list, tuple)) and len(data) == 2 and all(isinstance(p, list) for p in data)
    if not good or not all(isinstance(pair, list) and len(pair) == 2 for pair in data[1]):
        raise FormatError(T0421, "expected a list of instructions and a list of decisions")
    return data[0], dict(data[1])


def _loaded(value: Any, handles: dict[str, Any], position: int) -> Any:
    if isinstance(value, list):
        return [_loaded(item, handles, position) for item in value]
    if isinstance(value, dict):
        return _loaded_node(value, handles, position)
    if not isinstance(value, str):
        return value
    if value.startswith('"'):
        try:
            return str(json.loads(value))
        except ValueError as error:
            raise FormatError(T0421, f"instruction {position}: {value!r} is no text in quotes") from error
    if value not in handles:
        raise FormatError(T0421, f"instruction {position}: no instruction before gave {value!r}")
    return handles[value]


def _loaded_node(value: dict[str, Any], handles: dict[str, Any], position: int) -> Any:
    if "dict" in value:
        return {key: _loaded(item, handles, position) for key, item in value["dict"].items()}
    try:
        found = load_json(value["node"])
    except (HeddleError, KeyError, TypeError, ValueError) as error:
        raise FormatError(T0421, f"instruction {position}: {value!r} is no saved node") from error
    if not isinstance(found, (PrimExpr, IndexMap)):
        return found
    variables = variables_of(found)
    known = {var: handles[var.name] for var in variables if var.name in handles}
    given = {id(var): handle.var if isinstance(handle, LoopRV) else handle for var, handle in known.items()}
    if len(given) < len(variables) or any(isinstance(handle, SBlockRV) for handle in given.values()):
        raise FormatError(T0421, f"instruction {position}: {found} is no expression of known numbers")
    return map_handles(found, given)
