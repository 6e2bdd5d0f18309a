"""Tensors of strings: a pair of a shape and an array of texts in row-major order. Lists of words come as JSON
text."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from math import prod
from typing import Any

import numpy as np

from heddle.runtime.shape import Array, Shape, Texts
from heddle.runtime.tensor import Tensor, tensor
from heddle.support.diagnostics import TrapTypeError, TrapValueError
from heddle.vm.builtins.table import builtin
from heddle.vm.codes import V0402, V0403

TextArray = np.ndarray[Any, np.dtype[np.object_]]


def texts_of(value: Any) -> TextArray:
    """A tensor of strings as an array. Raises: TrapTypeError V0402 for anything else."""
    is_pair = isinstance(value, tuple) and len(value) == 2 and isinstance(value[1], tuple)
    if not is_pair or not (type(value[1]) is Texts or all(isinstance(text, str) for text in value[1])):
        raise TrapTypeError(V0402, f"expected a tensor of strings, got {type(value).__name__}")
    shape = tuple(int(size) for size in value[0])
    if prod(shape) != len(value[1]):
        raise TrapTypeError(V0402, f"{len(value[1])} strings are no tensor of shape {shape}")
    made: TextArray = np.empty(len(value[1]), dtype=object)
    made[:] = value[1]
    return made.reshape(shape)


def made_of(texts: TextArray) -> Array:
    """The value that an array of strings is passed as."""
    return _value(texts.shape, texts.reshape(-1).tolist())


def _value(shape: Sequence[int], texts: Iterable[str]) -> Array:
    return Array((Shape(shape), Texts(texts)))


def _broadcast(a: Any, b: Any) -> tuple[TextArray, TextArray]:
    try:
        first, second = np.broadcast_arrays(texts_of(a), texts_of(b))
    except ValueError as error:
        raise TrapValueError(V0403, f"tensors of strings do not broadcast: {error}") from error
    return first, second


@builtin("string_equal")
def string_equal(a: Any, b: Any) -> Tensor:
    """Elementwise, broadcast: bool."""
    first, second = _broadcast(a, b)
    return tensor(np.asarray(first == second, np.bool_))


@builtin("string_concat")
def string_concat(a: Any, b: Any) -> Array:
    """Elementwise, broadcast."""
    first, second = _broadcast(a, b)
    joined: TextArray = np.empty(first.shape, dtype=object)
    joined[...] = first + second
    return made_of(joined)


@builtin("string_split")
def string_split(value: Any, delimiter: str, most: int) -> Array:
    """The parts of every string along a new last axis, filled up with empty ones, and their numbers (int64).
    An empty delimiter means runs of white space; `most` splits at most, any number if negative."""
    texts = texts_of(value)
    parts = [text.split(delimiter or None, most) for text in texts.reshape(-1).tolist()]
    width = max(map(len, parts), default=0)
    fill = [[""] * (width - length) for length in range(width + 1)]
    filled = [text for own in parts for text in (*own, *fill[len(own)])]
    counts = np.asarray([len(own) for own in parts], np.int64).reshape(texts.shape)
    return Array((_value((*texts.shape, width), filled), tensor(counts)))


@builtin("string_normalize")
def string_normalize(value: Any, case: str, is_case_sensitive: int, stopwords: str) -> Array:
    """Strings of (n,) or (1, n) without the stop words, in upper or lower case; one empty string where none
    is left."""
    texts = texts_of(value)
    if texts.ndim not in (1, 2) or (texts.ndim == 2 and texts.shape[0] != 1):
        raise TrapValueError(V0403, f"expected strings of shape (n,) or (1, n), got {texts.shape}")
    plain = str if is_case_sensitive else str.lower
    stops = {plain(word) for word in json.loads(stopwords)}
    change = {"LOWER": str.lower, "UPPER": str.upper}.get(case, str)
    kept = [change(text) for text in texts.reshape(-1).tolist() if plain(text) not in stops] or [""]
    return _value((len(kept),) if texts.ndim == 1 else (1, len(kept)), kept)


@builtin("string_lookup")
def string_lookup(value: Any, words: str) -> Tensor:
    """The place of every string in a list, its length for one that is not there: int64."""
    table = {word: place for place, word in reversed(list(enumerate(json.loads(words))))}
    texts, size = texts_of(value), len(json.loads(words))
    found = [table.get(text, size) for text in texts.reshape(-1).tolist()]
    return tensor(np.asarray(found, np.int64).reshape(texts.shape))


@builtin("string_take")
def string_take(places: Tensor, words: str) -> Array:
    """The words of a list at places. Raises: TrapValueError V0403 for one out of range."""
    table: list[str] = json.loads(words)
    at = places.numpy()
    if at.size and (at.min() < 0 or at.max() >= len(table)):
        raise TrapValueError(V0403, f"a place is out of range: the list has {len(table)} words")
    made: TextArray = np.empty(at.shape, dtype=object)
    made[...] = np.asarray(table, dtype=object)[at] if at.size else ""
    return made_of(made)
