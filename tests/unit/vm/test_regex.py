"""Regular expressions: against RE2 on random patterns and texts, bounds on work and memory, refusals."""

from __future__ import annotations

import random

import pytest

from heddle.vm.builtins.regex import Matcher, PatternError, compile_pattern
from heddle.vm.builtins.regex.matcher import MAX_KEPT

# fmt: off
PIECES = (
    "a", "b", "c", "A", "é", "K", "k", "s", "ſ", "]", "-", "{", "}", "*", "+", "?", "|", "(", ")", "(?:",
    "(?P<n>", "(?<m>", "[", "\\", r"\1", "(?=a)", "(?!a)", r"\8", r"\_", r"\Z", "(?P=n)", "[b-a]",
    "[[:foo:]]",
    r"\.",
    r"\d", r"\w", r"\W", r"\s", r"\S", r"\D", ".", "[a-c]", "[^a]", r"[\w-]",
    r"[a\-z]", "[]a]", "[^]a]",
    "[[:alpha:]_]", "[[:^digit:]]", "^", "$", r"\b", r"\B", r"\A", r"\z", r"\n", r"\x41", r"\x{e9}",
    r"\101", r"\07",
    r"\pL",
    r"\p{Lu}", r"\PN", r"\p{^Ll}", r"[\pL\d]", "(?i)", "(?s)", "(?m)", "(?i:a)", "(?-i:a)", "(?s-i:.)",
    r"\Qa.b\E", r"\Q*", "a{2}", "{2}", "{0,2}", "{1,}", "{3,2}", "{,2}", "*?", "+?", "{2}?", r"[a-\d]",
    "[[:word:]-a]", "[a-]", "[-a]", "[a-b-c]", "(?U)", "[k]", "[^K]",
)
TEXTS = (
    "", "a", "b", "ab", "A", "aa", "aaa", "abc", "é", "É", "\n", "a\nb", "a b", "1", "a1", "A.b", "a.b", "*",
    "-", "]", "_", "K", "k", "\u212a", "ſ", "S", "a-b", " a ", "é1", "ab\n", "\na", "{", "a{", "a{,2}", "}",
    "bca",
    "ß", "ẞ", "\0", "𝔸",
)
# fmt: on


def accepted(pattern: str) -> Matcher | None:
    try:
        return compile_pattern(pattern)
    except PatternError:
        return None


@pytest.mark.parametrize("seed", range(8))
def test_random_patterns_are_accepted_and_match_as_in_re2(seed: int) -> None:
    re2 = pytest.importorskip("re2", reason="google-re2 is not installed")
    options, rng, used = re2.Options(), random.Random(seed), 0
    options.log_errors = False
    for _ in range(400):
        pattern = "".join(rng.choices(PIECES, k=rng.choice((1, 2, 3, 4, 6))))
        pattern += ")" * max(0, pattern.count("(") - pattern.count(")"))
        mine = accepted(pattern)
        try:
            theirs = re2.compile(pattern, options)
        except re2.error:
            theirs = None
        assert (mine is None) == (theirs is None), pattern
        if mine is not None and theirs is not None:
            used += 1
            found = [(mine.fullmatch(text), bool(theirs.fullmatch(text))) for text in TEXTS]
            assert all(a == b for a, b in found), (pattern, found)
    assert used > 100


@pytest.mark.parametrize(
    ("pattern", "message"),
    [
        (r"(a)\1", r"references to groups are not supported, at character 3"),
        (r"a(?=b)", r"a group of a kind that is not supported, at character 1"),
        (r"a(?<!b)", r"a group of a kind that is not supported"),
        (r"*a", r"nothing to repeat, at character 0"),
        (r"a**", r"a repetition of a repetition needs a group, at character 2"),
        (r"a{1001}", r"counts rise, to 1000 at most, got \{1001\}"),
        (r"a{3,2}", r"counts rise"),
        (r"((a{10}){10}){11}", r"repetitions inside each other make 1100, expected at most 1000"),
        (r"(a", r"a group is not closed, at character 0"),
        (r"a)", r"no group is open, at character 1"),
        (r"[a", r"a class of characters is not closed, at character 0"),
        (r"[b-a]", r"a range whose end is less than its begin, at character 1"),
        (r"\p{Greek}", r"'Greek' is no general category"),
        (r"\C", r"an unknown escape \\C"),
        (r"\x{110000}", r"hexadecimal"),
        ("a\\", r"the pattern ends too early"),
        ("(" * 101 + ")" * 101, r"groups are nested deeper than 100"),
        ("a{1000}" * 11, r"more than 10000 steps"),
        ("(?:){1000}" * 11, r"more than 10000 steps"),
        ("x" * 70000, r"a pattern of 70000 characters"),
    ],
)
def test_what_is_no_pattern_is_refused_with_its_place(pattern: str, message: str) -> None:
    with pytest.raises(PatternError, match=message):
        compile_pattern(pattern)


class Counting(Matcher):
    """Counts the states that are computed."""

    steps = 0

    def _step(self, state, number):  # type: ignore[no-untyped-def]
        self.steps += 1
        return super()._step(state, number)


@pytest.mark.parametrize("pattern", [r"(a*)*b", r"(a|aa)*c", r"(a|a?)+$x", r"(.*)(.*)(.*)[^a]"])
def test_what_makes_others_try_all_ways_computes_a_few_states(pattern: str) -> None:
    """A long text of one letter leads through the states of the pattern, and no more."""
    matcher = Counting(pattern)
    assert not matcher.fullmatch("a" * 50_000)
    assert matcher.steps < 10


def test_states_are_dropped_when_there_are_too_many() -> None:
    """Which of the last 300 letters are an a: 2**300 states, of which a bounded number is kept."""
    matcher, rng = Matcher("[ab]*a[ab]{300}"), random.Random(3)
    for last in "ab":
        text = "".join(rng.choices("ab", k=9000)) + last + "".join(rng.choices("ab", k=300))
        assert matcher.fullmatch(text) == (last == "a")
        assert matcher._kept <= MAX_KEPT + 1000
    assert sum(len(waiting) for waiting, _ in matcher._states) <= MAX_KEPT
