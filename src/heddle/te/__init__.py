"""Tensor expressions (TE): define tensors by formulas for their elements, and create loop functions from
them."""

from heddle.te.create_prim_func import create_prim_func, topological_order
from heddle.te.reduction import comm_reducer, max, min, prod, sum
from heddle.te.tensor import (
    CommReducer,
    ComputeOp,
    ExternOp,
    PlaceholderOp,
    Reduce,
    ScalarTensor,
    Tensor,
    TensorLoad,
    compute,
    extern,
    placeholder,
    reduce_axis,
    size_var,
    var,
)

__all__ = [
    "CommReducer",
    "ComputeOp",
    "ExternOp",
    "PlaceholderOp",
    "Reduce",
    "ScalarTensor",
    "Tensor",
    "TensorLoad",
    "comm_reducer",
    "compute",
    "create_prim_func",
    "extern",
    "max",
    "min",
    "placeholder",
    "prod",
    "reduce_axis",
    "size_var",
    "sum",
    "topological_order",
    "var",
]
