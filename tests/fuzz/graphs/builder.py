"""Makes a graph node by node, each evaluated in every sample before it is kept."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import onnx
from onnx import GraphProto, NodeProto, helper, numpy_helper

from heddle.frontend.onnx.part import used_names
from tests.fuzz.graphs.oracle import Refused, evaluate, value_info
from tests.fuzz.graphs.steps import coarsest_inside, decides_a_step
from tests.fuzz.graphs.values import (
    BOOL,
    EPSILON,
    FLOATS,
    LIMIT,
    ONNX_TYPES,
    Size,
    Value,
    is_fixed,
    random_array,
)

ROUNDING = {"float64": 1e-8, "float32": 1e-4, "float16": 0.02, "bfloat16": 0.03}
"""How far errors of rounding may move a value, as a part of the largest: beyond, nothing is compared."""
SUMS = ("ReduceSum", "ReduceMean")
MANY_TERMS = 4096
MOST_DIMS = 8
MAX_CANCELLED = 50
"""Sizes of many terms over their sum: beyond it a peer's error, some units of all terms, may show."""
# fmt: off
LINEAR = frozenset((
    "AveragePool", "Conv", "ConvTranspose", "CumSum", "Einsum", "Gemm", "GlobalAveragePool", "MatMul",
    "ReduceMean", "ReduceSum",
))
"""Operators that add up terms: their errors are units of the terms' sizes, however small the sum is."""
EXACT = frozenset((
    "Identity", "Reshape", "Transpose", "Concat", "Split", "Slice", "Gather", "GatherElements", "GatherND",
    "Squeeze", "Unsqueeze", "Flatten", "Tile", "Expand", "Pad", "Where", "Relu", "Neg", "Abs", "Floor",
    "Ceil", "Round", "Sign", "Max", "Min", "ReduceMax", "ReduceMin", "MaxPool", "Clip", "TopK", "Compress",
    "DepthToSpace", "SpaceToDepth", "ReverseSequence", "Dropout", "Trilu", "EyeLike", "OneHot", "Unique",
    "Range", "ConstantOfShape", "ScatterElements", "ScatterND", "SequenceAt", "SequenceConstruct",
    "SequenceInsert", "ConcatFromSequence", "Optional", "Constant", "SplitToSequence", "SequenceErase",
    "OptionalGetElement", "GlobalMaxPool", "Hardmax", "ThresholdedRelu",
))
# fmt: on
"""Operators that move or choose elements: they round nothing."""


class Unfit(Exception):
    """A recipe found no operands, or its node is not wanted."""


@dataclass
class Sample:
    """The inputs of the graph by name."""

    arrays: dict[str, Any] = field(default_factory=dict)


@dataclass
class Plan:
    """What kind of graph is made. `sizes` are those that symbolic dimensions have in the samples, `numbers`
    those of other dimensions; no value has more than `max_elements`."""

    seed: int
    opset: int
    nodes: int
    sizes: tuple[Size, ...]
    special: bool
    numbers: tuple[int, ...]
    max_elements: int


def _leaves_64_bits(a: Any, b: Any) -> bool:
    """Whether a product of as few integers as a shape has wraps: sizes may not (docs/semantics.md)."""
    if a.dtype != np.int64 or a.ndim > 1 or b.ndim > 1 or max(a.size, b.size) > MOST_DIMS:
        return False
    return any(abs(int(x) * int(y)) >= 1 << 63 for x, y in np.broadcast(a, b))


def _cancels(op: str, terms: Any, made: Any) -> bool:
    """Whether sums of many terms are small beside their terms."""
    if terms.dtype not in FLOATS or not made.size or terms.size < MANY_TERMS * made.size:
        return False
    num_terms = terms.size / made.size if op == "ReduceMean" else 1
    least = np.abs(made.astype(np.float64)).min() * num_terms
    return bool(least * MAX_CANCELLED < np.abs(terms.astype(np.float64)).sum() / made.size)


class Builder:
    """`values` are those that a node may use; a builder of a subgraph sees its parent's too."""

    def __init__(self, plan: Plan, rng: random.Random, parent: Builder | None = None) -> None:
        self.plan, self.rng, self.parent = plan, rng, parent
        self.root: Builder = parent.root if parent else self
        self.depth: int = parent.depth + 1 if parent else 0
        self.opset = plan.opset
        self.values: list[Value] = list(parent.values) if parent else []
        self.nodes: list[NodeProto] = []
        self.own: set[str] = set()
        self.rejected: dict[str, int] = parent.rejected if parent else {}
        if parent is None:
            self.inputs: list[onnx.ValueInfoProto] = []
            self.initializers: list[onnx.TensorProto] = []
            self.samples = [Sample() for _ in plan.sizes[0]]
            self.noise = np.random.default_rng(plan.seed)
            self._count = 0
            self._dim_names: dict[Size, list[str]] = {}

    @property
    def num_samples(self) -> int:
        return len(self.root.samples)

    def name(self, hint: str = "v") -> str:
        self.root._count += 1
        return f"{hint}{self.root._count}"

    # ---- operands

    def pick(self, fits: Callable[[Value], bool] = lambda value: True, sequences: bool = False) -> Value:
        """A value that fits, more often a late one. Raises: Unfit."""
        found = [value for value in self.values if value.is_sequence == sequences and fits(value)]
        if not found:
            raise Unfit("no operand")
        return found[max(self.rng.randrange(len(found)), self.rng.randrange(len(found)))]

    def floating(self, rank: int | Sequence[int] | None = None, common: bool = False) -> Value:
        """A value of floats, of one of the ranks. `common`: of float32 or float64."""
        ranks = (rank,) if isinstance(rank, int) else rank
        wide = ("float32", "float64") if common else tuple(dtype.name for dtype in FLOATS)
        return self.pick(lambda value: value.dtype.name in wide and (ranks is None or value.rank in ranks))

    def fresh(
        self,
        dtype: np.dtype[Any],
        shape: Sequence[Size | int],
        low: float = -2,
        high: float = 2,
        constant: bool | None = None,
    ) -> Value:
        """A new input or initializer of random numbers. Raises: Unfit."""
        sizes = [size if isinstance(size, tuple) else (size,) * self.num_samples for size in shape]
        if any(
            math.prod(size[s] for size in sizes) > self.plan.max_elements for s in range(self.num_samples)
        ):
            raise Unfit("too large")
        arrays = [
            random_array(self.rng, dtype, tuple(size[s] for size in sizes), low, high)
            for s in range(self.num_samples)
        ]
        if self.plan.special and dtype in FLOATS:
            for array in arrays:
                if array.size:
                    array.reshape(-1)[self.rng.randrange(array.size)] = self.rng.choice(
                        (np.nan, np.inf, -np.inf, -0.0)
                    )
        return self.given(arrays, constant, sizes)

    def given(
        self, arrays: Sequence[Any], constant: bool | None = None, sizes: Sequence[Size] | None = None
    ) -> Value:
        """A new value of the root graph. One that is the same in all samples may be an initializer."""
        root = self.root
        fixed = sizes is None or all(is_fixed(size) for size in sizes)
        same = all(array.shape == arrays[0].shape for array in arrays)
        if sizes is not None and fixed and same and constant is not False:
            equal = True
            if constant or self.rng.random() < 0.6:
                arrays = [arrays[0]] * self.num_samples
        else:
            equal = same and all(
                np.array_equal(array, arrays[0], equal_nan=array.dtype.kind == "f") for array in arrays
            )
        is_constant = equal and constant is not False and all(array is arrays[0] for array in arrays)
        if constant and not is_constant and equal:
            is_constant = True
        if constant and not is_constant:
            raise Unfit("not the same in all samples")
        name = root.name("w" if is_constant else "x")
        value = Value(name, list(arrays), list(arrays), constant=is_constant)
        if is_constant:
            if self.rng.random() < 0.05 and arrays[0].dtype != BOOL:
                node = helper.make_node("Constant", [], [name], value=_tensor(arrays[0], name))
                root.nodes.append(node)
            else:
                root.initializers.append(_tensor(arrays[0], name))
        else:
            shape = value.shape
            root.inputs.append(value_info(name, arrays[0], [self._declared(size) for size in shape]))
            for sample, array in zip(root.samples, arrays, strict=True):
                sample.arrays[name] = array
        self._see(value)
        return value

    def _see(self, value: Value) -> None:
        at: Builder | None = self
        while at is not None:
            at.values.append(value)
            at = at.parent

    def _declared(self, size: Size) -> Any:
        """How a dimension is written: its size, a name, another name, `?`, or nothing."""
        root, chance = self.root, self.rng.random()
        if is_fixed(size) and chance < 0.8:
            return size[0]
        names = root._dim_names.setdefault(size, [])
        if chance > 0.95:
            return self.rng.choice((None, "?"))
        if not names or chance > 0.88:
            names.append(f"d{sum(map(len, root._dim_names.values()))}")
        return self.rng.choice(names)

    def ints(self, per_sample: Sequence[Any], dtype: str = "int64", may_compute: bool = True) -> str:
        """The name of integers, which are shapes, axes or bounds: constant, given, or computed. What only
        few engines take as computed is rarely that: `may_compute` is False."""
        arrays = [np.asarray(item, dtype) for item in per_sample]
        equal = all(np.array_equal(array, arrays[0]) for array in arrays)
        if equal and self.rng.random() < (0.8 if may_compute else 0.98):
            return self.given([arrays[0]] * self.num_samples, True).name
        if self.rng.random() < 0.5:
            return self._given_exactly(arrays).name
        base = self._given_exactly([np.asarray(array - 1) for array in arrays])
        one = self.given([np.asarray(1, dtype)] * self.num_samples, True)
        return self.node("Add", [base, one]).name

    def _given_exactly(self, arrays: Sequence[Any]) -> Value:
        """An input whose shape is written as numbers."""
        made = self.given(arrays, False)
        self.root.inputs[-1].CopyFrom(value_info(made.name, arrays[0], arrays[0].shape))
        return made

    # ---- nodes

    def node(self, op: str, inputs: Sequence[Value | str | None], outputs: int = 1, **attrs: Any) -> Value:
        return self.nodes_of(op, inputs, outputs, **attrs)[0]

    def nodes_of(
        self, op: str, inputs: Sequence[Value | str | None], outputs: int = 1, **attrs: Any
    ) -> list[Value]:
        """Add a node. Raises: Unfit where a peer refuses it, or its values are not wanted."""
        names = [item.name if isinstance(item, Value) else (item or "") for item in inputs]
        made = helper.make_node(op, names, [self.name() for _ in range(outputs)], **attrs)
        if not is_in_set(made, self.opset):
            raise Unfit("another operator set")
        try:
            values = self._evaluated(made)
        except (Refused, Unfit) as error:
            self.rejected[f"{op}: {str(error)[:90]}"] = self.rejected.get(f"{op}: {str(error)[:90]}", 0) + 1
            raise Unfit(str(error)) from error
        self.nodes.append(made)
        for value in values:
            self.values.append(value)
            self.own.add(value.name)
        return values

    def _evaluated(self, node: NodeProto) -> list[Value]:
        wanted = used_names(node)
        table = {value.name: value for value in self.values}
        missing = [name for name in wanted if name not in table]
        if missing:
            raise Unfit(f"unknown {missing[0]}")
        clean, noisy = [], []
        for s in range(self.num_samples):
            clean.append(evaluate(node, {name: table[name].clean[s] for name in wanted}, self.opset))
            if node.op_type in SUMS and _cancels(node.op_type, table[node.input[0]].clean[s], clean[-1][0]):
                raise Unfit("rounding decides a sum")
            if node.op_type == "Mul" and _leaves_64_bits(*(table[name].clean[s] for name in node.input)):
                raise Unfit("a product of sizes that leaves 64 bits, which is an error")
            if any(getattr(item, "size", 0) > self.plan.max_elements for item in clean[-1]):
                raise Unfit("too many elements")  # before there are as many errors of rounding
            if any(table[name].clean[s] is not table[name].noisy[s] for name in wanted):
                again = evaluate(node, {name: table[name].noisy[s] for name in wanted}, self.opset)
                self._refuse_steps(node, s, clean[-1])
            else:
                again = clean[-1]
            coarsest = coarsest_inside(node, [table[name].clean[s] for name in wanted])
            sizes = self._sizes_of_terms(node, {name: table[name].clean[s] for name in wanted})
            noisy.append([self._with_noise(node.op_type, item, coarsest, sizes) for item in again])
        made = []
        for index, name in enumerate(item for item in node.output if item):
            value = Value(name, [row[index] for row in clean], [row[index] for row in noisy])
            self._check(value)
            made.append(value)
        return made

    def _refuse_steps(self, node: NodeProto, s: int, made: Sequence[Any]) -> None:
        """Refuse a node that rounds or chooses, where errors of its inputs could take a value over a step."""
        table = {value.name: value for value in self.values}
        names = used_names(node)
        clean, noisy = (
            {name: getattr(table[name], form)[s] for name in names} for form in ("clean", "noisy")
        )
        if decides_a_step(node, clean, noisy, made, lambda given: evaluate(node, given, self.opset)):
            raise Unfit("rounding decides a step")

    def _sizes_of_terms(self, node: NodeProto, given: dict[str, Any]) -> Any:
        """For each element of a sum, how large its terms are together; 0 for all else."""
        if node.op_type not in LINEAR:
            return 0.0
        sizes = {name: np.abs(item) if item.dtype in FLOATS else item for name, item in given.items()}
        return np.abs(evaluate(node, sizes, self.opset)[0].astype(np.float64))

    def _with_noise(self, op: str, item: Any, coarsest: float, sizes: Any) -> Any:
        """The value as rounding elsewhere could have left it: by units of the element, of the largest and of
        `sizes`, those of terms. A body may have rounded to units of `coarsest` what it gives in a finer
        type."""
        if isinstance(item, list) or item.dtype not in FLOATS or op in EXACT or not item.size:
            return item
        unit = max(EPSILON[item.dtype.name], coarsest) * self.root.noise.uniform(-2, 2, item.shape)
        wide = item.astype(np.float64)
        with np.errstate(all="ignore"):
            largest = np.abs(wide[np.isfinite(wide)]).max(initial=0)
            terms = np.where(np.isfinite(sizes), sizes, 0.0)
            return np.asarray(wide + unit * (np.abs(wide) + 0.1 * largest + terms)).astype(item.dtype)

    def _check(self, value: Value) -> None:
        for mine, other in zip(value.clean, value.noisy, strict=True):
            for array, again in zip(
                *((item if isinstance(item, list) else [item]) for item in (mine, other)), strict=True
            ):
                if array is None:
                    raise Unfit("nothing is known")
                if array.dtype not in ONNX_TYPES:
                    raise Unfit(f"element type {array.dtype}")
                if array.shape != again.shape:
                    raise Unfit("rounding changes the shape")
                if array.size > self.plan.max_elements:
                    raise Unfit("too large")
                self._check_elements(array, again)
            if isinstance(mine, list) and not mine:
                raise Unfit("an empty sequence")
        if isinstance(value.clean[0], list):
            return
        if any(
            array.ndim != value.clean[0].ndim or array.dtype != value.clean[0].dtype for array in value.clean
        ):
            raise Unfit("the rank depends on the sample")

    def _check_elements(self, array: np.ndarray[Any, Any], again: np.ndarray[Any, Any]) -> None:
        if array.dtype not in FLOATS:
            if not np.array_equal(array, again):
                raise Unfit("rounding changes an integer")
            return
        wide = array.astype(np.float64)
        if not self.plan.special and array.size:
            if not np.isfinite(wide).all() or np.abs(wide).max() > LIMIT[array.dtype.name]:
                raise Unfit("too large a number")
            change = np.abs(wide - again.astype(np.float64)).max()
            if change > ROUNDING[array.dtype.name] * max(1e-3, np.abs(wide).max()):
                raise Unfit("rounding decides")

    # ---- graphs

    def subgraph(self, name: str, inputs: Sequence[Value], outputs: Sequence[Value]) -> GraphProto:
        """The nodes of this builder as the body of a node of its parent."""
        return helper.make_graph(
            self.nodes,
            name,
            [value_info(value.name, value.clean[0]) for value in inputs],
            [value_info(value.name, value.clean[0]) for value in outputs],
        )

    def model(self, outputs: Sequence[Value]) -> onnx.ModelProto:
        graph = helper.make_graph(
            self.nodes,
            f"seed_{self.plan.seed}",
            self.inputs,
            [value_info(value.name, value.clean[0]) for value in outputs],
            self.initializers,
        )
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", self.opset)], ir_version=10)

    def outputs(self) -> list[Value]:
        """What nothing uses, and a few of the others, inputs and constants among them."""
        used = {name for node in self.nodes for name in used_names(node)}
        leaves = [v for v in self.values if v.name in self.own and v.name not in used and not v.is_sequence]
        others = [v for v in self.values if v not in leaves and not v.is_sequence]
        extra = self.rng.sample(others, min(len(others), self.rng.choice((0, 0, 1, 2))))
        return leaves + extra

    def integer(self, low: int, high: int) -> int:
        return self.rng.randint(low, high)

    def flag(self, chance: float = 0.5) -> bool:
        return self.rng.random() < chance

    def size(self) -> Size | int:
        """A symbolic size or a small number."""
        return self.rng.choice(self.plan.sizes if self.flag(0.4) else self.plan.numbers)


def is_in_set(node: NodeProto, opset: int) -> bool:
    """Whether an operator set has the operator, with these attributes and inputs. The reference takes others
    too. Bodies of control flow are made of nodes that were looked at."""
    if any(attr.HasField("g") for attr in node.attribute):
        return True
    context = onnx.checker.C.CheckerContext()
    context.ir_version, context.opset_imports = 10, {"": opset}
    try:
        onnx.checker.check_node(node, context)
    except onnx.checker.ValidationError:
        return False
    return True


def _tensor(array: np.ndarray[Any, Any], name: str) -> onnx.TensorProto:
    return numpy_helper.from_array(np.ascontiguousarray(array).reshape(array.shape), name)
