"""Networks of floats as networks of 8-bit products.

Each product with constant weights gets its data and weights as `qnn.dequantize(qnn.quantize(...))`: products
of such factors become those of integers when the network is compiled (`ContractQuantized`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from heddle.graph import calibration
from heddle.ir.expr import Constant, Function, Tuple
from heddle.ir.module import IRModule
from heddle.ir.node import replace
from heddle.relay.builders import const
from heddle.relay.codes import Q0101
from heddle.relay.executor import bind_params_by_name, create_executor
from heddle.relay.placement import post_order
from heddle.relay.quantize.config import QConfig, current_qconfig
from heddle.relay.transform.canonicalize_ops import CanonicalizeOps
from heddle.relay.transform.fold_constant import FoldConstant
from heddle.relay.transform.rewriting import array_of, call, dtype_of, is_call, rewrite_nodes
from heddle.relay.transform.simplify_inference import SimplifyInference
from heddle.relay.typed import infer_module
from heddle.support.diagnostics import UsageError

_CONV, _DENSE = "nn.conv2d", "nn.dense"
_RANGES = {
    "max": calibration.largest,
    "percentile": calibration.percentile,
    "kl_divergence": calibration.divergence,
}


def prerequisite_optimize(mod: IRModule, params: Mapping[str, Any] | None = None) -> IRModule:
    """The module with its parameters bound, normalisations as arithmetic and constants folded."""
    if params:
        mod = mod.with_functions(
            {**mod.functions, mod.get_global_var("main"): bind_params_by_name(mod["main"], params)}
        )
    for step in (SimplifyInference(), FoldConstant(), CanonicalizeOps(), FoldConstant()):
        mod = step.transform(infer_module(mod), None)  # type: ignore[arg-type]
    return mod


def quantize(
    mod: IRModule,
    params: Mapping[str, Any] | None = None,
    dataset: Iterable[Mapping[str, Any]] | None = None,
) -> IRModule:
    """Quantise the products of `main` by the settings of `qconfig`.

    `dataset`: inputs by name, from which ranges of data are found where `calibrate_mode` asks for it.
    Raises: UsageError Q0101 where there is no dataset then.
    """
    config = current_qconfig()
    mod = prerequisite_optimize(mod, params)
    main = mod["main"]
    products = _products(main, config)
    if not products:
        return mod
    ranges = _ranges(mod, [product.args[0] for product in products], config, dataset)
    made = _Quantizer(config, {id(product) for product in products}, ranges).run(main)
    return infer_module(mod.with_functions({**mod.functions, mod.get_global_var("main"): made}))


def _products(main: Function, config: QConfig) -> list[Any]:
    """The products that are quantised, in order."""
    found, number = [], -1
    skipped = config.skip_conv_layers or ()
    for node in post_order(main.body):
        number += is_call(node, _CONV)
        is_skipped = number in skipped if is_call(node, _CONV) else config.skip_dense_layer
        if is_skipped or not is_call(node, _CONV, _DENSE) or dtype_of(node) != "float32":
            continue
        if isinstance(node.args[1], Constant):
            found.append(node)
    return found


def _ranges(mod: IRModule, data: list[Any], config: QConfig, dataset: Any) -> dict[int, tuple[float, bool]]:
    """For each tensor its largest magnitude, and whether it is never negative."""
    if config.calibrate_mode == "global_scale":
        return {id(expr): (config.global_scale, False) for expr in data}
    batches = [] if dataset is None else list(dataset)
    if not batches:
        raise UsageError(Q0101, f"calibrate_mode {config.calibrate_mode!r} needs a dataset")
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
    """What expressions of `main` are for the inputs, as vectors."""
    main = mod["main"]
    probe = replace(main, body=Tuple(tuple(exprs)), ret_ty=None, ty=None)
    run = create_executor("vm", IRModule.from_expr(probe)).evaluate()
    results = [run(**batch) for batch in batches]
    return [np.concatenate([np.ravel(found[k].numpy()) for found in results]) for k in range(len(exprs))]


class _Quantizer:
    def __init__(self, config: QConfig, products: set[int], ranges: dict[int, tuple[float, bool]]) -> None:
        self._config, self._products, self._ranges = config, products, ranges
        self._made: dict[int, Any] = {}

    def run(self, main: Function) -> Function:
        made: Function = rewrite_nodes(main, self._rewrite)
        return replace(made, ret_ty=None) if made is not main else made

    def _rewrite(self, old: Any, new: Any) -> Any:
        if id(old) not in self._products:
            return new
        data, weight = old.args[0], array_of(old.args[1])
        if id(data) not in self._made:  # all who read a tensor share what it is quantised to
            self._made[id(data)] = self._data(new.args[0], *self._ranges[id(data)])
        axis = 0 if old.op.name == _DENSE else str(old.attrs.kernel_layout).index("O")
        return replace(new, args=(self._made[id(data)], self._weight(weight, axis)), ty=None)

    def _data(self, data: Any, limit: float, is_positive: bool) -> Any:
        steps, dtype = 1 << self._config.nbit_input, self._config.dtype_input
        zero = -steps // 2 if is_positive else 0
        largest = steps - 1 if is_positive else steps // 2 - 1
        scale = const(np.float32(limit / largest if limit > 0 else 1.0))
        factors = scale, const(zero)
        if self._config.do_simulation:
            values = call("qnn.simulated_quantize", self._limited(data, limit), *factors)
            return call("qnn.simulated_dequantize", values, *factors)
        values = call("qnn.quantize", self._limited(data, limit), *factors, out_dtype=dtype)
        return call("qnn.dequantize", values, *factors)

    def _limited(self, data: Any, limit: float) -> Any:
        """Data within what fewer than 8 bits hold."""
        if self._config.nbit_input == 8 or not limit:
            return data
        return call("clip", data, a_min=-limit, a_max=limit)

    def _weight(self, weight: Any, axis: int) -> Any:
        """Constant weights in integers, a scale for each output channel."""
        others = tuple(k for k in range(weight.ndim) if k != axis)
        limits = np.abs(weight).max(others, initial=0).astype(np.float64)
        steps = 1 << (self._config.nbit_weight - 1)
        limits = np.where(limits > 0, limits, 1.0)
        if self._config.weight_scale == "power2":
            scales = (2.0 ** np.ceil(np.log2(limits)) / steps).astype(np.float32)
        else:
            scales = (limits / (steps - 1)).astype(np.float32)
        shape = [-1 if k == axis else 1 for k in range(weight.ndim)]
        values = np.clip(np.rint(weight / scales.reshape(shape)), -steps, steps - 1)
        if self._config.do_simulation:
            return const((values * scales.reshape(shape)).astype(np.float32))
        return call(
            "qnn.dequantize",
            const(values.astype(self._config.dtype_weight), self._config.dtype_weight),
            const(scales),
            const(0),
            axis=axis,
        )
