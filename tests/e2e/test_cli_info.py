"""`heddle info`: ONNX models, script text, compiled models and their variants."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.command_line import DENSE, SOURCE
from tests.e2e.test_cli_onnx import dense_model, in_process

onnx = pytest.importorskip("onnx", reason="ONNX models need the extra onnx")
pytest.importorskip("typer", reason="the command line needs the extra cli")


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """One network in each form."""
    folder = tmp_path_factory.mktemp("info")
    made = {name: folder / f"dense{suffix}" for name, suffix in SUFFIXES.items()}
    model = dense_model()
    model.producer_name, model.producer_version = "hand", "2"
    made["onnx"].write_bytes(model.SerializeToString())
    made["script"].write_text(DENSE)
    assert in_process("compile", made["onnx"], "-o", made["compiled"]).code == 0
    options = ("--target", "llvm -mcpu=x86-64-v3", "--target", "llvm -mcpu=x86-64-v2")
    assert in_process("compile", made["onnx"], "-o", made["variants"], *options).code == 0
    return made


SUFFIXES = {"onnx": ".onnx", "script": ".py", "compiled": ".heddle", "variants": "-variants.heddle"}


def facts(*args: object) -> dict[str, Any]:
    done = in_process("info", *args, "--json")
    assert done.code == 0, done.err
    found: dict[str, Any] = json.loads(done.out)
    return found


def test_an_onnx_model_is_told_as_its_exporter_wrote_it(models: dict[str, Path]) -> None:
    found = facts(models["onnx"])
    (main,) = found["functions"]
    assert main["inputs"] == {"x": "float32[rows, 8]"} and main["free_dims"] == ["rows"]
    assert list(main["outputs"]) == ["y"] and "rows, 4" in main["outputs"]["y"]
    assert found["operators"] == {"Add": 1, "MatMul": 1, "Relu": 1}
    assert (found["num_weights"], found["weights_bytes"]) == (2, 4 * (8 * 4 + 4))
    assert found["origin"] == {"producer": "hand 2", "operator sets": "ai.onnx 18"}
    assert found["size_bytes"] == models["onnx"].stat().st_size


def test_script_text_is_told_by_its_graph(models: dict[str, Path]) -> None:
    (main,) = (found := facts(models["script"]))["functions"]
    assert main["inputs"] == {"x": "float32[n, 8]", "w": "float32[8, 4]", "s": "int64[n]"}
    assert found["operators"]["matmul"] == 1 and found["num_weights"] == 0


def test_a_compiled_model_keeps_what_it_was_made_of(models: dict[str, Path]) -> None:
    found = facts(models["compiled"])
    (main,) = found["functions"]
    assert main["inputs"] == {"x": "float32[rows, 8]"} and "rows" in main["memory"]
    assert found["origin"]["models"] == "dense.onnx" and found["origin"]["compiler"].startswith("heddle ")
    assert found["target"].startswith("llvm") and found["num_kernels"] >= 1
    assert {"matmul", "add", "nn.relu"} <= set(found["operators"])
    assert found["weights_bytes"] >= 4 * (8 * 4 + 4)


def test_variants_are_told_apart(models: dict[str, Path]) -> None:
    found = facts(models["variants"])
    assert len(found["variants"]) == 2 and any(row["runs"] for row in found["variants"])
    chosen = facts(models["variants"], "--variant", found["variants"][1]["name"])
    assert chosen["target"] == found["variants"][1]["target"]
    in_process("info", models["onnx"], "--variant", "a").failed_with("D0301", "--variant")


def test_the_text_names_what_matters(models: dict[str, Path]) -> None:
    for name, path in models.items():
        done = in_process("info", path)
        assert done.code == 0, done.err
        assert "input x: float32[" in done.out and "operators: " in done.out, name
    assert "memory of a call" in in_process("info", models["compiled"]).out


def test_an_unsupported_model_is_told_all_the_same(tmp_path: Path) -> None:
    model, path = dense_model(), tmp_path / "odd.onnx"
    model.graph.node[2].op_type = "Unheard"
    path.write_bytes(model.SerializeToString())
    found = facts(path)
    assert found["operators"]["Unheard"] == 1 and found["functions"][0]["outputs"] == {"y": "unknown"}


def test_subgraphs_and_external_data_count(tmp_path: Path) -> None:
    model = onnx.load_model_from_string(dense_model().SerializeToString())
    path = tmp_path / "apart.onnx"
    onnx.save_model(
        model,
        path,
        save_as_external_data=True,
        location="weights.bin",
        size_threshold=0,
        convert_attribute=False,
    )
    found = facts(path)
    assert found["size_bytes"] == path.stat().st_size + (tmp_path / "weights.bin").stat().st_size
    assert found["weights_bytes"] == 4 * (8 * 4 + 4)


def test_bad_files_are_told_by_their_codes(tmp_path: Path) -> None:
    broken = tmp_path / "broken.onnx"
    broken.write_bytes(b"\0" * 100)
    in_process("info", broken).failed_with("N0102")
    in_process("info", tmp_path / "none.onnx").failed_with("D0101")


def test_a_compiled_model_is_told_without_the_compiler(models: dict[str, Path]) -> None:
    program = (
        "import sys; from heddle.driver.info import info; from heddle.driver.models import find_model; "
        f"info(find_model({str(models['compiled'])!r})); "
        "rooms = ('heddle.relax', 'heddle.tir', 'llvmlite', 'onnx'); "
        "print([name for name in sys.modules if name.startswith(rooms)])"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, env={"PYTHONPATH": str(SOURCE)}
    )
    assert done.stdout.strip() == "[]", done.stdout + done.stderr
