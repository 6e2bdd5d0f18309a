"""Tree-LSTM as a Relay program with a data type and recursion, beside PyTorch's eager recursion, and beside
its form by levels that somebody wrote by hand, whose order of nodes is made before.

Binary trees of random shape with 20 leaves; inputs of 300, states of 150. Times are of whole trees, medians;
a token is a leaf. Outputs are compared.
"""

from __future__ import annotations

import random
import statistics
import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import torch

import heddle
from heddle import relay
from heddle.runtime.data import ConstructorValue
from heddle.vm.relax import VirtualMachine

INPUT, HIDDEN, LEAVES = 300, 150, 20
PROGRAM = f"""#[version = "0.0.5"]
type Tree {{ Leaf(Tensor[(1, {INPUT}), float32]), Node(Tree, Tree) }}

def @cell(%t: Tree, %w: Tensor[({3 * HIDDEN}, {INPUT}), float32],
          %u: Tensor[({5 * HIDDEN}, {2 * HIDDEN}), float32])
    -> (Tensor[(1, {HIDDEN}), float32], Tensor[(1, {HIDDEN}), float32]) {{
  match (%t) {{
    Leaf(%x) => {{
      let %g = split(nn.dense(%x, %w, units={3 * HIDDEN}), indices_or_sections=3, axis=1);
      let %c = sigmoid(%g.0) * tanh(%g.1);
      (sigmoid(%g.2) * tanh(%c), %c)
    }},
    Node(%l, %r) => {{
      let %a = @cell(%l, %w, %u);
      let %b = @cell(%r, %w, %u);
      let %h = concatenate((%a.0, %b.0), axis=1);
      let %g = split(nn.dense(%h, %u, units={5 * HIDDEN}), indices_or_sections=5, axis=1);
      let %c = sigmoid(%g.0) * tanh(%g.1) + sigmoid(%g.2) * %a.1 + sigmoid(%g.3) * %b.1;
      (sigmoid(%g.4) * tanh(%c), %c)
    }},
  }}
}}

def @main(%t: Tree, %w: Tensor[({3 * HIDDEN}, {INPUT}), float32],
          %u: Tensor[({5 * HIDDEN}, {2 * HIDDEN}), float32]) {{
  (@cell(%t, %w, %u)).0
}}
"""


def random_tree(rng: random.Random, leaves: list[Any]) -> Any:
    if len(leaves) == 1:
        return leaves[0]
    cut = rng.randint(1, len(leaves) - 1)
    return random_tree(rng, leaves[:cut]), random_tree(rng, leaves[cut:])


def as_data(tree: Any, leaf: int, node: int) -> ConstructorValue:
    if isinstance(tree, tuple):
        return ConstructorValue(node, tuple(as_data(part, leaf, node) for part in tree))
    return ConstructorValue(leaf, (heddle.tensor(tree),))


def as_torch(tree: Any) -> Any:
    return tuple(map(as_torch, tree)) if isinstance(tree, tuple) else torch.from_numpy(tree)


def eager(tree: Any, w: torch.Tensor, u: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    if isinstance(tree, tuple):
        left, right = eager(tree[0], w, u), eager(tree[1], w, u)
        h = torch.cat((left[0], right[0]), 1)
        i, g, f, e, o = torch.nn.functional.linear(h, u).chunk(5, 1)
        c = i.sigmoid() * g.tanh() + f.sigmoid() * left[1] + e.sigmoid() * right[1]
    else:
        i, g, o = torch.nn.functional.linear(tree, w).chunk(3, 1)
        c = i.sigmoid() * g.tanh()
    return o.sigmoid() * c.tanh(), c


def median_seconds(run: Callable[[int], Any], count: int, seconds: float) -> float:
    times: list[float] = []
    end = time.perf_counter() + seconds
    while time.perf_counter() < end or len(times) < count:
        start = time.perf_counter()
        run(len(times) % count)
        times.append(time.perf_counter() - start)
    return statistics.median(times)


def by_levels(tree: Any) -> tuple[list[torch.Tensor], list[tuple[torch.Tensor, torch.Tensor]], list[int]]:
    """The leaves, for each level the rows of its nodes' children, and where levels begin."""
    leaves: list[torch.Tensor] = []
    levels: list[list[tuple[tuple[int, int], tuple[int, int]]]] = []

    def walk(node: Any) -> tuple[int, int]:
        if not isinstance(node, tuple):
            leaves.append(node)
            return 0, len(leaves) - 1
        left, right = map(walk, node)
        height = max(left[0], right[0]) + 1
        levels.extend([] for _ in range(height - len(levels)))
        levels[height - 1].append((left, right))
        return height, len(levels[height - 1]) - 1

    walk(tree)
    starts = [0, len(leaves)]
    for level in levels:
        starts.append(starts[-1] + len(level))
    rows = [
        tuple(torch.tensor([starts[pair[side][0]] + pair[side][1] for pair in level]) for side in (0, 1))
        for level in levels
    ]
    return leaves, rows, starts  # type: ignore[return-value]


def batched(order: Any, w: torch.Tensor, u: torch.Tensor) -> torch.Tensor:
    leaves, levels, starts = order
    h, c = torch.empty(starts[-1], HIDDEN), torch.empty(starts[-1], HIDDEN)
    i, g, o = torch.nn.functional.linear(torch.cat(leaves, 0), w).chunk(3, 1)
    c[: starts[1]] = i.sigmoid() * g.tanh()
    h[: starts[1]] = o.sigmoid() * c[: starts[1]].tanh()
    for k, (left, right) in enumerate(levels, 1):
        pair = torch.cat((h[left], h[right]), 1)
        i, g, f, e, o = torch.nn.functional.linear(pair, u).chunk(5, 1)
        new = i.sigmoid() * g.tanh() + f.sigmoid() * c[left] + e.sigmoid() * c[right]
        c[starts[k] : starts[k + 1]] = new
        h[starts[k] : starts[k + 1]] = o.sigmoid() * new.tanh()
    return h[-1:]


def rows(threads: int, num_trees: int = 20, seconds: float = 3.0) -> Iterator[str]:
    """A line for each of the three."""
    torch.set_num_threads(threads)
    rng, numbers = random.Random(1), np.random.default_rng(1)
    w = numbers.standard_normal((3 * HIDDEN, INPUT)).astype("float32") * np.float32(0.05)
    u = numbers.standard_normal((5 * HIDDEN, 2 * HIDDEN)).astype("float32") * np.float32(0.05)
    trees = [
        random_tree(rng, [numbers.standard_normal((1, INPUT)).astype("float32") for _ in range(LEAVES)])
        for _ in range(num_trees)
    ]
    mod = relay.parse(PROGRAM)
    leaf, node = (made.tag for made in mod.get_type("Tree")[1:])
    executable = heddle.compile(mod, params={"w": w, "u": u}, exec_mode="compiled")
    main = VirtualMachine(executable, heddle.cpu())["main"]
    ours = [as_data(tree, leaf, node) for tree in trees]
    theirs, tw, tu = [as_torch(tree) for tree in trees], torch.from_numpy(w), torch.from_numpy(u)
    orders = [by_levels(tree) for tree in theirs]
    with torch.inference_mode():
        for mine, other, order in zip(ours, theirs, orders, strict=True):
            wanted = eager(other, tw, tu)[0].numpy()
            np.testing.assert_allclose(main(mine).numpy(), wanted, 1e-4, 1e-5)
            np.testing.assert_allclose(batched(order, tw, tu).numpy(), wanted, 1e-4, 1e-5)
        found = median_seconds(lambda k: main(ours[k]), num_trees, seconds)
        one_by_one = median_seconds(lambda k: eager(theirs[k], tw, tu), num_trees, seconds)
        by_hand = median_seconds(lambda k: batched(orders[k], tw, tu), num_trees, seconds)
    yield f"heddle compiled {found * 1e6:.0f} us a tree, {LEAVES / found:.0f} tokens a second"
    yield f"torch eager {one_by_one * 1e6:.0f} us, {one_by_one / found:.2f} times as long"
    yield f"torch by levels {by_hand * 1e6:.0f} us, {by_hand / found:.2f} times as long"
