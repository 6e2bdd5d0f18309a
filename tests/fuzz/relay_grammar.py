"""Random well-typed texts of Relay, made from the types down.

An expression of a type is made of what has that type: variables, branches, matches, calls, lets, cells and
operators. Every recursion counts down. Floats are whole numbers below 1000, so that no engine rounds.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable
from dataclasses import dataclass, field

INT, LONG, FLOAT, BOOL = "int32", "int64", "float32", "bool"
ROWS, FIXED, INTS, FLAGS = (
    "Tensor[(?, 3), float32]",
    "Tensor[(2, 3), float32]",
    "Tensor[(4), int32]",
    "Tensor[(2, 3), bool]",
)
TENSORS = (INT, LONG, FLOAT, BOOL, ROWS, FIXED, INTS, FLAGS)


@dataclass(frozen=True)
class Kind:
    """A type: a tensor by its text, or a tuple, fn (parameters, then result), ref or data type of parts."""

    head: str
    parts: tuple[Kind, ...] = ()

    def __str__(self) -> str:
        parts = [str(part) for part in self.parts]
        if self.head == "tuple":
            return f"({', '.join(parts)}{',' if len(parts) == 1 else ''})"
        if self.head == "fn":
            return f"fn ({', '.join(parts[:-1])}) -> {parts[-1]}"
        if self.head == "ref":
            return f"ref({parts[0]})"
        return f"{self.head}[{', '.join(parts)}]" if parts else self.head

    @property
    def is_tensor(self) -> bool:
        return self.head in TENSORS

    def holds(self, head: str) -> bool:
        return self.head == head or any(part.holds(head) for part in self.parts)


def tensor(text: str) -> Kind:
    return Kind(text)


VAR = Kind("A")
"""The type variable of generic functions."""

CONSTRUCTORS: dict[str, tuple[tuple[str, tuple[str, ...]], ...]] = {
    "List": (("Nil", ()), ("Cons", ("A", "self"))),
    "Option": (("None", ()), ("Some", ("A",))),
    "Tree": (("Leaf", ("A",)), ("Node", ("self", "self"))),
    "Shape": (("Dot", ()), ("Box", (FLOAT, ROWS)), ("Both", ("self", INT, "self")), ("Make", ("fn",))),
}
VERSION = '#[version = "0.0.5"]'
TYPES = {
    "List": "type List[A] { Cons(A, List[A]), Nil }",
    "Option": "type Option[A] { Some(A), None }",
    "Tree": "type Tree[A] { Leaf(A), Node(Tree[A], Tree[A]) }",
    "Shape": """type Shape {
  Dot, Box(float32, Tensor[(?, 3), float32]), Both(Shape, int32, Shape), Make(fn (int32) -> float32)
}""",
}
HELPERS = {
    "map": """def @map[A, B](%f: fn (A) -> B, %l: List[A]) -> List[B] {
  match (%l) { Cons(%x, %r) => Cons(%f(%x), @map(%f, %r)), Nil => Nil }
}""",
    "fold": """def @fold[A, B](%f: fn (B, A) -> B, %b: B, %l: List[A]) -> B {
  match (%l) { Cons(%x, %r) => @fold(%f, %f(%b, %x), %r), Nil => %b }
}""",
    "twice": "def @twice[A](%f: fn (A) -> A, %x: A) -> A { %f(%f(%x)) }",
    "compose": """def @compose[A, B, C](%f: fn (B) -> C, %g: fn (A) -> B) -> fn (A) -> C {
  fn (%x: A) -> C { %f(%g(%x)) }
}""",
    "choose": "def @choose[A](%c: bool, %x: A, %y: A) -> A { if (%c) { %x } else { %y } }",
}
SIZES = (10, 20, 40, 60)
"""How many compound expressions `main` may have: a fault shows in small programs too, and most are."""
SIZE_WEIGHTS = (40, 30, 20, 10)


def field_kinds(kind: Kind, name: str) -> tuple[Kind, ...]:
    """The types of a constructor's fields."""
    inner = kind.parts[0] if kind.parts else kind
    known = {"A": inner, "self": kind, "fn": Kind("fn", (tensor(INT), tensor(FLOAT)))}
    fields = dict(CONSTRUCTORS[kind.head])[name]
    return tuple(known.get(each, Kind(each)) for each in fields)


Scope = tuple[tuple[str, Kind], ...]


@dataclass
class Global:
    """A function of the module. `is_counted`: its first parameter is how often it may call itself."""

    name: str
    params: tuple[Kind, ...]
    result: Kind
    is_generic: bool = False
    is_counted: bool = False


@dataclass
class Maker:
    """Makes one program."""

    rng: random.Random
    functions: list[Global] = field(default_factory=list)
    number: int = 0
    budget: int = 60
    """How many compound expressions the function may still get."""
    size: int = 60
    """How many `main` may have."""

    def name(self) -> str:
        self.number += 1
        return self.rng.choice(("%a", "%b", "%c")) if self.rng.random() < 0.05 else f"%v{self.number}"

    # ---- types

    def kind(self, depth: int = 2, with_var: bool = False, first_order: bool = False) -> Kind:
        rng = self.rng
        if with_var and rng.random() < 0.4:
            return VAR
        choice = rng.random()
        if depth == 0 or choice < 0.55:
            return tensor(rng.choice(TENSORS))
        below = [self.kind(depth - 1, with_var, first_order) for _ in range(rng.choice((1, 2, 2, 3)))]
        if choice < 0.7:
            return Kind("tuple", tuple(below[: rng.randrange(len(below) + 1)]))
        if choice < 0.86 or first_order:
            head = rng.choice(("List", "Option", "Tree", "Shape"))
            return Kind(head, () if head == "Shape" else (below[0],))
        return Kind("fn", tuple(below))

    # ---- expressions

    def expr(self, kind: Kind, scope: Scope, depth: int) -> str:
        """An expression of a type."""
        rng = self.rng
        known = [name for name, other in scope if other == kind]
        self.budget -= 1
        if depth <= 0 or self.budget <= 0 or (known and rng.random() < 0.2):
            return rng.choice(known) if known and rng.random() < 0.8 else self.least(kind, scope)
        ways: list[Callable[[Kind, Scope, int], str | None]] = [
            self.let, self.let, self.let_cell, self.let_cell, self.branch, self.matched, self.matched,
            self.projected, self.called, self.called, self.helped, self.read, self.local_loop, self.shared,
        ]  # fmt: skip
        ways += [self.computed] * 14 if kind.is_tensor else [self.built] * 5
        for _ in range(4):
            made = rng.choice(ways)(kind, scope, depth - 1)
            if made is not None:
                return made
        return self.least(kind, scope)

    def least(self, kind: Kind, scope: Scope) -> str:
        """A small expression of a type."""
        known = [name for name, other in scope if other == kind]
        if known and (self.rng.random() < 0.7 or kind.head in ("A", "ref")):
            return self.rng.choice(known)
        if kind.head == "tuple":
            parts = [self.least(part, scope) for part in kind.parts]
            return f"({', '.join(parts)}{',' if len(parts) == 1 else ''})"
        if kind.head == "fn":
            return self.function(kind, scope, 0)
        if kind.head in CONSTRUCTORS:
            name = CONSTRUCTORS[kind.head][0][0]
            parts = [self.least(part, scope) for part in field_kinds(kind, name)]
            return self.made(kind, name, parts)
        return self.literal(kind.head)

    def literal(self, text: str) -> str:
        number = self.rng.randrange(-3, 10)
        scalars = {
            INT: str(number),
            LONG: f"{number}i64",
            FLOAT: f"{number}f",
            BOOL: self.rng.choice(("True", "False")),
        }
        if text in scalars:
            return scalars[text]
        if text == ROWS:
            return f'take({self.literal(FIXED)}, arange(0, {abs(number) % 3}, 1, dtype="int32"), axis=0)'
        if text == FLAGS:
            return 'zeros(shape=[2, 3], dtype="bool")'
        shape, dtype, value = ("[2, 3]", FLOAT, f"{number}f") if text == FIXED else ("[4]", INT, str(number))
        return f'full({value}, shape={shape}, dtype="{dtype}")'

    def made(self, kind: Kind, name: str, parts: list[str]) -> str:
        """A value of a data type; one without parts says of which."""
        if parts or not kind.parts:
            return f"{name}({', '.join(parts)})" if parts else name
        self.number += 1
        return f"{{ let %e{self.number}: {kind} = {name}; %e{self.number} }}"

    def let(self, kind: Kind, scope: Scope, depth: int) -> str:
        of, name = self.kind(2), self.name()
        if self.rng.random() < 0.25:
            of = Kind("fn", (*(self.kind(1) for _ in range(self.rng.randrange(3))), self.kind(1)))
        value = self.expr(of, tuple((n, k) for n, k in scope if n != name), depth)
        typed = f": {of}" if self.rng.random() < 0.4 or of.head in ("List", "Option", "Tree") else ""
        inner = (*((n, k) for n, k in scope if n != name), (name, of))
        return f"{{ let {name}{typed} = {value}; {self.expr(kind, inner, depth)} }}"

    def let_cell(self, kind: Kind, scope: Scope, depth: int) -> str:
        """A cell that is written, by itself or by a function, and read."""
        rng, name = self.rng, self.name()
        of = kind if rng.random() < 0.7 else self.kind(1, first_order=True)
        if of.holds("fn") or of.holds("Shape") or of.holds("A") or of.holds("ref"):
            of = tensor(rng.choice(TENSORS))
        inner = (*((n, k) for n, k in scope if n != name), (name, Kind("ref", (of,))))
        text = f"let {name}: ref({of}) = ref({self.expr(of, scope, depth - 1)}); "
        write = f"ref_write({name}, {self.expr(of, inner, depth - 1)})"
        choice = rng.random()
        if choice < 0.3:
            writer = self.name() + "w"
            text += f"let {writer} = fn () -> () {{ {write} }}; "
            inner = (*inner, (writer, Kind("fn", (Kind("tuple"),))))
            text += f"{writer}(); " if rng.random() < 0.7 else ""
        elif choice < 0.6:
            text += f"if ({self.expr(tensor(BOOL), inner, 1)}) {{ {write} }} else {{ () }}; "
        elif choice < 0.8:
            text += f"{write}; "
        if of == kind and rng.random() < 0.5:
            return f"{{ {text}ref_read({name}) }}"
        return f"{{ {text}{self.expr(kind, inner, depth)} }}"

    def shared(self, kind: Kind, scope: Scope, depth: int) -> str | None:
        """A pair of one value, which both branches have."""
        name = self.name()
        inner = (*((n, k) for n, k in scope if n != name), (name, kind))
        if kind.holds("A"):
            return None
        cond = self.expr(tensor(BOOL), inner, 1)
        one, other = (self.expr(kind, inner, depth - 1) for _ in range(2))
        value = self.expr(kind, tuple(each for each in scope if each[0] != name), depth)
        return f"{{ let {name}: {kind} = {value}; if ({cond}) {{ {one} }} else {{ {other} }} }}"

    def branch(self, kind: Kind, scope: Scope, depth: int) -> str:
        one, other = (self.expr(kind, scope, depth) for _ in range(2))
        return f"(if ({self.expr(tensor(BOOL), scope, depth - 1)}) {{ {one} }} else {{ {other} }})"

    def pattern(self, kind: Kind, depth: int) -> tuple[str, list[tuple[str, Kind]], bool]:
        """A pattern, what it binds, and whether it fits every value."""
        rng = self.rng
        if depth == 0 or rng.random() < 0.35 or kind.head not in (*CONSTRUCTORS, "tuple"):
            if rng.random() < 0.25:
                return "_", [], True
            name = f"%p{self.number}"
            self.number += 1
            return name, [(name, kind)], True
        name, kinds = ("", kind.parts)
        if kind.head != "tuple":
            name = rng.choice(CONSTRUCTORS[kind.head])[0]
            kinds = field_kinds(kind, name)
        inner = [self.pattern(part, depth - 1) for part in kinds]
        texts = ", ".join(text for text, _, _ in inner)
        bound = [item for _, items, _ in inner for item in items]
        if kind.head == "tuple":
            text = f"({texts}{',' if len(inner) == 1 else ''})"
            return text, bound, all(fits for *_, fits in inner)
        return (f"{name}({texts})" if inner else name), bound, False

    def matched(self, kind: Kind, scope: Scope, depth: int) -> str:
        rng = self.rng
        known = [item for item in scope if item[1].head in (*CONSTRUCTORS, "tuple")]
        if known and rng.random() < 0.7:
            data, of = rng.choice(known)
        else:
            of = self.kind(2, first_order=True)
            if of.head not in (*CONSTRUCTORS, "tuple"):
                of = Kind(rng.choice(("List", "Option", "Tree")), (of,))
            data = self.expr(of, scope, depth - 1)
        clauses = []
        for _ in range(rng.choice((0, 1, 1, 2))):
            text, bound, _ = self.pattern(of, 2)
            clauses.append(f"{text} => {self.block(kind, (*scope, *bound), depth)}")
        if of.head in CONSTRUCTORS and rng.random() < 0.7:
            for name, _ in CONSTRUCTORS[of.head]:
                kinds = field_kinds(of, name)
                names = [f"%p{self.number + place}" for place in range(len(kinds))]
                self.number += len(kinds)
                text = f"{name}({', '.join(names)})" if names else name
                bound = list(zip(names, kinds, strict=True))
                clauses.append(f"{text} => {self.block(kind, (*scope, *bound), depth)}")
        else:
            clauses.append(f"_ => {self.block(kind, scope, depth)}")
        return f"(match ({data}) {{ {', '.join(clauses)} }})"

    def block(self, kind: Kind, scope: Scope, depth: int) -> str:
        return self.expr(kind, scope, depth)

    def projected(self, kind: Kind, scope: Scope, depth: int) -> str | None:
        places = [
            (name, place)
            for name, of in scope
            if of.head == "tuple"
            for place, part in enumerate(of.parts)
            if part == kind
        ]
        if places:
            name, place = self.rng.choice(places)
            return f"{name}.{place}"
        if self.rng.random() < 0.5:
            return None
        parts = [self.kind(1) for _ in range(self.rng.randrange(1, 3))]
        place = self.rng.randrange(len(parts) + 1)
        whole = Kind("tuple", (*parts[:place], kind, *parts[place:]))
        return f"({self.expr(whole, scope, depth)}).{place}"

    def called(self, kind: Kind, scope: Scope, depth: int) -> str | None:
        """A call of a variable, of a function of the module, or of an expression."""
        rng = self.rng
        calls = [(name, of.parts[:-1]) for name, of in scope if of.head == "fn" and of.parts[-1] == kind]
        if calls and rng.random() < 0.6:
            name, params = rng.choice(calls)
            return f"{name}({', '.join(self.expr(param, scope, depth - 1) for param in params)})"
        fitting = [func for func in self.functions if func.result == kind and not func.is_generic]
        if fitting and rng.random() < 0.8:
            func = rng.choice(fitting)
            args = [self.expr(param, scope, depth - 1) for param in func.params]
            if func.is_counted:
                args[0] = str(rng.randrange(4))
            return f"@{func.name}({', '.join(args)})"
        generic = [func for func in self.functions if func.is_generic]
        if generic and not kind.holds("A") and rng.random() < 0.5:
            func = rng.choice(generic)
            with_type = lambda of: kind if of == VAR else Kind(of.head, tuple(map(with_type, of.parts)))  # noqa: E731
            if with_type(func.result) == kind:
                args = [self.expr(with_type(param), scope, depth - 1) for param in func.params]
                return f"@{func.name}({', '.join(args)})"
        if kind.holds("A") and rng.random() < 0.7:
            return None
        params = tuple(self.kind(1) for _ in range(rng.randrange(3)))
        of = Kind("fn", (*params, kind))
        args = [self.expr(param, scope, depth - 1) for param in params]
        return f"{self.function(of, scope, depth)}({', '.join(args)})"

    def helped(self, kind: Kind, scope: Scope, depth: int) -> str | None:
        """A call of one of the generic functions that every program has."""
        rng = self.rng
        choice = rng.randrange(5)
        if choice == 0:
            name, items = Kind("fn", (kind, kind)), self.expr(kind, scope, depth - 1)
            return f"@twice({self.expr(name, scope, depth - 1)}, {items})"
        if choice == 1:
            one, other = (self.expr(kind, scope, depth - 1) for _ in range(2))
            return f"@choose({self.expr(tensor(BOOL), scope, depth - 1)}, {one}, {other})"
        if kind.head == "List" and choice <= 3:
            of = self.kind(1, first_order=True)
            step = self.expr(Kind("fn", (of, kind.parts[0])), scope, depth - 1)
            return f"@map({step}, {self.expr(Kind('List', (of,)), scope, depth - 1)})"
        if kind.head == "fn" and len(kind.parts) == 2:
            of = self.kind(1)
            outer = self.expr(Kind("fn", (of, kind.parts[1])), scope, depth - 1)
            return f"@compose({outer}, {self.expr(Kind('fn', (kind.parts[0], of)), scope, depth - 1)})"
        of = self.kind(1, first_order=True)
        step = self.expr(Kind("fn", (kind, of, kind)), scope, depth - 1)
        start = self.expr(kind, scope, depth - 1)
        return f"@fold({step}, {start}, {self.expr(Kind('List', (of,)), scope, depth - 1)})"

    def read(self, kind: Kind, scope: Scope, depth: int) -> str | None:
        """A cell is written or read on the way."""
        cells = [(name, of.parts[0]) for name, of in scope if of.head == "ref"]
        if not cells:
            return None
        same = [name for name, of in cells if of == kind]
        if same and self.rng.random() < 0.6:
            return f"ref_read({self.rng.choice(same)})"
        name, of = self.rng.choice(cells)
        return f"{{ ref_write({name}, {self.expr(of, scope, depth - 1)}); {self.expr(kind, scope, depth)} }}"

    def local_loop(self, kind: Kind, scope: Scope, depth: int) -> str | None:
        """A local function that calls itself as often as a number says."""
        if kind.head in ("A", "fn") or self.rng.random() < 0.3:
            return None
        loop, count, acc = self.name() + "l", f"%n{self.number}", f"%acc{self.number}"
        inner = (*scope, (acc, kind))
        body = self.expr(kind, inner, depth - 1)
        after = f"{loop}({count} - 1, {body})"
        if self.rng.random() < 0.4:  # not the last step
            name = self.name()
            after = f"{{ let {name}: {kind} = {loop}({count} - 1, {acc}); "
            known = (*(each for each in inner if each[0] != name), (name, kind))
            after += f"{self.expr(kind, known, depth - 1)} }}"
        body = f"if ({count} <= 0) {{ {acc} }} else {{ {after} }}"
        function = f"fn ({count}: int32, {acc}: {kind}) -> {kind} {{ {body} }}"
        start = self.expr(kind, scope, depth - 1)
        return f"{{ let {loop} = {function}; {loop}({self.rng.randrange(4)}, {start}) }}"

    def function(self, kind: Kind, scope: Scope, depth: int) -> str:
        names = [f"%x{self.number + place}" for place in range(len(kind.parts) - 1)]
        self.number += len(names)
        inner = (*scope, *zip(names, kind.parts[:-1], strict=True))
        params = ", ".join(f"{name}: {of}" for name, of in zip(names, kind.parts, strict=False))
        return f"fn ({params}) -> {kind.parts[-1]} {{ {self.expr(kind.parts[-1], inner, depth)} }}"

    def built(self, kind: Kind, scope: Scope, depth: int) -> str | None:
        """A value of its parts."""
        if kind.head == "tuple":
            parts = [self.expr(part, scope, depth) for part in kind.parts]
            return f"({', '.join(parts)}{',' if len(parts) == 1 else ''})"
        if kind.head == "fn":
            return self.function(kind, scope, depth)
        if kind.head in CONSTRUCTORS:
            name = self.rng.choice(CONSTRUCTORS[kind.head])[0]
            parts = [self.expr(part, scope, depth - 1) for part in field_kinds(kind, name)]
            return self.made(kind, name, parts)
        return None

    # ---- operators

    def computed(self, kind: Kind, scope: Scope, depth: int) -> str:
        rng, text = self.rng, kind.head

        def of(other: str) -> str:
            return self.expr(tensor(other), scope, depth)

        if text == BOOL:
            return rng.choice(
                (
                    lambda: f"({of(INT)} < {of(INT)})",
                    lambda: f"({of(FLOAT)} >= {of(FLOAT)})",
                    lambda: f"({of(LONG)} == {of(LONG)})",
                    lambda: f"logical_and({of(BOOL)}, {of(BOOL)})",
                    lambda: f"logical_not({of(BOOL)})",
                    lambda: f"any({of(FLAGS)})",
                    lambda: f"all({of(INTS)} == {of(INTS)})",
                )
            )()
        if text in (INT, LONG, INTS):
            ways = [
                lambda: f"({of(text)} {rng.choice('+-*')} {of(text)})",
                lambda: f"{rng.choice(('maximum', 'minimum'))}({of(text)}, {of(text)})",
                lambda: f"{rng.choice(('bitwise_xor', 'bitwise_and'))}({of(text)}, {of(text)})",
                lambda: f"negative({of(text)})",
            ]
            if text == INT:
                ways += [
                    lambda: f"take(shape_of({of(ROWS)}), 0)",
                    lambda: f"sum({of(INTS)})",
                    lambda: f'cast({of(rng.choice((FLOAT, LONG, BOOL)))}, dtype="int32")',
                    lambda: f"floor_mod({of(INT)}, {rng.randrange(1, 9)})",
                ]
            elif text == LONG:
                ways.append(lambda: f'cast({of(rng.choice((FLOAT, INT, BOOL)))}, dtype="int64")')
            else:
                ways += [lambda: f"({of(INTS)} + {of(INT)})", lambda: f"cumsum({of(INTS)}, axis=0)"]
                ways.append(lambda: f"where({of(INTS)} < {of(INTS)}, {of(INTS)}, {of(INTS)})")
            return rng.choice(ways)()
        if text == FLAGS:
            return rng.choice(
                (
                    lambda: f"({of(FIXED)} {rng.choice(('<', '=='))} {of(FIXED)})",
                    lambda: f"logical_or({of(FLAGS)}, {of(FLAGS)})",
                    lambda: f"logical_xor({of(FLAGS)}, {of(BOOL)})",
                )
            )()
        other = FLOAT if text == ROWS else text  # numbers of rows may differ
        clipped = "clip({}, a_min=-999f, a_max=999f)"
        ways = [
            lambda: clipped.format(f"({of(text)} {rng.choice('+-*')} {of(other)})"),
            lambda: clipped.format(f"({of(text)} {rng.choice('+-*')} {of(FLOAT)})"),
            lambda: f"{rng.choice(('maximum', 'minimum'))}({of(text)}, {of(other)})",
            lambda: f"{rng.choice(('negative', 'abs', 'nn.relu', 'sign'))}({of(text)})",
        ]
        if text == FLOAT:
            ways += [
                lambda: clipped.format(f"sum({of(rng.choice((ROWS, FIXED)))})"),
                lambda: f'cast(floor_mod({of(INT)}, 100), dtype="float32")',
                lambda: f"max({of(FIXED)})",
            ]
        elif text == ROWS:
            ways += [
                lambda: (
                    f"strided_slice(concatenate(({of(ROWS)}, {of(rng.choice((ROWS, FIXED)))}), axis=0), "
                    "begin=[0, 0], end=[5, 3])"
                ),
                lambda: f"reverse({of(ROWS)}, axis=0)",
                lambda: (
                    f"take({of(ROWS)}, arange(0, minimum({of(INT)}, take(shape_of({of(ROWS)}), 0)) * 0, 1, "
                    'dtype="int32"), axis=0)'
                ),
            ]
        else:
            ways += [
                lambda: clipped.format(f'nn.dense({of(FIXED)}, zeros(shape=[3, 3], dtype="float32"))'),
                lambda: f"where({of(FLAGS)}, {of(FIXED)}, {of(FIXED)})",
                lambda: f"reshape(transpose({of(FIXED)}), newshape=[2, 3])",
                lambda: f"clip({of(FIXED)} + sum({of(ROWS)}, axis=[0]), a_min=-999f, a_max=999f)",
            ]
        return rng.choice(ways)()

    # ---- the module

    def definition(self, place: int) -> str:
        """A function of the module: generic, counted, one of a pair that call each other, or plain."""
        rng, choice = self.rng, self.rng.random()
        self.budget = min(25, self.size)
        if choice < 0.25:
            params = (VAR, *(self.kind(2, True) for _ in range(rng.randrange(1, 3))), Kind("fn", (VAR, VAR)))
            params = tuple(param for param in params if not param.holds("ref"))
            result = rng.choice((VAR, self.kind(2, True)))
            func = Global(f"g{place}", params, result, is_generic=True)
            if not any(part.holds("A") for part in (result,)):
                func.result = result = VAR
            self.functions.append(func)
            return self._define(func, "[A]", 4)
        params = tuple(self.kind(2) for _ in range(rng.randrange(1, 4)))
        result = self.kind(2)
        if choice < 0.5:
            func = Global(f"f{place}", params, result)
            text = self._define(func, "", 4)
            self.functions.append(func)
            return text
        funcs = [Global(f"r{place}", (tensor(INT), *params), result, is_counted=True)]
        if choice > 0.8:
            funcs.append(Global(f"s{place}", (tensor(INT), *params), result, is_counted=True))
        texts = [self._recursive(func, funcs) for func in funcs]
        self.functions += funcs
        return "\n\n".join(texts)

    def _define(self, func: Global, variables: str, depth: int) -> str:
        names = [f"%{func.name}{place}" for place in range(len(func.params))]
        others, self.functions = self.functions, [other for other in self.functions if other is not func]
        body = self.expr(func.result, tuple(zip(names, func.params, strict=True)), depth)
        self.functions = others
        params = ", ".join(f"{name}: {of}" for name, of in zip(names, func.params, strict=True))
        return f"def @{func.name}{variables}({params}) -> {func.result} {{\n  {body}\n}}"

    def _recursive(self, func: Global, funcs: list[Global]) -> str:
        names = [f"%{func.name}{place}" for place in range(len(func.params))]
        scope = tuple(zip(names, func.params, strict=True))
        base = self.expr(func.result, scope, 2)
        args = [self.expr(param, scope, 2) for param in func.params[1:]]
        callee = self.rng.choice(funcs)
        call = f"@{callee.name}({', '.join((names[0] + ' - 1', *args))})"
        inner = (*scope, ("%again", func.result))
        rest = self.expr(func.result, inner, 2) if self.rng.random() < 0.6 else "%again"
        step = call if self.rng.random() < 0.3 else f"let %again: {func.result} = {call}; {rest}"
        params = ", ".join(f"{name}: {of}" for name, of in zip(names, func.params, strict=True))
        head = f"def @{func.name}({params}) -> {func.result}"
        return f"{head} {{\n  if ({names[0]} <= 0) {{ {base} }} else {{ {step} }}\n}}"


MAIN = (("%x", ROWS), ("%y", FIXED), ("%i", INT), ("%k", LONG), ("%t", FLOAT), ("%c", BOOL), ("%v", INTS))


def random_text(seed: int) -> str:
    """A program; `main` takes what MAIN says and gives a tuple. Most have the types and helpers alone that
    they name."""
    rng = random.Random(seed)
    size = rng.choices(SIZES, SIZE_WEIGHTS)[0]
    maker = Maker(rng, size=size)
    parts = [maker.definition(place) for place in range(rng.randrange(4 if size > 10 else 2))]
    maker.budget = size
    results = tuple(maker.kind(2, first_order=True) for _ in range(rng.choice((1, 2, 3))))
    results = tuple(tensor(INT) if each.holds("Shape") else each for each in results)
    scope = tuple((name, tensor(text)) for name, text in MAIN)
    body = maker.expr(Kind("tuple", results), scope, 6)
    params = ", ".join(f"{name}: {text}" for name, text in MAIN)
    parts.append(f"def @main({params}) -> {Kind('tuple', results)} {{\n  {body}\n}}")
    text, whole = "\n\n".join(parts), rng.random() < 0.1
    helpers = [each for name, each in HELPERS.items() if whole or f"@{name}(" in text]
    text = "\n\n".join((*helpers, text))
    types = [
        each
        for name, each in TYPES.items()
        if whole or re.search(rf"\b({name}|{'|'.join(c for c, _ in CONSTRUCTORS[name])})\b", text)
    ]
    return "\n".join((VERSION, *types, "", text, ""))
