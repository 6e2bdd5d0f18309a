"""How a program and what is asked of it go to the process that compiles, and what comes back.

The folder holds `program`, an artefact with the graph as JSON and its tensors, and the answers: one artefact
of an executable for each request. Requests and replies are lines of JSON.
"""

from __future__ import annotations

import json
import mmap
from collections.abc import Mapping
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any, TypeGuard

import numpy as np

from heddle.driver.codes import D0901
from heddle.ir.json_codec import load_json, save_json
from heddle.ir.module import IRModule
from heddle.ir.tensor_values import tensor_key
from heddle.ir.transform import PassContext
from heddle.runtime.artefact import open_artefact
from heddle.runtime.artefact_file import write_artefact
from heddle.runtime.dtype import DataType
from heddle.runtime.module import module_sections, modules_from_sections
from heddle.runtime.tensor import Tensor, tensor_from_bytes
from heddle.support.diagnostics import UsageError
from heddle.support.frozen import frozen
from heddle.support.limits import current_limits
from heddle.target import Target
from heddle.vm.constants import Constant, LateConstant
from heddle.vm.executable import Executable

PROGRAM = "program"
SHARED_BYTES = 1 << 12
"""Constants of at least so many bytes are kept once for all programs of a graph: those of the first."""


@frozen
class Setup:
    """What every program of a graph is compiled with. `machine` is "relax" or "relay"."""

    machine: str
    target: str
    exec_mode: str
    precision: str
    limits: Mapping[str, int]
    passes: Mapping[str, Any]


def setup_for(machine: str, target: Target, exec_mode: str, precision: str) -> Setup:
    """The setup that holds here: limits and choices of passes are the caller's.

    Raises: UsageError D0901 for choices that another process cannot be told.
    """
    context = PassContext.current()
    passes = {
        "opt_level": context.opt_level,
        "required_pass": sorted(context.required_pass),
        "disabled_pass": sorted(context.disabled_pass),
        "config": dict(context.config),
    }
    try:
        json.dumps(passes)
    except TypeError as error:
        raise UsageError(
            D0901, f"an option of the current PassContext cannot go to another process: {error}"
        ) from error
    return Setup(machine, str(target), exec_mode, precision, asdict(current_limits()), passes)


@frozen
class Request:
    """A program to compile: with `sizes`, for these values of free dimensions of `function` alone."""

    number: int
    function: str
    sizes: Mapping[str, int]

    @property
    def file_name(self) -> str:
        """Where in the folder the answer lies."""
        return f"{self.number}.heddle"


def write_program(folder: Path, setup: Setup, graph: IRModule) -> None:
    """Leave a graph for the other process."""
    tensors: list[Tensor] = []
    text = save_json(graph, tensors)
    table = [[str(value.dtype), list(value.shape)] for value in tensors]
    sections: dict[str, bytes | memoryview] = {
        "setup": json.dumps(asdict(setup)).encode(),
        "graph": text.encode(),
        "tensors": json.dumps(table).encode(),
    }
    sections |= {f"tensor.{number}": value.raw_bytes() for number, value in enumerate(tensors)}
    write_artefact(folder / PROGRAM, sections)


def read_program(folder: Path) -> tuple[Setup, IRModule]:
    """What `write_program` left. Its tensors lie in the mapped file."""
    sections = open_artefact(folder / PROGRAM)
    tensors = [
        tensor_from_bytes(sections[f"tensor.{number}"].data, shape, DataType(dtype))
        for number, (dtype, shape) in enumerate(json.loads(bytes(sections["tensors"].data)))
    ]
    setup = Setup(**json.loads(bytes(sections["setup"].data)))
    return setup, load_json(bytes(sections["graph"].data).decode(), tensors)


def places_of(base: Executable) -> dict[bytes, str]:
    """Of the constants of a program that others may share, digests, and the names that stand for them."""
    found: dict[bytes, str] = {}
    for number, value in enumerate(base.program.constants):
        if _may_be_shared(value):
            found.setdefault(tensor_key(value), str(number))
    return found


def _may_be_shared(value: Constant) -> TypeGuard[Tensor]:
    """Kernels rely on what integers hold that may be indices: they cannot come from elsewhere."""
    return isinstance(value, Tensor) and value.size_bytes >= SHARED_BYTES and not value.dtype.may_index


def write_executable(path: Path, made: Executable, places: Mapping[bytes, str]) -> None:
    """Write a program; of constants that the first program has too, only names."""
    constants = []
    for value in made.program.constants:
        name = places.get(tensor_key(value)) if places and _may_be_shared(value) else None
        constants.append(value if name is None else LateConstant(name))
    lean = type(made)(replace(made.program, constants=tuple(constants)), made.imports)
    write_artefact(path, module_sections(lean))


def read_executable(path: Path, base: Executable | None) -> Executable:
    """The program in a file that `write_executable` wrote into a folder of our own; `base` is the first one,
    whose constants it shares."""
    made = modules_from_sections(open_artefact(path, is_authentic=True))
    assert isinstance(made, Executable)
    if base is not None:
        shared = base.program.constants
        constants = tuple(
            shared[int(value.name)] if isinstance(value, LateConstant) else value
            for value in made.program.constants
        )
        made.program = replace(made.program, constants=constants)
    for value in made.program.constants:
        if isinstance(value, Tensor):
            _read_pages(value)
    return made


def _read_pages(tensor: Tensor) -> None:
    """Have the pages of a mapped tensor read now, in this thread: the first call would wait for them."""
    np.frombuffer(tensor.raw_bytes(), np.uint8)[:: mmap.PAGESIZE].max(initial=0)
