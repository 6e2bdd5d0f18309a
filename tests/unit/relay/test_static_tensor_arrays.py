"""Tensor arrays whose tensors have one shape, against numpy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from heddle import relay
from heddle.ir.structural import assert_structural_equal
from heddle.relay.prelude import Prelude, StaticTensorArrayOps, TensorArrayOps, get_tensor_array_shape
from heddle.support.diagnostics import HeddleError
from tests.unit.relay.programs import HEAD, plain

ANY = relay.Any()
RNG = np.random.default_rng(5)


def made(text: str, shapes: list[tuple[Any, ...]], *args: Any, dtype: str = "float32") -> Any:
    """The value of a program over arrays of these shapes, in both engines. In the text, `NAME$0` is the name
    for the first of the shapes."""
    p = Prelude()
    for place, shape in enumerate(shapes):
        ops = StaticTensorArrayOps(p, dtype, shape)
        ops.register()
        text = text.replace(f"${place}", "_" + ops.get_name("x").removeprefix("x_"))
    mod = relay.parse(HEAD + text, init_module=p.mod)
    assert_structural_equal(relay.parse(mod.astext()), mod)
    found = [plain(relay.create_executor(kind, mod).evaluate()(*args)) for kind in ("debug", "vm")]
    np.testing.assert_array_equal(found[0], found[1])
    assert found[0].dtype == found[1].dtype == np.dtype(dtype)
    return found[0]


def dims(shape: tuple[int, ...], dtype: str = "float32") -> str:
    return f"Tensor[({', '.join(map(str, shape))}), {dtype}]"


@pytest.mark.parametrize("shape", [(3, 2), (1,), (2, 1, 2), (2, 0)])
@pytest.mark.parametrize("dtype", ["float32", "int8"])
def test_unstacked_written_and_stacked(shape: tuple[int, ...], dtype: str) -> None:
    """The rows of a tensor with the last one in the place of the first."""
    x = RNG.integers(-9, 9, shape).astype(dtype)
    text = (
        f"def @main(%x: {dims(shape, dtype)}) {{ let %a = @tensor_array_unstack$0(%x); "
        f"let %b = @tensor_array_write$1(%a, 0, @tensor_array_read$1(%a, {shape[0] - 1})); "
        "@tensor_get_data$2(@tensor_array_stack$1(%b)) }"
    )
    found = made(text, [shape, shape[1:], (ANY, *shape[1:])], x, dtype=dtype)
    np.testing.assert_array_equal(found, np.concatenate([x[-1:], x[1:]]))


@pytest.mark.parametrize("shape", [(3, 2), (4,)])
def test_joined_and_taken(shape: tuple[int, ...]) -> None:
    x = RNG.standard_normal(shape).astype("float32")
    text = (
        f"def @main(%x: {dims(shape)}) {{ let %t = tensor_constructor$0(%x); "
        "let %a = @tensor_array_concat$0(Cons(%t, Cons(%t, Cons(%t, Nil)))); "
        "let %b = @tensor_take$1(%a, 1, 5); "
        "@tensor_get_data$1(@tensor_concatenate$1(%b, @tensor_concatenate$0(%t, %t))) }"
    )
    found = made(text, [shape, (ANY, *shape[1:])], x)
    np.testing.assert_array_equal(found, np.concatenate([np.concatenate([x] * 3)[1:5], x, x]))


@pytest.mark.parametrize("places", [(2, 0), (1,), (0, 0, 2)])
def test_gathered_and_scattered(places: tuple[int, ...]) -> None:
    x = RNG.standard_normal((3, 2)).astype("float32")
    text = (
        "def @main(%x: Tensor[(3, 2), float32], %at: Tensor[(?), int32]) { "
        "let %a = @tensor_array_unstack$0(%x); "
        "let %b = @tensor_array_scatter$1(%a, %at, @rev(%a)); "
        "@tensor_get_data$2(@tensor_array_gather$1(%b, %at)) }"
    )
    at = np.array(places, "int32")
    rows = x.copy()
    for place, row in zip(places, x[::-1], strict=False):
        rows[place] = row
    np.testing.assert_array_equal(made(text, [(3, 2), (2,), (ANY, 2)], x, at), rows[at])


def test_split() -> None:
    """Parts of other lengths, of which one is empty, put together backwards."""
    x, lengths = RNG.standard_normal((6, 2)).astype("float32"), np.array([1, 0, 3, 2], "int32")
    text = (
        "def @main(%x: Tensor[(?, 2), float32], %n: Tensor[(?), int32]) { "
        "let %a = @tensor_array_split$0(@tensor_array$0(4), tensor_constructor$0(%x), %n); "
        "@tensor_get_data$0(@tensor_array_concat$0(@rev(%a))) }"
    )
    parts = np.split(x, np.cumsum(lengths)[:-1])
    np.testing.assert_array_equal(made(text, [(ANY, 2)], x, lengths), np.concatenate(parts[::-1]))


def test_definitions_for_other_shapes() -> None:
    """Scatter and split of known shapes come on request, and stay until others are forced."""
    p = Prelude()
    ops = StaticTensorArrayOps(p, "float32", (ANY, 2))
    assert not ops.is_cached("tensor_array_split")
    ops.define_tensor_array_split((6, 2), (4,))
    assert ops.is_cached("tensor_array_split")
    known = p.mod[ops.get_global_var("tensor_array_split")]
    assert known.params[1].ty.func == p.get_type_static("tensor_t", "float32", (6, 2))
    assert [int(dim) for dim in known.params[2].ty.dims] == [4]
    ops.register()
    assert p.mod[ops.get_global_var("tensor_array_split")] is known
    ops.define_tensor_array_split(force_update=True)
    assert p.mod[ops.get_global_var("tensor_array_split")].params[1].ty.func == ops.get_type("tensor_t")
    ops.define_tensor_array_scatter((3,), force_update=True)
    scatter = p.mod[ops.get_global_var("tensor_array_scatter")]
    assert [int(dim) for dim in scatter.params[1].ty.dims] == [3]
    with pytest.raises(HeddleError, match=r"Q0106.*come of no split"):
        StaticTensorArrayOps(p, "float32", (3, 2)).define_tensor_array_split()


def test_names() -> None:
    p = Prelude()
    ops = StaticTensorArrayOps(p, "int8", (ANY, 3), batch_dim=1)
    ops.register()
    assert ops.get_name("tensor_array") == "tensor_array_int8_batch1_any_3"
    assert ops.get_name("tensor_array", [(2, ANY)]) == "tensor_array_int8_batch1_any_3_2_any"
    assert p.get_name_static("tensor_t", "int8", ()) == "static_tensor_int8_scalar_t"
    read = p.get_global_var_static("tensor_array_read", "int8", (ANY, 3), 1)
    assert read == ops.get_global_var("tensor_array_read")
    StaticTensorArrayOps(p, "int8", (3,)).register()
    nil = p.get_tensor_ctor_static("tensor_nil", "int8", (3,))
    assert nil.name_hint == "tensor_nil_int8_3" and nil.belong_to.name_hint == "static_tensor_int8_3_t"
    assert p.get_ctor_static("tensor_t", "tensor_constructor", "int8", (3,)).inputs[0].dtype == "int8"
    assert ops.get_ctor("tensor_constructor").name_hint == "tensor_constructor_int8_batch1_any_3"
    with pytest.raises(HeddleError, match="Q0106"):
        p.get_tensor_ctor_static("tensor3", "int8", (3,))
    with pytest.raises(HeddleError, match="Q0106"):
        StaticTensorArrayOps(p, "bool", ())


def test_shapes_of_arrays() -> None:
    p = Prelude()
    static, free = StaticTensorArrayOps(p, "float32", (ANY, 2)), TensorArrayOps(p, "float32")
    static.register()
    free.register()
    count = relay.const(3)
    shape = get_tensor_array_shape(relay.Call(static.get_global_var("tensor_array"), [count]), "float32", p)
    assert shape is not None and isinstance(shape[0], relay.Any) and int(shape[1]) == 2
    call = relay.Call(free.get_global_var("tensor_array"), [count])
    assert get_tensor_array_shape(call, "float32", p) is None
    for expr, dtype in ((call, "int8"), (count, "float32")):
        with pytest.raises(HeddleError, match="expected a tensor array"):
            get_tensor_array_shape(expr, dtype, p)


@pytest.mark.parametrize("kind", ["debug", "vm"])
def test_arrays_of_any_shapes_are_gathered(kind: str) -> None:
    p = Prelude()
    TensorArrayOps(p, "float32").define_tensor_array_gather()
    text = (
        "def @main(%x: Tensor[(?, ?), float32], %at: Tensor[(?), int32]) { "
        "@tensor_array_gather_float32(@tensor_array_unstack_tensor2_float32(%x), %at) }"
    )
    mod = relay.parse(HEAD + text, init_module=p.mod)
    x, at = RNG.standard_normal((3, 2)).astype("float32"), np.array([2, 2, 0], "int32")
    found = relay.create_executor(kind, mod).evaluate()(x, at)
    np.testing.assert_array_equal(plain(found.fields[0]), x[at])
