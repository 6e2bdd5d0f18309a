"""Which cases of a test run without `--all`, and the table that says it."""

import re
from pathlib import Path
from types import SimpleNamespace

import pytest

from tests.conftest import pytest_collection_modifyitems
from tests.costs import BUDGET_S, CostRecorder, merged, read_costs, some_cases, write_costs

ROOT = Path(__file__).parents[2]


class _Item(SimpleNamespace):
    __hash__ = object.__hash__

    def __init__(self, nodeid, marks):
        super().__init__(nodeid=nodeid, get_closest_marker=lambda name: name if name in marks else None)


def _cases(count):
    return [SimpleNamespace(nodeid=f"test_x[{number}]") for number in range(count)]


@pytest.mark.parametrize("count", [1, 4, 5, 23, 100])
@pytest.mark.parametrize("case_s", [BUDGET_S / 100, BUDGET_S / 8, BUDGET_S / 3.5, BUDGET_S * 3])
def test_every_case_has_its_turn(count, case_s):
    cases, seen = _cases(count), []
    fitting = max(1, int(BUDGET_S / case_s))
    for turn in range(-(-count // fitting)):
        chosen = some_cases(cases, case_s, turn)
        assert len({case.nodeid for case in chosen}) == min(count, fitting)
        assert [case.nodeid for case in some_cases(cases, case_s, turn)] == [case.nodeid for case in chosen]
        seen += chosen
    assert {case.nodeid for case in seen} == {case.nodeid for case in cases}


def test_cheap_tests_and_new_ones_run_with_all_cases():
    cases = _cases(1000)
    assert some_cases(cases, 0.0, 3) == cases
    assert some_cases(cases, BUDGET_S / 1000, 3) == cases


def test_what_a_run_took_becomes_the_table(tmp_path):
    path = tmp_path / "costs.toml"
    write_costs(
        {"tests/a.py::test_kept": 7.0, "tests/a.py::test_quicker": 9.0, "tests/b.py::test_x": 3.0}, path
    )
    recorder = CostRecorder(path)
    for nodeid, seconds in (
        ("tests/a.py::test_quicker[1]", BUDGET_S / 9),
        ("tests/a.py::test_quicker[2]", BUDGET_S / 9),
        ("tests/b.py::test_x[1]", BUDGET_S),
        ("tests/b.py::test_x[1]", BUDGET_S),  # setting up, calling and tidying up are reports of their own
        ("tests/b.py::test_x[2]", BUDGET_S),
        ("tests/b.py::TestGroup::test_y[a::b]", BUDGET_S),
        ("tests/b.py::TestGroup::test_y[c]", BUDGET_S),
    ):
        recorder.pytest_runtest_logreport(SimpleNamespace(nodeid=nodeid, duration=seconds))
    recorder.pytest_sessionfinish()
    assert read_costs(path) == {
        "tests/a.py::test_kept": 7.0,
        "tests/b.py::test_x": 1.5 * BUDGET_S,
        "tests/b.py::TestGroup::test_y": BUDGET_S,
    }


def test_one_case_that_takes_long_is_not_for_the_table():
    assert merged({}, {"tests/a.py::test_x": [BUDGET_S * 5]}) == {}


def test_the_table_names_tests_that_exist():
    for test in read_costs():
        file, _, name = test.partition("::")
        text = (ROOT / file).read_text(encoding="utf-8")
        assert re.search(rf"def {name.rpartition('::')[2]}\(", text), test


@pytest.mark.parametrize(
    ("options", "arguments", "count"),
    [
        ({}, ["tests"], 1),
        ({"--all": True}, ["tests"], 2),
        ({"--update": True}, ["tests/cases"], 2),
        ({"keyword": "soak"}, ["tests"], 2),
        ({}, ["tests/a.py::test_soak"], 2),
    ],
)
def test_long_tests_run_where_they_are_asked_for(options, arguments, count):
    left_out = []
    config = SimpleNamespace(
        getoption=lambda name: options.get(name, 0),
        args=arguments,
        hook=SimpleNamespace(pytest_deselected=lambda items: left_out.extend(items)),
    )
    items = [_Item("tests/a.py::test_quick", ()), _Item("tests/a.py::test_soak", ("long",))]
    pytest_collection_modifyitems(config, items)
    assert (len(items), len(left_out)) == (count, 2 - count)
    assert items[0].nodeid == "tests/a.py::test_quick"
