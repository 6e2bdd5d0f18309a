"""The memory and the sequences of the paged cache, and the beginning and end of steps."""

from __future__ import annotations

from collections.abc import Sequence

from heddle.runtime.tensor import Tensor, empty
from heddle.support.diagnostics import Trap, TrapValueError
from heddle.vm.builtins.kv_cache.config import AttnKind, CacheConfig, CacheKernels, RopeMode
from heddle.vm.builtins.kv_cache.forward import ForwardPlan, bounds, numbers, plan_step
from heddle.vm.builtins.kv_cache.sequences import CachedSequence, SequenceTable
from heddle.vm.builtins.kv_cache.state import KVState, check_batch, check_count, check_tensor
from heddle.vm.builtins.kv_cache.token_tree import TokenTree
from heddle.vm.codes import V0703, V0705, V0707


class PagedSequences(KVState):
    """The paged cache without attention. A layer's pages have shape (pages, 2, key heads, page size,
    features), for latent attention (pages, page size, features). Page numbers are the same in all layers."""

    def __init__(self, config: CacheConfig, kernels: CacheKernels) -> None:
        self.config = config
        self.kernels = kernels
        self.pages = [
            empty((config.num_pages, *config.page_shape(kind)), config.dtype, config.device)
            for kind in config.kinds
        ]
        self.sequences = self._new_table()
        self._plan: ForwardPlan | None = None

    def _new_table(self) -> SequenceTable:
        return SequenceTable(self.config.num_pages, self.config.page_size, self._copy_page)

    def _copy_page(self, source: int, target: int, count: int) -> None:
        copy = self.kernels.need("copy_page")
        for pages in self.pages:
            copy(pages, source, target, count)

    # ---- sequences

    def clear(self) -> None:
        self.sequences = self._new_table()
        self._plan = None

    def add_sequence(self, seq_id: int) -> None:
        self._check_idle()
        self.sequences.add(seq_id)

    def remove_sequence(self, seq_id: int) -> None:
        self._check_idle()
        self.sequences.remove(seq_id)

    def fork_sequence(self, parent_id: int, child_id: int, position: int = -1) -> None:
        self._check_idle()
        self.sequences.fork(parent_id, child_id, position)

    def popn(self, seq_id: int, count: int) -> None:
        self._check_idle()
        self.sequences.pop(seq_id, count)

    def _check_idle(self) -> None:
        if self._plan is not None:
            raise Trap(V0705, "sequences cannot change between begin_forward and end_forward")

    def enable_sliding_window(self, seq_id: int, window: int, sink: int) -> None:
        """Limit a sequence to a sliding window. Raises: Trap V0701, V0703, V0705; TrapValueError V0707 if the
        cache was created without windows."""
        self._check_idle()
        if not self.config.is_sliding:
            raise TrapValueError(V0707, "the cache was created without support for sliding windows")
        if AttnKind.MHA_SLIDING in self.config.kinds:
            raise TrapValueError(V0707, "layers with a window of their own exclude windows for sequences")
        self.sequences.set_window(seq_id, window, sink)

    @property
    def is_empty(self) -> bool:
        """Whether there are no sequences and all pages are free."""
        return self.sequences.is_empty

    @property
    def num_free_pages(self) -> int:
        """Return the number of free pages."""
        return self.sequences.forest.pool.num_free

    @property
    def total_length(self) -> int:
        """Return the number of tokens of all sequences. A shared token counts once for each."""
        return sum(seq.length for seq in self.sequences.by_id.values())

    # ---- a step

    def begin_forward(
        self, seq_ids: Sequence[int], lengths: Sequence[int], parents: Sequence[int] | None = None
    ) -> None:
        if self._plan is not None:
            raise Trap(V0705, "begin_forward comes after the end_forward of the step before")
        check_batch(seq_ids, lengths, self.sequences.by_id)
        total = sum(lengths)
        if total > self.config.prefill_chunk:
            raise Trap(V0703, f"expected at most {self.config.prefill_chunk} tokens in a step, got {total}")
        batch = [self.sequences[seq_id] for seq_id in seq_ids]
        trees = self._trees(seq_ids, batch, lengths, parents)
        self.sequences.require_pages(batch, lengths)
        self._plan = plan_step(self.config, self.sequences.forest, batch, lengths, trees)
        for seq, tree in zip(batch, trees, strict=True):
            seq.tree = tree

    def _trees(
        self,
        seq_ids: Sequence[int],
        batch: Sequence[CachedSequence],
        lengths: Sequence[int],
        parents: Sequence[int] | None,
    ) -> list[TokenTree | None]:
        """Return the sequences' trees with the new nodes; all None without `parents`."""
        if parents is None:
            for seq_id, seq in zip(seq_ids, batch, strict=True):
                if seq.tree is not None:
                    raise Trap(V0705, f"sequence {seq_id} has a token tree that was not committed")
            return [None] * len(batch)
        if len(parents) != sum(lengths):
            raise Trap(V0703, f"expected {sum(lengths)} parents in the token trees, got {len(parents)}")
        at, trees = bounds(lengths), []
        for position, (seq_id, seq) in enumerate(zip(seq_ids, batch, strict=True)):
            tree = TokenTree(seq_id) if seq.tree is None else seq.tree
            trees.append(tree.extended(parents[at[position] : at[position + 1]]))
            if seq.window is not None:
                raise Trap(V0705, f"sequence {seq_id} has a sliding window and cannot take a token tree")
        if not all(tree.is_chain for tree in trees):
            if self.config.rope_mode is RopeMode.INLINE:
                raise TrapValueError(V0707, "token trees need keys that are rotated when they are stored")
            if any(kind is not AttnKind.MHA for kind in self.config.kinds):
                raise TrapValueError(V0707, "token trees need layers of plain multi-head attention")
        return [*trees]

    def end_forward(self) -> None:
        for seq in self._current().sequences:
            if seq.tree is None:
                self.sequences.slide(seq)
        self._plan = None

    def _current(self) -> ForwardPlan:
        if self._plan is None:
            raise Trap(V0705, "expected begin_forward before this call")
        return self._plan

    @property
    def query_positions(self) -> Tensor:
        """Return the position of each new token in its sequence, int32."""
        return self._current().q_position

    def commit_token_trees(self, seq_ids: Sequence[int], leaves: Sequence[int]) -> None:
        """In each sequence's tree, keep the path to one node (-1: no node) and remove the rest.

        Raises: Trap V0701, V0703, V0705, V0706.
        """
        self._check_idle()
        if len(seq_ids) != len(leaves):
            raise Trap(V0703, f"expected a leaf for each of {len(seq_ids)} sequences, got {len(leaves)}")
        batch = [self.sequences[seq_id] for seq_id in seq_ids]
        for seq_id, seq, leaf in zip(seq_ids, batch, leaves, strict=True):
            if seq.tree is None:
                raise Trap(V0705, f"sequence {seq_id} has no token tree to commit")
            seq.tree.path(leaf)
        moves = [self.sequences.accept(seq, leaf) for seq, leaf in zip(batch, leaves, strict=True)]
        if any(moves):
            indptr = numbers(bounds([len(mine) for mine in moves]))
            pairs = numbers([move for mine in moves for move in mine])
            swapped = numbers(pairs.numpy().T)
            for pages in self.pages:
                self.kernels.need("compact")(pages, indptr, swapped, len(moves))

    # ---- looking inside

    def debug_get(self, seq_id: int, start: int, end: int, *targets: Tensor) -> None:
        """Copy tokens [start, end) of a sequence, all layers: keys and values to two tensors (layers, end −
        start, key heads, features), compressed keys to one (layers, end − start, features)."""
        config = self.config
        is_latent = len(targets) == 1
        if any((kind is AttnKind.MLA) is not is_latent for kind in config.kinds):
            raise TrapValueError(V0707, "the cache's layers keep their keys in another form")
        places = self.sequences.places(seq_id)
        check_count(seq_id, end, len(places), "an end")
        check_count(seq_id, start, end, "a start")
        rest = (config.qk_dim,) if is_latent else (config.num_kv_heads, config.qk_dim)
        for target in targets:
            check_tensor("target", target, (len(self.pages), end - start, *rest), config.dtype)
        wanted = numbers(places[start:end])
        for layer, pages in enumerate(self.pages):
            self.kernels.need("debug_get")(pages, wanted, *targets, layer)
