"""Words that sources of the systems language are written with.

A source is a Python module. Its declarations run when it is imported; its functions never do: `systems.read`
reads their text. So the decorators and words below only say what something is.

    busy = Global(Atomic[i32], align_bytes=64)

    @native
    def lock(pool: Pointer[Pool]) -> None:
        while pool.lock.exchange(1, ACQUIRE) != 0:
            pause()
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import field, replace
from enum import Enum
from typing import Any

from heddle.support.frozen import frozen
from heddle.systems.types import Sized, sized, type_of_word


class Order(Enum):
    """Memory orders, by LLVM's names."""

    RELAXED = "monotonic"
    ACQUIRE = "acquire"
    RELEASE = "release"
    ACQ_REL = "acq_rel"
    SEQ_CST = "seq_cst"

    @property
    def acquires(self) -> bool:
        """Whether a read with it makes what was released before it happen before what follows."""
        return self in (Order.ACQUIRE, Order.ACQ_REL, Order.SEQ_CST)

    @property
    def releases(self) -> bool:
        """Whether a write with it makes what came before it happen before a read that acquires it."""
        return self in (Order.RELEASE, Order.ACQ_REL, Order.SEQ_CST)


RELAXED, ACQUIRE, RELEASE, ACQ_REL, SEQ_CST = Order


class Linkage(Enum):
    """Who sees a function: its library, everybody, or it is somebody else's."""

    INTERNAL = "internal"
    EXPORTED = "exported"
    EXTERNAL = "external"
    IR = "ir"


EXPORTED, EXTERNAL = Linkage.EXPORTED, Linkage.EXTERNAL


@frozen(slots=False, eq=False)
class NativeFunction:
    """A declared function. `text` is the instruction of one that is inline IR; `marks` are attributes in the
    text for whoever makes code of it."""

    func: Callable[..., Any]
    linkage: Linkage
    is_inline: bool = False
    is_cold: bool = False
    marks: tuple[str, ...] = ()
    text: str = ""
    declaration: str = ""

    @property
    def name(self) -> str:
        """The function's name in its source and in the text."""
        return self.func.__name__

    @property
    def module(self) -> str:
        """The name of the module that declares it."""
        return self.func.__module__


def native(func: Callable[..., Any]) -> NativeFunction:
    """A function of the library itself."""
    return NativeFunction(func, Linkage.INTERNAL)


def inline(func: Callable[..., Any]) -> NativeFunction:
    """A function that is put in place of each of its calls."""
    return NativeFunction(func, Linkage.INTERNAL, is_inline=True)


def cold(func: Callable[..., Any]) -> NativeFunction:
    """A function of the library that hardly ever runs: it is kept out of the way of what does."""
    return NativeFunction(func, Linkage.INTERNAL, is_cold=True)


def export(func: Callable[..., Any]) -> NativeFunction:
    """A function that others call by its name."""
    return NativeFunction(func, Linkage.EXPORTED)


def marked(mark: str) -> Callable[[NativeFunction], NativeFunction]:
    """Give a function an attribute in the text, for whoever makes code of it."""
    return lambda declared: replace(declared, marks=(*declared.marks, mark))


def external(func: Callable[..., Any]) -> NativeFunction:
    """A function of the C library, or of another part of the native library. Its body is `...`."""
    return NativeFunction(func, Linkage.EXTERNAL)


def inline_ir(text: str, declaration: str = "") -> Callable[[Callable[..., Any]], NativeFunction]:
    """A function that is one instruction of LLVM IR. `{name}` in the text is an argument; `$NAME` is filled
    in for the platform. `declaration` is what the instruction needs at the top of the text."""
    return lambda func: NativeFunction(func, Linkage.IR, text=text, declaration=declaration)


def _home() -> str:
    return str(sys._getframe(2).f_globals["__name__"])


@frozen(slots=False, eq=False)
class Global:
    """Memory that lives as long as the library. As an expression it is its address. `initial` is the value
    of an integer; everything else starts as zeros. With the linkage EXPORTED others find it by its name, with
    EXTERNAL it is somebody else's."""

    word: Any
    initial: int = 0
    align_bytes: int = 0
    linkage: Linkage = Linkage.INTERNAL
    module: str = field(default_factory=_home)

    @property
    def type(self) -> Sized:
        """The type of the memory. Raises: TypeError for a type that cannot be in memory."""
        return sized(type_of_word(self.word))


@frozen(slots=False, eq=False)
class Text:
    """A constant string, with a zero byte after it. As an expression it is a Pointer[u8]."""

    text: str
    module: str = field(default_factory=_home)


@frozen(slots=False, eq=False)
class PlatformValue:
    """An integer that is known when the platform is: `$name` in the text."""

    name: str
    word: Any


@frozen(slots=False, eq=False)
class Word:
    """A name that the language gives a meaning; see docs/systems.md."""

    name: str


null = Word("null")  # the pointer to nothing, of any type
ref = Word("ref")  # ref(place): its address
cast = Word("cast")  # cast(type, pointer): the same address as another pointer
offset = Word("offset")  # offset(pointer, count): so many elements further
address = Word("address")  # address(pointer): u64
copy = Word("copy")  # copy(to, source), copy(to, source, count): what the pointers point to
fill = Word("fill")  # fill(to, byte, count)
local = Word("local")  # local(type), local(type, count): memory that lives as long as the call
size_of = Word("size_of")  # size_of(type): a constant
leading_zeros = Word("leading_zeros")  # of an unsigned integer
cycle_counter = Word("cycle_counter")  # the processor's, u64
