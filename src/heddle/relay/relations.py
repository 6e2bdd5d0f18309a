"""Relations between types that wait until enough is known.

A relation of an operator's call gives the result from the arguments, or from some arguments the others; one
of a projection gives the field. One that cannot go on waits for the incomplete types that it met, so that
each is tried again only after one of them was found.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from heddle.ir.attrs import Attrs
from heddle.ir.expr import Call, TupleGetItem
from heddle.ir.node import said_by
from heddle.ir.op import OP_RECORDS, Op
from heddle.ir.structural import structural_equal
from heddle.ir.types import TupleType, Type
from heddle.ir.visitor import walk_distinct
from heddle.relay.codes import Q0301, Q0310
from heddle.relay.expand import fitting, given_arguments, placeholder, relay_words, result_type
from heddle.relay.nodes import IncompleteType
from heddle.relay.op import full_attrs, lookup
from heddle.relay.text_values import type_text
from heddle.relay.unify import Mismatch, Unifier, is_complete
from heddle.support.diagnostics import Diagnostic, HeddleError
from heddle.support.span import at

_RULES = {
    "element types differ": "the data types of the arguments do not match",
    "do not broadcast": "Incompatible broadcast type",
}
"""What TVM's relations say where an operator's rule says so: users look for it."""


@dataclass(slots=True, eq=False)
class Relation:
    """`known` are the arguments' types that it was solved with."""

    expr: Any
    args: list[Type]
    result: Type
    known: tuple[Type, ...] | None = None
    has_failed: bool = False


def _callee(call: Call) -> str:
    assert isinstance(call.op, Op)
    return call.op.name


_ABOUT_ARGUMENTS = ("R0201", "R0205", "I0403")


def _in_words_of(call: Call, finding: Diagnostic) -> Diagnostic:
    """What is wrong with a call of shared operators, with Relay's name for the first word, and with the
    parameters where one of them is missing or wrong."""
    own, message, help = _callee(call), finding.message, finding.help
    name, colon, rest = message.partition(": ")
    if colon and f"relax.{name}" in OP_RECORDS:
        message = f"{own}: {rest}"
    if help is None and finding.code.name in _ABOUT_ARGUMENTS:
        record, alias = lookup(own)
        names = [spec.name for spec in alias.inputs_of(record)]
        names += [spec.name for spec in alias.attrs_of(record)]
        help = f"the parameters are {own}({', '.join(names)})"
    return replace(finding, message=message, help=help)


class Relations:
    """The relations of one inference; `report` takes what is wrong."""

    def __init__(self, report: Callable[[Diagnostic], None]) -> None:
        self.unifier = Unifier(self._bound)
        self.all: list[Relation] = []
        self._report = report
        self._waiting: dict[IncompleteType, list[Relation]] = defaultdict(list)
        self._ready: list[Relation] = []
        self._results: dict[Any, Type] = {}

    def add(self, expr: Any, args: list[Type]) -> Type:
        """A relation of a call or projection; gives the type of its result."""
        relation = Relation(expr, args, IncompleteType(span=None))
        self.all.append(relation)
        self._ready.append(relation)
        self.solve()
        return self.unifier.root(relation.result)

    def solve(self) -> None:
        """Go on with all that can go on."""
        while self._ready:
            relation = self._ready.pop()
            if relation.known is None and not relation.has_failed:
                self._try(relation)

    def settle(self) -> None:
        """Solve again what was solved with types that changed since: a dimension became unknown."""
        for _ in range(len(self.all) + 1):
            self.solve()
            changed = [relation for relation in self.all if self._has_changed(relation)]
            if not changed:
                return
            for relation in changed:
                relation.known = None
            self._ready += changed

    def _has_changed(self, relation: Relation) -> bool:
        if relation.known is None or relation.has_failed:
            return False
        now = [self.unifier.resolve(arg) for arg in relation.args]
        return any(
            a is not b and not structural_equal(a, b) for a, b in zip(now, relation.known, strict=True)
        )

    def _bound(self, var: IncompleteType) -> None:
        self._ready += self._waiting.pop(var, ())

    def _try(self, relation: Relation) -> None:
        args = [self.unifier.resolve(arg) for arg in relation.args]
        try:
            with at(relation.expr.span), said_by(relay_words):
                is_call = isinstance(relation.expr, Call)
                found = self._call(relation, args) if is_call else self._field(relation.expr, args[0])
            if found is None:
                self._wait(relation)
                return
            relation.known = tuple(args)
            self.unifier.unify(relation.result, found)
        except Mismatch as error:
            message = f"expected {self._text(error.lhs)}, got {self._text(error.rhs)}"
            self._fail(relation, Diagnostic(Q0301, message, relation.expr.span, (error.reason,)))
        except HeddleError as error:
            for found_error in error.diagnostics:
                self._fail(relation, found_error)

    def _fail(self, relation: Relation, finding: Diagnostic) -> None:
        relation.has_failed = True
        notes = finding.notes
        if isinstance(relation.expr, Call):
            shown = ", ".join(self._text(arg) for arg in relation.args)
            rules = (text for begin, text in _RULES.items() if begin in finding.message)
            notes = (*notes, *rules, f"the call is {_callee(relation.expr)}({shown})")
            finding = _in_words_of(relation.expr, finding)
        self._report(replace(finding, span=finding.span or relation.expr.span, notes=notes))

    def _text(self, ty: Type) -> str:
        return type_text(self.unifier.resolve(ty))

    def _wait(self, relation: Relation) -> None:
        for arg in relation.args:
            for node in walk_distinct(self.unifier.resolve(arg)):
                if isinstance(node, IncompleteType):
                    self._waiting[node].append(relation)

    @staticmethod
    def _field(expr: TupleGetItem, ty: Type) -> Type | None:
        if isinstance(ty, IncompleteType):
            return None
        if not isinstance(ty, TupleType):
            message, help = (
                f"only a tuple has fields, got {type_text(ty)}",
                "take gives an element of a tensor",
            )
        elif not 0 <= expr.index < len(ty.fields):
            message = f"field {expr.index} of a tuple of {len(ty.fields)} fields"
            help = "fields are counted from 0"
        else:
            return ty.fields[expr.index]
        raise HeddleError(Q0310, message, span=expr.span, help=help)

    # ---- operators

    def _call(self, relation: Relation, args: list[Type]) -> Type | None:
        attrs, name = full_attrs(relation.expr), _callee(relation.expr)
        if not all(is_complete(ty) for ty in args):
            self._derive(relation, args, attrs)
            args[:] = [self.unifier.resolve(arg) for arg in relation.args]
            if not all(is_complete(ty) for ty in args):
                return None
        key = self._key(name, args, attrs)
        found = self._results.get(key) if key is not None else None
        if found is None:
            found = result_type(name, args, attrs)
            if key is not None:
                self._results[key] = found
        return found

    @staticmethod
    def _key(name: str, args: list[Type], attrs: Attrs) -> Any:
        """Equal for calls of equal results; None where that is not easily told."""
        parts: list[Any] = [name]
        for ty in args:
            if not getattr(ty, "is_static", False):
                return None
            parts.append((ty.static_shape(), ty.dtype))  # type: ignore[attr-defined]
        values = tuple(attrs.items())
        try:
            hash(values)
        except TypeError:
            return None
        return (*parts, repr(values))

    def _derive(self, relation: Relation, args: list[Type], attrs: Attrs) -> None:
        """Find arguments' types that follow from others."""
        record, alias = lookup(_callee(relation.expr))
        if not alias.derived:
            return
        holders = [placeholder(ty) if is_complete(ty) else None for ty in args]
        given = given_arguments(record, alias, holders, attrs)
        for place, (spec, holder) in enumerate(zip(alias.inputs_of(record), holders, strict=False)):
            if spec.name in alias.derived and holder is None:
                with fitting(alias.name):
                    found = alias.derived[spec.name](given)
                if found is not None:
                    self.unifier.unify(relation.args[place], found)
