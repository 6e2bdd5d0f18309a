"""The shared libraries that this process has loaded."""

from __future__ import annotations

import ctypes
import os
import sys
from collections.abc import Iterator


class _Info(ctypes.Structure):
    _fields_ = (("address", ctypes.c_void_p), ("name", ctypes.c_char_p))  # its first fields


_Visit = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.POINTER(_Info), ctypes.c_size_t, ctypes.c_void_p)


def _paths_elf() -> list[str]:
    found: list[str] = []

    def visit(info: ctypes._Pointer[_Info], _size: int, _data: object) -> int:
        name: bytes = info.contents.name
        found.append(os.fsdecode(name))
        return 0

    ctypes.CDLL(None).dl_iterate_phdr(_Visit(visit), None)
    return [path for path in found if path]


def _paths_darwin() -> list[str]:
    system = ctypes.CDLL(None)
    system._dyld_get_image_name.restype = ctypes.c_char_p
    return [os.fsdecode(system._dyld_get_image_name(i)) for i in range(system._dyld_image_count())]


def loaded_libraries() -> Iterator[ctypes.CDLL]:
    """Yield the program itself, then every shared library that it has loaded, in load order. Loads
    nothing.
    """
    yield ctypes.CDLL(None)
    for path in _paths_darwin() if sys.platform == "darwin" else _paths_elf():
        try:
            yield ctypes.CDLL(path, mode=os.RTLD_NOLOAD | os.RTLD_LAZY)
        except OSError:  # the system's own, which has no file
            continue
