"""Convert the first argument of `heddle.compile`: modules and functions, paths, and models of ONNX and
PyTorch."""

from __future__ import annotations

import os
import sys
from typing import Any

from heddle.driver.codes import D0103, D0108
from heddle.driver.models import find_uncompiled, import_model
from heddle.ir.expr import Function
from heddle.ir.module import IRModule
from heddle.runtime.module import Module
from heddle.support.diagnostics import UsageError
from heddle.tir.nodes import PrimFunc


def module_of(source: Any, example_inputs: Any = None, dynamic_shapes: Any = None) -> Any:
    """Return the module or function to compile.

    Raises: UsageError D0103 for example inputs with a model that is not PyTorch's, D0101 and D0301 for a path
    that is not a model to compile, D0108 for any other value; the errors of importers.
    """
    if is_torch_model(source):
        from heddle.frontend.torch_export import from_torch  # a compiled file is loaded without the compiler

        return from_torch(source, example_inputs, dynamic_shapes)
    if example_inputs is not None or dynamic_shapes is not None:
        name = "example_inputs" if example_inputs is not None else "dynamic_shapes"
        raise UsageError(D0103, f"{name} is for PyTorch models, and the model is a {type(source).__name__}")
    if isinstance(source, IRModule | Function | PrimFunc):
        return source
    if isinstance(source, str | os.PathLike):
        return import_model(find_uncompiled(os.fspath(source)))
    onnx = sys.modules.get("onnx")
    if onnx is not None and isinstance(source, onnx.ModelProto):
        from heddle.frontend.onnx import from_onnx  # a compiled file is loaded without the compiler

        return from_onnx(source)
    raise UsageError(
        D0108,
        "expected an IRModule, a function, the path of a model, an onnx.ModelProto or a PyTorch module, got "
        f"{type(source).__name__}",
        help=_help(source),
    )


def is_torch_model(value: Any) -> bool:
    """Whether a value is a module, a function or a program of PyTorch. It does not import PyTorch."""
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(value, (torch.nn.Module, torch.jit.ScriptFunction, *_programs()))


def is_torch_tensor(value: Any) -> bool:
    """Whether a value is a tensor of PyTorch. It does not import PyTorch."""
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(value, torch.Tensor)


def _programs() -> tuple[type, ...]:
    export = sys.modules.get("torch.export")
    return () if export is None else (export.ExportedProgram,)


def is_example(value: Any) -> bool:
    """Whether a value in the place of a target is example inputs: a tensor of PyTorch, or several."""
    if isinstance(value, tuple | list):
        return any(map(is_example, value))
    if isinstance(value, dict):
        return any(map(is_example, value.values()))
    return is_torch_tensor(value)


def _help(source: Any) -> str | None:
    if isinstance(source, Module):
        return "it is compiled already: run it with heddle.relax.VirtualMachine"
    if isinstance(source, dict) and is_example(source):
        return "this is a state_dict: load it into its module, and compile the module with example_inputs"
    return None
