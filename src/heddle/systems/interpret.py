"""An interpreter of programs that checks what they do with memory.

    with Machine(program, models=MODELS, seed=3) as machine:
        pool = machine.new(Pool.layout)
        storage = machine.call("pool_take", pool, 100)

Each access is checked: inside a block, alive, aligned, written before it is read. Threads of the simulation
run by turns, in an order that the seed decides, and may change at each access of memory that is not the
call's own; two accesses that nothing orders are a data race. At the end no block of the heap may be alive.

The interpreter finds what happens in the order it takes, as if memory were sequentially consistent: a race
says that another order could go wrong.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from types import TracebackType
from typing import Any, NoReturn

from heddle.support.diagnostics import Code, Trap
from heddle.support.span import Source, SourceSpan
from heddle.systems import nodes as t
from heddle.systems.codes import Y0401, Y0404, Y0405, Y0407, Y0409, Y0411
from heddle.systems.evaluate import Evaluator
from heddle.systems.program import Program
from heddle.systems.races import Races
from heddle.systems.running import Value
from heddle.systems.simulated_memory import Block, SimulatedMemory
from heddle.systems.simulated_threads import Frame, Scheduler, SimulatedThread
from heddle.systems.types import FunctionType, Sized, StructType, passes_alike
from heddle.systems.words import NativeFunction

Model = Callable[..., Value | None]
"""What an external function does: it gets the machine and the arguments."""

_MOST_ROOM_BYTES = 1 << 20
"""What a call may take of the stack."""
_SETTLING_SWITCHES = 10_000
"""How long the other threads may go on when the caller's is done: what they are about to keep is no leak."""


class _Leave(Exception):
    """Control that leaves a block: `kind` is break, continue or return."""

    def __init__(self, kind: str, value: Value = 0) -> None:
        self.kind = kind
        self.value = value


class Machine:
    """A program with memory and threads. `platform` gives the values of platform constants; `counted` is the
    structure that counted blocks start with, whose field `count` a leak's message tells."""

    def __init__(
        self,
        program: Program,
        *,
        models: Mapping[str, Model],
        seed: int = 0,
        platform: Mapping[str, int] | None = None,
        max_steps: int = 1_000_000,
        switch_rate: float = 0.2,
        counted: StructType | None = None,
    ) -> None:
        self.program = program
        self.models = models
        self.platform = platform or {}
        self.memory = SimulatedMemory(self.fail)
        self.races = Races()
        self.scheduler = Scheduler(seed)
        self.state: dict[Any, Any] = {}
        self.at_end: list[Callable[[], object]] = []
        self._steps_left = max_steps
        self._switch_rate = switch_rate
        self._counted = counted
        self._codes: dict[int, Callable[..., Value]] = {}
        self._code_of: dict[str, int] = {}
        self._signatures: dict[int, FunctionType] = {}
        self._evaluator = Evaluator(self)
        self._globals = {name: self._make_global(name) for name in program.globals}
        self._texts = {name: self._make_text(name, item.text) for name, item in program.texts.items()}

    # ---- what stands in memory from the start

    def _make_global(self, name: str) -> int:
        declared = self.program.globals[name]
        kind = declared.type
        align = max(kind.align_bytes, declared.align_bytes)
        block = self.memory.allocate(kind.size_bytes, align, "global", name, declared.module)
        self.memory.set(block, 0, bytes(kind.size_bytes))
        if declared.initial:
            mask = (1 << 8 * kind.size_bytes) - 1
            self.memory.set(block, 0, (declared.initial & mask).to_bytes(kind.size_bytes, "little"))
        return block.start

    def _make_text(self, name: str, text: str) -> int:
        data = text.encode() + b"\0"
        block = self.memory.allocate(len(data), 1, "text", name, "the program")
        self.memory.set(block, 0, data)
        return block.start

    def global_at(self, name: str) -> int:
        """The address of a global."""
        return self._globals[name]

    def text_at(self, name: str) -> int:
        """The address of a text of the program."""
        return self._texts[name]

    def new(self, kind: Sized, label: str = "memory of the caller") -> int:
        """The address of new memory of zeros that lives as long as the machine."""
        block = self.memory.allocate(kind.size_bytes, 64, "global", label, "the caller")
        self.memory.set(block, 0, bytes(kind.size_bytes))
        return block.start

    def function(self, work: Callable[..., Value], signature: FunctionType | None = None) -> int:
        """The address of a function of Python's; calls of it are checked if it has a signature."""
        block = self.memory.allocate(16, 16, "function", getattr(work, "__name__", "function"), "the caller")
        self._codes[block.start] = work
        if signature is not None:
            self._signatures[block.start] = signature
        return block.start

    def address_of(self, declared: NativeFunction) -> int:
        """The address of a function of the program."""
        if declared.name not in self._code_of:
            work = partial(self._call_as, declared.name)
            work.__name__ = declared.name  # type: ignore[attr-defined]
            self._code_of[declared.name] = self.function(work, self.program.signature(declared))
        return self._code_of[declared.name]

    # ---- errors

    def place(self) -> str:
        """Where the running thread is, for a message."""
        frames = self.scheduler.current.frames
        return frames[-1].place() if frames else "the caller"

    def fail(self, code: Code, message: str, notes: tuple[str, ...] = ()) -> NoReturn:
        """Raise what went wrong at the place that runs."""
        frames = self.scheduler.current.frames
        if not frames:
            raise Trap(code, message, notes=notes)
        frame = frames[-1]
        source: Source = self.program.scope(frame.tree.declared.module).source
        line = frame.line or frame.tree.line
        text = source.line(line)
        column = len(text) - len(text.lstrip()) + 1
        span = SourceSpan(source, line, column, line, len(text) + 1)
        callers = [f"called from {item.tree.name} at {item.place()}" for item in reversed(frames[:-1])]
        raise Trap(code, message, span=span, notes=[*notes, *callers])

    # ---- memory

    def step(self) -> None:
        """Count a step, and let another thread go on now and then."""
        self._steps_left -= 1
        if self._steps_left < 0:
            self.fail(Y0411, "the program takes too many steps")
        scheduler = self.scheduler
        if len(scheduler.threads) > 1 and scheduler.random.random() < self._switch_rate:
            scheduler.switch()

    def touch(self, start: int, size_bytes: int, *, writes: bool, is_atomic: bool = False) -> None:
        """Note an access for the search of races."""
        number, place = self.scheduler.current.number, self.place()
        rival = self.races.access(number, start, size_bytes, place, writes=writes, is_atomic=is_atomic)
        if rival is not None:
            block = self.memory.at(start)
            assert block is not None
            verb = "write" if writes else "read"
            message = f"{verb} of byte {start - block.start} of {block.label} races with {rival}"
            self.fail(Y0405, message, (block.describe(),))

    def load(self, address: int, kind: Sized, *, is_atomic: bool = False) -> int:
        """The value at an address. Raises: Trap Y0401, Y0402, Y0405, Y0408, Y0410, Y0411."""
        self.step()
        data = self.memory.read(address, kind.size_bytes, kind.align_bytes)
        self.touch(address, kind.size_bytes, writes=False, is_atomic=is_atomic)
        return int.from_bytes(data, "little", signed=getattr(kind, "is_signed", False))

    def store(self, address: int, kind: Sized, value: int, *, is_atomic: bool = False) -> None:
        """Put the low bytes of a value at an address. Raises: Trap Y0401, Y0402, Y0405, Y0410, Y0411."""
        self.step()
        data = (value & (1 << 8 * kind.size_bytes) - 1).to_bytes(kind.size_bytes, "little")
        self.memory.write(address, data, kind.align_bytes)
        self.touch(address, kind.size_bytes, writes=True, is_atomic=is_atomic)

    def field(self, address: int, kind: StructType, name: str) -> int:
        """A field of a structure, for a look from outside."""
        item = kind.fields[name]
        data = self.memory.read(address + item.offset_bytes, item.type.size_bytes)
        element = getattr(item.type, "element", item.type)
        return int.from_bytes(data, "little", signed=getattr(element, "is_signed", False))

    def string(self, address: int, most_bytes: int | None = None) -> bytes:
        """The bytes at an address up to a zero byte, of which no more than `most_bytes` are read."""
        data = bytearray()
        while len(data) != most_bytes:
            byte = self.memory.read(address + len(data), 1)
            if byte == b"\0":
                break
            data += byte
        return bytes(data)

    def text(self, address: int) -> str:
        """The string at an address, up to its zero byte; bytes that are no UTF-8 become surrogates."""
        return self.string(address).decode(errors="surrogateescape")

    # ---- calls

    def call(self, name: str, *args: int) -> Value:
        """Call a function from outside. Raises: Trap with a code of Y0401 to Y0411."""
        return self._call(name, args)

    def spawn(self, work: Callable[[], object]) -> SimulatedThread:
        """Start a thread of the simulation, which calls the program."""
        thread = self.scheduler.spawn(work)
        self.races.start(self.scheduler.current.number, thread.number)
        return thread

    def join(self, thread: SimulatedThread) -> None:
        """Wait for the end of a thread."""
        self.scheduler.switch(lambda: thread.is_done)
        self.races.join(self.scheduler.current.number, thread.number)

    def call_address(self, address: int, args: tuple[Value, ...], signature: FunctionType | None) -> Value:
        """Call the function at an address; a caller that does not know the type gives None. Raises: Trap
        Y0407 where there is no function, or one that takes or gives other values."""
        code = self._codes.get(address)
        if code is None:
            self.fail(Y0407, f"expected a function at {address:#x}")
        known = self._signatures.get(address)
        if known is not None:
            if signature is not None and not passes_alike(known, signature):
                self.fail(Y0407, f"{code.__name__} is {known!r}, called as {signature!r}")
            if len(args) != len(known.params):
                self.fail(Y0407, f"{code.__name__} is {known!r}, called with {len(args)} arguments")
        return code(*args)

    def _call_as(self, name: str, *args: Value) -> Value:
        return self._call(name, args)

    def _call(self, name: str, args: tuple[Value, ...]) -> Value:
        tree = self.program.functions[name]
        if not tree.body and name in self.models:
            return self.models[name](self, *args) or 0
        if tree.declared.text or tree.declared.linkage.name == "EXTERNAL":
            self.fail(Y0409, f"{name} has no model")
        frame = Frame(tree, dict(zip((n for n, _ in tree.params), args, strict=True)))
        frames = self.scheduler.current.frames
        frames.append(frame)
        try:
            self._block(tree.body, frame)
        except _Leave as left:
            return left.value
        finally:
            for address in frame.rooms:
                self._end_room(address, frame.place())
            frames.pop()
        return 0

    def call_function(self, declared: NativeFunction, args: tuple[Value, ...]) -> Value:
        """Call a function of the program. Raises: Trap Y0409 for one that has no body and no model."""
        return self._call(declared.name, args)

    def room(self, kind: Sized, count: int = 1) -> int:
        """Memory of the call that runs."""
        frame = self.scheduler.current.frames[-1]
        align = max(16, kind.align_bytes)
        size = kind.size_bytes * count
        if not 0 <= size <= _MOST_ROOM_BYTES:
            self.fail(Y0401, f"the stack has no room for {count} elements of {kind!r}")
        block = self.memory.allocate(size, align, "local", frame.tree.name, frame.place())
        frame.rooms.append(block.start)
        return block.start

    def _end_room(self, address: int, place: str) -> None:
        block = self.memory.at(address)
        assert block is not None
        block.freed_at = place

    # ---- statements

    def _block(self, body: tuple[t.Stmt, ...], frame: Frame) -> None:
        for statement in body:
            frame.line = statement.line
            self._statement(statement, frame)

    def _statement(self, node: t.Stmt, frame: Frame) -> None:
        value = self._evaluator.value
        if isinstance(node, t.Assign):
            frame.locals[node.name] = value(node.value, frame)
        elif isinstance(node, t.Unpack):
            items = value(node.value, frame)
            assert isinstance(items, tuple)
            frame.locals.update(zip(node.names, items, strict=True))
        elif isinstance(node, t.Evaluate):
            value(node.value, frame)
        elif isinstance(node, (t.Store, t.Update)):
            self._evaluator.write(node, frame)
        elif isinstance(node, t.If):
            self._block(node.then if value(node.test, frame) else node.other, frame)
        elif isinstance(node, t.While):
            self._while(node, frame)
        elif isinstance(node, t.Return):
            raise _Leave("return", 0 if node.value is None else value(node.value, frame))
        else:
            raise _Leave("break" if isinstance(node, t.Break) else "continue")

    def _while(self, node: t.While, frame: Frame) -> None:
        while self._evaluator.value(node.test, frame):
            try:
                self._block(node.body, frame)
            except _Leave as left:
                if left.kind == "return":
                    raise
                if left.kind == "break":
                    return
            frame.line = node.line

    # ---- the end

    def check_end(self) -> None:
        """Raises: Trap Y0404 where blocks of the heap are alive."""
        alive = list(self.memory.alive("heap"))
        if alive:
            notes = [f"{block.describe()}{self._count_of(block)}" for block in alive[:5]]
            raise Trap(Y0404, f"{len(alive)} blocks are never freed", notes=notes)

    def _count_of(self, block: Block) -> str:
        if self._counted is None or len(block.data) < self._counted.size_bytes:
            return ""
        field = self._counted.fields["count"]
        if not all(block.is_set[field.offset_bytes : field.offset_bytes + field.type.size_bytes]):
            return ""
        return f": if it is counted, {self.field(block.start, self._counted, 'count')} times"

    def __enter__(self) -> Machine:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            if error is None:
                self.scheduler.settle(_SETTLING_SWITCHES)
        finally:
            self.scheduler.close()
        if error is None:
            for thread in self.scheduler.threads[1:]:
                self.races.join(0, thread.number)
            for hook in self.at_end:
                hook()
            self.check_end()
