"""`from_onnx`: a model file or message as a module of the graph dialect."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from onnx import ModelProto, ValueInfoProto

from heddle import ops
from heddle.frontend.codes import N0102, N0202
from heddle.frontend.onnx import ops as converters  # noqa: F401  (importing it registers them)
from heddle.frontend.onnx.bodies import FunctionTable
from heddle.frontend.onnx.check import check_model
from heddle.frontend.onnx.importer import GraphImporter
from heddle.frontend.onnx.inputs import InputTypes, input_kind, sanitized
from heddle.frontend.onnx.model_size import model_size
from heddle.frontend.onnx.part import given_inputs
from heddle.frontend.onnx.proto import LoadedModel, check_text, read_model
from heddle.frontend.onnx.scope import NotStraight, Parameters
from heddle.frontend.onnx.values import TextKind, Value, tensor_value
from heddle.graph.block_builder import BlockBuilder
from heddle.ir.expr import Expr, Var
from heddle.ir.module import IRModule
from heddle.support.collection import collection_paused
from heddle.support.diagnostics import FormatError, UsageError
from heddle.support.span import ModelSpan, at


@collection_paused()
def from_onnx(
    model: ModelProto | str | Path,
    shape_dict: Mapping[str, Sequence[Any]] | None = None,
    dtype_dict: str | Mapping[str, str] | None = "float32",
    opset: int | None = None,
    keep_params_in_input: bool = False,
    sanitize_input_names: bool = True,
) -> IRModule:
    """Import an ONNX model as a module whose function `main` takes the graph's inputs in their order.

    - `model`: the message, or the path of a file; tensors in other files are read from the file's folder.
    - `shape_dict`: shapes of inputs by name, of numbers, names and expressions; it fixes or renames
      dimensions.
    - `dtype_dict`: element types of inputs by name, in place of the model's own.
    - `opset`: read the model as one of this operator set.
    - `keep_params_in_input`: initializers become parameters behind the inputs, and their data the attribute
      `params`.
    - `sanitize_input_names`: make the inputs' names identifiers.

    `main` has the attribute `num_input`, and its results are variables of the outputs' names. A dimension's
    name is one symbolic variable in all inputs.

    Raises: FormatError N01.. for a damaged file, ImportModelError with one diagnostic for each node that
    cannot be imported, UsageError N0302 for arguments that do not fit.
    """
    ops.load()

    loaded = loaded_model(model)
    functions = FunctionTable(loaded)
    if opset is not None:
        if opset < 1:
            raise UsageError(N0202, f"operator sets count from 1, got {opset}")
        functions.model_opsets[""] = opset
    size = model_size(loaded, functions)
    check_model(loaded, functions)

    def imported(is_straight: bool) -> IRModule:
        importer = GraphImporter(loaded, BlockBuilder(), functions)
        importer.is_straight = is_straight
        types = InputTypes(shape_dict, dtype_dict, importer.dim_names)
        graph = loaded.proto.graph
        inputs = given_inputs(graph)
        params = types.params(inputs, sanitize_input_names)
        if keep_params_in_input:
            importer.params = Parameters()
        bind_inputs(importer, types, inputs, params)
        with at(ModelSpan(loaded.name, graph.name, "graph")):
            return _main(importer, params)

    try:
        return imported(size.is_straight)
    except NotStraight:
        return imported(is_straight=False)


def _main(importer: GraphImporter, inputs: list[Var]) -> IRModule:
    """The module with the function `main`, whose parameters are `inputs` and the kept initializers."""
    builder = importer.builder
    with builder.function("main", inputs, {"num_input": len(inputs)}):
        if importer.is_straight:
            with builder.dataflow():
                results = [builder.emit_output(expr, name) for name, expr in _outputs(importer)]
        else:
            results = [builder.emit(expr, name) for name, expr in _outputs(importer)]
        kept = importer.params.vars if importer.params is not None else []
        builder.emit_func_output(results[0] if len(results) == 1 else tuple(results), [*inputs, *kept])
    mod = builder.get()
    if importer.params is not None:
        mod["main"] = mod["main"].with_attr("params", tuple(importer.params.data))
    return mod


def _outputs(importer: GraphImporter) -> list[tuple[str, Expr]]:
    """The outputs' names, as identifiers, and their values."""
    graph = importer.model.proto.graph
    values: list[Value] = importer.run_graph(graph)
    named = zip(graph.output, values, strict=True)
    return [(sanitized(output.name), importer.tensor_of(value)) for output, value in named]


def bind_inputs(
    importer: GraphImporter, types: InputTypes, inputs: Sequence[ValueInfoProto], params: Sequence[Var]
) -> None:
    """Give the graph's inputs their parameters."""
    importer.know_dims(types.vars.values())
    for value, param in zip(inputs, params, strict=True):
        kind = input_kind(value)
        if kind is None:
            importer.bind(value.name, tensor_value(param, value.name))
        else:
            dtype = "string" if isinstance(kind, TextKind) else ""
            importer.bind(value.name, Value(expr=param, dtype=dtype, kind=kind))


def loaded_model(model: ModelProto | str | Path) -> LoadedModel:
    """A message, or a file that is read. Raises: FormatError N01..."""
    loaded = _loaded(model)
    check_text(loaded.proto, loaded.name)
    return loaded


def _loaded(model: ModelProto | str | Path) -> LoadedModel:
    if isinstance(model, (str, Path)):
        return read_model(model)
    if not isinstance(model, ModelProto):
        raise FormatError(N0102, f"expected an ONNX model or a path, got {type(model).__name__}")
    if not model.HasField("graph"):
        raise FormatError(N0102, "the ONNX model holds no graph")
    return LoadedModel(model, model.graph.name or "model")
