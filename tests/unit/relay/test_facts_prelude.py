"""The prelude, by the numbered facts that users' programs rely on, against Python's lists and numpy."""

from __future__ import annotations

from itertools import accumulate, pairwise
from typing import Any

import numpy as np
import pytest

import heddle as tvm
from heddle import relay
from heddle.ir.structural import assert_structural_equal
from heddle.relay.prelude import Prelude, TensorArrayOps
from heddle.relay.standard import FOLDER, standard_module
from tests.unit.relay.programs import HEAD, listed, plain, program

NUMBERS = [int(number) for number in np.random.default_rng().integers(-9, 9, 7)]


def _list(items: list[Any]) -> str:
    return "".join(f"Cons({item}, " for item in items) + "Nil" + ")" * len(items)


def _run(text: str, *args: Any, std: str = "prelude.rly", kind: str = "debug") -> Any:
    mod = tvm.IRModule()
    mod.import_from_std("prelude.rly")
    mod.import_from_std(std)
    typed = relay.parse(f"{HEAD}def @main() {{ {text} }}", init_module=mod)
    found = relay.create_executor(kind, typed).evaluate()(*args)
    return found.numpy().item() if hasattr(found, "numpy") else found


def test_4_1_types_and_names() -> None:
    p = Prelude()
    assert p.map == p.mod.get_global_var("map")
    gtv, cons, nil = p.mod.get_type("List")
    assert (gtv.name_hint, cons.name_hint, nil.name_hint) == ("List", "Cons", "Nil")
    names = [item.name_hint for item in (*p.mod.get_type("Option")[1:], *p.mod.get_type("Tree")[1:])]
    assert names == ["Some", "None", "Rose"]
    assert cons.tag & 0xFFFFFF == 0 and nil.tag & 0xFFFFFF == 1
    with pytest.raises(AttributeError):
        p.nothing  # noqa: B018


LIST = _list(NUMBERS)
KINDS = ("debug", "vm")
ROWS: list[tuple[str, Any]] = [
    (f"@hd({LIST})", NUMBERS[0]),
    (f"@tl({LIST})", NUMBERS[1:]),
    (f"@nth({LIST}, 3)", NUMBERS[3]),
    (f"@update({LIST}, 2, 100)", [*NUMBERS[:2], 100, *NUMBERS[3:]]),
    (f"@length({LIST})", 7),
    ("@length(@tl(Cons(1, Nil)))", 0),
    (f"@sum({LIST})", sum(NUMBERS)),
    (f"@map(fn (%x) {{ %x * 2 }}, {LIST})", [2 * x for x in NUMBERS]),
    (f"@filter(fn (%x) {{ %x > 0 }}, {LIST})", [x for x in NUMBERS if x > 0]),
    (
        f"@foldl(fn (%a, %x) {{ %a * 2 - %x }}, 1, {LIST})",
        list(accumulate(NUMBERS, lambda a, x: a * 2 - x, initial=1))[-1],
    ),
    (
        f"@foldr(fn (%x, %a) {{ %a * 2 - %x }}, 1, {LIST})",
        list(accumulate(NUMBERS[::-1], lambda a, x: a * 2 - x, initial=1))[-1],
    ),
    (f"@foldr1(fn (%x, %a) {{ %x - %a }}, {LIST})", list(accumulate(NUMBERS[::-1], lambda a, x: x - a))[-1]),
    (f"@concat({LIST}, {LIST})", NUMBERS * 2),
    (f"@rev({LIST})", NUMBERS[::-1]),
    (
        f"@map(fn (%p) {{ %p.0 + %p.1 }}, @zip({LIST}, @tl({LIST})))",
        [a + b for a, b in pairwise(NUMBERS)],
    ),
    (f"@map_accuml(fn (%a, %x) {{ (%a + %x, %a) }}, 0, {LIST}).1", list(accumulate(NUMBERS[:-1], initial=0))),
    (
        f"@map_accumr(fn (%a, %x) {{ (%a + %x, %a) }}, 0, {LIST}).1",
        list(accumulate(NUMBERS[:0:-1], initial=0))[::-1],
    ),
    (f"@map_accumr(fn (%a, %x) {{ (%a + %x, %a) }}, 0, {LIST}).0", sum(NUMBERS)),
    ("@unfoldr(fn (%s) { if (%s < 4) { Some((%s + 1, %s)) } else { None } }, 0)", [0, 1, 2, 3]),
    ("@unfoldl(fn (%s) { if (%s < 4) { Some((%s + 1, %s)) } else { None } }, 0)", [3, 2, 1, 0]),
    ("@id(3)", 3),
    ("@compose(fn (%x) { %x + 1 }, fn (%x) { %x * 2 })(5)", 11),
    ("@flip(fn (%x, %y) { %x - %y })(1, 10)", 9),
    ("@iterate(fn (%x) { %x * 3 }, 4)(1)", 81),
    ("@iterate(fn (%x) { %x * 3 }, 0)(7)", 7),
    ("@size(Rose(1, Cons(Rose(2, Nil), Cons(Rose(3, Nil), Nil))))", 3),
    (
        "match (@tmap(fn (%x) { %x + 1 }, Rose(1, Cons(Rose(2, Nil), Nil)))) "
        "{ Rose(%a, Cons(Rose(%b, _), _)) => %a * 10 + %b, _ => 0 }",
        23,
    ),
]


@pytest.mark.parametrize(
    ("text", "wanted"), ROWS, ids=[row[0].partition("(")[0] + str(k) for k, row in enumerate(ROWS)]
)
@pytest.mark.parametrize("kind", KINDS)
def test_4_2_functions(text: str, wanted: Any, kind: str) -> None:
    found = _run(text, kind=kind)
    assert (listed(found) if isinstance(wanted, list) else found) == wanted


@pytest.mark.parametrize(
    "text",
    [
        "@hd(@tl(Cons(1, Nil)))",
        "@nth(Cons(1, Nil), 1)",
        "@foldr1(fn (%x, %y) { %x + %y }, @tl(Cons(1, Nil)))",
    ],
)
@pytest.mark.parametrize(("kind", "code"), [("debug", "Q0401"), ("vm", "V0411")])
def test_4_2_partial_functions_fail_when_they_run(text: str, kind: str, code: str) -> None:
    with pytest.raises(RuntimeError, match=code):
        _run(text, kind=kind)


@pytest.mark.parametrize("kind", KINDS)
def test_4_3_other_texts(kind: str) -> None:
    assert sorted(path.name for path in FOLDER.glob("*.rly")) == [
        "core.rly",
        "gradient.rly",
        "nat.rly",
        "prelude.rly",
    ]
    five = "@nat_add(@nat_double(succ(succ(zero))), succ(zero))"
    count = f"match ({five}) {{ succ(succ(succ(succ(succ(zero))))) => 1, _ => 0 }}"
    assert _run(count, std="nat.rly", kind=kind) == 1
    assert _run(f"@nat_nth({LIST}, succ(succ(zero)))", std="nat.rly", kind=kind) == NUMBERS[2]
    assert listed(_run(f"@nat_update({LIST}, succ(zero), 50)", std="nat.rly", kind=kind)) == [
        NUMBERS[0],
        50,
        *NUMBERS[2:],
    ]
    assert _run("@nat_iterate(fn (%x) { %x * 2 }, succ(succ(zero)))(3)", std="nat.rly", kind=kind) == 12
    product = "@MultiplyGradCell(fn (%a, %b) { %a * %b }, One(fn () { 1 }), Raw(5))"
    cell = f"@FromGradCell(@AddGradCell(fn (%a, %b) {{ %a + %b }}, Raw(2), {product}))"
    assert _run(cell, std="gradient.rly", kind=kind) == 7
    assert (
        _run(
            "@FromGradCell(@MultiplyGradCell(fn (%a, %b) { %a * %b }, Zero(fn () { 0 }), Raw(5)))",
            std="gradient.rly",
            kind=kind,
        )
        == 0
    )
    mod = tvm.IRModule()
    mod.import_from_std("core.rly")
    mod.import_from_std("core.rly")
    assert mod.get_type("Storage")[1:] == ()
    with pytest.raises(AttributeError, match="S0202"):
        mod.import_from_std("absent.rly")


def test_4_3_importing_keeps_what_is_there() -> None:
    mod = program("def @map(%x: int8) { %x }")
    mine = mod["map"]
    mod.import_from_std("prelude.rly")
    assert mod["map"] is mine and "foldl" in mod


@pytest.mark.parametrize("name", ["prelude.rly", "nat.rly", "gradient.rly", "core.rly"])
def test_standard_texts_print_and_parse_back(name: str) -> None:
    mod = standard_module(name)
    assert_structural_equal(relay.parse(mod.astext(annotate=lambda _: "")), mod)


# ---- tensor arrays


def _arrays(dtype: str, text: str, *args: Any, kind: str) -> Any:
    p = Prelude()
    assert p.get_type("tensor_t", dtype).name_hint == f"tensor_{dtype}_t"
    mod = relay.parse(HEAD + text.replace("D", dtype), init_module=p.mod)
    return plain(relay.create_executor(kind, mod).evaluate()(*args))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("dtype", ["float32", "int8", "float16", "int64"])
def test_4_4_unstack_stack_write_read(dtype: str, kind: str) -> None:
    x = np.random.default_rng().integers(0, 9, (4, 3)).astype(dtype)
    text = (
        "def @main(%x: Tensor[(4, 3), D], %y: Tensor[(3), D]) { "
        "let %ta = @tensor_array_unstack_tensor2_D(%x); "
        "let %new = @tensor_array_write_D(%ta, 1, tensor1_D(%y)); "
        "match? ((@tensor_array_stack_D(%new), @tensor_array_read_D(%new, 2), @tensor_array_concat_D(%ta))) "
        "{ (tensor2_D(%a), tensor1_D(%b), tensor1_D(%c)) => (%a, %b, %c) } }"
    )
    y = np.arange(3).astype(dtype)
    whole, row, flat = _arrays(dtype, text, x, y, kind=kind)
    np.testing.assert_array_equal(whole, np.stack([x[0], y, *x[2:]]))
    np.testing.assert_array_equal(row, x[2])
    np.testing.assert_array_equal(flat, x.ravel())
    assert whole.dtype == dtype


@pytest.mark.parametrize("kind", KINDS)
def test_4_4_split_and_scatter(kind: str) -> None:
    x = np.random.default_rng().standard_normal((6, 2)).astype("float32")
    text = (
        "def @main(%x: Tensor[(6, 2), D], %n: Tensor[(3), int32], %at: Tensor[(3), int32]) { "
        "let %ta = @tensor_array_split_D(@tensor_array_D(3), tensor2_D(%x), %n); "
        "let %moved = @tensor_array_scatter_D(@tensor_array_D(3), %at, %ta); "
        "match? ((@tensor_array_read_D(%ta, 1), @tensor_array_concat_D(%moved))) "
        "{ (tensor2_D(%a), tensor2_D(%b)) => (%a, %b) } }"
    )
    lengths, places = np.array([1, 3, 2], "int32"), np.array([2, 0, 1], "int32")
    part, whole = _arrays("float32", text, x, lengths, places, kind=kind)
    np.testing.assert_array_equal(part, x[1:4])
    np.testing.assert_array_equal(whole, np.concatenate([x[1:4], x[4:6], x[0:1]]))


def test_4_4_names() -> None:
    p = Prelude()
    assert p.get_name("tensor_array", "int8") == "tensor_array_int8"
    assert p.get_global_var("tensor_array_read", "int8").name_hint == "tensor_array_read_int8"
    assert p.get_tensor_ctor("tensor_nil", "int8").name_hint == "tensor_nil_int8"
    assert p.get_ctor("tensor_int8_t", "tensor3", "int8").name_hint == "tensor3_int8"
    ops = TensorArrayOps(p, "uint8")
    ops.register()
    assert ops.get_global_var("tensor_array_stack").name_hint == "tensor_array_stack_uint8"
    with pytest.raises(ValueError, match="Q0106"):
        p.get_type("tensor_t", "bool")
    with pytest.raises(AttributeError, match="Q0106"):
        p.get_tensor_ctor("tensor9", "int8")
