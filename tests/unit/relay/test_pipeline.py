"""Pipelines of programs give what the programs one after the other give."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import heddle
from heddle import relay
from heddle.driver.relay_pipeline import PipelineConfig, build, export_library
from heddle.runtime.artefact import section_table
from heddle.runtime.artefact_file import write_artefact
from heddle.runtime.module import load_module
from heddle.support.diagnostics import FormatError, HeddleError, Trap, UsageError
from heddle.vm.graph.pipeline import PipelineExecutorFactoryModule, PipelineModule
from heddle.vm.graph.wiring import wiring_from_json
from tests.unit.relay.programs import floats, program

SIZES = "Tensor[(4, 3), float32]"


def _stages() -> tuple[Any, Any, Any]:
    first = program(f"def @main(%a: {SIZES}, %b: {SIZES}) {{ (%a + %b, %a * %b) }}")
    second = program(f"def @main(%c: {SIZES}) {{ tanh(%c) }}")
    third = program(f"def @main(%d: {SIZES}, %e: {SIZES}, %w: {SIZES}) {{ (%d - %e) * %w }}")
    return first, second, third


def _connected(third_params: dict[str, Any] | None = None) -> tuple[PipelineConfig, tuple[Any, Any, Any]]:
    """`y0 = (tanh(a + b) - a * b) * w` and `y1 = a * b`, by three stages."""
    first, second, third = _stages()
    config = PipelineConfig()
    config["input"]["x"].connect(config[first]["input"]["a"])
    config["input"]["y"].connect(config[first]["input"]["b"])
    config[third].params = third_params  # named before the second stage: the order follows from connections
    config[first]["output"][0].connect(config[second]["input"]["c"])
    config[first]["output"][1].connect(config[third]["input"]["e"])
    config[second]["output"][0].connect(config[third]["input"]["d"])
    config[third]["output"][0].connect(config["output"][0])
    config[first]["output"][1].connect(config["output"][1])
    return config, (first, second, third)


def _expected(a: Any, b: Any, w: Any) -> list[Any]:
    return [(np.tanh(a + b) - a * b) * w, a * b]


def _check(found: Any, wanted: Any) -> None:
    assert len(found) == len(wanted)
    for one, other in zip(found, wanted, strict=True):
        np.testing.assert_allclose(one.numpy(), other, rtol=1e-5, atol=1e-6)


@pytest.fixture(scope="module")
def factory() -> PipelineExecutorFactoryModule:
    config, (*_, third) = _connected()
    config["param_group"]["weights"].connect(config[third]["param"])
    return build(config)


def test_runs_overlap_and_results_come_in_order(factory: PipelineExecutorFactoryModule) -> None:
    module = PipelineModule(factory)
    w = floats(4, 3)
    module.set_params("weights", {"w": w})
    rows = [(floats(4, 3), floats(4, 3)) for _ in range(50)]
    for a, b in rows:
        module.set_input("x", a)
        module.set_input("y", b)
        module.run()
    assert module.num_executing_pipeline == 50 and module.num_outputs == 2
    for a, b in rows:
        _check(module.get_output(), _expected(a, b, w))


def test_parameters_change_for_the_runs_that_follow(factory: PipelineExecutorFactoryModule) -> None:
    module = PipelineModule(factory)
    a, b = floats(4, 3), floats(4, 3)
    module.set_input("x", a)
    module.set_input("y", b)
    for scale in range(12):
        module.set_params("weights", {"w": np.full((4, 3), scale, "float32")})
        module.run()
    for scale in range(12):
        _check(module.get_output(), _expected(a, b, scale))


def test_results_do_not_change_later(factory: PipelineExecutorFactoryModule) -> None:
    module = PipelineModule(factory)
    module.set_params("weights", {"w": np.ones((4, 3), "float32")})
    given = floats(4, 3)
    module.set_input("x", given)
    module.set_input("y", given)
    given[:] = np.nan  # inputs are copied
    module.run()
    found = module.get_output()
    before = [each.numpy().copy() for each in found]
    assert not np.isnan(before[0]).any()
    for _ in range(5):
        module.set_input("x", floats(4, 3))
        module.run()
        module.get_output()
    for each, old in zip(found, before, strict=True):
        np.testing.assert_array_equal(each.numpy(), old)


def test_what_an_unset_input_and_a_taken_result_say(factory: PipelineExecutorFactoryModule) -> None:
    module = PipelineModule(factory)
    with pytest.raises(UsageError, match=r"V0806.*'x' is not set"):
        module.run()
    with pytest.raises(UsageError, match="V0806"):
        module.get_output()
    assert module.get_output(synchronize=False) == []
    with pytest.raises(UsageError, match=r"V0803.*'z'"):
        module.set_input("z", floats(4, 3))
    with pytest.raises(UsageError, match="V0803"):
        module.set_params("weight", {})
    with pytest.raises(UsageError, match=r"V0803.*'v'"):
        module.set_params("weights", {"v": floats(4, 3)})
    with pytest.raises(UsageError, match=r"V0804.*mapping by name, got NoneType"):
        module.set_params("weights", None)
    with pytest.raises(UsageError, match=r"V0803.*no group"):
        module.set_params([], {})
    with pytest.raises(HeddleError):
        module.set_input("x", floats(2, 2))
    assert module.get_input_pipeline_map("y") == ["0", "b"]
    assert module.get_params_group_pipeline_map("weights") == 2
    module.set_input("x", np.ones((4, 3), "float32"))
    module.set_input("y", np.ones((4, 3), "float32"))
    module.run()
    _check(module.get_output()[1:], [np.ones((4, 3))])


@pytest.mark.parametrize("executor", ["graph", "aot"])
def test_a_run_that_fails_is_told_and_the_next_one_goes_on(executor: str) -> None:
    first = program("def @main(%i: Tensor[(2), int32]) { %i + 1 }")
    second = program(
        'def @main(%t: Tensor[(5), float32], %j: Tensor[(2), int32]) { take(%t, %j, mode="fast") }'
    )
    third = program("def @main(%k: Tensor[(2), float32]) { %k * 2f }")
    config = PipelineConfig()
    config["input"]["i"].connect(config[first]["input"]["i"])
    config["input"]["t"].connect(config[second]["input"]["t"])
    config[first]["output"][0].connect(config[second]["input"]["j"])
    config[second]["output"][0].connect(config[third]["input"]["k"])
    config[third]["output"][0].connect(config["output"][0])
    config[second].build_func = lambda *args, **given: relay.build(*args, executor=executor, **given)
    module = PipelineModule(build(config))
    module.set_input("t", np.arange(5, dtype="float32"))
    rows = [[0, 1], [2, 8], [2, 3]]
    for row in rows:
        module.set_input("i", np.array(row, "int32"))
        module.run()
    np.testing.assert_array_equal(module.get_output()[0].numpy(), [2, 4])
    with pytest.raises(Trap, match=r"U1001.*index 9"):
        module.get_output()
    np.testing.assert_array_equal(module.get_output()[0].numpy(), [6, 8])


def test_no_more_runs_wait_than_may() -> None:
    """`run` waits for stages that have many to do; all results come, in their order."""
    slow = program("def @main(%a: Tensor[(200, 200), float32]) { nn.dense(nn.dense(%a, %a), %a) }")
    config = PipelineConfig()
    config["input"]["a"].connect(config[slow]["input"]["a"])
    config[slow]["output"][0].connect(config["output"][0])
    module = PipelineModule(build(config))
    for number in range(40):
        module.set_input("a", np.full((200, 200), number / 100, "float32"))
        module.run()
        assert module._entries[0][1].qsize() <= 8
    for number in range(40):
        value = (number / 100) ** 3 * 200 * 200
        np.testing.assert_allclose(module.get_output()[0].numpy(), np.full((200, 200), value), rtol=1e-4)


def test_tvms_names_lead_to_them() -> None:
    assert heddle.contrib.pipeline_executor.PipelineModule is PipelineModule
    assert heddle.contrib.pipeline_executor_build.PipelineConfig is PipelineConfig
    assert heddle.contrib.pipeline_executor.pipeline_executor_enabled()
    assert heddle.contrib.pipeline_executor_build.pipeline_executor_build_enabled()


@pytest.mark.parametrize(
    "change",
    [
        {"stages": 0},
        {"stages": 2},
        {"stages": True},
        {"outputs": []},
        {"outputs": [[3, 0]]},
        {"outputs": [[2, 1]]},
        {"inputs": [["x", 0, "a"], ["y", 0, "a"]]},
        {"inputs": [["x", 0, "q"]]},
        {"inputs": [["x", -1, "a"]]},
        {"inputs": [["x", 0]]},
        {"edges": [[1, 0, 0, "a"]]},
        {"edges": [[1, 0, 1, "c"]]},
        {"edges": "none"},
        {"params": [["weights", 5]]},
        {"cpus": [[], [], [], []]},
        {"cpus": None},
    ],
)
def test_damaged_connections(factory: PipelineExecutorFactoryModule, change: dict[str, Any]) -> None:
    text = json.dumps(json.loads(factory.wiring.to_json()) | change)

    def executors() -> Any:
        wiring = wiring_from_json(text)
        stages, devices, names = factory.imports, factory.devices, factory.names
        return PipelineExecutorFactoryModule(stages, devices, names, wiring).executors()

    with pytest.raises(FormatError, match="V0805"):
        executors()


def test_damaged_text_of_connections() -> None:
    for text in ("", "[]", "{}", "3", "[" * 100_000):
        with pytest.raises(FormatError, match="V0805"):
            wiring_from_json(text)


def test_a_pipeline_in_a_file(factory: PipelineExecutorFactoryModule, tmp_path: Path) -> None:
    path = export_library(factory, tmp_path)
    assert os.path.dirname(path) == str(tmp_path)
    a, b, w = floats(4, 3), floats(4, 3), floats(4, 3)
    again = load_module(path)
    assert isinstance(again, PipelineExecutorFactoryModule) and again.wiring == factory.wiring
    for module in (PipelineModule.load_library(path), again["create"]()):
        module.set_params("weights", {"w": w})
        module.set_input("x", a)
        module.set_input("y", b)
        module.run()
        _check(module.get_output(), _expected(a, b, w))


def test_parameters_that_are_built_in() -> None:
    w = floats(4, 3)
    config, _ = _connected({"w": w})
    module = PipelineModule(build(config))
    a, b = floats(4, 3), floats(4, 3)
    module.set_input("x", a)
    module.set_input("y", b)
    module.run()
    _check(module.get_output(), _expected(a, b, w))


def test_processors_of_a_stage() -> None:
    config, (first, *_) = _connected({"w": floats(4, 3)})
    config[first].cpu_affinity = str(min(os.sched_getaffinity(0)))
    factory = build(config)
    assert factory.wiring.cpus == ((min(os.sched_getaffinity(0)),), (), ())
    module = PipelineModule(factory)
    module.set_input("x", floats(4, 3))
    module.set_input("y", floats(4, 3))
    module.run()
    assert len(module.get_output()) == 2
    config[first].cpu_affinity = "100000"
    with pytest.raises(UsageError, match=r"V0805.*100000"):
        PipelineModule(build(config))
    config[first].cpu_affinity = "all"
    with pytest.raises(UsageError, match=r"D0110.*'all'"):
        build(config)


def test_a_forked_child_runs_its_own_stages(factory: PipelineExecutorFactoryModule) -> None:
    module = PipelineModule(factory)
    ones = np.ones((4, 3), "float32")
    module.set_params("weights", {"w": ones})
    module.set_input("x", ones)
    module.set_input("y", ones)
    module.run()
    child = os.fork()
    if child == 0:
        module.set_params("weights", {"w": ones})
        module.run()
        os._exit(int(not np.array_equal(module.get_output()[1].numpy(), ones)))
    assert os.waitpid(child, 0)[1] == 0
    _check(module.get_output()[1:], [ones])


BAD: list[tuple[str, Callable[[PipelineConfig, Any, Any], Any]]] = [
    ("input.*stage.*input.*stage", lambda c, a, b: c[a]["input"]["a"].connect(c[b]["input"]["c"])),
    ("output.*stage.*output.*stage", lambda c, a, b: c[a]["output"][0].connect(c[b]["output"][0])),
    ("output.*pipeline", lambda c, a, b: c["output"][0].connect(c[a]["input"]["a"])),
    ("input.*output", lambda c, a, b: c["input"]["x"].connect(c["output"][0])),
    ("param", lambda c, a, b: c["param_group"]["p"].connect(c[a]["input"]["a"])),
    ("itself|cannot be connected", lambda c, a, b: c[a]["output"][0].connect(c[a]["input"]["a"])),
    ("no input 'z'", lambda c, a, b: c[a]["input"]["z"]),
    ("no output 2", lambda c, a, b: c[a]["output"][2]),
    ("numbered", lambda c, a, b: c["output"]["first"]),
    ("expected", lambda c, a, b: c["inputs"]),
    ("expected", lambda c, a, b: c[a]["inputs"]),
    ("expected", lambda c, a, b: c["input"]["x"].connect(3)),
    ("same pipeline", lambda c, a, b: c["input"]["x"].connect(PipelineConfig()[a]["input"]["a"])),
    ("outputs are numbered from 0", lambda c, a, b: build(c)),
    ("expected a PipelineConfig", lambda c, a, b: build(None)),
    ("expected", lambda c, a, b: c[a][[]]),
]


@pytest.mark.parametrize(("message", "act"), BAD)
def test_connections_that_are_refused(message: str, act: Callable[..., Any]) -> None:
    first, second, _ = _stages()
    with pytest.raises(UsageError, match=rf"D0110(.|\n)*({message})"):
        act(PipelineConfig(), first, second)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("dev", "cpu"),
        ("mod_name", 3),
        ("cpu_affinity", 0),
        ("build_func", 3),
        ("build_func", lambda *a, **k: 1),
    ],
)
def test_settings_of_stages_are_checked(name: str, value: Any) -> None:
    config, (first, *_) = _connected({"w": floats(4, 3)})
    setattr(config[first], name, value)
    with pytest.raises(UsageError, match=rf"D0110.*{name} of stage 0"):
        build(config)


def test_an_output_has_one_number_and_one_source() -> None:
    config, (_, second, third) = _connected()
    with pytest.raises(UsageError, match=r"D0110.*source already"):
        config[second]["output"][0].connect(config["output"]["00"])
    assert config[third]["output"]["0"].name == "0"


def test_an_interrupted_wait_loses_nothing(factory: PipelineExecutorFactoryModule) -> None:
    module = PipelineModule(factory)
    module.set_params("weights", {"w": np.ones((4, 3), "float32")})
    for value in (1, 2):
        for name in ("x", "y"):
            module.set_input(name, np.full((4, 3), value, "float32"))
        module.run()
    second = module._results[1]

    class Interrupted:
        def get(self) -> Any:
            module._results[1] = second
            raise KeyboardInterrupt

    module._results[1] = Interrupted()  # type: ignore[call-overload]
    with pytest.raises(KeyboardInterrupt):
        module.get_output()
    for value in (1, 2):
        _check(module.get_output()[1:], [np.full((4, 3), value**2)])


def test_what_is_no_pipeline(factory: PipelineExecutorFactoryModule) -> None:
    with pytest.raises(UsageError, match=r"V0805.*NoneType"):
        PipelineModule(None)  # type: ignore[arg-type]
    with pytest.raises(UsageError, match=r"V0803.*0"):
        PipelineModule(factory).set_input(0, np.ones((4, 3)))  # type: ignore[arg-type]


def test_types_sources_and_cycles_are_checked() -> None:
    first, second, _ = _stages()
    other = program("def @main(%q: Tensor[(4), float32]) { tanh(%q) }")
    config = PipelineConfig()
    config["input"]["x"].connect(config[first]["input"]["a"])
    config[first]["output"][0].connect(config[second]["input"]["c"])
    with pytest.raises(UsageError, match=r"D0110.*source already"):
        config["input"]["y"].connect(config[first]["input"]["a"])
    with pytest.raises(UsageError, match=r"D0110.*Tensor\[\(4\), float32\]"):
        config[first]["output"][0].connect(config[other]["input"]["q"])
    with pytest.raises(UsageError, match=r"D0110.*Tensor\[\(4\), float32\]"):
        config["input"]["x"].connect(config[other]["input"]["q"])
    with pytest.raises(UsageError, match=r"D0110.*cycle"):
        config[second]["output"][0].connect(config[first]["input"]["b"])
    config[second]["output"][0].connect(config["output"][0])
    with pytest.raises(UsageError, match=r"D0110.*'b' of stage 0 has no source"):
        build(config)


def test_connections_as_text() -> None:
    config, _ = _connected()
    lines = str(config).splitlines()
    assert lines[0] == "input(x) -> mod0.input(a)" and "mod1.output(0) -> mod2.input(d)" in lines
    assert len(lines) == 7


def test_devices_of_a_damaged_file(factory: PipelineExecutorFactoryModule, tmp_path: Path) -> None:
    path = Path(export_library(factory, tmp_path))
    sections = {name: bytes(part.data) for name, part in section_table(memoryview(path.read_bytes())).items()}
    (name,) = (name for name, data in sections.items() if b"cpu:0" in data and b"stages" in data)
    write_artefact(path, {**sections, name: sections[name].replace(b"cpu:0", b"cpx:0")})
    with pytest.raises(FormatError, match=r"V0805.*unknown device"):
        load_module(path)
