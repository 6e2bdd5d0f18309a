"""MakePackedAPI: a function over buffers → a checked entry with the kernels' calling convention, and a plain
body.

    def f(A: (n, 4) float32, k: int64): body

    →   def f.body(A_data, k, n): body
        def f(args, nargs):
            assert nargs == 2; assert args[0] is a tensor of float32 with 2 dimensions
            n = args[0].shape[0]; assert args[0].shape[1] == 4; ...
            return f.body(args[0].begin, args[1], n)

A symbolic dimension is bound where it is first seen alone; every other occurrence, also in expressions, is
compared. The body takes, in this order: a pointer or scalar for each parameter, then the bound variables in
order of binding. It may be called from other generated code and returns the status too.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from heddle.ir.expr import GlobalVar
from heddle.ir.module import IRModule
from heddle.ir.pass_options import option
from heddle.ir.transform import Pass, PassContext
from heddle.ir.visitor import walk
from heddle.prim.intrinsics import call_extern, ret
from heddle.prim.nodes import IntImm, PrimExpr, Var, is_const_int
from heddle.prim.ops import (
    any,
    cast,
    const,
    equal,
    floormod,
    if_then_else,
    multiply,
    not_equal,
)
from heddle.prim.substitute import free_vars
from heddle.runtime.device import DEVICE_TYPES
from heddle.runtime.dtype import DataType
from heddle.runtime.dtype_word import packed_dtype
from heddle.runtime.native.abi import Kind
from heddle.support.diagnostics import UsageError
from heddle.tir.codes import T0501, T0502
from heddle.tir.kernel_abi import (
    BODY_SUFFIX,
    CALLING_CONV,
    arg_kind,
    arg_value,
    pointer_bits,
    tensor_begin,
    tensor_field,
    tensor_has_strides,
)
from heddle.tir.nodes import (
    AssertStmt,
    Bind,
    Buffer,
    BufferLoad,
    BufferStore,
    DeclBuffer,
    Evaluate,
    IfThenElse,
    PrimFunc,
    Stmt,
    seq,
)

_HANDLE = DataType("handle")


@dataclass(frozen=True)
class MakePackedAPI(Pass):
    """`device_type` is the number of the device whose tensors the kernels take (1, the CPU)."""

    device_type: int = option(1, one_of=tuple(DEVICE_TYPES.values()))

    def transform(self, mod: IRModule, ctx: PassContext) -> IRModule:
        table = {}
        for var, func in mod.functions.items():
            if not isinstance(func, PrimFunc) or func.attrs.get(CALLING_CONV):
                table[var] = func
                continue
            name = str(func.attrs.get("global_symbol", var.name_hint))
            entry, body = split(func, name, self.device_type)
            table[var] = entry
            table[GlobalVar(name + BODY_SUFFIX)] = body
        return mod.with_functions(table)


def split(func: PrimFunc, name: str, device_type: int) -> tuple[PrimFunc, PrimFunc]:
    """The entry and the body of a function. Raises: UsageError T0501, T0502."""
    if func.ret_type is not None:
        raise UsageError(T0502, f"kernel {name!r} gives a value; kernels write their results to tensors")
    entry = _Entry(func, name, device_type)
    statements = entry.build()
    body_params = (*entry.pointers_and_scalars, *entry.bound)
    call = call_extern("int32", name + BODY_SUFFIX, *body_params)
    attrs = func.attrs.with_attr("global_symbol", name)
    packed = PrimFunc(
        (entry.args, entry.num_args),
        seq(*statements, Evaluate(ret(call))),
        attrs=attrs.with_attr(CALLING_CONV, "packed"),
        span=func.span,
    )
    inner = attrs.with_attr("global_symbol", name + BODY_SUFFIX).with_attr(CALLING_CONV, "body")
    return packed, PrimFunc(body_params, seq(*_views(func), func.body), attrs=inner, span=func.span)


def _views(func: PrimFunc) -> list[Stmt]:
    """Declarations of the parameter buffers that the body uses as they are, over the pointers that it
    gets."""
    used = {node.buffer for node in walk(func.body) if isinstance(node, (BufferLoad, BufferStore))}
    return [DeclBuffer(buffer) for buffer in func.buffers if buffer in used]


@dataclass
class _Entry:
    """Builds the checks of one function's arguments."""

    func: PrimFunc
    name: str
    device_type: int
    args: Var = field(default_factory=lambda: Var("args", _HANDLE))
    num_args: Var = field(default_factory=lambda: Var("num_args", DataType("int32")))
    pointers_and_scalars: list[Var] = field(default_factory=list)
    bound: list[Var] = field(default_factory=list)
    _known: set[Var] = field(default_factory=set)
    _checks: list[Stmt] = field(default_factory=list)
    _dims: dict[Buffer, list[PrimExpr]] = field(default_factory=dict)
    _own: set[tuple[Buffer, int]] = field(default_factory=set)
    """Dimensions that give a variable its value, all of it: there is nothing to compare."""

    def build(self) -> list[Stmt]:
        params = self.func.params
        self._require(
            equal(self.num_args, len(params)),
            f"{self.name}: expected %e arguments, got %g",
            "TypeError",
            const(len(params)),
            self.num_args,
        )
        tensors: list[tuple[Buffer, PrimExpr, str]] = []
        for index, param in enumerate(params):
            buffer = self.func.buffer_map.get(param)
            if buffer is None:
                self._scalar(index, param)
            else:
                tensors.append((buffer, *self._tensor(index, param, buffer)))
        for buffer, tensor, _where in tensors:
            self._bind_dims(buffer, tensor)
        for buffer, tensor, where in tensors:
            self._check_dims(buffer, tensor, where)
        return self._checks

    def _require(
        self,
        condition: PrimExpr,
        message: str,
        kind: str = "ValueError",
        expected: PrimExpr | None = None,
        got: PrimExpr | None = None,
    ) -> None:
        if not is_const_int(condition, 1):
            self._checks.append(AssertStmt(condition, message, kind, expected, got))

    def _define(self, var: Var, value: PrimExpr) -> None:
        self._checks.append(Bind(var, value))
        self._known.add(var)

    def _scalar(self, index: int, param: Var) -> None:
        where = f"{self.name}: argument {index} ({param.name!r})"
        kind, dtype = arg_kind(self.args, index), param.dtype
        self.pointers_and_scalars.append(param)
        whole = any(equal(kind, int(Kind.INT)), equal(kind, int(Kind.BOOL)))
        if dtype.is_int or dtype.is_bool:
            self._require(whole, f"{where}: expected an integer for {dtype}, got %k", "TypeError", None, kind)
            value = arg_value(self.args, index, "int64")
            if dtype.bits < 64:
                fits = equal(cast("int64", cast(dtype, value)), value)
                self._require(fits, f"{where}: %g does not fit {dtype}", "ValueError", None, value)
            self._define(param, cast(dtype, value))
        elif dtype.is_float:
            number = any(equal(kind, int(Kind.FLOAT)), whole)
            self._require(number, f"{where}: expected a number for {dtype}, got %k", "TypeError", None, kind)
            real, integer = arg_value(self.args, index, "float64"), arg_value(self.args, index, "int64")
            is_real = equal(kind, int(Kind.FLOAT))
            self._define(param, cast(dtype, if_then_else(is_real, real, cast("float64", integer))))
        else:
            pointer = any(equal(kind, int(Kind.POINTER)), equal(kind, int(Kind.NONE)))
            self._require(pointer, f"{where}: expected a pointer, got %k", "TypeError", None, kind)
            self._define(param, arg_value(self.args, index, "handle"))

    def _tensor(self, index: int, param: Var, buffer: Buffer) -> tuple[PrimExpr, str]:
        where = f"{self.name}: argument {index} ({buffer.name!r})"
        kind = arg_kind(self.args, index)
        is_tensor = equal(kind, int(Kind.TENSOR))
        self._require(is_tensor, f"{where}: expected a tensor, got %k", "TypeError", None, kind)
        tensor = Var(f"{buffer.name}_tensor", _HANDLE)
        self._define(tensor, arg_value(self.args, index, "handle"))
        rank, dtype = tensor_field(tensor, "ndim"), tensor_field(tensor, "dtype")
        device, expected = tensor_field(tensor, "device_type"), const(len(buffer.shape))
        self._require(
            equal(rank, expected), f"{where}: expected %e dimensions, got %g", "ValueError", expected, rank
        )
        wanted = const(packed_dtype(buffer.dtype))
        self._require(
            equal(dtype, wanted),
            f"{where}: expected dtype {buffer.dtype}, got %t",
            "TypeError",
            wanted,
            dtype,
        )
        self._require(
            equal(device, self.device_type),
            f"{where}: expected a tensor on device type %e, got %g",
            "ValueError",
            const(self.device_type),
            device,
        )
        self._define(buffer.data, tensor_begin(tensor))
        self.pointers_and_scalars.append(buffer.data)
        for position in range(len(buffer.shape)):
            dim = Var(f"{buffer.name}_dim{position}", DataType("int64"))
            self._define(dim, tensor_field(tensor, "shape", position))
            self._dims.setdefault(buffer, []).append(dim)
        return tensor, where

    def _bind_dims(self, buffer: Buffer, tensor: PrimExpr) -> None:
        """Bind the variables that stand alone as a dimension, stride or offset for the first time."""
        for position, dim in enumerate(buffer.shape):
            if isinstance(dim, Var) and dim not in self._known:
                self._bind(dim, self._dims[buffer][position])
                if dim.dtype == "int64":
                    self._own.add((buffer, position))
        for position, stride in enumerate(buffer.strides):
            if isinstance(stride, Var) and stride not in self._known:
                given = tensor_field(tensor, "strides", position)
                dense = _dense_stride(self._dims[buffer], position)
                self._bind(stride, if_then_else(tensor_has_strides(tensor), given, dense))
        if isinstance(buffer.elem_offset, Var) and buffer.elem_offset not in self._known:
            self._bind(buffer.elem_offset, const(0, "int64"))

    def _bind(self, var: Var, value: PrimExpr) -> None:
        self._define(var, cast(var.dtype, value))
        self.bound.append(var)

    def _check_dims(self, buffer: Buffer, tensor: PrimExpr, where: str) -> None:
        dims = self._dims.get(buffer, [])
        for position, dim in enumerate(buffer.shape):
            if (buffer, position) in self._own:
                continue
            self._check_bound(dim, where)
            given, wanted = dims[position], cast("int64", dim)
            self._require(
                equal(given, wanted),
                f"{where}: expected dimension {position}{_spelled(dim)} to be %e, got %g",
                "ValueError",
                wanted,
                given,
            )
        size, empty = buffer.dtype.element.itemsize, Var(f"{buffer.name}_empty", DataType("bool"))
        self._define(empty, any(*(equal(dim, const(0, "int64")) for dim in dims)))
        self._check_strides(buffer, tensor, empty, where)
        address = pointer_bits(buffer.data)
        self._require(any(empty, not_equal(address, const(0, "int64"))), f"{where}: the tensor has no data")
        if size > 1:
            rest = floormod(address, const(size, "int64"))
            aligned = any(equal(rest, const(0, "int64")), empty)
            message = f"{where}: expected data aligned to %e bytes, got an address %g bytes past that"
            self._require(aligned, message, "ValueError", const(size), rest)

    def _check_bound(self, expr: PrimExpr, where: str) -> None:
        for var in free_vars(expr):
            if var not in self._known:
                raise UsageError(
                    T0501,
                    f"{where}: {var.name!r} is no dimension by itself and no parameter",
                    help="add a parameter for it, or a tensor with it as a dimension",
                )

    def _check_strides(self, buffer: Buffer, tensor: PrimExpr, empty: PrimExpr, where: str) -> None:
        """A tensor with a stride array has the declared strides; those of dimensions of extent 1 do not
        matter.
        """
        if not buffer.shape:
            return
        dims, checks = self._dims[buffer], []
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
        self._checks.append(IfThenElse(tensor_has_strides(tensor), seq(*checks)))


def _dense_stride(dims: list[PrimExpr], position: int) -> PrimExpr:
    stride: PrimExpr = const(1, "int64")
    for dim in dims[position + 1 :]:
        stride = multiply(stride, dim)
    return stride


def _spelled(dim: PrimExpr) -> str:
    return "" if isinstance(dim, IntImm) else f" ({dim.name})" if isinstance(dim, Var) else ""
