"""Models as Relay programs: what `relay.frontend` has."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from onnx import ModelProto

from heddle.frontend.codes import N0302
from heddle.frontend.onnx import from_onnx as import_graph
from heddle.frontend.params import detach_params
from heddle.ir.module import IRModule
from heddle.lower.relax_to_relay import to_relay
from heddle.relay.nodes import AnyDim
from heddle.runtime.tensor import Tensor
from heddle.support.diagnostics import UsageError


def from_onnx(
    model: ModelProto | str | Path,
    shape: Mapping[str, Sequence[Any]] | None = None,
    dtype: str | Mapping[str, str] | None = "float32",
    opset: int | None = None,
    freeze_params: bool = True,
    convert_config: Mapping[str, Any] | None = None,
    export_node_renamed_model_path: str | None = None,
) -> tuple[IRModule, dict[str, Tensor]]:
    """Import an ONNX model as a Relay program, and the parameters that it takes.

    The importer is that of `relax.frontend.onnx.from_onnx`, whose graph `to_relay` writes in Relay.

    - `model`: the message, or the path of a file.
    - `shape`: shapes of inputs by name, of numbers and `relay.Any()`; other dimensions are the model's, those
      with a name `?`.
    - `dtype`: element types of inputs by name, in place of the model's.
    - `opset`: read the model as one of this operator set.
    - `freeze_params`: the initializers are constants of the program, and no parameters are left; else they
      are parameters of `main` behind the inputs, and come back by name.

    What Relay has no words for, loops that collect rows, say, stays in functions of graphs that the program
    calls.

    Raises: as `relax.frontend.onnx.from_onnx`; UsageError L0306 for inputs and results that Relay lacks,
    N0302 for `convert_config` and `export_node_renamed_model_path`, which are TVM's own.
    """
    if convert_config or export_node_renamed_model_path:
        name = "convert_config" if convert_config else "export_node_renamed_model_path"
        raise UsageError(N0302, f"from_onnx has no use for {name!r}", help="leave it out")
    if isinstance(shape, Mapping):  # anything else is refused there
        shape = {
            name: ["?" if isinstance(dim, AnyDim) else dim for dim in dims] for name, dims in shape.items()
        }
    graph = import_graph(model, shape, dtype, opset, keep_params_in_input=not freeze_params)
    bare, kept = detach_params(graph)
    params: dict[str, Tensor] = {}
    if not freeze_params:
        main = bare["main"]
        names = [param.name_hint for param in main.params[int(main.attrs["num_input"]) :]]
        params = dict(zip(names, kept["main"], strict=True))
    return to_relay(bare), params
