"""Tensors of strings: a pair of a shape and an array of texts in row-major order. Lists of words come as JSON
text."""

from __future__ import annotations

import json
from array import array
from collections.abc import Iterable, Sequence
from functools import lru_cache
from itertools import filterfalse, repeat
from math import prod
from operator import add, eq
from typing import Any

import numpy as np

from heddle.runtime.number_tensors import tensor_of_numbers
from heddle.runtime.shape import Array, Shape, Texts, TextTensor
from heddle.runtime.tensor import Tensor
from heddle.support.diagnostics import TrapTypeError, TrapValueError
from heddle.vm.builtins.regex import PatternError, compile_pattern
from heddle.vm.builtins.table import builtin
from heddle.vm.codes import V0402, V0403

TextArray = np.ndarray[Any, np.dtype[np.object_]]
Codes = np.ndarray[Any, np.dtype[np.uint8]]
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
    return tensor_of_numbers(map(eq, first, second), shape, "bool")


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
    found: tuple[list[str], Sequence[int]] | None = None
    if len(texts) < _FEW:
        found = _split_few(texts, delimiter or None, most)
    elif delimiter and most < 0:
        found = _split_together(texts, delimiter)
    flat, lengths = found or _split_apart(texts, delimiter or None, most)
    parts = _value((*shape, len(flat) // len(texts) if texts else 0), flat)
    return Array((parts, tensor_of_numbers(lengths, shape)))


_FEW = 300
"""Fewer texts than these are split one after the other: the steps for many take as long for a few."""
_MOST_CHARACTERS = 1 << 24
"""So many are split in one pass, which takes eight bytes for each of them."""


def _split_few(texts: Iterable[str], delimiter: str | None, most: int) -> tuple[list[str], list[int]]:
    """The parts of all texts, each text's filled up with empty ones, and their numbers."""
    parts = [text.split(delimiter, most) for text in texts]
    lengths = list(map(len, parts))
    width = max(lengths, default=0)
    flat, blank = list[str](), ("",) * width
    for found in parts:
        flat += found
        if len(found) < width:
            flat += blank[len(found) :]
    return flat, lengths


def _split_together(texts: Sequence[str], delimiter: str) -> tuple[list[str], Sequence[int]] | None:
    """As `_split_few`, in one pass over all: between texts stands the character 0, between parts 1. None
    where one of them is in a text or the delimiter, and for very long texts.

    Where numbers differ, more of the characters follow a text of fewer parts. They are one byte in UTF-8 and
    nowhere a part of another character's bytes.
    """
    whole = "\0".join(texts)
    is_marked = "\0" in delimiter or "\1" in whole or whole.count("\0") != len(texts) - 1
    if is_marked or len(whole) > _MOST_CHARACTERS:
        return None
    marked = whole.replace(delimiter, "\1")
    codes: Codes = np.frombuffer(bytearray(marked, "utf-8", "surrogatepass"), np.uint8)
    cuts = np.flatnonzero(codes <= 1)
    is_end = codes[cuts] == 0
    lengths: Lengths = np.diff(np.flatnonzero(is_end), prepend=-1, append=len(cuts))
    most = int(lengths.max())
    if int(lengths.min()) == most:
        return marked.replace("\1", "\0").split("\0"), array("q", lengths.tobytes())
    codes[cuts] = 0
    times = np.ones(len(codes), np.int64)
    times[cuts[is_end]] += most - lengths[:-1]
    filled = np.repeat(codes, times).tobytes() + bytes(most - int(lengths[-1]))
    return filled.decode("utf-8", "surrogatepass").split("\0"), array("q", lengths.tobytes())


def _split_apart(texts: Iterable[str], delimiter: str | None, most: int) -> tuple[list[str], list[int]]:
    """As `_split_few`. No list stays: thousands of them would call the collector again and again."""
    flat, lengths = list[str](), list[int]()
    for text in texts:
        parts = text.split(delimiter, most)
        flat += parts
        lengths.append(len(parts))
    return _filled(flat, lengths, max(lengths)), lengths


def _filled(flat: list[str], lengths: list[int], width: int) -> list[str]:
    """Runs of texts, of these lengths, each made as long as `width` by empty texts."""
    if len(flat) == width * len(lengths):
        return flat
    blank, made, begin = ("",) * width, list[str](), 0
    for length in lengths:
        end = begin + length
        made += flat[begin:end]
        if length < width:
            made += blank[length:]
        begin = end
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
    return tensor_of_numbers(map(table.get, texts, repeat(size)), shape)


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
    return tensor_of_numbers(map(bool, map(matches, texts)), shape, "bool")
