"""Devices of values: copies where they change, and nowhere else."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import heddle
from heddle import relay
from heddle.graph.virtual_device import VirtualDevice, device_attribute, virtual_device
from heddle.ir.module import IRModule
from heddle.ir.structural import assert_structural_equal
from heddle.relay.placement import post_order
from heddle.relay.transform import PlanDevices
from heddle.relay.transform.rewriting import is_call
from heddle.support.diagnostics import HeddleError
from tests.unit.relay.programs import plain, program, run

RNG = np.random.default_rng(6)
CPU, ONE = "cpu(0)", "cpu(1)"
XY = "%x: Tensor[(?, 2), float32], %y: Tensor[(?, 2), float32]"
T = "Tensor[(?, 2), float32]"


def on(text: str, device: str = "cpu:1", attrs: str = "") -> str:
    return f'on_device({text}, virtual_device="{device}"{attrs})'


def _copies(mod: IRModule) -> list[tuple[str, str]]:
    nodes = (
        node for func in mod.functions.values() for node in post_order(func) if is_call(node, "device_copy")
    )
    return sorted((node.attrs.src_virtual_device, node.attrs.dst_virtual_device) for node in nodes)


def _planned(text: str) -> IRModule:
    """Planned twice, read back, and run."""
    mod = program(text)
    made = PlanDevices("cpu").transform(mod, None)  # type: ignore[arg-type]
    nodes = [node for func in made.functions.values() for node in post_order(func)]
    assert not any(is_call(node, "on_device") for node in nodes)
    assert_structural_equal(PlanDevices("cpu").transform(made, None), made)  # type: ignore[arg-type]
    assert_structural_equal(relay.parse(made.astext()), made)
    args = [RNG.standard_normal((3, 2)).astype("float32") for _ in range(len(mod["main"].params))]
    args = [
        np.bool_(True) if str(p.ty.dtype) == "bool" else a
        for p, a in zip(mod["main"].params, args, strict=True)
    ]
    for found, wanted in zip(_flat(run(made, *args)), _flat(run(mod, *args)), strict=True):
        np.testing.assert_array_equal(found, wanted)
    return made


def _flat(value: Any) -> list[Any]:
    return [each for item in value for each in _flat(item)] if isinstance(value, tuple) else [value]


def _places(mod: IRModule, name: str = "main") -> tuple[list[str], str]:
    attrs = mod[name].attrs
    return list(attrs["param_virtual_devices"]), attrs["result_virtual_device"]


IN, OUT = (CPU, ONE), (ONE, CPU)
CASES: dict[str, tuple[str, list[tuple[str, str]], tuple[list[str], str]]] = {
    "a result": (f"{on('tanh(%x)')} + %y", [OUT], ([ONE, CPU], CPU)),
    "at the top": (on("%x + %y"), [], ([ONE, ONE], ONE)),
    "an operand": (f"{on('%x', 'cpu:0')} + {on('exp(%y)')}", [OUT], ([CPU, ONE], CPU)),
    "there and back": (
        f"{on('tanh(' + on('exp(%x)', CPU) + ')')} - {on('%y', CPU)}",
        [IN, OUT],
        ([CPU, CPU], CPU),
    ),
    "result as well": (f"tanh({on('exp(%x)', attrs=', constrain_result=True')}) - %y", [], ([ONE, ONE], ONE)),
    "result alone": (
        f"tanh({on('exp(%x)', attrs=', constrain_result=True, constrain_body=False')}) + {on('%y', CPU)}",
        [IN],
        ([ONE, CPU], ONE),
    ),
    "nothing said": (on("%x + %y", attrs=", constrain_body=False"), [], ([CPU, CPU], CPU)),
    "a copy of the user's": (
        'device_copy(exp(%x), src_virtual_device="cpu(1)", dst_virtual_device="cpu(0)") + %y',
        [OUT],
        ([ONE, CPU], CPU),
    ),
    "lets": (f"let %z = {on('exp(%x)')}; tanh(%z) + {on('%y', CPU)}", [IN], ([ONE, CPU], ONE)),
    "tuples": (f"({on('exp(%x)')}, %y).0", [OUT], ([ONE, CPU], CPU)),
    "shapes are on the host": (
        f'{on("exp(%x)")} + cast(sum(shape_of(%y)), dtype="float32")',
        [OUT],
        ([ONE, CPU], CPU),
    ),
    "constants are everywhere": (f"{on('%x * 2f')} + {on('2f')}", [OUT], ([ONE, CPU], CPU)),
    "shared": (f"%0 = {on('exp(%x)')}; (%0 + %y, %0 * %y)", [OUT], ([ONE, CPU], CPU)),
}


@pytest.mark.parametrize("name", CASES)
def test_copies_are_where_the_device_changes(name: str) -> None:
    body, copies, places = CASES[name]
    made = _planned(f"def @main({XY}) {{ {body} }}")
    assert _copies(made) == sorted(copies) and _places(made) == places


def test_branches_and_matches() -> None:
    made = _planned(f"def @main(%c: bool, {XY}) {{ if (%c) {{ {on('exp(%x)')} }} else {{ tanh(%y) }} }}")
    assert _copies(made) == [OUT] and _places(made) == ([CPU] + [ONE, CPU], CPU)
    matched = _planned(f"""
    type Box {{ Full(Tensor[(?, 2), float32]), Empty }}
    def @main({XY}) {{ match (Full({on("exp(%x)")})) {{ Full(%a) => %a + %y, Empty => %y }} }}""")
    assert _copies(matched) == [OUT]


def test_functions_have_their_own_devices() -> None:
    """A parameter's device is its argument's, or a copy is; so with results."""
    made = _planned(f"""
    def @f(%a: {T}, %b: {T}, param_virtual_devices=["cpu:1", "cpu"], result_virtual_device="cpu:1") -> {T} {{
      %a + {on("%b", CPU)}
    }}
    def @main({XY}) {{ let %g = fn (%v: {T}) {{ {on("tanh(%v)")} }}; @f(%x, %x) + {on("%g(%y)", CPU)} }}""")
    assert _places(made, "f") == ([ONE, CPU], ONE)
    assert _copies(made).count(IN) >= 2 and _copies(made).count(OUT) >= 1


def test_closures_and_recursion() -> None:
    made = _planned(f"""
    def @twice(%f: fn ({T}) -> {T}, %a: {T}) -> {T} {{ %f(%f(%a)) }}
    def @main({XY}) {{ @twice(fn (%v: {T}) {{ %v + %v }}, {on("exp(%x)")}) + %y }}""")
    assert len(_copies(made)) == 1
    loop = _planned(f"""
    def @down(%n: int32, %a: {T}) -> {T} {{
      if (%n == 0) {{ {on("%a")} }} else {{ @down(%n - 1, tanh(%a)) }}
    }}
    def @main({XY}) {{ @down(2, %x) * %y }}""")
    assert len(_copies(loop)) <= 2


def test_programs_without_annotations_stay() -> None:
    mod = program(f"def @main({XY}) {{ %x + %y }}")
    assert PlanDevices("cuda").transform(mod, None) is mod  # type: ignore[arg-type]


def test_a_value_on_two_devices_is_refused() -> None:
    mod = program(f"def @main({XY}) {{ ({on('%x')}, {on('%x', CPU)}) }}")
    with pytest.raises(HeddleError, match=r"Q0506.*cpu\(1\) and cpu\(0\)"):
        PlanDevices("cpu").transform(mod, None)  # type: ignore[arg-type]


def test_functions_are_put_on_devices() -> None:
    x, y = relay.var("x", shape=(2,)), relay.var("y", shape=(2,))
    func = relay.annotation.function_on_device(relay.Function([x, y], x + y), [heddle.cpu(1), "cpu:1"], "cpu")
    mod = IRModule.from_expr(func)
    made = PlanDevices(heddle.cpu()).transform(mod, None)  # type: ignore[arg-type]
    assert _places(made) == ([ONE, ONE], CPU)
    wanted = plain(relay.create_executor("debug", mod).evaluate()(np.ones(2, "f"), np.ones(2, "f")))
    vm = heddle.relax.VirtualMachine(heddle.compile(made), [heddle.cpu(0), heddle.cpu(1)])
    ones = heddle.tensor(np.ones(2, "float32"))
    np.testing.assert_array_equal(vm["main"](ones, ones).numpy(), wanted)
    with pytest.raises(HeddleError, match="2 parameters, got 1"):
        relay.annotation.function_on_device(func, ["cpu"], "cpu")


@pytest.mark.parametrize("text", ["cpu", "cpu:0", "cpu(0)"])
def test_names_of_devices(text: str) -> None:
    assert device_attribute(text) == CPU and virtual_device(text).device is heddle.cpu()
    with pytest.raises(HeddleError, match="U0201"):
        virtual_device("VirtualDevice(x)")


def test_virtual_devices_join_field_by_field() -> None:
    """Not said is -1 for numbers; what contradicts does not join."""
    cases = [
        (VirtualDevice(), -1, -1, None),
        (VirtualDevice("cpu(1)"), 1, 1, "cpu(1)"),
        (VirtualDevice(target="cuda -arch=sm_90"), 2, -1, ...),
        (VirtualDevice(heddle.cpu(1), "llvm", "global"), 1, 1, ...),
    ]
    for place, kind, number, shown in cases:
        assert (place.device_type_int, place.device_type, place.virtual_device_id) == (kind, kind, number)
        assert device_attribute(place) == (place if shown is ... else shown)
    one, scoped, cuda = VirtualDevice("cpu:1"), VirtualDevice(memory_scope="global"), VirtualDevice("cuda")
    joined = one.joined(scoped)
    assert (str(joined), joined.place) == ("cpu(1), global", one.place)
    assert one.joined(cuda) is None and VirtualDevice(target="llvm").joined(cuda) is None
    assert one.joined(VirtualDevice()) is one and str(scoped.filled(one)) == "cpu(1), global"
    assert str(VirtualDevice(target="cuda").filled(one)) == "cuda(0), cuda"
    with pytest.raises(HeddleError, match=r"U0201.*'llvm' does not run on cuda:0"):
        heddle.target.VirtualDevice("cuda", "llvm")
