"""`heddle opt`: passes and pipelines on script text."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from heddle.driver.opt import OptOptions, run_passes
from heddle.driver.passes import NAMED_PIPELINES, pass_classes, pass_signature, pipeline_passes, read_pass
from heddle.ir.module import IRModule
from heddle.ir.structural import assert_structural_equal
from heddle.lower.pack_weights import PackWeights
from heddle.relax import GraphInterpreter
from heddle.relax.transform.dead_code_elimination import DeadCodeElimination
from heddle.relax.transform.fold_constant import FoldConstant
from heddle.relax.transform.lazy_transform_params import LazyTransformParams
from heddle.script import parse
from heddle.support.diagnostics import UsageError
from heddle.target import Target
from heddle.tir.transform.unroll_loop import UnrollLoop
from tests.e2e.command_line import DENSE, Done, heddle

pytest.importorskip("typer", reason="the command line needs the extra cli")
TARGET = Target("llvm -mcpu=x86-64-v3")
SMALL = """
@I.ir_module
class Module:
    @R.function
    def main(x: R.Tensor(("n", 8), "float32")) -> R.Tensor(("n", 8), "float32"):
        with R.dataflow():
            unused = R.exp(x)
            y = R.nn.relu(R.add(x, x))
            z = R.sqrt(y)
            R.output(z)
        return z
"""


@pytest.fixture
def small(tmp_path: Path) -> Path:
    path = tmp_path / "small.py"
    path.write_text(SMALL)
    return path


def from_stdin(text: str | bytes, *args: str) -> Done:
    return heddle("opt", *args, stdin=text.encode() if isinstance(text, str) else text)


# ---- the command


def test_passes_run_in_order_and_the_text_goes_on_to_the_next_command(small: Path) -> None:
    first = heddle("opt", "--pass", "DeadCodeElimination", "--pass", "LegalizeOps", "--verify-each", small)
    assert first.code == 0, first.err
    assert "R.exp" not in first.out and "R.call_tir(cls.relu" in first.out
    second = from_stdin(first.out, "--pass", "FuseOps", "--pass", "FuseTIR", "--print-after", "FuseOps", "-")
    assert second.code == 0, second.err
    assert "R.call_tir(cls.fused_add_relu_sqrt" in second.out
    assert second.err.startswith("# after FuseOps\n") and "Primitive" in second.err
    parse(second.out)


def test_without_passes_the_text_comes_back_in_its_printed_form() -> None:
    once = from_stdin(SMALL)
    assert once.code == 0, once.err
    assert_structural_equal(parse(once.out), parse(SMALL))
    assert from_stdin(once.out).out == once.out


def test_a_pipeline_until_a_pass(small: Path) -> None:
    done = heddle("opt", "--pipeline", "legalize", "--until", "LegalizeOps", small)
    assert done.code == 0, done.err
    assert "R.call_tir(cls.add" in done.out and "fused" not in done.out


def test_the_result_goes_to_a_file_with_its_constants_beside(tmp_path: Path) -> None:
    pytest.importorskip("onnx", reason="the model is ONNX")
    done = heddle("opt", "--pass", "FoldConstant", "-o", "net.py", "onnx:light_squeezenet", cwd=tmp_path)
    assert done.code == 0, done.err
    assert done.out.split() == ["net.py", "net.weights"]
    again = heddle("opt", "--pass", "DeadCodeElimination", "net.py", cwd=tmp_path)
    assert again.code == 0, again.err
    same = heddle("opt", "net.py", "-o", "net.py", cwd=tmp_path)
    same.failed_with("D0106", "is the model itself")
    heddle("opt", "net.py", "-o", "net.txt", cwd=tmp_path).failed_with("D0106", ".py")


def test_the_list_has_all_passes_and_pipelines() -> None:
    done = heddle("opt", "--list")
    assert done.code == 0, done.err
    for name in (*pass_classes(), *(f"{name}: " for name in NAMED_PIPELINES), "UnrollLoop(auto_max_step=0)"):
        assert f"  {name}" in done.out


@pytest.mark.parametrize(
    ("args", "code", "words"),
    [
        (["--pass", "FuseOp"], "D0302", ["did you mean 'FuseOps'?"]),
        (["--pipeline", "defualt"], "D0302", ["did you mean 'default'?"]),
        (["--pass", "FuseOps", "--until", "FuseTIR"], "D0302", ["not among those that run: FuseOps"]),
        (["--print-after", "FuseTIRs"], "D0302", ["did you mean 'FuseTIR'?"]),
        (["--pass", "UnrollLoop(steps=1)"], "D0303", ["has no option 'steps'", "auto_max_step"]),
        (["--verify-each", "--pass", "CallTIRRewrite"], "I0503", ["'no dataflow'", "run ToNonDataflow"]),
        (["--target", "lvm", "--pass", "PackWeights"], "H0102", ["did you mean 'llvm'?"]),
    ],
)
def test_a_wrong_name_or_option_is_told(args: list[str], code: str, words: list[str], small: Path) -> None:
    heddle("opt", *args, small).failed_with(code, *words)


def test_text_is_not_trusted() -> None:
    foreign = """
@T.prim_func
def f(A: T.Buffer((1,), "int32")):
    A[0] = T.call_extern("int32", "system", "true")
"""
    from_stdin(foreign).failed_with("S0401", "call_extern")
    assert from_stdin(foreign, "--trust").code == 0
    from_stdin("x" * 100, "--limit", "text_bytes=99").failed_with("S0601", "<stdin>")
    from_stdin(b"\xff\xfe").failed_with("S0102", "<stdin>")
    from_stdin("").failed_with("I0601")
    from_stdin("import os\nos.abort()\n").failed_with("I0601")
    weights = 'metadata = I.weights("w.weights")\n' + SMALL
    assert from_stdin(weights).code == 1


def test_a_compiled_model_is_refused(tmp_path: Path) -> None:
    (tmp_path / "m.heddle").write_bytes(b"")
    heddle("opt", "m.heddle", cwd=tmp_path).failed_with("D0301", "compiled already")


# ---- passes from text


@pytest.mark.parametrize("text", ["a.FuseOps", "FuseOp", "relay.NoPass()", "relax.FuseOps"])
def test_names_that_no_pass_has_are_refused(text: str) -> None:
    with pytest.raises(UsageError) as caught:
        read_pass(text, TARGET)
    assert caught.value.code == "D0302"


def test_options_of_passes_are_literals() -> None:
    assert read_pass("UnrollLoop", TARGET) == UnrollLoop()
    assert read_pass(" UnrollLoop( auto_max_step = 16 ) ", TARGET) == UnrollLoop(16)
    assert read_pass("DeadCodeElimination(entry_functions=['a', 'b'])", TARGET) == DeadCodeElimination(
        ("a", "b")
    )
    assert read_pass("DeadCodeElimination(entry_functions=None)", TARGET) == DeadCodeElimination()
    assert read_pass("FoldConstant(keep={'add'})", TARGET) == FoldConstant(frozenset({"add"}))
    assert read_pass("LazyTransformParams(fset_item=None)", TARGET) == LazyTransformParams(fset_item=None)
    assert read_pass("PackWeights", TARGET) == PackWeights(TARGET)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "1",
        "a().FuseOps",
        "FuseOps(",
        "FuseOps; FuseTIR",
        "FuseOps()()",
        "FuseOps(True)",
        "FuseOps(*a)",
        "FuseOps(**{'record_boundaries': True})",
        "FuseOps(record_boundaries=1)",
        "FuseOps(record_boundaries=print('hello'))",
        "FuseOps(record_boundaries=True, record_boundaries=True)",
        "UnrollLoop(auto_max_step=True)",
        "UnrollLoop(auto_max_step=" + "(" * 5000 + ")" * 5000 + ")",
        "UnrollLoop(auto_max_step=" + "9" * 5000 + ")",
        "FuseOps\0",
        "PackWeights(target='llvm')",
        "BindParams(func_name='main')",
        "UpdateVDevice(new_vdevice='cpu', index=0)",
        "LowerTileProducts(instruction=1)",
        "DeadCodeElimination(entry_functions=[1])",
    ],
)
def test_other_texts_are_refused(text: str) -> None:
    with pytest.raises(UsageError) as caught:
        read_pass(text, TARGET)
    assert caught.value.code == "D0303"


@pytest.mark.parametrize("name", pass_classes())
def test_every_pass_can_be_named(name: str) -> None:
    shown = pass_signature(pass_classes()[name])
    if "=..." not in shown:
        assert type(read_pass(shown, TARGET)) is type(read_pass(name, TARGET))


@pytest.mark.parametrize("name", NAMED_PIPELINES)
def test_pipelines_keep_their_contracts(name: str) -> None:
    """`finalize` takes graphs of loop functions, `lower` takes scheduled loops."""
    mod = parse(DENSE)
    for before in {"finalize": ("legalize",), "lower": ("legalize",)}.get(name, ()):
        mod = run_passes(mod, OptOptions(pipeline=before, target=TARGET))
    made = run_passes(mod, OptOptions(pipeline=name, verify_each=True, target=TARGET))
    assert isinstance(made, IRModule) and len(made)
    assert pipeline_passes(name, TARGET)


def test_a_fused_module_computes_the_same() -> None:
    mod = parse(SMALL)
    made = run_passes(mod, OptOptions(pipeline="optimize", passes=("LegalizeOps", "FuseOps", "FuseTIR")))
    x = np.random.default_rng().standard_normal((5, 8)).astype("float32")
    np.testing.assert_allclose(GraphInterpreter(made)["main"](x), GraphInterpreter(mod)["main"](x), rtol=1e-6)


def test_no_pass_gives_the_same_module() -> None:
    mod = parse(SMALL)
    assert run_passes(mod, OptOptions()) is mod
