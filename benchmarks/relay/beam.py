"""Beam search as a recursive Relay program that collects its tokens in a list, beside PyTorch's eager loop.

A GRU of 256 over tokens of a vocabulary of 2,000, four beams, 20 steps.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import torch

import heddle
from benchmarks.measure import least_in_turn
from heddle import relay
from heddle.vm.relax import VirtualMachine

BEAMS, HIDDEN, VOCABULARY, STEPS = 4, 256, 2000, 20
WEIGHTS = {
    "e": (VOCABULARY, HIDDEN),
    "w": (3 * HIDDEN, HIDDEN),
    "u": (3 * HIDDEN, HIDDEN),
    "o": (VOCABULARY, HIDDEN),
}
_TYPES = ", ".join(f"%{name}: Tensor[{shape}, float32]" for name, shape in WEIGHTS.items())
_NAMES = ", ".join(f"%{name}" for name in WEIGHTS)
IDS = f"Tensor[({BEAMS}), int64]"
PROGRAM = f"""#[version = "0.0.5"]
type Tokens {{ Start, Token({IDS}, {IDS}, Tokens) }}

def @search(%n: int32, %h: Tensor[({BEAMS}, {HIDDEN}), float32], %scores: Tensor[({BEAMS}, 1), float32],
            %tokens: {IDS}, %found: Tokens, {_TYPES}) -> (Tokens, Tensor[({BEAMS}, 1), float32]) {{
  if (%n == 0) {{ (%found, %scores) }} else {{
    let %x = split(nn.dense(take(%e, %tokens, axis=0), %w), indices_or_sections=3, axis=1);
    let %y = split(nn.dense(%h, %u), indices_or_sections=3, axis=1);
    let %z = sigmoid(%x.0 + %y.0);
    let %r = sigmoid(%x.1 + %y.1);
    let %new = (1f - %z) * tanh(%x.2 + %r * %y.2) + %z * %h;
    let %all = reshape(nn.log_softmax(nn.dense(%new, %o)) + %scores, newshape=[1, -1]);
    let %top = topk(%all, k={BEAMS}, ret_type="both", dtype="int64");
    let %places = reshape(%top.1, newshape=[{BEAMS}]);
    let %parents = floor_divide(%places, {VOCABULARY}i64);
    let %next = floor_mod(%places, {VOCABULARY}i64);
    @search(%n - 1, take(%new, %parents, axis=0), reshape(%top.0, newshape=[{BEAMS}, 1]), %next,
            Token(%parents, %next, %found), {_NAMES})
  }}
}}

def @main(%n: int32, %h: Tensor[({BEAMS}, {HIDDEN}), float32], {_TYPES}) {{
  let %scores = zeros(shape=[{BEAMS}, 1], dtype="float32");
  @search(%n, %h, %scores, zeros(shape=[{BEAMS}], dtype="int64"), Start, {_NAMES})
}}
"""


def eager(n: int, h: torch.Tensor, weights: dict[str, torch.Tensor]) -> tuple[list[Any], torch.Tensor]:
    scores, tokens = torch.zeros(BEAMS, 1), torch.zeros(BEAMS, dtype=torch.int64)
    found = []
    for _ in range(n):
        x = torch.nn.functional.linear(weights["e"][tokens], weights["w"]).chunk(3, 1)
        y = torch.nn.functional.linear(h, weights["u"]).chunk(3, 1)
        z, r = torch.sigmoid(x[0] + y[0]), torch.sigmoid(x[1] + y[1])
        new = (1 - z) * torch.tanh(x[2] + r * y[2]) + z * h
        total = (torch.log_softmax(torch.nn.functional.linear(new, weights["o"]), 1) + scores).view(-1)
        scores, places = total.topk(BEAMS)
        scores, parents, tokens = scores[:, None], places // VOCABULARY, places % VOCABULARY
        h = new[parents]
        found.append((parents, tokens))
    return found, scores


def rows(threads: int) -> Iterator[str]:
    """One line."""
    torch.set_num_threads(threads)
    rng = np.random.default_rng(0)
    arrays = {name: (rng.standard_normal(shape) * 0.1).astype("float32") for name, shape in WEIGHTS.items()}
    h = rng.standard_normal((BEAMS, HIDDEN)).astype("float32")
    mod = relay.parse(PROGRAM)
    main = VirtualMachine(heddle.compile(mod, params=arrays, exec_mode="compiled"), heddle.cpu())["main"]
    count, given = heddle.tensor(np.int32(STEPS)), heddle.tensor(h)
    others, theirs_h = {name: torch.from_numpy(array) for name, array in arrays.items()}, torch.from_numpy(h)
    with torch.inference_mode():
        tokens, scores = main(count, given)
        wanted, theirs_scores = eager(STEPS, theirs_h, others)
        np.testing.assert_allclose(scores.numpy(), theirs_scores.numpy(), 1e-4, 1e-4)
        for parents, ids in reversed(wanted):
            np.testing.assert_array_equal(tokens.fields[0].numpy(), parents.numpy())
            np.testing.assert_array_equal(tokens.fields[1].numpy(), ids.numpy())
            tokens = tokens.fields[2]
        ours, theirs = least_in_turn(lambda: main(count, given), lambda: eager(STEPS, theirs_h, others))
    yield f"{1e6 * ours:.0f} us, PyTorch eager {1e6 * theirs:.0f} us, ratio {ours / theirs:.3f}"
