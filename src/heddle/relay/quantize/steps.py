"""The steps from a network of floats to one of 8-bit products.

partition   chooses products, and marks their factors with `annotation.cast_hint`
annotate    writes `simulated_quantize` in the place of the marks: floats that are whole steps
calibrate   finds the size of the steps in samples
realize     writes `qnn.dequantize(qnn.quantize(...))` in the place of simulations
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import numpy as np

from heddle.graph import calibration
from heddle.ir.expr import Call, Constant, Function, Tuple, is_relay
from heddle.ir.module import IRModule
from heddle.ir.node import replace
from heddle.ir.transform import Pass, PassContext
from heddle.relay.builders import const
from heddle.relay.codes import Q0101
from heddle.relay.executor import create_executor
from heddle.relay.placement import post_order
from heddle.relay.quantize.config import QAnnotateKind, QConfig, current_qconfig
from heddle.relay.quantize.context import quantize_context
from heddle.relay.transform.rewriting import array_of, call, dtype_of, is_call, rewrite_nodes
from heddle.relay.typed import infer_expr, infer_module
from heddle.support.diagnostics import UsageError
from heddle.support.frozen import frozen

_CONV, _DENSE, _HINT = "nn.conv2d", "nn.dense", "annotation.cast_hint"
SIMULATED = "relay.op.annotation.simulated_quantize"
_RANGES = {
    "max": calibration.largest,
    "percentile": calibration.percentile,
    "kl_divergence": calibration.divergence,
}


class _Step(Pass):
    """A pass over `main`, by the settings of `qconfig`."""

    @abstractmethod
    def change(self, main: Function, mod: IRModule) -> Function:
        """`main` anew, of which types are known; the same object where nothing changed."""

    def transform(self, mod: IRModule, ctx: PassContext) -> IRModule:
        typed = infer_module(mod)
        main: Any = typed.get("main")
        made = self.change(main, typed) if is_relay(main) else main
        return typed if made is main else _with_main(typed, replace(made, ret_ty=None, ty=None))


def _with_main(mod: IRModule, main: Function) -> IRModule:
    """The module with another `main`, and types."""
    return infer_module(mod.with_functions({**mod.functions, mod.get_global_var("main"): main}))


@frozen
class QuantizePartition(_Step):
    """Mark both factors of each product of float32 with constant weights that is to be quantised.

        nn.dense(%x, meta[relay.Constant][0])

    becomes

        nn.dense(annotation.cast_hint(%x, dtype="int8"),
                 annotation.cast_hint(meta[relay.Constant][0], dtype="int8"))
    """

    def change(self, main: Function, mod: IRModule) -> Function:
        config, context, chosen = current_qconfig(), quantize_context(), set[int]()
        for node in post_order(main.body):
            if not is_call(node, _CONV, _DENSE) or context.check_to_skip(node):
                continue
            if dtype_of(node) == "float32" and isinstance(node.args[1], Constant):
                chosen.add(id(node))
        hints: dict[int, Any] = {}

        def mark(old: Any, new: Any) -> Any:
            if id(old) not in chosen:
                return new
            data, weight = new.args
            if id(old.args[0]) not in hints:  # all who read a tensor share what it is quantised to
                hints[id(old.args[0])] = call(_HINT, data, dtype=config.dtype_input)
            return _with_factors(new, hints[id(old.args[0])], call(_HINT, weight, dtype=config.dtype_weight))

        return rewrite_nodes(main, mark)


@frozen
class QuantizeAnnotate(_Step):
    """Simulate what integers will do to the marked factors of products; without marks, QuantizePartition sets
    them first.

        nn.dense(annotation.cast_hint(%x, dtype="int8"), ...)

    becomes

        nn.dense(relay.op.annotation.simulated_quantize(%x, 0.0629921f, -128f, 127f, kind=1), ...)
    """

    def change(self, main: Function, mod: IRModule) -> Function:
        if not any(map(_is_marked, post_order(main.body))):
            marked = QuantizePartition().change(main, mod)
            return main if marked is main else _simulated(infer_expr(marked, mod))
        return _simulated(main)


@frozen
class QuantizeRealize(_Step):
    """Compute on integers what is simulated so far.

        relay.op.annotation.simulated_quantize(%x, 0.5f, -128f, 127f, kind=1)

    becomes

        qnn.dequantize(qnn.quantize(%x, 0.5f, 0), 0.5f, 0)

    Constants become integers and `qnn.dequantize`. Steps that are not constant, or that 8 bits do not hold,
    stay.
    """

    def change(self, main: Function, mod: IRModule) -> Function:
        return rewrite_nodes(main, lambda old, new: _realized(new) if is_call(old, SIMULATED) else new)


def partition() -> QuantizePartition:
    """The step that chooses products."""
    return QuantizePartition()


def annotate() -> QuantizeAnnotate:
    """The step that simulates integers."""
    return QuantizeAnnotate()


def realize() -> QuantizeRealize:
    """The step that writes integers."""
    return QuantizeRealize()


def calibrate(dataset: Iterable[Mapping[str, Any]] | None = None) -> Callable[[IRModule], IRModule]:
    """What finds the steps of simulated data in samples of the inputs of `main`, by name.

    Raises: UsageError Q0101 where `calibrate_mode` asks for samples and there are none.
    """

    def found(mod: IRModule) -> IRModule:
        typed, config = infer_module(mod), current_qconfig()
        main = typed["main"]
        assert isinstance(main, Function)
        nodes = [node for node in post_order(main.body) if is_call(node, SIMULATED)]
        data = [node for node in nodes if node.attrs.kind == QAnnotateKind.INPUT]
        if config.calibrate_mode == "global_scale" or not data:
            return typed
        ranges = _ranges(typed, [node.args[0] for node in data], config, dataset)
        steps = {id(node): ranges[id(node.args[0])] for node in data}

        def change(old: Any, new: Any) -> Any:
            return _data(new.args[0], config, *steps[id(old)]) if id(old) in steps else new

        return _with_main(typed, rewrite_nodes(main, change))

    return found


# ---- marks and simulations


def _with_factors(product: Any, *factors: Any) -> Call:
    found: Call = replace(product, args=factors, ty=None)
    return found


def _is_marked(node: Any) -> bool:
    return is_call(node, _CONV, _DENSE) and all(is_call(arg, _HINT) for arg in node.args)


def _simulated(main: Function) -> Function:
    config, data_of = current_qconfig(), dict[int, Any]()

    def change(old: Any, new: Any) -> Any:
        weight = array_of(old.args[1].args[0]) if _is_marked(old) else None
        if weight is None:
            return new
        hint = id(old.args[0])
        if hint not in data_of:
            data_of[hint] = _data(new.args[0].args[0], config, config.global_scale, False)
        axis = 0 if old.op.name == _DENSE else str(old.attrs.kernel_layout).index("O")
        return _with_factors(new, data_of[hint], _weight(new.args[1].args[0], weight, axis, config))

    return rewrite_nodes(main, change)


def _data(data: Any, config: QConfig, limit: float, is_positive: bool) -> Call:
    """Data in steps: of `nbit_input` bits up to a limit. What is never negative takes all steps for that."""
    steps = 1 << config.nbit_input
    high = steps - 1 if is_positive else steps // 2 - 1
    low = 0 if is_positive else -high - (config.nbit_input == 8)
    scale = np.float32(limit / high if limit > 0 else 1.0)
    return _steps(data, scale, low, high, QAnnotateKind.INPUT, sign=not is_positive)


def _weight(weight: Any, values: Any, axis: int, config: QConfig) -> Call:
    """Weights in steps of their own for each output channel."""
    others = tuple(k for k in range(values.ndim) if k != axis)
    limits = np.abs(values).max(others, initial=0).astype(np.float64)
    steps = 1 << (config.nbit_weight - 1)
    limits = np.where(limits > 0, limits, 1.0)
    if config.weight_scale == "power2":
        scales = 2.0 ** np.ceil(np.log2(limits)) / steps
    else:
        scales = limits / (steps - 1)
    return _steps(weight, scales.astype(np.float32), -steps, steps - 1, QAnnotateKind.WEIGHT, axis=axis)


def _steps(data: Any, scale: Any, low: int, high: int, kind: QAnnotateKind, **attrs: Any) -> Call:
    limits = const(np.float32(low)), const(np.float32(high))
    return call(SIMULATED, data, const(scale), *limits, kind=int(kind), **attrs)


def _realized(node: Any) -> Any:
    scale, low, high = (array_of(arg) for arg in node.args[1:])
    if scale is None or low is None or high is None or node.attrs.kind == QAnnotateKind.IDENTITY:
        return node
    zero = 0 if node.attrs.sign else -int(high + 1) // 2
    first, last = int(low) + zero, int(high) + zero
    if first < -128 or last > 127:
        return node
    data, axis, factors = node.args[0], node.attrs.axis, (node.args[1], const(zero))
    values = array_of(data)
    if values is not None:
        shape = [-1 if scale.ndim and k == axis % values.ndim else 1 for k in range(values.ndim)]
        steps = np.clip(np.rint(values / scale.reshape(shape if scale.ndim else ())), low, high) + zero
        return call("qnn.dequantize", const(steps.astype("int8"), "int8"), *factors, axis=axis)
    if (first, last) != (-128, 127) and scale.ndim == 0:
        data = call("clip", data, a_min=float(low * scale), a_max=float(high * scale))
    elif (first, last) != (-128, 127):
        return node
    return call("qnn.dequantize", call("qnn.quantize", data, *factors, axis=axis), *factors, axis=axis)


# ---- ranges of data


def _ranges(mod: IRModule, data: list[Any], config: QConfig, dataset: Any) -> dict[int, tuple[float, bool]]:
    """For each tensor its largest magnitude, and whether it is never negative."""
    batches = [] if dataset is None else list(dataset)
    if not batches:
        raise UsageError(
            Q0101,
            f"calibrate_mode {config.calibrate_mode!r} needs a dataset",
            help="quantize(mod, params, dataset=[{name: array}, ...]), or calibrate_mode='global_scale'",
        )
    distinct = list({id(expr): expr for expr in data}.values())
    size = len(distinct) if config.calibrate_chunk_by < 1 else config.calibrate_chunk_by
    found: dict[int, tuple[float, bool]] = {}
    for start in range(0, len(distinct), size):
        chunk = distinct[start : start + size]
        for expr, values in zip(chunk, _samples(mod, chunk, batches), strict=True):
            limit = _RANGES[config.calibrate_mode](values)
            found[id(expr)] = limit, bool(values.min(initial=0) >= 0)
    return found


def _samples(mod: IRModule, exprs: list[Any], batches: list[Mapping[str, Any]]) -> list[Any]:
    """What expressions of `main` are for the inputs, without simulations, as vectors."""
    main = mod["main"]
    body = rewrite_nodes(
        Tuple(tuple(exprs)), lambda old, new: new.args[0] if is_call(old, SIMULATED) else new
    )
    probe = replace(main, body=body, ret_ty=None, ty=None)
    run = create_executor("vm", _with_main(mod, probe)).evaluate()
    results = [run(**batch) for batch in batches]
    return [np.concatenate([np.ravel(found[k].numpy()) for found in results]) for k in range(len(exprs))]
