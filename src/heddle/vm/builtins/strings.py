"""Tensors of strings: a pair of a shape and an array of texts in row-major order. Lists of words come as JSON
text."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from functools import lru_cache
from itertools import filterfalse, repeat
from math import prod
from operator import add, eq
from typing import Any

import numpy as np

from heddle.runtime.shape import Array, Shape, Texts, TextTensor
from heddle.runtime.tensor import Tensor, tensor
from heddle.support.diagnostics import TrapTypeError, TrapValueError
from heddle.vm.builtins.regex import PatternError, compile_pattern
from heddle.vm.builtins.table import builtin
from heddle.vm.codes import V0402, V0403

TextArray = np.ndarray[Any, np.dtype[np.object_]]
Lengths = np.ndarray[Any, np.dtype[np.int64]]


def shape_and_texts(value: Any) -> tuple[tuple[int, ...], tuple[str, ...]]:
    """The parts of a tensor of strings. Raises: TrapTypeError V0402 for anything else."""
    is_pair = isinstance(value, tuple) and len(value) == 2 and isinstance(value[1], tuple)
    if not is_pair or not (type(value[1]) is Texts or all(isinstance(text, str) for text in value[1])):
        raise TrapTypeError(V0402, f"expected a tensor of strings, got {type(value).__name__}")
    shape = tuple(map(int, value[0]))
    if prod(shape) != len(value[1]):
        raise TrapTypeError(V0402, f"{len(value[1])} strings are no tensor of shape {shape}")
    return shape, value[1]


def texts_of(value: Any) -> TextArray:
    """A tensor of strings as an array. Raises: TrapTypeError V0402 for anything else."""
    shape, texts = shape_and_texts(value)
    made: TextArray = np.empty(len(texts), dtype=object)
    made[:] = texts
    return made.reshape(shape)


def made_of(texts: TextArray) -> TextTensor:
    """The value that an array of strings is passed as."""
    return _value(texts.shape, texts.reshape(-1).tolist())


def _value(shape: Sequence[int], texts: Iterable[str]) -> TextTensor:
    return TextTensor((Shape(shape), Texts(texts)))


def _paired(a: Any, b: Any) -> tuple[tuple[int, ...], Sequence[str], Sequence[str]]:
    """Two tensors of strings broadcast: their shape, and the texts of both."""
    (shape, first), (other, second) = shape_and_texts(a), shape_and_texts(b)
    if shape == other:
        return shape, first, second
    try:
        x, y = np.broadcast_arrays(texts_of(a), texts_of(b))
    except ValueError as error:
        raise TrapValueError(V0403, f"tensors of strings do not broadcast: {error}") from error
    return x.shape, x.reshape(-1).tolist(), y.reshape(-1).tolist()


@lru_cache(maxsize=64)
def _words(text: str) -> tuple[str, ...]:
    """The words of a list."""
    return tuple(json.loads(text))


@lru_cache(maxsize=64)
def _place_of_word(text: str) -> dict[str, int]:
    """Word → its first place in a list."""
    return {word: place for place, word in reversed(list(enumerate(_words(text))))}


@lru_cache(maxsize=64)
def _stops(text: str, is_case_sensitive: bool) -> frozenset[str]:
    """The words of a list, in lower case unless it counts."""
    words = _words(text)
    return frozenset(words if is_case_sensitive else map(str.lower, words))


@builtin("string_equal")
def string_equal(a: Any, b: Any) -> Tensor:
    """Elementwise, broadcast: bool."""
    shape, first, second = _paired(a, b)
    return tensor(np.array(list(map(eq, first, second)), np.bool_).reshape(shape), copy=False)


@builtin("string_concat")
def string_concat(a: Any, b: Any) -> Array:
    """Elementwise, broadcast."""
    shape, first, second = _paired(a, b)
    return _value(shape, map(add, first, second))


@builtin("string_split")
def string_split(value: Any, delimiter: str, most: int) -> Array:
    """The parts of every string along a new last axis, filled up with empty ones, and their numbers (int64).
    An empty delimiter means runs of white space; `most` splits at most, any number if negative."""
    shape, texts = shape_and_texts(value)
    whole = "\0".join(texts) if delimiter and most < 0 else ""
    if whole and "\0" not in delimiter and whole.count("\0") == len(texts) - 1:
        numbers = list(map(str.count, texts, repeat(delimiter)))
        flat, width = _split_together(whole, texts, numbers, delimiter)
        lengths = np.array(numbers, np.int64) + 1
    else:
        flat, width, lengths = _split_apart(texts, delimiter, most)
    counts = lengths.reshape(shape)
    return Array((_value((*shape, width), flat), tensor(counts, copy=False)))


def _split_together(
    whole: str, texts: Sequence[str], numbers: Sequence[int], delimiter: str
) -> tuple[list[str], int]:
    """The parts of all texts and the greatest number of them, in one pass: `whole` has a zero character
    between texts and none within, and more of them fill up the texts of fewer parts."""
    most = max(numbers)
    if min(numbers) < most:
        fill = ["\0" * (most - number) for number in range(most + 1)]
        whole = "\0".join(map(add, texts, map(fill.__getitem__, numbers)))
    return whole.replace(delimiter, "\0").split("\0"), most + 1


def _split_apart(texts: Iterable[str], delimiter: str, most: int) -> tuple[list[str], int, Lengths]:
    """The parts of all texts, the greatest number of them, and the numbers: one text after the other."""
    flat, lengths = list[str](), list[int]()
    for text in texts:  # no list stays: thousands of them would call the collector again and again
        parts = text.split(delimiter or None, most)
        flat += parts
        lengths.append(len(parts))
    width = max(lengths, default=0)
    return _filled(flat, lengths, width), width, np.array(lengths, np.int64)


def _filled(flat: list[str], lengths: list[int], width: int) -> list[str]:
    """Runs of texts, of these lengths, each made as long as `width` by empty texts."""
    if len(flat) == width * len(lengths):
        return flat
    fill = [[""] * (width - length) for length in range(width + 1)]
    made, begin = list[str](), 0
    for length in lengths:
        made += flat[begin : begin + length]
        made += fill[length]
        begin += length
    return made


_CHANGES = {"LOWER": str.lower, "UPPER": str.upper}


@builtin("string_normalize")
def string_normalize(value: Any, case: str, is_case_sensitive: int, stopwords: str) -> Array:
    """Strings of (n,) or (1, n) without the stop words, in upper or lower case; one empty string where none
    is left."""
    shape, texts = shape_and_texts(value)
    if len(shape) not in (1, 2) or (len(shape) == 2 and shape[0] != 1):
        raise TrapValueError(V0403, f"expected strings of shape (n,) or (1, n), got {shape}")
    stops = _stops(stopwords, bool(is_case_sensitive))
    is_lowered = case == "LOWER" and not is_case_sensitive  # what is compared is what is given
    found: Iterable[str] = map(str.lower, texts) if is_lowered else texts
    if stops and (is_case_sensitive or is_lowered):
        found = filterfalse(stops.__contains__, found)
    elif stops:
        found = [text for text in found if text.lower() not in stops]
    change = None if is_lowered else _CHANGES.get(case)
    kept = list(found if change is None else map(change, found)) or [""]
    return _value((len(kept),) if len(shape) == 1 else (1, len(kept)), kept)


@builtin("string_lookup")
def string_lookup(value: Any, words: str) -> Tensor:
    """The place of every string in a list, its length for one that is not there: int64."""
    table, size = _place_of_word(words), len(_words(words))
    shape, texts = shape_and_texts(value)
    places = np.array([table.get(text, size) for text in texts], np.int64)
    return tensor(places.reshape(shape), copy=False)


@builtin("string_take")
def string_take(places: Tensor, words: str) -> Array:
    """The words of a list at places. Raises: TrapValueError V0403 for one out of range."""
    table = _words(words)
    at = places.numpy()
    if at.size and (at.min() < 0 or at.max() >= len(table)):
        raise TrapValueError(V0403, f"a place is out of range: the list has {len(table)} words")
    made: TextArray = np.empty(at.shape, dtype=object)
    made[...] = np.asarray(table, dtype=object)[at] if at.size else ""
    return made_of(made)


@builtin("string_full_match")
def string_full_match(value: Any, pattern: str) -> Tensor:
    """Whether all of every string matches a regular expression, in time that grows linearly with it: bool.
    Raises: TrapValueError V0403 for a malformed pattern."""
    shape, texts = shape_and_texts(value)
    try:
        matches = compile_pattern(pattern).fullmatch
    except PatternError as error:
        raise TrapValueError(V0403, f"pattern {pattern[:80]!r}: {error}") from error
    return tensor(np.array(list(map(matches, texts)), np.bool_).reshape(shape), copy=False)
