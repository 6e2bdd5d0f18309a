"""Modules of machine code: kernels that Heddle compiled, and kernels that a user wrote in C."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from heddle.runtime.artefact import Section, require
from heddle.runtime.codes import F0110, F0111
from heddle.runtime.module import Module, SectionData, register_loader
from heddle.runtime.native.glue import make_builtin
from heddle.runtime.native.interface import NATIVE_ABI, interface_of, native_digest
from heddle.runtime.native.library import is_symbol, kernel_symbol, link_objects
from heddle.runtime.needs import Needs, listed, read_needs, write_needs
from heddle.runtime.processor import this_processor
from heddle.runtime.wire import Writer
from heddle.support.collection import unseen
from heddle.support.diagnostics import FormatError
from heddle.support.forks import ForkLock, Rank
from heddle.support.frozen import frozen

PROGRAM_PREFIX = "__vmtir__"
"""The prefix of symbols of compiled VM functions. These use another calling convention than kernels."""


class KernelModule(Module):
    """Compiled kernels: object code for one target, and the names of its functions. The code is linked when a
    function is first requested.

    `objects` are relocatable object files, or a function that makes them on first use. `needs` are the
    processor features that the code requires. `get_function` returns a builtin that calls the kernel (see
    `heddle.runtime.native.glue` for the accepted arguments).
    """

    kind = "llvm"

    def __init__(
        self,
        objects: Sequence[bytes] | Callable[[], Sequence[bytes]],
        names: Sequence[str],
        target: str,
        source: Mapping[str, str] | None = None,
        needs: Needs | None = None,
    ) -> None:
        super().__init__()
        self.needs = needs or Needs()
        self._objects = objects if callable(objects) else tuple(objects)
        self.names = tuple(names)
        self._known = frozenset(self.names)
        self.target = target
        self.source = dict(source or {})
        self._lock = ForkLock(Rank.LINKING)
        self._tracker: Any = None
        self._builtins: dict[str, Callable[..., Any]] = {}

    @property
    def objects(self) -> tuple[bytes, ...]:
        """The object files of the kernels."""
        if callable(self._objects):
            self._objects = tuple(self._objects())
        return self._objects

    @objects.setter
    def objects(self, given: Sequence[bytes]) -> None:
        self._objects = tuple(given)

    def function_names(self) -> Sequence[str]:
        return self.names

    @property
    def target_triple(self) -> str:
        return next((word[9:] for word in shlex.split(self.target) if word.startswith("-mtriple=")), "")

    def objects_to_link(self) -> Sequence[bytes]:
        return self.objects

    def address(self, name: str) -> int:
        """Return the address of a kernel's machine code. It is valid while this module, or a function from
        it, lives.

        Raises: FormatError F0111 if this processor lacks features that the code needs, U0502 if the code
        cannot be linked.
        """
        with self._lock:
            if self._tracker is None:
                check_processor(self.needs, self.target)
                self._tracker = unseen(link_objects(self.objects, self.names))
        found: int = self._tracker[0][kernel_symbol(name)]
        return found

    def _find(self, name: str) -> Callable[..., Any] | None:
        found = self._builtins.get(name)
        if found is None and name in self._known and not name.startswith(PROGRAM_PREFIX):
            address = self.address(name)
            found = self._builtins.setdefault(name, make_builtin(name, address, self._tracker))
        return found

    def inspect_source(self, fmt: str = "") -> str:
        """Return the source from which the kernels were compiled, in the format `fmt` ("ll", "c") or else in
        its stored format. Empty if the source was not kept.
        """
        return self.source.get(fmt, "") if fmt else next(iter(self.source.values()), "")

    get_source = inspect_source

    def save_sections(self) -> Mapping[str, SectionData]:
        head = Writer()
        head.text(self.target)
        head.texts(self.names)
        head.u64(len(self.objects))
        head.u64(native_digest())
        write_needs(head, self.needs)
        return {"kernels": head.bytes(), **{f"object.{i}": code for i, code in enumerate(self.objects)}}


def check_processor(needs: Needs, target: str) -> None:
    """Reject code for another platform, and code that uses instructions which this processor lacks.

    Raises: FormatError F0111 with the platform, or with the missing features.
    """
    processor = this_processor()
    if processor.runs(needs):
        return
    reason = (
        f"need what this {processor} lacks: {listed(processor.lacks(needs))}"
        if processor.is_for(needs)
        else f"are for {listed([needs.platform])}, and this is {processor}"
    )
    raise FormatError(
        F0111,
        f"the kernels, compiled for {target[:80]!r}, {reason}",
        help="compile for this processor too: heddle.compile(mod, target=[...]) puts variants into one file",
    )


@frozen
class _StoredKernels:
    objects: list[bytes]
    names: list[str]
    target: str
    needs: Needs


def _read_kernels(sections: Mapping[str, Section], others: int = 0) -> _StoredKernels:
    """Read the stored form of a kernel module, which has `others` more sections. Files before version 3 do
    not store what their code needs.
    """
    section = require(sections, "kernels")
    head = section.reader()
    target, names, count = head.text(), head.texts(), head.u64()
    abi = head.u64() if section.version >= 2 else 1
    needs = read_needs(head) if section.version >= 3 else Needs()
    head.done()
    if not all(map(is_symbol, names)):
        raise head.fail("the name of a kernel is none that a linker takes")
    if interface_of(abi) is None:
        given = abi if abi < 1 << 32 else f"{abi:#x}"
        raise FormatError(
            F0110,
            f"kernels were compiled for native interface {given}, unknown here; this is {NATIVE_ABI}",
            help="compile the model again",
        )
    if count != len(sections) - 1 - others:
        raise head.fail(f"expected {count} objects, got {len(sections) - 1 - others}")
    objects = [bytes(require(sections, f"object.{i}").data) for i in range(count)]
    return _StoredKernels(objects, names, target, needs)


def _load_kernels(sections: Mapping[str, Section]) -> Module:
    stored = _read_kernels(sections)
    return KernelModule(stored.objects, stored.names, stored.target, needs=stored.needs)


register_loader(KernelModule.kind, _load_kernels)


class CSourceModule(KernelModule):
    """Kernels that a user wrote in C or C++, compiled. The source is stored with them."""

    kind = "c"

    def __init__(
        self,
        code: bytes | Callable[[], Sequence[bytes]],
        names: Sequence[str],
        target: str,
        fmt: str,
        text: str,
        needs: Needs | None = None,
    ) -> None:
        super().__init__([code] if isinstance(code, bytes) else code, names, target, {fmt: text}, needs)
        self.format = fmt

    def save_sections(self) -> Mapping[str, SectionData]:
        source = Writer()
        source.text(self.format)
        source.text(self.source[self.format])
        return {**super().save_sections(), "source": source.bytes()}


def _load_c_source(sections: Mapping[str, Section]) -> Module:
    source = require(sections, "source").reader()
    fmt, text = source.text(), source.text()
    source.done()
    stored = _read_kernels(sections, others=1)
    if len(stored.objects) != 1:
        raise source.fail(f"expected one object, got {len(stored.objects)}")
    return CSourceModule(stored.objects[0], stored.names, stored.target, fmt, text)


register_loader(CSourceModule.kind, _load_c_source)
