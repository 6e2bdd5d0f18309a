"""Structural equality, hash, JSON and rewriting of nodes."""

import pytest

from heddle.graph.types import TensorType
from heddle.ir.expr import Function, GlobalVar, Tuple, Var
from heddle.ir.json_codec import load_json, save_json
from heddle.ir.module import IRModule
from heddle.ir.node import Map, map_children, replace
from heddle.ir.structural import (
    assert_structural_equal,
    first_mismatch,
    structural_bytes,
    structural_equal,
    structural_hash,
)
from heddle.ir.types import AnyType, FuncType, PrimType, TypeVar
from heddle.ir.variables import free_type_vars
from heddle.prim.nodes import Add, FloatImm, IntImm, Let, SizeVar
from heddle.prim.nodes import Var as PrimVar
from heddle.prim.substitute import substitute
from heddle.runtime.dtype import DataType
from heddle.support.diagnostics import FormatError, MissingNameError, UsageError, VerifyError


def pair_function(first: Var, second: Var, swap: bool = False) -> Function:
    body = Tuple((second, first) if swap else (first, second))
    return Function((first, second), body)


def test_names_do_not_count_and_order_does():
    a, b, c, d = (Var(name) for name in "abcd")
    assert structural_equal(pair_function(a, b), pair_function(c, d))
    assert structural_hash(pair_function(a, b)) == structural_hash(pair_function(c, d))
    found = first_mismatch(pair_function(a, b), pair_function(c, d, swap=True))
    assert str(found.path) == "<root>.body.fields[0]"


def test_free_variables_are_themselves_unless_mapped():
    a, b = Var("a"), Var("b")
    assert not structural_equal(Tuple((a, a)), Tuple((b, b)))
    assert structural_equal(Tuple((a, a)), Tuple((b, b)), map_free_vars=True)
    assert not structural_equal(Tuple((a, b)), Tuple((b, b)), map_free_vars=True)


def test_symbolic_dimensions_of_parameters_are_definitions():
    def identity(name: str) -> Function:
        n = SizeVar(name)
        x = Var("x", TensorType((n, n), "float32"))
        return Function((x,), x)

    def two_dims() -> Function:
        x = Var("x", TensorType((SizeVar("n"), SizeVar("m")), "float32"))
        return Function((x,), x)

    assert structural_equal(identity("n"), identity("k"))
    assert not structural_equal(identity("n"), two_dims())


def test_two_functions_of_a_module_may_share_variables():
    x = Var("x")
    mod = IRModule({"f": Function((x,), x), "g": Function((x,), x)})
    again = load_json(save_json(mod))
    copies = IRModule({"f": again["f"], "g": load_json(save_json(mod))["g"]})
    assert_structural_equal(mod, copies)
    assert structural_hash(mod) == structural_hash(copies)


@pytest.mark.parametrize("value", [0.0, -0.0, float("nan"), float("inf")])
def test_floats_compare_by_bits(value):
    zero = FloatImm(DataType("float32"), 0.0)
    other = FloatImm(DataType("float32"), value)
    assert structural_equal(other, FloatImm(DataType("float32"), value))
    assert structural_equal(zero, other) is (repr(value) == "0.0")


def test_assertion_shows_the_path():
    with pytest.raises(VerifyError, match=r"<root>\.ret") as caught:
        assert_structural_equal(
            FuncType((), PrimType(DataType("int32"))), FuncType((), PrimType(DataType("int64")))
        )
    assert caught.value.code == "I0101"


def test_json_keeps_sharing_and_values():
    x = PrimVar("x", DataType("int64"))
    expr = Let(x, IntImm(DataType("int64"), 7), Add(x, x))
    again = load_json(save_json(expr))
    assert structural_equal(expr, again)
    assert again.body.a is again.var


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        "[]",
        '{"heddle_json": 1}',
        '{"heddle_json":1,"root":{"node":3},"nodes":[]}',
        '{"heddle_json":1,"root":null,"nodes":[{"kind":"no.such","fields":{},"span":null}]}',
    ],
)
def test_damaged_json_is_a_format_error(text):
    with pytest.raises(FormatError) as caught:
        load_json(text)
    assert caught.value.code == "I0201"


def test_rewriting_nothing_gives_the_same_object():
    x, y = PrimVar("x", DataType("int64")), PrimVar("y", DataType("int64"))
    expr = x * 4 + 3
    assert map_children(expr, lambda child: child) is expr
    assert substitute(expr, {y: x}) is expr
    assert structural_equal(substitute(expr, {x: y}), y * 4 + 3)
    assert replace(expr, b=expr.b).a is expr.a


def test_module_names():
    x = Var("x")
    mod = IRModule({"main": Function((x,), x)})
    assert GlobalVar("main") in mod
    with pytest.raises(MissingNameError, match="did you mean 'main'"):
        mod["mian"]
    with pytest.raises(UsageError, match="twice"):
        IRModule(Map({GlobalVar("f"): mod["main"], "f": mod["main"]}))


def test_structural_bytes_are_equal_where_structures_are():
    def func(names: str, factor: int) -> Function:
        n = SizeVar(names[0])
        x = Var(names[1], TensorType((n, n * factor), "float32"))
        return Function((x,), Tuple((x, x)))

    assert structural_bytes(func("nx", 2)) == structural_bytes(func("my", 2)) is not None
    assert structural_bytes(func("nx", 2)) != structural_bytes(func("nx", 3))


def test_structural_bytes_need_every_variable_defined():
    free = SizeVar("n")
    assert structural_bytes(Add(free, free)) is None
    assert structural_bytes(IntImm("int64", 3)) is not None


def test_structural_bytes_keep_apart_what_only_runs_together():
    pairs = [(("ab", "c"), ("a", "bc")), ((("a",), "b"), (("a", "b"),)), ((1, 23), (12, 3)), ((True,), (1,))]
    for left, right in pairs:
        assert structural_bytes(left) != structural_bytes(right)
        assert not structural_equal(left, right)


def test_modules_are_equal_whatever_the_order_of_their_functions():
    one, two = Function((), IntImm("int32", 1)), Function((), IntImm("int32", 2))
    mod, other = IRModule({"a": one, "b": two}), IRModule({"b": two, "a": one})
    assert structural_equal(mod, other) and structural_hash(mod) == structural_hash(other)
    found = first_mismatch(mod, IRModule({"a": one, "c": two}))
    assert str(found.path) == "<root>.functions[b]" and found.reason == "key 'b' only on the left"
    assert not structural_equal(mod, IRModule({"a": two, "b": one}))


def test_the_path_of_a_deep_difference():
    a, b = (Tuple((IntImm("int32", number),)) for number in (1, 2))
    for _ in range(5000):
        a, b = Tuple((a,)), Tuple((b,))
    found = first_mismatch(a, b)
    assert str(found.path).endswith(".fields[0].value")
    assert found.reason == "values differ" and structural_hash(a) != structural_hash(b)
    assert structural_equal(load_json(save_json(a)), a)


def test_sizes_that_a_type_of_functions_is_the_first_to_name_are_its_own():
    def made(name: str) -> FuncType:
        n = PrimVar(name, "int64")
        return FuncType((TensorType((n,), "float32"),), TensorType((n, n), "float32"))

    assert structural_equal(made("n"), made("m"))
    assert structural_hash(made("n")) == structural_hash(made("m"))
    n, m = PrimVar("n", "int64"), PrimVar("m", "int64")
    other = FuncType((TensorType((n,), "float32"),), TensorType((n, m), "float32"))
    assert not structural_equal(other, made("n"))


def test_variables_for_types_are_not_defined_by_parameters() -> None:
    """A function of an A is none of a B, unless the type itself is generic in them."""
    a, b = TypeVar("A"), TypeVar("B")
    plain = [FuncType((each,), each) for each in (a, b)]
    generic = [FuncType((each,), each, True, (each,)) for each in (a, b)]
    assert not structural_equal(*plain) and structural_equal(*generic)
    assert structural_hash(generic[0]) == structural_hash(generic[1])
    assert structural_hash(plain[0]) != structural_hash(plain[1])
    assert free_type_vars(plain[0]) == (a,) and free_type_vars(generic[0]) == ()
    inside = [FuncType((each,), AnyType()) for each in generic]
    assert structural_equal(*inside)
