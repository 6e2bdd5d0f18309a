"""Where attention kernels find keys: in pages, or in a ragged array; and which of them a query sees."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from heddle.prim.nodes import PrimExpr, Var, constant
from heddle.prim.ops import all as all_of
from heddle.prim.ops import any as any_of
from heddle.prim.ops import (
    cast,
    equal,
    floordiv,
    floormod,
    greater,
    greater_equal,
    if_then_else,
    less,
    maximum,
    minimum,
    select,
    subtract,
)
from heddle.tir.builder import StmtBuilder
from heddle.tir.nodes import Buffer, BufferLoad


@dataclass
class PagedKeys:
    """Pages of a sequence, listed in `values[indptr[s] : indptr[s + 1]]`.

    `length_info` is (batch,): the tokens in the last page; or (3, batch) with a sliding window: that, the
    slot at which the window starts after the sink, and the sink's size. Slots count from the sequence's
    first page; the sink's tokens lie at slots [0, sink). Pages of latent attention have no heads, and the
    values are the keys' first features.
    """

    pages: Buffer
    indptr: Buffer
    values: Buffer
    length_info: Buffer
    page_size: int
    is_sliding: bool
    is_latent: bool = False

    def length(self, b: StmtBuilder, seq: Var) -> PrimExpr:
        """Tokens in the pages of a sequence: full pages and what the last one holds, less what a window left
        behind.
        """
        self._begin = b.let("page_begin", self.indptr[seq], "int64")
        num_pages = b.let("num_pages", cast("int64", self.indptr[seq + 1]) - self._begin)
        full = (num_pages - 1) * self.page_size
        if not self.is_sliding:
            length = full + cast("int64", self.length_info[seq])
        else:
            self._start = b.let("window_start", self.length_info[1, seq], "int64")
            self._sink = b.let("sink", self.length_info[2, seq], "int64")
            length = full + cast("int64", self.length_info[0, seq]) - self._start + self._sink
        return if_then_else(equal(num_pages, 0), constant(0, "int64"), length)

    def locate(self, b: StmtBuilder, seq: Var, token: PrimExpr) -> tuple[Var, Var]:
        """Page number and offset in the page."""
        slot = token
        if self.is_sliding:
            slot = b.let("slot", select(less(token, self._sink), token, token - self._sink + self._start))
        page = b.let("page", self.values[self._begin + floordiv(slot, self.page_size)], "int64")
        return page, b.let("offset", floormod(slot, self.page_size))

    def key(self, place: Any, head: Var, index: PrimExpr) -> PrimExpr:
        """An element of a key in its page."""
        page, offset = place
        indices = (page, offset, index) if self.is_latent else (page, 0, head, offset, index)
        return BufferLoad(self.pages, indices)  # type: ignore[arg-type]

    def value(self, place: Any, head: Var, index: PrimExpr) -> PrimExpr:
        """An element of a value in its page; for latent attention the key is the value too."""
        page, offset = place
        indices = (page, offset, index) if self.is_latent else (page, 1, head, offset, index)
        return BufferLoad(self.pages, indices)  # type: ignore[arg-type]


@dataclass
class RaggedKeys:
    """Tokens of sequence s at `k[indptr[s] : indptr[s + 1]]`, likewise `v`."""

    k: Buffer
    v: Buffer
    indptr: Buffer

    def length(self, b: StmtBuilder, seq: Var) -> PrimExpr:
        """Tokens between two entries of `indptr`."""
        self._begin = b.let("kv_begin", self.indptr[seq], "int64")
        return subtract(cast("int64", self.indptr[seq + 1]), self._begin)

    def locate(self, b: StmtBuilder, seq: Var, token: PrimExpr) -> Var:
        """The row of a token."""
        return b.let("place", self._begin + token)

    def key(self, place: Any, head: Var, index: PrimExpr) -> PrimExpr:
        """An element of a key in its row."""
        return BufferLoad(self.k, (place, head, index))

    def value(self, place: Any, head: Var, index: PrimExpr) -> PrimExpr:
        """An element of a value in its row."""
        return BufferLoad(self.v, (place, head, index))


@dataclass
class Causal:
    """Queries are the last `q_len` of the tokens and see themselves and what is before. Where the kernel's
    argument `causal` is 0 (or there is none), they see everything.
    """

    causal: PrimExpr | None

    def begin(self, b: StmtBuilder, seq: Var, q_len: PrimExpr, kv_len: PrimExpr) -> None:
        """Bind how far the first query sees; everything where `causal` is zero at run time."""
        self._kv_len = kv_len
        if self.causal is None:
            return
        shift = b.let("shift", kv_len - q_len + 1)
        everything = constant(1 << 40, "int64")
        self._shift = b.let("limit", select(greater(self.causal, 0), shift, everything))

    def _limit(self, query: PrimExpr) -> PrimExpr:
        if self.causal is None:
            return self._kv_len
        return minimum(self._kv_len, self._shift + query)

    def all_below(self, query: PrimExpr) -> PrimExpr:
        """Every token below this number is seen by the query."""
        return self._limit(query)

    def none_from(self, query: PrimExpr) -> PrimExpr:
        """No token from this number on is seen by the query."""
        return self._limit(query)

    def sees(self, query: PrimExpr, token: PrimExpr) -> PrimExpr:
        """Whether the token comes before the query's limit."""
        return less(token, self._limit(query))


@dataclass
class Tree:
    """The last tokens of a sequence form a forest, the queries are the last of those. A query sees all
    tokens before the forest, its ancestors and itself.

    `order[indptr[s] + i]` is the half-open interval of numbers that a depth-first walk gives to node i and
    its descendants; a is an ancestor of n (or n itself) where n's first number lies in a's interval.
    """

    indptr: Buffer
    order: Buffer
    _state: dict[str, PrimExpr] = field(default_factory=dict)

    def begin(self, b: StmtBuilder, seq: Var, q_len: PrimExpr, kv_len: PrimExpr) -> None:
        """Bind where the sequence's tree begins among the nodes and among the tokens."""
        first = b.let("tree_begin", self.indptr[seq], "int64")
        size = b.let("tree_size", cast("int64", self.indptr[seq + 1]) - first)
        self._first, self._kv_len = first, kv_len
        self._start = b.let("tree_start", kv_len - size)
        self._older = b.let("older_nodes", size - q_len)

    def all_below(self, query: PrimExpr) -> PrimExpr:
        """Tokens before the tree are seen by all of its nodes."""
        return self._start

    def none_from(self, query: PrimExpr) -> PrimExpr:
        """Tokens end with the sequence."""
        return self._kv_len

    def sees(self, query: PrimExpr, token: PrimExpr) -> PrimExpr:
        """A node sees the tokens before the tree and its own ancestors in it."""
        node = maximum(0, minimum(token, self._kv_len - 1) - self._start)
        number = self.order[self._first + self._older + query, 0]
        inside = all_of(
            greater_equal(number, self.order[self._first + node, 0]),
            less(number, self.order[self._first + node, 1]),
        )
        return all_of(less(token, self._kv_len), any_of(less(token, self._start), inside))
