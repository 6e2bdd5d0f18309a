"""Sizes that an operator's attributes state: of free dimensions they are checked when a program runs."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import heddle
from heddle import relay
from heddle.lower.relay_to_relax import to_relax
from heddle.runtime import tensor
from heddle.support.diagnostics import HeddleError
from tests.unit.relay.programs import plain, program

PROGRAMS: dict[str, tuple[list[str], Any, Any]] = {
    "split(%a, indices_or_sections=3)": (["(?, 2)"], [(6, 2)], [(7, 2)]),
    "split(%a, indices_or_sections=2, axis=-1)": (["(3, ?)"], [(3, 4)], [(3, 5)]),
    "nn.dense(%a, %b, units=5)": (["(3, 4)", "(?, 4)"], [(3, 4), (5, 4)], [(3, 4), (6, 4)]),
    "nn.dense(%a, %b, units=5, out_dtype='')": (["(?, ?)", "(?, ?)"], [(2, 3), (5, 3)], [(2, 3), (4, 3)]),
    "nn.conv1d(%a, %b, channels=5, kernel_size=[3])": (
        ["(1, 3, 8)", "(?, 3, ?)"],
        [(1, 3, 8), (5, 3, 3)],
        [(1, 3, 8), (5, 3, 2)],
    ),
    "nn.conv2d(%a, %b, channels=5, kernel_size=[3, 3])": (
        ["(?, 3, 8, 8)", "(?, 3, ?, ?)"],
        [(2, 3, 8, 8), (5, 3, 3, 3)],
        [(2, 3, 8, 8), (4, 3, 3, 3)],
    ),
    "nn.conv2d(%a, %b, channels=4, kernel_size=[1, 1], groups=2)": (
        ["(1, 6, 5, 5)", "(?, ?, ?, ?)"],
        [(1, 6, 5, 5), (4, 3, 1, 1)],
        [(1, 6, 5, 5), (4, 3, 1, 2)],
    ),
    "nn.conv2d_transpose(%a, %b, channels=2, kernel_size=[2, 2])": (
        ["(1, 3, 5, 5)", "(3, ?, ?, ?)"],
        [(1, 3, 5, 5), (3, 2, 2, 2)],
        [(1, 3, 5, 5), (3, 1, 2, 2)],
    ),
    "qnn.dequantize(cast(%a, dtype='int8'), const3, 0, axis=1)": (["(2, ?)"], [(2, 3)], [(2, 1)]),
}
"""Calls with the types of %a and %b, shapes that fit, and shapes that contradict an attribute."""


def _module(call: str, types: list[str]) -> Any:
    params = ", ".join(f"%{name}: Tensor[{ty}, float32]" for name, ty in zip("ab", types, strict=False))
    call = call.replace("'", '"')
    if "const3" in call:
        params += ", %s: Tensor[(3), float32]"
        call = call.replace("const3", "%s")
    return program(f"def @main({params}) {{ {call} }}")


def _engines(mod: Any) -> dict[str, Any]:
    found: dict[str, Any] = {kind: relay.create_executor(kind, mod).evaluate() for kind in ("debug", "vm")}
    for mode in ("bytecode", "compiled"):
        made = heddle.compile(mod, exec_mode=mode)
        found[mode] = heddle.relax.VirtualMachine(made, heddle.cpu())["main"]
    return found


def _args(mod: Any, shapes: Any) -> list[Any]:
    rng = np.random.default_rng(7)
    whole = [*shapes, *[(3,)] * (len(mod["main"].params) - len(shapes))]
    return [tensor(np.asarray(rng.integers(-4, 5, shape), "float32")) for shape in whole]


@pytest.mark.parametrize("call", PROGRAMS)
def test_what_fits_is_computed_and_what_does_not_is_refused(call: str) -> None:
    types, fitting, wrong = PROGRAMS[call]
    mod = _module(call, types)
    engines = _engines(mod)
    wanted = plain(engines["debug"](*_args(mod, fitting)))
    for name, run in engines.items():
        found = plain(run(*_args(mod, fitting)))
        pairs = zip(wanted, found, strict=True) if isinstance(wanted, tuple) else [(wanted, found)]
        for one, other in pairs:
            np.testing.assert_allclose(other, one, rtol=1e-5, err_msg=name)
        with pytest.raises(HeddleError, match=r"R0203|V0401|R0601"):
            run(*_args(mod, wrong))
        run(*_args(mod, fitting))  # the next call works


def test_known_sizes_cost_no_check() -> None:
    mod = _module("nn.dense(%a, %b, units=5)", ["(3, 4)", "(5, 4)"])
    assert "ensure_shape" not in str(to_relax(mod))
    free = _module("nn.dense(%a, %b, units=5)", ["(3, 4)", "(?, 4)"])
    assert "ensure_shape" in str(to_relax(free))


def test_a_gradient_passes_through_stated_sizes() -> None:
    x = heddle.relax.Var("x", heddle.relax.TensorType((heddle.tir.Var("n", "int64"), 4), "float32"))
    bb = heddle.relax.BlockBuilder()
    with bb.function("main", [x]):
        with bb.dataflow():
            known = bb.emit(heddle.relax.op.ensure_shape(x, (3, 4)))
            out = bb.emit_output(heddle.relax.op.sum(heddle.relax.op.multiply(known, known)))
        bb.emit_func_output(out)
    mod = heddle.relax.transform.Gradient("main")(bb.get())
    run = heddle.relax.VirtualMachine(heddle.compile(mod), heddle.cpu())["main_adjoint"]
    data = np.arange(12, dtype="float32").reshape(3, 4)
    _, (grad,) = run(tensor(data))
    np.testing.assert_array_equal(grad.numpy(), 2 * data)
    with pytest.raises(HeddleError, match="V0401"):
        run(tensor(data[:2]))
