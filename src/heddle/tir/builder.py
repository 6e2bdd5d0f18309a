"""Build loop functions in Python: statements are emitted in order; `with` opens nested statements.

    b = StmtBuilder()
    with b.loop("i", n, ForKind.PARALLEL) as i:
        b.store(C, [i], A[i] + 1.0)
    func = b.func("add_one", [A, C])

Use it for kernels that are assembled from parts. A kernel that is one text is better written as a script.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from heddle.ir.attrs import attrs_of
from heddle.ir.node import Map
from heddle.prim.nodes import PrimExpr, Var, as_expr, constant
from heddle.prim.ops import cast
from heddle.runtime.dtype import DataType
from heddle.tir.allocation import STORAGE
from heddle.tir.nodes import (
    AllocBuffer,
    Bind,
    Buffer,
    BufferStore,
    For,
    ForKind,
    IfThenElse,
    PrimFunc,
    Stmt,
    While,
    decl_buffer,
    seq,
)

INT64 = DataType("int64")


class StmtBuilder:
    """Collects statements. Loop variables are int64."""

    def __init__(self) -> None:
        self._open: list[list[Stmt]] = [[]]

    def emit(self, stmt: Stmt) -> None:
        """Append a statement to the open block."""
        self._open[-1].append(stmt)

    def let(self, name: str, value: Any, dtype: str | None = None) -> Var:
        """Bind a value to a new variable for the rest of the enclosing block; with `dtype`, cast it first."""
        expr = as_expr(value) if dtype is None else cast(dtype, value)
        var = Var(name, expr.dtype)
        self.emit(Bind(var, expr))
        return var

    def alloc(self, name: str, shape: Sequence[Any], dtype: str, storage: str | None = None) -> Buffer:
        """Allocate a buffer. `storage` ("stack" or "workspace") overrides where its memory comes from."""
        buffer = decl_buffer(tuple(shape), dtype, name)
        self.emit(AllocBuffer(buffer, Map({} if storage is None else {STORAGE: storage})))
        return buffer

    def store(self, buffer: Buffer, indices: Sequence[Any], value: Any) -> None:
        """Store a value, cast to the buffer's dtype."""
        self.emit(BufferStore(buffer, cast(buffer.dtype, value), tuple(indices)))

    @contextmanager
    def loop(
        self,
        name: str,
        extent: Any,
        kind: ForKind = ForKind.SERIAL,
        notes: Mapping[str, Any] | None = None,
    ) -> Iterator[Var]:
        """Open a loop over [0, extent)."""
        var = Var(name, INT64)
        with self._nest() as body:
            yield var
        first = constant(0, INT64)
        self.emit(For(var, first, cast(INT64, extent), kind, seq(*body), None, Map(notes or {})))

    @contextmanager
    def when(self, condition: PrimExpr) -> Iterator[None]:
        """Open a block that runs only if the condition holds."""
        with self._nest() as body:
            yield
        self.emit(IfThenElse(condition, seq(*body)))

    @contextmanager
    def otherwise(self) -> Iterator[None]:
        """Open the else branch of the preceding `when`."""
        last = self._open[-1].pop()
        assert isinstance(last, IfThenElse) and last.else_case is None, "`otherwise` follows a `when`"
        with self._nest() as body:
            yield
        self.emit(IfThenElse(last.condition, last.then_case, seq(*body)))

    @contextmanager
    def repeat_while(self, condition: PrimExpr) -> Iterator[None]:
        """Open a loop that repeats as long as the condition holds; it is evaluated before each iteration."""
        with self._nest() as body:
            yield
        self.emit(While(condition, seq(*body)))

    @contextmanager
    def _nest(self) -> Iterator[list[Stmt]]:
        self._open.append([])
        yield self._open[-1]
        self._open.pop()

    def func(self, name: str, params: Sequence[Var | Buffer]) -> PrimFunc:
        """Return a function of the emitted statements. Parameters are scalars and buffers that do not
        overlap."""
        assert len(self._open) == 1, "a nest is still open"
        return PrimFunc(
            tuple(params),  # type: ignore[arg-type]
            seq(*self._open[0]),
            attrs=attrs_of({"global_symbol": name, "tir.noalias": True}),
        )
