"""One file for machines of several ages: programs with weights, shapes and branches in each variant."""

from __future__ import annotations

import json
import shutil
import struct
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import heddle
from heddle import te
from heddle.driver.pipeline import OptionError
from heddle.frontend.onnx import from_onnx
from heddle.runtime import KernelModule, VariantsModule, load_module, variants_in
from heddle.runtime import kernel_module as kernel_room
from heddle.runtime import module as module_room
from heddle.runtime.artefact import open_artefact
from heddle.runtime.linker import shared_library_command
from heddle.runtime.needs import Processor, platform_of
from heddle.runtime.processor import this_processor
from heddle.script import from_source
from heddle.support.diagnostics import FormatError, UsageError
from heddle.target import Target
from heddle.vm.relax import VirtualMachine, VMExecutable
from tests.e2e.command_line import heddle as command

TARGETS = ["llvm -mcpu=x86-64-v3", "llvm -mcpu=x86-64-v4", "llvm -mcpu=x86-64"]
NAMES = ("x86-64-v4", "x86-64-v3", "x86-64")
MODEL = """
@I.ir_module
class Module:
    @R.function
    def main(
        x: R.Tensor(("n", 37), "float32"), w: R.Tensor((37, 259), "float32"),
        table: R.Tensor((20011, 13), "float32"), at: R.Tensor(("k",), "int64"), c: R.Tensor((), "bool"),
    ):
        y = R.matmul(x, w)
        if c:
            z = R.nn.relu(y)
        else:
            z = R.exp(R.minimum(y, R.const(1.0, "float32")))
        s = R.nn.softmax(z, axis=-1)
        rows = R.take(table, at, axis=0)
        return (s, rows)
"""
modes = pytest.mark.parametrize("mode", ["bytecode", "compiled"])


@pytest.fixture(scope="module")
def weights() -> dict[str, np.ndarray]:
    rng = np.random.default_rng(5)
    return {
        "w": rng.standard_normal((37, 259)).astype("float32") / 6,
        "table": rng.standard_normal((20011, 13)).astype("float32"),
    }


def expected(weights: dict[str, np.ndarray], x: Any, at: Any, c: bool) -> tuple[np.ndarray, np.ndarray]:
    y = x.astype("float64") @ weights["w"]
    z = np.maximum(y, 0) if c else np.exp(np.minimum(y, 1))
    e = np.exp(z - z.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True), weights["table"][at]


def check(executable: Any, weights: dict[str, np.ndarray]) -> None:
    vm = VirtualMachine(executable, heddle.cpu())
    rng = np.random.default_rng(6)
    for n, k, c in ((1, 3, True), (7, 1, False), (18, 40, True)):
        x = rng.standard_normal((n, 37)).astype("float32")
        at = rng.integers(0, 20011, k)
        soft, rows = vm["main"](x, at, np.array(c))
        want_soft, want_rows = expected(weights, x, at, c)
        assert soft.shape == want_soft.shape and soft.dtype == "float32"
        np.testing.assert_allclose(soft.numpy(), want_soft, rtol=2e-5, atol=1e-7)
        np.testing.assert_array_equal(rows.numpy(), want_rows)


def needs_x86_64(*names: str) -> None:
    """Skip what this machine cannot run."""
    for name in names or ("x86-64",):
        if not this_processor().runs(Target(f"llvm -mtriple=x86_64-unknown-linux-gnu -mcpu={name}").needs):
            pytest.skip(f"this machine does not run code for {name}")


@modes
def test_each_variant_computes_the_same(mode: str, weights: dict[str, Any], tmp_path: Path) -> None:
    needs_x86_64()
    made = heddle.compile(from_source(MODEL), TARGETS, params=weights, exec_mode=mode)
    assert isinstance(made, VariantsModule) and made.names == NAMES
    made.export_library(tmp_path / "m.heddle")
    assert [info.name for info in variants_in(tmp_path / "m.heddle")] == list(NAMES)
    check(made, weights)
    check(load_module(tmp_path / "m.heddle"), weights)
    for info in variants_in(tmp_path / "m.heddle"):
        loaded = load_module(tmp_path / "m.heddle", variant=info.name)
        assert isinstance(loaded, VMExecutable) and loaded.variant == info.name
        if not info.missing:
            check(made.select(info.name), weights)
            check(loaded, weights)


def _convolutions() -> Any:
    """Two convolutions and a product with random weights, of sizes that fit no vector."""
    onnx = pytest.importorskip("onnx", reason="the model is made by it")
    rng = np.random.default_rng(8)
    shapes = {"a": (19, 5, 3, 3), "b": (33, 19, 1, 1), "c": (33, 11)}
    weights = [
        onnx.numpy_helper.from_array((rng.standard_normal(shape) / 5).astype("float32"), name)
        for name, shape in shapes.items()
    ]
    node = onnx.helper.make_node
    nodes = [
        node("Conv", ["x", "a"], ["p"], pads=[1, 1, 1, 1], strides=[2, 2]),
        node("Relu", ["p"], ["q"]),
        node("Conv", ["q", "b"], ["r"]),
        node("GlobalAveragePool", ["r"], ["s"]),
        node("Flatten", ["s"], ["t"]),
        node("MatMul", ["t", "c"], ["y"]),
    ]
    value, floats = onnx.helper.make_tensor_value_info, onnx.TensorProto.FLOAT
    x, y = value("x", floats, ["n", 5, 17, 23]), value("y", floats, ["n", 11])
    graph = onnx.helper.make_graph(nodes, "g", [x], [y], weights)
    return onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 17)], ir_version=8)


@modes
def test_variants_agree_with_another_engine(mode: str, tmp_path: Path) -> None:
    needs_x86_64()
    engine = pytest.importorskip("onnxruntime", reason="outputs are compared with it")
    model = _convolutions()
    made = heddle.compile(from_onnx(model), TARGETS, exec_mode=mode)
    made.export_library(tmp_path / "m.heddle")
    session = engine.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    for info in variants_in(tmp_path / "m.heddle"):
        for n in () if info.missing else (1, 3):
            x = np.random.default_rng(n).standard_normal((n, 5, 17, 23)).astype("float32")
            loaded = load_module(tmp_path / "m.heddle", variant=info.name)
            got = VirtualMachine(loaded, heddle.cpu())["main"](x).numpy()
            np.testing.assert_allclose(got, session.run(None, {"x": x})[0], rtol=1e-4, atol=1e-5)


@modes
def test_weights_are_stored_once(mode: str, weights: dict[str, Any], tmp_path: Path) -> None:
    made = heddle.compile(from_source(MODEL), TARGETS, params=weights, exec_mode=mode)
    made.export_library(tmp_path / "all.heddle")
    data = (tmp_path / "all.heddle").read_bytes()
    assert data.count(weights["table"].tobytes()) == 1
    singles = []
    for name in NAMES:
        made.select(name).export_library(tmp_path / name)
        singles.append((tmp_path / name).stat().st_size)
        assert (tmp_path / name).read_bytes().count(weights["table"].tobytes()) == 1
    assert len(data) < sum(singles) - 2 * weights["table"].nbytes + 4096


def test_files_are_the_same_each_time(weights: dict[str, Any], tmp_path: Path) -> None:
    mod = from_source(MODEL)
    for name, order in (("a", TARGETS), ("b", TARGETS), ("c", TARGETS[::-1])):
        heddle.compile(mod, order, params=weights).export_library(tmp_path / name)
    a, b, c = ((tmp_path / name).read_bytes() for name in "abc")
    assert a == b == c  # nor does the order of targets matter where no two need as much


@modes
def test_build_takes_lists_too(mode: str) -> None:
    needs_x86_64()
    mod = from_source(MODEL)
    made = heddle.relax.build(mod, target=(Target(TARGETS[0]), "llvm -mcpu=x86-64"), exec_mode=mode)
    assert isinstance(made, VariantsModule) and made.names == ("x86-64-v3", "x86-64")


def test_loops_alone_have_variants(tmp_path: Path) -> None:
    needs_x86_64()
    a = te.placeholder((19,), "float32", name="a")
    twice = te.create_prim_func([a, te.compute((19,), lambda i: a[i] * 2.0)]).with_attr(
        "global_symbol", "twice"
    )
    made = heddle.compile(twice, ["llvm -mcpu=x86-64", "llvm -mcpu=x86-64-v3"])
    made.export_library(tmp_path / "k.heddle")
    x = np.arange(19, dtype="float32")
    for module in (made, load_module(tmp_path / "k.heddle"), load_module(tmp_path / "k.heddle", "x86-64")):
        out = np.zeros_like(x)
        module["twice"](x, out)
        np.testing.assert_array_equal(out, x * 2)
    assert isinstance(made.select("x86-64"), KernelModule)


def test_wrong_lists() -> None:
    mod = from_source(MODEL)
    with pytest.raises(OptionError, match="D0103"):
        heddle.compile(mod, [])
    with pytest.raises(OptionError, match=r"D0105.*-num-cores=3.*would never be taken"):
        heddle.compile(mod, ["llvm -mcpu=haswell", "llvm -mcpu=haswell -num-cores=3"])
    with pytest.raises(UsageError, match=r"(?s)H0105.*'x86-64-v33'.*did you mean 'x86-64-v3'"):
        heddle.compile(mod, ["llvm", "llvm -mcpu=x86-64-v33"])
    with pytest.raises(OptionError, match="D0105"):
        heddle.compile(mod, [None, "llvm"])
    for unordered in ({"llvm"}, (text for text in ("llvm",)), ["llvm", 3]):
        with pytest.raises(UsageError, match=r"H0101.*a target is a text or a mapping"):
            heddle.compile(mod, unordered)
    with pytest.raises(UsageError, match="H0102"):
        heddle.compile(mod, ["llvm", "cuda"])


def test_variants_of_one_processor_have_the_names_of_their_targets() -> None:
    a, b = "llvm -mtriple=aarch64-linux-gnu -mcpu=generic", "llvm -mtriple=x86_64-linux-gnu -mcpu=generic"
    made = heddle.compile(from_source(MODEL), [a, b])
    assert set(made.names) == {str(Target(a)), str(Target(b))}


def test_a_library_for_an_old_processor_has_no_newer_instructions(tmp_path: Path) -> None:
    needs_x86_64()
    tool = shutil.which("objdump") or pytest.skip("there is no objdump here")
    try:
        shared_library_command()
    except UsageError as error:
        pytest.skip(str(error))
    made = heddle.compile(from_source(MODEL), TARGETS)
    for name, is_wide in (("x86-64", False), ("x86-64-v4", True)):
        made.select(name).export_library(tmp_path / f"{name}.so")
        listing = subprocess.run(
            [tool, "-d", tmp_path / f"{name}.so"], capture_output=True, text=True, check=True
        ).stdout
        assert ("%ymm" in listing or "%zmm" in listing) == is_wide
        assert load_module(tmp_path / f"{name}.so").as_text() == made.select(name).as_text()


# Hosts that are not this one


def pretend(monkeypatch: pytest.MonkeyPatch, level: str, more: tuple[str, ...] = ()) -> None:
    """Let what chooses and checks believe in a processor of a level."""
    needs = Target(f"llvm -mtriple=x86_64-unknown-linux-gnu -mcpu={level}").needs
    fake = Processor(
        "x86_64-unknown-linux-gnu", level, ",".join(f"+{name}" for name in sorted({*needs.features, *more}))
    )
    monkeypatch.setattr(module_room, "this_processor", lambda: fake)
    monkeypatch.setattr(kernel_room, "this_processor", lambda: fake)


@pytest.fixture(scope="module")
def path(weights: dict[str, Any], tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("variants") / "m.heddle"
    heddle.compile(from_source(MODEL), TARGETS[:2], params=weights).export_library(path)
    return path


@pytest.mark.parametrize(
    ("level", "variant"), [("haswell", "x86-64-v3"), ("znver3", "x86-64-v3"), ("cascadelake", "x86-64-v4")]
)
def test_an_older_machine_takes_what_it_can_run(
    monkeypatch: pytest.MonkeyPatch, path: Path, weights: dict[str, Any], level: str, variant: str
) -> None:
    needs_x86_64(variant)
    pretend(monkeypatch, level)
    loaded = load_module(path)
    assert loaded.variant == variant
    check(loaded, weights)


def test_a_machine_that_is_too_old_says_what_it_lacks(monkeypatch: pytest.MonkeyPatch, path: Path) -> None:
    pretend(monkeypatch, "x86-64-v2", ("avx",))
    with pytest.raises(FormatError) as caught:
        load_module(path)
    text = str(caught.value)
    assert caught.value.code == "F0112"
    assert "x86-64-v3 needs avx2, bmi, bmi2, f16c, fma, lzcnt, movbe" in text
    assert "x86-64-v4 needs avx2, avx512bw" in text and "the processor has avx, cmov, popcnt" in text
    forced = load_module(path, variant="x86-64-v3")  # it can be looked at
    assert "@main" in forced.as_text()
    with pytest.raises(FormatError, match=r"F0111.*lacks: avx2, bmi"):
        VirtualMachine(forced, heddle.cpu())


@modes
def test_a_single_program_for_another_processor_is_refused(
    monkeypatch: pytest.MonkeyPatch, mode: str, tmp_path: Path
) -> None:
    executable = heddle.compile(from_source(MODEL), "llvm -mcpu=x86-64-v4", exec_mode=mode)
    executable.export_library(tmp_path / "one.heddle")
    pretend(monkeypatch, "haswell")
    for each in (executable, load_module(tmp_path / "one.heddle")):
        with pytest.raises(FormatError, match=r"F0111.*x86-64-v4.*lacks: avx512bw, avx512cd"):
            VirtualMachine(each, heddle.cpu())


def test_code_for_this_machine_says_so(tmp_path: Path) -> None:
    """The target "llvm" has no name of a processor in it; the file does know what it needs."""
    heddle.compile(from_source(MODEL)).export_library(tmp_path / "one.heddle")
    (kernels,) = load_module(tmp_path / "one.heddle").imports
    assert kernels.needs == Target("llvm").needs
    assert kernels.needs.platform == platform_of(this_processor().triple)


def test_a_damaged_variant_does_not_stop_the_other(path: Path, tmp_path: Path) -> None:
    needs_x86_64("x86-64-v3")
    image = bytearray(path.read_bytes())
    whole = open_artefact(path)
    v3 = module_room.read_variants(whole)[1]
    v4 = module_room.read_variants(whole)[0]
    own = set(v4.parts.values()) - set(v3.parts.values())
    for number in own:
        section = whole[f"part.{number}"]
        if len(section.data):
            image[section.offset + len(section.data) // 2] ^= 16
    (tmp_path / "m.heddle").write_bytes(image)
    assert load_module(tmp_path / "m.heddle", variant="x86-64-v3").variant == "x86-64-v3"
    with pytest.raises(FormatError, match=r"F0104.*part\.\d+.*damaged"):
        load_module(tmp_path / "m.heddle", variant="x86-64-v4")
    struct.pack_into("<I", image, 8, 2)  # nor is it a file of the version before
    (tmp_path / "m.heddle").write_bytes(image)
    with pytest.raises(FormatError, match="F0104"):
        load_module(tmp_path / "m.heddle")


# The command line


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    pytest.importorskip("typer", reason="the command line needs the extra cli")
    needs_x86_64()
    path = tmp_path_factory.mktemp("cli")
    (path / "m.py").write_text(MODEL)
    arm = "llvm -mtriple=aarch64-linux-gnu -mcpu=cortex-a72"
    targets = [word for target in (TARGETS[2], TARGETS[0], arm) for word in ("--target", target)]
    done = command("compile", "m.py", "-o", "m.heddle", *targets, "--json", cwd=path)
    assert done.code == 0, done.err
    facts = json.loads(done.out)
    assert facts["variants"] == ["x86-64-v3", "x86-64", "cortex-a72"] and facts["target"] is None
    assert sum(facts["phases_s"].values()) == pytest.approx(facts["compile_s"])
    return path


def run(folder: Path, *args: str) -> dict[str, Any]:
    done = command("run", "m.heddle", "--dim", "n=3", "--dim", "k=5", "--json", *args, cwd=folder)
    assert done.code == 0, done.err
    return dict(json.loads(done.out))


def test_the_command_line_runs_the_best_or_the_named(folder: Path) -> None:
    plain = run(folder, "--variant", "x86-64")
    assert plain["variant"] == "x86-64" and plain["target"] == "llvm -mcpu=x86-64"
    best = run(folder)
    assert best["variant"] == ("x86-64-v3" if _runs_v3() else "x86-64")
    for one, other in zip(plain["outputs"], best["outputs"], strict=True):
        assert one["shape"] == other["shape"] and one["mean"] == pytest.approx(other["mean"], rel=1e-5)


def _runs_v3() -> bool:
    return this_processor().runs(Target("llvm -mtriple=x86_64-unknown-linux-gnu -mcpu=x86-64-v3").needs)


def test_the_command_line_lists_variants(folder: Path) -> None:
    done = command("inspect", "m.heddle", "--stage", "variants", cwd=folder)
    assert done.code == 0, done.err
    lines = done.out.splitlines()
    assert lines[0].startswith("x86-64-v3: ") and "-mcpu=x86-64-v3" in lines[1] and "avx2" in lines[2]
    assert "cortex-a72: lacks aarch64-linux" in lines
    assert done.out.count("taken here") == 1
    for name in ("x86-64", "cortex-a72"):
        done = command("inspect", "m.heddle", "--stage", "bytecode", "--variant", name, cwd=folder)
        assert done.code == 0 and "@main" in done.out, done.err


def test_the_command_line_explains_and_debugs_a_variant(folder: Path) -> None:
    dims = ("--dim", "n=3", "--dim", "k=5")
    done = command("explain", "m.heddle", "--variant", "x86-64", *dims, "--json", cwd=folder)
    assert done.code == 0 and json.loads(done.out)["kernels"], done.err
    done = command("debug", "m.heddle", "--variant", "x86-64", *dims, "-c", "where", cwd=folder)
    assert done.code == 0, done.err


def test_the_command_line_on_wrong_requests(folder: Path) -> None:
    command("run", "m.heddle", "--variant", "x86-64-v5", cwd=folder).failed_with("U0508", "x86-64-v3, x86-64")
    command("run", "m.heddle", "--variant", "cortex-a72", cwd=folder).failed_with(
        "F0111", "are for aarch64-linux, and this is"
    )
    command("run", "m.py", "--variant", "x86-64", cwd=folder).failed_with("D0301", "--variant")
    command("inspect", "m.py", "--variant", "x86-64", cwd=folder).failed_with("D0301", "--variant")
    several = ("--target", "llvm -mcpu=x86-64", "--target", "llvm -mcpu=haswell")
    command("compile", "m.py", "-o", "m.so", *several, cwd=folder).failed_with("U0509", "one target")
    assert not (folder / "m.so").exists()
    for options, code in (("-mcpu=no-such", "H0105"), ("-mtriple=foo", "H0106"), ("-mattr=-64bit", "H0107")):
        wrong = ("--target", f"llvm {options}")
        command("compile", "m.py", "-o", "o.heddle", *wrong, cwd=folder).failed_with(code)
        command("compile", "m.py", "-o", "o.heddle", "--target", "llvm", *wrong, cwd=folder).failed_with(code)
        command("inspect", "m.py", "--stage", "llvm", *wrong, cwd=folder).failed_with(code)
    twice = ("--target", "llvm -mcpu=haswell", "--target", "llvm -mcpu=haswell")
    command("compile", "m.py", "-o", "o.heddle", *twice, cwd=folder).failed_with("D0105")
    one = ("--target", "llvm -mcpu=sapphirerapids -mattr=+avx10.2")
    assert command("compile", "m.py", "-o", "far.heddle", *one, cwd=folder).code == 0
    command("run", "far.heddle", cwd=folder).failed_with("F0111", "lacks", "avx10.2", "-mcpu=sapphirerapids")
    listed = command("inspect", "far.heddle", "--stage", "variants", cwd=folder)
    assert listed.code == 0 and "without variants" in listed.out
