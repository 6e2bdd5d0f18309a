"""Floats between quantised values, as integers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from heddle.ir.codes import I0506
from heddle.ir.expr import Call, Constant, Function, Tuple, TupleGetItem
from heddle.ir.module import IRModule
from heddle.ir.op import Op
from heddle.ir.users_code import given_by
from heddle.relay.codes import Q0502
from heddle.relay.op_attrs import op_attr
from heddle.relay.placement import operands, post_order
from heddle.relay.qnn.fake_quantization import (
    OPTIONAL,
    RULES,
    Site,
    TensorAffineType,
    TupleAffineType,
    requantized,
)
from heddle.relay.transform.copying import with_nodes
from heddle.relay.transform.rewriting import TypedPass, call, is_call
from heddle.support.diagnostics import HeddleError, UsageError
from heddle.support.frozen import frozen

KEY = "FTVMFakeQuantizationToInteger"
_FROM, _TO = "qnn.dequantize", "qnn.quantize"


@frozen
class FakeQuantizationToInteger(TypedPass):
    """Compute on integers what lies between `qnn.dequantize` and `qnn.quantize`.

        qnn.quantize(nn.relu(qnn.dequantize(%x, 0.5f, 3)), 0.5f, 3)

    becomes

        maximum(%x, cast(3, dtype="int8"))

    What an operator is on integers, its rule says (`qnn/fake_quantization`), or what users register with
    `register_fake_quantization_to_integer`. A region stays where an operator has no rule, or the rule refuses
    (UsageError Q0502 with `hard_fail`). `use_qat`: single operators between quantised values that are used as
    floats become integers too, and are dequantised behind. `optional_qnn_ops` names operators that otherwise
    stay, as `nn.softmax`. Results may differ by one step of the scale.
    """

    hard_fail: bool = False
    use_qat: bool = False
    optional_qnn_ops: tuple[str, ...] | None = None
    opt_level = 0

    def change(self, func: Function, mod: IRModule) -> Function:
        made: dict[int, Any] = {}
        for expr in post_order(func):
            if is_call(expr, _TO):
                self._try(made, expr, _affine(expr), self.hard_fail)
        if self.use_qat:
            inside = {id(e) for root in post_order(func) if id(root) in made for e in _region(root)}
            for expr in post_order(func):
                is_single = is_call(expr) and expr.args and id(expr) not in inside
                if is_single and all(map(_is_quantized, expr.args)):
                    self._try(made, expr, None, False)
        return with_nodes(func, made) if made else func

    def _try(self, made: dict[int, Any], root: Any, wanted: TensorAffineType | None, must: bool) -> None:
        try:
            found = _Region(wanted, self.optional_qnn_ops or ()).of(root)
        except HeddleError as error:
            if must or error.code == I0506.name:
                raise
            return
        if found is not root:
            made[id(root)] = found


def _affine(expr: Any) -> TensorAffineType:
    """What the integers of a call of `qnn.quantize` or `qnn.dequantize` mean."""
    integers = expr if is_call(expr, _TO) else expr.args[0]
    scale, zero_point = expr.args[1:]
    return TensorAffineType(scale, zero_point, str(integers.ty.dtype), int(expr.attrs.axis))


def _is_quantized(expr: Any) -> bool:
    if isinstance(expr, Tuple):
        return bool(expr.fields) and all(map(_is_quantized, expr.fields))
    return is_call(expr, _FROM)


def _region(root: Any) -> list[Any]:
    """The expressions from a root to the nearest integers, operands first."""

    def below(expr: Any) -> list[Any]:
        if is_call(expr, _FROM) or not isinstance(expr, (Call, Tuple, TupleGetItem)):
            return []
        return operands(expr)[:2] if is_call(expr, _TO) else operands(expr)

    return post_order(root, below)


class TypeMap:
    """What integers mean, by the expression that gives them."""

    def __init__(self) -> None:
        self._known: dict[int, tuple[Any, Any]] = {}

    def __contains__(self, expr: Any) -> bool:
        return id(expr) in self._known

    def __getitem__(self, expr: Any) -> Any:
        if expr not in self:
            raise UsageError(Q0502, "the argument is not quantised", span=expr.span)
        return self._known[id(expr)][1]

    def __setitem__(self, expr: Any, meaning: Any) -> None:
        self._known[id(expr)] = expr, meaning

    def get(self, expr: Any) -> Any:
        """What is known of an expression; None where nothing is."""
        return self._known.get(id(expr), (None, None))[1]


class _Region:
    """Makes the integers of one region."""

    def __init__(self, wanted: TensorAffineType | None, optional: tuple[str, ...]) -> None:
        self._wanted, self._optional = wanted, optional
        self._types = TypeMap()
        self._made: dict[int, Any] = {}

    def of(self, root: Any) -> Any:
        """What stands for a root. Raises: HeddleError where a rule refuses."""
        for expr in _region(root):
            if expr is root and self._wanted is not None:
                break
            self._made[id(expr)] = self._integers(expr)
        if self._wanted is None:
            meaning = self._types[self._made[id(root)]]
            return self._floats(root, self._made[id(root)], meaning)
        found = self._made[id(root.args[0])]
        if found not in self._types:
            return root  # a constant: folding makes integers of it
        return requantized(found, self._types[found], self._wanted)

    def _floats(self, root: Any, found: Any, meaning: Any) -> Any:
        if not isinstance(meaning, TensorAffineType):
            raise UsageError(Q0502, f"{root.op.name} gives a tuple", span=root.span)
        ends = (meaning.scale, meaning.zero_point)
        return call(_FROM, found, *ends, axis=meaning.axis, out_dtype=str(root.ty.dtype))

    def _integers(self, expr: Any) -> Any:
        if is_call(expr, _FROM):
            return self._known(expr.args[0], _affine(expr))
        if isinstance(expr, Tuple):
            made = Tuple(tuple(self._made[id(item)] for item in expr.fields), span=expr.span)
            return self._known(made, TupleAffineType(tuple(self._types[item] for item in made.fields)))
        if isinstance(expr, TupleGetItem):
            source = self._made[id(expr.tuple_value)]
            return self._known(TupleGetItem(source, expr.index), self._types[source].types[expr.index])
        if is_call(expr):
            return self._operator(expr)
        if isinstance(expr, (Constant, Op)):
            return expr
        raise UsageError(Q0502, f"no integers stand for {type(expr).__name__}", span=expr.span)

    def _known(self, expr: Any, meaning: Any) -> Any:
        self._types[expr] = meaning
        return expr

    def _operator(self, expr: Any) -> Any:
        name, args = expr.op.name, [self._made[id(arg)] for arg in expr.args]
        hook = op_attr(name, KEY)
        if hook is not None:
            given = Call(expr.op, tuple(args), expr.attrs, ty=expr.ty, span=expr.span)
            self._types[given] = self._wanted
            return self._known(*given_by(hook, f"{KEY} of {name}", Sequence, given, self._types))
        is_off = name in OPTIONAL and name not in self._optional
        if name not in RULES or is_off:
            hint = "register_fake_quantization_to_integer gives it one"
            raise UsageError(Q0502, f"{name} has no rule for integers", span=expr.span, help=hint)
        types = [self._types.get(arg) for arg in args]
        is_plain = all(of or isinstance(arg, Constant) for arg, of in zip(args, types, strict=True))
        if not any(types) or not is_plain:
            raise UsageError(Q0502, f"{name} has no argument that is quantised", span=expr.span)
        return self._known(*RULES[name](Site(expr, args, types, self._wanted)))
