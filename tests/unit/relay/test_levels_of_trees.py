"""Recursion over trees as loops over levels: what is taken, what is left, and that both give the same."""

from __future__ import annotations

import random
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import heddle
from heddle import relay, te
from heddle.ir.module import IRModule
from heddle.lower.recursion.levels_of_trees import LevelsOfTrees
from heddle.lower.recursion.node_order import node_order
from heddle.lower.recursion.tree_recursion import FEWEST_SHARED_BYTES
from heddle.runtime.data import ConstructorValue
from heddle.support.diagnostics import Trap
from tests.unit.relay.corpus import same
from tests.unit.relay.programs import floats, plain, program, run
from tests.unit.relay.test_loop_over_lists import after, machines

ROW = "Tensor[(1, 6), float32]"
STATE = "Tensor[(1, 4), float32]"
W = "Tensor[(4, 6), float32]"
U = "Tensor[(4, 8), float32]"
TREE = f"type Tree {{ Leaf({ROW}), Node(Tree, Tree) }}\n"
PARAMS = f"%w: {W}, %u: {U}"


LIMITS = dict(FEWEST_SHARED_BYTES)


@pytest.fixture(autouse=True)
def _small_weights(monkeypatch: pytest.MonkeyPatch) -> None:
    """Small products count as those of large weights."""
    for mode in LIMITS:
        monkeypatch.setitem(FEWEST_SHARED_BYTES, mode, 1)


def levels(mod: IRModule) -> list[str]:
    """The functions that are loops over levels behind the pass."""
    return [var.name_hint for var in after(mod, LevelsOfTrees).functions if var.name_hint.endswith("_levels")]


def small(*shape: int) -> Any:
    """Weights by which errors of rounding do not grow from level to level."""
    return floats(*shape) * np.float32(0.3)


Shape = Any
"""A tree by its kinds of nodes: the number of a constructor and its children."""


def random_shape(rng: random.Random, size: int, arities: list[int]) -> Shape:
    """A tree of about so many nodes, whose constructor k has `arities[k]` children."""
    inner = [kind for kind, arity in enumerate(arities) if arity]
    if size <= 1 or not inner:
        return (rng.choice([kind for kind, arity in enumerate(arities) if not arity]),)
    kind = rng.choice(inner)
    cuts = sorted(rng.randint(0, size - 1) for _ in range(arities[kind] - 1))
    sizes = [b - a for a, b in zip([0, *cuts], [*cuts, size - 1], strict=True)]
    return (kind, *(random_shape(rng, part, arities) for part in sizes))


def chain(length: int, left: bool) -> Shape:
    """A tree of two kinds as deep as it can be."""
    made: Shape = (0,)
    for _ in range(length):
        made = (1, made, (0,)) if left else (1, (0,), made)
    return made


def value_of(shape: Shape, tags: list[int], tensors: list[Any]) -> ConstructorValue:
    """A value of a data type. `tensors[kind]` makes the tensors of a node, which come before its children."""
    kind, *children = shape
    own = [heddle.tensor(np.asarray(part)) for part in tensors[kind]()]
    return ConstructorValue(tags[kind], (*own, *(value_of(child, tags, tensors) for child in children)))


def tags_of(mod: IRModule, name: str = "Tree") -> list[int]:
    return [made.tag for made in mod.get_type(name)[1:]]


def two_kinds(mod: IRModule, shape: Shape) -> ConstructorValue:
    return value_of(shape, tags_of(mod), [lambda: (floats(1, 6),), lambda: ()])


SHAPES = {
    "one leaf": (0,),
    "one node": (1, (0,), (0,)),
    "left": chain(6, True),
    "right": chain(6, False),
    "some": (1, (1, (0,), (1, (0,), (0,))), (1, (1, (0,), (0,)), (0,))),
    "even": (1, (1, (0,), (0,)), (1, (0,), (0,))),
}

TREES = {
    "one tensor": f"""
def @main(%t: Tree, {PARAMS}) -> {STATE} {{
  match (%t) {{
    Leaf(%x) => tanh(nn.dense(%x, %w, units=4)),
    Node(%l, %r) => {{
      let %h = concatenate((@main(%l, %w, %u), @main(%r, %w, %u)), axis=1);
      tanh(nn.dense(%h, %u, units=4))
    }}
  }}
}}""",
    "two tensors": f"""
def @cell(%t: Tree, {PARAMS}) -> ({STATE}, {STATE}) {{
  match (%t) {{
    Node(%l, %r) => {{
      let %b = @cell(%r, %w, %u);
      let %a = @cell(%l, %w, %u);
      let %g = nn.dense(concatenate((%a.0, %b.0), axis=1), %u, units=4);
      (sigmoid(%g) * tanh(%a.1), %g + %b.1)
    }},
    Leaf(%x) => {{ let %g = nn.dense(%x, %w, units=4); (tanh(%g), %g) }}
  }}
}}
def @main(%t: Tree, {PARAMS}) {{ @cell(%t, %w, %u) }}""",
    "tuples in tuples": f"""
def @cell(%t: Tree, {PARAMS}) -> (int32, ({STATE}, (float32, {STATE}))) {{
  match (%t) {{
    Leaf(%x) => {{ let %g = nn.dense(%x, %w, units=4); (1, (%g, (sum(%x), tanh(%g)))) }},
    Node(%l, %r) => {{
      let %a = @cell(%l, %w, %u);
      let %b = @cell(%r, %w, %u);
      let %p = %a.1;
      let %q = %b.1;
      let %i = %p.1;
      let %j = %q.1;
      let %h = nn.dense(concatenate((%p.0, %j.1), axis=1), %u, units=4);
      (%a.0 + %b.0, (%h, (%i.0 * 0.5f, nn.softmax(%q.0))))
    }}
  }}
}}
def @main(%t: Tree, {PARAMS}) {{ @cell(%t, %w, %u) }}""",
    "results passed on": f"""
def @cell(%t: Tree, {PARAMS}) -> ({STATE}, {STATE}) {{
  match (%t) {{
    Leaf(%x) => {{ let %g = nn.dense(%x, %w, units=4); (%g, %g) }},
    Node(%l, %r) => {{
      let %a = @cell(%l, %w, %u);
      let %b = @cell(%r, %w, %u);
      (%a.1, nn.dense(concatenate((%a.0, %b.0), axis=1), %u, units=4))
    }}
  }}
}}
def @main(%t: Tree, {PARAMS}) {{ @cell(%t, %w, %u) }}""",
    "weights in a tuple": f"""
def @cell(%p: ({W}, ({U}, float32)), %t: Tree) -> {STATE} {{
  match (%t) {{
    Leaf(%x) => nn.dense(%x, %p.0, units=4),
    Node(%l, %r) => {{
      let %q = %p.1;
      let %a = @cell(%p, %l);
      let %b = @cell(%p, %r);
      tanh(nn.dense(concatenate((%a, %b), axis=1), %q.0, units=4)) * %q.1
    }}
  }}
}}
def @main(%t: Tree, {PARAMS}) {{ @cell((%w, (%u, 0.5f)), %t) }}""",
    "results that all nodes share": f"""
def @cell(%t: Tree, {PARAMS}, %z: ({STATE}, float32)) -> ({STATE}, ({STATE}, float32)) {{
  match (%t) {{
    Leaf(%x) => (nn.dense(%x, %w, units=4), %z),
    Node(%l, %r) => {{
      let %a = @cell(%l, %w, %u, %z);
      let %b = @cell(%r, %w, %u, %z);
      let %p = %b.1;
      (nn.dense(concatenate((%a.0, %p.0), axis=1), %u, units=4), %z)
    }}
  }}
}}
def @main(%t: Tree, {PARAMS}) {{ @cell(%t, %w, %u, (ones(shape=[1, 4], dtype="float32"), 2f)) }}""",
    "no product of children": f"""
def @main(%t: Tree, {PARAMS}) -> {STATE} {{
  match (%t) {{
    Leaf(%x) => nn.dense(%x, %w, units=4) + max(%u),
    Node(%l, %r) => maximum(@main(%l, %w, %u), tanh(@main(%r, %w, %u)))
  }}
}}""",
}


@pytest.mark.parametrize("name", TREES)
def test_is_a_loop_over_levels(name: str) -> None:
    mod = program(TREE + TREES[name])
    assert len(levels(mod)) == 1
    weights, mains = (small(4, 6), small(4, 8)), machines(mod)
    for shape in SHAPES.values():
        tree = two_kinds(mod, shape)
        expected = run(mod, tree, *weights)
        for main in mains:
            same(plain(main(tree, *weights)), expected)


KINDS = f"""
type Tree {{
  Empty, Word(Tensor[(1), int64]), Row({ROW}),
  Minus(Tree), Pair({ROW}, Tree, Tree), Three({STATE}, float32, Tree, Tree, Tree)
}}
def @main(%t: Tree, {PARAMS}, %e: Tensor[(9, 4), float32]) -> {STATE} {{
  match (%t) {{
    Empty => take(%e, 0, axis=0, mode="clip") + zeros(shape=[1, 4], dtype="float32"),
    Word(%k) => take(%e, %k, axis=0, mode="clip"),
    Row(%x) => nn.dense(%x, %w, units=4),
    Minus(%l) => negative(@main(%l, %w, %u, %e)),
    Pair(%x, %l, %r) => {{
      let %m = nn.dense(%x, %w, units=4);
      let %h = concatenate((@main(%l, %w, %u, %e), @main(%r, %w, %u, %e)), axis=1);
      tanh(nn.dense(%h, %u, units=4) * sigmoid(%m) + %m)
    }},
    Three(%s, %f, %a, %b, %c) => {{
      let %h = @main(%a, %w, %u, %e) * %f + @main(%b, %w, %u, %e);
      nn.dense(concatenate((%s, %h - @main(%c, %w, %u, %e)), axis=1), %u, units=4)
    }}
  }}
}}"""
ARITIES = [0, 0, 0, 1, 2, 3]


def of_many_kinds(mod: IRModule, shape: Shape) -> ConstructorValue:
    row, state = lambda: (floats(1, 6),), lambda: (floats(1, 4), np.float32(np.random.rand()))
    word = lambda: (np.random.randint(0, 9, (1,)),)  # noqa: E731
    return value_of(shape, tags_of(mod), [tuple, word, row, tuple, row, state])


@pytest.mark.parametrize("seed", range(6))
def test_nodes_of_many_kinds(seed: int) -> None:
    mod, rng = program(KINDS), random.Random(seed)
    assert len(levels(mod)) == 1
    weights, mains = (small(4, 6), small(4, 8), floats(9, 4)), machines(mod)
    for size in (1, 4, 30):
        tree = of_many_kinds(mod, random_shape(rng, size, ARITIES))
        expected = run(mod, tree, *weights)
        for main in mains:
            same(plain(main(tree, *weights)), expected)


ELEMENTS = {
    "bfloat16": ("Tensor[(1, 6), bfloat16]", lambda: floats(1, 6).astype(ml_dtypes.bfloat16)),
    "float16": ("Tensor[(1, 6), float16]", lambda: floats(1, 6).astype("float16")),
    "truths": ("Tensor[(1, 6), bool]", lambda: floats(1, 6) > 0),
    "bytes": ("Tensor[(1, 6), int8]", lambda: np.random.randint(-9, 9, (1, 6)).astype("int8")),
}


@pytest.mark.parametrize("kind", ELEMENTS)
def test_elements_of_every_kind(kind: str) -> None:
    ty, make = ELEMENTS[kind]
    mod = program(f"""
type Tree {{ Leaf({ty}), Node(Tree, Tree) }}
def @cell(%t: Tree, {PARAMS}) -> ({STATE}, {ty}) {{
  match (%t) {{
    Leaf(%x) => (nn.dense(cast(%x, dtype="float32"), %w, units=4), %x),
    Node(%l, %r) => {{
      let %a = @cell(%l, %w, %u);
      let %b = @cell(%r, %w, %u);
      (nn.dense(concatenate((%a.0, %b.0), axis=1), %u, units=4), reverse(%a.1, axis=1))
    }}
  }}
}}
def @main(%t: Tree, {PARAMS}) {{ @cell(%t, %w, %u) }}""")
    assert len(levels(mod)) == 1
    tree = value_of(SHAPES["some"], tags_of(mod), [lambda: (make(),), tuple])
    weights = small(4, 6), small(4, 8)
    expected = run(mod, tree, *weights)
    for main in machines(mod):
        same(plain(main(tree, *weights)), expected)


NODE = "concatenate((@main(%l, %w, %u), @main(%r, %w, %u)), axis=1)"
LEFT = {
    "a call under a condition": "if (max(%w) > 0f) { @main(%l, %w, %u) } else { @main(%r, %w, %u) }",
    "a parameter that changes": f"nn.dense({NODE.replace('%r, %w', '%r, %w * 0.5f')}, %u, units=4)",
    "a product of children": """{
      let %a = @main(%l, %w, %u);
      let %b = @main(%r, %w, %u);
      nn.dense(nn.dense(%a, %b, units=1), transpose(%b), units=4)
    }""",
    "one child": """{
      let %a = @main(%l, %w, %u);
      nn.dense(concatenate((%a, zeros(shape=[1, 4], dtype="float32")), axis=1), %u, units=4)
    }""",
    "the node again": """match (%l) {
      Leaf(%y) => nn.dense(concatenate((@main(%r, %w, %u), nn.dense(%y, %w, units=4)), axis=1), %u, units=4),
      Node(_, _) => @main(%l, %w, %u) + @main(%r, %w, %u)
    }""",
}


@pytest.mark.parametrize("name", LEFT)
def test_is_left(name: str) -> None:
    mod = program(f"""{TREE}
def @main(%t: Tree, {PARAMS}) -> {STATE} {{
  match (%t) {{ Leaf(%x) => nn.dense(%x, %w, units=4), Node(%l, %r) => {LEFT[name]} }}
}}""")
    assert levels(mod) == []
    tree, weights = two_kinds(mod, SHAPES["some"]), (small(4, 6), small(4, 8))
    expected = run(mod, tree, *weights)
    for main in machines(mod):
        same(plain(main(tree, *weights)), expected)


OTHER_TYPES = {
    "sizes that nobody states": TREE.replace("(1, 6)", "(?, 6)"),
    "large elements": TREE.replace("(1, 6)", "(9000, 6)"),
    "elements that are data": "type Tree { Leaf(Tree, Tree), Node(Tree, Tree) }\n",
}


@pytest.mark.parametrize("name", OTHER_TYPES)
def test_types_that_are_left(name: str) -> None:
    leaf = "Leaf(%x)" if "data" not in name else "Leaf(%x, _)"
    value = "sum(%x) + max(%w)" if "data" not in name else "max(%w)"
    mod = program(f"""{OTHER_TYPES[name]}
def @main(%t: Tree, {PARAMS}) -> float32 {{
  match (%t) {{
    {leaf} => {value},
    Node(%l, %r) => {{
      let %h = ones(shape=[1, 8], dtype="float32") * @main(%l, %w, %u);
      sum(nn.dense(%h, %u, units=4)) + @main(%r, %w, %u)
    }}
  }}
}}""")
    assert (levels(mod) == []) == ("data" not in name)


def test_small_weights_are_left(monkeypatch: pytest.MonkeyPatch) -> None:
    """To order the nodes takes longer than to read few weights again."""
    for mode, limit in LIMITS.items():
        monkeypatch.setitem(FEWEST_SHARED_BYTES, mode, limit)
    text = TREE + TREES["one tensor"]
    wide = text.replace("(4, 8)", "(256, 512)").replace("(4, 6)", "(256, 6)").replace("(1, 4)", "(1, 256)")
    assert levels(program(text)) == []
    wide = wide.replace("units=4", "units=256")
    assert len(levels(program(wide))) == 1
    executable = heddle.compile(program(wide), exec_mode="bytecode")
    assert not any(row.name.endswith("_levels") for row in executable.program.functions)


def test_a_level_has_one_product() -> None:
    """The leaves' product is made before the loop; in the loop there is that of the children alone."""
    made = after(program(TREE + TREES["two tensors"]), LevelsOfTrees)
    (loop,) = (func for var, func in made.functions.items() if var.name_hint.endswith("_levels"))
    sizes = [tuple(map(str, param.ty.dims)) for param in loop.params if hasattr(param.ty, "dims")]
    assert ("8", "4") in sizes and not {("4", "6"), ("6", "4")} & set(sizes)


def test_values_that_do_not_fit_are_refused() -> None:
    """A value from outside may hold anything; the next call works."""
    mod = program(TREE + TREES["two tensors"])
    leaf, node = tags_of(mod)
    weights = small(4, 6), small(4, 8)
    good = two_kinds(mod, SHAPES["some"])
    expected = run(mod, good, *weights)
    whole = ConstructorValue(leaf, (heddle.tensor(floats(1, 6)),))
    for mode in ("compiled", "bytecode"):
        vm = heddle.relax.VirtualMachine(heddle.compile(mod, exec_mode=mode), heddle.cpu())
        for item in (floats(1, 5), floats(6, 1), floats(1, 6).astype("int32"), floats(6)):
            bad = ConstructorValue(leaf, (heddle.tensor(item),))
            with pytest.raises(Trap, match="expected"):
                vm["main"](ConstructorValue(node, (whole, bad)), *weights)
        with pytest.raises(Trap, match="no clause of the match fits"):
            vm["main"](ConstructorValue(node, (whole, ConstructorValue(77, ()))), *weights)
        with pytest.raises(Trap, match="out of range"):
            vm["main"](ConstructorValue(node, (whole,)), *weights)
        same(plain(vm["main"](good, *weights)), expected)


@pytest.mark.parametrize("left", [False, True])
def test_a_deep_tree(left: bool) -> None:
    mod = program(TREE + TREES["one tensor"])
    leaf, node = tags_of(mod)
    end = ConstructorValue(leaf, (heddle.tensor(np.full((1, 6), 0.01, "float32")),))
    tree = end
    for _ in range(20_000):
        tree = ConstructorValue(node, (tree, end) if left else (end, tree))
    vm = heddle.relax.VirtualMachine(heddle.compile(mod), heddle.cpu())
    weights = np.full((4, 6), 0.1, "float32"), np.full((4, 8), 0.1, "float32")
    found = vm["main"](tree, *weights).numpy()
    assert np.isfinite(found).all() and found.shape == (1, 4)


def test_weights_of_free_sizes() -> None:
    """A parameter may have sizes that are known only at run time."""
    mod = program(f"""{TREE}
def @cell(%t: Tree, {PARAMS}, %b: Tensor[(?, 4), float32]) -> {STATE} {{
  match (%t) {{
    Leaf(%x) => nn.dense(%x, %w, units=4),
    Node(%l, %r) => {{
      let %h = concatenate((@cell(%l, %w, %u, %b), @cell(%r, %w, %u, %b)), axis=1);
      nn.dense(%h, %u, units=4) + sum(%b, axis=0, keepdims=True)
    }}
  }}
}}
def @main(%t: Tree, {PARAMS}, %b: Tensor[(?, 4), float32]) {{ @cell(%t, %w, %u, %b) }}""")
    tree, weights = two_kinds(mod, SHAPES["some"]), (small(4, 6), small(4, 8))
    mains = machines(mod)
    for size in (0, 1, 5):
        bias = floats(size, 4)
        expected = run(mod, tree, *weights, bias)
        for main in mains:
            same(plain(main(tree, *weights, bias)), expected)


def random_cell(rng: random.Random) -> str:
    """A program over trees with a state of rows of 4: nodes that compute a dozen operators."""
    count = rng.randint(1, 3)

    def lines(narrow: list[str], wide: list[str], number: int) -> tuple[list[str], list[str]]:
        made: list[str] = []
        for place in range(number):
            a, b, x = rng.choice(narrow), rng.choice(narrow), rng.choice(wide)
            kind, text = rng.choice(
                [
                    (4, f"nn.dense({x}, %w, units=4)"),
                    (4, f"nn.dense(concatenate(({a}, {b}), axis=1), %u, units=4)"),
                    (4, f"tanh({a}) - {b}"),
                    (4, f"nn.softmax({a})"),
                    (4, f"strided_slice({x}, begin=[0, 1], end=[1, 5])"),
                    (4, f"maximum({a}, sum({x}))"),
                    (6, f"{x} + max({a})"),
                    (6, f"concatenate(({a}, strided_slice({x}, begin=[0, 0], end=[1, 2])), axis=1)"),
                ]
            )
            made.append(f"let %v{place} = {text};")
            (narrow if kind == 4 else wide).append(f"%v{place}")
        parts = [
            f"tanh({rng.choice(narrow)})" if rng.random() < 0.7 else rng.choice(narrow) for _ in range(count)
        ]
        return made, parts

    def result(parts: list[str]) -> str:
        return f"({', '.join(parts)})" if count > 1 else parts[0]

    first = "let %p = nn.dense(%x, %w, units=4);"
    leaf, of_leaf = lines(["%p"], ["%x"], rng.randint(0, 6))
    names = [f"%{side}.{k}" if count > 1 else f"%{side}" for side in "ab" for k in range(count)]
    opened = [f"let %s{k} = {name};" for k, name in enumerate(names)]
    opened.append(f"let %c = nn.dense(concatenate((%s0, %s{len(names) - 1}), axis=1), %u, units=4);")
    node, of_node = lines([*(f"%s{k}" for k in range(len(names))), "%p", "%c"], ["%x"], rng.randint(1, 9))
    kind = f"({', '.join([STATE] * count)})" if count > 1 else STATE
    return f"""
type Tree {{ Leaf({ROW}), Node({ROW}, Tree, Tree) }}
def @cell(%t: Tree, {PARAMS}) -> {kind} {{
  match (%t) {{
    Leaf(%x) => {{ {first} {" ".join(leaf)} {result(of_leaf)} }},
    Node(%x, %l, %r) => {{
      let %a = @cell(%l, %w, %u);
      let %b = @cell(%r, %w, %u);
      {first} {" ".join((*opened, *node))} {result([f"{part} + %c" for part in of_node])}
    }}
  }}
}}
def @main(%t: Tree, {PARAMS}) {{ @cell(%t, %w, %u) }}"""


@pytest.mark.parametrize("seed", range(8))
def test_by_chance(seed: int) -> None:
    rng = random.Random(seed)
    mod = program(random_cell(rng))
    assert len(levels(mod)) == 1
    mains = machines(mod)
    for size in (1, 9):
        row = lambda: (floats(1, 6),)  # noqa: E731
        tree = value_of(random_shape(rng, size, [0, 2]), tags_of(mod), [row, row])
        weights = small(4, 6), small(4, 8)
        expected = run(mod, tree, *weights)
        for main in mains:
            same(plain(main(tree, *weights)), expected)


def ordered(shape: Shape, arities: list[int]) -> tuple[list[int], list[list[tuple[int, int, list[int]]]]]:
    """The kinds of a tree's nodes, children first, and for each kind (level, node, children)."""
    kinds: list[int] = []
    found: list[list[tuple[int, int, list[int]]]] = [[] for _ in arities]

    def walk(node: Shape) -> tuple[int, int]:
        parts = [walk(child) for child in node[1:]]
        level = max((part[0] for part in parts), default=-1) + 1
        found[node[0]].append((level, len(kinds), [part[1] for part in parts]))
        kinds.append(node[0])
        return level, len(kinds) - 1

    walk(shape)
    return kinds, found


@pytest.mark.parametrize("seed", range(10))
def test_node_order(seed: int) -> None:
    rng = random.Random(seed)
    arities = [0, *(rng.randint(0, 3) for _ in range(rng.randint(1, 4)))]
    kinds, found = ordered(random_shape(rng, rng.randint(1, 40), arities), arities)
    given = te.placeholder((len(kinds),), "int64", "kinds")
    func = te.create_prim_func([given, *node_order(given, arities)])
    depth, starts = np.full((), -1, "int64"), np.full((len(arities), len(kinds) + 2), -1, "int64")
    tables = [np.full((2 + arity, len(kinds)), -1, "int64") for arity in arities]
    heddle.build(func)["main"](np.array(kinds, "int64"), depth, starts, *tables)
    assert depth == max(level for nodes in found for level, _, _ in nodes)
    for kind, nodes in enumerate(found):
        assert [sum(level < k for level, _, _ in nodes) for k in range(len(kinds) + 2)] == starts[
            kind
        ].tolist()
        numbers = {node: k for k, (_, node, _) in enumerate(nodes)}
        columns = [
            [node, numbers[node], *parts] for _, node, parts in sorted(nodes, key=lambda item: item[0])
        ]
        assert tables[kind][:, : len(nodes)].T.tolist() == columns


def test_relay_vm_machine_agrees() -> None:
    """Relay's own machine runs what the pass makes, saved and loaded."""
    mod = program(TREE + TREES["two tensors"])
    tree, weights = two_kinds(mod, SHAPES["some"]), (small(4, 6), small(4, 8))
    executable = relay.vm.compile(mod, target="llvm")
    code, library = executable.save()
    machine = relay.vm.VirtualMachine(relay.vm.Executable.load_exec(code, library), heddle.cpu())
    same(plain(machine.invoke("main", tree, *weights)), run(mod, tree, *weights))


def test_parameters_of_a_recursive_main() -> None:
    """`main` calls itself with all its parameters, also where some are known."""
    mod = program(TREE + TREES["one tensor"])
    tree, w, u = two_kinds(mod, SHAPES["some"]), small(4, 6), small(4, 8)
    expected = run(mod, tree, w, u)
    for params, given in (({"w": w, "u": u}, ()), ({"u": u}, (w,))):
        for mode in ("compiled", "bytecode"):
            vm = heddle.relax.VirtualMachine(heddle.compile(mod, params=params, exec_mode=mode), heddle.cpu())
            same(plain(vm["main"](tree, *map(heddle.tensor, given))), expected)
        executable = relay.vm.compile(mod, target="llvm", params=params)
        machine = relay.vm.VirtualMachine(executable, heddle.cpu())
        same(plain(machine.invoke("main", tree, *given)), expected)


def test_large_values_are_not_kept_for_all_nodes() -> None:
    """Recursion keeps one of them at a time."""
    text = TREE + TREES["one tensor"].replace(
        "tanh(nn.dense(%x, %w, units=4))", "nn.dense(nn.dense(%x, %w, units=20000), %v, units=4)"
    )
    text = text.replace("%w, %u)", "%w, %u, %v)").replace(W, "Tensor[(20000, 6), float32]")
    mod = program(text.replace(f"%u: {U}", f"%u: {U}, %v: Tensor[(4, 20000), float32]"))
    assert levels(mod) == []
