"""Bundles that reproduce a fault on another machine: the failing part of the model, its inputs, the expected
outputs, and how to run it.

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
import math
import platform
import zipfile
import zlib
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from tokenize import TokenError
from typing import Any

import llvmlite
import numpy as np

from heddle import __version__
from heddle.driver.bisect.bisect import Finding
from heddle.driver.bisect.case import Case, Setup, fault
from heddle.driver.codes import D1002
from heddle.driver.inputs import Array, check_arrays, write_array
from heddle.driver.models import trusted_module
from heddle.ir.json_codec import load_json, save_json
from heddle.ir.module import IRModule
from heddle.support.diagnostics import FormatError, HeddleError
from heddle.support.files import write_bytes
from heddle.support.limits import current_limits, exceeded
from heddle.support.reading import read_bytes, reading
from heddle.target import Target

FORMAT = 1
DAMAGED = (
    *(zipfile.BadZipFile, zlib.error, NotImplementedError, RuntimeError, EOFError),
    *(LookupError, ValueError, TypeError, OverflowError, MemoryError, TokenError),
)
"""Exceptions of the readers of a bundle's parts for damaged data."""
_PACKAGES = ("numpy", "ml_dtypes", "onnx", "onnxruntime")


def write_bundle(path: Path, finding: Finding) -> None:
    """Write a bundle. Raises: UsageError S0101 if the path cannot be written."""
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
    """Run a bundle. Return the fault that is still there ("" if none), and the contents of `bundle.json`.

    `target` overrides the bundle's target. A module in the bundle may only compute, unless `trust` is True.

    Raises: UsageError S0102 if it cannot be read, S0401 for a module that needs more capabilities than
    computing, S0601 above the limit `message_bytes`, D0201 to D0203 for arrays that do not match the model;
    FormatError D1002 for a file that is not a bundle; the errors of importers.
    """
    try:
        case, facts = _read(path, target, trust)
    except HeddleError:
        raise
    except DAMAGED as error:
        raise FormatError(D1002, f"{path} is no bundle, or a damaged one: {error}") from error
    return fault(case), facts


def _read(path: Path, target: str | None, trust: bool) -> tuple[Case, dict[str, Any]]:
    """What a bundle holds. Raises: as `replay`, and what its parts raise where they are damaged."""
    parts = _parts(path)
    facts = json.loads(parts["bundle.json"])
    if not isinstance(facts, dict) or facts.get("format") != FORMAT:
        found = facts.get("format") if isinstance(facts, dict) else facts
        raise FormatError(D1002, f"{path}: expected format {FORMAT}, got {found!r:.40}")
    texts = [_text(facts, key) for key in ("target", "exec_mode", "precision", "function", "heddle", "fault")]
    setup = Setup(Target(target or texts[0]), *texts[1:4])
    arrays = _arrays(parts, "input", facts["inputs"])
    expected = _arrays(parts, "expected", facts["expected"])
    case = Case(_module(parts, path.name, trust), arrays, expected, setup)
    if setup.function not in case.mod:
        raise FormatError(D1002, f"{path}: its model has no function {setup.function!r:.40}")
    signature = case.signature
    if len(signature.inputs) != len(arrays):
        raise FormatError(
            D1002, f"{path}: its model has {len(signature.inputs)} inputs, and {len(arrays)} are there"
        )
    check_arrays(signature, {spec.name: array for spec, array in zip(signature.inputs, arrays, strict=True)})
    return case, facts


def _parts(path: Path) -> dict[str, bytes]:
    with reading(path):
        data = read_bytes(path)
    most = current_limits().message_bytes
    with zipfile.ZipFile(io.BytesIO(data)) as file:
        if sum(item.file_size for item in file.infolist()) > most:
            raise exceeded("message_bytes", f"{path} unpacks to more than {most} bytes")
        return {item.filename: file.read(item) for item in file.infolist()}


def _text(facts: dict[str, Any], key: str) -> str:
    if not isinstance(facts[key], str):
        raise ValueError(f"{key!r} in bundle.json is no text")
    return str(facts[key])


def _arrays(parts: dict[str, bytes], kind: str, count: int) -> tuple[Array, ...]:
    return tuple(_array(parts[f"{kind}.{number}.npy"]) for number in range(count))


def _module(parts: dict[str, bytes], name: str, trust: bool) -> IRModule:
    if "model.onnx" in parts:
        from heddle.frontend.onnx import from_onnx  # it needs the package onnx
        from heddle.frontend.onnx.proto import decoded  # as above

        return from_onnx(decoded(parts["model.onnx"], name))
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
    file = io.BytesIO(data)
    version = np.lib.format.read_magic(file)
    read = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
    shape, _, dtype = read(file)
    if math.prod(shape) * dtype.itemsize > len(data):  # numpy would ask for the memory first
        raise ValueError(f"an array of shape {shape} in {len(data)} bytes")
    array: Array = np.lib.format.read_array(io.BytesIO(data), allow_pickle=False)
    return array.astype(object) if array.dtype.kind == "U" else array


def _versions() -> dict[str, str]:
    found = {}
    for name in _PACKAGES:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue
    return found
