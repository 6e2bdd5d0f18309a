"""Which cases of a test run without `--all`."""

from types import SimpleNamespace

import pytest

from tests.conftest import CASES, some_cases


@pytest.mark.parametrize("count", [1, CASES, CASES + 1, 23, 100])
def test_every_case_has_its_turn(count):
    cases = [SimpleNamespace(nodeid=f"test_x[{number}]") for number in range(count)]
    seen = []
    for turn in range(-(-count // CASES)):
        chosen = some_cases(cases, turn)
        assert len({case.nodeid for case in chosen}) == min(count, CASES)
        assert [case.nodeid for case in some_cases(cases, turn)] == [case.nodeid for case in chosen]
        seen += chosen
    assert {case.nodeid for case in seen} == {case.nodeid for case in cases}
