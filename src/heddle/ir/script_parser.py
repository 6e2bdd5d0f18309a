"""The part of the script parser that every dialect shares: Python syntax, names and scopes, values, errors
with a place.

Script text is Python syntax with our meaning; nothing of it is executed. An expression is evaluated over the
syntax
tree: names come from the scopes, attributes from the namespaces (`T`, `R`, `I`) and IR objects in them, and
operators go to
`binary`, `compare` and `unary`, which a dialect overrides for its expressions.
"""

from __future__ import annotations

import ast
import operator
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, NoReturn

from heddle.ir.codes import I0601, I0602, I0603
from heddle.ir.expr import GlobalVar
from heddle.support.diagnostics import Code, HeddleError, ParseError, did_you_mean
from heddle.support.limits import current_limits, exceeded
from heddle.support.span import Source, SourceSpan, at

_PYTHON_BINARY: dict[type[ast.operator], Callable[[Any, Any], Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
    ast.Pow: operator.pow,
    ast.LShift: operator.lshift,
    ast.RShift: operator.rshift,
    ast.BitAnd: operator.and_,
    ast.BitOr: operator.or_,
    ast.BitXor: operator.xor,
    ast.MatMult: operator.matmul,
}
_PYTHON_COMPARE: dict[type[ast.cmpop], Callable[[Any, Any], Any]] = {
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
    ast.Is: operator.is_,
    ast.IsNot: operator.is_not,
}


def _bounded_range(*args: Any) -> range:
    found = range(*args)
    most = current_limits().text_items
    if bool(found) and (found[-1] - found[0]) // found.step >= most:
        raise exceeded("text_items", f"a range has more than {most} items")
    return found


def _bounded_result(value: Any) -> Any:
    """A computed Python value that is not too large."""
    if isinstance(value, int):
        if value.bit_length() > current_limits().text_bits:
            raise exceeded("text_bits", f"an integer has {value.bit_length()} bits")
    elif isinstance(value, (str, bytes, list, tuple)) and len(value) > current_limits().text_items:
        raise exceeded("text_items", f"a {type(value).__name__} has {len(value)} items")
    return value


def _check_operands(op: type[ast.operator], a: Any, b: Any) -> None:
    """Refuse what would be large before it is computed: powers, shifts, repetitions and formatting."""
    limits = current_limits()
    if isinstance(a, int) and isinstance(b, int):
        bits = 0
        if op is ast.Pow and abs(a) > 1:
            bits = abs(a).bit_length() * abs(b)
        elif op is ast.LShift:
            bits = a.bit_length() + b
        elif op is ast.Mult:
            bits = a.bit_length() + b.bit_length()
        if bits > limits.text_bits + 1:
            raise exceeded("text_bits", f"an integer would have about {bits} bits")
    if op is ast.Mod and isinstance(a, (str, bytes)):
        raise TypeError("strings are not formatted in the script language")
    for sequence, count in ((a, b), (b, a)):
        is_repeated = op is ast.Mult and isinstance(sequence, (str, bytes, list, tuple))
        if is_repeated and isinstance(count, int) and len(sequence) * count > limits.text_items:
            raise exceeded(
                "text_items", f"a {type(sequence).__name__} would have {len(sequence) * count} items"
            )


_PLAIN = (str, bytes, int, float, list, tuple, dict, range)
_BUILTINS: dict[str, Any] = {
    "range": _bounded_range,
    "len": len,
    "int": int,
    "float": float,
    "bool": bool,
    "str": str,
    "list": list,
    "tuple": tuple,
    "True": True,
    "False": False,
    "None": None,
    "min": min,
    "max": max,
    "abs": abs,
    "sum": sum,
    "zip": zip,
    "enumerate": enumerate,
}


class ScriptParser:
    """Evaluates expressions of one source text under nested scopes."""

    def __init__(self, source: Source, names: Mapping[str, Any]) -> None:
        self.source = source
        self.scopes: list[dict[str, Any]] = [dict(names)]

    # ---- places and errors

    def span(self, node: ast.AST) -> SourceSpan:
        """Where a part of the syntax tree stands in the source."""
        line: int = getattr(node, "lineno", 1)
        column: int = getattr(node, "col_offset", 0)
        end_line: int = getattr(node, "end_lineno", None) or line
        end_column: int = getattr(node, "end_col_offset", None) or column + 1
        shift = self.source.first_line - 1
        return SourceSpan(self.source, line + shift, column + 1, end_line + shift, end_column + 1)

    def error(self, node: ast.AST, code: Code, message: str, help: str | None = None) -> NoReturn:
        """Raises: ParseError with the code, at the place of a part of the syntax tree."""
        raise ParseError(code, message, span=self.span(node), help=help)

    # ---- names

    @contextmanager
    def scope(self) -> Iterator[dict[str, Any]]:
        """A new innermost scope, which ends with the block. Gives its names."""
        self.scopes.append({})
        try:
            yield self.scopes[-1]
        finally:
            self.scopes.pop()

    def define(self, name: str, value: Any) -> None:
        """Let a name of the innermost scope mean a value."""
        self.scopes[-1][name] = value

    def lookup(self, node: ast.Name) -> Any:
        """What a name means in the innermost scope that has it. Raises: ParseError I0602 where none has
        it."""
        for names in reversed(self.scopes):
            if node.id in names:
                return names[node.id]
        if node.id in _BUILTINS:
            return _BUILTINS[node.id]
        known = [name for names in self.scopes for name in names]
        self.error(node, I0602, f"name {node.id!r} is not defined", did_you_mean(node.id, known))

    # ---- expressions

    def eval(self, node: ast.expr) -> Any:
        """The value of an expression: a Python value or an IR object, which takes the expression's place as
        span."""
        method = getattr(self, f"eval_{type(node).__name__}", None)
        if method is None:
            self.error(node, I0601, f"{type(node).__name__} is not part of the script language")
        span = self.span(node)
        with at(span):
            try:
                return method(node)
            except HeddleError:
                raise
            except (TypeError, ValueError, AttributeError, KeyError, IndexError, ArithmeticError) as error:
                raise ParseError(I0603, f"{error}", span=span) from error

    def eval_Constant(self, node: ast.Constant) -> Any:
        """A number, text, bool, None or `...`: itself."""
        return node.value

    def eval_Name(self, node: ast.Name) -> Any:
        """What the name means."""
        return self.lookup(node)

    def eval_Attribute(self, node: ast.Attribute) -> Any:
        """A field or method of a namespace or an IR object. Raises: ParseError I0601 for those of Python's
        plain values, I0602 where there is none, and for names that begin with two underscores."""
        owner = self.eval(node.value)
        if type(owner) in _PLAIN:
            self.error(
                node, I0601, f"methods of a {type(owner).__name__} are not part of the script language"
            )
        if node.attr.startswith("__") or not hasattr(owner, node.attr):
            name = getattr(owner, "__name__", type(owner).__name__)
            self.error(
                node, I0602, f"{name} has no attribute {node.attr!r}", did_you_mean(node.attr, dir(owner))
            )
        return getattr(owner, node.attr)

    def eval_Tuple(self, node: ast.Tuple) -> Any:
        """A tuple; the items of a starred part take its place."""
        return tuple(self._items(node.elts))

    def eval_List(self, node: ast.List) -> Any:
        """A list; the items of a starred part take its place."""
        return self._items(node.elts)

    def eval_Dict(self, node: ast.Dict) -> Any:
        """A dict, its parts evaluated in the order of the text, each key before its value."""
        return {
            self.eval(k) if k is not None else None: self.eval(v)
            for k, v in zip(node.keys, node.values, strict=True)
        }

    def _items(self, nodes: list[ast.expr]) -> list[Any]:
        values: list[Any] = []
        for item in nodes:
            if isinstance(item, ast.Starred):
                values.extend(self.eval(item.value))
            else:
                values.append(self.eval(item))
        return values

    def eval_Slice(self, node: ast.Slice) -> Any:
        """Python's slice; None for each part that is left out."""
        parts = (node.lower, node.upper, node.step)
        return slice(*(None if part is None else self.eval(part) for part in parts))

    def eval_Subscript(self, node: ast.Subscript) -> Any:
        """The owner indexed, as its class does it."""
        return self.eval(node.value)[self.eval(node.slice)]

    def eval_Call(self, node: ast.Call) -> Any:
        """What `call` makes of the callee and its arguments; starred ones are spread out."""
        function = self.eval(node.func)
        args = self._items(node.args)
        kwargs: dict[str, Any] = {}
        for keyword in node.keywords:
            if keyword.arg is None:
                kwargs.update(self.eval(keyword.value))
            else:
                kwargs[keyword.arg] = self.eval(keyword.value)
        return self.call(node, function, args, kwargs)

    def eval_BinOp(self, node: ast.BinOp) -> Any:
        """What `binary` makes of the operands."""
        return self.binary(type(node.op), self.eval(node.left), self.eval(node.right))

    def eval_UnaryOp(self, node: ast.UnaryOp) -> Any:
        """What `unary` makes of the operand."""
        return self.unary(type(node.op), self.eval(node.operand))

    def eval_Compare(self, node: ast.Compare) -> Any:
        """What `compare` makes of the operands. Raises: ParseError I0601 for a chain: `a < b < c`."""
        if len(node.ops) != 1:
            self.error(
                node,
                I0601,
                "chained comparisons are not part of the script language",
                "write `a < b and b < c`",
            )
        return self.compare(type(node.ops[0]), self.eval(node.left), self.eval(node.comparators[0]))

    def eval_BoolOp(self, node: ast.BoolOp) -> Any:
        """What `boolean` makes of the operands from left to right; all of them are evaluated."""
        value = self.eval(node.values[0])
        for other in node.values[1:]:
            value = self.boolean(type(node.op), value, self.eval(other))
        return value

    def eval_NamedExpr(self, node: ast.NamedExpr) -> Any:
        """`(name := value)`: the printer names what an expression uses several times."""
        value = self.eval(node.value)
        self.define(node.target.id, value)
        return value

    def eval_IfExp(self, node: ast.IfExp) -> Any:
        """One of two values, as the condition is true in Python or not; the other is not evaluated."""
        return self.eval(node.body if self.eval(node.test) else node.orelse)

    # ---- what a dialect overrides

    def call(self, node: ast.Call, function: Any, args: list[Any], kwargs: dict[str, Any]) -> Any:
        """What the callee returns. Raises: ParseError I0603 for what cannot be called."""
        if not callable(function):
            self.error(node, I0603, f"{type(function).__name__} cannot be called")
        return function(*args, **kwargs)

    def binary(self, op: type[ast.operator], a: Any, b: Any) -> Any:
        """Python's own result. Raises: UsageError S0601 for one beyond the limits of a text's values."""
        _check_operands(op, a, b)
        return _bounded_result(_PYTHON_BINARY[op](a, b))

    def compare(self, op: type[ast.cmpop], a: Any, b: Any) -> Any:
        """Python's own result. Raises: KeyError for `in` and `not in`."""
        return _PYTHON_COMPARE[op](a, b)

    def boolean(self, op: type[ast.boolop], a: Any, b: Any) -> Any:
        """Python's own result: one of the operands."""
        return (a and b) if op is ast.And else (a or b)

    def unary(self, op: type[ast.unaryop], a: Any) -> Any:
        """Python's own result."""
        if op is ast.USub:
            return -a
        return (not a) if op is ast.Not else (~a if op is ast.Invert else +a)


def parse_python(source: Source) -> ast.Module:
    """The syntax tree of a text. Raises: ParseError I0601 at the place of a syntax error; UsageError
    S0601 for a text that is too long."""
    most = current_limits().text_bytes
    if len(source.text) > most:
        raise exceeded("text_bytes", f"{source.name} has more than {most} bytes")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", SyntaxWarning)  # what Python finds odd is not ours to tell
            return ast.parse(source.text)
    except SyntaxError as error:
        line, column = (error.lineno or 1) + source.first_line - 1, error.offset or 1
        span = SourceSpan(
            source, line, column, line, (error.end_offset or column) + (error.end_offset == column)
        )
        raise ParseError(I0601, f"syntax error: {error.msg}", span=span) from error
    except (ValueError, RecursionError, MemoryError) as error:  # null bytes, and nesting without end
        raise ParseError(I0601, f"{source.name} cannot be parsed: {error}") from error


def decorator_of(node: ast.FunctionDef | ast.ClassDef) -> tuple[ast.expr | None, dict[str, ast.expr]]:
    """The decorator's function expression and keyword arguments: `@T.prim_func(private=True)`."""
    if not node.decorator_list:
        return None, {}
    decorator = node.decorator_list[-1]
    if isinstance(decorator, ast.Call):
        return decorator.func, {k.arg: k.value for k in decorator.keywords if k.arg is not None}
    return decorator, {}


class ModuleAlias:
    """What `cls` stands for inside a module's functions."""

    def __init__(self, functions: Mapping[str, GlobalVar]) -> None:
        self.functions = functions
