"""What a node gives: by ONNX Runtime, and where that has no kernel by onnx's reference evaluator.

Nodes are run one at a time, so that a peer's optimiser has no part in the answer. `known_differences.toml`
lists where a peer departs from the standard; such a node is answered by the other peer, or left out.
"""

from __future__ import annotations

import math
import tomllib
import warnings
from collections import Counter
from collections.abc import Callable, Hashable, Mapping, Sequence
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
from onnx import NodeProto, TensorProto, ValueInfoProto, helper
from onnx.reference import ReferenceEvaluator
from packaging.version import Version

from tests.fuzz.graphs.bodies import Refused, by_branch, by_slices, by_turns
from tests.fuzz.graphs.values import BFLOAT16, ONNX_TYPES

Arrays = Sequence[Any]
DIFFERENCES = Path(__file__).parents[1] / "known_differences.toml"
_RARE = (BFLOAT16, *(dtype for dtype in ONNX_TYPES if dtype.name in ("int4", "uint4")))
explained: Counter[str] = Counter()
"""How often each known difference decided who answers."""


@cache
def _list_of_differences() -> dict[str, Any]:
    return tomllib.loads(DIFFERENCES.read_text())


def known_differences() -> tuple[dict[str, Any], ...]:
    return tuple(_list_of_differences()["difference"])


def is_newer_than_seen() -> bool:
    """Whether a peer is of a later release than those that the list of differences was made with."""
    seen: dict[str, str] = _list_of_differences()["seen"]
    return any(Version(version(name)) > Version(release) for name, release in seen.items())


def value_info(name: str, value: Any, dims: Sequence[Any] | None = None) -> ValueInfoProto:
    """The type of a value, by default with free dimensions."""
    if isinstance(value, list):
        inner = helper.make_tensor_type_proto(ONNX_TYPES[value[0].dtype], [None] * value[0].ndim)
        return helper.make_value_info(name, helper.make_sequence_type_proto(inner))
    return helper.make_tensor_value_info(
        name, ONNX_TYPES[value.dtype], [None] * value.ndim if dims is None else list(dims)
    )


def one_node(node: NodeProto, given: Mapping[str, Any], opset: int) -> onnx.ModelProto:
    """A model of the node alone."""
    inputs = [value_info(name, value) for name, value in given.items()]
    outputs = [ValueInfoProto(name=name) for name in node.output if name]
    graph = helper.make_graph([node], "node", inputs, outputs)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=10)


def with_plain_names(node: NodeProto) -> tuple[NodeProto, dict[str, str]]:
    """The node with names that say nothing but their places, so that nodes that are alike in two graphs are
    one, and the new names by the old. What has bodies, which use names from outside, stays."""
    if any(attr.HasField("g") or attr.graphs for attr in node.attribute):
        return node, {name: name for name in node.input}
    names = {name: f"i{k}" for k, name in enumerate(dict.fromkeys(filter(None, node.input)))}
    made = NodeProto()
    made.CopyFrom(node)
    made.input[:] = [names.get(name, "") for name in node.input]
    made.output[:] = [name and f"o{k}" for k, name in enumerate(node.output)]
    made.ClearField("name")
    return made, names


def _options() -> onnxruntime.SessionOptions:
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    options.intra_op_num_threads = 1
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    return options


class _Peer:
    """Runs nodes. What it made for a node is kept for the next one like it: a node is seen in several
    samples, before and after noise, and in other graphs. Sizes of inputs are no part of what is made."""

    MOST_KEPT = 1000

    def __init__(self, make: Callable[[onnx.ModelProto], Any]) -> None:
        self._make = make
        self._made: dict[Hashable, Any] = {}

    def run(self, node: NodeProto, given: Mapping[str, Any], opset: int) -> list[Any]:
        plain, names = with_plain_names(node)
        inputs = {names.get(name, name): value for name, value in given.items()}
        kinds = tuple((name, *_kind(value)) for name, value in inputs.items())
        key = plain.SerializeToString(deterministic=True), opset, kinds
        if key not in self._made:
            if len(self._made) >= self.MOST_KEPT:
                self._made.clear()
            self._made[key] = self._make(one_node(plain, inputs, opset))
        return list(self._made[key].run(None, inputs))


def _kind(value: Any) -> tuple[Any, ...]:
    """What the type of an input without its sizes depends on."""
    return ("sequence", *_kind(value[0])) if isinstance(value, list) else (value.dtype, value.ndim)


_RUNTIME = _Peer(
    lambda model: onnxruntime.InferenceSession(
        model.SerializeToString(), _options(), providers=["CPUExecutionProvider"]
    )
)
_REFERENCE = _Peer(ReferenceEvaluator)


def evaluate(node: NodeProto, given: Mapping[str, Any], opset: int) -> list[Any]:
    """The outputs of a node. Raises: Refused."""
    made = _answer(node, given, opset)
    if any(_saturates(inner) for attr in node.attribute for inner in attr.g.node) and _is_at_an_end(made):
        raise Refused("an integer that a body may have added up beyond its range")
    return made


_REPEATS = {"Loop": by_turns, "Scan": by_slices}


def _may_depart(node: NodeProto) -> bool:
    """Whether a peer may depart from the standard in a node of a body."""
    known = {name for rule in known_differences() for name in rule["operators"]}
    inner = [each for attr in node.attribute for each in attr.g.node]
    return any(each.op_type in known or _may_depart(each) for each in inner)


def _collects_small_integers(node: NodeProto) -> bool:
    """Whether a loop gives integers of 4 bits, two to a byte: ONNX Runtime 1.32.0 ends the process
    where it puts rows of an odd number of them together."""
    outputs = (out for attr in node.attribute for out in attr.g.output)
    return any(out.type.tensor_type.elem_type in (TensorProto.INT4, TensorProto.UINT4) for out in outputs)


def _answer(node: NodeProto, given: Mapping[str, Any], opset: int) -> list[Any]:
    if node.op_type == "If":
        return by_branch(evaluate, node, given, opset)
    rule = _difference(node, given, opset)
    is_by_body = _may_depart(node) or _collects_small_integers(node)
    if node.op_type in _REPEATS and (rule is None or rule["answer"] != "none") and is_by_body:
        return _REPEATS[node.op_type](evaluate, node, given, opset)
    if rule is not None:
        explained[rule["name"]] += 1
        if rule["answer"] == "none":
            raise Refused(rule["name"])
        try:
            return _ANSWERS[rule["answer"]](node, given, opset)
        except _NO_KERNEL as error:
            raise Refused(rule["name"]) from error
    arrays = [item for value in given.values() for item in (value if isinstance(value, list) else [value])]
    if any(array.dtype in _RARE for array in arrays):
        return _by_reference(node, given, opset)
    try:
        return _by_runtime(node, given, opset)
    except _NO_KERNEL:
        return _by_reference(node, given, opset)


def _saturates(node: NodeProto) -> bool:
    """Whether ONNX Runtime's sums of a node, or of its bodies, stop at the ends of integers."""
    inner = (each for attr in node.attribute for each in attr.g.node)
    return node.op_type in _REDUCTIONS or any(map(_saturates, inner))


ENDS = ("min", "max")


def _is_at_an_end(made: Sequence[Any]) -> bool:
    arrays = [item for value in made for item in (value if isinstance(value, list) else [value])]
    return any(
        array.dtype.kind == "i"
        and np.isin(array, (np.iinfo(array.dtype).min, np.iinfo(array.dtype).max)).any()
        for array in arrays
        if array is not None
    )


_STATE = onnxruntime.capi.onnxruntime_pybind11_state
_NO_KERNEL = (_STATE.NotImplemented, _STATE.InvalidGraph)


def _by_runtime(node: NodeProto, given: Mapping[str, Any], opset: int) -> list[Any]:
    try:
        return _RUNTIME.run(node, given, opset)
    except _NO_KERNEL:
        raise
    except (_STATE.Fail, _STATE.InvalidArgument, _STATE.RuntimeException, RuntimeError) as error:
        if "No corresponding Numpy type" in str(error):
            if node.op_type in ("Loop", "Scan"):
                raise Refused(
                    "rows of a type that ONNX Runtime does not give; see 'Rows that loops collect'"
                ) from error
            return _by_reference(node, given, opset)
        raise Refused(f"ONNX Runtime: {str(error)[:160]}") from error


MAX_REFERENCE_ELEMENTS = 8192
"""Of all inputs together. The reference has convolutions and pools in Python."""


_OF_WINDOWS = ("Conv", "ConvInteger", "MaxPool", "AveragePool", "LpPool")


def _by_reference(node: NodeProto, given: Mapping[str, Any], opset: int) -> list[Any]:
    if sum(value.size for value in given.values() if not isinstance(value, list)) > MAX_REFERENCE_ELEMENTS:
        raise Refused("too large for the reference")
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        try:
            made = _REFERENCE.run(node, given, opset)
        except Exception as error:  # whatever the reference raises, it has no answer
            raise Refused(f"reference: {type(error).__name__}: {str(error)[:160]}") from error
    if node.op_type in _OF_WINDOWS and any(0 in item.shape[2:] for item in made):
        raise Refused("a window that does not fit: ONNX Runtime refuses it, and so does Heddle")
    return [item if isinstance(item, list) else np.asarray(item) for item in made]


def _exactly(node: NodeProto, given: Mapping[str, Any], opset: int) -> list[Any]:
    """Formulas of float64 in the precision of Python's own functions; reductions as numpy has them."""
    attrs = {attr.name: helper.get_attribute_value(attr) for attr in node.attribute}
    if node.op_type in _REDUCTIONS:
        return [_reduced(node, given, attrs)]
    x = given[node.input[0]]
    if node.op_type in _OF_ROWS:
        return [_of_rows(_OF_ROWS[node.op_type], x, attrs.get("axis", 1))]
    if node.op_type == "LpNormalization":
        return [_of_sizes_that_sum_to_one(x, attrs.get("axis", -1))]
    if node.op_type == "LRN":
        return [_by_neighbours(x, attrs)]
    if node.op_type == "GroupNormalization":
        return [_normalised_groups(node, given, attrs)]
    if node.op_type == "Unsqueeze":
        return [np.expand_dims(x, tuple(attrs["axes"]))]
    if node.op_type == "GlobalMaxPool":
        return [x.max(axis=tuple(range(2, x.ndim)), keepdims=True)]
    form = node.op_type + attrs.get("approximate", b"").decode().replace("none", "")
    return [np.asarray([_FORMULAS[form](item) for item in x.reshape(-1)], x.dtype).reshape(x.shape)]


def _of_rows(function: Callable[[Any], Any], x: Any, axis: int) -> Any:
    """As before operator set 13: the dimensions from `axis` on count as one. Rounded once."""
    rows = x.reshape(math.prod(x.shape[:axis]), math.prod(x.shape[axis:]))
    return function(rows.astype(np.float64)).astype(x.dtype).reshape(x.shape)


def _hardmax(rows: Any) -> Any:
    if 0 in rows.shape:
        return rows
    made = np.zeros_like(rows)
    made[np.arange(len(rows)), rows.argmax(axis=1)] = 1
    return made


def _log_softmax(rows: Any) -> Any:
    below = rows - rows.max(axis=1, keepdims=True, initial=-np.inf)
    return below - np.log(np.exp(below).sum(axis=1, keepdims=True))


_OF_ROWS: dict[str, Callable[[Any], Any]] = {
    "Hardmax": _hardmax,
    "LogSoftmax": _log_softmax,
    "Softmax": lambda rows: np.exp(_log_softmax(rows)),
}


def _of_sizes_that_sum_to_one(x: Any, axis: int) -> Any:
    """LpNormalization with p = 1, rounded once; zeros stay zeros."""
    wide = x.astype(np.float64)
    norm = np.abs(wide).sum(axis=axis, keepdims=True)
    return np.divide(wide, norm, out=np.zeros_like(wide), where=norm != 0).astype(x.dtype)


def _normalised_groups(node: NodeProto, given: Mapping[str, Any], attrs: Mapping[str, Any]) -> Any:
    """Each group of channels, in float64."""
    dtype = given[node.input[0]].dtype
    x, scale, bias = (given[name].astype(np.float64) for name in node.input)
    rows = x.reshape(x.shape[0], attrs["num_groups"], -1)
    spread = np.sqrt(rows.var(axis=2, keepdims=True) + attrs.get("epsilon", 1e-5))
    made = ((rows - rows.mean(axis=2, keepdims=True)) / spread).reshape(x.shape)
    places = (-1, *[1] * (x.ndim - 2))
    return (made * scale.reshape(places) + bias.reshape(places)).astype(dtype)


def _by_neighbours(x: Any, attrs: Mapping[str, Any]) -> Any:
    """LRN: by the squares of the channels beside each one."""
    size, channels = attrs["size"], x.shape[1]
    around = [
        (x[:, max(0, c - (size - 1) // 2) : c + size // 2 + 1] ** 2).sum(axis=1) for c in range(channels)
    ]
    part = attrs.get("alpha", 1e-4) / size * np.stack(around, axis=1)
    return x / (attrs.get("bias", 1.0) + part) ** attrs.get("beta", 0.75)


_FORMULAS: dict[str, Callable[[float], float]] = {
    "Erf": math.erf,
    "HardSwish": lambda x: x * max(0.0, min(1.0, x / 6 + 0.5)),
    "Gelu": lambda x: 0.5 * x * (1 + math.erf(x / math.sqrt(2))),
    "Gelutanh": lambda x: 0.5 * x * (1 + math.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3))),
}
_REDUCTIONS: dict[str, Callable[..., Any]] = {
    "ReduceSum": np.sum,
    "ReduceProd": np.prod,
    "ReduceL1": lambda x, **more: np.sum(np.abs(x), **more),
    "ReduceSumSquare": lambda x, **more: np.sum(x * x, **more),
    "ReduceMean": lambda x, **more: (
        np.mean(x, **more) if x.dtype.kind == "f" else _mean_of_integers(x, **more)
    ),
    "ReduceL2": lambda x, **more: np.sqrt(np.sum(x * x, **more)),
    "ReduceLogSum": lambda x, **more: np.log(np.sum(x, **more)),
}


def _mean_of_integers(x: Any, axis: Any, **more: Any) -> Any:
    """The sum, which wraps, over the count, rounded to zero."""
    total = np.asarray(np.sum(x, axis=axis, **more))
    count = x.size // max(1, total.size)
    return np.asarray((total - np.fmod(total, count)) // count, x.dtype)


def _reduced(node: NodeProto, given: Mapping[str, Any], attrs: Mapping[str, Any]) -> Any:
    x = given[node.input[0]]
    axes = given[node.input[1]] if len(node.input) > 1 and node.input[1] else attrs.get("axes", ())
    if not len(axes) and attrs.get("noop_with_empty_axes"):
        raise Refused("what a reduction without axes does to elements is another difference")
    over = tuple(int(axis) for axis in axes) or None
    wide = x.astype(np.float64) if x.dtype in _RARE else x
    with np.errstate(all="ignore"):
        made = _REDUCTIONS[node.op_type](
            wide, axis=over, keepdims=bool(attrs.get("keepdims", 1)), dtype=wide.dtype
        )
    return np.asarray(made).astype(x.dtype)


_ANSWERS = {"reference": _by_reference, "runtime": _by_runtime, "formula": _exactly}


def _difference(node: NodeProto, given: Mapping[str, Any], opset: int) -> dict[str, Any] | None:
    """The known difference that holds for a node: by operator, its set, types, attributes, elements."""
    for rule in known_differences():
        first, last = rule.get("opsets", (1, opset))
        if node.op_type in rule["operators"] and first <= opset <= last and _applies(rule, node, given):
            return rule
    return None


def _is_large_power(base: Any, exponent: Any) -> bool:
    with np.errstate(all="ignore"):
        return bool((np.power(np.abs(base.astype(np.float64)), exponent.astype(np.float64)) > 2.0**53).any())


def _applies(rule: Mapping[str, Any], node: NodeProto, given: Mapping[str, Any]) -> bool:
    values = [given[name] for name in node.input if name in given]
    first = values[0] if values else None
    if "dtypes" in rule and (
        first is None or isinstance(first, list) or first.dtype.name not in rule["dtypes"]
    ):
        return False
    if rule.get("is_empty") and (first is None or isinstance(first, list) or first.size):
        return False
    if rule.get("collects_nothing") and not _collects_nothing(node, given):
        return False
    if "negative_input" in rule and not _elements(node, given, rule["negative_input"], lambda item: item < 0):
        return False
    attrs = {attr.name: helper.get_attribute_value(attr) for attr in node.attribute}
    if rule.get("is_large_power") and not _is_large_power(*values):
        return False
    if "some_negative" in rule and all(axis >= 0 for axis in attrs.get(rule["some_negative"], ())):
        return False
    if "falls" in rule and (axes := list(attrs.get(rule["falls"], ()))) == sorted(axes):
        return False
    for index, wanted in rule.get("holds", {}).items():
        if not _elements(node, given, int(index), lambda item, wanted=wanted: item in wanted):  # type: ignore[misc]
            return False
    return all(
        attrs.get(name, default) == (wanted.encode() if isinstance(wanted, str) else wanted)
        for name, (wanted, default) in rule.get("attributes", {}).items()
    )


def _collects_nothing(node: NodeProto, given: Mapping[str, Any]) -> bool:
    """Whether a Loop has rows to collect and does not run: no trips, or a first condition that is false."""
    has_rows = any(node.output[len(node.input) - 2 :])
    return has_rows and (
        _elements(node, given, 0, lambda trips: trips <= 0)
        or _elements(node, given, 1, lambda goes: not goes)
    )


def _elements(node: NodeProto, given: Mapping[str, Any], index: int, fits: Callable[[int], bool]) -> bool:
    """Whether an element of an input fits."""
    if index >= len(node.input) or node.input[index] not in given:
        return False
    return any(fits(int(item)) for item in given[node.input[index]].reshape(-1))
