"""The entry of a kernel whose arguments the native library checks: a quick look, then one call with a table.

    if num_args != 2: return check_args(args, num_args, names, table)
    if some kind is not the usual one: if check_args(...) != 0: return -1
    if some rank or dtype is another: if check_args(...) != 0: return -1
    n = args[0].shape[0]; ...
    if some size is another, or there are strides, ...: if check_args(...) != 0: return -1

The quick look is straight code, whatever the number of arguments: differences are joined by `or`. It may take
right arguments for wrong ones (dense strides, an empty tensor without data); then the call says so. What a
table cannot say is left to statements of their own: dimensions that are formulas or have another dtype than
int64, and declared strides.

A kernel of more than `QUICK_LOOK_ARGS` arguments calls at once: the straight code would be one block of
thousands of loads, and the time that LLVM takes for a block grows faster than the block.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from heddle.prim.intrinsics import ret
from heddle.prim.nodes import IntImm, PrimExpr, Var
from heddle.prim.ops import bitwise_and, bitwise_or, bitwise_xor, cast, const, not_equal
from heddle.runtime.dtype import packed_dtype
from heddle.runtime.native.abi import ArgForm, Kind
from heddle.tir.kernel_abi import arg_kind, arg_value, check_args, pointer_bits, tensor_field
from heddle.tir.kernel_entry import Entry
from heddle.tir.nodes import Bind, Buffer, Evaluate, IfThenElse, Stmt

QUICK_LOOK_ARGS = 64
_NUMBER = -1
"""In the place of an axis: an argument that is a number."""
_ALL_BITS, _NO_BITS = -1, 0
_KINDS = {ArgForm.INT: Kind.INT, ArgForm.FLOAT: Kind.FLOAT, ArgForm.POINTER: Kind.POINTER}
"""What the quick look takes a scalar to be. Other kinds may do as well."""


@dataclass
class CheckedEntry(Entry):
    """Builds the table while `Entry` binds what the body needs. See `heddle.runtime.native.abi.ArgTable`."""

    _table: list[int] = field(default_factory=list)
    """For each parameter an `ArgCheck`, and a `SizeCheck` for each dimension."""
    _numbers: dict[Var, tuple[int, int]] = field(default_factory=dict)
    """Integers among the parameters, as the source of a size: their position and `_NUMBER`."""
    _positions: dict[Buffer, int] = field(default_factory=dict)
    _same: list[tuple[int, int, int, int]] = field(default_factory=list)
    _same_names: list[str] = field(default_factory=list)
    _addresses: list[Stmt] = field(default_factory=list)
    _kinds: list[PrimExpr] = field(default_factory=list)
    """Of the quick look, int32: what is not 0 where a kind is not the usual one."""
    _headers: list[PrimExpr] = field(default_factory=list)
    """The same of ranks, dtypes and numbers, int64. They are read where all kinds are right."""
    _devices: list[PrimExpr] = field(default_factory=list)
    """The same of devices, int32."""
    _contents: list[PrimExpr] = field(default_factory=list)
    """The same of sizes, strides and addresses, int64. They are read where all ranks are right."""
    _aligned: dict[int, list[PrimExpr]] = field(default_factory=dict)
    """Addresses by the low bits that are zero in them."""

    def build(self) -> list[Stmt]:
        binds = super().build()
        status = self._call()
        if len(self.func.params) > QUICK_LOOK_ARGS:
            return [_leave_unless_zero(status), *self._addresses, *binds]
        rest = [*self._contents, *self._places()]
        if self._devices:
            rest.append(cast("int64", _joined(self._devices)))
        return [
            IfThenElse(not_equal(self.num_args, const(len(self.func.params))), Evaluate(ret(status))),
            *_unless_zero(self._kinds, status),
            *self._addresses,
            *_unless_zero(self._headers, status),
            *binds,
            *_unless_zero(rest, status),
        ]

    def _places(self) -> list[PrimExpr]:
        """Differences of addresses: bits that have to be zero, and the sign of the address before. Only 0 has
        one there, and addresses far up, which are right when they are looked at again."""
        found = [
            bitwise_and(_joined(addresses), const(low_bits, "int64"))
            for low_bits, addresses in self._aligned.items()
            if low_bits
        ]
        before = [address - 1 for addresses in self._aligned.values() for address in addresses]
        if before:
            found.append(bitwise_and(_joined(before), const(-(1 << 63), "int64")))
        return found

    def _call(self) -> PrimExpr:
        names = [self.name]
        for param in self.func.params:
            named = self.func.buffer_map.get(param, param)
            names += [_plain(named.name), str(named.dtype)]
        head = [len(self.func.params), self.device_type, len(self._same)]
        table = [*head, *(word for same in self._same for word in same), *self._table]
        return check_args(self.args, self.num_args, [*names, *self._same_names], table)

    def check_count(self, expected: int) -> None:
        """The table has it."""

    def check_scalar(self, index: int, param: Var, where: str) -> None:
        dtype = param.dtype
        is_whole = dtype.is_int or dtype.is_bool
        form = ArgForm.INT if is_whole else ArgForm.FLOAT if dtype.is_float else ArgForm.POINTER
        bits = 1 if dtype.is_bool else dtype.bits
        is_narrow = is_whole and bits < 64
        self._table += [form, 0, 0, 0, 0, bits if is_narrow else 0, int(dtype.is_signed)]
        self._kinds.append(bitwise_xor(arg_kind(self.args, index), const(int(_KINDS[form]))))
        if is_whole:
            self._numbers[param] = index, _NUMBER
        if is_narrow:
            value = arg_value(self.args, index, "int64")
            self._headers.append(bitwise_xor(cast("int64", cast(dtype, value)), value))

    def bind_tensor(self, var: Var, value: PrimExpr) -> None:
        self._addresses.append(Bind(var, value))
        self.known.add(var)

    def check_kind(self, index: int, where: str) -> None:
        self._kinds.append(bitwise_xor(arg_kind(self.args, index), const(int(Kind.TENSOR))))

    def check_header(self, index: int, buffer: Buffer, tensor: PrimExpr, where: str) -> None:
        self._positions[buffer] = index
        rank, dtype = len(buffer.shape), packed_dtype(buffer.dtype)
        low_bits, has_own_strides = buffer.dtype.element.itemsize - 1, bool(buffer.strides)
        self._table += [ArgForm.TENSOR, rank, dtype, low_bits, int(has_own_strides), 0, 0]
        header = tensor_field(tensor, "dtype_and_ndim")
        self._headers.append(bitwise_xor(header, const(dtype << 32 | rank, "int64")))
        self._devices.append(bitwise_xor(tensor_field(tensor, "device_type"), const(self.device_type)))
        self._aligned.setdefault(low_bits, []).append(pointer_bits(buffer.data))
        if not has_own_strides and rank:
            self._contents.append(pointer_bits(tensor_field(tensor, "stride_array")))
        for dim in buffer.shape:
            self._table += [dim.value, _ALL_BITS] if isinstance(dim, IntImm) else [0, _NO_BITS]

    def check_size(self, buffer: Buffer, position: int, where: str) -> None:
        dim, given = buffer.shape[position], self.given_size(buffer, position)
        source = self._source(dim) if isinstance(dim, Var) else None
        if isinstance(dim, Var) and source is not None:
            self._same.append((self._positions[buffer], position, *source))
            self._same_names.append(_plain(dim.name))
        elif not isinstance(dim, IntImm):
            super().check_size(buffer, position, where)
            return
        self._contents.append(bitwise_xor(given, cast("int64", dim)))

    def _source(self, var: Var) -> tuple[int, int] | None:
        """Where the runtime finds the value of a variable, all of it."""
        if var in self.own:
            buffer, position = self.own[var]
            return self._positions[buffer], position
        return self._numbers.get(var)

    def check_memory(self, buffer: Buffer, where: str) -> None:
        if buffer.strides:
            self.check_strides(buffer, where)


def _unless_zero(differences: Sequence[PrimExpr], status: PrimExpr) -> list[Stmt]:
    """Ask for the status where a difference is not 0, and leave where that is not 0 either."""
    if not differences:
        return []
    found = not_equal(_joined(differences), const(0, differences[0].dtype))
    return [IfThenElse(found, _leave_unless_zero(status))]


def _leave_unless_zero(status: PrimExpr) -> Stmt:
    return IfThenElse(not_equal(status, const(0)), Evaluate(ret(const(-1))))


def _joined(values: Sequence[PrimExpr]) -> PrimExpr:
    """The bits of all values, as a balanced tree: no reader recurses deep."""
    if len(values) == 1:
        return values[0]
    middle = len(values) // 2
    return bitwise_or(_joined(values[:middle]), _joined(values[middle:]))


def _plain(name: str) -> str:
    """A name without zero bytes, which end names in a table."""
    return name.replace("\0", "")
