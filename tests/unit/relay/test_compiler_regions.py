"""Parts of a program for other compilers: marks, regions, functions of the module, and values as before."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from heddle import relay
from heddle.ir.expr import Function
from heddle.ir.structural import assert_structural_equal
from heddle.relay import transform as passes
from heddle.relay.op_attrs import register_op_attr, reset_op_attr
from heddle.relay.placement import post_order
from tests.unit.relay.programs import plain, program

X = "%x: Tensor[(2, 3), float32]"
TAKEN = ("add", "tanh", "exp", "split")


@pytest.fixture(autouse=True)
def dnn() -> Iterator[None]:
    """A compiler that takes four operators."""
    for name in TAKEN:
        register_op_attr(name, "target.dnn", lambda expr: True)
    yield
    for name in TAKEN:
        reset_op_attr(name, "target.dnn")


def partitioned(text: str, **options: Any) -> Any:
    mod = program(text)
    for step in (passes.AnnotateTarget("dnn"), passes.MergeCompilerRegions()):
        mod = step(mod)
    return passes.PartitionGraph(**options)(mod)


def names(mod: Any) -> list[str]:
    """The functions of the module that a compiler takes."""
    return [var.name_hint for var, func in mod.functions.items() if "Compiler" in func.attrs]


def values(mod: Any, kind: str) -> list[Any]:
    rng = np.random.default_rng(3)
    func = mod["main"]
    args = [rng.standard_normal([int(d) for d in p.ty.dims]).astype("float32") for p in func.params]
    found = plain(relay.create_executor(kind, mod=mod).evaluate()(*args))
    return list(found) if isinstance(found, (tuple, list)) else [found]


PROGRAMS = {
    "a chain": (f"def @main({X}) {{ sigmoid(exp(tanh(add(%x, %x)))) }}", 1),
    "two ends": (
        f"def @main({X}) {{ %0 = tanh(%x); %1 = exp(%0); (sigmoid(%0), sigmoid(%1)) }}",
        1,
    ),
    "a way around": (
        f"def @main({X}) {{ %0 = tanh(%x); %1 = sigmoid(%0); add(%0, %1) }}",
        2,
    ),
    "a way around through another region": (
        f"def @main({X}) {{ %0 = tanh(%x); %1 = sigmoid(exp(%0)); add(add(%0, %0), %1) }}",
        2,
    ),
    "a diamond": (f"def @main({X}) {{ %0 = tanh(%x); add(exp(%0), add(%0, 1f)) }}", 1),
    "fields": (f"def @main({X}) {{ %0 = split(%x, indices_or_sections=3, axis=1); add(%0.0, %0.2) }}", 1),
    "a result that is a tuple": (f"def @main({X}) {{ %0 = tanh(%x); (%0, exp(%0)) }}", 1),
    "nothing": (f"def @main({X}) {{ sigmoid(%x) }}", 0),
    "branches": (
        f"def @main({X}) {{ if (less(sum(%x), 0f)) {{ tanh(add(%x, 1f)) }} else {{ exp(%x) }} }}",
        2,
    ),
    "what a branch shares": (
        f"def @main({X}) {{ let %a = tanh(%x); if (less(sum(%x), 0f)) {{ exp(%a) }} else {{ %a }} }}",
        2,
    ),
    "lets": (f"def @main({X}) {{ let %a = tanh(%x); let %b = exp(%a); add(%a, %b) }}", 3),
    "patterns": (
        "type L { C(Tensor[(2, 3), float32]), N }\n"
        f"def @main({X}) {{ match (C(%x)) {{ C(%y) => add(tanh(%y), tanh(%x)), N => exp(%x) }} }}",
        2,
    ),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_regions_are_functions_with_the_same_values(name: str) -> None:
    text, count = PROGRAMS[name]
    mod = partitioned(text)
    assert len(names(mod)) == count
    assert not any(
        getattr(getattr(node, "op", None), "name", "").startswith("annotation.")
        for func in mod.functions.values()
        for node in post_order(func)
    )
    for kind in ("debug", "vm"):
        for found, want in zip(values(mod, kind), values(program(text), "debug"), strict=True):
            np.testing.assert_allclose(found, want, rtol=2e-6)


def test_functions_of_regions_say_what_they_are() -> None:
    mod = partitioned(
        f"def @main({X}, %w: Tensor[(3), float32]) {{ sigmoid(add(tanh(%x), %w)) }}", mod_name="net"
    )
    [name] = names(mod)
    assert name == "tvmgen_net_dnn_main_0"
    func = mod[name]
    assert isinstance(func, Function)
    assert dict(func.attrs.items()) == {
        "Primitive": 1,
        "Inline": 1,
        "Compiler": "dnn",
        "global_symbol": name,
    }
    assert [param.name_hint for param in func.params] == ["dnn_0_i0", "dnn_0_i1"]


def test_names_of_functions_are_names_in_c() -> None:
    register_op_attr("tanh", "target.my-dnn", lambda expr: True)
    try:
        mod = passes.AnnotateTarget("my-dnn")(program(f"def @main({X}) {{ tanh(%x) }}"))
    finally:
        reset_op_attr("tanh", "target.my-dnn")
    made = passes.PartitionGraph(mod_name="a net")(mod)
    [name] = names(made)
    assert name == "tvmgen_a_net_my_dnn_main_0" and made[name].attrs["Compiler"] == "my-dnn"
    assert [param.name_hint for param in made[name].params] == ["my_dnn_0_i0"]
    assert_structural_equal(relay.parse(made.astext()), made)


@pytest.mark.parametrize("bind_constants", [True, False])
def test_constants_are_inside_or_arguments(bind_constants: bool) -> None:
    mod = partitioned(f"def @main({X}) {{ add(%x, 2f) }}", bind_constants=bind_constants)
    [name] = names(mod)
    assert len(mod[name].params) == (1 if bind_constants else 2)


def test_composite_functions_go_by_the_first_part_of_their_name() -> None:
    pattern = relay.dataflow_pattern.is_op("nn.relu")(
        relay.dataflow_pattern.is_op("tanh")(relay.dataflow_pattern.wildcard())
    )
    mod = passes.MergeComposite([("acc.tanh_relu", pattern)])(
        program(f"def @main({X}) {{ exp(nn.relu(tanh(%x))) }}")
    )
    mod = passes.AnnotateTarget(["acc", "dnn"])(mod)
    made = passes.PartitionGraph()(passes.MergeCompilerRegions()(mod))
    assert names(made) == ["tvmgen_default_acc_main_0", "tvmgen_default_dnn_main_1"]
    np.testing.assert_allclose(
        values(made, "vm")[0],
        values(program(f"def @main({X}) {{ exp(nn.relu(tanh(%x))) }}"), "debug")[0],
        rtol=2e-6,
    )


def test_the_first_of_several_targets_wins_and_calls_decide() -> None:
    register_op_attr("tanh", "target.other", lambda expr: int(expr.args[0].ty.dims[0]) == 2)
    try:
        mod = passes.AnnotateTarget(("other", "dnn"))(program(f"def @main({X}) {{ exp(tanh(%x)) }}"))
    finally:
        reset_op_attr("tanh", "target.other")
    made = passes.PartitionGraph()(passes.MergeCompilerRegions()(mod))
    assert [made[name].attrs["Compiler"] for name in names(made)] == ["other", "dnn"]


def test_tuples_stay_outside_where_that_is_asked() -> None:
    mod = program(f"def @main({X}) {{ (tanh(%x), exp(%x)) }}")
    made = passes.PartitionGraph()(passes.MergeCompilerRegions()(passes.AnnotateTarget("dnn", False)(mod)))
    assert len(names(made)) == 2


def test_functions_are_written_in_place_and_taken_out_again() -> None:
    mod = partitioned(f"def @main({X}) {{ sigmoid(exp(tanh(%x))) }}")
    [name] = names(mod)
    inlined = passes.Inline()(mod)
    assert len(inlined.functions) == 1
    outlined = passes.OutlineCompilerFunctionsWithExistingGlobalSymbols("dnn")(inlined)
    assert_structural_equal(outlined, mod)
    same = passes.OutlineCompilerFunctionsWithExistingGlobalSymbols("other")(inlined)
    assert same is inlined
    plain = passes.InlineCompilerFunctionsBoundTo([mod.get_global_var(name)])(mod)
    assert_structural_equal(
        plain, relay.transform.InferType()(program(f"def @main({X}) {{ sigmoid(exp(tanh(%x))) }}"))
    )
    assert passes.InlineCompilerFunctionsBoundTo(["main"])(mod) is mod


def test_functions_of_others_are_marked_as_extern() -> None:
    mod = partitioned(f"def @main({X}) {{ tanh(%x) }}")
    [name] = names(mod)
    marked = passes.MarkCompilerFunctionsAsExtern("dnn")(mod)
    assert dict(marked[name].attrs.items()) == {"Extern": 1, "global_symbol": name}
    assert passes.MarkCompilerFunctionsAsExtern("other")(mod) is mod


@pytest.mark.parametrize("length", [200, 400])
def test_long_programs_are_partitioned(length: int) -> None:
    """Each fourth operator is taken by nobody, and values go around it."""
    lines, last = [], "%x"
    for k in range(length):
        op = ("tanh", "sigmoid", "exp", "tanh")[k % 4]
        lines.append(f"%{2 * k} = {op}({last}); %{2 * k + 1} = add(%{2 * k}, {last});")
        last = f"%{2 * k + 1}"
    mod = partitioned(f"def @main({X}) {{ {' '.join(lines)} {last} }}")
    assert 0 < len(names(mod)) <= length // 2 + 1
