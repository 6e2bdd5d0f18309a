"""Builtins on tensors of strings do what Python's strings do, whatever characters are in them."""

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from heddle.support.diagnostics import TrapTypeError
from heddle.vm.builtins import strings
from heddle.vm.builtins.strings import (
    string_equal,
    string_full_match,
    string_lookup,
    string_normalize,
    string_split,
)

TEXTS = st.lists(st.text("aeE \0İß", max_size=9), max_size=6)
ODD_TEXTS = st.lists(st.text("ae \0\1\2İß\ud83d\ude00\U0001f600\uffff", max_size=9), max_size=6)
FEW_AND_MANY = st.sampled_from([1, 100, 301])


@given(
    TEXTS | ODD_TEXTS,
    FEW_AND_MANY,
    st.sampled_from(["", "a", "ae", "aa", "\0", "a\0", "\1", "ß", "\ud83d", "\U0001f600"]),
    st.integers(-1, 2),
)
@example(["xa", "ay"], 1, "aa", -1)  # a delimiter across two texts is none
@example(["xa", "ay"], 301, "aa", -1)
@example(["a\0b", "a"], 1, "a", -1)
@example(["a\0b", "a"], 301, "a", -1)
@example(["a\1b", "a"], 301, "a", -1)
@example(["\ud83d", "\ude00a"], 301, "a", -1)  # halves of a pair that are not one
@example(["\ud83daa", "\U0001f600"], 301, "a", -1)
@example(["aa", ""], 301, "a", -1)  # the last text has fewer parts
@example(["", "aa"], 301, "a", -1)
@example(["ab", "ba"], 301, "a", -1)  # as many parts each
@example([""], 1, "a", -1)
@example([""], 301, "a", -1)
def test_every_string_is_split_as_if_it_were_alone(texts, repeat, delimiter, most):
    texts = texts * repeat
    (shape, parts), counts = string_split(((len(texts),), tuple(texts)), delimiter, most)
    assert (counts.dtype, counts.shape) == ("int64", (len(texts),))
    want = [text.split(delimiter or None, most) for text in texts]
    width = max(map(len, want), default=0)
    assert tuple(shape) == (len(texts), width)
    assert list(parts) == [part for found in want for part in [*found, *[""] * (width - len(found))]]
    assert counts.numpy().tolist() == list(map(len, want))


@given(TEXTS, st.sampled_from(["NONE", "LOWER", "UPPER"]), st.booleans(), st.booleans())
def test_stop_words_are_found_before_the_case_changes(texts, case, is_case_sensitive, has_stops):
    stops = ["a", "Ea", "ß"] if has_stops else []
    given_list = str(stops).replace("'", '"')
    shape, found = string_normalize(((len(texts),), tuple(texts)), case, is_case_sensitive, given_list)
    known = stops if is_case_sensitive else [stop.lower() for stop in stops]
    kept = [text for text in texts if (text if is_case_sensitive else text.lower()) not in known]
    change = {"NONE": str, "LOWER": str.lower, "UPPER": str.upper}[case]
    assert list(found) == ([change(text) for text in kept] or [""])
    assert tuple(shape) == (len(found),)


@pytest.mark.parametrize("shape", [(0,), (2, 0, 3), (20, 30), (1, 600, 1)])
def test_strings_are_split_in_the_shape_that_they_have(shape):
    count = 600 if 0 not in shape else 0
    texts = tuple(f"{'a' * (k % 3)}-{k}" for k in range(count))
    (found, parts), counts = string_split((shape, texts), "a", -1)
    assert (tuple(found), tuple(counts.shape)) == ((*shape, 3 if count else 0), shape)
    assert counts.numpy().reshape(-1).tolist() == [k % 3 + 1 for k in range(count)]
    assert list(parts) == [part for text in texts for part in (text.split("a") + ["", ""])[:3]]


def test_very_long_texts_are_split_one_after_the_other(monkeypatch):
    monkeypatch.setattr(strings, "_MOST_CHARACTERS", 1000)
    texts = ("a" * 3, "b") * 300
    assert strings._split_together(texts, "a") is None
    (_, parts), counts = string_split(((600,), texts), "a", -1)
    assert (list(parts[:8]), counts.numpy()[:3].tolist()) == (["", "", "", "", "b", "", "", ""], [4, 1, 4])


@pytest.mark.parametrize("count", [0, 1, 7])
def test_what_strings_are_is_a_tensor_of_their_shape_that_can_be_written(count):
    value = ((1, count), tuple("abcdefg"[:count]))
    made = (
        (string_equal(value, value), "bool", [True] * count),
        (string_full_match(value, "[ac]"), "bool", [text in "ac" for text in value[1]]),
        (string_lookup(value, '["b", "a", "b"]'), "int64", [3, 0, 3, 3, 3, 3, 3][:count]),
        (string_split(value, "b", -1)[1], "int64", [1, 2, 1, 1, 1, 1, 1][:count]),
    )
    made[2][2][:1] = [1][:count]
    for found, dtype, wanted in made:
        assert (found.dtype, found.shape, found.is_contiguous) == (dtype, (1, count), True)
        assert found.address % 16 == 0
        assert found.numpy().tolist() == [wanted]
        found[...] = 0
        assert not found.numpy().any()


def test_what_is_no_tensor_of_strings_is_refused():
    for wrong in (3, ((2,), ("a",)), ((1,), (b"a",)), ((1,), ["a"])):
        with pytest.raises(TrapTypeError, match="V0402"):
            string_split(wrong, "a", -1)
