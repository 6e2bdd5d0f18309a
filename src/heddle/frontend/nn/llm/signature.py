"""What kernels' parameter lists are made of: sizes, arrays of numbers, the parts that all attention
kernels share."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from heddle.frontend.codes import N0402
from heddle.frontend.nn.llm.attention import Attention, Heads, Rotation
from heddle.frontend.nn.llm.rope import Rope
from heddle.frontend.nn.llm.sources import PagedKeys
from heddle.prim.nodes import PrimExpr, Var
from heddle.prim.ops import cast
from heddle.runtime.dtype import DataType
from heddle.support.diagnostics import UsageError
from heddle.tir.builder import StmtBuilder
from heddle.tir.nodes import Buffer, PrimFunc, decl_buffer

DTYPES = ("float32", "float16", "bfloat16")


def size_var(name: str) -> Var:
    """An int64 size that a buffer's shape defines."""
    return Var(name, DataType("int64"), None, True)


def scalar(name: str, dtype: str) -> Var:
    """A scalar parameter of a kernel."""
    return Var(name, DataType(dtype))


def array(name: str, *shape: Any) -> Buffer:
    """An int32 buffer of a kernel: page tables, lengths, positions."""
    return decl_buffer(shape, "int32", name)


def checked_heads(num_kv: int, num_qo: int, qk_dim: int, v_dim: int, dtype: str) -> Heads:
    """Raises: UsageError N0402 for sizes or a dtype that no kernel has."""
    sizes = {"key heads": num_kv, "query heads": num_qo, "key features": qk_dim, "value features": v_dim}
    for what, size in sizes.items():
        if size < 1:
            raise UsageError(N0402, f"expected at least one of {what}, got {size}")
    if num_qo % num_kv:
        raise UsageError(N0402, f"expected a multiple of {num_kv} query heads, got {num_qo}")
    if dtype not in DTYPES:
        raise UsageError(N0402, f"expected one of the dtypes {', '.join(DTYPES)}, got {dtype}")
    return Heads(num_kv, num_qo, qk_dim, v_dim)


class Signature:
    """Collects an attention kernel's parameters and builds it."""

    def __init__(self, heads: Heads, dtype: str) -> None:
        self.heads, self.dtype = heads, dtype
        self.batch, self.total = size_var("batch"), size_var("total")
        self.params: list[Any] = []
        self.scalars: dict[str, Var] = {}

    def add(self, param: Any) -> Any:
        """Append a parameter and give it back."""
        self.params.append(param)
        return param

    def data(self, name: str, *shape: Any) -> Buffer:
        """Append a buffer of the model's dtype."""
        buffer: Buffer = self.add(decl_buffer(shape, self.dtype, name))
        return buffer

    def numbers(self, name: str, *shape: Any) -> Buffer:
        """Append an int32 buffer."""
        buffer: Buffer = self.add(array(name, *shape))
        return buffer

    def queries(self, rows: Any) -> Buffer:
        """Append the queries: (rows, query heads, size of a query)."""
        return self.data("q", rows, self.heads.num_qo, self.heads.qk_dim)

    def outputs(self, rows: Any) -> tuple[Buffer, Buffer]:
        """Append results (rows, query heads, size of a value) and float32 log-sums (rows, query heads)."""
        output = self.data("output", rows, self.heads.num_qo, self.heads.v_dim)
        return output, self.add(decl_buffer((rows, self.heads.num_qo), "float32", "lse"))

    def numbers_and_scales(self, *ints: str, rotary: bool = True) -> None:
        """Append int32 scalars by name, then the float32 ones for rotation and scores; all are kept in
        `scalars`.
        """
        for name in ints:
            self.scalars[name] = self.add(scalar(name, "int32"))
        for name in ("rope_scale", "rope_theta", "sm_scale") if rotary else ("sm_scale",):
            self.scalars[name] = self.add(scalar(name, "float32"))

    def rotation(self, scaling: Mapping[str, Any], position: Buffer, key_position: Any) -> Rotation:
        """How queries and keys are rotated, by the scalars that were appended before."""
        rope = Rope(self.heads.qk_dim, self.heads.qk_dim, scaling)
        s = self.scalars
        return Rotation(rope, s["rotary_mode"], s["rope_scale"], s["rope_theta"], position, key_position)

    def build(self, name: str, attention: Attention) -> PrimFunc:
        """The loop function of this name that computes `attention`."""
        b = StmtBuilder()
        attention.emit(b)
        return b.func(name, self.params)


def consecutive(offset: Buffer) -> Callable[[Var, PrimExpr], PrimExpr]:
    """Keys are at consecutive positions from an offset for each sequence."""
    return lambda seq, token: token + cast("int64", offset[seq])


def paged_keys(
    sig: Signature, page_size: int, is_sliding: bool, rows: Any, is_latent: bool = False
) -> PagedKeys:
    """The parameters from `pages` to `length_info`."""
    heads, num_pages, listed = sig.heads, size_var("num_pages"), size_var("listed_pages")
    shape = (page_size, heads.qk_dim) if is_latent else (2, heads.num_kv, page_size, heads.qk_dim)
    pages = sig.data("pages", num_pages, *shape)
    indptr = sig.numbers("page_indptr", rows + 1)
    values = sig.numbers("page_values", listed)
    info = sig.numbers("length_info", *((3, rows) if is_sliding else (rows,)))
    return PagedKeys(pages, indptr, values, info, page_size, is_sliding, is_latent)
