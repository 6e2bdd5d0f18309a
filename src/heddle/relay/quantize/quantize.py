"""Networks of floats as networks of 8-bit products.

Each product with constant weights gets its data and weights as `qnn.dequantize(qnn.quantize(...))`: products
of such factors become those of integers when the network is compiled (`ContractQuantized`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from heddle.ir.bound_function import with_bound_function
from heddle.ir.module import IRModule
from heddle.relay.executor import bind_params_by_name
from heddle.relay.quantize.config import current_qconfig
from heddle.relay.quantize.context import QuantizeContext
from heddle.relay.quantize.steps import annotate, calibrate, partition, realize
from heddle.relay.transform.canonicalize_ops import CanonicalizeOps
from heddle.relay.transform.fold_constant import FoldConstant
from heddle.relay.transform.simplify_inference import SimplifyInference
from heddle.relay.typed import infer_module


def prerequisite_optimize(mod: IRModule, params: Mapping[str, Any] | None = None) -> IRModule:
    """The module with its parameters bound, normalisations as arithmetic and constants folded."""
    if params:
        main = mod.get_global_var("main")
        mod = with_bound_function(mod, main, bind_params_by_name(mod[main], params))
    for step in (SimplifyInference(), FoldConstant(), CanonicalizeOps(), FoldConstant()):
        mod = step.transform(infer_module(mod), None)  # type: ignore[arg-type]
    return mod


def quantize(
    mod: IRModule, params: Mapping[str, Any] | None = None, dataset: Iterable[Mapping[str, Any]] | None = None
) -> IRModule:
    """Quantise the products of `main` by the settings of `qconfig`.

    `dataset`: inputs by name, from which ranges of data are found where `calibrate_mode` asks for it.
    Raises: UsageError Q0101 where there is no dataset then.
    """
    mod = prerequisite_optimize(mod, params)
    with QuantizeContext():
        marked = partition().transform(mod, None)  # type: ignore[arg-type]
    if marked is mod:
        return mod
    mod = calibrate(dataset)(annotate().transform(marked, None))  # type: ignore[arg-type]
    return mod if current_qconfig().do_simulation else realize().transform(mod, None)  # type: ignore[arg-type]
