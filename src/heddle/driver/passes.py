"""Passes by name, and their text form such as `FuseOps` or `UnrollLoop(auto_max_step=4)`.

The text is a Python call with literal arguments. It is parsed, never executed.
"""

from __future__ import annotations

import ast
import inspect
import pkgutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache
from importlib import import_module
from typing import Any, get_type_hints

from heddle.codegen.pipeline import lowering_passes
from heddle.driver.codes import D0302, D0303
from heddle.driver.pipeline import default_pipeline, finalize_passes, legalize_passes, optimize_passes
from heddle.ir.pass_options import fits, type_text
from heddle.ir.transform import Pass, Sequential
from heddle.support.diagnostics import HeddleError, UsageError, did_you_mean
from heddle.support.syntax import parse_expression
from heddle.target import Target

_PASS_PACKAGES = ("heddle.relax", "heddle.lower", "heddle.tir", "heddle.relay")
_RELAY = "relay."
"""The name prefix of a Relay pass, if there is another pass of the same name."""
_TARGET = "target"
"""The pass option that is the compilation's target. It cannot be given in a pass's text."""
NAMED_PIPELINES: Mapping[str, Callable[[Target], tuple[Pass, ...]]] = {
    "default": lambda target: default_pipeline(target).passes,
    "optimize": optimize_passes,
    "legalize": legalize_passes,
    "finalize": finalize_passes,
    "lower": lowering_passes,
}
"""`default` is what `heddle.compile` runs on a graph: the next three pipelines in order. `lower` brings
scheduled loop functions into the form that the code generator accepts."""


def modules_below(package: str) -> Iterator[str]:
    """Yield the names of all modules of a package, sorted."""
    try:
        root = import_module(package)
    except ModuleNotFoundError:
        return
    for found in pkgutil.walk_packages(root.__path__, package + "."):
        yield found.name


@cache
def pass_classes() -> Mapping[str, type[Pass]]:
    """Return all passes by name, sorted. Helper classes that are not passes by themselves are excluded."""
    found: dict[str, type[Pass]] = {}
    for package in _PASS_PACKAGES:
        for name in modules_below(package):
            for value in vars(import_module(name)).values():
                is_pass = isinstance(value, type) and issubclass(value, Pass) and value.__module__ == name
                if is_pass and not inspect.isabstract(value):
                    is_taken = value.__name__ in found
                    found[f"{_RELAY}{value.__name__}" if is_taken else value.__name__] = value
    return {name: found[name] for name in sorted(found)}


def pass_class(name: str) -> type[Pass]:
    """Return the pass class with a name. Raises: UsageError D0302."""
    known = pass_classes()
    if name not in known:
        raise UsageError(
            D0302, f"no pass is called {name!r}", help=did_you_mean(name, known) or "--list shows all passes"
        )
    return known[name]


def pipeline_passes(name: str, target: Target) -> tuple[Pass, ...]:
    """Return the passes of a pipeline in order. Raises: UsageError D0302."""
    if name not in NAMED_PIPELINES:
        raise UsageError(
            D0302,
            f"no pipeline is called {name!r}: expected one of {', '.join(NAMED_PIPELINES)}",
            help=did_you_mean(name, NAMED_PIPELINES),
        )
    return NAMED_PIPELINES[name](target)


def steps_of(steps: Sequence[Pass]) -> tuple[Pass, ...]:
    """Return the passes in execution order, with sequences expanded."""
    return tuple(
        inner
        for step in steps
        for inner in (steps_of(step.passes) if isinstance(step, Sequential) else (step,))
    )


# ---- passes from text


def pass_name(cls: type[Pass]) -> str:
    """The name under which a pass is found."""
    return next(name for name, each in pass_classes().items() if each is cls)


def pass_signature(cls: type[Pass]) -> str:
    """Return a pass with its options in text form: `UnrollLoop(auto_max_step=0)`."""
    shown = []
    for name, param in inspect.signature(cls).parameters.items():
        if name == _TARGET:
            continue
        is_shown = param.default is not param.empty and _is_literal(param.default)
        shown.append(f"{name}={param.default!r}" if is_shown else f"{name}=...")
    name = pass_name(cls)
    return f"{name}({', '.join(shown)})" if shown else name


def read_pass(text: str, target: Target) -> Pass:
    """Parse a pass: a name, or a call with literal keyword arguments. A pass that needs a target gets
    `target`.

    Raises: UsageError D0302 for an unknown name, D0303 for another form of text and for invalid options; the
    errors of the pass for invalid values.
    """
    name, options = _read_call(text)
    cls = pass_class(name)
    params = inspect.signature(cls).parameters
    own = [key for key in params if key != _TARGET]
    hints = get_type_hints(cls.__init__)
    given: dict[str, Any] = {_TARGET: target} if _TARGET in params else {}
    for key, value in options.items():
        if key not in own:
            help = did_you_mean(key, own) or ("give the target with --target" if key == _TARGET else None)
            expected = ", ".join(own) or "none"
            raise UsageError(D0303, f"pass {name} has no option {key!r}: it has {expected}", help=help)
        if not fits(value, hints[key]):
            raise UsageError(
                D0303, f"option {key!r} of pass {name}: expected {type_text(hints[key])}, got {value!r}"
            )
        given[key] = value
    missing = [key for key in own if key not in given and params[key].default is inspect.Parameter.empty]
    if missing:
        raise UsageError(
            D0303, f"pass {name} needs {', '.join(missing)}", help=f"write {pass_signature(cls)}"
        )
    try:
        return cls(**given)
    except HeddleError:
        raise
    except (TypeError, ValueError) as error:
        raise UsageError(D0303, f"pass {name} refuses its options: {error}") from error


def _read_call(text: str) -> tuple[str, dict[str, Any]]:
    """The name and the keyword arguments of a call, or a name alone. Raises: UsageError D0303."""
    form = "expected PassName or PassName(key=value)"
    try:
        tree = parse_expression(text.strip())
        call = tree if isinstance(tree, ast.Call) else ast.Call(tree, [], [])
        keys = [item.arg for item in call.keywords]
        has_others = call.args or None in keys or len(set(keys)) < len(keys)
        name = ast.unparse(call.func)
        if not all(map(str.isidentifier, name.split("."))) or has_others:
            raise UsageError(D0303, f"{form}, got {text!r}")
        return name, {str(item.arg): ast.literal_eval(item.value) for item in call.keywords}
    except (SyntaxError, ValueError, TypeError, RecursionError, MemoryError) as error:
        if isinstance(error, HeddleError):
            raise
        raise UsageError(D0303, f"{form} with literal values, got {text!r}") from error


def _is_literal(value: Any) -> bool:
    """Whether the text of a value is one that `ast.literal_eval` reads."""
    if isinstance(value, (tuple, list)):
        return all(_is_literal(item) for item in value)
    return value is None or isinstance(value, (bool, int, float, str))
