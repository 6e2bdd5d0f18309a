"""The generated cases: an operator, a sample, a dtype, numpy arguments and typed graph arguments."""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from heddle.graph.op_builder import build_call
from heddle.graph.types import ShapeExpr, TensorType
from heddle.ir.expr import Call, Expr, Tuple, Var
from heddle.ir.op import OP_RECORDS
from heddle.ir.op_def import OpDef, Sample
from heddle.ops import load
from heddle.prim.nodes import PrimExpr, SizeVar, as_expr
from heddle.runtime.dtype import DataType, dtype_of

load()


def records() -> list[OpDef]:
    """Operators with samples."""
    found = [OP_RECORDS[name] for name in OP_RECORDS if name.startswith("relax.")]
    return [record for record in found if isinstance(record, OpDef) and isinstance(record.samples, tuple)]


@dataclass(frozen=True)
class Case:
    record: OpDef
    sample: Sample
    dtype: str
    index: int

    @property
    def id(self) -> str:
        return f"{self.record.name}-{self.sample.name or self.index}-{self.dtype}"

    def arguments(self) -> tuple[Any, ...]:
        """Numpy arguments, the same in every run."""
        rng = np.random.default_rng(zlib.crc32(self.id.encode()))
        if self.sample.make is not None:
            return self.sample.make(rng, self.dtype)
        kinds = input_kinds(self.record, len(self.sample.shapes))
        return tuple(
            fresh_argument(rng, kind, given, self.dtype)
            for kind, given in zip(kinds, self.sample.shapes, strict=True)
        )


def input_kinds(record: OpDef, count: int) -> list[str]:
    kinds = [spec.kind for spec in record.inputs]
    return (kinds + kinds[-1:] * count)[:count]


def fresh_argument(rng: Any, kind: str, given: Any, dtype: str) -> Any:
    if kind == "tensors":
        return tuple(fresh_argument(rng, "tensor", shape, dtype) for shape in given)
    if kind != "tensor" or isinstance(given, np.ndarray):
        return given
    if dtype == "bool":
        return rng.integers(0, 2, size=given).astype(bool)
    if "int" in dtype:
        return rng.integers(0 if dtype.startswith("u") else -8, 9, size=given).astype(dtype)
    return rng.standard_normal(size=given).astype(DataType(dtype).numpy())


def is_axes(record: OpDef, position: int) -> bool:
    """Whether an argument names dimensions; its numbers are no sizes."""
    return position < len(record.inputs) and record.inputs[position].name == "axes"


def flat(value: Any) -> list[np.ndarray]:
    """The arrays of a result, tuples taken apart."""
    if isinstance(value, (tuple, list)):
        return [leaf for item in value for leaf in flat(item)]
    return [np.asarray(value)]


def cases() -> Iterator[Case]:
    for record in records():
        for index, sample in enumerate(record.samples):
            for dtype in sample.dtypes:
                yield Case(record, sample, dtype, index)


@dataclass
class Typed:
    """A call on variables, with the values of variables and of symbolic dimensions."""

    call: Call
    params: list[Var] = field(default_factory=list)
    arrays: list[np.ndarray] = field(default_factory=list)
    sizes: dict[PrimExpr, int] = field(default_factory=dict)


class Typer:
    """Gives arguments types; with `dynamic`, every distinct size above 1 becomes a symbolic dimension, with
    `is_apart` every dimension."""

    def __init__(self, dynamic: bool, is_apart: bool = False) -> None:
        self.dynamic, self.is_apart = dynamic, is_apart
        self.symbols: dict[int, PrimExpr] = {}
        self.params: list[Var] = []
        self.arrays: list[np.ndarray] = []

    def dim(self, size: int) -> PrimExpr:
        if self.is_apart:
            return SizeVar(f"d{len(self.params)}_{size}")
        if not self.dynamic or size < 2:
            return as_expr(int(size), "int64")
        return self.symbols.setdefault(size, SizeVar(f"n{size}"))

    def tensor(self, array: np.ndarray) -> Var:
        dims = tuple(self.dim(size) for size in array.shape)
        var = Var(f"x{len(self.params)}", TensorType(dims, dtype_of(array.dtype)))
        self.params.append(var)
        self.arrays.append(np.ascontiguousarray(array).reshape(array.shape))
        return var

    def scalar(self, value: Any) -> PrimExpr:
        if (
            isinstance(value, (int, np.integer))
            and not isinstance(value, bool)
            and int(value) in self.symbols
        ):
            return self.symbols[int(value)]
        return as_expr(value, "int64" if type(value) is int else None)

    def argument(self, kind: str, value: Any) -> Expr:
        if kind == "tensors":
            return Tuple(tuple(self.tensor(item) for item in value))
        if kind == "shape" and not isinstance(value, np.ndarray):
            return ShapeExpr(tuple(self.scalar(size) for size in value))
        if kind == "args":
            return Tuple(tuple(self.argument("any", item) for item in value))
        return self.tensor(value) if isinstance(value, np.ndarray) else self.scalar(value)


PARAMETER_ORDER = (("tensor", "tensors"), ("shape", "prim", "args", "any", "func"))
"""The kinds of arguments in the order in which they become parameters: sizes get their names first."""


def typed(case: Case, arguments: tuple[Any, ...], dynamic: bool, is_apart: bool = False) -> Typed:
    typer = Typer(dynamic, is_apart)
    kinds = input_kinds(case.record, len(arguments))
    made: list[Any] = [None] * len(arguments)
    for wanted in PARAMETER_ORDER:
        for k, (kind, value) in enumerate(zip(kinds, arguments, strict=True)):
            if kind in wanted:
                made[k] = value if is_axes(case.record, k) else typer.argument(kind, value)
    call = build_call(case.record, made, dict(case.sample.attrs))
    return Typed(call, typer.params, typer.arrays, {var: size for size, var in typer.symbols.items()})
