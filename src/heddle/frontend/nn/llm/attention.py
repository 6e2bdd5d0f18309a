"""The loop nest that all attention kernels share: online softmax over steps of cached tokens.

For each row (a query token and a query head) the kernels compute, with s = (q · k) · sm_scale · log2 e,

    output = Σ 2^(s_j − lse) v_j,   lse = log2 Σ 2^(s_j)         over the tokens j that the row sees.

The running maximum m, the running sum l and the unnormalised output are corrected by 2^(m_old − m_new) at
each step (Milakov and Gimelshein 2018; Dao et al. 2022, FlashAttention, algorithm 1). Everything is float32
inside. A row that sees nothing gives zeros and `EMPTY_LSE`.

A task is one sequence, one head of keys, and up to `Tiling.rows` rows: the query heads that share the head
of keys, for several tokens. It copies its queries, then for each step of tokens keys and values into
scratch memory of its own (so page look-ups, casts and rotations are done once), and works on
`Tiling.block` rows at a time in registers. Tasks run in parallel; nothing is allocated inside.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

from heddle.frontend.nn.llm.rope import Rope, copy_features
from heddle.frontend.nn.llm.vectors import (
    MAX_LANES,
    as_float32,
    lane_max,
    lane_sum,
    lanes_of,
    load,
    ramp,
    splat,
    store,
)
from heddle.prim.intrinsics import exp2, log2
from heddle.prim.nodes import PrimExpr, Var, constant
from heddle.prim.ops import add, cast, ceildiv, floordiv, floormod, greater, less, maximum, minimum, select
from heddle.support.frozen import frozen
from heddle.tir.builder import StmtBuilder
from heddle.tir.nodes import Buffer, BufferLoad, ForKind
from heddle.vm.builtins.kv_cache import EMPTY_LSE

_HIDDEN = -3e38
_KEEP_LOOP = {"disable_unroll": True}


@frozen(slots=False)
class Heads:
    """Sizes of one attention. Query head h reads head h // `group` of keys and values."""

    num_kv: int
    num_qo: int
    qk_dim: int
    v_dim: int

    @property
    def group(self) -> int:
        """How many query heads share one key head."""
        return self.num_qo // self.num_kv


@frozen(slots=False)
class Tiling:
    """`rows` of a task, `block` rows in registers, `tokens` a step. `transposed`: keys lie feature by
    feature in scratch memory, which makes scores a product of columns; worth it for many rows.
    """

    rows: int
    block: int
    tokens: int
    transposed: bool


PREFILL = Tiling(rows=64, block=8, tokens=32, transposed=True)


def decode_tiling(heads: Heads) -> Tiling:
    """One query token a sequence: few rows, so no transposition."""
    block = min(heads.group, 8)
    return Tiling(-(-heads.group // block) * block, block, MAX_LANES, transposed=False)


class Keys(Protocol):
    """Where keys and values of a sequence come from. A place is what `locate` found out about a token."""

    def length(self, b: StmtBuilder, seq: Var) -> PrimExpr:
        """How many tokens the sequence `seq` has, as int64; what the other methods need is bound in `b`."""

    def locate(self, b: StmtBuilder, seq: Var, token: PrimExpr) -> Any:
        """Where the keys of a token lie: what `key` and `value` take as `place`."""

    def key(self, place: Any, head: Var, index: PrimExpr) -> PrimExpr:
        """Element `index` of a token's key for one head, in the dtype of the memory."""

    def value(self, place: Any, head: Var, index: PrimExpr) -> PrimExpr:
        """Element `index` of a token's value for one head, in the dtype of the memory."""


class Sight(Protocol):
    """Which tokens a query sees. Bounds may be too wide, never too narrow; queries are numbered within
    their sequence."""

    def begin(self, b: StmtBuilder, seq: Var, q_len: PrimExpr, kv_len: PrimExpr) -> None:
        """Bind what depends on the sequence: its number of queries and of keys."""

    def all_below(self, query: PrimExpr) -> PrimExpr:
        """Every query from this one on sees all tokens below the result."""
        ...

    def none_from(self, query: PrimExpr) -> PrimExpr:
        """No query up to this one sees a token from the result on."""
        ...

    def sees(self, query: PrimExpr, token: PrimExpr) -> PrimExpr:
        """A bool: whether query `query` of the sequence may look at token `token`."""


@frozen(slots=False)
class Rotation:
    """Rotation of queries and keys while they are read, where `enabled` is 1. `query_position` is by query
    token, `key_position` by sequence and token of the sequence.
    """

    rope: Rope
    enabled: Var
    scale: Var
    theta: Var
    query_position: Buffer
    key_position: Callable[[Var, PrimExpr], PrimExpr]


@dataclass
class Attention:
    """One kernel's parts. `q` is (tokens, query heads, features); query tokens of sequence s are
    [`q_begin(s)`, `q_begin(s + 1)`), and `max_q_len` bounds their number.
    """

    heads: Heads
    tiling: Tiling
    num_seqs: PrimExpr
    q: Buffer
    q_indptr: Buffer | None
    max_q_len: PrimExpr
    keys: Keys
    sight: Sight
    output: Buffer
    lse: Buffer
    sm_scale: PrimExpr
    rotation: Rotation | None = None

    def emit(self, b: StmtBuilder) -> None:
        """The whole kernel's loops."""
        frequencies = self._frequencies(b)
        heads, tiling = self.heads, self.tiling
        per_seq = b.let("tasks_per_head", ceildiv(cast("int64", self.max_q_len) * heads.group, tiling.rows))
        tasks = cast("int64", self.num_seqs) * heads.num_kv * per_seq
        with b.loop("task", tasks, ForKind.PARALLEL) as task:
            seq = b.let("seq", floordiv(task, per_seq * heads.num_kv))
            head = b.let("head", floormod(floordiv(task, per_seq), heads.num_kv))
            first = b.let("first_row", floormod(task, per_seq) * tiling.rows)
            begin, length = self._query_range(b, seq)
            num_rows = b.let("num_rows", length * heads.group)
            with b.when(less(first, num_rows)):
                _Task(self, b, frequencies, seq, head, first, begin, length, num_rows).emit()

    def _query_range(self, b: StmtBuilder, seq: Var) -> tuple[Var, Var]:
        if self.q_indptr is None:
            return b.let("q_begin", seq), b.let("q_len", constant(1, "int64"))
        begin = b.let("q_begin", self.q_indptr[seq], "int64")
        return begin, b.let("q_len", cast("int64", self.q_indptr[seq + 1]) - begin)

    def _frequencies(self, b: StmtBuilder) -> Buffer | None:
        rotation = self.rotation
        return None if rotation is None else rotation.rope.emit_frequencies(b, rotation.theta)


class _Task:
    """Builds one task."""

    def __init__(
        self,
        attention: Attention,
        b: StmtBuilder,
        frequencies: Buffer | None,
        seq: Var,
        head: Var,
        first: Var,
        q_begin: Var,
        q_len: Var,
        num_rows: Var,
    ) -> None:
        self.a, self.b, self.frequencies = attention, b, frequencies
        self.seq, self.head, self.first = seq, head, first
        self.q_begin, self.q_len, self.num_rows = q_begin, q_len, num_rows
        heads, tiling = attention.heads, attention.tiling
        self.d_qk, self.d_v = heads.qk_dim, heads.v_dim
        self.block, self.tokens = tiling.block, tiling.tokens
        self.queries = self._scratch("queries", tiling.rows * heads.qk_dim)
        self.result = self._scratch("result", tiling.rows * heads.v_dim)
        self.maximum = self._scratch("maximum", tiling.rows)
        self.total = self._scratch("total", tiling.rows)
        self.key_tile = self._scratch("key_tile", tiling.tokens * heads.qk_dim)
        self.value_tile = self._scratch("value_tile", tiling.tokens * heads.v_dim)
        self.weights = self._scratch("weights", tiling.block * tiling.tokens)

    def _scratch(self, name: str, size: int) -> Buffer:
        return self.b.alloc(name, (size,), "float32", "stack" if size * 4 <= 4096 else "workspace")

    def emit(self) -> None:
        b, a = self.b, self.a
        rows = b.let("rows", minimum(self.num_rows - self.first, constant(a.tiling.rows, "int64")))
        blocks = b.let("blocks", ceildiv(rows, self.block))
        self._load_queries(blocks)
        kv_len = b.let("kv_len", a.keys.length(b, self.seq))
        a.sight.begin(b, self.seq, self.q_len, kv_len)
        last = floordiv(self.first + rows - 1, a.heads.group)
        end = b.let("end", minimum(kv_len, a.sight.none_from(last)))
        with b.loop("step", ceildiv(maximum(end, 0), self.tokens)) as step:
            start = b.let("start", step * self.tokens)
            count = b.let("count", minimum(end - start, constant(self.tokens, "int64")))
            self._load_tokens(start, count)
            with b.loop("block", blocks) as block:
                self._visit_block(block, start, count)
        self._write(rows)

    # ---- copying in

    def _load_queries(self, blocks: Var) -> None:
        """Rows beyond the last repeat it, so that blocks are full."""
        b, a = self.b, self.a
        factor = a.sm_scale * math.log2(math.e)
        with b.loop("row", blocks * self.block) as row:
            at = b.let("at", minimum(self.first + row, self.num_rows - 1))
            token = b.let("token", self.q_begin + floordiv(at, a.heads.group))
            q_head = b.let("q_head", self.head * a.heads.group + floormod(at, a.heads.group))

            def source(index: PrimExpr) -> PrimExpr:
                return BufferLoad(a.q, (token, q_head, index))

            def write(index: PrimExpr, value: PrimExpr) -> None:
                scaled = value * splat(factor, value.dtype.lanes)
                store(b, self.queries, [_moved(index, row * self.d_qk)], scaled)

            self._row(source, write, self.d_qk, lambda rotation: rotation.query_position[token])
            b.store(self.maximum, [row], constant(EMPTY_LSE, "float32"))
            b.store(self.total, [row], constant(0.0, "float32"))
            lanes = lanes_of(self.d_v)
            with b.loop("chunk", self.d_v // lanes, notes=_KEEP_LOOP) as chunk:
                zeros = splat(constant(0.0, "float32"), lanes)
                store(b, self.result, [ramp(row * self.d_v + chunk * lanes, lanes)], zeros)

    def _row(self, source: Any, write: Any, dim: int, position: Any) -> None:
        """Copy a row, rotated where the kernel rotates."""
        b, rotation = self.b, self.a.rotation
        if rotation is None:
            copy_features(b, source, write, 0, dim)
            return
        assert self.frequencies is not None
        with b.when(rotation.enabled.equal(1)):
            scaled = b.let("position", cast("float32", position(rotation)) * rotation.scale)
            rotation.rope.emit_row(b, source, write, scaled, self.frequencies)
        with b.otherwise():
            copy_features(b, source, write, 0, dim)

    def _load_tokens(self, start: Var, count: Var) -> None:
        """Keys and values of a step. Tokens beyond the last repeat it: finite, and hidden later."""
        b, a = self.b, self.a
        staged = self._scratch("key_row", self.d_qk) if a.tiling.transposed else None
        with b.loop("t", self.tokens, notes=_KEEP_LOOP) as t:
            token = b.let("token", start + minimum(t, count - 1))
            place = a.keys.locate(b, self.seq, token)

            def write_key(index: PrimExpr, value: PrimExpr) -> None:
                target, at = (self.key_tile, t * self.d_qk) if staged is None else (staged, 0)
                store(b, target, [_moved(index, at)], value)

            def write_value(index: PrimExpr, value: PrimExpr) -> None:
                store(b, self.value_tile, [_moved(index, t * self.d_v)], value)

            def position(rotation: Rotation) -> PrimExpr:
                return rotation.key_position(self.seq, token)

            self._row(lambda i: a.keys.key(place, self.head, i), write_key, self.d_qk, position)
            copy_features(b, lambda i: a.keys.value(place, self.head, i), write_value, 0, self.d_v)
            if staged is not None:
                with b.loop("feature", self.d_qk, notes=_KEEP_LOOP) as feature:
                    b.store(self.key_tile, [feature * self.tokens + t], staged[feature])

    # ---- one block of rows, one step of tokens

    def _visit_block(self, block: Var, start: Var, count: Var) -> None:
        b = self.b
        row = b.let("block_row", block * self.block)
        scores = b.alloc("scores", (self.block * self.tokens,), "float32", "stack")
        if self.a.tiling.transposed:
            self._scores_by_columns(scores, row)
        else:
            self._scores_by_rows(scores, row, count)
        self._hide(scores, row, start)
        corrections = [self._softmax(scores, row, r) for r in range(self.block)]
        self._accumulate(row, count, corrections)

    def _scores_by_columns(self, scores: Buffer, row: Var) -> None:
        """scores[r, :] = Σ_d q[r, d] · keys[d, :]"""
        b, width = self.b, self.tokens
        zeros = splat(constant(0.0, "float32"), width)
        for r in range(self.block):
            store(b, scores, [ramp(r * width, width)], zeros)
        with b.loop("feature", self.d_qk, notes=_KEEP_LOOP) as feature:
            column = b.let("column", load(self.key_tile, feature * width, width))
            for r in range(self.block):
                query = splat(self.queries[(row + r) * self.d_qk + feature], width)
                store(b, scores, [ramp(r * width, width)], load(scores, r * width, width) + query * column)

    def _scores_by_rows(self, scores: Buffer, row: Var, count: Var) -> None:
        """scores[r, t] = Σ_d q[r, d] · keys[t, d], lanes over d"""
        b, lanes = self.b, lanes_of(self.d_qk)
        zeros = splat(constant(0.0, "float32"), self.tokens)
        for r in range(self.block):
            store(b, scores, [ramp(r * self.tokens, self.tokens)], zeros)
        sums = b.alloc("sums", (self.block * lanes,), "float32", "stack")
        with b.loop("t", count) as t:
            for r in range(self.block):
                store(b, sums, [ramp(r * lanes, lanes)], splat(constant(0.0, "float32"), lanes))
            with b.loop("chunk", self.d_qk // lanes, notes=_KEEP_LOOP) as chunk:
                key = b.let("key", load(self.key_tile, t * self.d_qk + chunk * lanes, lanes))
                for r in range(self.block):
                    query = load(self.queries, (row + r) * self.d_qk + chunk * lanes, lanes)
                    store(b, sums, [ramp(r * lanes, lanes)], load(sums, r * lanes, lanes) + query * key)
            for r in range(self.block):
                b.store(scores, [t + r * self.tokens], lane_sum(b, load(sums, r * lanes, lanes)))

    def _hide(self, scores: Buffer, row: Var, start: Var) -> None:
        """Scores of tokens that a row does not see, and of those beyond the last, become hugely
        negative."""
        b, a = self.b, self.a
        base = b.let("base", self.first + row)
        seen_by_all = a.sight.all_below(floordiv(base, a.heads.group))
        with b.when(greater(start + self.tokens, seen_by_all)):
            for r in range(self.block):
                query = b.let("query", floordiv(minimum(base + r, self.num_rows - 1), a.heads.group))
                with b.loop("lane", self.tokens, ForKind.VECTORIZED) as lane:
                    seen = a.sight.sees(query, start + lane)
                    at = r * self.tokens + lane
                    b.store(scores, [at], select(seen, scores[at], constant(_HIDDEN, "float32")))

    def _softmax(self, scores: Buffer, row: Var, r: int) -> PrimExpr:
        """Turn a row's scores into weights; gives the factor that corrects what was summed before."""
        b, width = self.b, self.tokens
        mine = b.let("mine", load(scores, r * width, width))
        old = b.let("old", self.maximum[row + r])
        new = b.let("new", maximum(old, lane_max(b, mine)))
        correction = b.let("correction", exp2(old - new))
        weights = b.let("weight", exp2(mine - splat(new, width)))
        store(b, self.weights, [ramp(r * width, width)], weights)
        b.store(self.total, [row + r], self.total[row + r] * correction + lane_sum(b, weights))
        b.store(self.maximum, [row + r], new)
        return correction

    def _accumulate(self, row: Var, count: Var, corrections: list[PrimExpr]) -> None:
        """result[r, :] = result[r, :] · correction[r] + Σ_t weights[r, t] · values[t, :]"""
        b, lanes = self.b, lanes_of(self.d_v)
        if lanes == MAX_LANES and self.d_v % (2 * lanes) == 0:
            lanes *= 2  # two vectors a row hide the latency of the multiply-adds
        sums = b.alloc("sums", (self.block * lanes,), "float32", "stack")
        with b.loop("chunk", self.d_v // lanes, notes=_KEEP_LOOP) as chunk:
            places = [(row + r) * self.d_v + chunk * lanes for r in range(self.block)]
            for r, place in enumerate(places):
                before = load(self.result, place, lanes) * splat(corrections[r], lanes)
                store(b, sums, [ramp(r * lanes, lanes)], before)
            with b.loop("t", count) as t:
                value = b.let("value", load(self.value_tile, t * self.d_v + chunk * lanes, lanes))
                for r in range(self.block):
                    weight = splat(self.weights[t + r * self.tokens], lanes)
                    store(b, sums, [ramp(r * lanes, lanes)], load(sums, r * lanes, lanes) + weight * value)
            for r, place in enumerate(places):
                store(b, self.result, [ramp(place, lanes)], load(sums, r * lanes, lanes))

    # ---- copying out

    def _write(self, rows: Var) -> None:
        b, a, lanes = self.b, self.a, lanes_of(self.d_v)
        with b.loop("row", rows) as row:
            at = b.let("at", self.first + row)
            token = b.let("token", self.q_begin + floordiv(at, a.heads.group))
            q_head = b.let("q_head", self.head * a.heads.group + floormod(at, a.heads.group))
            total = b.let("sum", self.total[row])
            some = b.let("some", greater(total, constant(0.0, "float32")))
            safe = b.let("safe", select(some, total, constant(1.0, "float32")))
            with b.loop("chunk", self.d_v // lanes, notes=_KEEP_LOOP) as chunk:
                value = load(self.result, row * self.d_v + chunk * lanes, lanes) / splat(safe, lanes)
                store(b, a.output, [token, q_head, ramp(chunk * lanes, lanes)], as_float32(value))
            lse = self.maximum[row] + log2(safe)
            b.store(a.lse, [token, q_head], select(some, lse, constant(EMPTY_LSE, "float32")))


def _moved(index: PrimExpr, by: Any) -> PrimExpr:
    """An index or a ramp of indices, shifted."""
    return add(index, splat(by if isinstance(by, PrimExpr) else constant(by, "int64"), index.dtype.lanes))
