"""Does a pattern fit an expression: one matcher, which tries, remembers, and takes back."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from heddle.graph.types import TensorType
from heddle.ir.expr import Call, Constant, Expr, Function, If, Tuple, TupleGetItem, Var
from heddle.ir.op import Op
from heddle.ir.structural import structural_equal
from heddle.relay.codes import Q0101
from heddle.relay.dataflow_pattern import patterns as p
from heddle.relay.nodes import Let
from heddle.relay.op_attrs import op_attr
from heddle.relay.placement import parts
from heddle.relay.typed import infer_expr
from heddle.runtime.dtype import DataType
from heddle.support.diagnostics import UsageError

_TYPED = (p.TypePattern, p.DataTypePattern, p.ShapePattern)
_SWAPPED = ("add", "multiply")


def match(pattern: p.DFPattern, expr: Any) -> bool:
    """Whether a pattern fits an expression. Types are inferred where the pattern asks for them.

    Raises: IRTypeError where types do not fit.
    """
    return Matcher().fits(pattern, with_types(pattern, expr))


def with_types(pattern: p.DFPattern, expr: Any) -> Any:
    """The expression with its types, where the pattern asks for them. Raises: UsageError Q0101 for what is no
    pattern."""
    if not isinstance(pattern, p.DFPattern):
        raise UsageError(Q0101, f"expected a pattern, got {type(pattern).__name__}")
    return infer_expr(expr) if any(isinstance(each, _TYPED) for each in inner(pattern)) else expr


def inner(pattern: p.DFPattern) -> list[p.DFPattern]:
    """A pattern and those in it, each once."""
    found: list[p.DFPattern] = []
    todo = [pattern]
    while todo:
        each = todo.pop()
        if not any(each is other for other in found):
            found.append(each)
            for value in vars(each).values():
                items = value if isinstance(value, tuple) else (value,)
                todo += [item for item in items if isinstance(item, p.DFPattern)]
    return found


class Matcher:
    """One match: `found` maps patterns to what they fit, in the order in which that was found."""

    def __init__(self) -> None:
        self.found: dict[p.DFPattern, list[Any]] = {}
        self._trail: list[p.DFPattern] = []

    def fits(self, pattern: p.DFPattern, expr: Any) -> bool:
        """Whether a pattern fits here. What was noted for it is taken back where it does not."""
        if isinstance(pattern, p.WildcardPattern) and pattern.pattern is not None:
            return self._repeated(pattern.pattern, expr)
        known = self.found.get(pattern)
        if known:
            return known[0] is expr
        mark = len(self._trail)
        if _RULES[type(pattern)](self, pattern, expr):
            self.found[pattern] = [expr]
            self._trail.append(pattern)
            return True
        self._back(mark)
        return False

    def _repeated(self, pattern: p.DFPattern, expr: Any) -> bool:
        """A round of a repetition: what is inside of it stands for something else in each."""
        again = set(inner(pattern))
        this = Matcher()
        this.found = {each: exprs for each, exprs in self.found.items() if each not in again}
        if not this.fits(pattern, expr):
            return False
        for each, exprs in this.found.items():
            if each not in self.found:
                self.found[each] = exprs
                self._trail.append(each)
        return True

    def _back(self, mark: int) -> None:
        while len(self._trail) > mark:
            del self.found[self._trail.pop()]

    def _all(self, patterns: Sequence[p.DFPattern] | None, exprs: Sequence[Any]) -> bool:
        if patterns is None:
            return True
        mark = len(self._trail)
        if len(patterns) == len(exprs) and all(map(self.fits, patterns, exprs)):
            return True
        self._back(mark)
        return False

    def _alternative(self, pattern: p.AltPattern, expr: Any) -> bool:
        return self.fits(pattern.left, expr) or self.fits(pattern.right, expr)

    def _expr(self, pattern: p.ExprPattern, expr: Any) -> bool:
        if isinstance(pattern.expr, Op):
            return isinstance(expr, Op) and expr.name == pattern.expr.name
        return structural_equal(pattern.expr, expr)

    def _call(self, pattern: p.CallPattern, expr: Any) -> bool:
        if not isinstance(expr, Call):
            return False
        mark = len(self._trail)
        if self.fits(pattern.op, expr.op):
            if self._all(pattern.args, expr.args):
                return True
            name = expr.op.name if isinstance(expr.op, Op) else ""
            if name in _SWAPPED and pattern.args is not None and self._all(pattern.args, expr.args[::-1]):
                return True
        self._back(mark)
        return self._associated(pattern, expr)

    def _associated(self, pattern: p.CallPattern, expr: Any) -> bool:
        """`(a * b) / c` fits what is written `a * (b / c)`, and the other way round."""
        name = _op_of(pattern)
        if pattern.args is None or len(pattern.args) != 2 or len(expr.args) != 2:
            return False
        if name == "divide" and _is(expr, "multiply") and isinstance(pattern.args[0], p.CallPattern):
            # pattern (a * b) / c, expression x * (y / z)
            product = pattern.args[0]
            return _op_of(product) == "multiply" and self._split(product, pattern.args[1], expr.args)
        if name == "multiply" and _is(expr, "divide") and _is(expr.args[0], "multiply"):
            # pattern a * (b / c), expression (x * y) / z
            for quotient, other in (pattern.args, pattern.args[::-1]):
                if isinstance(quotient, p.CallPattern) and _op_of(quotient) == "divide" and quotient.args:
                    for pair in (expr.args[0].args, expr.args[0].args[::-1]):
                        if self._all((other, *quotient.args), (*pair, expr.args[1])):
                            return True
        return False

    def _split(self, product: p.CallPattern, divisor: p.DFPattern, args: Sequence[Any]) -> bool:
        for x, quotient in (args, args[::-1]):
            if _is(quotient, "divide") and product.args is not None:
                y, z = quotient.args
                for pair in ((x, y), (y, x)):
                    if self._all((*product.args, divisor), (*pair, z)):
                        return True
        return False

    def _function(self, pattern: p.FunctionPattern, expr: Any) -> bool:
        if not isinstance(expr, Function):
            return False
        return self._all(pattern.params, expr.params) and self.fits(pattern.body, expr.body)

    def _if(self, pattern: p.IfPattern, expr: Any) -> bool:
        wanted = (pattern.cond, pattern.true_branch, pattern.false_branch)
        return isinstance(expr, If) and self._all(wanted, (expr.cond, expr.true_branch, expr.false_branch))

    def _let(self, pattern: p.LetPattern, expr: Any) -> bool:
        wanted = (pattern.var, pattern.value, pattern.body)
        return isinstance(expr, Let) and self._all(wanted, (expr.var, expr.value, expr.body))

    def _tuple(self, pattern: p.TuplePattern, expr: Any) -> bool:
        return isinstance(expr, Tuple) and self._all(pattern.fields, expr.fields)

    def _item(self, pattern: p.TupleGetItemPattern, expr: Any) -> bool:
        if not isinstance(expr, TupleGetItem) or pattern.index not in (None, -1, expr.index):
            return False
        return self.fits(pattern.tuple, expr.tuple_value)

    def _type(self, pattern: p.TypePattern, expr: Any) -> bool:
        return (
            getattr(expr, "ty", None) is not None
            and structural_equal(expr.ty, pattern.type)
            and self.fits(pattern.pattern, expr)
        )

    def _dtype(self, pattern: p.DataTypePattern, expr: Any) -> bool:
        ty = getattr(expr, "ty", None)
        same = isinstance(ty, TensorType) and ty.dtype == DataType(str(pattern.dtype))
        return same and self.fits(pattern.pattern, expr)

    def _shape(self, pattern: p.ShapePattern, expr: Any) -> bool:
        ty = getattr(expr, "ty", None)
        if not isinstance(ty, TensorType) or ty.dims is None or len(ty.dims) != len(pattern.shape):
            return False
        same = all(
            getattr(dim, "value", None) == want if isinstance(want, int) else structural_equal(dim, want)
            for dim, want in zip(ty.dims, pattern.shape, strict=True)
        )
        return same and self.fits(pattern.pattern, expr)

    def _attrs(self, pattern: p.AttrPattern, expr: Any) -> bool:
        return has_attrs(expr, pattern.attrs) and self.fits(pattern.pattern, expr)

    def _dominator(self, pattern: p.DominatorPattern, expr: Any) -> bool:
        """The child fits; each way down from it leads by the path to one expression that the parent fits.
        What has no operands may end a way."""
        if not self.fits(pattern.child, expr):
            return False
        parent: Any = None
        todo, seen = _operands(expr), {id(expr)}
        while todo:
            node = todo.pop()
            if id(node) in seen:
                continue
            seen.add(id(node))
            if node is parent:
                continue
            if parent is None and self.fits(pattern.parent, node):
                parent = node
            elif not isinstance(node, (Var, Constant)):
                if not Matcher().fits(pattern.path, node):
                    return False
                if pattern.path not in self.found:
                    self.found[pattern.path] = []
                    self._trail.append(pattern.path)
                self.found[pattern.path].append(node)
                todo += _operands(node)
        return parent is not None


def has_attrs(expr: Any, wanted: Mapping[str, Any]) -> bool:
    """Whether a call, operator or function has attributes with these values."""
    if isinstance(expr, Op):
        return all(_plain(op_attr(expr.name, key)) == _plain(value) for key, value in wanted.items())
    attrs = getattr(expr, "attrs", None)
    if attrs is None:
        return not wanted
    return all(key in attrs and _plain(attrs[key]) == _plain(value) for key, value in wanted.items())


def _plain(value: Any) -> Any:
    if isinstance(value, (list, tuple)):
        return tuple(map(_plain, value))
    return getattr(value, "value", value) if not isinstance(value, str) else str(value)


def _is(expr: Any, name: str) -> bool:
    return isinstance(expr, Call) and isinstance(expr.op, Op) and expr.op.name == name


def _op_of(pattern: p.CallPattern) -> str:
    op = pattern.op.expr if isinstance(pattern.op, p.ExprPattern) else None
    return op.name if isinstance(op, Op) else ""


def _operands(expr: Any) -> list[Any]:
    return [child for child, _ in parts(expr) if not isinstance(child, Op)]


p.USES.add("match", match)
_RULES: dict[type, Callable[[Matcher, Any, Any], bool]] = {
    p.AltPattern: Matcher._alternative,
    p.AttrPattern: Matcher._attrs,
    p.CallPattern: Matcher._call,
    p.ConstantPattern: lambda _self, _pattern, expr: isinstance(expr, Constant),
    p.DataTypePattern: Matcher._dtype,
    p.DominatorPattern: Matcher._dominator,
    p.ExprPattern: Matcher._expr,
    p.FunctionPattern: Matcher._function,
    p.IfPattern: Matcher._if,
    p.LetPattern: Matcher._let,
    p.ShapePattern: Matcher._shape,
    p.TupleGetItemPattern: Matcher._item,
    p.TuplePattern: Matcher._tuple,
    p.TypePattern: Matcher._type,
    p.VarPattern: lambda _self, pattern, expr: isinstance(expr, Var) and pattern.name in ("", expr.name_hint),
    p.WildcardPattern: lambda _self, _pattern, expr: isinstance(expr, Expr),
}
