"""What converters may ask of the import that they are part of. `importer.py` does it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any, Protocol

import numpy as np
from onnx import GraphProto

from heddle.frontend.onnx.proto import LoadedModel, Node
from heddle.frontend.onnx.scope import Finish, Parameters, Scope
from heddle.frontend.onnx.values import Value
from heddle.graph.block_builder import BlockBuilder
from heddle.graph.contents import Simplifier
from heddle.ir.expr import Expr
from heddle.prim.nodes import PrimExpr
from heddle.prim.nodes import Var as PrimVar
from heddle.support.names import NameSupply


class Importing(Protocol):
    """A graph that is being imported: values by name, bindings, sizes."""

    builder: BlockBuilder
    opsets: Mapping[str, int]
    simplify: Simplifier
    dim_names: NameSupply
    scope: Scope
    params: Parameters | None
    is_straight: bool
    """Whether the main graph is imported as one block without branches."""
    unpacked_bytes: int
    turns: int
    model: LoadedModel

    def branch(self) -> AbstractContextManager[None]:
        """Names and bindings made inside are not seen outside."""

    def nested_names(self) -> AbstractContextManager[None]:
        """Names defined inside are not seen outside; bindings are."""

    def know_dims(self, dims: Iterable[PrimVar]) -> None:
        """Tell of symbolic variables that the parameters define."""

    def visible_dims(self) -> frozenset[PrimVar]:
        """The symbolic variables that exist so far."""

    def closed(self, names: Mapping[str, Value], own_bindings: bool = False) -> AbstractContextManager[None]:
        """Only `names` are seen inside. `own_bindings`: inside is another function of ours, so no binding is
        shared, and parameters of the main function are not seen."""

    def dropped(self) -> AbstractContextManager[None]:
        """What is imported inside is not kept: it makes no parameters."""

    def lookup(self, name: str) -> Value:
        """The value of a name. Raises: ImportModelError N0105 where none is visible."""

    def bind(self, name: str, value: Value) -> None:
        """Give a name a value, in the scope that is open."""

    def run_graph(self, graph: GraphProto, finish: Finish | None = None) -> list[Value]:
        """Import initializers and nodes into the open scope; give the outputs, or what `finish` makes of
        them."""

    def run_strictly(self, node: Node) -> None:
        """Import a node. Raises: ImportModelError where it cannot be imported, in a survey too."""

    def run_nodes(
        self, nodes: Sequence[Node], outputs: Sequence[str], finish: Finish | None = None
    ) -> list[Value]:
        """Import nodes in their order; give their outputs, or what `finish` makes of them."""

    def convert(self, node: Node, inputs: Sequence[Value | None]) -> list[Value]:
        """The values of a node's outputs."""

    def inlined(self, node: Node, run: Callable[[Finish | None], list[Value]]) -> list[Value]:
        """What `run` imports in place of a node. Raises: RanksDiffer where a value can have several ranks."""

    def going_on(
        self, node: Node, rest: Sequence[Node], outputs: Sequence[str], finish: Finish | None
    ) -> Finish:
        """What gives the outputs of a node their values, and imports the nodes behind it where it stands."""

    def tensor_of(self, value: Value) -> Expr:
        """The value as a typed tensor expression."""

    def array_of(self, value: Value) -> np.ndarray[Any, Any] | None:
        """The value as a constant array, where it is constant."""

    def elements_of(self, value: Value, sizes: bool = True) -> np.ndarray[Any, Any]:
        """The elements of an integer value of rank 0 or 1: known ones, or symbolic ones read when the model
        runs."""

    def fresh_dim(self, hint: str, size: bool = True) -> PrimVar:
        """A new symbolic dimension, or a new symbolic integer of any sign."""

    def named_dims(self, dims: Sequence[PrimExpr], hint: str, sizes: bool = True) -> tuple[PrimExpr, ...]:
        """Scalar expressions, each but constants computed once when the model runs, as fresh variables."""

    def short_dims(self, dims: Sequence[PrimExpr], hint: str) -> tuple[PrimExpr, ...]:
        """Scalar expressions as formulas; where one of them is long, as `named_dims`."""

    def call(self, op: str, *args: Any, **attrs: Any) -> Expr:
        """Bind a call of a graph operator. Raises: ImportModelError N0201 where it is not declared."""

    def cast_shape(self, expr: Expr, dims: Sequence[PrimExpr]) -> Expr:
        """The value checked against a shape when it runs; the value itself where its shape is known to be
        that."""

    def bind_dims(self, expr: Expr, dims: Sequence[PrimExpr]) -> Expr:
        """The value with its dimensions read into symbolic variables when the model runs."""

    def same_dims(self, a: Sequence[PrimExpr], b: Sequence[PrimExpr]) -> bool:
        """Whether two shapes are known to be equal."""

    def require_equal(self, pairs: Sequence[tuple[PrimExpr, PrimExpr]], what: str) -> None:
        """Check when the model runs that pairs of scalars (expected, got) are equal. Messages name `what`."""

    def common_dim(self, dims: Sequence[PrimExpr]) -> PrimExpr:
        """The dimension that the others must equal: a constant, else a variable, else the first."""
