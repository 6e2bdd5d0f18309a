"""The index arrays that the kernels of a step need. They are built once per step for all layers.

The cached tokens of a batch are given to the kernels in two *parts*, whose results are merged:

- *prefix*: the root block of sequences that share one. Neighbours in the batch with the same root form one
  entry, so its keys are read once for all their queries;
- *own*: the remaining blocks of each sequence, one entry per sequence. Inner blocks are full pages, so a path
  of blocks is one list of pages.

An entry has a range of query tokens (`q_indptr`), pages, and the position of its first token.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from heddle.runtime.tensor import Tensor, tensor_from_numpy
from heddle.support.frozen import frozen
from heddle.vm.builtins.kv_cache.config import AttnKind, CacheConfig
from heddle.vm.builtins.kv_cache.pages import BlockForest, TokenBlock
from heddle.vm.builtins.kv_cache.sequences import CachedSequence
from heddle.vm.builtins.kv_cache.token_tree import TokenTree


def numbers(values: Any) -> Tensor:
    """Return an int32 tensor of the values."""
    return tensor_from_numpy(np.array(values, np.int32))


def bounds(lengths: Sequence[int]) -> list[int]:
    """Return 0, followed by the running sums."""
    found = [0]
    for length in lengths:
        found.append(found[-1] + length)
    return found


@frozen(slots=False)
class Part:
    """The arrays of one part in the form that kernels take; see the docstring of the module, and `PagedKeys`
    for `length_info`."""

    q_indptr: Tensor
    page_indptr: Tensor
    page_values: Tensor
    length_info: Tensor
    last_page_length: Tensor
    """The first row of `length_info`."""
    key_offset: Tensor
    is_decode: bool
    """Whether every entry has exactly one query token."""


_NO_BLOCK = TokenBlock(None, 0)


@dataclass
class _Entry:
    """Consecutive blocks, and the number of query tokens that attend to them."""

    blocks: list[TokenBlock]
    num_queries: int


def make_part(entries: Sequence[_Entry], page_size: int, is_sliding: bool) -> Part | None:
    """Make the arrays of a part. Return None if no entry has a token."""
    pages: list[int] = []
    page_counts, infos, offsets = [], [], []
    for entry in entries:
        mine = [page for block in entry.blocks for page in block.pages]
        before = sum(len(block.pages) for block in entry.blocks[:-1]) * page_size
        last = entry.blocks[-1] if entry.blocks else _NO_BLOCK
        length = before + last.num_slots - (len(mine) - 1) * page_size if mine else 0
        gap = (before + last.window_start, before + last.sink) if last.num_dropped else (0, 0)
        infos.append((length, *gap))
        pages += mine
        page_counts.append(len(mine))
        offsets.append(entry.blocks[0].start if entry.blocks else 0)
    if not pages:
        return None
    last_lengths, info = _length_info(infos, is_sliding)
    return Part(
        numbers(bounds([entry.num_queries for entry in entries])),
        numbers(bounds(page_counts)),
        numbers(pages),
        info,
        last_lengths,
        numbers(offsets),
        all(entry.num_queries == 1 for entry in entries),
    )


def _length_info(rows: Sequence[tuple[int, int, int]], is_sliding: bool) -> tuple[Tensor, Tensor]:
    """Return the lengths of the last pages, and the `length_info` for kernels with or without windows."""
    columns = np.array(rows, np.int32).T
    last = numbers(columns[0])
    return last, numbers(columns) if is_sliding else last


def parts_of(
    leaves: Sequence[TokenBlock], lengths: Sequence[int], page_size: int, is_sliding: bool
) -> tuple[Part | None, Part | None]:
    """Return the prefix part and the own part of a batch."""
    prefixes: list[_Entry] = []
    own: list[_Entry] = []
    previous: TokenBlock | None = None
    for leaf, length in zip(leaves, lengths, strict=True):
        path = leaf.path()
        root = path[0] if len(path) > 1 else None
        if root is not None and root is previous:
            prefixes[-1].num_queries += length
        else:
            prefixes.append(_Entry([root] if root is not None else [], length))
        previous = root
        own.append(_Entry(path[1:] if root is not None else path, length))
    return make_part(prefixes, page_size, is_sliding), make_part(own, page_size, is_sliding)


def window_part(places: Sequence[Sequence[int]], lengths: Sequence[int], window: int, page_size: int) -> Part:
    """Make the part for layers with a window: each new token is an entry of its own that ends with that
    token.

    `places` are those of all tokens of a sequence, including the new ones. If a window starts inside a page,
    the tokens before it are marked as a dropped range at the beginning of its first page.
    """
    pages: list[int] = []
    page_counts, infos, offsets = [], [], []
    for mine, length in zip(places, lengths, strict=True):
        listed, ordinals = _pages_in_order(mine, page_size)
        for position in range(len(mine) - length, len(mine)):
            first = max(0, position + 1 - window)
            seen = listed[ordinals[first] : ordinals[position] + 1]
            pages += seen
            page_counts.append(len(seen))
            infos.append((mine[position] % page_size + 1, mine[first] % page_size, 0))
            offsets.append(first)
    last, info = _length_info(infos, True)
    at = numbers(range(len(offsets) + 1))
    return Part(at, numbers(bounds(page_counts)), numbers(pages), info, last, numbers(offsets), True)


def _pages_in_order(places: Sequence[int], page_size: int) -> tuple[list[int], list[int]]:
    """Return the pages of consecutive tokens, and for each token the index of its page in that list."""
    listed: list[int] = []
    ordinals = []
    for place in places:
        page = place // page_size
        if not listed or listed[-1] != page:
            listed.append(page)
        ordinals.append(len(listed) - 1)
    return listed, ordinals


@dataclass
class ForwardPlan:
    """The arrays of one step. With `appends_first`, new tokens are stored in pages before attention, which
    then reads them there."""

    sequences: list[CachedSequence]
    total: int
    appends_first: bool
    q_indptr: Tensor
    q_position: Tensor
    key_offset: Tensor
    """The position of each sequence's first new token."""
    slots: Tensor
    """Where new tokens are stored: page * page_size + offset."""
    prefix: Part | None
    own: Part | None
    windows: Part | None
    tree_indptr: Tensor | None = None
    """Set if tokens form trees that are not chains."""
    tree_order: Tensor | None = None

    @property
    def parts(self) -> list[Part]:
        """The parts of the cache that the step attends to, without empty ones."""
        return [part for part in (self.prefix, self.own) if part is not None]


def plan_step(
    config: CacheConfig,
    forest: BlockForest,
    batch: list[CachedSequence],
    lengths: Sequence[int],
    trees: Sequence[TokenTree | None],
) -> ForwardPlan:
    """Allocate space for the new tokens and build the step's arrays. `trees` include the new nodes. The
    caller has checked that enough pages are free."""
    branching = [tree for tree in trees if tree is not None and not tree.is_chain]
    waiting = any(seq.tree is not None for seq in batch)
    is_plain_decode = max(lengths) == 1 and not config.is_sliding
    appends_first = is_plain_decode or (waiting and len(branching) > 0)
    q_position = _positions(batch, lengths, trees)
    leaves = [seq.leaf for seq in batch]
    cached = None if appends_first else parts_of(leaves, lengths, config.page_size, config.is_sliding)
    slots = [forest.grow(leaf, count) for leaf, count in zip(leaves, lengths, strict=True)]
    prefix, own = cached or parts_of(leaves, lengths, config.page_size, config.is_sliding)
    at = bounds(lengths)
    plan = ForwardPlan(
        sequences=batch,
        total=at[-1],
        appends_first=appends_first,
        q_indptr=numbers(at),
        q_position=numbers(q_position),
        key_offset=numbers([q_position[first] for first in at[:-1]]),
        slots=numbers([slot for mine in slots for slot in mine]),
        prefix=prefix,
        own=own,
        windows=None,
    )
    if AttnKind.MHA_SLIDING in config.kinds:
        places = [[place for block in leaf.path() for place in forest.places(block)] for leaf in leaves]
        plan.windows = window_part(places, lengths, config.layer_window, config.page_size)
    if branching:
        known = [tree for tree in trees if tree is not None]
        plan.tree_indptr = numbers(bounds([len(tree) for tree in known]))
        plan.tree_order = numbers([interval for tree in known for interval in tree.order()])
    return plan


def _positions(
    batch: Sequence[CachedSequence], lengths: Sequence[int], trees: Sequence[TokenTree | None]
) -> list[int]:
    """Return the position of each new token in its sequence. The position of a tree node is given by its
    depth."""
    found: list[int] = []
    for seq, length, tree in zip(batch, lengths, trees, strict=True):
        if tree is None:
            found += range(seq.length, seq.length + length)
        else:
            base = seq.length - (len(tree) - length)
            found += [base + depth for depth in tree.depths[-length:]]
    return found
