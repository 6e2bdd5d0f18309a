"""Builtins for tensors of strings: pairs of a shape and an array of texts in row-major order. Word lists are
passed as JSON text."""

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
    """Return the shape and the texts of a tensor of strings. Raises: TrapTypeError V0402 for another
    value.
    """
    is_pair = isinstance(value, tuple) and len(value) == 2 and isinstance(value[1], tuple)
    if not is_pair or not (type(value[1]) is Texts or all(isinstance(text, str) for text in value[1])):
        raise TrapTypeError(V0402, f"expected a tensor of strings, got {type(value).__name__}")
    shape = tuple(map(int, value[0]))
    if prod(shape) != len(value[1]):
        raise TrapTypeError(V0402, f"{len(value[1])} strings are no tensor of shape {shape}")
    return shape, value[1]


def texts_of(value: Any) -> TextArray:
    """Return a tensor of strings as a numpy array. Raises: TrapTypeError V0402 for another value."""
    shape, texts = shape_and_texts(value)
    made: TextArray = np.empty(len(texts), dtype=object)
    made[:] = texts
    return made.reshape(shape)


def made_of(texts: np.ndarray[Any, Any]) -> TextTensor:
    """Return the runtime value of an array of strings, or of other elements, whose `str` it takes."""
    return _value(texts.shape, map(str, texts.reshape(-1).tolist()))


def _value(shape: Sequence[int], texts: Iterable[str]) -> TextTensor:
    return TextTensor((Shape(shape), Texts(texts)))


def _paired(a: Any, b: Any) -> tuple[tuple[int, ...], Sequence[str], Sequence[str]]:
    """Broadcast two tensors of strings. Return their common shape, and the texts of both."""
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
    """Return the words of a JSON list."""
    return tuple(json.loads(text))


@lru_cache(maxsize=64)
def _place_of_word(text: str) -> dict[str, int]:
    """Return a map from each word of a list to its first index."""
    return {word: place for place, word in reversed(list(enumerate(_words(text))))}


@lru_cache(maxsize=64)
def _stops(text: str, is_case_sensitive: bool) -> frozenset[str]:
    """Return the stop words of a list, in lower case unless case matters."""
    words = _words(text)
    return frozenset(words if is_case_sensitive else map(str.lower, words))


@builtin("string_equal")
def string_equal(a: Any, b: Any) -> Tensor:
    """Compare two tensors of strings elementwise, with broadcasting. The result is bool."""
    shape, first, second = _paired(a, b)
    return tensor_of_numbers(map(eq, first, second), shape, "bool")


@builtin("string_concat")
def string_concat(a: Any, b: Any) -> Array:
    """Concatenate two tensors of strings elementwise, with broadcasting."""
    shape, first, second = _paired(a, b)
    return _value(shape, map(add, first, second))


@builtin("string_split")
def string_split(value: Any, delimiter: str, most: int) -> Array:
    """Split every string. Return the parts along a new last axis, padded with empty strings, and the number
    of parts of each string (int64). An empty delimiter means runs of white space. `most` is the maximum
    number of splits; negative means no limit."""
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
"""Below this number, texts are split one after the other: splitting together has a fixed cost."""
_MOST_CHARACTERS = 1 << 24
"""The maximum number of characters that are split in one pass, which needs eight bytes for each."""


def _split_few(texts: Iterable[str], delimiter: str | None, most: int) -> tuple[list[str], list[int]]:
    """Split texts one by one. Return the parts of all texts, padded with empty strings to equal number, and
    the number of parts of each."""
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
    """Like `_split_few`, in one pass over the joined texts: character 0 separates texts, character 1
    separates parts. Return None if a text or the delimiter contains one of them, and for very long texts.

    A text with fewer parts than others is followed by more separators, to pad it. Both characters are single
    bytes in UTF-8 and never part of another character.
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
    """Like `_split_few`, without keeping a list per text: thousands of lists would trigger the garbage
    collector repeatedly."""
    flat, lengths = list[str](), list[int]()
    for text in texts:
        parts = text.split(delimiter, most)
        flat += parts
        lengths.append(len(parts))
    return _filled(flat, lengths, max(lengths)), lengths


def _filled(flat: list[str], lengths: list[int], width: int) -> list[str]:
    """Pad runs of texts with empty strings to `width` each. `lengths` are the lengths of the runs."""
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
    """Remove stop words from strings of shape (n,) or (1, n), and convert the rest to upper or lower case. If
    nothing is left, the result is one empty string."""
    shape, texts = shape_and_texts(value)
    if len(shape) not in (1, 2) or (len(shape) == 2 and shape[0] != 1):
        raise TrapValueError(V0403, f"expected strings of shape (n,) or (1, n), got {shape}")
    stops = _stops(stopwords, bool(is_case_sensitive))
    is_lowered = case == "LOWER" and not is_case_sensitive  # compared before the case is changed
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
    """Return the index of every string in a word list as int64; the list's length if it is not in the
    list.
    """
    table, size = _place_of_word(words), len(_words(words))
    shape, texts = shape_and_texts(value)
    return tensor_of_numbers(map(table.get, texts, repeat(size)), shape)


@builtin("string_take")
def string_take(places: Tensor, words: str) -> Array:
    """Return the words of a list at given indices. Raises: TrapValueError V0403 for an index out of range."""
    table = _words(words)
    at = places.numpy()
    if at.size and (at.min() < 0 or at.max() >= len(table)):
        raise TrapValueError(V0403, f"a place is out of range: the list has {len(table)} words")
    made: TextArray = np.empty(at.shape, dtype=object)
    made[...] = np.asarray(table, dtype=object)[at] if at.size else ""
    return made_of(made)


@builtin("string_full_match")
def string_full_match(value: Any, pattern: str) -> Tensor:
    """Whether every string as a whole matches a regular expression: bool. Time is linear in its length.
    Raises: TrapValueError V0403 for a malformed pattern."""
    shape, texts = shape_and_texts(value)
    try:
        matches = compile_pattern(pattern).fullmatch
    except PatternError as error:
        raise TrapValueError(V0403, f"pattern {pattern[:80]!r}: {error}") from error
    return tensor_of_numbers(map(bool, map(matches, texts)), shape, "bool")
