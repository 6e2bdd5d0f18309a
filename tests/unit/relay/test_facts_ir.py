"""Nodes and builders of Relay, by the numbered facts that users' programs rely on."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import heddle as tvm
from heddle import relay
from heddle.ir.structural import structural_equal
from heddle.relay import loops
from heddle.relay.analysis import (
    all_vars,
    bound_type_vars,
    bound_vars,
    free_type_vars,
    free_vars,
    well_formed,
)
from heddle.runtime import tensor
from heddle.support.diagnostics import IRTypeError
from tests.unit.relay.programs import value

F32 = relay.scalar_type("float32")


def test_1_1_variables() -> None:
    with pytest.raises(ValueError, match="annotation and a shape"):
        relay.var("x", F32, shape=(1,))
    assert structural_equal(relay.var("x", shape=(2, 3)).type_annotation, relay.TensorType((2, 3), "float32"))
    assert structural_equal(relay.var("x", "int8").type_annotation, relay.scalar_type("int8"))
    assert relay.var("x").type_annotation is None
    assert relay.var("x") != relay.var("x")


@pytest.mark.parametrize(
    ("given", "dtype"),
    [
        (1, "int32"),
        (1.5, "float32"),
        (True, "bool"),
        ([1, 2], "int32"),
        (np.array([1.0]), "float32"),
        (np.array([1], "int64"), "int32"),
        (2**40, "int64"),
        ([1, -(2**31) - 1], "int64"),
        (np.array([1, 2**40]), "int64"),
        (np.array([-1], "int8"), "int8"),
        (np.float16(1), "float16"),
        (np.array([True]), "bool"),
        (tensor(np.array([1], "int64")), "int64"),
    ],
)
def test_1_2_constants(given: Any, dtype: str) -> None:
    made = relay.const(given)
    assert str(made.data.dtype) == dtype
    assert str(relay.const(given, "float64").data.dtype) == "float64"
    np.testing.assert_array_equal(made.data.numpy(), given.numpy() if hasattr(given, "numpy") else given)


@pytest.mark.parametrize(("given", "dtype"), [(300, "uint8"), ([1, -1], "uint8"), (2**40, "int32")])
def test_numbers_that_a_dtype_cannot_represent_are_no_constants(given: Any, dtype: str) -> None:
    with pytest.raises(IRTypeError, match="K0106") as caught:
        relay.const(given, dtype)
    assert dtype in str(caught.value)
    wrapped = relay.const(np.array(given), dtype)  # an array is cast as numpy does
    np.testing.assert_array_equal(wrapped.data.numpy(), np.array(given).astype(dtype))


@pytest.mark.parametrize("given", ["text", None, {}, [[1], [2, 3]], object(), [2**70]])
def test_1_2_other_values_are_no_constants(given: Any) -> None:
    with pytest.raises(ValueError, match="Q0101"):
        relay.const(given)


def test_1_3_nodes() -> None:
    x, c = relay.var("x"), relay.const(True)
    assert relay.Tuple([x, c]).fields == (x, c)
    assert relay.GlobalVar("f").name_hint == "f"
    call = relay.Call(x, [c], None, None)
    assert (call.op, call.args, call.type_args) == (x, (c,), ())
    let = relay.Let(x, c, x)
    assert (let.var, let.value, let.body) == (x, c, x)
    choice = relay.If(c, x, x)
    assert (choice.cond, choice.true_branch, choice.false_branch) == (c, x, x)
    assert relay.TupleGetItem(x, 1).index == 1
    assert relay.RefWrite(relay.RefCreate(x), relay.RefRead(x)).value.ref is x
    func = relay.Function([x], x, F32, [], {"Primitive": 1})
    assert (func.params, func.body, func.ret_type, func.attrs.Primitive) == ((x,), x, F32, 1)
    assert isinstance(func, relay.Function) and not isinstance(x, relay.Function)


def test_1_4_patterns() -> None:
    gtv = relay.GlobalTypeVar("T")
    nil = relay.Constructor("N", [], gtv)
    x = relay.var("x")
    clause = relay.Clause(relay.PatternConstructor(nil), x)
    match = relay.Match(x, [clause])
    assert match.complete and match.clauses == (clause,)
    assert relay.PatternConstructor(nil).patterns == relay.PatternTuple().patterns == ()
    assert relay.PatternVar(x).var is x and relay.PatternWildcard() is not None


def test_1_5_operators() -> None:
    x, y = relay.var("x", shape=(2,)), relay.var("y", shape=(2,))
    made = [x + y, x - y, x * y, x / y, -x, x < y, x <= y, x > y, x >= y, x.astype("int8")]
    names = [
        "add",
        "subtract",
        "multiply",
        "divide",
        "negative",
        "less",
        "less_equal",
        "greater",
        "greater_equal",
        "cast",
    ]
    assert [call.op.name for call in made] == names
    assert made[-1].attrs.dtype == "int8"
    for wrong in (lambda: x + 1, lambda: 1 + x, lambda: x < 2.0, lambda: 2 * x):
        with pytest.raises(TypeError, match="const"):
            wrong()
    assert x(y).op is x and (x == x) is True and (x == y) is False
    both = relay.Tuple([x, y])
    assert both[1] is y and len(both) == 2
    with pytest.raises(IndexError):
        both[2]
    with pytest.raises(TypeError):
        both.astype("int8")


def test_1_6_tuple_wrapper() -> None:
    pair = relay.TupleWrapper(relay.var("x"), 2)
    first, second = pair
    assert isinstance(first, relay.TupleGetItem) and second.index == 1 and len(pair) == 2
    assert pair.astuple() is first.tuple_value
    with pytest.raises(IndexError):
        pair[2]


def test_1_7_types() -> None:
    dim = relay.Any()
    assert relay.TensorType((dim, 2)).dtype == "float32"
    assert structural_equal(relay.TensorType((relay.Any(),)), relay.TensorType((relay.Any(),)))
    a = relay.TypeVar("a")
    assert a.kind == relay.TypeKind.Type == 0 and relay.TypeVar("b", 1).kind == relay.TypeKind.ShapeVar
    assert relay.GlobalTypeVar("T").kind == relay.TypeKind.AdtHandle == 5
    func = relay.FuncType([a], a, [a])
    assert (func.arg_types, func.ret_type, func.type_params) == ((a,), a, (a,))
    made = relay.GlobalTypeVar("T")(a)
    assert isinstance(made, relay.TypeCall) and made.args == (a,)
    relation = relay.TypeRelation("Broadcast", [a, a], 1, None)
    assert relay.RefType(a).value is a and relation.num_inputs == 1
    assert relay.IncompleteType().kind == 0
    assert structural_equal(func, relay.FuncType([b := relay.TypeVar("b")], b, [b]))


def test_1_8_data_types() -> None:
    mod, gtv, a = tvm.IRModule(), relay.GlobalTypeVar("Box"), relay.TypeVar("a")
    full, empty = relay.Constructor("Full", [a], gtv), relay.Constructor("Empty", [], gtv)
    mod[gtv] = relay.TypeData(gtv, [a], [full, empty])
    assert full.tag >> 24 == empty.tag >> 24 and (full.tag & 0xFFFFFF, empty.tag & 0xFFFFFF) == (0, 1)
    assert mod.get_constructor(empty.tag) is empty
    assert mod.get_type("Box") == (gtv, full, empty) and mod[gtv].type_vars == (a,)
    with pytest.raises(AttributeError, match="I0306"):
        mod.get_constructor(7)


def test_1_9_modules_from_expressions() -> None:
    x, y = relay.var("x", F32), relay.var("y", F32)
    func = relay.Function([x], x)
    assert tvm.IRModule.from_expr(func)["main"] is func
    assert "other" in tvm.IRModule.from_expr(func.with_attr("global_symbol", "other"))
    assert len(tvm.IRModule.from_expr(func, {"main": func})) == 2
    wrapped = tvm.IRModule.from_expr(y + x)["main"]
    assert wrapped.params == (y, x)


def test_1_10_modules() -> None:
    x = relay.var("x", F32)
    mod = tvm.IRModule()
    mod["f"] = relay.Function([x], x)
    assert "f" in mod and mod["f"].params == (x,)
    var = mod.get_global_var("f")
    mod["f"] = relay.Function([x], x + x)
    assert mod.get_global_var("f") is var
    mod.update(tvm.IRModule({"g": relay.Function([], relay.const(1))}))
    mod["T"] = relay.TypeData(relay.GlobalTypeVar("T"), [], [])
    assert mod.get_global_type_var("T").name_hint == "T"
    del mod["g"]
    assert "g" not in mod
    with pytest.raises(AttributeError, match="I0301"):
        mod.get_global_var("absent")
    mod["wrong"] = relay.Function([x], x(x))  # nothing is checked here


def test_1_11_attributes() -> None:
    func = relay.Function([], relay.const(1))
    made = func.with_attr("Primitive", 1)
    assert made is not func and "Primitive" not in func.attrs and made.attrs["Primitive"] == 1


def test_1_12_scope_builder() -> None:
    x, c = relay.var("x", F32), relay.var("c", "bool")
    sb = relay.ScopeBuilder()
    a = sb.let("a", x + x)
    b = sb.let(("b", F32), a)
    assert sb.let(relay.var("d"), b).name_hint == "d"
    with sb.if_scope(c):
        sb.ret(a)
    with sb.else_scope():
        sb.ret(sb.let("e", b))
    made = sb.get()
    assert isinstance(made, relay.Let) and isinstance(made.body.body.body, relay.If)
    assert structural_equal(b.type_annotation, F32)


def _returns_twice(sb: relay.ScopeBuilder) -> None:
    sb.ret(relay.const(1))
    sb.ret(relay.const(1))


def _gets_nothing(sb: relay.ScopeBuilder) -> None:
    sb.get()


def _else_alone(sb: relay.ScopeBuilder) -> None:
    with sb.else_scope():
        sb.ret(relay.const(1))


def _gets_inside(sb: relay.ScopeBuilder) -> None:
    with sb.if_scope(relay.const(True)):
        sb.ret(relay.const(1))
        sb.get()


@pytest.mark.parametrize("misuse", [_returns_twice, _gets_nothing, _else_alone, _gets_inside])
def test_1_12_misuse(misuse: Any) -> None:
    with pytest.raises(RuntimeError, match="Q0103"):
        misuse(relay.ScopeBuilder())


@pytest.mark.parametrize("count", [0, 1, 7])
def test_1_13_loops(count: int) -> None:
    i, s = relay.var("i", "int32"), relay.var("s", "int32")
    loop = loops.while_loop(
        lambda i, s: relay.less(i, relay.const(count)), [i, s], lambda i, s: [i + relay.const(1), s + i]
    )
    assert value(loop(relay.const(0), relay.const(0))) == (count, sum(range(count)))


def test_1_14_bind_and_variables() -> None:
    x, y, z = (relay.var(name, F32) for name in "xyz")
    func = relay.Function([x, y], x + y)
    bound = relay.bind(func, {y: z})
    assert bound.params == (x, z)
    assert relay.bind(func, {y: relay.const(1.0)}).params == (x,)
    assert free_vars(y + relay.Let(z, x, z)) == (y, x)
    expr = relay.Let(z, x, z + y)
    assert bound_vars(expr) == (z,) and all_vars(expr) == (z, x, y)
    a, b = relay.TypeVar("a"), relay.TypeVar("b")
    generic = relay.Function([relay.var("p", a)], relay.var("q", b), b, [a])
    assert free_type_vars(generic) == (b,) and bound_type_vars(generic) == (a,)
    u, v = relay.var("u", F32), relay.var("v", F32)
    assert structural_equal(func, relay.Function([u, v], u + v))
    assert not structural_equal(x, u) and structural_equal(x, u, map_free_vars=True)


def test_1_15_well_formed() -> None:
    x, y = relay.var("x", F32), relay.var("y", F32)
    let = relay.Let(x, y, x)
    assert well_formed(let) and well_formed(relay.Tuple([let, let]))
    assert not well_formed(relay.Let(x, y, relay.Let(x, y, x)))
    assert not well_formed(relay.Tuple([let, x]))
    assert not well_formed(relay.Function([x, x], x))
    assert not well_formed(relay.Let(x, x, x)) and well_formed(relay.Let(x, relay.Function([], x), x))
