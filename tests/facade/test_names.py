"""Public names resolve to what the rooms have."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import heddle
from heddle.facade.table import ALIASES, EXPORTS
from heddle.script import ir as I
from heddle.script import relax as R
from heddle.script import tir as T
from heddle.support.diagnostics import MissingNameError

NAMES = Path(__file__).with_name("public_names.txt").read_text().split()
"""Names that programs for TVM use and that exist here; a new one is added when its meaning is there."""
ROOTS = {"heddle": heddle, "R": R, "T": T, "I": I}


def resolve(name: str) -> Any:
    root, *parts = name.split(".")
    value: Any = ROOTS[root]
    for part in parts:
        value = getattr(value, part)
    return value


@pytest.mark.parametrize("root", ROOTS)
def test_names_resolve(root: str) -> None:
    missing = []
    for name in NAMES:
        if name.split(".")[0] == root:
            try:
                resolve(name)
            except AttributeError as error:
                missing.append(f"{name}: {error}")
    assert not missing, "\n".join(missing)


@pytest.mark.parametrize("module", EXPORTS)
def test_table_has_no_dead_entries(module: str) -> None:
    for words in EXPORTS[module].values():
        for word in words.split():
            assert resolve(f"{module}.{word.partition('=')[0]}") is not None


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("relay.FuseOps.max_depth", 1),
        ("relay.ToMixedPrecision.keep_orig_output_dtype", True),
        ("no.such.option", 1),
    ],
)
def test_options_of_passes_that_are_not_loaded_are_known(key: str, value: object) -> None:
    config = f"{{{key!r}: {value!r}}}"
    program = f"import heddle; assert heddle.transform.PassContext(config={config}).config == {config}"
    found = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert (found.returncode == 0) == (key != "no.such.option") and ("I0502" in found.stderr) == bool(
        found.returncode
    )


def test_an_export_wins_over_a_submodule_of_its_name() -> None:
    """Importing a submodule sets the package's attribute of its name, before or after its first use."""
    program = (
        "import heddle.runtime.tensor; from heddle.runtime import tensor, device\n"
        "import heddle.runtime.device\n"
        "from heddle.runtime import device as later; import heddle.runtime\n"
        "assert device is later is heddle.runtime.device and tensor is heddle.runtime.tensor\n"
        "assert tensor([1.0]).shape == (1,) and device('cpu') == heddle.cpu(0)\n"
    )
    subprocess.run([sys.executable, "-c", program], check=True)


@pytest.mark.parametrize("alias", ALIASES)
def test_aliases_are_the_same_module(alias: str) -> None:
    assert resolve(alias) is resolve(ALIASES[alias])


def test_submodules_of_aliases_import() -> None:
    from heddle.relax.frontend.onnx import from_onnx  # type: ignore[import-not-found]
    from heddle.tirx.stmt_functor import post_order_visit  # type: ignore[import-not-found]

    from heddle.frontend.onnx import from_onnx as own

    assert from_onnx is own
    assert callable(post_order_visit)


def test_a_misspelt_name_is_suggested() -> None:
    with pytest.raises(MissingNameError, match=r"D0601.*BlockBuildr(.|\n)*did you mean 'BlockBuilder'"):
        resolve("heddle.relax.BlockBuildr")


@pytest.mark.parametrize("module", ["heddle.runtime", "heddle.vm", "heddle.vm.relax", "heddle.vm.relay"])
def test_runtime_imports_no_compiler(module: str) -> None:
    program = f"import {module}, sys; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    rooms = {name.split(".")[1] for name in done.stdout.split() if name.startswith("heddle.")}
    assert rooms <= {"facade", "support", "systems", "runtime", "vm"}
    assert not {"onnx", "torch", "typer", "rich", "scipy"} & set(done.stdout.split())


@pytest.mark.parametrize("module", ["heddle.runtime", "heddle.vm"])
def test_import_waits_for_nothing_that_was_not_asked_for(module: str) -> None:
    program = f"import {module}, sys; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert not {"numpy", "ml_dtypes", "llvmlite", "ctypes"} & set(done.stdout.split())


def test_the_package_itself_loads_little() -> None:
    """`import heddle` takes as long as the modules that the façade imports."""
    program = "import heddle, sys; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    loaded = set(done.stdout.split())
    assert {name for name in loaded if name.startswith("heddle.")} == {
        "heddle.facade",
        "heddle.facade.install",
        "heddle.facade.table",
    }
    assert not {"importlib.abc", "importlib.resources", "tempfile", "dataclasses", "inspect"} & loaded


@pytest.mark.parametrize(
    ("change", "found"),
    [("sys.abiflags = 't'", "free-threaded"), ("sys.implementation.name = 'pypy'", "is pypy")],
)
def test_an_interpreter_with_other_objects_is_refused(change: str, found: str) -> None:
    program = f"import sys; {change}\ntry:\n    import heddle\nexcept ImportError as error:\n    print(error)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.startswith("error[S0704]: ") and found in done.stdout and "help: " in done.stdout
