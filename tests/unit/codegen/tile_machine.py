"""Tile registers in software: what the instructions of AMX mean, for kernels on machines without them.

**Source**: Intel 64 and IA-32 Architectures Software Developer's Manual, volume 2: LDTILECFG, TILERELEASE,
TILELOADD, TILESTORED, TDPBF16PS.
"""

from __future__ import annotations

import ctypes
import re
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import ml_dtypes
import numpy as np

from heddle.codegen.build import generate_text
from heddle.codegen.llvm.machine import compile_text
from heddle.runtime.kernel_module import KernelModule
from heddle.runtime.native.library import native_library, set_num_threads
from heddle.target import Target

REGISTERS, MAX_ROWS, MAX_ROW_BYTES = 8, 16, 64
MEETING_S = 20.0


@dataclass
class _Thread:
    """Rows and bytes of a row of each register, and their contents; not configured while `rows` is empty."""

    rows: list[int] = field(default_factory=list)
    row_bytes: list[int] = field(default_factory=list)
    tiles: Any = None


class TileMachine:
    """`link` puts it in the place of the processor's instructions. `faults` are uses that a processor
    refuses, and reads that leave one of `arrays`; `counts` tells how often each instruction ran."""

    def __init__(self, arrays: Sequence[Any] = ()) -> None:
        self.faults: list[str] = []
        self.counts: dict[str, int] = {}
        self._threads: dict[int, _Thread] = {}
        self._ranges = [(a.ctypes.data, a.ctypes.data + a.nbytes) for a in arrays]
        self._callbacks: list[Any] = []
        self._met: threading.Event | None = None

    @property
    def is_released(self) -> bool:
        """Whether every thread has given its registers back."""
        return not any(thread.rows for thread in self._threads.values())

    @property
    def num_threads(self) -> int:
        return len(self._threads)

    def link(self, text: str) -> str:
        """LLVM IR whose calls of tile instructions are calls of this machine."""
        byte, word, pointer = ctypes.c_uint8, ctypes.c_int64, ctypes.c_void_p
        table: dict[str, tuple[Callable[..., None], tuple[Any, ...]]] = {
            "ldtilecfg": (self._ldtilecfg, (pointer,)),
            "tilerelease": (self._tilerelease, ()),
            "tileloadd64": (self._tileloadd, (byte, pointer, word)),
            "tilestored64": (self._tilestored, (byte, pointer, word)),
            "tdpbf16ps": (self._tdpbf16ps, (byte, byte, byte)),
        }
        text = re.sub(r"^declare i32 @heddle_request_tiles\(\).*$", "", text, flags=re.MULTILINE)
        text += "\ndefine internal i32 @heddle_request_tiles() {\n  ret i32 0\n}\n"
        spelled = {byte: "i8", word: "i64", pointer: "ptr"}
        for name, (function, kinds) in table.items():
            text = re.sub(rf"^declare void @llvm\.x86\.{name}\(.*\)$", "", text, flags=re.MULTILINE)
            text = text.replace(f"@llvm.x86.{name}(", f"@software.{name}(")
            made = ctypes.CFUNCTYPE(None, *kinds)(self._counted(name, function))
            self._callbacks.append(made)
            address = ctypes.cast(made, pointer).value
            named = ", ".join(f"{spelled[kind]} %a{k}" for k, kind in enumerate(kinds))
            text += f"\ndefine internal void @software.{name}({named}) noinline {{\n"
            text += f"  call void inttoptr (i64 {address} to ptr)({named})\n  ret void\n}}\n"
        return _with_products_of_pairs(text)

    def run(self, func: Any, target: str, arguments: Sequence[Any], num_threads: int = 1) -> None:
        """Compile a loop function for a target with tiles, and call it with this machine's. Calls with little
        data keep the interpreter's lock, for which other threads' tiles would wait: they need one thread. Of
        several threads, the first waits for a second (MEETING_S at most) before its first instruction: alone
        it might have done all parts before a busy machine wakes another."""
        self._met = threading.Event() if num_threads > 1 else None
        text, names = generate_text({"tiles": func.with_attr("global_symbol", "tiles")}, Target(target))
        code = compile_text(self.link(text), Target("llvm")).object_code
        before = native_library().num_threads
        set_num_threads(num_threads)
        try:
            KernelModule([code], names, "llvm")["tiles"](*arguments)
        finally:
            set_num_threads(before)

    def _counted(self, name: str, function: Callable[..., None]) -> Callable[..., None]:
        def run(*operands: Any) -> None:
            self.counts[name] = self.counts.get(name, 0) + 1
            thread = self._threads.setdefault(threading.get_native_id(), _Thread())
            if self._met is not None:
                if self.num_threads > 1:
                    self._met.set()
                self._met.wait(MEETING_S)
                self._met.set()
            try:
                function(thread, *operands)
            except Exception as error:  # a callback has nobody to raise to
                self.faults.append(f"{name}{operands}: {error}")

        return run

    # ---- instructions

    def _ldtilecfg(self, thread: _Thread, address: int) -> None:
        memory = np.frombuffer(ctypes.string_at(address, 64), np.uint8)
        _require(memory[0] == 1 and memory[1] == 0, "palette or first row")
        row_bytes, rows = memory[16:48].view(np.uint16), memory[48:64]
        _require(not memory[2:16].any() and not row_bytes[REGISTERS:].any(), "reserved bytes")
        _require(not rows[REGISTERS:].any(), "reserved rows")
        _require(rows.max() <= MAX_ROWS and row_bytes.max() <= MAX_ROW_BYTES, "sides too large")
        _require(((rows == 0) == (row_bytes == 0)).all(), "a side of zero alone")
        thread.rows, thread.row_bytes = rows[:REGISTERS].tolist(), row_bytes[:REGISTERS].tolist()
        thread.tiles = np.zeros((REGISTERS, MAX_ROWS, MAX_ROW_BYTES), np.uint8)

    def _tilerelease(self, thread: _Thread) -> None:
        thread.rows, thread.row_bytes, thread.tiles = [], [], None

    def _tileloadd(self, thread: _Thread, tile: int, address: int, stride: int) -> None:
        rows, width = self._sides(thread, tile)
        self._check_range(address, address + (rows - 1) * stride + width)
        thread.tiles[tile] = 0
        for row in range(rows):
            line = ctypes.string_at(address + row * stride, width)
            thread.tiles[tile, row, :width] = np.frombuffer(line, np.uint8)

    def _tilestored(self, thread: _Thread, tile: int, address: int, stride: int) -> None:
        rows, width = self._sides(thread, tile)
        for row in range(rows):
            ctypes.memmove(address + row * stride, thread.tiles[tile, row, :width].tobytes(), width)

    def _tdpbf16ps(self, thread: _Thread, sums: int, data: int, weights: int) -> None:
        _require(len({sums, data, weights}) == 3, "registers are not different")
        (rows, width), (data_rows, data_width), (pairs, weight_width) = (
            self._sides(thread, tile) for tile in (sums, data, weights)
        )
        _require(rows == data_rows and width == weight_width and data_width == 4 * pairs, "sides differ")
        lanes = width // 4
        a = self._narrow(thread, data)[:rows, : 2 * pairs].reshape(rows, pairs, 2)
        b = self._narrow(thread, weights)[:pairs, : 2 * lanes].reshape(pairs, lanes, 2)
        total = np.zeros((rows, lanes, 2), np.float32)
        for k in range(pairs):  # fused: the product is exact in float64, and so nearly always is the sum
            with np.errstate(invalid="ignore"):
                exact = a[:, k, None, :].astype(np.float64) * b[None, k].astype(np.float64) + total
                total = _flushed(exact.astype(np.float32))
        added = _flushed(total[:, :, 0] + total[:, :, 1])
        held = _flushed(thread.tiles[sums].view(np.float32)[:rows, :lanes])
        thread.tiles[sums, rows:] = 0
        thread.tiles[sums, :rows, :width] = _flushed(held + added).view(np.uint8)

    def _narrow(self, thread: _Thread, tile: int) -> Any:
        return _flushed(thread.tiles[tile].view(ml_dtypes.bfloat16).astype(np.float32))

    def _sides(self, thread: _Thread, tile: int) -> tuple[int, int]:
        _require(
            bool(thread.rows) and tile < REGISTERS and thread.rows[tile] > 0, "register is not configured"
        )
        return thread.rows[tile], thread.row_bytes[tile]

    def _check_range(self, begin: int, end: int) -> None:
        for low, high in self._ranges:
            if low <= begin < high:
                _require(end <= high, f"reads {end - high} bytes beyond an array")


def _require(condition: Any, what: str) -> None:
    if not condition:
        raise ValueError(what)


def _flushed(array: Any) -> Any:
    """Subnormal numbers are zero."""
    return np.where(np.abs(array) < np.finfo(np.float32).tiny, np.float32(0), array).astype(np.float32)


def _with_products_of_pairs(text: str) -> str:
    """LLVM IR that multiplies rows of bfloat16 without the instruction VDPBF16PS: both products of a pair are
    added to the sum, the odd one first."""
    for lanes in (4, 8, 16):
        name = f"llvm.x86.avx512bf16.dpbf16ps.{32 * lanes}"
        if f"@{name}(" not in text:
            continue
        pairs, sums = f"<{2 * lanes} x bfloat>", f"<{lanes} x float>"
        text = re.sub(rf"^declare .*@{re.escape(name)}\(.*$", "", text, flags=re.MULTILINE)
        text = text.replace(f"@{name}(", f"@software.dpbf16ps.{lanes}(")
        text += (
            f"\ndefine internal {sums} @software.dpbf16ps.{lanes}({sums} %s0, {pairs} %a, {pairs} %b) {{\n"
        )
        for step, first in enumerate((1, 0)):
            places = ", ".join(f"i32 {first + 2 * lane}" for lane in range(lanes))
            for side in "ab":
                picked = f"{pairs} %{side}, {pairs} poison, <{lanes} x i32> <{places}>"
                text += f"  %{side}n{step} = shufflevector {picked}\n"
                text += f"  %{side}{step} = fpext <{lanes} x bfloat> %{side}n{step} to {sums}\n"
            text += f"  %p{step} = fmul {sums} %a{step}, %b{step}\n"
            text += f"  %s{step + 1} = fadd {sums} %s{step}, %p{step}\n"
        text += f"  ret {sums} %s2\n}}\n"
    return text
