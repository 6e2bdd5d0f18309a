"""PyTorch models by way of ONNX: `torch.onnx.export` writes a model, and `from_onnx` reads it.

| given | exporter |
|---|---|
| `torch.export.ExportedProgram` | the one of exported programs (package `onnxscript`) |
| `torch.nn.Module`, traced functions excepted | that one; where it fails or is missing, the tracing one |
| `torch.jit.ScriptModule`, `ScriptFunction` | the one of TorchScript |

Tracing follows the branches that the example takes. Where PyTorch warns of that, the export is refused.
"""

from __future__ import annotations

import inspect
import tempfile
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

from heddle.frontend.codes import N0001, N0501, N0502
from heddle.frontend.onnx import from_onnx
from heddle.ir.module import IRModule
from heddle.support.diagnostics import FormatError, MissingDependencyError, UsageError
from heddle.support.distribution import pip_install

_HOW = "heddle.compile(module, example_inputs=(x,))"


def from_torch(model: Any, example_inputs: Any = None, dynamic_shapes: Any = None) -> IRModule:
    """Import a PyTorch model in inference mode, as `from_onnx` imports what `torch.onnx.export` makes of it.

    - `model`: a `torch.nn.Module`, what `torch.jit` or `torch.compile` made of one, or a
      `torch.export.ExportedProgram`.
    - `example_inputs`: a tensor, a tuple or list of the arguments, or a dict of arguments by name. Arrays of
      numpy become tensors. A program that was exported has them already.
    - `dynamic_shapes`: as `torch.export.export` takes them: for each argument, in order or by name, its free
      dimensions by number, `{"x": {0: "batch"}}`; a value is a name or a `torch.export.Dim`. Other
      dimensions are those of the example.

    `main` takes the tensors among the arguments in their order, under the names that `forward` gives them.

    Raises: UsageError N0502 where examples are missing, or given and not wanted; MissingDependencyError N0001
    without the package `onnxscript`, where an exported program needs it; FormatError N0501 for
    what no exporter takes; else what `from_onnx` raises.
    """
    import torch  # an extra: PyTorch is loaded when a model of its own comes

    model = getattr(model, "_orig_mod", model)  # what torch.compile wraps
    args, kwargs = _examples(model, example_inputs, dynamic_shapes)
    with tempfile.TemporaryDirectory(prefix="heddle-", ignore_cleanup_errors=True) as folder:
        path = Path(folder) / "model.onnx"
        with torch.no_grad(), _inference_mode(model):
            _export(model, args, kwargs, dynamic_shapes, path)
        return from_onnx(path)


def _extra() -> str:
    return pip_install("torch")


def _examples(model: Any, given: Any, dynamic_shapes: Any) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """The arguments of a call by position and by name, as tensors. Raises: UsageError N0502."""
    import torch  # an extra: PyTorch is loaded when a model of its own comes

    kind = type(model).__name__
    if isinstance(model, torch.export.ExportedProgram):
        if given is not None or dynamic_shapes is not None:
            raise UsageError(
                N0502,
                "an ExportedProgram has its example inputs and free dimensions already",
                help="give dynamic_shapes to torch.export.export, and heddle.compile the program alone",
            )
        return (), {}
    if given is None:
        raise UsageError(N0502, f"PyTorch module {kind} needs example inputs to be exported", help=_HOW)
    if isinstance(given, Mapping):
        return (), {str(name): _as_tensor(value) for name, value in given.items()}
    if isinstance(given, tuple | list):
        return tuple(map(_as_tensor, given)), {}
    if not isinstance(given, torch.Tensor | np.ndarray):
        raise UsageError(
            N0502,
            f"example inputs of {kind} are a tensor, a tuple or list of arguments, or a dict of them by "
            f"name: got {type(given).__name__}",
            help=_HOW,
        )
    return (_as_tensor(given),), {}


def _as_tensor(value: Any) -> Any:
    import torch  # an extra: PyTorch is loaded when a model of its own comes

    return torch.from_numpy(value) if isinstance(value, np.ndarray) else value


@contextmanager
def _inference_mode(model: Any) -> Iterator[None]:
    """Dropout and normalisations compute as they do when a model is used; afterwards all is as it was."""
    import torch  # an extra: PyTorch is loaded when a model of its own comes

    modules = list(model.modules()) if isinstance(model, torch.nn.Module) else []
    training = [each for each in modules if each.training]
    for each in training:
        each.training = False
    try:
        yield
    finally:
        for each in training:
            each.training = True


def _export(
    model: Any, args: tuple[Any, ...], kwargs: dict[str, Any], dynamic_shapes: Any, path: Path
) -> None:
    """Write the model by the best exporter that takes it. Raises: FormatError N0501, MissingDependencyError
    N0001.
    """
    import torch  # an extra: PyTorch is loaded when a model of its own comes

    is_script = isinstance(model, torch.jit.ScriptModule | torch.jit.ScriptFunction)
    is_program = isinstance(model, torch.export.ExportedProgram)
    has_script = find_spec("onnxscript") is not None
    if is_program and not has_script:
        raise MissingDependencyError(
            N0001, "an ExportedProgram is exported to ONNX with the package 'onnxscript'", help=_extra()
        )
    exporters: list[Any] = []
    if has_script and not is_script:
        exporters.append(_program_options)
    if not is_program:
        exporters.append(_trace_options)
    failures = []
    for options_of in exporters:

        def attempt(options_of: Any = options_of) -> None:
            options = options_of(model, args, kwargs, dynamic_shapes)
            torch.onnx.export(model, args, str(path), kwargs=kwargs or None, **options)

        failure = _failure_of(attempt)
        if failure is None:
            return
        failures.append(failure)
    name = type(model).__name__
    raise FormatError(
        N0501,
        f"torch.onnx.export cannot export {name}: {failures[0]}",
        notes=[f"the tracing exporter: {failure}" for failure in failures[1:]],
        help=None if has_script or is_script else f"{_extra()} brings the exporter that does not trace",
    )


def _failure_of(attempt: Any) -> str | None:
    """What went wrong, in a line; None where nothing did."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            attempt()
    except Exception as error:
        causes = [error]
        while causes[-1].__cause__ is not None:
            causes.append(causes[-1].__cause__)  # type: ignore[arg-type]
        lines = [line.strip() for line in str(causes[-1]).splitlines() if line.strip()]
        return f"{type(causes[-1]).__name__}: {lines[0]}" if lines else type(causes[-1]).__name__
    return None


def _program_options(
    _model: Any, _args: tuple[Any, ...], _kwargs: dict[str, Any], dynamic_shapes: Any
) -> dict[str, Any]:
    """What `torch.onnx.export` is told to export by way of an exported program."""
    return {"dynamic_shapes": dynamic_shapes, "dynamo": True, "external_data": True, "verbose": False}


def _trace_options(
    model: Any, args: tuple[Any, ...], kwargs: dict[str, Any], dynamic_shapes: Any
) -> dict[str, Any]:
    """What it is told to export by tracing. Raises: ValueError for arguments that are no tensors; from here
    on, PyTorch's warning that the trace holds for this example alone is an error.
    """
    import torch  # an extra: PyTorch is loaded when a model of its own comes

    names = _names(model, len(args), kwargs)
    warnings.simplefilter("error", torch.jit.TracerWarning)
    axes = _axes(names, [*args, *kwargs.values()], dynamic_shapes)
    return {"input_names": names, "dynamic_axes": axes, "dynamo": False}


def _names(model: Any, count: int, kwargs: Mapping[str, Any]) -> list[str]:
    """The names of the arguments: those of the function, or numbers where it has none for them."""
    forward = getattr(model, "forward", model)
    try:
        params = list(inspect.signature(forward).parameters.values())
    except (TypeError, ValueError):  # a function of TorchScript
        params = []
    single = [p.name for p in params if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    single += [f"input_{index}" for index in range(len(single), count)]
    order = [name for name in single if name in kwargs] or list(kwargs)
    return [*single[:count], *order]


def _axes(names: Sequence[str], values: Sequence[Any], dynamic_shapes: Any) -> dict[str, dict[int, str]]:
    """Free dimensions as the tracing exporter takes them: number → name, by argument."""
    import torch  # an extra: PyTorch is loaded when a model of its own comes

    if not all(isinstance(value, torch.Tensor) for value in values):
        raise ValueError("it takes tensors alone as arguments")
    if dynamic_shapes is None:
        return {}
    by_name = (
        dynamic_shapes
        if isinstance(dynamic_shapes, Mapping)
        else dict(zip(names, dynamic_shapes, strict=False))
    )
    unknown = [name for name in by_name if name not in names]
    if unknown:
        raise ValueError(f"dynamic_shapes names {unknown[0]!r}; the arguments are {', '.join(names)}")
    return {
        name: {axis: _dim_name(name, axis, dim) for axis, dim in _free(shape) if _is_free(dim)}
        for name, shape in by_name.items()
        if shape
    }


def _free(shape: Any) -> list[tuple[int, Any]]:
    return list(shape.items()) if isinstance(shape, Mapping) else list(enumerate(shape))


def _is_free(dim: Any) -> bool:
    return dim is not None and not isinstance(dim, int) and "STATIC" not in str(getattr(dim, "type", ""))


def _dim_name(name: str, axis: int, dim: Any) -> str:
    """A dimension's own name, or one that is made up for `Dim.AUTO` and `Dim.DYNAMIC`."""
    return dim if isinstance(dim, str) else getattr(dim, "__name__", None) or f"{name}_{axis}"
