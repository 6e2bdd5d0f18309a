"""TfIdfVectorizer: how often the n-grams of a list occur in rows of integers or strings.

Each element becomes the number of its word among the words of the list. Where there are few n-grams, all are
compared with all elements. An n-gram of many is found word by word: the number of its first words and that of
the next word are the key of one word more. Keys are found in hash tables that are made here, so that the work
for an element does not grow with the list. What was found is counted in its column.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import reduce
from typing import Any

import numpy as np

from heddle.frontend.onnx.context import NodeContext, Result
from heddle.frontend.onnx.ops.ml.label_encoder import place_of
from heddle.frontend.onnx.ops.tensor.rearrange import slice_of
from heddle.frontend.onnx.ops.text.cuckoo import CuckooTable, cuckoo_table
from heddle.frontend.onnx.ops.text.strings import ndim_of
from heddle.frontend.onnx.registry import converts
from heddle.ir.expr import Expr
from heddle.prim import ops
from heddle.prim.nodes import PrimExpr, constant

Numbers = np.ndarray[Any, np.dtype[np.int64]]


@dataclass(frozen=True, slots=True)
class _Grams:
    """n-grams of one length: the numbers of their words (count, length), and their columns (count,)."""

    words: Numbers
    columns: Numbers


_FEW = 128
"""So many n-grams are compared with each element, in vectors, sooner than looked up."""
_MOST_SKIPS = 255
"""Each distance of two elements is a part of the graph of its own."""


@converts("TfIdfVectorizer", since=9)
def tf_idf(ctx: NodeContext) -> Result:
    """Rows of (n, length), or one row. The elements of an n-gram stand next to each other, or with 1 to
    `max_skip_count` elements between each two."""
    mode = ctx.attr("mode")
    if mode not in ("TF", "IDF", "TFIDF"):
        ctx.malformed(f"mode must be TF, IDF or TFIDF, got {mode!r}")
    words, numbers = np.unique(_pool(ctx), return_inverse=True)
    x, rank = _numbers(ctx, words)
    size = int(np.max(ctx.attr("ngram_indexes"), initial=-1)) + 1
    grams = _grams(ctx, numbers)
    if sum(len(some.columns) for some in grams) <= _FEW:
        counts = _by_comparison(ctx, x, grams, size)
    else:
        counts = _by_lookup(ctx, x, grams, len(words), size)
    made = _weighted(ctx, counts, mode)
    return made if rank == 2 else ctx.reshape(made, (size,))


def _pool(ctx: NodeContext) -> np.ndarray[Any, Any]:
    """All words of all n-grams: int64, or str objects."""
    texts, numbers = ctx.attr("pool_strings", ()), ctx.attr("pool_int64s", ())
    if bool(texts) == bool(numbers):
        ctx.malformed("either pool_strings or pool_int64s must be given")
    if bool(texts) != (ctx.dtype(0) == "string"):
        ctx.malformed(f"the pool has {'strings' if texts else 'integers'}, and the input is {ctx.dtype(0)}")
    return np.asarray(texts, object) if texts else np.asarray(numbers, np.int64)


def _numbers(ctx: NodeContext, words: np.ndarray[Any, Any]) -> tuple[Expr, int]:
    """The numbers of the elements' words as rows (n, length), len(words) for one that is no word; and the
    input's rank."""
    rank = ndim_of(ctx, 0) if words.dtype == object else ctx.ndim(0)
    if rank not in (1, 2):
        ctx.malformed(f"expected one row or rows, got {rank} dimensions")
    if words.dtype == object:
        found = ctx.importer.tensor_of(place_of(ctx, words))
    else:
        found = _search(ctx, ctx.astype(ctx.tensor(0), "int64"), words, cuckoo_table(words))
    return ctx.call("expand_dims", found, axis=(0,)) if rank == 1 else found, rank


def _search(ctx: NodeContext, x: Expr, keys: Numbers, table: CuckooTable) -> Expr:
    """The place of each element in a list of distinct keys, whose table is given; len(keys) for one that is
    none: int64."""
    own = np.append(keys, 0)
    found: Expr = ctx.const(len(keys), "int64")
    for factor, places in zip(table.factors, table.places, strict=True):
        mixed = ctx.call("multiply", x, ctx.const(factor, "int64"))
        high = ctx.call("right_shift", mixed, ctx.const(table.shift, "int64"))
        slot = ctx.call("bitwise_and", high, ctx.const(len(places) - 1, "int64"))
        is_here = ctx.call("equal", _at(ctx, own[places], slot), x)
        here = ctx.call("where", is_here, _at(ctx, places, slot), ctx.const(len(keys), "int64"))
        found = ctx.call("minimum", found, here)
    return found


def _at(ctx: NodeContext, table: Numbers, places: Expr) -> Expr:
    """The elements of a table at places within it."""
    return ctx.call("take", ctx.const(table, "int64"), places, axis=0, mode="fast")


def _grams(ctx: NodeContext, numbers: Numbers) -> list[_Grams]:
    """The n-grams of the lengths that are asked for, by the numbers of the pool's words."""
    starts, columns = ctx.attr("ngram_counts"), np.asarray(ctx.attr("ngram_indexes"), np.int64)
    if columns.size and columns.min() < 0:
        ctx.malformed(f"ngram_indexes has the negative column {columns.min()}")
    found, first = [], 0
    for index, start in enumerate(starts):
        end = starts[index + 1] if index + 1 < len(starts) else len(numbers)
        length = index + 1
        if not 0 <= start <= end <= len(numbers) or (end - start) % length:
            ctx.malformed(f"ngram_counts {list(starts)} do not fit a pool of {len(numbers)}")
        words = numbers[start:end].reshape(-1, length)
        if len(np.unique(words, axis=0)) != len(words):
            ctx.malformed(f"the pool has an n-gram of length {length} twice")
        if len(words) and ctx.attr("min_gram_length") <= length <= ctx.attr("max_gram_length"):
            found.append(_Grams(words, columns[first : first + len(words)]))
        first += len(words)
    if first != len(columns):
        ctx.malformed(f"{len(columns)} columns for {first} n-grams")
    return found


def _rows(ctx: NodeContext, x: Expr, grams: _Grams) -> Iterator[list[Expr]]:
    """For each number of elements between two: the first, second, ... elements (n, places) of what may be an
    n-gram."""
    length, size = grams.words.shape[1], ctx.dims_of(x)[1]
    for step in range(1, 2 if length == 1 else _steps(ctx) + 1):
        (places,) = ctx.importer.named_dims([ops.maximum(size - (length - 1) * step, 0)], "places")
        rows = []
        for index in range(length):
            begin: PrimExpr = ops.minimum(constant(index * step, "int64"), size)
            row = slice_of(ctx, x, [1], [begin], [begin + places], [1])
            rows.append(ctx.reshape(row, (ctx.dims_of(x)[0], places)))
        yield rows


def _steps(ctx: NodeContext) -> int:
    """The largest distance of two elements of an n-gram. Raises: ImportModelError N0106, N0203."""
    skips: int = ctx.attr("max_skip_count")
    if skips < 0:
        ctx.malformed(f"max_skip_count must be at least 0, got {skips}")
    if skips > _MOST_SKIPS:
        ctx.unsupported(f"max_skip_count {skips}, at most {_MOST_SKIPS}")
    return skips + 1


def _by_comparison(ctx: NodeContext, x: Expr, grams: list[_Grams], size: int) -> Expr:
    """The counts (n, size), from comparisons of all elements with all n-grams."""
    parts = []
    for some in grams:
        each_step = [_compared(ctx, rows, some) for rows in _rows(ctx, x, some)]
        parts.append(reduce(lambda a, b: ctx.call("add", a, b), each_step))
    if not parts:
        return ctx.call("zeros", (ctx.dims_of(x)[0], size), dtype="float32")
    counts = parts[0] if len(parts) == 1 else ctx.call("concat", tuple(parts), axis=1)
    columns = np.concatenate([some.columns for some in grams])
    target = np.zeros((len(columns), size), np.float32)
    target[np.arange(len(columns)), columns] = 1
    return ctx.call("matmul", counts, ctx.const(target, "float32"))


def _compared(ctx: NodeContext, rows: list[Expr], grams: _Grams) -> Expr:
    """How often each n-gram is there: (n, count)."""
    places = ctx.dims_of(rows[0])
    same = [
        ctx.call("equal", ctx.reshape(row, (*places, 1)), ctx.const(words, "int64"))
        for row, words in zip(rows, grams.words.T, strict=True)
    ]
    hits = reduce(lambda a, b: ctx.call("logical_and", a, b), same)
    return ctx.call("sum", ctx.astype(hits, "float32"), axis=(1,), keepdims=False)


def _by_lookup(ctx: NodeContext, x: Expr, grams: list[_Grams], num_words: int, size: int) -> Expr:
    """The counts (n, size). One column more takes what is no n-gram."""
    columns = []
    for some in grams:
        tables = _tables(some, num_words, size)
        columns += [_columns(ctx, rows, tables, num_words) for rows in _rows(ctx, x, some)]
    at = columns[0] if len(columns) == 1 else ctx.call("concat", tuple(columns), axis=1)
    zeros = ctx.call("zeros", (ctx.dims_of(x)[0], size + 1), dtype="float32")
    ones = ctx.call("ones", ctx.dims_of(at), dtype="float32")
    counts = ctx.call("scatter_elements", zeros, at, ones, axis=1, reduction="add")
    return slice_of(ctx, counts, [1], [constant(0, "int64")], [constant(size, "int64")], [1])


@dataclass(frozen=True, slots=True)
class _Tables:
    """How n-grams of one length are found. `steps`: for each word after the first, the keys of the words so
    far, and their hash table. `columns`: the column for each number of a last key (of a word, where n-grams
    have one); the last entry is for what is no n-gram."""

    steps: list[tuple[Numbers, CuckooTable]]
    columns: Numbers


def _tables(grams: _Grams, num_words: int, size: int) -> _Tables:
    steps, known, count = [], grams.words[:, 0], num_words
    for words in grams.words.T[1:]:
        keys, known = np.unique(known * (num_words + 1) + words, return_inverse=True)
        steps.append((keys, cuckoo_table(keys)))
        count = len(keys)
    columns = np.full(count + 1, size, np.int64)
    columns[known] = grams.columns
    return _Tables(steps, columns)


def _columns(ctx: NodeContext, rows: list[Expr], tables: _Tables, num_words: int) -> Expr:
    """The column of the n-gram that begins at each place, `size` where none does."""
    found, base = rows[0], ctx.const(num_words + 1, "int64")
    for row, (keys, table) in zip(rows[1:], tables.steps, strict=True):
        found = _search(ctx, ctx.call("add", ctx.call("multiply", found, base), row), keys, table)
    return _at(ctx, tables.columns, found)


def _weighted(ctx: NodeContext, counts: Expr, mode: str) -> Expr:
    """TF: the counts. IDF: the n-gram's weight where there is any. TFIDF: counts times weights."""
    given = ctx.attr("weights", ())
    if mode == "TF":
        return counts
    if mode == "IDF":
        counts = ctx.astype(ctx.call("greater", counts, ctx.const([0], "float32")), "float32")
    if not given:
        return counts
    places = np.asarray(ctx.attr("ngram_indexes"))
    weights = np.zeros(int(places.max(initial=-1)) + 1, np.float32)
    if len(given) != len(places):
        ctx.malformed(f"{len(given)} weights for {len(places)} n-grams")
    weights[places] = given
    return ctx.call("multiply", counts, ctx.const(weights, "float32"))
