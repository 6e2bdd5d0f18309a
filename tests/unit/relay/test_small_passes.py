"""Passes over arguments, weights, batches and places, and what else has a few lines."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest

from heddle import relay
from heddle.ir.module import IRModule
from heddle.ir.structural import assert_structural_equal
from heddle.relay import dataflow_pattern as dfp
from heddle.relay import transform as passes
from heddle.relay.memory import flatten_tuple_type, from_tuple_type, to_tuple_type
from heddle.relay.placement import post_order
from heddle.relay.transform.capture_post_dfs_index_in_spans import dominators
from heddle.relay.transform.rewriting import is_call
from heddle.runtime.device import cpu
from heddle.support.diagnostics import HeddleError, HeddleWarning
from tests.unit.relay.programs import floats, program, run, value

ANY = relay.Any()


def _mod(params: Any, body: Any) -> IRModule:
    return passes.InferType()(IRModule.from_expr(relay.Function(params, body)))


def _do(step: Any, mod: IRModule) -> Any:
    return step.transform(mod, None)


# ---- arguments


@pytest.mark.parametrize("most", [2, 3, 7])
@pytest.mark.parametrize("count", [1, 2, 3, 8, 29])
@pytest.mark.parametrize("axis", [0, -1])
def test_no_concatenation_takes_more_tensors(most: int, count: int, axis: int) -> None:
    xs = [relay.var(f"x{k}", shape=(2, ANY if axis else 3)) for k in range(count)]
    mod = _mod(xs, relay.concatenate(xs, axis=axis))
    made = _do(passes.SplitArgs(most), mod)
    found = [node for node in post_order(made["main"]) if is_call(node, "concatenate")]
    assert max(len(node.args[0].fields) for node in found) <= most and (made is mod) == (count <= most)
    args = [floats(2, 3) for _ in xs]
    np.testing.assert_array_equal(run(made, *args), np.concatenate(args, axis))


def test_concatenations_of_computed_tuples_stay() -> None:
    mod = program("def @main(%x: Tensor[(6), float32]) { concatenate(split(%x, indices_or_sections=6)) }")
    assert _do(passes.SplitArgs(2), mod) is mod
    with pytest.raises(HeddleError, match="I0508"):
        passes.SplitArgs(1)


# ---- weights


@pytest.mark.parametrize("rows", [2, ANY])
@pytest.mark.parametrize("is_used_otherwise", [False, True])
def test_weights_come_transposed(rows: Any, is_used_otherwise: bool) -> None:
    x, w = relay.var("x", shape=(rows, 4)), relay.var("w", shape=(4, 6))
    y = relay.nn.dense(x, relay.transpose(w)) + relay.nn.dense(x, relay.transpose(w, axes=[-1, 0]))
    body = y + relay.sum(w) if is_used_otherwise else y
    mod = _mod([x, w], body)
    made = _do(passes.SimplifyFCTranspose(relay.analysis.search_fc_transpose(mod["main"])), mod)
    assert [p.name_hint for p in made["main"].params] == ["x", *["w"] * is_used_otherwise, "w.T"]
    assert not any(is_call(node, "transpose") for node in post_order(made["main"]))
    given, weight = floats(2, 4), floats(4, 6)
    args = [given, *[weight] * is_used_otherwise, weight.T.copy()]
    np.testing.assert_allclose(run(made, *args), run(mod, given, weight), rtol=1e-5)


def test_other_weights_stay() -> None:
    x, w = relay.var("x", shape=(2, 4)), relay.var("w", shape=(4, 4))
    mod = _mod([x, w], relay.nn.dense(x, relay.transpose(w)))
    assert _do(passes.SimplifyFCTranspose(["v"]), mod) is mod
    plain = _mod([x, w], relay.nn.dense(x, relay.transpose(w, axes=[0, 1])))
    assert _do(passes.SimplifyFCTranspose(["w"]), plain) is plain


# ---- batches


@pytest.mark.parametrize("size", [0, 1, 7, 16])
def test_batches_have_another_size(size: int) -> None:
    x, w = relay.var("x", shape=(3, 1)), relay.var("w", shape=(4, 3))
    mod = _mod([x, w], relay.nn.relu(relay.nn.dense(relay.transpose(x), w)))
    made = _do(passes.ChangeBatch({x: 1}, size), mod)
    assert [int(dim.value) for dim in made["main"].ret_ty.dims] == [size, 4]
    args = floats(3, size), floats(4, 3)
    np.testing.assert_allclose(run(made, *args), np.maximum(args[0].T @ args[1].T, 0), rtol=1e-5, atol=1e-6)
    assert _do(passes.ChangeBatch({w: 0}, 4), mod)["main"].ret_ty.dims[1].value == 4
    assert passes.ChangeBatch({}).transform_function(mod["main"], mod, None) is mod["main"]  # type: ignore[arg-type]


def test_batches_in_attributes_are_refused() -> None:
    x = relay.var("x", shape=(2, 3))
    mod = _mod([x], relay.add(relay.reshape(x, newshape=[2, 3]), relay.const(1.0)))
    with pytest.raises(HeddleError, match="reshape"):
        _do(passes.ChangeBatch({x: 0}, 5), mod)


# ---- places


def _built() -> IRModule:
    x = relay.var("x", shape=(2,))
    y = relay.tanh(x)
    return _mod([x], relay.exp(y) + y)


def test_places_are_those_in_the_programs_own_text() -> None:
    mod = _built()
    made = passes.AnnotateSpans()(mod)
    assert_structural_equal(made, mod)
    lines = mod.astext().splitlines()
    body = made["main"].body
    assert "add" in lines[body.span.line - 1] or "+" in lines[body.span.line - 1]
    assert all(node.span is not None for node in post_order(made["main"]) if is_call(node))


def test_expressions_without_a_place_are_counted() -> None:
    with pytest.warns(HeddleWarning, match="Q0504.*@main have no place"):
        assert passes.SpanCheck()(mod := _built()) is mod
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        relay.SpanCheck()(passes.AnnotateSpans()(_built()))


def test_places_are_numbers_of_expressions_and_dominators() -> None:
    made = passes.CapturePostDfsIndexInSpans()(_built())
    nodes = post_order(made["main"])
    places = [node.span.text.split(":") for node in nodes]
    assert [int(place[1]) for place in places] == list(range(len(nodes)))
    number = {id(node): k for k, node in enumerate(nodes)}
    total = number[id(made["main"].body)]
    (tanh,) = (node for node in nodes if is_call(node, "tanh"))
    (exp,) = (node for node in nodes if is_call(node, "exp"))
    assert int(places[number[id(tanh)]][2]) == total == int(places[number[id(exp)]][2])
    assert int(places[total][2]) == len(nodes) - 1 == int(places[-1][2])
    assert_structural_equal(made, _built())


def test_dominators_are_on_every_way_to_the_result() -> None:
    """By their definition: without its dominator, nothing leads from an expression to the result."""
    rng = np.random.default_rng(3)
    x = relay.var("x", shape=(2,))
    made: list[Any] = [x]
    for _ in range(30):
        a, b = rng.integers(0, len(made), 2)
        made.append(relay.add(made[a], made[b]) if rng.random() < 0.5 else relay.tanh(made[a]))
    nodes = post_order(relay.Tuple(made[-6:]))
    found = dominators(nodes)

    def reaches(node: Any, without: Any) -> bool:
        return any(each is node for each in _above(nodes[-1], without))

    for k, node in enumerate(nodes[:-1]):
        assert found[k] > k and not reaches(node, nodes[found[k]])
        between = [other for other in nodes[k + 1 : found[k]] if not reaches(node, other)]
        assert not between


def _above(root: Any, without: Any) -> list[Any]:
    from_root = [] if root is without else [root]
    for node in from_root:
        for child in (*node.args, node.op) if is_call(node) else getattr(node, "fields", ()):
            if child is not without and not any(child is each for each in from_root):
                from_root.append(child)
    return from_root


# ---- groups of passes


def test_parallel_products_are_batched() -> None:
    x, ws = relay.var("x", shape=(2, 4)), [relay.var(f"w{k}", shape=(3, 4)) for k in range(3)]
    mod = _mod([x, *ws], relay.Tuple([relay.nn.dense(x, w) for w in ws]))
    made = _do(passes.BatchingOps(), mod)
    assert not any(is_call(node, "nn.dense") for node in post_order(made["main"]))
    args = [floats(2, 4), *(floats(3, 4) for _ in ws)]
    for found, w in zip(run(made, *args), args[1:], strict=True):
        np.testing.assert_allclose(found, args[0] @ w.T, rtol=1e-5, atol=1e-6)


# ---- functions of other compilers


@pytest.mark.parametrize("size", [3, ANY])
def test_data_of_other_compilers_functions(size: Any) -> None:
    ty = f"Tensor[({'?' if size is ANY else 3}), float32]"
    mod = program(
        f'def @f(%a: {ty}, Compiler="d", global_symbol="f") {{ (tanh(%a), %a) }} '
        f"def @main(%x: {ty}) {{ let %y = exp(%x); let %z = @f(%y); %z.0 + %x }}"
    )
    x = floats(3)
    ((var, found),) = relay.analysis.get_calibration_data(mod, {"x": x}).items()
    assert var.name_hint == "f" and [len(found[key]) for key in ("inputs", "outputs")] == [1, 2]
    np.testing.assert_allclose(found["inputs"][0].numpy(), np.exp(x), rtol=1e-5)
    np.testing.assert_allclose(found["outputs"][0].numpy(), np.tanh(np.exp(x)), rtol=1e-5)
    plain = program("def @main(%x: float32) { tanh(%x) }")
    assert relay.analysis.get_calibration_data(plain, {"x": np.float32(1)}) == {}


def test_data_of_two_calls_are_refused() -> None:
    mod = program('def @f(%a: float32, Compiler="d") { tanh(%a) } def @main(%x: float32) { @f(@f(%x)) }')
    with pytest.raises(HeddleError, match="@f is called twice"):
        relay.analysis.get_calibration_data(mod, {"x": np.float32(1)})


# ---- tuples, patterns, scopes, storages


def test_nested_tuples_are_rows_of_tensors() -> None:
    one, two = relay.TensorType((2,)), relay.TensorType((), "int32")
    ty = relay.TupleType([one, relay.TupleType([]), relay.TupleType([two, relay.TupleType([one])])])
    assert flatten_tuple_type(ty) == [one, two, one] and flatten_tuple_type(one) == [one]
    x = relay.var("x", ty)
    again = to_tuple_type(ty, from_tuple_type(ty, x))
    given = (floats(2), (), (np.int32(3), (floats(2),)))
    found = run(_mod([x], again), given)
    np.testing.assert_array_equal(found[0], given[0])
    np.testing.assert_array_equal(found[2][1][0], given[2][1][0])
    assert value(to_tuple_type(one, [relay.const([1.0, 2.0])])).shape == (2,)
    with pytest.raises(HeddleError, match="3 tensors, got 1"):
        to_tuple_type(ty, [x])
    with pytest.raises(HeddleError, match="expected tensors"):
        flatten_tuple_type(relay.RefType(one))


def test_patterns_have_a_text() -> None:
    pattern = dfp.is_op("add")(dfp.wildcard(), dfp.is_var("x")) | dfp.is_tuple(None)
    assert (
        pattern.astext() == "AltPattern(CallPattern(ExprPattern(add), (*, VarPattern(x))), TuplePattern(*))"
    )
    loop = dfp.wildcard()
    loop.redirect_to(dfp.is_op("tanh")(loop))
    assert loop.astext() == "CallPattern(ExprPattern(tanh), (...))"
    with pytest.raises(HeddleError, match=r"Q0102.*astype of a tuple"):
        dfp.is_tuple([dfp.wildcard()]).astype("float16")


def test_users_register_patterns() -> None:
    @dfp.register_df_node
    class OnlyMine(dfp.DFPattern):
        pass

    @dfp.register_df_node("mine.Other")
    class Other(dfp.DFPattern):
        pass

    assert OnlyMine().astext() == "OnlyMine()" and Other.__name__ == "Other"
    with pytest.raises(HeddleError, match="S0201"):
        dfp.register_df_node("mine.Other")(OnlyMine)


def test_a_scope_gives_a_value_and_ends_with_a_call() -> None:
    ended: list[int] = []
    with relay.WithScope(5, lambda: ended.append(1)) as given:
        assert given == 5 and not ended
    assert ended == [1]
    with pytest.raises(ZeroDivisionError), relay.WithScope(5, lambda: ended.append(2)):
        1 / 0  # noqa: B018
    assert ended == [1]


def test_storages_have_numbers_devices_and_sizes() -> None:
    info = relay.StorageInfo([0, 3], [cpu(0), 2], [64, 0])
    assert info.storage_ids == (0, 3) and info.device_types == (1, 2) and info.storage_sizes == (64, 0)
    assert info.virtual_devices == (cpu(0), 2)
    x = relay.var("x", shape=(2,))
    assert relay.StaticMemoryPlan({x: info}).expr_to_storage_info[x] is info
    for sizes in ([1], [1, -1]):
        with pytest.raises(HeddleError, match="Q0101"):
            relay.StorageInfo([0, 1], [1, 1], sizes)


def test_globals_are_visited_by_name() -> None:
    var = relay.GlobalVar("f")
    assert relay.ExprMutator().visit_global_id(var) is var
