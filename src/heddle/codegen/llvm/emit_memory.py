"""Loads, stores and addresses.

Each group of buffers that may share memory has an alias scope; accesses of different groups are declared
disjoint, so that LLVM keeps what is loaded in registers. Alignment is that of one element: only allocations
are known to be aligned further, and LLVM sees those.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from heddle.codegen.codes import G0101
from heddle.codegen.expressions import is_mask
from heddle.codegen.llvm.emit_expr import ExprEmitter, mangle
from heddle.codegen.llvm.types import INT64, is_widened, memory_type, register_type, splat
from heddle.codegen.llvm.writer import FunctionWriter, ModuleWriter
from heddle.ir.node import replace
from heddle.prim.nodes import Add, Broadcast, FloorMod, IntImm, Mod, Mul, PrimExpr, Ramp
from heddle.prim.substitute import free_vars
from heddle.runtime.dtype import DataType
from heddle.support.diagnostics import UsageError
from heddle.tir.nodes import Buffer, BufferLoad

MAX_SHUFFLED_STRIDE = 8
"""Of elements farther apart each has a cache line of its own, or nearly so: they are gathered."""
NO_STRIDE = 1 << 62


class AliasScopes:
    """The metadata of one function's buffers: `suffix(data)` goes after a load or store."""

    def __init__(self, module: ModuleWriter, distinct: Sequence[Any]) -> None:
        self._suffixes: dict[Any, str] = {}
        self._distinct = frozenset(distinct)
        if len(distinct) < 2:
            return
        domain = module.metadata("distinct !{{self}}")
        scopes = {data: module.metadata(f"distinct !{{{{self}}, {domain}}}") for data in distinct}
        for data in distinct:
            own = module.metadata(f"!{{{scopes[data]}}}")
            others = module.metadata(
                f"!{{{', '.join(scopes[other] for other in distinct if other is not data)}}}"
            )
            self._suffixes[data] = f", !alias.scope {own}, !noalias {others}"

    def suffix(self, data: Any) -> str:
        """The metadata that follows an access through the pointer; "" where it is in no scope."""
        return self._suffixes.get(data, "")

    def may_share(self, one: Any, other: Any) -> bool:
        """Whether two pointers may be to one memory."""
        return one is other or not (one in self._distinct and other in self._distinct)


class MemoryEmitter(ExprEmitter):
    """Adds buffer accesses to expressions. Buffers are flat: one index each."""

    def __init__(self, module: ModuleWriter, out: FunctionWriter, scopes: AliasScopes) -> None:
        super().__init__(module, out)
        self.scopes = scopes

    def flat_index(self, buffer: Buffer, indices: tuple[PrimExpr, ...]) -> PrimExpr:
        """The only index. Raises: UsageError G0101 for a buffer that was not flattened."""
        if len(indices) != 1 or buffer.strides or buffer.elem_offset is not None:
            raise UsageError(G0101, f"buffer {buffer.name!r} was not flattened")
        return indices[0]

    def address(self, buffer: Buffer, index: PrimExpr) -> str:
        """The address of one element (a vector of addresses for a vector index)."""
        base, element = self.emit(buffer.data), memory_type(buffer.dtype)
        place, index = self._place_and_rest(index)
        if place is not None:
            base = self.out.value(f"getelementptr {element}, ptr {base}, {self._wide_index(place)}")
        flags = "inbounds " if place is None else ""
        return self.out.value(f"getelementptr {flags}{element}, ptr {base}, {self._wide_index(index)}")

    def _wide_index(self, index: PrimExpr) -> str:
        """An index of 64 bits, with its type."""
        operand = self.emit_index(index)
        wide = INT64.with_lanes(index.dtype.lanes)
        if index.dtype != wide:
            operand = self.convert(operand, index.dtype, wide)
        return f"{register_type(wide)} {operand}"

    def _place_and_rest(self, index: PrimExpr) -> tuple[PrimExpr | None, PrimExpr]:
        """`t % 2 * 512 + i` in a loop over `i` is a place, `t % 2 * 512`, and a number of elements from it.
        As one sum of integers LLVM makes it the bits of one number, which are no row of addresses to it."""
        if self.innermost is None or not isinstance(index, Add) or index.dtype.lanes > 1:
            return None, index
        for part, rest in ((index.a, index.b), (index.b, index.a)):
            is_place = isinstance(part, Mul) and isinstance(part.a, (FloorMod, Mod))
            if is_place and self.innermost not in free_vars(part) and self.innermost in free_vars(rest):
                return part, rest
        return None, index

    def visit_BufferLoad(self, node: BufferLoad) -> str:
        predicate = node.predicate
        if predicate is not None and not is_mask(predicate, node.buffer.dtype, node.dtype):
            return self._load_under(predicate, replace(node, predicate=None))
        index = self.flat_index(node.buffer, node.indices)
        if isinstance(index, Broadcast) and node.predicate is None and node.buffer.dtype.lanes == 1:
            scalar = self.visit_BufferLoad(BufferLoad(node.buffer, (index.value,)))
            return self.splat(scalar, node.buffer.dtype, index.lanes)
        ty = memory_type(node.dtype)
        if index.dtype.lanes == 1 or _is_contiguous(index):
            loaded = self._load_at(node, index, ty)
        elif self._may_shuffle(node, index):
            loaded = self._load_strided(node, index)
        else:
            loaded = self._gather(node, index, ty)
        return self._narrow(loaded, node.dtype)

    def _load_under(self, condition: PrimExpr, load: BufferLoad) -> str:
        """What a load gives where its condition holds, else 0."""
        yes, end = self.out.label("load"), self.out.label("loaded")
        self.out.branch(self.predicate(condition), yes, end)
        before = self.out.block
        self.out.start(yes)
        with self.conditional():
            operand = self.visit_BufferLoad(load)
        last = self.out.block
        self.out.start(end)
        ty = register_type(load.dtype)
        return self.out.value(f"phi {ty} [ zeroinitializer, %{before} ], [ {operand}, %{last} ]")

    def predicate(self, predicate: PrimExpr) -> str:
        """The predicate of an access, which is a value, also where the access is an index."""
        with self.value_arithmetic():
            return self.emit(predicate)

    def _load_at(self, node: BufferLoad, index: PrimExpr, ty: str) -> str:
        base = index.base if isinstance(index, Ramp) else index
        address, align = self.address(node.buffer, base), node.buffer.dtype.element.itemsize
        suffix = self.scopes.suffix(node.buffer.data)
        if node.predicate is None:
            return self.out.value(f"load {ty}, ptr {address}, align {align}{suffix}")
        mask, mask_ty = self.predicate(node.predicate), register_type(node.predicate.dtype)
        callee = self.module.declare(f"llvm.masked.load.{mangle(ty)}.p0", ty, ["ptr", mask_ty, ty])
        arguments = f"ptr align {align} {address}, {mask_ty} {mask}, {ty} zeroinitializer"
        return self.out.value(f"call {ty} {callee}({arguments}){suffix}")

    def _may_shuffle(self, node: BufferLoad, index: PrimExpr) -> bool:
        is_plain = node.predicate is None and node.buffer.dtype.lanes == 1
        return is_plain and _stride(index) <= MAX_SHUFFLED_STRIDE

    def _load_strided(self, node: BufferLoad, index: PrimExpr) -> str:
        """Every second, third... element: contiguous vectors from the first to the last of them, shuffled.
        Nothing beyond the last is read: the last vector ends with it."""
        assert isinstance(index, Ramp)
        lanes, stride = node.dtype.lanes, _stride(index)
        last = stride * (lanes - 1)
        ty, element = memory_type(node.dtype), memory_type(node.buffer.dtype)
        base, align = self.address(node.buffer, index.base), node.buffer.dtype.element.itemsize
        suffix, picked = self.scopes.suffix(node.buffer.data), ""
        for begin in range(0, last + 1, lanes):
            here = [lane for lane in range(lanes) if begin <= lane * stride < begin + lanes]
            if not here:
                continue
            start = min(begin, last + 1 - lanes)
            moved = f"getelementptr inbounds {element}, ptr {base}, i64 {start}"
            address = self.out.value(moved) if start else base
            loaded = self.out.value(f"load {ty}, ptr {address}, align {align}{suffix}")
            places = [f"i32 {lane}" if lane < here[0] else "i32 poison" for lane in range(lanes)]
            for lane in here:
                places[lane] = f"i32 {lanes + lane * stride - start}"
            shuffle = f"shufflevector {ty} {picked or 'poison'}, {ty} {loaded}, <{lanes} x i32> "
            picked = self.out.value(f"{shuffle}<{', '.join(places)}>")
        return picked

    def _gather(self, node: BufferLoad, index: PrimExpr, ty: str) -> str:
        lanes = self._require_elements(node.buffer, node.dtype.lanes)
        addresses, align = self.address(node.buffer, index), node.buffer.dtype.element.itemsize
        mask = splat("i1", "true", lanes) if node.predicate is None else self.predicate(node.predicate)
        pointers, mask_ty = f"<{lanes} x ptr>", f"<{lanes} x i1>"
        callee = self.module.declare(
            f"llvm.masked.gather.{mangle(ty)}.v{lanes}p0", ty, [pointers, mask_ty, ty]
        )
        arguments = f"{pointers} align {align} {addresses}, {mask_ty} {mask}, {ty} zeroinitializer"
        return self.out.value(f"call {ty} {callee}({arguments}){self.scopes.suffix(node.buffer.data)}")

    def _require_elements(self, buffer: Buffer, lanes: int) -> int:
        """The lanes of a gather or scatter. Raises: UsageError G0101 where each of them is a vector."""
        if buffer.dtype.lanes > 1:
            raise UsageError(G0101, f"vectors of {buffer.name!r} that lie apart are accessed at once")
        return lanes

    def store(self, buffer: Buffer, index: PrimExpr, value: PrimExpr, predicate: PrimExpr | None) -> None:
        """Store a scalar or a vector. Of a vector, lanes where `predicate` does not hold are not written."""
        operand = self._widen(self.emit(value), value.dtype)
        ty, align = memory_type(value.dtype), buffer.dtype.element.itemsize
        suffix = self.scopes.suffix(buffer.data)
        if index.dtype.lanes > 1 and not _is_contiguous(index):
            self._scatter(buffer, index, (ty, operand), predicate)
            return
        address = self.address(buffer, index.base if isinstance(index, Ramp) else index)
        if predicate is None:
            self.out.effect(f"store {ty} {operand}, ptr {address}, align {align}{suffix}")
            return
        mask, mask_ty = self.predicate(predicate), register_type(predicate.dtype)
        callee = self.module.declare(f"llvm.masked.store.{mangle(ty)}.p0", "void", [ty, "ptr", mask_ty])
        arguments = f"{ty} {operand}, ptr align {align} {address}, {mask_ty} {mask}"
        self.out.effect(f"call void {callee}({arguments}){suffix}")

    def _scatter(
        self, buffer: Buffer, index: PrimExpr, value: tuple[str, str], predicate: PrimExpr | None
    ) -> None:
        (ty, operand), lanes = value, self._require_elements(buffer, index.dtype.lanes)
        addresses, align = self.address(buffer, index), buffer.dtype.element.itemsize
        mask = splat("i1", "true", lanes) if predicate is None else self.predicate(predicate)
        pointers, mask_ty = f"<{lanes} x ptr>", f"<{lanes} x i1>"
        name = f"llvm.masked.scatter.{mangle(ty)}.v{lanes}p0"
        callee = self.module.declare(name, "void", [ty, pointers, mask_ty])
        arguments = f"{ty} {operand}, {pointers} align {align} {addresses}, {mask_ty} {mask}"
        self.out.effect(f"call void {callee}({arguments}){self.scopes.suffix(buffer.data)}")

    def _narrow(self, operand: str, dtype: DataType) -> str:
        """From memory's type to the register's."""
        if not is_widened(dtype.element):
            return operand
        return self.out.value(f"trunc {memory_type(dtype)} {operand} to {register_type(dtype)}")

    def _widen(self, operand: str, dtype: DataType) -> str:
        if not is_widened(dtype.element):
            return operand
        extend = "sext" if dtype.is_signed else "zext"
        return self.out.value(f"{extend} {register_type(dtype)} {operand} to {memory_type(dtype)}")


def _is_contiguous(index: PrimExpr) -> bool:
    return _stride(index) == 1


def _stride(index: PrimExpr) -> int:
    """The constant positive stride of an index vector; more than any vector has for other indices."""
    is_constant = isinstance(index, Ramp) and isinstance(index.stride, IntImm) and index.stride.value > 0
    return index.stride.value if is_constant else NO_STRIDE  # type: ignore[attr-defined]
