"""The sequences of a paged cache: ids, windows and pending token trees. Their tokens are stored in blocks."""

from __future__ import annotations

from collections.abc import Sequence

from heddle.support.diagnostics import Trap
from heddle.vm.builtins.kv_cache.pages import BlockForest, CopyPage, TokenBlock
from heddle.vm.builtins.kv_cache.state import check_count, check_known, check_new
from heddle.vm.builtins.kv_cache.token_tree import TokenTree
from heddle.vm.codes import V0703, V0704, V0705


class CachedSequence:
    """A sequence. `window` is None without a sliding window; else the sequence keeps that many tokens,
    including its first `sink` ones. `tree` holds the nodes that wait for a commit; they are the last tokens.
    """

    __slots__ = ("leaf", "sink", "tree", "window")

    def __init__(self, leaf: TokenBlock) -> None:
        self.leaf = leaf
        self.window: int | None = None
        self.sink = 0
        self.tree: TokenTree | None = None

    @property
    def length(self) -> int:
        """The number of tokens."""
        return self.leaf.end


class SequenceTable:
    """All sequences, and the pages that store them."""

    def __init__(self, num_pages: int, page_size: int, copy_page: CopyPage) -> None:
        self.forest = BlockForest(num_pages, page_size, copy_page)
        self.by_id: dict[int, CachedSequence] = {}

    @property
    def is_empty(self) -> bool:
        """Whether there are no sequences and all pages are free."""
        return not self.by_id and self.forest.pool.num_free == self.forest.pool.num_pages

    def __getitem__(self, seq_id: int) -> CachedSequence:
        check_known(seq_id, self.by_id)
        return self.by_id[seq_id]

    def add(self, seq_id: int) -> None:
        """Add an empty sequence. Raises: Trap V0702."""
        check_new(seq_id, self.by_id)
        self.by_id[seq_id] = CachedSequence(TokenBlock(None, 0))

    def remove(self, seq_id: int) -> None:
        """Remove a sequence and free the pages that no other sequence shares. Raises: Trap V0701."""
        self.forest.release(self[seq_id].leaf)
        del self.by_id[seq_id]

    def fork(self, parent_id: int, child_id: int, position: int) -> None:
        """Add a sequence that starts with the first `position` tokens of another one (-1: all).

        Raises: Trap V0701, V0702, V0703, V0704.
        """
        parent = self[parent_id]
        check_new(child_id, self.by_id)
        self._check_committed(parent_id, "forked")
        at = parent.length if position == -1 else position
        check_count(parent_id, at, parent.length, "a fork position")
        if parent.window is not None and at > parent.sink:
            raise Trap(
                V0703,
                f"sequence {parent_id} has a sliding window: expected a fork position of at most "
                f"{parent.sink} (its sink), got {at}",
            )
        self.by_id[child_id] = CachedSequence(self.forest.branch(parent.leaf, at))

    def pop(self, seq_id: int, count: int) -> None:
        """Remove the last `count` tokens of a sequence. Raises: Trap V0701, V0703."""
        seq = self[seq_id]
        self._check_committed(seq_id, "popped")
        check_count(seq_id, count, seq.length, "a number of tokens")
        self._shorten(seq, seq.length - count)

    def _shorten(self, seq: CachedSequence, length: int) -> None:
        leaf, forest = seq.leaf, self.forest
        if length >= leaf.start:
            forest.truncate(leaf, length - leaf.start)
            return
        # The cut is in a shared block: a new leaf branches off there, and the old leaf is removed. The old
        # leaf's pages
        # are freed first, so that the branch has a page to copy to.
        if not leaf.pages and length % forest.page_size:
            forest.pool.require(1)
        forest.truncate(leaf, 0)
        seq.leaf = forest.branch(leaf, length)
        forest.release(leaf)

    def _check_committed(self, seq_id: int, verb: str) -> None:
        if self.by_id[seq_id].tree is not None:
            raise Trap(V0705, f"sequence {seq_id} cannot be {verb}: its token tree was not committed")

    def set_window(self, seq_id: int, window: int, sink: int) -> None:
        """Keep only the last tokens and the first `sink` ones. A shared prefix counts as sink."""
        seq = self[seq_id]
        if seq.window is not None:
            raise Trap(V0705, f"sequence {seq_id} has a sliding window already")
        self._check_committed(seq_id, "given a window")
        if window < 1 or not 0 <= sink < window:
            raise Trap(
                V0703,
                f"sequence {seq_id}: expected a window of at least 1 and a smaller sink, got window {window} "
                f"and sink {sink}",
            )
        if seq.leaf.start >= window:
            raise Trap(
                V0703,
                f"sequence {seq_id} shares its first {seq.leaf.start} tokens, which count as sink: "
                f"expected a window above that, got {window}",
            )
        seq.window, seq.sink = window, max(sink, seq.leaf.start)

    def slide(self, seq: CachedSequence) -> None:
        """Drop the tokens that have left a sequence's window."""
        if seq.window is not None and seq.length > seq.window:
            leaf = seq.leaf
            self.forest.slide(leaf, max(seq.sink - leaf.start, 0), seq.length - seq.window)

    def require_pages(self, sequences: Sequence[CachedSequence], counts: Sequence[int]) -> None:
        """Check that there are pages for all new tokens. Raises: Trap V0704 if not."""
        wanted = sum(
            self.forest.pages_missing(seq.leaf, count) for seq, count in zip(sequences, counts, strict=True)
        )
        free = self.forest.pool.num_free
        if wanted > free:
            raise Trap(
                V0704,
                f"expected {wanted} free pages for {sum(counts)} tokens, got {free} of "
                f"{self.forest.pool.num_pages}",
            )

    def places(self, seq_id: int) -> list[int]:
        """Return the place of each token of a sequence: page * page_size + offset."""
        return [place for block in self[seq_id].leaf.path() for place in self.forest.places(block)]

    def accept(self, seq: CachedSequence, leaf: int) -> list[tuple[int, int]]:
        """Commit a tree: keep the nodes from its root to `leaf`.

        Return the moves (from place, to place), in order, that put these nodes where the tree began. The
        pages that become unused still hold their data when this returns; do the moves before any page is
        allocated.
        """
        assert seq.tree is not None
        path, block = seq.tree.path(leaf), seq.leaf
        mine = self.forest.places(block)[block.num_tokens - len(seq.tree) :]
        self.forest.truncate(block, block.num_tokens - len(seq.tree) + len(path))
        seq.tree = None
        return [(mine[node], mine[at]) for at, node in enumerate(path) if node != at]
