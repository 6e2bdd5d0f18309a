"""What shows a fault elsewhere: the part of the model, its inputs, what it should give, and how to run it.

A bundle is a zip file. `heddle replay` runs it on any machine and says whether the fault is still there.

| in it | what |
|---|---|
| `report.txt` | for a reader: what was found, and where |
| `bundle.json` | how it was compiled, and with which versions |
| `model.onnx` or `module.json` | the part that shows the fault |
| `input.N.npy`, `expected.N.npy` | inputs and outputs, in order |
| `before.txt`, `after.txt` | the text of the program before and after the pass |
"""

from __future__ import annotations

import io
import json
import platform
import zipfile
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import llvmlite
import numpy as np

from heddle import __version__
from heddle.driver.bisect.bisect import Finding
from heddle.driver.bisect.case import Case, Setup, fault
from heddle.driver.codes import D1002
from heddle.driver.inputs import Array, write_array
from heddle.driver.models import trusted_module
from heddle.ir.json_codec import load_json, save_json
from heddle.ir.module import IRModule
from heddle.support.codes import S0102
from heddle.support.diagnostics import FormatError, UsageError
from heddle.support.files import read_bytes, write_bytes
from heddle.target import Target

FORMAT = 1
MAX_BYTES = 4 << 30
"""What a bundle may unpack to."""
_PACKAGES = ("numpy", "ml_dtypes", "onnx", "onnxruntime")


def write_bundle(path: Path, finding: Finding) -> None:
    """Write what was found. Raises: UsageError S0101 where the path cannot be written."""
    case, stage = finding.case, finding.stage
    assert case is not None
    setup = case.setup
    facts = {
        "format": FORMAT,
        "heddle": __version__,
        "target": str(setup.target),
        "processor": setup.target.mcpu,
        "exec_mode": setup.exec_mode,
        "precision": setup.precision,
        "function": setup.function,
        "inputs": len(case.arrays),
        "expected": len(case.expected),
        "fault": fault(case),
        "stage": None if stage is None else stage.name,
        "kernel": None if stage is None else stage.kernel,
        "versions": {"python": platform.python_version(), "llvmlite": llvmlite.__version__, **_versions()},
        "system": platform.platform(),
    }
    parts: dict[str, bytes] = {
        "report.txt": (finding.text() + "\n").encode(),
        "bundle.json": json.dumps(facts, indent=1).encode(),
    }
    if finding.part is not None:
        parts["model.onnx"] = finding.part.SerializeToString()
    else:
        parts["module.json"] = save_json(case.mod).encode()
    for kind, arrays in (("input", case.arrays), ("expected", case.expected)):
        parts |= {f"{kind}.{number}.npy": _npy(array) for number, array in enumerate(arrays)}
    if stage is not None:
        parts |= {"before.txt": stage.before.encode(), "after.txt": stage.after.encode()}
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as file:
        for name, data in parts.items():
            file.writestr(name, data)
    write_bytes(path, packed.getvalue())


def replay(path: Path, target: str | None = None, trust: bool = False) -> tuple[str, dict[str, Any]]:
    """Run a bundle: what is wrong now, empty where nothing is, and what `bundle.json` tells. `target` is
    another target than the bundle's. A module in it may compute and nothing else, unless `trust` says so.

    Raises: UsageError S0102 where it cannot be read, S0401 for a module that asks for more than computing;
    FormatError D1002 for what is no bundle; what importing raises.
    """
    try:
        data = read_bytes(path)
    except OSError as error:
        raise UsageError(S0102, f"cannot read {path}: {error.strerror}") from error
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as file:
            if sum(item.file_size for item in file.infolist()) > MAX_BYTES:
                raise FormatError(D1002, f"{path} unpacks to more than {MAX_BYTES} bytes")
            parts = {item.filename: file.read(item) for item in file.infolist()}
        facts = json.loads(parts["bundle.json"])
        if facts["format"] != FORMAT:
            raise FormatError(D1002, f"{path}: expected format {FORMAT}, got {facts['format']}")
        setup = Setup(
            Target(target or facts["target"]), facts["exec_mode"], facts["precision"], facts["function"]
        )
        arrays, expected = (
            tuple(_array(parts[f"{kind}.{number}.npy"]) for number in range(facts[key]))
            for kind, key in (("input", "inputs"), ("expected", "expected"))
        )
        mod = _module(parts, path.name, trust)
    except (zipfile.BadZipFile, KeyError, ValueError, TypeError, EOFError) as error:
        raise FormatError(D1002, f"{path} is no bundle, or a damaged one: {error}") from error
    return fault(Case(mod, arrays, expected, setup)), facts


def _module(parts: dict[str, bytes], name: str, trust: bool) -> IRModule:
    if "model.onnx" in parts:
        import onnx  # an optional package

        from heddle.frontend.onnx import from_onnx  # it needs the package onnx

        return from_onnx(onnx.load_from_string(parts["model.onnx"]))
    found = load_json(parts["module.json"].decode())
    if not isinstance(found, IRModule):
        raise ValueError("module.json holds no module")
    made: IRModule = trusted_module(found, name, trust)
    return made


def _npy(array: Array) -> bytes:
    data = io.BytesIO()
    write_array(data, array.astype(str) if array.dtype == object else array)
    return data.getvalue()


def _array(data: bytes) -> Array:
    array: Array = np.load(io.BytesIO(data), allow_pickle=False)
    return array.astype(object) if array.dtype.kind == "U" else array


def _versions() -> dict[str, str]:
    found = {}
    for name in _PACKAGES:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue
    return found
