"""Relay programs by the shared normal form: the interpreter, bytecode and compiled code agree."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import heddle
from heddle import relax, relay
from heddle.graph.nodes import SeqExpr
from heddle.ir.instrument import verify_module
from heddle.ir.json_codec import load_json, save_json
from heddle.ir.structural import assert_structural_equal
from heddle.ir.types import TupleType
from heddle.lower.relay_to_relax import to_relax
from heddle.runtime.module import load_module
from heddle.script import from_source
from heddle.script.printer import module_script
from heddle.support.diagnostics import HeddleError
from heddle.vm.relax import VirtualMachine
from tests.unit.relay.corpus import ROWS, parsed, same
from tests.unit.relay.programs import floats, program, run

MODES = ("bytecode", "compiled")


def given(value: Any, ty: Any) -> Any:
    if isinstance(ty, TupleType):
        return tuple(given(item, part) for item, part in zip(value, ty.fields, strict=True))
    return heddle.tensor(np.asarray(value).astype(ty.dtype.numpy()))


def taken(value: Any) -> Any:
    return tuple(map(taken, value)) if isinstance(value, (tuple, list)) else value.numpy()


def call(executable: Any, mod: heddle.IRModule, args: tuple[Any, ...]) -> Any:
    values = [given(value, param.ty) for value, param in zip(args, mod["main"].params, strict=True)]
    return taken(VirtualMachine(executable, heddle.cpu())["main"](*values))


def check(mod: heddle.IRModule, *cases: tuple[Any, ...]) -> None:
    """Both modes give what the interpreter gives."""
    for mode in MODES:
        executable = heddle.compile(mod, exec_mode=mode)
        for args in cases:
            same(call(executable, mod, args), run(mod, *args))


@pytest.mark.parametrize("name", sorted(ROWS))
def test_corpus(name: str, tmp_path: Any) -> None:
    mod = parsed(name)
    make, reference = ROWS[name]
    args = make()
    normal = relay.to_relax(mod)
    assert verify_module(normal) == [] and all(f.dialect == "relax" for f in normal.functions.values())
    assert_structural_equal(load_json(save_json(normal)), normal)
    assert_structural_equal(from_source(module_script(normal, show_meta=True)), normal)
    for mode in MODES:
        executable = heddle.compile(mod, exec_mode=mode)
        same(call(executable, mod, args), reference(*args))
        executable.export_library(str(tmp_path / f"{mode}.so"))
        same(call(load_module(str(tmp_path / f"{mode}.so")), mod, args), reference(*args))


@pytest.mark.parametrize("size", [0, 1, 2, 13])
def test_unknown_sizes(size: int) -> None:
    for name, args in {
        "any_shapes": (floats(size, 3), floats(2, 3)),
        "mlp_any_batch": (floats(size, 3), floats(3, 3), floats(3)),
        "attention": (floats(1, size, 4), floats(1, 5, 4), floats(1, 5, 4)),
        "local_loop": (3, floats(size)),
        "nested_closures": (False, floats(size), 0.5),
        "generic_local": (floats(size, 2), 3),
        "list_of_any": (floats(size, 2), floats(3, 2)),
        "while_loop": (4, floats(size)),
    }.items():
        check(parsed(name), args)


def test_each_unknown_size_of_a_parameter_has_a_name() -> None:
    normal = relay.to_relax(parsed("any_shapes"))
    sizes = [param.ty.dims[0] for param in normal["main"].params]
    assert sizes[0] is not sizes[1] and str(normal["main"].ret_ty.dims[0]) == str(sizes[0] + sizes[1])


def test_branches_with_results_of_different_sizes() -> None:
    mod = program("""
def @main(%c: bool, %x: Tensor[(?, 2), float32]) -> Tensor[(?, 2), float32] {
  let %y: Tensor[(?, 2), float32] = if (%c) { concatenate((%x, %x), axis=0) } else { %x };
  tanh(%y) + 1f
}""")
    check(mod, (True, floats(3, 2)), (False, floats(3, 2)), (True, floats(0, 2)))


def test_tuples_of_unknown_sizes() -> None:
    mod = program("""
def @both(%n: int32, %p: (Tensor[(?), float32], (Tensor[(?), float32],)))
    -> (Tensor[(?), float32], (Tensor[(?), float32],)) {
  if (%n == 0) { %p } else { @both(%n - 1, (concatenate(%p.1, axis=0), (tanh(%p.0),))) }
}
def @main(%n: int32, %x: Tensor[(?), float32], %y: Tensor[(?), float32]) {
  let %r = @both(%n, (%x, (%y,)));
  (concatenate((%r.0, (%r.1).0), axis=0), %r)
}""")
    check(mod, (3, floats(2), floats(5)), (0, floats(0), floats(1)))


def test_deep_graphs() -> None:
    x = relay.var("x", shape=(2,))
    body: Any = x
    for place in range(400):
        body = relay.add(body, x) if place % 2 else relay.multiply(body, relay.const(0.5))
    normal = to_relax(heddle.IRModule.from_expr(relay.Function([x], body)))
    assert isinstance(normal["main"].body, SeqExpr) and len(normal["main"].body.bindings()) == 400


def test_instances_of_generic_functions() -> None:
    normal = relay.to_relax(parsed("polymorphism"))
    assert len(normal.functions) == 3
    names = [var.name_hint for var, func in normal.functions.items() if "global_symbol" in func.attrs]
    assert names == ["main"]


@pytest.mark.parametrize("grown", ["(%x, %x)", "(%x,)"])
def test_instances_without_end(grown: str) -> None:
    mod = program(f"""
def @f[A](%n: int32, %x: A) -> int32 {{ if (%n == 0) {{ 0 }} else {{ @f(%n - 1, {grown}) }} }}
def @main(%n: int32) {{ @f(%n, %n) }}""")
    with pytest.raises(HeddleError, match="L0302") as caught:
        relay.to_relax(mod)
    assert caught.value.diagnostics[0].span is not None


def test_generic_functions_are_no_values_by_themselves() -> None:
    with pytest.raises(HeddleError, match="L0303"):
        relay.to_relax(program("def @main[A](%x: A) -> A { %x }"))
    with pytest.raises(HeddleError, match="L0303"):
        relay.to_relax(program("def @id[A](%x: A) -> A { %x } def @main() { (@id, 1) }"))


def test_entry_functions() -> None:
    mod = program("def @f(%x: int32) { %x + 1 } def @g(%x: int32) { %x } def @main(%x: int32) { @f(%x) }")
    assert {var.name_hint for var in relay.to_relax(mod).functions} == {"main", "f"}
    assert {var.name_hint for var in relay.to_relax(mod, ["g"]).functions} == {"g"}
    with pytest.raises(HeddleError, match="I0301"):
        relay.to_relax(mod, ["h"])


def test_other_dialects_stay_and_params_are_bound() -> None:
    mod = program("def @main(%x: Tensor[(2), float32], %w: Tensor[(2), float32]) { %x * %w }")
    x, w = floats(2), floats(2)
    executable = heddle.compile(mod, params={"w": w})
    np.testing.assert_allclose(
        taken(VirtualMachine(executable, heddle.cpu())["main"](heddle.tensor(x))), x * w
    )
    builder = relax.BlockBuilder()
    p = relax.Var("p", relax.TensorType((2,), "float32"))
    with builder.function("twice", [p]):
        builder.emit_func_output(builder.emit(p + p))
    mod["twice"] = builder.get()["twice"]
    assert relay.to_relax(mod)["twice"] is mod["twice"]


def test_the_executor() -> None:
    mod = parsed("lstm_loop")
    args = ROWS["lstm_loop"][0]()
    executor = relay.create_executor("vm", mod)
    same(taken(executor.evaluate()(*args)), ROWS["lstm_loop"][1](*args))
    assert executor.evaluate(relay.add(relay.const(1), relay.const(2))).numpy() == 3
    cell = executor.evaluate(mod.get_global_var("cell"))
    state = (floats(1, 2), floats(1, 2))
    wanted = relay.create_executor("debug", mod).evaluate(mod.get_global_var("cell"))(args[1], state, args[2])
    same(taken(cell(args[1], state, args[2])), taken(wanted))
    with pytest.raises(HeddleError, match="Q0105"):
        relay.create_executor("cloud", mod)


@pytest.mark.parametrize("name", ["from", "None", "a/b", "R", "_", "from_"])
def test_names_that_python_has_no_room_for(name: str, tmp_path: Any) -> None:
    """Functions and variables: in script text, in loops, and by what they are called."""
    mod = program(
        f"def @{name}(%lambda: float32, %in: float32) -> float32 {{ let %is = %lambda + %in; "
        f"if (%is < 3f) {{ @{name}(%is, %in) }} else {{ %is }} }} "
        f"def @main(%x: float32) {{ @{name}(%x, 1f) }}"
    )
    for form in (relay.to_relax(mod), relax.transform.LegalizeOps()(relay.to_relax(mod))):
        again = from_source(module_script(form))
        assert_structural_equal(again, form)
        assert [var.name_hint for var in again.functions] == [var.name_hint for var in form.functions]
    check(mod, (np.float32(1.5),))
    executable = heddle.compile(mod)
    executable.export_library(str(tmp_path / "m.so"))
    assert name in load_module(str(tmp_path / "m.so")).function_names()
