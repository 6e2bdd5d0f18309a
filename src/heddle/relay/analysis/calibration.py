"""What goes into and comes out of the functions that other compilers take."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from heddle.ir.attrs import attrs_of
from heddle.ir.expr import Call, GlobalVar, Tuple
from heddle.ir.module import IRModule
from heddle.ir.node import replace
from heddle.relay.codes import Q0101
from heddle.relay.executor import create_executor
from heddle.relay.placement import post_order
from heddle.relay.transform.compiler_regions import COMPILER
from heddle.relay.transform.copying import without_lets
from heddle.relay.typed import infer_module
from heddle.runtime.tensor import Tensor
from heddle.support.diagnostics import UsageError


def get_calibration_data(mod: IRModule, data: Mapping[str, Any]) -> dict[GlobalVar, dict[str, list[Tensor]]]:
    """For each function of another compiler (attribute `Compiler`) that `main` calls, `inputs` and `outputs`:
    the values of one run on `data`, parameters of `main` by name.

    Raises: UsageError Q0101 where `main` calls one of them twice.
    """
    typed = infer_module(mod)
    main = without_lets(typed["main"])
    calls = {}
    for node in post_order(main.body):
        if isinstance(node, Call) and isinstance(node.op, GlobalVar) and COMPILER in typed[node.op].attrs:
            if node.op in calls:
                raise UsageError(
                    Q0101, f"@{node.op.name_hint} is called twice: its data would be of two calls"
                )
            calls[node.op] = node
    body = Tuple(tuple(Tuple((Tuple(tuple(call.args)), call)) for call in calls.values()))
    probe = replace(main, body=body, ret_ty=None, ty=None)
    functions = {var: _plain(func) for var, func in typed.functions.items()}
    found = create_executor("debug", typed.with_functions({**functions, typed.get_global_var("main"): probe}))
    values = found.evaluate()(**data)
    return {
        next(var for var in mod.functions if var.name_hint == called.name_hint): {
            "inputs": _flat(inputs),
            "outputs": _flat(output),
        }
        for called, (inputs, output) in zip(calls, values, strict=True)
    }


def _plain(func: Any) -> Any:
    if COMPILER not in func.attrs:
        return func
    return replace(func, attrs=attrs_of({key: v for key, v in func.attrs.items() if key != COMPILER}))


def _flat(value: Any) -> list[Tensor]:
    if isinstance(value, Tensor):
        return [value]
    return [each for item in value for each in _flat(item)]
