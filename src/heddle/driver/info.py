"""The report of `heddle info`: inputs, outputs, size, operators and origin of a model, without running it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from heddle.driver.models import ModelFile, import_model
from heddle.driver.signature import COMPILER, METADATA_PREFIX, PRECISION, Signature, signature_from_json
from heddle.support.frozen import frozen
from heddle.support.span import ModelSpan, Span


@frozen
class FunctionInfo:
    """A function that can be called. Tensors are texts such as `float32[n, 8]` by name. `memory` is the
    formula of the bytes that a call takes beside inputs and weights, or why there is none; None where it is
    not known before the model is compiled."""

    name: str
    inputs: dict[str, str]
    outputs: dict[str, str]
    free_dims: list[str]
    memory: str | None = None


@dataclass(slots=True)
class ModelInfo:
    """`operators` counts ONNX's operators of an ONNX model, those of the graph otherwise: fused ones are
    counted in each kernel that has them. `origin` are texts by what they are: producer, operator sets,
    compiler, models that a program was made of."""

    model: str
    kind: str
    size_bytes: int
    functions: list[FunctionInfo]
    operators: dict[str, int] = field(default_factory=dict)
    weights_bytes: int = 0
    num_weights: int = 0
    origin: dict[str, str] = field(default_factory=dict)
    target: str | None = None
    variants: list[dict[str, Any]] = field(default_factory=list)
    num_kernels: int | None = None
    precision: str = "fp32"

    def as_dict(self) -> dict[str, Any]:
        """All fields, for JSON."""
        return asdict(self)


def info(model: ModelFile, variant: str | None = None, trust: bool = False) -> ModelInfo:
    """Return the facts about a model. A compiled model is read without the compiler. If it has variants, the
    one named `variant` is described, else the one that this machine runs.

    Raises: the errors of loading or importing.
    """
    if model.is_compiled:
        return _compiled_info(model, variant, trust)
    return _onnx_info(model) if model.suffix == ".onnx" else _script_info(model, trust)


def _compiled_info(model: ModelFile, variant: str | None, trust: bool) -> ModelInfo:
    from heddle.driver.run import (  # a compiled file is loaded without the compiler
        CompileOptions,
        load_or_compile,
    )
    from heddle.runtime.tensor import Tensor
    from heddle.runtime.variants import variants_in
    from heddle.vm.insight.kernel_cost import METADATA_PREFIX as KERNEL
    from heddle.vm.insight.kernel_cost import cost_from_json

    loaded = load_or_compile(model, CompileOptions(variant=variant, trust=trust))
    executable, metadata = loaded.executable, loaded.executable.metadata
    signatures = {
        name.removeprefix(METADATA_PREFIX): signature_from_json(text)
        for name, text in metadata.items()
        if name.startswith(METADATA_PREFIX)
    }
    costs = [cost_from_json(text) for name, text in metadata.items() if name.startswith(KERNEL)]
    weights = [value for value in executable.program.constants if isinstance(value, Tensor)]
    origin = {"models": _models_of(executable.line_table.values())}
    if COMPILER in metadata:
        origin["compiler"] = metadata[COMPILER]
    return ModelInfo(
        model.name,
        "compiled",
        model.path.stat().st_size,
        [_function(name, signature, metadata) for name, signature in signatures.items()],
        operators=_counted(name for cost in costs for name in cost.operators),
        weights_bytes=sum(value.size_bytes for value in weights),
        num_weights=len(weights),
        origin={key: text for key, text in origin.items() if text},
        target=loaded.target,
        variants=[
            {"name": row.name, "target": row.target, "size_bytes": row.size_bytes, "runs": not row.missing}
            for row in variants_in(model.path)
        ],
        num_kernels=len(costs),
        precision=metadata.get(PRECISION, "fp32"),
    )


def _function(name: str, signature: Signature, metadata: Mapping[str, str]) -> FunctionInfo:
    from heddle.vm.insight.peak_memory import (
        peak_memory_text,  # a compiled file is loaded without the compiler
    )

    return FunctionInfo(
        name,
        {spec.name: spec.text() for spec in signature.inputs},
        {spec.name: spec.text() for spec in signature.outputs},
        list(signature.dim_names()),
        peak_memory_text(metadata, name),
    )


def _models_of(spans: Iterable[Span]) -> str:
    """The models that instructions come from."""
    return ", ".join(dict.fromkeys(span.model for span in spans if isinstance(span, ModelSpan)))


def _counted(names: Iterable[str]) -> dict[str, int]:
    """Most frequent first, then by name."""
    counts = Counter(names)
    return dict(sorted(counts.items(), key=lambda item: (-item[1], item[0])))


def _onnx_info(model: ModelFile) -> ModelInfo:
    from heddle.frontend.onnx.describe import described  # a compiled file is loaded without the compiler

    found = described(model.path)
    opsets = ", ".join(f"{domain or 'ai.onnx'} {version}" for domain, version in found.opsets.items())
    return ModelInfo(
        model.name,
        "onnx",
        found.size_bytes,
        [FunctionInfo("main", dict(found.inputs), dict(found.outputs), list(found.free_dims))],
        operators=_counted(found.operators),
        weights_bytes=found.weights_bytes,
        num_weights=found.num_weights,
        origin={key: text for key, text in (("producer", found.producer), ("operator sets", opsets)) if text},
    )


def _script_info(model: ModelFile, trust: bool) -> ModelInfo:
    from heddle.driver.compile import function_signature  # a compiled file is loaded without the compiler
    from heddle.driver.dialects import in_relax
    from heddle.ir.expr import Call, Constant, Function
    from heddle.ir.op import Op
    from heddle.ir.visitor import walk_distinct

    mod = in_relax(import_model(model, trust=trust))
    functions = {var.name_hint: func for var, func in mod.functions.items() if isinstance(func, Function)}
    nodes = [node for func in functions.values() for node in walk_distinct(func)]
    weights = [node.data for node in nodes if isinstance(node, Constant)]
    return ModelInfo(
        model.name,
        "script",
        model.path.stat().st_size,
        [_function(name, function_signature(func), {}) for name, func in functions.items()],
        operators=_counted(
            node.op.name.removeprefix("relax.")
            for node in nodes
            if isinstance(node, Call) and isinstance(node.op, Op)
        ),
        weights_bytes=sum(value.size_bytes for value in weights),
        num_weights=len(weights),
    )
