"""Tree-LSTM as a Relay program with a data type and recursion, beside PyTorch's eager recursion.

    python -m benchmarks.tree_lstm [--threads 1] [--trees 20] [--seconds 3]

Binary trees of random shape with 20 leaves; inputs of 300, states of 150. Times are of whole trees, medians;
a token is a leaf. Outputs are compared.
"""

from __future__ import annotations

import argparse
import random
import statistics
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import torch

import heddle
from heddle import relay
from heddle.runtime.data import ConstructorValue
from heddle.runtime.native.library import set_num_threads
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


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--trees", type=int, default=20)
    parser.add_argument("--seconds", type=float, default=3.0)
    args = parser.parse_args()
    set_num_threads(args.threads)
    torch.set_num_threads(args.threads)
    rng, numbers = random.Random(1), np.random.default_rng(1)
    w = numbers.standard_normal((3 * HIDDEN, INPUT)).astype("float32") * np.float32(0.05)
    u = numbers.standard_normal((5 * HIDDEN, 2 * HIDDEN)).astype("float32") * np.float32(0.05)
    trees = [
        random_tree(rng, [numbers.standard_normal((1, INPUT)).astype("float32") for _ in range(LEAVES)])
        for _ in range(args.trees)
    ]
    mod = relay.parse(PROGRAM)
    leaf, node = (made.tag for made in mod.get_type("Tree")[1:])
    executable = heddle.compile(mod, params={"w": w, "u": u}, exec_mode="compiled")
    vm = VirtualMachine(executable, heddle.cpu())
    ours = [as_data(tree, leaf, node) for tree in trees]
    theirs, tw, tu = [as_torch(tree) for tree in trees], torch.from_numpy(w), torch.from_numpy(u)
    with torch.inference_mode():
        for mine, other in zip(ours, theirs, strict=True):
            np.testing.assert_allclose(vm["main"](mine).numpy(), eager(other, tw, tu)[0].numpy(), 1e-4, 1e-5)
        main_function = vm["main"]
        found = median_seconds(lambda k: main_function(ours[k]), args.trees, args.seconds)
        peer = median_seconds(lambda k: eager(theirs[k], tw, tu), args.trees, args.seconds)
    for name, value in (("heddle compiled", found), ("torch eager", peer)):
        print(f"{name:16} {value * 1e6:8.0f} us a tree {LEAVES / value:10.0f} tokens a second")
    print(f"ratio {peer / found:.2f}")


if __name__ == "__main__":
    main()
