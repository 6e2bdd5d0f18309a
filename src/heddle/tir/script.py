"""The namespace `T` of scripts: the keywords of the loop IR, and all scalar functions.

`T.float32(1.5)` is a constant, `n = T.int64(is_size_var=True)` a variable, `T.float32` an annotation. Import
it as a module: `from heddle.script import tir as T`. Keywords that are only meaningful inside a parsed
function return frames (`tir.frames`), which the parser interprets.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from heddle.ir.expr import StringImm
from heddle.prim.intrinsics import (
    abs,
    acos,
    acosh,
    asin,
    asinh,
    atan,
    atan2,
    atanh,
    call_extern,
    call_llvm_intrin,
    call_llvm_pure_intrin,
    call_packed,
    call_pure_extern,
    ceil,
    copysign,
    cos,
    cosh,
    erf,
    exp,
    exp2,
    exp10,
    fabs,
    floor,
    fma,
    fmaximum,
    fminimum,
    fmod,
    hypot,
    isfinite,
    isinf,
    isnan,
    likely,
    log,
    log1p,
    log2,
    log10,
    nearbyint,
    nextafter,
    popcount,
    pow,
    power,
    reinterpret,
    ret,
    round,
    rsqrt,
    sigmoid,
    sin,
    sinh,
    sqrt,
    tan,
    tanh,
    trunc,
)
from heddle.prim.nodes import (
    EQ,
    GE,
    GT,
    LE,
    LT,
    NE,
    Add,
    And,
    Broadcast,
    Cast,
    Div,
    FloorDiv,
    FloorMod,
    Max,
    Min,
    Mod,
    Mul,
    Not,
    Or,
    PrimExpr,
    Ramp,
    Range,
    Shuffle,
    Sub,
    Var,
    as_expr,
    constant,
)
from heddle.prim.nodes import (
    Let as _LetNode,
)
from heddle.prim.nodes import (
    Select as _SelectNode,
)
from heddle.prim.ops import (
    all,
    any,
    bitwise_and,
    bitwise_not,
    bitwise_or,
    bitwise_xor,
    call_intrin,
    ceildiv,
    div,
    floordiv,
    floormod,
    if_then_else,
    infinity,
    match_types,
    max_value,
    min_value,
    shift_left,
    shift_right,
    truncdiv,
    truncmod,
)
from heddle.prim.ops import (
    cast as _cast,
)
from heddle.prim.ops import (
    maximum as max,
)
from heddle.prim.ops import (
    minimum as min,
)
from heddle.runtime.dtype import SCALAR_NAMES, DataType
from heddle.tir.frames import (
    AttrFrame,
    Axis,
    AxisRemap,
    BindValue,
    BlockAttrs,
    BufferSpec,
    FuncAttrs,
    HandleType,
    InitFrame,
    LoopFrame,
    Reads,
    SBlockFrame,
    Where,
    Writes,
)
from heddle.tir.nodes import AssertStmt, Evaluate, ForKind, IterType

broadcast, ramp = Broadcast, Ramp


def Select(condition: Any, true_value: Any, false_value: Any) -> PrimExpr:
    """Return one of two values; both are evaluated. Numbers become constants."""
    return _SelectNode(as_expr(condition), *match_types(true_value, false_value))


def cast(value: Any, dtype: Any) -> PrimExpr:
    """Cast `value` to another dtype. The dtype may also come first, as in `T.Cast`."""
    if isinstance(value, (str, DataType)):
        value, dtype = dtype, value
    return _cast(str(dtype), value)


class ScalarType:
    """`T.float32`: an annotation, a maker of constants and of variables."""

    def __init__(self, dtype: str) -> None:
        self.dtype = DataType(dtype)

    def __call__(self, value: Any = None, is_size_var: bool = False) -> PrimExpr:
        if value is None:
            return Var("v", self.dtype, None, is_size_var)
        if isinstance(value, PrimExpr):
            return _cast(str(self.dtype), value)
        return constant(float(value) if isinstance(value, str) else value, self.dtype)

    def __repr__(self) -> str:
        return f"T.{self.dtype}"


is_script_namespace = True
handle = HandleType()
SCALAR_TYPES = {name: ScalarType(name) for name in SCALAR_NAMES if name != "handle"}


def __getattr__(name: str) -> Any:
    """Scalar and vector types by name: `T.float32`, `T.int8x16`."""
    if name in SCALAR_TYPES:
        return SCALAR_TYPES[name]
    if name.rstrip("0123456789").endswith("x") and name.split("x")[0] in SCALAR_TYPES:
        return SCALAR_TYPES.setdefault(name, ScalarType(name))
    raise AttributeError(f"T has no attribute {name!r}")


def dtype(name: str) -> DataType:
    """An element type by its name."""
    return DataType(name)


class axis:
    """Iteration variables of a block."""

    is_script_namespace = True

    @staticmethod
    def spatial(dom: Any, value: Any) -> Axis:
        """A spatial axis: an axis of the block's result."""
        return Axis(IterType.DataPar, dom, value)

    @staticmethod
    def reduce(dom: Any, value: Any) -> Axis:
        """A reduction axis."""
        return Axis(IterType.CommReduce, dom, value)

    @staticmethod
    def scan(dom: Any, value: Any) -> Axis:
        """An axis whose values must be visited in order."""
        return Axis(IterType.Ordered, dom, value)

    @staticmethod
    def opaque(dom: Any, value: Any) -> Axis:
        """An axis without known properties."""
        return Axis(IterType.Opaque, dom, value)

    @staticmethod
    def thread(dom: Any, value: Any) -> Axis:
        """An axis that is bound to threads."""
        return Axis(IterType.ThreadIndex, dom, value)

    @staticmethod
    def remap(kinds: str, values: Any) -> AxisRemap:
        """Several axes, one per loop: `T.axis.remap("SSR", [i, j, k])`, S for spatial, R for reduction."""
        return AxisRemap(kinds, tuple(values))

    S, R = spatial, reduce


def extent_between(start: Any, stop: Any) -> PrimExpr:
    """stop - start; a stop written as `start + e` gives back e."""
    return Range(*match_types(start, stop)).extent


def _loop(kind: ForKind) -> Callable[..., LoopFrame]:
    def build(
        start: Any, stop: Any = None, *, thread: str | None = None, annotations: Any = None
    ) -> LoopFrame:
        bounds = (0, start) if stop is None else (start, extent_between(start, stop))
        return LoopFrame((bounds,), kind, thread, dict(annotations or {}))

    build.__doc__ = f"A loop of kind {kind.name}: one bound for [0, n), two for [start, stop)."
    return build


serial, parallel, vectorized = map(_loop, (ForKind.SERIAL, ForKind.PARALLEL, ForKind.VECTORIZED))
unroll, thread_binding = map(_loop, (ForKind.UNROLLED, ForKind.THREAD_BINDING))


def grid(*extents: Any) -> LoopFrame:
    """Serial loops, the first outermost."""
    return LoopFrame(tuple((0, extent) for extent in extents))


def _buffer_word(role: str) -> Callable[..., BufferSpec]:
    def build(
        shape: Any,
        dtype: str = "float32",
        data: Any = None,
        strides: Any = (),
        elem_offset: Any = None,
        scope: str = "global",
        align: int = 64,
        annotations: Any = None,
    ) -> BufferSpec:
        return BufferSpec(
            role, shape, dtype, None, data, strides or (), elem_offset, scope, align, dict(annotations or {})
        )

    build.__doc__ = f"A buffer in the role {role!r}."
    return build


Buffer, alloc_buffer, sblock_alloc_buffer, decl_buffer = map(
    _buffer_word, ("param", "alloc", "sblock", "decl")
)


def match_buffer(source: Any, shape: Any, dtype: str = "float32", **options: Any) -> BufferSpec:
    """Bind a buffer to a parameter handle, or to a region inside a block."""
    spec = Buffer(shape, dtype, **options)
    return BufferSpec(
        "match", spec.shape, spec.dtype, source, None, spec.strides, spec.elem_offset, spec.scope, spec.align
    )


def sblock(name: str = "", no_realize: bool = False) -> SBlockFrame:
    """Open a block: `with T.sblock("name"):`."""
    return SBlockFrame(name, no_realize)


block = sblock


def init() -> InitFrame:
    """Open the initialisation of a reduction: `with T.init():`."""
    return InitFrame()


def reads(*regions: Any) -> Reads:
    """State the regions that a block reads."""
    return Reads(tuple(regions))


def writes(*regions: Any) -> Writes:
    """State the regions that a block writes."""
    return Writes(tuple(regions))


def where(predicate: Any) -> Where:
    """State the condition under which a block runs."""
    return Where(predicate)


def sblock_attr(values: dict[str, Any]) -> BlockAttrs:
    """Set attributes of a block."""
    return BlockAttrs(values)


block_attr = sblock_attr


def func_attr(values: dict[str, Any]) -> FuncAttrs:
    """Set attributes of the function."""
    return FuncAttrs(values)


def attr(node: Any, key: str, value: Any) -> AttrFrame:
    """Set an attribute for the statements inside: `with T.attr(node, "key", value):`."""
    return AttrFrame(node, key, StringImm(value) if isinstance(value, str) else as_expr(value))


def bind(value: Any) -> BindValue:
    """Bind a value to a variable: `x: T.int32 = T.bind(value)`."""
    return BindValue(value)


let = bind


def evaluate(value: Any) -> Evaluate:
    """Compute a value and discard it."""
    return Evaluate(as_expr(value))


def assert_(
    condition: Any, message: str, error_kind: str = "RuntimeError", expected: Any = None, got: Any = None
) -> AssertStmt:
    """Check a condition at run time. If it does not hold, an error of `error_kind` with the message is
    raised."""
    values = [None if value is None else as_expr(value) for value in (expected, got)]
    return AssertStmt(as_expr(condition), message, error_kind, *values)


def Let(body: PrimExpr, where: dict[Var, Any]) -> PrimExpr:
    """Bind variables in an expression, the first one outermost."""
    for var, value in reversed(where.items()):
        body = _LetNode(var, as_expr(value), body)
    return body


def var(dtype: str, name: str = "v") -> Var:
    """A variable."""
    return Var(name, DataType(dtype))
