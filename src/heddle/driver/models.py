"""From what a user calls a model to a module or an executable.

| written | meaning |
|---|---|
| `PATH.onnx` | an ONNX model |
| `onnx:NAME` | a real network that comes with the `onnx` package |
| `PATH.py` | script text; nothing in it is executed |
| `PATH.relay` | the text of a Relay program |
| `PATH.heddle`, `PATH.so` | a compiled model |
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any, BinaryIO

from heddle.driver.codes import D0101, D0104, D0106, D0301, D0401
from heddle.support.diagnostics import MissingDependencyError, UsageError, did_you_mean
from heddle.support.distribution import pip_install
from heddle.support.frozen import frozen
from heddle.support.limits import current_limits, exceeded
from heddle.support.reading import open_file, reading
from heddle.support.span import Source

_STDIN = "<stdin>"
SOURCE_SUFFIXES = (".onnx", ".py", ".relay")
COMPILED_SUFFIXES = (".heddle", ".so", ".dylib")
SUFFIXES = (*SOURCE_SUFFIXES, *COMPILED_SUFFIXES)
_IN_PYTHON = "in Python, heddle.compile(module, example_inputs=(x,)) compiles its module by way of ONNX"
_FOREIGN = {
    (".pt", ".pth", ".ckpt", ".bin"): f"this is a file of PyTorch, which only PyTorch loads: {_IN_PYTHON}",
    (".pt2",): "heddle.compile(torch.export.load(path)) compiles an exported program of PyTorch, in Python",
    (".safetensors",): f"this holds weights without their network: {_IN_PYTHON}",
    (".pb", ".h5", ".keras"): "convert a TensorFlow model to ONNX first: python -m tf2onnx.convert --help",
    (
        ".tflite",
    ): "convert it to ONNX first: python -m tf2onnx.convert --tflite MODEL.tflite --output MODEL.onnx",
    (".pkl", ".joblib"): "convert a model of scikit-learn to ONNX first, with skl2onnx.to_onnx(model, x)",
}
"""Files of others, by suffix: how to come to one that is known."""
_LIGHT_MODELS = ("backend", "test", "data", "light")


@frozen
class ModelFile:
    """A model that exists: `name` is what messages call it."""

    name: str
    path: Path

    @property
    def is_compiled(self) -> bool:
        """Whether the file holds a compiled program."""
        return self.suffix in COMPILED_SUFFIXES

    @property
    def is_library(self) -> bool:
        """Whether the file is a library of the system, which cannot be signed."""
        return self.suffix in COMPILED_SUFFIXES[1:]

    @property
    def suffix(self) -> str:
        """What the file's name ends in, without regard to case."""
        return self.path.suffix.lower()


def find_model(text: str) -> ModelFile:
    """The file that `text` means. Raises: UsageError D0101 with the known names; MissingDependencyError
    D0401.
    """
    if text.startswith("onnx:"):
        return ModelFile(text, _packaged(text.removeprefix("onnx:")))
    if "\0" in text:
        raise UsageError(D0101, f"no model at {text!r}: there is a zero byte in the name")
    path = Path(text)
    if path.suffix.lower() not in SUFFIXES:
        raise UsageError(
            D0101,
            f"model {text!r} is of unknown kind: expected a path that ends in {', '.join(SUFFIXES)}, or "
            "onnx:NAME",
            help=next((text for suffixes, text in _FOREIGN.items() if path.suffix.lower() in suffixes), None),
        )
    if path.exists() and not path.is_file():
        kind = "a folder" if path.is_dir() else "no ordinary file"
        raise UsageError(D0101, f"no model at {text!r}: expected a file, and it is {kind}")
    if not path.exists():
        raise UsageError(D0101, f"no model at {text!r}", help=did_you_mean(text, _models_beside(path)))
    return ModelFile(text, path)


def _models_beside(path: Path) -> list[str]:
    if not path.parent.is_dir():
        return []
    return [str(p) for p in path.parent.glob("*") if p.suffix.lower() in SUFFIXES and p.is_file()]


def check_not_model(model: ModelFile, output: Path) -> None:
    """Refuse to write over the model. Raises: UsageError D0106."""
    if output.exists() and output.samefile(model.path):
        raise UsageError(D0106, f"{output} is the model itself", help="give the output another name")


def check_output(model: ModelFile, output: Path) -> None:
    """Refuse to write a compiled model over the model, or where it would be taken for one that is not
    compiled.

    Raises: UsageError D0106.
    """
    from heddle.runtime.module import LINKED_SUFFIXES  # scripts are read without the runtime

    check_not_model(model, output)
    known = (".heddle", ".c", *LINKED_SUFFIXES)
    if output.suffix.lower() in known or (output.exists() and not output.is_file()):
        return  # a folder or a device is told about where the file is opened
    if output.suffix.lower() in SOURCE_SUFFIXES:
        raise UsageError(
            D0106,
            f"{output} would be taken for a model that is not compiled: its name ends in {output.suffix}",
            help="let the name end in .heddle, or in .so, .dylib or .a for a library",
        )
    raise UsageError(
        D0106,
        f"{output} is of unknown kind: expected a name that ends in {', '.join(known)}",
        help=f"{output.with_suffix('.heddle').name} would be a file that `heddle run` takes",
    )


def _packaged(name: str) -> Path:
    found = find_spec("onnx")
    if found is None or not found.submodule_search_locations:
        raise MissingDependencyError(
            D0401, f"the model onnx:{name} lies in the package 'onnx'", help=pip_install("onnx")
        )
    folder = Path(found.submodule_search_locations[0], *_LIGHT_MODELS)
    path = folder / f"{name.removesuffix('.onnx')}.onnx"
    if "/" in name or not path.is_file():
        known = sorted(other.stem for other in folder.glob("*.onnx"))
        raise UsageError(
            D0101,
            f"the onnx package has no model {name!r}: it has {', '.join(known)}",
            help=did_you_mean(name, known),
        )
    return path


def find_uncompiled(text: str) -> ModelFile:
    """As `find_model`. Raises: UsageError D0301, too, for a compiled model."""
    found = find_model(text)
    if found.is_compiled:
        raise UsageError(D0301, f"{text} is compiled already: expected script text or an ONNX model")
    return found


def _script_text(name: str, open_text: Callable[[], BinaryIO]) -> str:
    """The text of a file, which is closed. Raises: UsageError S0102, S0601 for a text that is too long."""

    most = current_limits().text_bytes
    with reading(name):
        with open_text() as file:
            data = file.read(most + 1)
        if len(data) <= most:
            return data.decode()
    raise exceeded("text_bytes", f"{name} has more than {most} bytes")


def import_model(
    model: ModelFile, shapes: Mapping[str, Sequence[Any]] | None = None, trust: bool = False
) -> Any:
    """The IRModule of a model that is not compiled yet.

    Text is not trusted unless `trust` says so: it may compute and nothing else, and its loop functions are
    compiled with bounds checks (`heddle.driver.capabilities`).

    Raises: what its frontend or parser raises; UsageError D0104 for text with C source in it, S0401 for text
    that asks for more than computing.
    """
    if model.suffix == ".onnx":
        from heddle.frontend.onnx import from_onnx  # a compiled file is loaded without the compiler
        from heddle.ops.load import load as load_operators

        load_operators()
        return from_onnx(str(model.path), shape_dict=shapes)
    if model.suffix == ".relay":
        from heddle.driver.dialects import in_relax  # a compiled file is loaded without the compiler

        mod = relay_module(model)
        return trusted_module(in_relax(mod, _entries(mod)), model.name, trust)

    text = _script_text(model.name, lambda: open_file(model.path))
    return import_script(Source(str(model.path), text), model.name, model.path.parent, trust)


def _entries(mod: Any) -> list[str]:
    """`main`, and the other functions of a Relay module that take tensors alone."""
    from heddle.graph.types import TensorType  # a compiled file is loaded without the compiler

    return [
        var.name_hint
        for var, func in mod.functions.items()
        if var.name_hint == "main"
        or (not func.type_params and all(isinstance(param.ty, TensorType) for param in func.params))
    ]


def relay_module(model: ModelFile) -> Any:
    """The Relay module of a text, with its types. Raises: ParseError, IRTypeError Q..; UsageError S0102,
    S0601 for a file that cannot be read.
    """
    from heddle.ops.load import load as load_operators  # a compiled file is loaded without the compiler
    from heddle.relay.text import parse

    load_operators()
    return parse(_script_text(model.name, lambda: open_file(model.path)), str(model.path))


def import_stdin(trust: bool = False) -> Any:
    """The IRModule of the script text on the standard input, which has no folder for weights. Raises: as
    `import_model`.
    """

    text = _script_text(_STDIN, lambda: os.fdopen(0, "rb", closefd=False))
    return import_script(Source(_STDIN, text), _STDIN, None, trust)


def import_script(source: Source, name: str, folder: Path | None, trust: bool = False) -> Any:
    """The IRModule of a script text, whose weights lie in `folder`. Messages call it `name`. Raises: as
    `import_model`.
    """
    from heddle.ir.module import IRModule  # a compiled file is loaded without the compiler
    from heddle.ops.load import load as load_operators
    from heddle.script.parser import DEFAULT_NAMES, parse_source

    load_operators()
    parsed = parse_source(source, DEFAULT_NAMES, folder=folder)
    return trusted_module(parsed if isinstance(parsed, IRModule) else IRModule.from_expr(parsed), name, trust)


def trusted_module(mod: Any, name: str, trust: bool) -> Any:
    """The module of a text, checked and guarded unless it is trusted. Raises: as `import_model`."""
    from heddle.codegen.c_source import c_sources  # a compiled file is loaded without the compiler
    from heddle.driver.capabilities import untrusted_module

    if trust:
        return mod
    sources = c_sources(mod)
    if sources:
        names = ", ".join(name for group in sources.values() for name in group)
        raise UsageError(
            D0104,
            f"model {name} holds C source ({names})",
            help="read it; if you would run it as a program, run it with --trust, or compile it from Python",
        )
    return untrusted_module(mod)
