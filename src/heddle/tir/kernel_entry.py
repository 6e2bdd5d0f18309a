"""The entry of a kernel: what it checks of its arguments, and what it gives to the body.

`Entry` checks everything by statements of its own. `CheckedEntry` (`tir.checked_entry`) asks the runtime.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from heddle.prim.nodes import IntImm, PrimExpr, Var, is_const_int
from heddle.prim.ops import any, cast, const, equal, floormod, if_then_else, multiply, not_equal
from heddle.prim.substitute import free_vars
from heddle.runtime.dtype import DataType, packed_dtype
from heddle.runtime.native.abi import Kind
from heddle.support.diagnostics import UsageError
from heddle.tir.codes import T0501
from heddle.tir.kernel_abi import (
    arg_kind,
    arg_value,
    pointer_bits,
    tensor_begin,
    tensor_field,
    tensor_has_strides,
)
from heddle.tir.nodes import AssertStmt, Bind, Buffer, IfThenElse, PrimFunc, Stmt, seq

_HANDLE = DataType("handle")


@dataclass
class Entry:
    """Builds the checks of one function's arguments, and what is bound to them."""

    func: PrimFunc
    name: str
    device_type: int
    args: Var = field(default_factory=lambda: Var("args", _HANDLE))
    num_args: Var = field(default_factory=lambda: Var("num_args", DataType("int32")))
    pointers_and_scalars: list[Var] = field(default_factory=list)
    bound: list[Var] = field(default_factory=list)
    known: set[Var] = field(default_factory=set)
    statements: list[Stmt] = field(default_factory=list)
    _dims: dict[tuple[Buffer, int], PrimExpr] = field(default_factory=dict)
    _tensors: dict[Buffer, tuple[PrimExpr, str]] = field(default_factory=dict)
    """The tensor that a buffer is, and how messages call it."""
    own: dict[Var, tuple[Buffer, int]] = field(default_factory=dict)
    """The dimensions that variables have their values from, all of it: there is nothing to compare."""

    def build(self) -> list[Stmt]:
        """The statements before the call of the body. Raises: UsageError T0501."""
        self.check_count(len(self.func.params))
        for index, param in enumerate(self.func.params):
            buffer = self.func.buffer_map.get(param)
            if buffer is None:
                where = f"{self.name}: argument {index} ({param.name!r})"
                self.check_scalar(index, param, where)
                self._bind_scalar(index, param)
            else:
                where = f"{self.name}: argument {index} ({buffer.name!r})"
                self._bind_tensor(index, buffer, where)
        for buffer in self._tensors:
            self._bind_dims(buffer)
        for buffer, (_tensor, where) in self._tensors.items():
            self.check_sizes(buffer, where)
            self.check_memory(buffer, where)
        return self.statements

    def check_count(self, expected: int) -> None:
        """There are as many arguments as parameters."""
        message = f"{self.name}: expected %e arguments, got %g"
        self._require(equal(self.num_args, expected), message, "TypeError", const(expected), self.num_args)

    def _require(
        self,
        condition: PrimExpr,
        message: str,
        kind: str = "ValueError",
        expected: PrimExpr | None = None,
        got: PrimExpr | None = None,
    ) -> None:
        if not is_const_int(condition, 1):
            self.statements.append(AssertStmt(condition, message, kind, expected, got))

    def _define(self, var: Var, value: PrimExpr) -> None:
        self.statements.append(Bind(var, value))
        self.known.add(var)

    def check_scalar(self, index: int, param: Var, where: str) -> None:
        """An argument that is no tensor has the kind of its parameter, and an integer fits."""
        kind, dtype = arg_kind(self.args, index), param.dtype
        whole = any(equal(kind, int(Kind.INT)), equal(kind, int(Kind.BOOL)))
        if dtype.is_int or dtype.is_bool:
            self._require(whole, f"{where}: expected an integer for {dtype}, got %k", "TypeError", None, kind)
            value = arg_value(self.args, index, "int64")
            if dtype.bits < 64:
                fits = equal(cast("int64", cast(dtype, value)), value)
                self._require(fits, f"{where}: %g does not fit {dtype}", "ValueError", None, value)
        elif dtype.is_float:
            number = any(equal(kind, int(Kind.FLOAT)), whole)
            self._require(number, f"{where}: expected a number for {dtype}, got %k", "TypeError", None, kind)
        else:
            pointer = any(equal(kind, int(Kind.POINTER)), equal(kind, int(Kind.NONE)))
            self._require(pointer, f"{where}: expected a pointer, got %k", "TypeError", None, kind)

    def _bind_scalar(self, index: int, param: Var) -> None:
        self.pointers_and_scalars.append(param)
        dtype, integer = param.dtype, arg_value(self.args, index, "int64")
        if dtype.is_int or dtype.is_bool:
            self._define(param, cast(dtype, integer))
        elif dtype.is_float:
            real = arg_value(self.args, index, "float64")
            is_real = equal(arg_kind(self.args, index), int(Kind.FLOAT))
            self._define(param, cast(dtype, if_then_else(is_real, real, cast("float64", integer))))
        else:
            self._define(param, arg_value(self.args, index, "handle"))

    def _bind_tensor(self, index: int, buffer: Buffer, where: str) -> None:
        self.check_kind(index, where)
        tensor = Var(f"{buffer.name}_tensor", _HANDLE)
        self.bind_tensor(tensor, arg_value(self.args, index, "handle"))
        self._tensors[buffer] = tensor, where
        self.check_header(index, buffer, tensor, where)
        self._define(buffer.data, tensor_begin(tensor))
        self.pointers_and_scalars.append(buffer.data)

    def bind_tensor(self, var: Var, value: PrimExpr) -> None:
        """The address of a tensor gets a name."""
        self._define(var, value)

    def check_kind(self, index: int, where: str) -> None:
        """An argument is a tensor."""
        kind = arg_kind(self.args, index)
        is_tensor = equal(kind, int(Kind.TENSOR))
        self._require(is_tensor, f"{where}: expected a tensor, got %k", "TypeError", None, kind)

    def check_header(self, index: int, buffer: Buffer, tensor: PrimExpr, where: str) -> None:
        """A tensor has the buffer's rank and dtype, and lies on the kernel's device."""
        rank, dtype = tensor_field(tensor, "ndim"), tensor_field(tensor, "dtype")
        device, expected = tensor_field(tensor, "device_type"), const(len(buffer.shape))
        self._require(
            equal(rank, expected), f"{where}: expected %e dimensions, got %g", "ValueError", expected, rank
        )
        wanted = const(packed_dtype(buffer.dtype))
        message = f"{where}: expected dtype {buffer.dtype}, got %t"
        self._require(equal(dtype, wanted), message, "TypeError", wanted, dtype)
        message = f"{where}: expected a tensor on device type %e, got %g"
        same = equal(device, self.device_type)
        self._require(same, message, "ValueError", const(self.device_type), device)

    def given_size(self, buffer: Buffer, position: int) -> PrimExpr:
        """A dimension as it is given."""
        known = self._dims.get((buffer, position))
        if known is None:
            tensor, _where = self._tensors[buffer]
            known = Var(f"{buffer.name}_dim{position}", DataType("int64"))
            self._define(known, tensor_field(tensor, "shape", position))
            self._dims[buffer, position] = known
        return known

    def _all_dims(self, buffer: Buffer) -> list[PrimExpr]:
        return [self.given_size(buffer, position) for position in range(len(buffer.shape))]

    def _bind_dims(self, buffer: Buffer) -> None:
        """Bind the variables that stand alone as a dimension, stride or offset for the first time."""
        tensor, _where = self._tensors[buffer]
        for position, dim in enumerate(buffer.shape):
            if isinstance(dim, Var) and dim not in self.known:
                self._bind(dim, self.given_size(buffer, position))
                if dim.dtype == "int64":
                    self.own[dim] = buffer, position
        for position, stride in enumerate(buffer.strides):
            if isinstance(stride, Var) and stride not in self.known:
                given = tensor_field(tensor, "strides", position)
                dense = _dense_stride(self._all_dims(buffer), position)
                self._bind(stride, if_then_else(tensor_has_strides(tensor), given, dense))
        if isinstance(buffer.elem_offset, Var) and buffer.elem_offset not in self.known:
            self._bind(buffer.elem_offset, const(0, "int64"))

    def _bind(self, var: Var, value: PrimExpr) -> None:
        self._define(var, cast(var.dtype, value))
        self.bound.append(var)

    def check_sizes(self, buffer: Buffer, where: str) -> None:
        """Dimensions are those of the buffer, as far as they are known."""
        for position, dim in enumerate(buffer.shape):
            if not isinstance(dim, Var) or self.own.get(dim) != (buffer, position):
                self._check_bound(dim, where)
                self.check_size(buffer, position, where)

    def check_size(self, buffer: Buffer, position: int, where: str) -> None:
        """One dimension is as large as the buffer says."""
        dim, given = buffer.shape[position], self.given_size(buffer, position)
        wanted = cast("int64", dim)
        message = f"{where}: expected dimension {position}{spelled_size(dim)} to be %e, got %g"
        self._require(equal(given, wanted), message, "ValueError", wanted, given)

    def check_memory(self, buffer: Buffer, where: str) -> None:
        """Strides and address are what the kernel takes, unless there are no elements."""
        empty = self.check_strides(buffer, where)
        size, address = buffer.dtype.element.itemsize, pointer_bits(buffer.data)
        self._require(any(empty, not_equal(address, const(0, "int64"))), f"{where}: the tensor has no data")
        if size > 1:
            rest = floormod(address, const(size, "int64"))
            aligned = any(equal(rest, const(0, "int64")), empty)
            message = f"{where}: expected data aligned to %e bytes, got an address %g bytes past that"
            self._require(aligned, message, "ValueError", const(size), rest)

    def _check_bound(self, expr: PrimExpr, where: str) -> None:
        for var in free_vars(expr):
            if var not in self.known:
                raise UsageError(
                    T0501,
                    f"{where}: {var.name!r} is no dimension by itself and no parameter",
                    help="add a parameter for it, or a tensor with it as a dimension",
                )

    def check_strides(self, buffer: Buffer, where: str) -> Var:
        """A tensor with a stride array has the declared strides; those of dimensions of extent 1 do not
        matter. The result is whether the tensor has no elements.
        """
        tensor, _where = self._tensors[buffer]
        dims, empty = self._all_dims(buffer), Var(f"{buffer.name}_empty", DataType("bool"))
        self._define(empty, any(*(equal(dim, const(0, "int64")) for dim in dims)))
        checks: list[Stmt] = []
        for position, dim in enumerate(dims):
            if buffer.strides:
                self._check_bound(buffer.strides[position], where)
                wanted = cast("int64", buffer.strides[position])
            else:
                wanted = _dense_stride(dims, position)
            given = tensor_field(tensor, "strides", position)
            holds = any(equal(given, wanted), equal(dim, const(1, "int64")), empty)
            dense = "" if buffer.strides else " (the kernel takes dense tensors)"
            message = f"{where}: expected stride {position} to be %e, got %g{dense}"
            checks.append(AssertStmt(holds, message, "ValueError", wanted, given))
        if checks:
            self.statements.append(IfThenElse(tensor_has_strides(tensor), seq(*checks)))
        return empty


def _dense_stride(dims: list[PrimExpr], position: int) -> PrimExpr:
    stride: PrimExpr = const(1, "int64")
    for dim in dims[position + 1 :]:
        stride = multiply(stride, dim)
    return stride


def spelled_size(dim: PrimExpr) -> str:
    """How a message names a dimension that is a variable."""
    return "" if isinstance(dim, IntImm) else f" ({dim.name})" if isinstance(dim, Var) else ""
