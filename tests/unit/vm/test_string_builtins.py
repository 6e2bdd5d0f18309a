"""Builtins on tensors of strings do what Python's strings do, whatever characters are in them."""

from hypothesis import example, given
from hypothesis import strategies as st

from heddle.vm.builtins.strings import string_normalize, string_split

TEXTS = st.lists(st.text("aeE \0İß", max_size=9), max_size=6)


@given(TEXTS, st.sampled_from(["", "a", "ae", "aa", "\0", "a\0"]), st.integers(-1, 2))
@example(["xa", "ay"], "aa", -1)  # a delimiter across two texts is none
@example(["a\0b", "a"], "a", -1)
@example([""], "a", -1)
def test_every_string_is_split_as_if_it_were_alone(texts, delimiter, most):
    (shape, parts), counts = string_split(((len(texts),), tuple(texts)), delimiter, most)
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
