"""Which cases of a test run without `--all`, and the table that says it."""

import math
import re
from pathlib import Path
from types import SimpleNamespace

import pytest

from tests.conftest import pytest_collection_modifyitems
from tests.costs import (
    EARLY_S,
    LISTED_S,
    OTHER_CASE_S,
    SHARE_S,
    ChoiceReporter,
    CostRecorder,
    Costs,
    choose,
    costly_first,
    merged,
    read_costs,
    shares,
    some_cases,
    write_costs,
)

ROOT = Path(__file__).parents[2]


class _Item(SimpleNamespace):
    __hash__ = object.__hash__

    def __init__(self, nodeid, marks=()):
        super().__init__(nodeid=nodeid, get_closest_marker=lambda name: name if name in marks else None)


def _cases(count, test="test_x"):
    return [_Item(f"{test}[{number}]") for number in range(count)]


@pytest.mark.parametrize("count", [1, 4, 5, 23, 100])
@pytest.mark.parametrize("cases_in_a_share", [100, 8, 3.5, 1, 0.7, 0.1])
def test_every_case_has_its_turn(count, cases_in_a_share):
    cases, seen = _cases(count), []
    case_s = SHARE_S / cases_in_a_share
    fitting = int(cases_in_a_share) or cases_in_a_share
    turns = math.ceil(count / fitting) + 1
    for turn in range(turns):
        chosen = some_cases(cases, case_s, SHARE_S, turn)
        if fitting >= 1:
            assert len({case.nodeid for case in chosen}) == min(count, fitting)
        else:
            assert len(chosen) <= 1
        assert [case.nodeid for case in some_cases(cases, case_s, SHARE_S, turn)] == [
            case.nodeid for case in chosen
        ]
        seen += chosen
    assert {case.nodeid for case in seen} == {case.nodeid for case in cases}
    assert len(seen) <= math.ceil(turns * min(count, fitting))


def test_tests_that_have_less_than_a_case_do_not_all_run_in_the_same_turn():
    ran = [bool(some_cases(_cases(3, f"test_{number}"), 10.0, 1.0, 0)) for number in range(100)]
    assert 3 <= sum(ran) <= 25


def test_costly_cases_run_first_and_the_others_in_order():
    costs = Costs(cases={"long": 2 * EARLY_S, "longest": 3 * EARLY_S, "listed": EARLY_S / 2})
    items = [case for test in ("new", "long", "listed", "longest", "other") for case in _cases(2, test)]
    assert [item.nodeid for item in costly_first(items, costs)] == [
        f"{test}[{number}]" for test in ("longest", "long", "new", "listed", "other") for number in (0, 1)
    ]


def test_cheap_tests_and_new_ones_run_with_all_cases():
    cases = _cases(1000)
    assert some_cases(cases, SHARE_S / 1000, SHARE_S, 3) == cases
    assert choose(cases, Costs(0.0), 3).kept == cases


def test_shares_fit_the_budget_and_the_largest_become_smaller_first():
    counts = {"cheap": 10, "one": 1, "many": 100, "long": 2, "new": 50}
    cases = {"cheap": 0.05, "one": 1.0, "many": 0.3, "long": 9.0}
    assert shares(counts, Costs(cases=cases)) == {
        "cheap": 0.5,
        "one": 1.0,
        "many": SHARE_S,
        "long": 9.0,
        "new": 50 * OTHER_CASE_S,
    }
    tight = shares(counts, Costs(50 * OTHER_CASE_S + 3.5, cases))
    assert tight == pytest.approx(
        {"cheap": 0.5, "one": 1.0, "many": 1.0, "long": 1.0, "new": 50 * OTHER_CASE_S}
    )
    nothing = shares(counts, Costs(0.1, cases))
    assert nothing == {"cheap": 0.0, "one": 0.0, "many": 0.0, "long": 0.0, "new": 50 * OTHER_CASE_S}


def test_what_is_marked_whole_runs_with_all_cases_and_the_others_share_the_rest():
    items = [*(_Item(f"board[{number}]", ("whole",)) for number in range(9)), *_cases(9, "other")]
    for budget_s, others in ((math.inf, 2), (91.0, 1), (10.0, 0)):
        costs = Costs(budget_s, {"board": 10.0, "other": 1.0})
        kept = [item.nodeid for item in choose(items, costs, 0).kept]
        assert [name for name in kept if name.startswith("board")] == [item.nodeid for item in items[:9]]
        assert len(kept) - 9 == others
    assert shares({"board": 9, "new": 3}, Costs(0.0, {"board": 10.0}), {"board", "new"}) == {
        "board": 90.0,
        "new": 3 * OTHER_CASE_S,
    }


@pytest.mark.parametrize("budget_s", [1.0, 30.0, 100.0])
def test_what_runs_takes_the_budget_on_the_average(budget_s):
    items = [case for number in range(40) for case in _cases(number + 1, f"test_{number}")]
    costs = Costs(budget_s, {f"test_{number}": 0.1 + number % 7 for number in range(40)})
    turns = [choose(items, costs, turn).kept for turn in range(50)]
    taken = [sum(costs.cases[item.nodeid.partition("[")[0]] for item in kept) for kept in turns]
    assert 0.5 * budget_s <= sum(taken) / len(taken) <= 1.05 * budget_s
    order = {item: place for place, item in enumerate(items)}
    assert all(kept == sorted(kept, key=order.__getitem__) for kept in turns)


def test_what_a_run_took_becomes_the_table(tmp_path):
    path = tmp_path / "costs.toml"
    before = {"tests/a.py::test_kept": 7.0, "tests/a.py::test_quicker": 9.0, "tests/b.py::test_x": 3.0}
    write_costs(Costs(600, before), path)
    recorder = CostRecorder(True, path)
    for nodeid, seconds in (
        ("tests/a.py::test_quicker[1]", LISTED_S / 9),
        ("tests/a.py::test_quicker[2]", LISTED_S / 9),
        ("tests/b.py::test_x[1]", LISTED_S),
        ("tests/b.py::test_x[1]", LISTED_S),  # setting up, calling and tidying up are reports of their own
        ("tests/b.py::test_x[2]", LISTED_S),
        ("tests/b.py::TestGroup::test_y[a::b]", LISTED_S),
        ("tests/b.py::TestGroup::test_y[c]", LISTED_S),
    ):
        recorder.pytest_runtest_logreport(SimpleNamespace(nodeid=nodeid, duration=seconds))
    recorder.pytest_sessionfinish()
    after = {
        "tests/a.py::test_kept": 7.0,
        "tests/b.py::test_x": 1.5 * LISTED_S,
        "tests/b.py::TestGroup::test_y": LISTED_S,
    }
    assert read_costs(path) == Costs(600, after)


def test_a_part_of_the_cases_takes_no_test_from_the_table():
    took = {"tests/a.py::test_x": [LISTED_S / 9], "tests/a.py::test_y": [LISTED_S / 9]}
    assert merged({"tests/a.py::test_x": 3.0}, took, has_all=False) == {"tests/a.py::test_x": LISTED_S / 9}
    assert merged({"tests/a.py::test_x": 3.0}, took) == {}


def test_the_table_names_tests_that_exist():
    for test in read_costs().cases:
        file, _, name = test.partition("::")
        text = (ROOT / file).read_text(encoding="utf-8")
        assert re.search(rf"def {name.rpartition('::')[2]}\(", text), test


def _collect(items, options, arguments):
    left_out, reporter = [], ChoiceReporter()
    config = SimpleNamespace(
        getoption=lambda name: options.get(name, 0),
        args=arguments,
        hook=SimpleNamespace(pytest_deselected=lambda items: left_out.extend(items)),
        pluginmanager=SimpleNamespace(get_plugin=lambda name: reporter),
        workeroutput={},
    )
    pytest_collection_modifyitems(config, items)
    return left_out, config.workeroutput


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
    items = [_Item("tests/a.py::test_quick", ()), _Item("tests/a.py::test_soak", ("long",))]
    left_out, _ = _collect(items, options, arguments)
    assert (len(items), len(left_out)) == (count, 2 - count)
    assert items[0].nodeid == "tests/a.py::test_quick"


def test_one_line_says_what_is_left_out_also_where_workers_chose():
    lines = []
    terminal = SimpleNamespace(write_line=lines.append)
    items = [_Item("tests/a.py::test_quick", ()), _Item("tests/a.py::test_soak", ("long",))]
    _, output = _collect(items, {}, ["tests"])
    reporter = ChoiceReporter()
    reporter.pytest_terminal_summary(terminal)
    assert lines == []
    for workeroutput in (output, output, {}):  # the last one ended early
        reporter.pytest_testnodedown(SimpleNamespace(workeroutput=workeroutput))
    reporter.pytest_terminal_summary(terminal)
    assert len(lines) == 1
    assert "1 of 2 cases" in lines[0]
