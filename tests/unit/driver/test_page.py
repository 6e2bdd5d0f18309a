"""What a page knows of a model: every kind of model, each fact against the model or the run it is of."""

from __future__ import annotations

import gzip
import json
import re
from base64 import b64decode
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from heddle.driver.models import find_model, import_model
from heddle.driver.page import PageOptions, collect, render
from heddle.driver.page.facts import Facts, GraphNode, Listing, Mark, Span
from heddle.driver.page.levels import code_level
from heddle.driver.page.run import nested, run_facts
from heddle.driver.page.tables import Tables
from heddle.driver.run import CompileOptions, compile_to_file
from heddle.driver.session import Session
from heddle.driver.stages import STAGES, stage_text
from heddle.runtime.profiling import PartEvent, Report, TraceEvent
from heddle.support.diagnostics import UsageError
from heddle.support.span import ModelSpan, derive
from tests.page_models import HOSTILE, TEXTS, hostile_text, write_lstm, write_text

QUIET = PageOptions(with_run=False)


@pytest.fixture(scope="module")
def cnn(tmp_path_factory: pytest.TempPathFactory) -> Facts:
    return collect(find_model(str(write_text(tmp_path_factory.mktemp("cnn"), "cnn.py"))), QUIET)


def text_of(facts: Facts, number: int | None) -> str:
    assert number is not None
    return "\n".join(facts.lines[line] for line in facts.texts[number])


def level(facts: Facts, name: str) -> dict[str, Listing]:
    (found,) = [each for each in facts.levels if each.name == name]
    return {listing.name: listing for listing in found.functions}


def check_tables(facts: Facts) -> None:
    """Every number means something, marks lie in their texts, and equal rows stand once."""
    sets = range(len(facts.sets))
    for rows in (facts.lines, facts.places, list(map(tuple, facts.texts)), list(map(tuple, facts.sets))):
        assert len(set(rows)) == len(rows)
    assert all(0 <= line < len(facts.lines) for text in facts.texts for line in text)
    assert all(0 <= place < len(facts.places) for found in facts.sets for place in found)
    for each in facts.levels:
        for listing in each.functions:
            assert listing.set in sets
            ends = [-1]
            for mark in listing.marks:
                assert ends[-1] < mark.first <= mark.last < len(facts.texts[listing.text])
                assert set(facts.sets[mark.set]) <= set(facts.sets[listing.set])
                ends.append(mark.last)
    for graph in facts.graphs:
        assert all(0 <= end < len(graph.nodes) for edge in graph.edges for end in edge)
        assert all(node.parent < number for number, node in enumerate(graph.nodes))
        assert all(-1 <= node.group < len(graph.groups) for node in graph.nodes)


@pytest.mark.parametrize("name", [name for name in TEXTS if name != "loops.py"])
def test_every_kind_of_model_has_its_levels_and_graph(name: str, tmp_path: Path) -> None:
    facts = collect(find_model(str(write_text(tmp_path, name))), QUIET)
    check_tables(facts)
    assert [each.name for each in facts.levels] == [
        "model",
        *(stage for stage in STAGES if stage not in ("c", "memory")),
    ]
    main = facts.graphs[0]
    assert main.function == "main" and [node.kind for node in main.nodes].count("output") == 1
    assert main.nodes[0].kind == "param" and facts.notes == [] and facts.run is None


def test_levels_are_what_stages_show(tmp_path: Path) -> None:
    path = find_model(str(write_text(tmp_path, "cnn.py")))
    facts = collect(path, QUIET)
    for stage in ("relax", "legalized", "fused", "scheduled", "tir"):
        whole = stage_text(import_model(path), stage)
        for listing in level(facts, stage).values():
            shown = [line.strip() for line in text_of(facts, listing.text).split("\n")]
            assert "\n".join(shown[2:]) in "\n".join(line.strip() for line in whole.split("\n"))
    for stage in ("llvm", "asm"):
        pieces = [text_of(facts, listing.text) for listing in level(facts, stage).values()]
        assert "\n".join(pieces).split() == stage_text(import_model(path), stage).split()
    assert "call  " in text_of(facts, level(facts, "bytecode")["main"].text)


def node_named(facts: Facts, label: str) -> GraphNode:
    (found,) = [node for node in facts.graphs[0].nodes if node.label == label]
    return found


def test_one_node_is_linked_through_all_levels(cnn: Facts) -> None:
    relu = node_named(cnn, "nn.relu")
    (place,) = cnn.sets[relu.set]
    for each in cnn.levels:
        holders = [listing for listing in each.functions if place in cnn.sets[listing.set]]
        assert holders, each.name
        kernels = {listing.kernel for listing in holders}
        if each.name in ("tir", "llvm", "asm"):
            assert kernels == {cnn.graphs[0].groups[relu.group].kernel}
        if each.name in ("model", "relax", "bytecode"):
            lines = [
                cnn.lines[cnn.texts[listing.text][mark.first]]
                for listing in holders
                for mark in listing.marks
                if place in cnn.sets[mark.set]
            ]
            assert lines and all("relu" in line or each.name == "bytecode" for line in lines)


OWN_WORDS = {"add": ("fadd", "addps"), "nn.relu": ("fcmp", "maxps"), "multiply": ("fmul", "mulps")}
"""The instructions of LLVM IR and of x86-64 that only one operator of the chain needs."""


def test_instructions_of_a_fused_kernel_are_linked_to_their_own_nodes(tmp_path: Path) -> None:
    chain = find_model(str(write_text(tmp_path, "chain.py")))
    target = "llvm -mtriple=x86_64-unknown-linux-gnu -mcpu=x86-64"
    facts = collect(chain, PageOptions(with_run=False, target=target))
    check_tables(facts)
    assert len(facts.graphs[0].groups) == 1
    for name, words in OWN_WORDS.items():
        (place,) = facts.sets[node_named(facts, name).set]
        for stage, word in zip(("llvm", "asm"), words, strict=True):
            found = [
                facts.sets[sets.get(number, listing.set)]
                for listing in level(facts, stage).values()
                for sets in [{line: mark.set for mark in listing.marks for line in lines_of(mark)}]
                for number, line in enumerate(facts.texts[listing.text])
                if re.search(rf"\b{word}\b", facts.lines[line])
            ]
            assert found and all(places == [place] for places in found), (name, stage)


def test_the_lines_of_a_shared_kernel_are_linked_to_the_nodes_of_all_its_calls(tmp_path: Path) -> None:
    """Three kernels of equal loop functions, two of them the same kernel."""
    twice = find_model(str(write_text(tmp_path, "twice.py")))
    target = "llvm -mtriple=x86_64-unknown-linux-gnu -mcpu=x86-64"
    facts = collect(twice, PageOptions(with_run=False, target=target))
    check_tables(facts)
    nodes = facts.graphs[0].nodes
    softmax, sqrt = (
        [place for node in nodes if node.label == label for place in facts.sets[node.set]]
        for label in ("nn.softmax", "sqrt")
    )
    first, second, third = [group.kernel for group in facts.graphs[0].groups]
    assert first == second != third and (len(softmax), len(sqrt)) == (3, 2)
    assert places_of_lines(facts, "scheduled", first, "sqrt") == [sqrt]
    for stage, divide, root in (("llvm", "fdiv", "sqrt"), ("asm", "div[ps]s", "sqrt[ps]s")):
        assert places_of_lines(facts, stage, first, divide) == [softmax[:2]], stage
        assert places_of_lines(facts, stage, first, root) == [sqrt], stage
        assert places_of_lines(facts, stage, third, divide) == [softmax[2:]], stage


def test_stages_of_machine_code_name_the_nodes_on_request(tmp_path: Path) -> None:
    mod = import_model(find_model(str(write_text(tmp_path, "chain.py"))))
    target = "llvm -mtriple=x86_64-unknown-linux-gnu -mcpu=x86-64"
    for stage, word in (("llvm", "fadd"), ("asm", "addps")):
        plain, named = (stage_text(mod, stage, target, with_sources=told) for told in (False, True))
        assert [line.split("  ; ")[0] for line in named.split("\n")] == plain.split("\n")
        lines = [line for line in named.split("\n") if re.search(rf"\b{word}\b", line)]
        assert lines and all(line.endswith("chain.py:8:13") for line in lines)


def places_of_lines(facts: Facts, stage: str, kernel: str, word: str) -> list[list[int]]:
    """The places of all lines of a kernel that match a word, each set once."""
    found: list[list[int]] = []
    for listing in level(facts, stage).values():
        sets = {line: mark.set for mark in listing.marks for line in lines_of(mark)}
        for number, line in enumerate(facts.texts[listing.text]):
            if listing.kernel == kernel and number in sets and re.search(word, facts.lines[line]):
                places = facts.sets[sets[number]]
                found += [] if places in found else [places]
    return found


def lines_of(mark: Mark) -> range:
    return range(mark.first, mark.last + 1)


def test_groups_are_the_calls_of_kernels(cnn: Facts) -> None:
    conv, relu, pool = (node_named(cnn, f"nn.{name}") for name in ("conv2d", "relu", "max_pool2d"))
    assert conv.group == relu.group != pool.group and conv.group >= 0
    add = node_named(cnn, "add")
    assert add.weight_bytes == 20 and conv.weight_bytes == 0
    labels = [node.label for node in cnn.graphs[0].nodes]
    edges = {(labels[a], labels[b]) for a, b in cnn.graphs[0].edges}
    assert {("nn.conv2d", "nn.relu"), ("nn.relu", "nn.max_pool2d"), ("nn.softmax", "output")} <= edges


def test_branches_lie_in_their_node(tmp_path: Path) -> None:
    graph = collect(find_model(str(write_text(tmp_path, "control.py"))), QUIET).graphs[0]
    (choice,) = [number for number, node in enumerate(graph.nodes) if node.kind == "if"]
    branches = [number for number, node in enumerate(graph.nodes) if node.parent == choice]
    assert [graph.nodes[number].label for number in branches] == ["then", "else"]
    inside = [[node.label for node in graph.nodes if node.parent == number] for number in branches]
    assert inside == [["multiply", "subtract", "main"], ["add"]]
    outputs = [a for a, b in graph.edges if graph.nodes[b].kind == "output"]
    assert outputs == [choice]


def test_passes_are_told_function_by_function(cnn: Facts) -> None:
    runs = {run.name: run for run in cnn.passes}
    legalized = {change.function: change for change in runs["LegalizeOps"].changes}
    assert legalized["main"].before is not None and "R.nn.relu" in text_of(cnn, legalized["main"].before)
    assert "R.nn.relu" not in text_of(cnn, legalized["main"].after)
    assert legalized["relu"].before is None and "T.prim_func" in text_of(cnn, legalized["relu"].after)
    gone = [change for change in runs["FuseTIR"].changes if change.after is None]
    assert "relu" in {change.function for change in gone}
    assert "LowerBlocks" in runs and all(run.seconds >= 0 for run in cnn.passes)
    for run in cnn.passes:
        assert all(change.before != change.after for change in run.changes)


def test_storages_hold_tensors_that_are_not_alive_together(cnn: Facts) -> None:
    (plan,) = cnn.plans
    assert plan.function == "main" and plan.peak and plan.storages
    for storage in plan.storages:
        assert 0 <= storage.first <= storage.last < plan.num_bindings and storage.tensors
        last = -1
        for tensor in storage.tensors:
            assert last <= tensor.first <= tensor.last <= storage.last
            assert tensor.offset_bytes is not None and tensor.size_bytes is not None
            assert storage.size_bytes is not None
            assert tensor.offset_bytes + tensor.size_bytes <= storage.size_bytes
            last = tensor.last


def test_free_sizes_have_values_where_they_are_given(tmp_path: Path) -> None:
    path = find_model(str(write_text(tmp_path, "attention.py")))
    (free,) = collect(path, QUIET).plans
    assert any(storage.size_bytes is None and "n" in storage.size for storage in free.storages)
    (known,) = collect(path, PageOptions(with_run=False, dims={"n": 7})).plans
    for storage, same in zip(free.storages, known.storages, strict=True):
        assert same.size_bytes == eval(storage.size, {"n": 7})


def test_schedules_can_be_replayed_to_what_the_rule_made(cnn: Facts) -> None:
    scheduled = level(cnn, "scheduled")
    assert cnn.replays
    for replay in cnn.replays:
        assert replay.steps[-1].text != replay.start
        end = text_of(cnn, replay.steps[-1].text).split("\n")[3:]
        made = text_of(cnn, scheduled[replay.kernel].text).split("\n")[3:]
        if replay.rule != "RowPass":  # loops for single columns may stand beside those of the rule
            assert end == made, replay.kernel


def test_a_run_has_times_of_every_kernel(tmp_path: Path) -> None:
    facts = collect(find_model(str(write_text(tmp_path, "attention.py"))), PageOptions(dims={"n": 5}))
    check_tables(facts)
    run, roofline = facts.run, facts.roofline
    assert run is not None and roofline is not None and facts.notes == []
    assert run.dims == {"n": 5} and run.function == "main"
    kernels = {point.name: point for point in roofline.kernels}
    called = {span.name for span in run.spans if not span.is_function and span.thread == 0}
    assert set(kernels) == called & set(kernels) and set(kernels) == {
        group.kernel for group in facts.graphs[0].groups
    }
    assert all(point.advice and point.rule is not None for point in roofline.kernels)
    assert roofline.gflops > 0 and roofline.bandwidths and run.memory
    names = {listing.kernel for listing in next(e for e in facts.levels if e.name == "llvm").functions}
    assert set(kernels) <= names
    linked = [span for span in run.spans if span.name in kernels]
    assert linked and all(facts.sets[span.set] for span in linked)


def test_each_thread_of_the_pool_has_a_row() -> None:
    report = Report([], 100_000, num_threads=3, num_dropped_parts=2)
    report.events = [TraceEvent("exp", False, 1000, 9000, 0, "main:0", "m.py:1:1")]
    report.parts = [
        PartEvent(thread, "exp", 2000 + thread, 7000, thread, 1, "main:0", "m.py:1:1") for thread in (0, 1)
    ]
    facts = Facts("m")
    run = run_facts(Tables(facts), report, {})
    assert run.threads == ["virtual machine", "calling thread", "worker 1", "worker 2"]
    assert run.num_dropped_parts == 2
    rows = [(span.name, span.thread, span.start_us, span.duration_us, span.depth) for span in run.spans]
    assert rows == [("exp", 0, 1.0, 9.0, 0), ("exp", 1, 2.0, 7.0, 0), ("exp", 2, 2.001, 7.0, 0)]
    assert [facts.sets[span.set] for span in run.spans] == [[0]] * 3
    assert run_facts(Tables(Facts("m")), Report([], 1), {}).threads == ["virtual machine"]


def test_what_cannot_be_run_is_said(tmp_path: Path) -> None:
    model = find_model(str(write_text(tmp_path, "loops.py")))
    facts = collect(model, PageOptions())
    check_tables(facts)
    assert facts.run is None and facts.graphs == [] and list(level(facts, "tir")) == ["f", "f__body"]
    (note,) = facts.notes
    assert note.startswith("there is no run: error[D0102]")
    with pytest.raises(UsageError) as caught:
        collect(model, PageOptions(dims={"n": 5}))
    assert caught.value.code == "D0102"


def test_a_compiled_model_has_bytecode_and_a_run(tmp_path: Path) -> None:
    source = find_model(str(write_text(tmp_path, "cnn.py")))
    output = tmp_path / "cnn.heddle"
    compile_to_file(source, output, (), CompileOptions())
    facts = collect(find_model(str(output)), PageOptions())
    check_tables(facts)
    assert [each.name for each in facts.levels] == ["model", "bytecode"]
    assert facts.run is not None and facts.run.spans and not facts.graphs
    assert "no graph" in facts.notes[0]


def test_a_loop_of_steps(tmp_path: Path) -> None:
    pytest.importorskip("onnx", reason="the LSTM is an ONNX model")
    facts = collect(find_model(str(write_lstm(tmp_path))), QUIET)
    check_tables(facts)
    assert any('node "lstm" (LSTM)' in place for place in facts.places)
    assert all(node.kind != "call" or facts.sets[node.set] for node in facts.graphs[0].nodes)


def test_the_profile_of_a_session_is_a_page(tmp_path: Path) -> None:
    model = write_text(tmp_path, "control.py")
    with Session(model, exec_mode="bytecode") as session:
        report = session.profile(np.ones(4, "float32"), np.array(2, "int64"))
    found = json.loads(packed_in(report.html(), "heddle-facts"))
    spans = found["run"]["spans"]
    assert [span["name"] for span in spans if span["is_function"]] == ["main"] * 3
    assert len(spans) == len(report.events)
    (main,) = found["levels"][1]["functions"]
    assert main["name"] == "main" and found["levels"][0]["functions"]
    shown = report._repr_html_()
    assert shown.startswith("<iframe") and 'sandbox="allow-scripts"' in shown and shown.count("<") == 2
    assert str(report) == report.table()


# ---- the page's text


def packed_in(page: str, name: str) -> Any:
    found = re.search(rf'id="{name}">([A-Za-z0-9+/=]*)</script>', page)
    assert found is not None
    return gzip.decompress(b64decode(found[1])).decode()


def hostile_facts() -> Facts:
    facts = Facts(" ".join(HOSTILE))
    tables = Tables(facts)
    spans = [ModelSpan("m.onnx", name, name) for name in HOSTILE]
    facts.levels = [code_level(tables, "llvm", hostile_text(), {}, {}, "")]
    tables.set(derive("FuseOps", *spans))
    return facts


def test_nothing_of_a_model_is_markup() -> None:
    facts = hostile_facts()
    page = render(facts)
    page.encode("ascii")
    plain = render(Facts("m"))
    assert page.count("<") == plain.count("<")
    title = re.search("<title>(.*?)</title>", page)
    assert title is not None and "\0" not in page and "'" not in title[1]
    assert json.loads(packed_in(page, "heddle-facts")) == json.loads(json.dumps(facts.as_dict()))


def test_the_page_asks_nothing_of_the_network() -> None:
    page = render(Facts("m"))
    assert "default-src 'none'" in page and "connect-src" not in page
    assert not re.search(r"<(?:script|link|img)[^>]+(?:src|href)=", page)
    assert render(Facts("m")) == page


def test_lines_have_a_limit() -> None:
    facts = Facts("m")
    Tables(facts).text(["x" * 10_000])
    assert facts.lines[0].endswith("(6000 characters more)") and len(facts.lines[0]) < 4100


def test_spans_inside_of_others_are_deeper() -> None:
    spans = [
        Span("b", 0, 1, 2, 0, False, 0),
        Span("a", 0, 0, 10, 0, True, 0),
        Span("c", 0, 3, 1, 0, False, 0),
    ]
    other = Span("p", 1, 1, 5, 0, False, 0)
    found = nested([*spans, other])
    assert [(span.name, span.depth) for span in found] == [("a", 0), ("p", 0), ("b", 1), ("c", 1)]
