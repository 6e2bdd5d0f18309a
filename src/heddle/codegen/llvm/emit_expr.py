"""Scalar and vector expressions as LLVM instructions. `emit` gives an operand without its type.

Semantics: a product that is an operand of a sum or a difference (of float32 or float64) is emitted with it
as `llvm.fmuladd`: it rounds once where the target has such an instruction, and twice where it has none. LLVM
itself may not join a product and a sum (no flag `contract`): it would do so in some copies of a loop's body
and not in others, and bits would depend on which rows a thread takes. For the same reason it may not reorder
sums. Integer arithmetic wraps; inside indices and loop bounds it carries `nsw` (index arithmetic does
not overflow). Integers divided by zero give 0. Floats become integers as `prim.values.convert` says.

A division whose divisor is not constant may trap, so LLVM does not move it out from under a condition. Its
loop vectorizer (LLVM 22) then computes a quotient that is the same in all lanes for the first lane alone, and
only if that lane meets the condition: the other lanes get garbage. Loops with such divisions are therefore
marked not to be vectorized; divisions that were made before the condition are used again.

Over 450 lines: one class, with a method for each node.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from heddle.codegen.codes import G0101
from heddle.codegen.expressions import (
    does_not_overflow,
    fits_without_saturation,
    is_speculatable,
    plain_int,
    product_in_sum,
)
from heddle.codegen.llvm.divisors import Divisors
from heddle.codegen.llvm.types import (
    element_type,
    float_constant,
    int_constant,
    register_type,
    splat,
    vector_constant,
)
from heddle.codegen.llvm.writer import FunctionWriter, ModuleWriter
from heddle.ir.visitor import Dispatch
from heddle.prim.nodes import (
    EQ,
    GE,
    GT,
    LE,
    LT,
    NE,
    Add,
    And,
    ArithExpr,
    BinaryExpr,
    Broadcast,
    Call,
    Cast,
    CompareExpr,
    Div,
    FloatImm,
    FloorDiv,
    FloorMod,
    IntImm,
    Let,
    Max,
    Min,
    Mod,
    Mul,
    Not,
    Or,
    PrimExpr,
    Ramp,
    Select,
    Shuffle,
    Sub,
    Var,
)
from heddle.prim.values import int_range
from heddle.runtime.dtype import DataType
from heddle.support.diagnostics import UsageError

_FLOAT_OPS: dict[type, str] = {Add: "fadd", Sub: "fsub", Mul: "fmul", Div: "fdiv"}
_INT_OPS: dict[type, str] = {Add: "add", Sub: "sub", Mul: "mul"}
_FLOAT_COMPARES: dict[type, str] = {EQ: "oeq", NE: "une", LT: "olt", LE: "ole", GT: "ogt", GE: "oge"}
_INT_COMPARES: dict[type, str] = {EQ: "eq", NE: "ne", LT: "lt", LE: "le", GT: "gt", GE: "ge"}


@dataclass(slots=True)
class OpenLoop:
    """A loop under way: its variable where it has one, and whether it divides integers by what is no
    constant."""

    var: Var | None = None
    divides: bool = False


class ExprEmitter(Dispatch):
    """Emits into `out`. `env` maps variables to operands; `nonnegative` holds variables known not to be
    negative.
    """

    def __init__(self, module: ModuleWriter, out: FunctionWriter) -> None:
        self.module, self.out = module, out
        self.env: dict[Any, str] = {}
        self.nonnegative: set[Any] = set()
        self.divisors = Divisors(self.is_nonnegative)
        self._in_index = False
        self._quotients: dict[tuple[str, str], str] = {}
        self.num_conditions = 0
        self._loops: list[OpenLoop] = []

    def emit(self, expr: Any) -> str:
        """The operand that holds a value. Raises: UsageError G0101 for a call that has none."""
        result = self.emit_effect(expr)
        if not result:
            raise UsageError(G0101, f"{expr} has no value: it stands alone, as a statement", span=expr.span)
        return result

    def emit_effect(self, expr: Any) -> str:
        """The same for what stands alone; empty for a call that has no value."""
        result: str = self._method(type(expr))(self, expr)
        return result

    def typed(self, expr: PrimExpr) -> str:
        """The operand that holds a value, with its type: `float %v3`."""
        operand = self.emit(expr)
        return f"{register_type(expr.dtype)} {operand}"

    def emit_index(self, expr: PrimExpr) -> str:
        """An index or bound, whose arithmetic does not overflow."""
        with self._index_arithmetic():
            return self.emit(expr)

    @contextmanager
    def _index_arithmetic(self) -> Iterator[None]:
        before, self._in_index = self._in_index, True
        try:
            yield
        finally:
            self._in_index = before

    @contextmanager
    def value_arithmetic(self) -> Iterator[None]:
        """Arithmetic that wraps, inside an index too."""
        before, self._in_index = self._in_index, False
        try:
            yield
        finally:
            self._in_index = before

    @contextmanager
    def conditional(self) -> Iterator[None]:
        """Code that a condition may pass over."""
        known, self._quotients = self._quotients, dict(self._quotients)
        self.num_conditions += 1
        try:
            yield
        finally:
            self._quotients = known
            self.num_conditions -= 1

    @contextmanager
    def open_loop(self, var: Var | None = None) -> Iterator[OpenLoop]:
        """The body of a loop over `var`."""
        known, self._quotients = self._quotients, dict(self._quotients)
        self._loops.append(OpenLoop(var))
        try:
            yield self._loops[-1]
        finally:
            self._quotients = known
            self._loops.pop()

    @property
    def innermost(self) -> Var | None:
        """The variable of the innermost loop."""
        return self._loops[-1].var if self._loops else None

    def default(self, node: Any) -> str:
        """Raises: UsageError G0101 for a node that has no machine form."""
        raise UsageError(G0101, f"{type(node).__name__} has no machine form: {node}", span=node.span)

    def visit_Var(self, node: Var) -> str:
        if node not in self.env:
            raise UsageError(G0101, f"variable {node.name!r} has no value here", span=node.span)
        return self.env[node]

    def visit_IntImm(self, node: IntImm) -> str:
        if node.dtype.is_handle:
            return "null" if node.value == 0 else f"inttoptr (i64 {node.value} to ptr)"
        return int_constant(node.value, node.dtype)

    def visit_FloatImm(self, node: FloatImm) -> str:
        return float_constant(node.value, node.dtype)

    def visit_Broadcast(self, node: Broadcast) -> str:
        if isinstance(node.value, (IntImm, FloatImm)):
            return splat(element_type(node.value.dtype), self.emit(node.value), node.lanes)
        return self.splat(self.emit(node.value), node.value.dtype, node.lanes)

    def splat(self, operand: str, dtype: DataType, lanes: int) -> str:
        """A scalar operand in all lanes."""
        vector = f"<{lanes} x {element_type(dtype)}>"
        first = self.out.value(f"insertelement {vector} poison, {element_type(dtype)} {operand}, i64 0")
        return self.out.value(
            f"shufflevector {vector} {first}, {vector} poison, <{lanes} x i32> zeroinitializer"
        )

    def visit_Ramp(self, node: Ramp) -> str:
        base, stride, element = node.base, node.stride, element_type(node.base.dtype)
        if isinstance(stride, IntImm):
            offsets = [str(stride.value * lane) for lane in range(node.lanes)]
            if isinstance(base, IntImm):
                values = [str(base.value + stride.value * lane) for lane in range(node.lanes)]
                return vector_constant(element, values)
            steps = vector_constant(element, offsets)
        else:
            lanes = vector_constant(element, [str(lane) for lane in range(node.lanes)])
            spread = self.splat(self.emit(stride), stride.dtype, node.lanes)
            steps = self.out.value(f"mul <{node.lanes} x {element}> {spread}, {lanes}")
        spread = self.splat(self.emit(base), base.dtype, node.lanes)
        return self.out.value(f"add <{node.lanes} x {element}> {spread}, {steps}")

    def visit_Shuffle(self, node: Shuffle) -> str:
        first = node.vectors[0].dtype
        element = element_type(first.element)
        widths = {vector.dtype.lanes for vector in node.vectors}
        if len(node.vectors) <= 2 and len(node.indices) > 1 and len(widths) == 1 and widths != {1}:
            ty, order = register_type(first), ", ".join(f"i32 {index}" for index in node.indices)
            operands = [self.emit(vector) for vector in node.vectors]
            second = operands[1] if len(operands) == 2 else "poison"
            return self.out.value(
                f"shufflevector {ty} {operands[0]}, {ty} {second}, <{len(node.indices)} x i32> <{order}>"
            )
        lanes: list[str] = []
        for vector in node.vectors:
            operand, ty = self.emit(vector), register_type(vector.dtype)
            if vector.dtype.lanes == 1:
                lanes.append(operand)
                continue
            wanted = {index - len(lanes) for index in node.indices}
            lanes += [
                self.out.value(f"extractelement {ty} {operand}, i64 {lane}") if lane in wanted else "poison"
                for lane in range(vector.dtype.lanes)
            ]
        picked = [lanes[index] for index in node.indices]
        if len(picked) == 1:
            return picked[0]
        result, vector_ty = "poison", f"<{len(picked)} x {element}>"
        for lane, operand in enumerate(picked):
            result = self.out.value(f"insertelement {vector_ty} {result}, {element} {operand}, i64 {lane}")
        return result

    def visit_Let(self, node: Let) -> str:
        self.env[node.var] = self.emit(node.value)
        self.note_sign(node.var, node.value)
        return self.emit(node.body)

    def visit_Select(self, node: Select) -> str:
        condition, on_true, on_false = (
            self.typed(node.condition),
            self.typed(node.true_value),
            self.typed(node.false_value),
        )
        return self.out.value(f"select {condition}, {on_true}, {on_false}")

    def visit_Not(self, node: Not) -> str:
        return self.out.value(f"xor {self.typed(node.a)}, {splat('i1', 'true', node.dtype.lanes)}")

    # ---- arithmetic

    def visit_ArithExpr(self, node: ArithExpr) -> str:
        if (parts := product_in_sum(node)) is not None:
            return self._multiply_add(node, *parts)
        a, b = self.emit(node.a), self.emit(node.b)
        kind, dtype, ty = type(node), node.dtype, register_type(node.dtype)
        if kind in (Min, Max):
            return self.min_max(kind, a, b, dtype)
        if dtype.code == "float" and kind in _FLOAT_OPS:
            return self.out.value(f"{_FLOAT_OPS[kind]} {ty} {a}, {b}")
        if not (dtype.is_int or dtype.is_bool):
            return self.default(node)
        if kind in _INT_OPS:
            wrap = " nsw" if does_not_overflow(dtype, self._in_index) else ""
            return self.out.value(f"{_INT_OPS[kind]}{wrap} {ty} {a}, {b}")
        return self._divide(node, a, b, ty)

    def _multiply_add(self, node: ArithExpr, product: Mul, other: PrimExpr) -> str:
        """product + other, product - other, or other - product. The operands are emitted in that order."""
        ty = register_type(node.dtype)
        product_first = product is node.a
        first = [self.emit(product.a), self.emit(product.b)] if product_first else []
        c = self.emit(other)
        a, b = first or [self.emit(product.a), self.emit(product.b)]
        if isinstance(node, Sub):
            if product_first:
                c = self.out.value(f"fneg {ty} {c}")
            else:
                a = self.out.value(f"fneg {ty} {a}")
        return self.call_intrinsic("fmuladd", ty, [a, b, c])

    def call_intrinsic(self, name: str, ty: str, operands: list[str]) -> str:
        """An `llvm.NAME` intrinsic over operands of one type."""
        return self.call_overloaded(f"llvm.{name}.{mangle(ty)}", ty, [(ty, operand) for operand in operands])

    def call_overloaded(self, name: str, result: str, operands: list[tuple[str, str]]) -> str:
        """Call an intrinsic by its full name. `operands` come with their types, the types first."""
        callee = self.module.declare(name, result, [ty for ty, _ in operands])
        return self.out.value(
            f"call {result} {callee}({', '.join(f'{ty} {value}' for ty, value in operands)})"
        )

    def min_max(self, kind: type, a: str, b: str, dtype: DataType) -> str:
        """min(a, b) = a < b ? a : b, which is what vminps does with NaN."""
        less = self.compare(LT if kind is Min else GT, a, b, dtype)
        ty = register_type(dtype)
        bools = register_type(DataType("bool").with_lanes(dtype.lanes))
        return self.out.value(f"select {bools} {less}, {ty} {a}, {ty} {b}")

    def _divide(self, node: ArithExpr, a: str, b: str, ty: str) -> str:
        kind = type(node)
        divisor = plain_int(node.b)
        positive = self.is_nonnegative(node.a) and self.is_nonnegative(node.b)
        power = divisor.value.bit_length() - 1 if divisor is not None and divisor.value > 0 else -1
        is_power = divisor is not None and divisor.value > 0 and divisor.value == 1 << power
        unsigned = not node.dtype.is_signed or positive
        lanes, element = node.dtype.lanes, element_type(node.dtype.element)
        if is_power and (unsigned or kind in (FloorDiv, FloorMod)):
            if kind in (Div, FloorDiv):
                return self.out.value(
                    f"{'lshr' if unsigned else 'ashr'} {ty} {a}, {splat(element, str(power), lanes)}"
                )
            return self.out.value(f"and {ty} {a}, {splat(element, str((1 << power) - 1), lanes)}")
        if not self.divisors.may_be_zero(node.b, self._in_index):
            return self._nonzero_divide(node, a, b, ty, unsigned)
        bools = register_type(DataType("bool").with_lanes(lanes))
        is_zero = self.out.value(f"icmp eq {ty} {b}, {splat(element, '0', lanes)}")
        safe = self.out.value(f"select {bools} {is_zero}, {ty} {splat(element, '1', lanes)}, {ty} {b}")
        result = self._nonzero_divide(node, a, safe, ty, unsigned)
        return self.out.value(f"select {bools} {is_zero}, {ty} {splat(element, '0', lanes)}, {ty} {result}")

    def _nonzero_divide(self, node: ArithExpr, a: str, b: str, ty: str, unsigned: bool) -> str:
        kind = type(node)
        if unsigned:
            return self._quotient("udiv" if kind in (Div, FloorDiv) else "urem", ty, a, b, plain_int(node.b))
        if kind in (Div, Mod):
            return self._signed("sdiv" if kind is Div else "srem", node, a, b, ty)
        return self._floor_divide(node, a, b, ty)

    def _quotient(self, op: str, ty: str, a: str, b: str, divisor: IntImm | None) -> str:
        """A division; the earlier one where the same was divided on every way here."""
        key = op, f"{ty} {a}, {b}"
        if key not in self._quotients:
            self._quotients[key] = self.out.value(f"{op} {key[1]}")
            for loop in self._loops if divisor is None else ():
                loop.divides = True
        return self._quotients[key]

    def _signed(self, op: str, node: ArithExpr, a: str, b: str, ty: str) -> str:
        """A signed division that rounds to zero. The least integer divided by -1 wraps, where processors
        would stop the program; divisors in indices are not -1 unless they are constants.
        """
        divisor, element, lanes = plain_int(node.b), element_type(node.dtype.element), node.dtype.lanes
        if divisor is not None and divisor.value == -1:
            zero = splat(element, "0", lanes)
            return zero if op == "srem" else self.out.value(f"sub {ty} {zero}, {a}")
        if self._in_index or divisor is not None:
            return self._quotient(op, ty, a, b, divisor)
        bools = register_type(DataType("bool").with_lanes(lanes))
        negates = self.out.value(f"icmp eq {ty} {b}, {splat(element, '-1', lanes)}")
        safe = self.out.value(f"select {bools} {negates}, {ty} {splat(element, '1', lanes)}, {ty} {b}")
        result = self._quotient(op, ty, a, safe, divisor)
        if op == "srem":
            return result
        negative = self.out.value(f"sub {ty} {splat(element, '0', lanes)}, {a}")
        return self.out.value(f"select {bools} {negates}, {ty} {negative}, {ty} {result}")

    def _floor_divide(self, node: ArithExpr, a: str, b: str, ty: str) -> str:
        """floordiv = sdiv - fix and floormod = srem + fix * b, fix being: remainder nonzero and of other sign
        than b.
        """
        kind, dtype = type(node), node.dtype
        zero = splat(element_type(dtype.element), "0", dtype.lanes)
        bools = register_type(DataType("bool").with_lanes(dtype.lanes))
        remainder = self._signed("srem", node, a, b, ty)
        nonzero = self.out.value(f"icmp ne {ty} {remainder}, {zero}")
        signs = self.out.value(f"xor {ty} {remainder}, {b}")
        differ = self.out.value(f"icmp slt {ty} {signs}, {zero}")
        fix = self.out.value(f"and {bools} {nonzero}, {differ}")
        if kind is FloorMod:
            moved = self.out.value(f"add {ty} {remainder}, {b}")
            return self.out.value(f"select {bools} {fix}, {ty} {moved}, {ty} {remainder}")
        quotient = self._signed("sdiv", node, a, b, ty)
        return self.out.value(f"add {ty} {quotient}, {self.out.value(f'sext {bools} {fix} to {ty}')}")

    # ---- comparison and logic

    def visit_CompareExpr(self, node: CompareExpr) -> str:
        a, b = self.emit(node.a), self.emit(node.b)
        return self.compare(type(node), a, b, node.a.dtype)

    def compare(self, kind: type, a: str, b: str, dtype: DataType) -> str:
        """The i1 of a comparison, in each lane. With NaN only NE holds."""
        ty = register_type(dtype)
        if dtype.code == "float":
            return self.out.value(f"fcmp {_FLOAT_COMPARES[kind]} {ty} {a}, {b}")
        name = _INT_COMPARES[kind]
        if name not in ("eq", "ne"):
            name = ("s" if dtype.is_signed else "u") + name
        return self.out.value(f"icmp {name} {ty} {a}, {b}")

    def visit_And(self, node: And) -> str:
        return self._logic(node, "and", stop_on="false")

    def visit_Or(self, node: Or) -> str:
        return self._logic(node, "or", stop_on="true")

    def _logic(self, node: BinaryExpr, op: str, stop_on: str) -> str:
        """Both sides at once where the second is safe to evaluate, else only if the first leaves it open."""
        a, ty = self.emit(node.a), register_type(node.dtype)
        if node.dtype.lanes > 1 or is_speculatable(node.b):
            return self.out.value(f"{op} {ty} {a}, {self.emit(node.b)}")
        more, end, before = self.out.label("logic"), self.out.label("logic_end"), self.out.block
        self.out.branch(a, *((more, end) if op == "and" else (end, more)))
        self.out.start(more)
        with self.conditional():
            b = self.emit(node.b)
        last = self.out.block
        self.out.start(end)
        return self.out.value(f"phi i1 [ {stop_on}, %{before} ], [ {b}, %{last} ]")

    def if_then_else(self, node: Call) -> str:
        condition, on_true, on_false = node.args
        assert isinstance(condition, PrimExpr)
        assert isinstance(on_true, PrimExpr)
        assert isinstance(on_false, PrimExpr)
        if condition.dtype.lanes > 1 or (is_speculatable(on_true) and is_speculatable(on_false)):
            parts = [self.typed(condition), self.typed(on_true), self.typed(on_false)]
            return self.out.value(f"select {', '.join(parts)}")
        yes, no, end = self.out.label("then"), self.out.label("else"), self.out.label("chosen")
        self.out.branch(self.emit(condition), yes, no)
        ends = []
        for label, value in ((yes, on_true), (no, on_false)):
            self.out.start(label)
            with self.conditional():
                operand = self.emit(value)
            ends.append(f"[ {operand}, %{self.out.block} ]")
            self.out.terminate(f"br label %{end}")
        self.out.start(end)
        return self.out.value(f"phi {register_type(node.dtype)} {', '.join(ends)}")

    # ---- conversion

    def visit_Cast(self, node: Cast) -> str:
        value, source, target = self.emit(node.value), node.value.dtype, node.dtype
        if source.code == "float" and target.is_int and fits_without_saturation(node.value, target.element):
            return self._unless_nan(value, source, self._whole(value, source, target), target)
        return self.convert(value, source, target)

    def _saturated(self, value: str, source: DataType, target: DataType) -> str:
        """A float's whole part; the range's ends for what lies outside it, 0 for NaN.

        LLVM has an intrinsic for this, but on x86 takes it lane by lane.
        """
        if source.bits == 16:
            wide = DataType("float32").with_lanes(source.lanes)
            return self._saturated(self.convert(value, source, wide), wide, target)
        low, high = int_range(target.element)
        least, most = (
            splat(element_type(source.element), float_constant(end, source.element), source.lanes)
            for end in (low, high)
        )
        inside = self.min_max(Max, value, least, source)
        is_exact = int(float(source.element.numpy().type(high))) == high
        if is_exact:
            inside = self.min_max(Min, inside, most, source)
        whole = self._whole(inside, source, target)
        if not is_exact:
            ty = register_type(target)
            bools = register_type(DataType("bool").with_lanes(source.lanes))
            is_above = self.compare(GE, value, most, source)
            greatest = splat(element_type(target.element), str(high), target.lanes)
            whole = self.out.value(f"select {bools} {is_above}, {ty} {greatest}, {ty} {whole}")
        return whole if target.is_unsigned else self._unless_nan(value, source, whole, target)

    def _whole(self, value: str, source: DataType, target: DataType) -> str:
        op = "fptosi" if target.is_signed else "fptoui"
        return self.out.value(f"{op} {register_type(source)} {value} to {register_type(target)}")

    def _unless_nan(self, value: str, source: DataType, whole: str, target: DataType) -> str:
        """0 where the float is NaN."""
        ty, bools = register_type(target), register_type(DataType("bool").with_lanes(source.lanes))
        is_number = self.out.value(f"fcmp ord {register_type(source)} {value}, {value}")
        return self.out.value(f"select {bools} {is_number}, {ty} {whole}, {ty} zeroinitializer")

    def convert(self, value: str, source: DataType, target: DataType) -> str:
        from_ty, to_ty = register_type(source), register_type(target)
        if target.is_bool:
            return self._to_bool(value, source)
        if target.code == "bfloat":
            return self._to_bfloat(value, source, target)
        if source.code == "bfloat":
            wide = self._from_bfloat(value, source)
            return self.convert(wide, DataType("float32").with_lanes(source.lanes), target)
        if source.is_handle or target.is_handle:
            if source == target:
                return value
            return self.out.value(
                f"{'ptrtoint' if source.is_handle else 'inttoptr'} {from_ty} {value} to {to_ty}"
            )
        if source.is_small_float or target.is_small_float:
            raise UsageError(
                G0101, f"conversion from {source} to {target} has no machine form yet; cast through a lookup"
            )
        if source.code == "float" and target.is_int:
            return self._saturated(value, source, target)
        op = _conversion(source, target)
        return value if op is None else self.out.value(f"{op} {from_ty} {value} to {to_ty}")

    def _to_bool(self, value: str, source: DataType) -> str:
        if source.is_bool:
            return value
        if source.code == "bfloat":
            value, source = self._from_bfloat(value, source), DataType("float32").with_lanes(source.lanes)
        if source.is_float:
            return self.compare(
                NE,
                value,
                splat(element_type(source.element), float_constant(0.0, source.element), source.lanes),
                source,
            )
        if source.is_handle:
            return self.out.value(f"icmp ne ptr {value}, null")
        return self.compare(NE, value, splat(element_type(source.element), "0", source.lanes), source)

    def _from_bfloat(self, value: str, source: DataType) -> str:
        bits, halves = register_type(DataType("int32").with_lanes(source.lanes)), register_type(source)
        wide = self.out.value(f"zext {halves} {value} to {bits}")
        moved = self.out.value(f"shl {bits} {wide}, {splat('i32', '16', source.lanes)}")
        return self.out.value(
            f"bitcast {bits} {moved} to {register_type(DataType('float32').with_lanes(source.lanes))}"
        )

    def _to_bfloat(self, value: str, source: DataType, target: DataType) -> str:
        """Round to nearest even on the bits; a NaN stays one."""
        if source.code == "bfloat":
            return value
        lanes, floats = source.lanes, DataType("float32").with_lanes(source.lanes)
        value = self.convert(value, source, floats)
        bits, ty = register_type(DataType("int32").with_lanes(lanes)), register_type(floats)
        raw = self.out.value(f"bitcast {ty} {value} to {bits}")
        high = self.out.value(f"lshr {bits} {raw}, {splat('i32', '16', lanes)}")
        odd = self.out.value(f"and {bits} {high}, {splat('i32', '1', lanes)}")
        bias = self.out.value(f"add {bits} {odd}, {splat('i32', '32767', lanes)}")
        rounded = self.out.value(
            f"lshr {bits} {self.out.value(f'add {bits} {raw}, {bias}')}, {splat('i32', '16', lanes)}"
        )
        quiet = self.out.value(f"or {bits} {high}, {splat('i32', '64', lanes)}")
        bools = register_type(DataType("bool").with_lanes(lanes))
        is_nan = self.out.value(f"fcmp uno {ty} {value}, {value}")
        chosen = self.out.value(f"select {bools} {is_nan}, {bits} {quiet}, {bits} {rounded}")
        return self.out.value(f"trunc {bits} {chosen} to {register_type(target)}")

    # ---- what is known of signs

    def note_sign(self, var: Var, value: PrimExpr) -> None:
        """Note whether what a variable is bound to can be negative."""
        (self.nonnegative.add if self.is_nonnegative(value) else self.nonnegative.discard)(var)

    def is_nonnegative(self, expr: PrimExpr) -> bool:
        """Whether no lane can be negative, as its parts tell; False says nothing. What may wrap may be
        negative: all arithmetic but that of indices of at least 32 bits."""
        if isinstance(expr, IntImm):
            return expr.value >= 0
        if expr.dtype.is_unsigned:
            return True
        if isinstance(expr, Var):
            return expr in self.nonnegative or expr.is_size
        if isinstance(expr, Broadcast):
            return self.is_nonnegative(expr.value)
        if isinstance(expr, Ramp):
            does_not_wrap = does_not_overflow(expr.dtype, self._in_index) or _has_room(expr)
            return does_not_wrap and self.is_nonnegative(expr.base) and self.is_nonnegative(expr.stride)
        if isinstance(expr, FloorMod):
            return self.is_nonnegative(expr.b)
        if isinstance(expr, (Add, Mul)):
            no_wrap = does_not_overflow(expr.dtype, self._in_index)
            return no_wrap and self.is_nonnegative(expr.a) and self.is_nonnegative(expr.b)
        if isinstance(expr, (FloorDiv, Div, Mod, Min)):
            return self.is_nonnegative(expr.a) and self.is_nonnegative(expr.b)
        if isinstance(expr, Max):
            return self.is_nonnegative(expr.a) or self.is_nonnegative(expr.b)
        if isinstance(expr, Cast):
            return self._is_nonnegative_cast(expr.value, expr.dtype)
        return False

    def _is_nonnegative_cast(self, value: PrimExpr, target: DataType) -> bool:
        """Whether a value is not negative as a signed integer: unsigned ones need a bit more for that."""
        source = value.dtype
        if not source.is_int or not target.is_signed:
            return False
        if source.is_unsigned:
            return source.bits < target.bits
        return source.bits <= target.bits and self.is_nonnegative(value)


def _has_room(ramp: Ramp) -> bool:
    """Whether all lanes of a constant ramp are numbers of its dtype."""
    low, high = int_range(ramp.dtype.element)
    if not (isinstance(ramp.base, IntImm) and isinstance(ramp.stride, IntImm)):
        return False
    return low <= ramp.base.value + ramp.stride.value * (ramp.lanes - 1) <= high


def _conversion(source: DataType, target: DataType) -> str | None:
    """The LLVM instruction between two numeric types; None where registers agree."""
    if source.code == "float" and target.code == "float":
        return None if source.bits == target.bits else "fpext" if source.bits < target.bits else "fptrunc"
    if target.code == "float":
        return "sitofp" if source.is_signed else "uitofp"
    if source.bits == target.bits:
        return None
    if source.bits > target.bits:
        return "trunc"
    return "sext" if source.is_signed else "zext"


def mangle(ty: str) -> str:
    """The suffix of an overloaded intrinsic: `<16 x float>` → `v16f32`."""
    if ty.startswith("<"):
        lanes, element = ty[1:-1].split(" x ")
        return f"v{lanes}{mangle(element)}"
    return {"half": "f16", "float": "f32", "double": "f64", "ptr": "p0"}.get(ty, ty)
