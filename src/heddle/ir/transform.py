"""Passes, and the context in which they run.

A pass is a frozen dataclass, one per file; its fields are its options. It maps an IRModule to an IRModule, is
pure and deterministic, and states its contract: `requires` and `establishes` name properties of the module
(`heddle.ir.properties`). The instruments of the current PassContext observe every pass.
"""

from __future__ import annotations

import os
import time
import traceback
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Protocol

from heddle.ir.codes import I0501, I0502, I0506
from heddle.ir.expr import BaseFunc, GlobalVar
from heddle.ir.json_codec import save_json
from heddle.ir.module import IRModule, checked_module
from heddle.ir.nesting import refusing_deep_nesting
from heddle.ir.pass_options import Bounds, ConfigKey, check_options, check_value
from heddle.ir.users_code import is_from_users_code, places_of
from heddle.support.diagnostics import HeddleError, InternalError, UsageError, did_you_mean
from heddle.support.files import write_bytes
from heddle.support.frozen import frozen
from heddle.support.private_cache import open_private_folder
from heddle.support.registry import Registry
from heddle.support.scoped import Scoped
from heddle.support.settings import settings

_PACKAGE = f"{__name__.split('.')[0]}."
CONFIG_KEYS: Registry[ConfigKey] = Registry("option of passes")
"""PassContext configuration keys and their meaning; each pass declares its own. If a key is unknown, the
passes are imported first."""


def declare_config(key: str, meaning: str, kind: type, at_least: int | None = None) -> str:
    """Declare a key of PassContext's `config`, whose values are of the type `kind`. Return the key."""
    CONFIG_KEYS.add(key, ConfigKey(meaning, kind, Bounds(at_least=at_least)))
    return key


class PassInstrument:
    """The base class of instruments, which observe passes. Override the methods that you need."""

    needs_every_pass: ClassVar[bool] = True
    """Whether passes shall run although the whole program is kept from an earlier compilation."""

    def enter_pass_ctx(self) -> None:
        """Called when the PassContext is entered."""

    def exit_pass_ctx(self) -> None:
        """Called when the PassContext is left."""

    def should_run(self, mod: IRModule, info: PassInfo) -> bool:
        """Return False to skip the pass, unless it is required."""
        return True

    def run_before_pass(self, mod: IRModule, info: PassInfo) -> None:
        """Called with the module that the pass is about to get."""

    def run_after_pass(self, mod: IRModule, info: PassInfo) -> None:
        """Called with the module that the pass returned."""

    def code_made(self, made: CodeMade) -> None:
        """Called for each loop function that was compiled to machine code."""


WATCHERS: Registry[PassInstrument] = Registry("watcher of passes")
"""Instruments of this process, beside those of contexts: see `heddle.ir.watchers`."""


@frozen
class PassInfo:
    """What instruments are told of a pass. `required` and `established`: its contract. `is_ours`: it belongs
    to Heddle, and so does a fault in it.
    """

    name: str
    opt_level: int = 0
    required: tuple[str, ...] = ()
    is_ours: bool = True
    established: tuple[str, ...] = ()


@frozen
class CodeMade:
    """What instruments are told of a loop function that became machine code. `lowering_s`: passes and text;
    `llvm_s`: the time of LLVM, perhaps in another process. `is_kept`: it came from the cache. Units: seconds,
    bytes.
    """

    name: str
    lowering_s: float
    llvm_s: float
    text_bytes: int
    code_bytes: int
    is_kept: bool = False

    @property
    def seconds(self) -> float:
        """From the loop function to its object code."""
        return self.lowering_s + self.llvm_s


@dataclass(slots=True)
class PassContext(Scoped):
    """Options, instruments and pass filter for a `with` block.

    Raises: UsageError I0502 for a configuration key that no pass declares, I0508 for a value of another kind.
    """

    opt_level: int = 2
    required_pass: Iterable[str] = ()
    disabled_pass: Iterable[str] = ()
    instruments: Iterable[PassInstrument] = ()
    config: Mapping[str, Any] = field(default_factory=dict)
    timings: list[tuple[str, float]] = field(default_factory=list)

    def __post_init__(self) -> None:
        check_value("PassContext's opt_level", self.opt_level, int)
        for name in ("required_pass", "disabled_pass"):
            check_value(f"PassContext's {name}", getattr(self, name) or (), tuple[str, ...])
        self.required_pass = frozenset(self.required_pass or ())
        self.disabled_pass = frozenset(self.disabled_pass or ())
        check_value("PassContext's instruments", self.instruments or (), tuple[PassInstrument, ...])
        self.instruments = tuple(self.instruments or ())
        check_value("PassContext's config", self.config or {}, Mapping[str, Any])
        self.config = dict(self.config or {})
        for key, value in self.config.items():
            if key not in CONFIG_KEYS:
                raise UsageError(
                    I0502, f"no pass declares the option {key!r}", help=did_you_mean(key, CONFIG_KEYS)
                )
            declared = CONFIG_KEYS[key]
            check_value(f"PassContext's option {key!r}", value, declared.kind, declared.bounds)

    @staticmethod
    def current() -> PassContext:
        """Return the innermost active context of this thread or task; outside of all contexts, the default
        one."""
        return PassContext.innermost() or _DEFAULT

    def __enter__(self) -> PassContext:
        Scoped.__enter__(self)
        for instrument in self.instruments:
            instrument.enter_pass_ctx()
        return self

    def __exit__(self, *_exc: object) -> None:
        Scoped.__exit__(self)
        for instrument in self.instruments:
            instrument.exit_pass_ctx()

    def allows(self, info: PassInfo) -> bool:
        """Whether a pass runs in a sequence: it is required, or it is neither disabled nor above `opt_level`.
        One that is called by itself runs whatever its level is."""
        if info.name in self.required_pass:
            return True
        return info.name not in self.disabled_pass and self.opt_level >= info.opt_level


_DEFAULT = PassContext()


class Pass(ABC):
    """The base class of passes. A pass with options is a frozen dataclass with these as fields; they are
    checked when the pass is made (`heddle.ir.pass_options`). Passes of one class with equal options are
    equal.

    Raises: UsageError I0508 for an invalid option.
    """

    opt_level: ClassVar[int] = 0
    requires: ClassVar[tuple[str, ...]] = ()
    establishes: ClassVar[tuple[str, ...]] = ()
    dialects: ClassVar[tuple[str, ...] | None] = None
    """The dialects whose functions the pass changes. None means all dialects, or none in particular."""

    def __post_init__(self) -> None:
        check_options(self)

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other) and vars(self) == vars(other)

    def __hash__(self) -> int:
        return hash(type(self))

    def __repr__(self) -> str:
        return f"{type(self).__qualname__}()"

    def functions(self, mod: IRModule) -> list[tuple[GlobalVar, Any]]:
        """The functions of a module that are of the pass's dialects, with their names, in order."""
        return functions_in(mod, self.dialects)

    @property
    def info(self) -> PassInfo:
        """Its name, level, what it requires and establishes."""
        kind = type(self)
        return PassInfo(kind.__name__, kind.opt_level, kind.requires, established=kind.establishes)

    @property
    def is_ours(self) -> bool:
        """Whether the pass belongs to Heddle, and so does a fault in it."""
        return type(self).__module__.startswith(_PACKAGE)

    @abstractmethod
    def transform(self, mod: IRModule, ctx: PassContext) -> IRModule:
        """Return the module after the pass; the same object if nothing changed."""

    def __call__(self, mod: IRModule) -> IRModule:
        return run_pass(self, mod, PassContext.current())


class FunctionPass(Pass):
    """A pass that handles one function of its dialects at a time."""

    @abstractmethod
    def transform_function(self, func: Any, mod: IRModule, ctx: PassContext) -> Any:
        """Return the function after the pass; the same object if nothing changed."""

    def transform(self, mod: IRModule, ctx: PassContext) -> IRModule:
        return map_functions(mod, self.dialects, lambda var, func: self.transform_function(func, mod, ctx))


def functions_in(mod: IRModule, dialects: Collection[str] | None) -> list[tuple[GlobalVar, Any]]:
    """The functions of some dialects, of all where it is None, with their names, in order."""
    return [
        (var, func) for var, func in mod.functions.items() if dialects is None or func.dialect in dialects
    ]


def map_functions(
    mod: IRModule, dialects: Collection[str] | None, function: Callable[[GlobalVar, Any], Any]
) -> IRModule:
    """Apply `function` to the functions of some dialects, of all where it is None; the same module where
    nothing changed."""
    changed = False
    table = {}
    for var, func in mod.functions.items():
        table[var] = function(var, func) if dialects is None or func.dialect in dialects else func
        if not isinstance(table[var], BaseFunc):
            raise TypeError(f"it gave a {type(table[var]).__name__} for @{var.name_hint}, and no function")
        changed = changed or table[var] is not func
    return mod.with_functions(table) if changed else mod


def run_pass(step: Pass, mod: IRModule, ctx: PassContext) -> IRModule:
    """Run one pass under the instruments of the context, unless they or the context turn it off by name. Its
    level does not matter: that is what a sequence asks. The instruments learn whether it is Heddle's own.

    Raises: InternalError I0501 if one of Heddle's passes raises anything but a HeddleError; the message names
    a bundle with the program before the pass and the traceback. UsageError I0506 if a user's pass does, or
    code of the user's that a pass calls, or if it does not return a module; I0509 if `mod` is not a module;
    I0510 if it nests too deeply.
    """
    checked_module(mod, f"pass {step.info.name}")
    info = replace(step.info, is_ours=step.is_ours)
    instruments = (*ctx.instruments, *(watcher for _, watcher in WATCHERS.items()))
    required = info.name in ctx.required_pass
    if not required and (
        info.name in ctx.disabled_pass or not all(i.should_run(mod, info) for i in instruments)
    ):
        return mod
    for instrument in instruments:
        instrument.run_before_pass(mod, info)
    start = time.perf_counter()
    try:
        with refusing_deep_nesting(f"pass {info.name}", mod.functions.values()):
            result = step.transform(mod, ctx)
    except (HeddleError, KeyboardInterrupt, MemoryError):
        raise
    except Exception as error:  # the one place where a bug of a pass becomes a report that can be acted on
        if not step.is_ours or is_from_users_code(error):
            what = "your code in pass" if step.is_ours else "your pass"
            raise UsageError(
                I0506,
                f"{what} {info.name!r} failed: {type(error).__name__}: {error}",
                notes=places_of(error),
            ) from error
        raise InternalError(
            I0501,
            f"pass {info.name} failed: {type(error).__name__}: {error}",
            notes=(_write_bundle(info.name, mod),),
            help="this is a fault of Heddle; please report it with the bundle",
        ) from error
    if not isinstance(result, IRModule):
        if step.is_ours:
            raise InternalError(I0501, f"pass {info.name} gave a {type(result).__name__}, and no module")
        raise UsageError(I0506, f"your pass {info.name!r} gave a {type(result).__name__}, and no module")
    ctx.timings.append((info.name, time.perf_counter() - start))
    for instrument in instruments:
        instrument.run_after_pass(result, info)
    return result


def _write_bundle(name: str, mod: IRModule) -> str:
    folder = settings().cache_dir / "bundles"
    stem = folder / f"{name}-{time.strftime('%Y%m%d-%H%M%S')}"
    try:
        os.close(open_private_folder(folder))
        write_bytes(stem.with_suffix(".txt"), (traceback.format_exc() + "\n" + str(mod)).encode())
        write_bytes(stem.with_suffix(".json"), save_json(mod).encode())
    except (OSError, HeddleError, TypeError) as error:
        return f"no bundle was written: {error}"
    return f"bundle: {stem}.json and .txt"


@frozen(slots=False)
class Sequential(Pass):
    """A sequence of passes, as one pass. Its own name appears only in messages."""

    passes: tuple[Pass, ...]
    name: str = "Sequential"

    def __init__(self, passes: Iterable[Pass], name: str = "Sequential", opt_level: int = 0) -> None:
        check_value("passes of a Sequential", passes, Sequence[Pass])
        object.__setattr__(self, "passes", tuple(passes))
        object.__setattr__(self, "name", name)

    @property
    def info(self) -> PassInfo:
        """The name alone: each of its passes has an info of its own."""
        return PassInfo(self.name)

    def transform(self, mod: IRModule, ctx: PassContext) -> IRModule:
        for step in self.passes:
            if ctx.allows(step.info):
                mod = run_pass(step, mod, ctx)
        return mod

    def __call__(self, mod: IRModule) -> IRModule:
        return self.transform(mod, PassContext.current())


@frozen(slots=False)
class CallbackPass(Pass):
    """A pass made from a function (mod, ctx) -> mod, for example by `module_pass`."""

    function: Callable[[IRModule, PassContext], IRModule]
    pass_info: PassInfo

    @property
    def info(self) -> PassInfo:
        """What it was declared with."""
        return self.pass_info

    @property
    def is_ours(self) -> bool:
        return str(getattr(self.function, "__module__", "")).startswith(_PACKAGE)

    def transform(self, mod: IRModule, ctx: PassContext) -> IRModule:
        return self.function(mod, ctx)


FunctionChange = Callable[[Any, Any, PassContext], Any]
"""(part of a module, module, context) → the part after the pass: the same object where nothing changed."""


class PassDecorator(Protocol):
    """What makes a pass of a function, or of a class whose method is that function: then calling the class
    with its own arguments gives the pass. All have this one form.
    """

    def __call__(
        self,
        pass_func: Any = None,
        opt_level: int | None = None,
        name: str | None = None,
        required: Sequence[str] | None = None,
        traceable: bool = False,
    ) -> Any:
        """A pass; without `pass_func` a decorator. A name that is not given is that of the function or class;
        `opt_level` is 0 by default. `traceable` does nothing: every pass is seen by instruments.
        """


def pass_decorator(method: str, over: Callable[[Any, PassInfo], Pass], doc: str) -> PassDecorator:
    """A decorator of users' functions. `method`: the one that a class has instead; `over`: makes the pass of
    the function; `doc`: the decorator's docstring.
    """

    def decorator(
        pass_func: Any = None,
        opt_level: int | None = None,
        name: str | None = None,
        required: Sequence[str] | None = None,
        traceable: bool = False,
    ) -> Any:
        def make(target: Any) -> Any:
            info = PassInfo(name or target.__name__, opt_level or 0, tuple(required or ()))
            if not isinstance(target, type):
                return over(target, info)
            owner: Any = target

            def build(*args: Any, **kwargs: Any) -> Pass:
                return over(getattr(owner(*args, **kwargs), method), info)

            return build

        return make if pass_func is None else make(pass_func)

    decorator.__doc__ = f"{doc}\n\n{PassDecorator.__call__.__doc__}"
    return decorator


def over_functions(kind: type, dialect: str) -> Callable[[FunctionChange, PassInfo], Pass]:
    """Makes passes of what changes functions of one class and dialect; all others stay."""

    def over(function: FunctionChange, info: PassInfo) -> Pass:
        def run(mod: Any, ctx: PassContext) -> Any:
            def change(_var: Any, func: Any) -> Any:
                return function(func, mod, ctx) if isinstance(func, kind) else func

            return map_functions(mod, (dialect,), change)

        run.__module__ = str(getattr(function, "__module__", ""))  # whose fault a fault in it is
        return CallbackPass(run, info)

    return over


module_pass = pass_decorator(
    "transform_module",
    CallbackPass,
    "Make a pass of `f(mod, ctx)`, which gives a module, or of a class with `transform_module`.",
)
