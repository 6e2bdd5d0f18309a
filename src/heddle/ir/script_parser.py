"""The part of the script parser that every dialect shares: Python syntax, names and scopes, values, errors
with a place.

Script text is Python syntax with our meaning; nothing of it is executed. An expression is evaluated over the
syntax tree: names come from the scopes, attributes from the namespaces (`T`, `R`, `I`) and from IR nodes, and
operators go to `binary`, `compare` and `unary`, which a dialect overrides for its expressions.

A text may come from anybody. So it reaches the words of namespaces, and of a node its fields and what its
class names in `script_words`: a constant's tensor has a numpy array, and that leads anywhere. Only objects
that the caller gave a name are open to it, and all of them are to a text that is part of the caller's
program, which decorators read.
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
from heddle.ir.node import Node
from heddle.support.diagnostics import Code, HeddleError, ParseError, did_you_mean
from heddle.support.limits import current_limits, exceeded
from heddle.support.span import Source, SourceSpan, at
from heddle.support.syntax import parse_module

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
_NOT_WORDS = ("heddle.support.", "heddle.script.decorators")
"""Where that comes from which the modules of namespaces import for themselves."""


def is_namespace(value: Any) -> bool:
    """Whether the public names in a module, a class or an object are words of script text."""
    return getattr(value, "is_script_namespace", False) is True


def _is_word(value: Any) -> bool:
    """Whether a value in a namespace is for texts: no module, no plain value, nothing from elsewhere."""
    home = f"{getattr(value, '__module__', '')}."
    return is_namespace(value) or (home.startswith("heddle.") and not home.startswith(_NOT_WORDS))


def _is_open(owner: Any, name: str) -> bool:
    """Whether a text that may be anybody's reaches an attribute."""
    if is_namespace(owner):
        return _is_word(getattr(owner, name, None))
    if isinstance(owner, Node):
        return name in owner.init_names or name in owner.script_words
    return False


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
        self._given = dict(names)
        self._is_ascii = source.text.isascii()

    # ---- places and errors

    def span(self, node: ast.AST) -> SourceSpan:
        """Where a part of the syntax tree stands in the source."""
        line: int = getattr(node, "lineno", 1)
        column: int = getattr(node, "col_offset", 0)
        end_line: int = getattr(node, "end_lineno", None) or line
        end_column: int = getattr(node, "end_col_offset", None) or column + 1
        shift = self.source.first_line - 1
        if not self._is_ascii:
            column, end_column = (
                self._letters(line + shift, column),
                self._letters(end_line + shift, end_column),
            )
        return SourceSpan(self.source, line + shift, column + 1, end_line + shift, end_column + 1)

    def _letters(self, line: int, num_bytes: int) -> int:
        """How many characters the first bytes of a line are: Python's syntax trees count bytes of UTF-8."""
        return len(self.source.line(line).encode()[:num_bytes].decode(errors="ignore"))

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
        """A word of a namespace, or a field of a node. Raises: ParseError I0601 for those of Python's plain
        values, I0602 where there is none that texts reach, and for names that begin with an underscore."""
        owner = self.eval(node.value)
        if type(owner) in _PLAIN:
            self.error(
                node, I0601, f"methods of a {type(owner).__name__} are not part of the script language"
            )
        is_own = self.source.is_own or self._is_given(node.value)
        is_hidden = node.attr.startswith("__" if is_own else "_")
        if is_hidden or not hasattr(owner, node.attr) or not (is_own or _is_open(owner, node.attr)):
            name = getattr(owner, "__name__", type(owner).__name__)
            known = [each for each in dir(owner) if is_own or (each[0] != "_" and _is_open(owner, each))]
            self.error(node, I0602, f"{name} has no attribute {node.attr!r}", did_you_mean(node.attr, known))
        return getattr(owner, node.attr)

    def _is_given(self, node: ast.expr) -> bool:
        """Whether an expression is a name that the caller gave an object, or an attribute of one, and so on.
        Namespaces are everybody's."""
        while isinstance(node, ast.Attribute):
            node = node.value
        if not isinstance(node, ast.Name) or node.id not in self._given:
            return False
        given = self._given[node.id]
        return given is self.lookup(node) and not is_namespace(given)

    def eval_Tuple(self, node: ast.Tuple) -> Any:
        """A tuple; the items of a starred part take its place."""
        return tuple(self._items(node.elts))

    def eval_List(self, node: ast.List) -> Any:
        """A list; the items of a starred part take its place."""
        return self._items(node.elts)

    def eval_Dict(self, node: ast.Dict) -> Any:
        """A dict, its parts evaluated in the order of the text, each key before its value; `**` spreads a
        dict."""
        made: dict[Any, Any] = {}
        for key, value in zip(node.keys, node.values, strict=True):
            made.update(self.eval(value) if key is None else {self.eval(key): self.eval(value)})
        return made

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
        if type(node.ops[0]) not in _PYTHON_COMPARE:
            self.error(node, I0601, "`in` is not part of the script language")
        return self.compare(type(node.ops[0]), self.eval(node.left), self.eval(node.comparators[0]))

    def eval_BoolOp(self, node: ast.BoolOp) -> Any:
        """What `boolean` makes of the operands from left to right. Where a Python value decides, the rest is
        not evaluated, as in Python."""
        value = self.eval(node.values[0])
        for other in node.values[1:]:
            if not isinstance(value, Node) and bool(value) is isinstance(node.op, ast.Or):
                return value
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
        """Python's own result."""
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
            return parse_module(source.text)
    except SyntaxError as error:
        line, column = (error.lineno or 1) + source.first_line - 1, error.offset or 1
        span = SourceSpan(
            source, line, column, line, (error.end_offset or column) + (error.end_offset == column)
        )
        raise ParseError(I0601, f"syntax error: {error.msg}", span=span) from error
    except (RecursionError, MemoryError) as error:  # Python says little of it, and of some texts nothing
        raise nested_too_deeply(source) from error
    except ValueError as error:  # null bytes
        raise ParseError(I0601, f"{source.name} cannot be parsed: {error}") from error


def nested_too_deeply(source: Source) -> ParseError:
    """The error for a text whose expressions or statements nest beyond what Python reads."""
    return ParseError(
        I0601,
        f"{source.name} is nested too deeply to be read",
        help="give parts of long expressions names: `v = ...`, in statements of their own",
    )


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
