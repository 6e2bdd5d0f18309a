"""Random programs on the paged cache, step by step against a list-of-tokens model."""

from __future__ import annotations

import numpy as np
import pytest

from heddle.frontend.nn.llm.create import create_paged_kv_cache
from heddle.support.diagnostics import Trap
from heddle.vm.builtins.kv_cache import AttnKind, RopeMode

from .cache_model import Model, Sequence, builtin, check_pages

PAGE, CHUNK, H_Q, H_KV, DIM = 4, 40, 4, 2, 8
ROPES = {"none": RopeMode.NONE, "normal": RopeMode.NORMAL, "inline": RopeMode.INLINE}


def make(rng, rope, is_sliding=False, dtype="float32", tokens=240, kinds=None, layer_window=5):
    kinds = kinds or [AttnKind.MHA, AttnKind.MHA]
    cache = create_paged_kv_cache(
        max_batch_size=8,
        max_total_seq_len=tokens,
        prefill_chunk_size=CHUNK,
        num_hidden_layers=len(kinds),
        num_attention_heads=H_Q,
        num_key_value_heads=H_KV,
        qk_head_dim=DIM,
        page_size=PAGE,
        support_sliding_window=is_sliding,
        layer_sliding_window=layer_window,
        attn_kind=kinds,
        rope_mode=ROPES[rope],
        rope_scale=Model.rope_scale,
        rope_theta=Model.theta,
        dtype=dtype,
    )
    meant = "inline" if is_sliding and rope == "normal" else rope
    windows = [layer_window if kind is AttnKind.MHA_SLIDING else None for kind in kinds]
    return cache, Model(rng, len(kinds), H_Q, H_KV, DIM, meant, dtype, windows)


class Program:
    """Draws operations and applies them to the cache and to the model."""

    def __init__(self, seed, *, trees=False, **options):
        self.rng = np.random.default_rng(seed)
        self.cache, self.model = make(self.rng, **options)
        self.has_trees, self.next_id, self.full = trees, 0, 0
        self.counts: dict[str, int] = {}

    @property
    def sequences(self):
        return self.model.sequences

    def pick(self, count=1, idle=False):
        ids = [i for i, seq in self.sequences.items() if not (idle and seq.parents is not None)]
        count = min(count, len(ids))
        return [int(i) for i in self.rng.choice(ids, count, replace=False)] if count else []

    def step(self):
        names = ["add", "remove", "fork", "fork", "pop", "prefill", "prefill", "decode", "decode", "look"]
        names += ["tree", "tree", "commit", "commit"] if self.has_trees else []
        names += ["window"] if self.cache.config.is_sliding else []
        name = str(self.rng.choice(names)) if self.sequences else "add"
        self.counts[name] = self.counts.get(name, 0) + 1
        try:
            getattr(self, name)()
        except Trap as error:
            if error.code != "V0704":
                raise
            self.full += 1
            self.remove()
        check_pages(self.cache)
        assert self.cache.total_length == sum(len(seq.tokens) for seq in self.sequences.values())

    def new_id(self):
        self.next_id += int(self.rng.integers(1, 4))
        return self.next_id

    def add(self):
        if len(self.sequences) < 8:
            made = self.new_id()
            builtin("kv_state_add_sequence")(self.cache, made)
            self.sequences[made] = Sequence()

    def remove(self):
        (gone,) = self.pick()
        builtin("kv_state_remove_sequence")(self.cache, gone)
        del self.sequences[gone]

    def fork(self):
        for parent in self.pick(idle=True):
            seq, child = self.sequences[parent], self.new_id()
            most = len(seq.tokens) if seq.window is None else min(seq.sink, len(seq.tokens))
            at = int(self.rng.integers(0, most + 1))
            if seq.window is None and self.rng.random() < 0.4:
                at = -1
            builtin("kv_state_fork_sequence")(self.cache, parent, child, at)
            self.model.fork(parent, child, at)

    def pop(self):
        for i in self.pick(idle=True):
            seq = self.sequences[i]
            count = int(self.rng.integers(0, len(seq.tokens) + 1))
            count = count if self.rng.random() < 0.3 else min(count, 5)
            builtin("kv_state_popn")(self.cache, i, count)
            del seq.tokens[len(seq.tokens) - count :]

    def window(self):
        for i in self.pick(idle=True):
            seq, shared = self.sequences[i], self.cache.sequences[i].leaf.start
            size = int(self.rng.integers(2, 25))
            if seq.window is None and shared < size:
                sink = int(self.rng.integers(0, size))
                builtin("attention_kv_cache_enable_sliding_window_for_seq")(self.cache, i, size, sink)
                seq.window, seq.sink = size, max(sink, shared)

    def forward(self, ids, lengths, parents=None):
        if not ids:
            return
        flat = None if parents is None else [node for mine in parents for node in mine]
        builtin("kv_state_begin_forward")(self.cache, ids, lengths, flat)
        self.model.forward(self.cache, ids, lengths, parents, int(self.rng.integers(0, 3)))
        builtin("kv_state_end_forward")(self.cache)
        for i in ids:
            self.sequences[i].slide()

    def decode(self):
        ids = self.pick(int(self.rng.integers(1, 6)), idle=True)
        self.forward(ids, [1] * len(ids))

    def prefill(self):
        ids = self.pick(int(self.rng.integers(1, 4)), idle=True)
        self.forward(ids, [int(n) for n in self.rng.integers(1, 13, len(ids))])

    def tree(self):
        ids = [i for i in self.pick(int(self.rng.integers(1, 4))) if self.sequences[i].window is None]
        lengths = [int(n) for n in self.rng.integers(1, 8, len(ids))]
        parents = []
        for i, length in zip(ids, lengths, strict=True):
            known = len(self.sequences[i].parents or ())
            chain = self.rng.random() < 0.3
            nodes = range(known, known + length)
            parents.append([n - 1 if chain else int(self.rng.integers(-1, n)) for n in nodes])
        self.forward(ids, lengths, parents)

    def commit(self):
        waiting = [i for i, seq in self.sequences.items() if seq.parents is not None]
        if not waiting:
            return
        ids = [i for i in waiting if self.rng.random() < 0.8] or waiting
        leaves = [int(self.rng.integers(-1, len(self.sequences[i].parents))) for i in ids]
        builtin("attention_kv_cache_commit_accepted_token_tree_nodes")(self.cache, ids, leaves)
        for i, leaf in zip(ids, leaves, strict=True):
            seq = self.sequences[i]
            first, path = seq.committed, seq.path(leaf)
            seq.tokens = seq.tokens[:first] + [seq.tokens[first + node] for node in path]
            seq.parents = None

    def look(self):
        for i in self.pick(2):
            count = len(self.sequences[i].tokens)
            start = int(self.rng.integers(0, count + 1))
            self.model.check_stored(self.cache, i, start, int(self.rng.integers(start, count + 1)))

    def finish(self):
        for i in list(self.sequences):
            self.model.check_stored(self.cache, i)
        for i in list(self.sequences):
            builtin("kv_state_remove_sequence")(self.cache, i)
        assert builtin("attention_kv_cache_empty")(self.cache)
        free = builtin("attention_kv_cache_get_num_available_pages")(self.cache)
        assert free == self.cache.config.num_pages


CASES = {
    "no rotation, trees": {"rope": "none", "trees": True},
    "rotated when stored, trees": {"rope": "normal", "trees": True},
    "rotated when read": {"rope": "inline"},
    "windows": {"rope": "none", "is_sliding": True},
    "windows and trees": {"rope": "none", "is_sliding": True, "trees": True},
    "windows, rotated when read": {"rope": "normal", "is_sliding": True},
    "few pages": {"rope": "none", "tokens": 60, "trees": True},
    "layers with windows": {"rope": "inline", "kinds": [AttnKind.MHA_SLIDING, AttnKind.MHA]},
}


@pytest.mark.fact("10.4", "10.5", "10.6", "10.7", "10.8", "10.9", "10.10")
@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("seed", range(2))
def test_random_program(case, seed):
    """Attention, stored keys, positions, free pages after each of 350 operations."""
    program = Program(seed, **CASES[case])
    for _ in range(350):
        program.step()
    if case == "few pages":
        assert program.full
    program.finish()


@pytest.mark.fact("10.5")
@pytest.mark.parametrize("rope", ["normal", "inline"])
def test_random_program_in_half_precision(rope):
    """The initial tensor's dtype is the cache's."""
    program = Program(7, rope=rope, dtype="float16")
    for _ in range(60):
        program.step()
    program.finish()
