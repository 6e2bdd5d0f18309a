"""Code of users that passes call: whose fault an exception is, and what a hook gives."""

from __future__ import annotations

import inspect
import os
import reprlib
import sysconfig
import traceback
from collections.abc import Callable
from types import NoneType
from typing import Any, get_args

from heddle.ir.codes import I0506
from heddle.support.diagnostics import UsageError

_HEDDLE = os.path.dirname(os.path.dirname(__file__)) + os.sep
_LIBRARIES = tuple({sysconfig.get_path(key) + os.sep for key in ("stdlib", "purelib", "platlib")})


def places_of(error: BaseException) -> tuple[str, ...]:
    """Where in the user's code an exception came from, or went into Heddle's, as a note; none where it passed
    no such code."""
    frames = traceback.extract_tb(error.__traceback__)
    own = [frame for frame in frames if not frame.filename.startswith(_HEDDLE)]
    return tuple(f"at {found.filename}:{found.lineno} in {found.name}" for found in own[-1:])


def is_from_users_code(error: BaseException) -> bool:
    """Whether the code that raised an exception, or called the library that did, is not Heddle's."""
    for frame in reversed(traceback.extract_tb(error.__traceback__)):
        name = frame.filename
        if name.startswith(_HEDDLE) or name == "<string>":  # methods of Heddle's dataclasses
            return False
        if not name.startswith((*_LIBRARIES, "<frozen")):
            return True
    return False


def given_by(hook: Callable[..., Any], what: str, kind: Any, *args: Any) -> Any:
    """What a user's hook gives, of a class or of one of a union. `what` names the hook. Raises: UsageError
    I0506 for anything else."""
    try:
        inspect.signature(hook).bind(*args)
    except TypeError as error:  # another number of parameters
        raise UsageError(I0506, f"{what}: {error}", notes=(f"at {_place(hook)}",)) from None
    except ValueError:  # what is written in C may not tell its parameters
        pass
    made = hook(*args)
    if isinstance(made, kind):
        return made
    wanted = " or ".join("None" if item is NoneType else item.__name__ for item in get_args(kind) or (kind,))
    text = f"{what} gave a {type(made).__name__}, expected {wanted}: {reprlib.repr(made)}"
    raise UsageError(I0506, text, notes=(f"at {_place(hook)}",))


def _place(hook: Any) -> str:
    code = getattr(hook, "__code__", None)
    return repr(hook) if code is None else f"{code.co_filename}:{code.co_firstlineno} in {code.co_name}"
