"""Recursion over lists as loops of kernels: what is taken, what is left, and that both give the same."""

from __future__ import annotations

import random
from collections.abc import Callable
from functools import partial
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import heddle
from heddle import relay
from heddle.driver.pipeline import legalize_passes, optimize_passes
from heddle.ir.module import IRModule
from heddle.ir.transform import Pass
from heddle.lower.recursion.loop_over_lists import LoopOverLists
from heddle.runtime.data import ConstructorValue
from heddle.support.diagnostics import Trap
from heddle.target import Target
from tests.unit.relay.corpus import same
from tests.unit.relay.programs import floats, plain, program, run

ROW = "Tensor[(1, 6), float32]"
STATE = "Tensor[(1, 4), float32]"
LIST = f"type Rows {{ End, Row({ROW}, Rows) }}\n"
W = "Tensor[(4, 6), float32]"
U = "Tensor[(4, 4), float32]"


def rows_of(
    mod: IRModule, items: list[tuple[Any, ...]], end: tuple[Any, ...] = (), name: str = "Rows"
) -> Any:
    """A list of elements by their fields."""
    nil, cons = (made.tag for made in mod.get_type(name)[1:3])
    made = ConstructorValue(nil, tuple(map(heddle.tensor, end)))
    for fields in reversed(items):
        made = ConstructorValue(cons, (*(heddle.tensor(np.asarray(part)) for part in fields), made))
    return made


def after(mod: IRModule, last: type[Pass]) -> IRModule:
    """The program in normal form, behind a pass."""
    target = Target("llvm")
    made = relay.to_relax(mod)
    for step in (*optimize_passes(target), *legalize_passes(target)):
        made = step(made)
        if isinstance(step, last):
            return made
    raise AssertionError("the pass is not in the pipeline")


def after_pass(mod: IRModule) -> IRModule:
    return after(mod, LoopOverLists)


def loops(mod: IRModule) -> list[str]:
    """The functions that are loops behind the pass."""
    return [var.name_hint for var in after_pass(mod).functions if var.name_hint.endswith("_loop")]


def machines(mod: IRModule) -> list[Callable[..., Any]]:
    """`main` on every machine."""
    made: list[Callable[..., Any]] = []
    for mode in ("compiled", "bytecode"):
        made.append(heddle.relax.VirtualMachine(heddle.compile(mod, exec_mode=mode), heddle.cpu())["main"])
    own = relay.vm.VirtualMachine(relay.vm.compile(mod, target="llvm"), heddle.cpu())
    return [*made, partial(own.invoke, "main")]


def on_all(mod: IRModule, *args: Any) -> list[Any]:
    """What every machine gives."""
    return [plain(main(*args)) for main in machines(mod)]


LOOPS = {
    "what a turn changes": f"""
def @main(%xs: Rows, %h: {STATE}, %w: {W}, %u: {U}) -> {STATE} {{
  match (%xs) {{
    End => %h,
    Row(%x, %rest) => @main(%rest, tanh(nn.dense(%x, %w, units=4) + nn.dense(%h, %u, units=4)), %w, %u)
  }}
}}""",
    "what the call gives": f"""
def @main(%xs: Rows, %h: {STATE}, %w: {W}, %u: {U}) -> {STATE} {{
  match (%xs) {{
    Row(%x, %rest) => {{
      let %after = @main(%rest, %h, %w, %u);
      tanh(nn.dense(%x, %w, units=4) * %after + nn.dense(%after, %u, units=4))
    }},
    End => %h
  }}
}}""",
    "tuples that a turn changes": f"""
def @walk(%xs: Rows, %s: ({STATE}, ({STATE}, int32)), %w: {W}, %u: {U}) -> ({STATE}, ({STATE}, int32)) {{
  match (%xs) {{
    End => %s,
    Row(%x, %rest) => {{
      let %m = nn.dense(%x, %w, units=4);
      let %inner = %s.1;
      @walk(%rest, (sigmoid(%m) * %inner.0, (nn.dense(%s.0, %u, units=4) + %m, %inner.1 + 1)), %w, %u)
    }}
  }}
}}
def @main(%xs: Rows, %h: {STATE}, %w: {W}, %u: {U}) {{ @walk(%xs, (%h, (%h, 0)), %w, %u) }}""",
    "tuples that the call gives": f"""
def @walk(%xs: Rows, %h: {STATE}, %w: {W}, %u: {U}) -> ({STATE}, {STATE}) {{
  match (%xs) {{
    End => (%h, tanh(%h)),
    Row(%x, %rest) => {{
      let %s = @walk(%rest, %h, %w, %u);
      (%s.1, nn.softmax(nn.dense(%x, %w, units=4)) * %s.0 - nn.dense(%s.1, %u, units=4))
    }}
  }}
}}
def @main(%xs: Rows, %h: {STATE}, %w: {W}, %u: {U}) {{ @walk(%xs, %h, %w, %u) }}""",
    "elements read as they are": f"""
def @walk(%xs: Rows, %h: {ROW}) -> {ROW} {{
  match (%xs) {{ End => %h, Row(%x, %rest) => @walk(%rest, %x - %h * 0.5f) }}
}}
def @main(%xs: Rows, %h: {STATE}, %w: {W}, %u: {U}) {{
  nn.dense(@walk(%xs, zeros(shape=[1, 6], dtype="float32")), %w, units=4) + %h
}}""",
    "weights in a tuple": f"""
def @walk(%xs: Rows, %h: {STATE}, %p: ({W}, ({U}, float32))) -> {STATE} {{
  match (%xs) {{
    End => %h,
    Row(%x, %rest) => {{
      let %q = %p.1;
      @walk(%rest, tanh(nn.dense(%x, %p.0, units=4) + nn.dense(%h, %q.0, units=4)) * %q.1, %p)
    }}
  }}
}}
def @main(%xs: Rows, %h: {STATE}, %w: {W}, %u: {U}) {{ @walk(%xs, %h, (%w, (%u, 0.5f))) }}""",
    "an end that computes": f"""
def @main(%xs: Rows, %h: {STATE}, %w: {W}, %u: {U}) -> {STATE} {{
  match (%xs) {{
    End => nn.softmax(nn.dense(%h, %u, units=4)),
    Row(%x, %rest) => {{
      let %m = nn.dense(%x, %w, units=4);
      @main(%rest, %h + %m * sigmoid(%m), %w, %u)
    }}
  }}
}}""",
}


@pytest.mark.parametrize("length", [0, 1, 7])
@pytest.mark.parametrize("name", LOOPS)
def test_is_a_loop(name: str, length: int) -> None:
    mod = program(LIST + LOOPS[name])
    args = [rows_of(mod, [(floats(1, 6),) for _ in range(length)]), floats(1, 4), floats(4, 6), floats(4, 4)]
    assert len(loops(mod)) == 1
    expected = run(mod, *args)
    for found in on_all(mod, *args):
        same(found, expected)


@pytest.mark.parametrize("name", [name for name in LOOPS if name != "elements read as they are"])
def test_products_of_all_elements_are_one(name: str) -> None:
    """The turns read the products with `%w`, which were made of all rows before; they do not see `%w`."""
    made = after_pass(program(LIST + LOOPS[name]))
    (loop,) = (func for var, func in made.functions.items() if var.name_hint.endswith("_loop"))
    sizes = [tuple(map(str, param.ty.dims)) for param in loop.params if hasattr(param.ty, "dims")]
    assert ("rows", "1", "4") in sizes and not {("4", "6"), ("6", "4"), ("rows", "1", "6")} & set(sizes)


ELEMENTS = {
    "scalars": ("float32, int64", lambda: (np.float32(np.random.rand()), np.int64(np.random.randint(9)))),
    "bfloat16": (
        "Tensor[(2, 3), bfloat16], int32",
        lambda: (floats(2, 3).astype(ml_dtypes.bfloat16), np.int32(2)),
    ),
    "float16": ("Tensor[(5), float16], int8", lambda: (floats(5).astype("float16"), np.int8(-3))),
    "truths": ("Tensor[(3), float64], bool", lambda: (floats(3).astype("float64"), np.bool_(True))),
    "nothing in them": ("Tensor[(0, 2), float32], uint8", lambda: (floats(0, 2), np.uint8(255))),
}


@pytest.mark.parametrize("kind", ELEMENTS)
@pytest.mark.parametrize("is_backward", [False, True])
def test_elements_of_every_kind(kind: str, is_backward: bool) -> None:
    types, make = ELEMENTS[kind]
    ty = types.rsplit(",", 1)[0]
    flag = 'cast(%n, dtype="float32")'
    new = f'(%s.0 * cast(%x, dtype="float32") + {flag}, %s.1 + sum(cast(%x, dtype="float32")))'
    state = (
        f"({ty}, float32)".replace("bfloat16", "float32")
        .replace("float16", "float32")
        .replace("float64", "float32")
    )
    step = (
        f"{{ let %s = @walk(%rest, %s0); {new} }}"
        if is_backward
        else f"{{ let %s = %s0; @walk(%rest, {new}) }}"
    )
    text = f"""
type Rows {{ End, Row({types}, Rows) }}
def @walk(%xs: Rows, %s0: {state}) -> {state} {{
  match (%xs) {{ End => %s0, Row(%x, %n, %rest) => {step} }}
}}
def @main(%xs: Rows, %s0: {state}) {{ @walk(%xs, %s0) }}"""
    mod = program(text)
    assert len(loops(mod)) == 1
    items = [make() for _ in range(5)]
    shape = np.shape(items[0][0])
    args = [rows_of(mod, items), (np.ones(shape, "float32"), np.float32(0.5))]
    expected = run(mod, *args)
    for found in on_all(mod, args[0], tuple(map(heddle.tensor, map(np.asarray, args[1])))):
        same(found, expected)


LEFT = {
    "only under a condition": f"""
def @main(%xs: Rows, %h: {STATE}, %w: {W}, %u: {U}) -> {STATE} {{
  match (%xs) {{
    End => %h,
    Row(%x, %rest) => if (sum(%x) > 0f) {{ @main(%rest, nn.dense(%x, %w, units=4), %w, %u) }} else {{ %h }}
  }}
}}""",
    "twice": f"""
def @main(%xs: Rows, %h: {STATE}, %w: {W}, %u: {U}) -> {STATE} {{
  match (%xs) {{
    End => %h,
    Row(%x, %rest) => @main(%rest, %h, %w, %u) + @main(%rest, %h * 0.5f, %w, %u) * sum(%x)
  }}
}}""",
    "with another value after the call": f"""
def @main(%xs: Rows, %h: {STATE}, %w: {W}, %u: {U}) -> {STATE} {{
  match (%xs) {{
    End => %h,
    Row(%x, %rest) => @main(%rest, %h + sum(%x), %w, %u) * 0.5f
  }}
}}""",
    "a list that it makes": f"""
def @map(%xs: Rows) -> Rows {{
  match (%xs) {{ End => End, Row(%x, %rest) => Row(tanh(%x), @map(%rest)) }}
}}
def @first(%xs: Rows) {{ match? (%xs) {{ Row(%x, _) => %x }} }}
def @main(%xs: Rows, %h: {STATE}, %w: {W}, %u: {U}) {{ @first(@map(%xs)) }}""",
    "the whole list in the state": f"""
def @walk(%xs: Rows, %ys: Rows, %h: {STATE}) -> {STATE} {{
  match (%xs) {{
    End => %h,
    Row(%x, %rest) => @walk(%rest, %xs, %h + sum(%x))
  }}
}}
def @main(%xs: Rows, %h: {STATE}, %w: {W}, %u: {U}) {{ @walk(%xs, %xs, %h) }}""",
    "two kinds of elements": f"""
type Kinds {{ Stop, Left({ROW}, Kinds), Right({ROW}, Kinds) }}
def @kinds(%xs: Rows, %n: int32) -> Kinds {{
  match (%xs) {{
    End => Stop,
    Row(%x, %rest) => if (%n > 0) {{ Left(%x, @kinds(%rest, 0)) }} else {{ Right(%x, @kinds(%rest, 1)) }}
  }}
}}
def @walk(%xs: Kinds, %h: {STATE}) -> {STATE} {{
  match (%xs) {{
    Stop => %h,
    Left(%x, %rest) => @walk(%rest, %h + sum(%x)),
    Right(%x, %rest) => @walk(%rest, %h * sum(%x))
  }}
}}
def @main(%xs: Rows, %h: {STATE}, %w: {W}, %u: {U}) {{ @walk(@kinds(%xs, 1), %h) }}""",
    "sizes that nobody states": f"""
type Some {{ Over, Next(Tensor[(?, 6), float32], Some) }}
def @some(%xs: Rows) -> Some {{
  match (%xs) {{ End => Over, Row(%x, %rest) => Next(concatenate((%x, %x), axis=0), @some(%rest)) }}
}}
def @walk(%xs: Some, %h: {STATE}) -> {STATE} {{
  match (%xs) {{ Over => %h, Next(%x, %rest) => @walk(%rest, %h + sum(%x)) }}
}}
def @main(%xs: Rows, %h: {STATE}, %w: {W}, %u: {U}) {{ @walk(@some(%xs), %h) }}""",
}


@pytest.mark.parametrize("name", LEFT)
def test_is_left(name: str) -> None:
    mod = program(LIST + LEFT[name])
    assert loops(mod) == []
    args = [rows_of(mod, [(floats(1, 6),) for _ in range(6)]), floats(1, 4), floats(4, 6), floats(4, 4)]
    expected = run(mod, *args)
    for found in on_all(mod, *args):
        same(found, expected)


def test_large_elements_are_not_copied() -> None:
    large = (LIST + LOOPS["elements read as they are"]).replace("6), float32", "60000), float32")
    mod = program(large.replace("shape=[1, 6]", "shape=[1, 60000]"))
    assert loops(mod) == []


def test_elements_of_other_sizes_are_refused() -> None:
    """A value from outside may hold anything; the next call works."""
    mod = program(LIST + LOOPS["what a turn changes"])
    others = [floats(1, 4), floats(4, 6), floats(4, 4)]
    good = rows_of(mod, [(floats(1, 6),)] * 3)
    expected = run(mod, good, *others)
    for mode in ("compiled", "bytecode"):
        vm = heddle.relax.VirtualMachine(heddle.compile(mod, exec_mode=mode), heddle.cpu())
        for item in (floats(1, 5), floats(6, 1), floats(1, 6).astype("int32"), floats(6)):
            with pytest.raises(Trap, match="expected"):
                vm["main"](rows_of(mod, [(floats(1, 6),), (item,)]), *others)
        with pytest.raises(Trap, match="no clause of the match fits"):
            vm["main"](ConstructorValue(77, ()), *others)
        same(plain(vm["main"](good, *others)), expected)


def test_a_long_list() -> None:
    """Backward, recursion would take a frame for each of 300,000 elements."""
    mod = program(LIST + LOOPS["what the call gives"])
    item = (np.full((1, 6), 0.01, "float32"),)
    nil, cons = (made.tag for made in mod.get_type("Rows")[1:3])
    xs, row = ConstructorValue(nil, ()), heddle.tensor(item[0])
    for _ in range(300_000):
        xs = ConstructorValue(cons, (row, xs))
    vm = heddle.relax.VirtualMachine(heddle.compile(mod), heddle.cpu())
    weights = [floats(1, 4), np.full((4, 6), 0.1, "float32"), np.full((4, 4), 0.1, "float32")]
    found = vm["main"](xs, *weights).numpy()
    assert np.isfinite(found).all() and found.shape == (1, 4)


def random_walk(rng: random.Random) -> str:
    """A program over rows of 6 with a state of rows of 4 and weights: a turn of a dozen operators."""
    is_backward, count = rng.random() < 0.5, rng.randint(1, 3)
    states = [f"%s{k}" for k in range(count)]
    narrow, wide, lines = list(states), ["%x"], []
    for place in range(rng.randint(3, 12)):
        a, b, x = rng.choice(narrow), rng.choice(narrow), rng.choice(wide)
        kind, text = rng.choice(
            [
                (4, f"nn.dense({x}, %w, units=4)"),
                (4, f"nn.dense({a}, %u, units=4)"),
                (4, f"tanh({a}) - {b}"),
                (4, f"sigmoid({a}) * {b}"),
                (4, f"nn.softmax({a})"),
                (4, f"strided_slice({x}, begin=[0, 1], end=[1, 5])"),
                (4, f"maximum({a}, sum({x}))"),
                (6, f"tanh({x}) * 0.5f"),
                (6, f"{x} + max({a})"),
                (6, f"concatenate(({a}, strided_slice({x}, begin=[0, 0], end=[1, 2])), axis=1)"),
            ]
        )
        lines.append(f"let %v{place} = {text};")
        (narrow if kind == 4 else wide).append(f"%v{place}")
    kind = f"({', '.join([STATE] * count)})" if count > 1 else STATE
    parts = [f"tanh({rng.choice(narrow)})" for _ in range(count)]
    new = f"({', '.join(parts)})" if count > 1 else parts[0]
    opened = [f"let {name} = %s.{k};" for k, name in enumerate(states)] if count > 1 else ["let %s0 = %s;"]
    walk = "@walk(%rest, {}, %w, %u)"
    turn = [f"let %s = {walk.format('%t')};", *opened, *lines, new] if is_backward else None
    turn = turn or ["let %s = %t;", *opened, *lines, walk.format(new)]
    first = f"({', '.join(['%h'] * count)})" if count > 1 else "%h"
    return f"""{LIST}
def @walk(%xs: Rows, %t: {kind}, %w: {W}, %u: {U}) -> {kind} {{
  match (%xs) {{ End => %t, Row(%x, %rest) => {{ {" ".join(turn)} }} }}
}}
def @main(%xs: Rows, %h: {STATE}, %w: {W}, %u: {U}) {{ @walk(%xs, {first}, %w, %u) }}"""


@pytest.mark.parametrize("seed", range(8))
def test_by_chance(seed: int) -> None:
    mod = program(random_walk(random.Random(seed)))
    for length in (0, 4):
        rows = rows_of(mod, [(floats(1, 6),) for _ in range(length)])
        args = [rows, floats(1, 4), floats(4, 6), floats(4, 4)]
        expected = run(mod, *args)
        for found in on_all(mod, *args):
            same(found, expected)


THREE = f"({STATE}, {STATE}, {STATE})"
LAYERS = f"""
def @walk(%xs: Rows, %a: {STATE}, %b: {STATE}, %c: {STATE}, %w: {W}, %u: {U}) -> {THREE} {{
  match (%xs) {{
    End => (%a, %b, %c),
    Row(%x, %rest) => {{
      let %p = tanh(nn.dense(%x, %w, units=4) + %a * 0.5f);
      let %q = tanh(nn.dense(%p, %u, units=4) - %b);
      let %r = sigmoid(nn.dense(%a, %u, units=4)) * %c + %q;
      @walk(%rest, %p, %q, %r, %w, %u)
    }}
  }}
}}
def @main(%xs: Rows, %h: {STATE}, %w: {W}, %u: {U}) {{ @walk(%xs, %h, %h * 2f, tanh(%h), %w, %u) }}"""


@pytest.mark.parametrize("length", [0, 1, 5])
def test_layers_are_loops_of_their_own(length: int) -> None:
    """A later layer's products take all that an earlier one gave: values after turns, and before them."""
    mod = program(LIST + LAYERS)
    made = after_pass(mod)
    found = [func for var, func in made.functions.items() if "_loop" in var.name_hint]
    assert len(found) == 3
    for func in found:
        sizes = [tuple(map(str, param.ty.dims)) for param in func.params if hasattr(param.ty, "dims")]
        assert not {("4", "4"), ("4", "6"), ("6", "4")} & set(sizes)
    args = [rows_of(mod, [(floats(1, 6),) for _ in range(length)]), floats(1, 4), floats(4, 6), floats(4, 4)]
    expected = run(mod, *args)
    for results in on_all(mod, *args):
        same(results, expected)


def test_layers_without_products_of_their_own_stay_one_loop() -> None:
    text = LAYERS.replace("nn.dense(%p, %u, units=4)", "%p").replace("nn.dense(%a, %u, units=4)", "%a")
    assert len(loops(program(LIST + text))) == 1


def test_wide_products_stay_in_their_turns() -> None:
    """Of 80,000 numbers for each element nobody wants all at once; recursion keeps one of them."""
    text = (
        (LIST + LOOPS["what a turn changes"]).replace("(1, 4)", "(1, 80000)").replace("(4, 4)", "(80000, 4)")
    )
    text = text.replace("(4, 6)", "(80000, 6)").replace("nn.dense(%h, %u, units=4)", "%h * max(%u)")
    made = after_pass(program(text.replace("units=4", "units=80000")))
    (loop,) = (func for var, func in made.functions.items() if "_loop" in var.name_hint)
    sizes = [tuple(map(str, param.ty.dims)) for param in loop.params if hasattr(param.ty, "dims")]
    assert ("rows", "1", "6") in sizes and ("rows", "1", "80000") not in sizes


def one_turn(element: str, state: str, turn: str, more: str = "") -> IRModule:
    """A walk over elements of a type, whose turn changes `%h`."""
    rest = "".join(f", %{name.split(':')[0]}" for name in filter(None, more.split(";")))
    given = "".join(f", %{name}" for name in filter(None, more.split(";")))
    return program(f"""
type Rows {{ End, Row({element}, Rows) }}
def @main(%xs: Rows, %h: {state}{given}) -> {state} {{
  match (%xs) {{ End => %h, Row(%x, %rest) => @main(%rest, {turn}{rest}) }}
}}""")


APART = {
    "windows": (
        "Tensor[(1, 8, 6, 6), float32]",
        "Tensor[(1, 4, 6, 6), float32]",
        "%h + nn.conv2d(%x, %w, padding=[1, 1, 1, 1])",
        "w: Tensor[(4, 8, 3, 3), float32]",
    ),
    "no weights": (
        "Tensor[(1, 9), float32]",
        "Tensor[(9, 9), float32]",
        "%h + nn.dense(transpose(%x), transpose(%x))",
        "",
    ),
    "many rows": (
        "Tensor[(20, 6), float32]",
        "Tensor[(20, 4), float32]",
        "%h + nn.dense(%x, %w)",
        "w: Tensor[(4, 6), float32]",
    ),
}


@pytest.mark.parametrize("name", APART)
def test_products_that_gain_nothing_stay_in_their_turns(name: str) -> None:
    """Of all elements at once they were up to 14 times slower, or took memory for every element."""
    element, state, turn, more = APART[name]
    mod = one_turn(element, state, turn, more)
    sizes = {
        tuple(map(str, binding.var.ty.dims))
        for func in after_pass(mod).functions.values()
        if hasattr(func.body, "bindings")
        for binding in func.body.bindings()
        if getattr(binding.var.ty, "dims", None)
    }
    wide = relay.transform.InferType()(mod)["main"].params[1].ty.dims
    assert ("rows", *map(str, wide)) not in sizes
    shape = [int(part) for part in element[8 : element.index(")")].split(",")]
    weights = (
        [floats(*(int(n) for n in more[more.index("(") + 1 : more.index(")")].split(",")))] if more else []
    )
    args = [rows_of(mod, [(floats(*shape),) for _ in range(3)]), floats(*map(int, map(str, wide))), *weights]
    expected = run(mod, *args)
    for found in on_all(mod, *args):
        same(found, expected)


def test_what_gains_nothing_is_not_copied() -> None:
    assert loops(one_turn("Tensor[(2000), float32]", "Tensor[(2000), float32]", "%h + %x")) == []
    assert len(loops(one_turn("Tensor[(200), float32]", "Tensor[(200), float32]", "%h + %x"))) == 1
