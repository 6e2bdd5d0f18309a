"""Coded messages with a place, and the exceptions that carry them.

A `Code` is declared once, in the `codes.py` of the room that raises it; `docs/diagnostics.md` is generated
from the declarations. The rendered form is

    error[R0203]: matmul inner dimensions differ: expected 64, got 32
      --> model.onnx node "fc2" (MatMul)
      note: ...
      help: ...
"""

from __future__ import annotations

import sys
from collections.abc import Iterable
from dataclasses import field, replace

from heddle.support.frozen import frozen
from heddle.support.span import Span, ambient_span, places_text


@frozen
class Code:
    """`name` is a room's letter and four digits; `meaning` is the page's text on what causes it and what
    helps.
    """

    name: str
    title: str
    meaning: str
    declared_at: str = field(compare=False)


CODES: dict[str, Code] = {}


def declare_code(name: str, title: str, meaning: str) -> Code:
    """Add a code to the table that `docs/diagnostics.md` lists. A name taken twice is refused with both
    places.
    """
    frame = sys._getframe(
        1
    )  # inspect.stack() reads every source file on the stack: a millisecond a declaration
    here = f"{frame.f_code.co_filename}:{frame.f_lineno}"
    if name in CODES:
        raise ValueError(f"diagnostic code {name} is declared twice: {CODES[name].declared_at} and {here}")
    CODES[name] = Code(name, title, meaning, here)
    return CODES[name]


@frozen
class Diagnostic:
    """One finding. The message says what was expected and what was got, in the user's words, lower case, no
    full stop.
    """

    code: Code
    message: str
    span: Span | None = None
    notes: tuple[str, ...] = ()
    help: str | None = None
    severity: str = "error"

    def render(self) -> str:
        """The message as text of several lines: code, place, excerpt, notes, hint."""
        lines = [f"{self.severity}[{self.code.name}]: {self.message}"]
        if self.span is not None:
            lines.append(f"  --> {self.span.place()}")
            lines += [f"    {line}" for line in self.span.excerpt()]
        lines += [f"  note: {note}" for note in self.notes]
        if self.help:
            lines.append(f"  help: {self.help}")
        return "\n".join(lines)


class HeddleError(Exception):
    """The base of everything Heddle raises. `diagnostics` holds at least one finding; `code` is the first
    one's.
    """

    def __init__(
        self,
        code: Code | Iterable[Diagnostic],
        message: str = "",
        *,
        span: Span | None = None,
        notes: Iterable[str] = (),
        help: str | None = None,
    ) -> None:
        if isinstance(code, Code):
            where = span if span is not None else ambient_span()
            self.diagnostics: tuple[Diagnostic, ...] = (Diagnostic(code, message, where, tuple(notes), help),)
        else:
            self.diagnostics = tuple(code)
        super().__init__(self.render())

    @property
    def code(self) -> str:
        """The code of the first message, such as "R0308"."""
        return self.diagnostics[0].code.name

    def add_place(self, what: str, span: Span | None) -> None:
        """Say once where it happened: in `what` of a program, which comes from `span`. The first place is
        shown as that of the failure, others in notes.
        """
        first, *rest = self.diagnostics
        place = places_text(span)
        note = f"{what}, which comes from {place}" if place else what
        if what in first.notes or note in first.notes:
            return
        if first.span is None and span is not None:
            first, note = replace(first, span=span), what
        self.diagnostics = (replace(first, notes=(*first.notes, note)), *rest)
        self.args = (self.render(),)

    def render(self) -> str:
        """All messages as text."""
        return "\n".join(diagnostic.render() for diagnostic in self.diagnostics)


class HeddleWarning(UserWarning):
    """Something that a program goes on without. The text is a rendered diagnostic."""


class ParseError(HeddleError, ValueError):
    """A text that is not a program of the dialect it claims to be."""


class IRTypeError(HeddleError, TypeError):
    """Values whose types, shapes or dtypes do not fit together."""


class VerifyError(HeddleError, ValueError):
    """A program that breaks a rule of its dialect or stage."""


class ImportModelError(HeddleError, ValueError):
    """A model that cannot be imported."""


class FormatError(HeddleError, ValueError):
    """A file that is damaged, of another format, or of an unknown version."""


class UsageError(HeddleError, ValueError):
    """An argument, option or name that a call cannot accept."""


class MissingNameError(HeddleError, AttributeError):
    """A function, attribute or entry that does not exist."""


class MissingDependencyError(HeddleError, ImportError):
    """An optional package that this feature needs and that is not installed."""


class InterpreterError(HeddleError, ImportError):
    """An interpreter of Python whose objects native code does not know."""


class Trap(HeddleError, RuntimeError):
    """A failure while a compiled program runs: a violated check, an exhausted limit, a failed call."""


class TrapValueError(Trap, ValueError):
    """A trap about the value or shape of an argument."""


class TrapTypeError(Trap, TypeError):
    """A trap about the type of an argument."""


class TrapIndexError(Trap, IndexError):
    """A trap about an index out of range."""


class InternalError(HeddleError, RuntimeError):
    """A bug of ours; the message names the pass and where the reproduction bundle lies."""


def nearest(name: object, known: Iterable[str]) -> str | None:
    """The known name most like `name`, if one is near enough to suggest. None where it is no name."""
    from difflib import get_close_matches  # for errors alone

    if not isinstance(name, str):
        return None
    found = get_close_matches(name, list(known), n=1, cutoff=0.6)
    return found[0] if found else None


def did_you_mean(name: object, known: Iterable[str]) -> str | None:
    """A help line for a misspelt name, or None."""
    near = nearest(name, known)
    return f"did you mean {near!r}?" if near else None
