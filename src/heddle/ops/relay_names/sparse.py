"""Relay's products with matrices of compressed rows."""

from __future__ import annotations

from typing import Any

from heddle.graph.codes import R0205
from heddle.graph.op_builder import call_op, const
from heddle.ir.expr import Tuple
from heddle.ir.op_def import Input
from heddle.ops.relay_names.rules import Given, Rows, alias, as_is, attr, dims_of, dtype_of, rank, tensor_type
from heddle.support.diagnostics import IRTypeError, UsageError

_PARTS = ("data", "indices", "indptr")


def _dense_of_rows(given: Given, prefix: str, shape: Any) -> Any:
    """A matrix of compressed rows as one with all elements; what comes twice is added."""
    values, columns, ends = (given[f"{prefix}{name}"] for name in _PARTS)
    if rank(values) != 1:
        raise IRTypeError(R0205, "sparse operators take compressed rows, no blocks")
    count = dims_of(values)[0]
    rows = _rows_of(count, ends)
    places = call_op("stack", [rows, call_op("astype", columns, dtype="int64")], axis=1)
    zeros = call_op("zeros", shape, dtype=str(tensor_type(values).dtype))
    return call_op("scatter_nd", zeros, places, values, reduction="add")


def _rows_of(count: Any, ends: Any) -> Any:
    """The row of each value."""
    positions = call_op("arange", 0, count, 1, dtype="int64")
    rows = call_op("bucketize", positions, call_op("astype", ends, dtype="int64"), right=True)
    return call_op("subtract", rows, const(1, "int64"))


def _turned_rows(given: Given) -> Any:
    """A square matrix transposed: its values column by column."""
    values, columns, ends = (given[f"sparse_{name}"] for name in _PARTS)
    rows = _rows_of(dims_of(values)[0], ends)
    order = call_op("argsort", columns, axis=0, dtype="int64")
    sorted_columns = call_op("astype", call_op("take", columns, order, axis=0), dtype="int64")
    places = call_op("arange", 0, dims_of(ends)[0], 1, dtype="int64")
    found = [
        call_op("take", values, order, axis=0),
        call_op("astype", call_op("take", rows, order, axis=0), dtype=dtype_of("sparse_indices")(given)),
        call_op(
            "astype", call_op("bucketize", places, sorted_columns), dtype=dtype_of("sparse_indptr")(given)
        ),
    ]
    return Tuple(tuple(found))


def _sparse_dense(given: Given) -> Any:
    """data times the transposed sparse matrix; with `sparse_lhs`, that matrix times the transposed data."""
    data = given["dense_data"]
    shape = [dims_of(given["sparse_indptr"])[0] - 1, dims_of(data)[1]]
    sparse = _dense_of_rows(given, "sparse_", shape)
    left, right = (sparse, data) if given["sparse_lhs"] else (data, sparse)
    return call_op("matmul", left, call_op("permute_dims", right, axes=[1, 0]))


def _sparse_add(given: Given) -> Any:
    data = given["dense_data"]
    return call_op("add", data, _dense_of_rows(given, "sparse_", dims_of(data)))


def compressed(prefix: str, matrix: Any) -> Given:
    """The parts of a matrix of compressed rows, by the names that operators give them: of (data, indices,
    indptr), or of an object that has these as attributes, as SciPy's have."""
    if all(hasattr(matrix, name) for name in _PARTS):
        matrix = [getattr(matrix, name) for name in _PARTS]
    if not isinstance(matrix, (tuple, list)) or len(matrix) != 3:
        raise UsageError(
            R0205,
            f"a sparse matrix is (data, indices, indptr) or one of SciPy's, got {type(matrix).__name__}",
        )
    return dict(zip((f"{prefix}{name}" for name in _PARTS), matrix, strict=True))


def _dense_and_sparse(dense_mat: Any, sparse_mat: Any, sparse_lhs: bool = False) -> Given:
    return {"dense_data": dense_mat, **compressed("sparse_", sparse_mat), "sparse_lhs": sparse_lhs}


def _sum_with_sparse(dense_mat: Any, sparse_mat: Any) -> Given:
    return {"dense_data": dense_mat, **compressed("sparse_", sparse_mat)}


def aliases() -> Rows:
    """The names of this file."""
    rows = tuple(Input(f"sparse_{name}") for name in _PARTS)
    dense = (Input("dense_data"), *rows)
    flag = (attr("sparse_lhs", "bool", False),)
    for name in ("nn.sparse_dense", "nn.internal.sparse_dense_padded"):
        yield as_is(name, dense, flag, _sparse_dense, dtype_of("dense_data"), _dense_and_sparse)
    yield (
        "bucketize",
        alias(
            "nn.sparse_transpose",
            rows,
            expression=_turned_rows,
            results=lambda call: 3,
            function=lambda x: compressed("sparse_", x),
        ),
    )
    yield as_is("nn.sparse_add", dense, (), _sparse_add, dtype_of("dense_data"), _sum_with_sparse)
