"""The native support library: LLVM IR files in this folder, compiled once per machine and linked once per
process.

The object code is cached under a hash of the text, the processor and the LLVM version, with a digest. If the
cached file is damaged or foreign, the library is compiled again. Linking takes a few milliseconds, compiling
about 50.

`interface.py` lists the symbols that object code may use.
"""

from __future__ import annotations

import atexit
import ctypes
import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from hashlib import blake2b
from pathlib import Path
from string import Template
from typing import Any

from heddle.runtime.codes import U0502, U0701
from heddle.runtime.native.interface import KERNEL_SYMBOLS, PROGRAM_SYMBOLS
from heddle.runtime.native.llvm import llvm_binding, llvm_linking
from heddle.runtime.native.methods import CONTENT_OFFSET
from heddle.runtime.native.optimise import simplify_marked
from heddle.runtime.native.run_on import NO_RUN_ON, RUN_ON
from heddle.runtime.needs import REQUEST_TILES, Processor, platform_of
from heddle.runtime.processor import this_processor
from heddle.support.diagnostics import FormatError, UsageError
from heddle.support.forks import ForkLock, Rank
from heddle.support.private_cache import PrivateCache
from heddle.support.settings import settings

_KERNEL_PREFIX = "heddle_kernel_"
_OTHER_SYMBOLS = (
    "heddle_thread",
    "heddle_thread_setup",
    "heddle_pool_reset",
    "heddle_pool_alone",
    "heddle_pool_configure",
    "heddle_log_parts",
    "heddle_call_kernel",
    "heddle_glue_configure",
    "heddle_arrays_configure",
    "heddle_program_configure",
    "heddle_python_call",
    "heddle_run_graph",
    "heddle_call_program",
    "heddle_objects_at",
    "heddle_store_object",
    "heddle_new",
    "heddle_take_storage",
    "heddle_storage_configure",
    "heddle_storage_payload",
    "heddle_share_storage",
    "heddle_place_tensor",
    "heddle_pool_trim",
    "heddle_pool_register",
    "heddle_fork_before",
    "heddle_fork_parent",
    "heddle_fork_child",
)
_CORE_SOURCES = ("generated.ll", "tiles.ll")
_SOURCES = (*_CORE_SOURCES, "generated_python.ll")
"""The IR files of the library in a Python process."""
_C_SOURCES = (*_CORE_SOURCES, "generated_c_api.ll")
"""The IR files of the library for C programs."""
_STACK_BYTES = 4 << 20  # bytes of the stack that a native program may use; threads have 8 MiB
_STACK_RESERVE_BYTES = 128 << 10  # bytes of a smaller stack that are reserved for kernels and callbacks
_STACK_END = """
declare i32 @pthread_getattr_np(i64, ptr)
declare i32 @pthread_attr_getstack(ptr, ptr, ptr)
declare i32 @pthread_attr_destroy(ptr)

define internal ptr @stack_end(i64 %me) {
entry:
  %attributes = alloca [256 x i8], align 16
  %lowest = alloca ptr
  %size = alloca i64
  %status = call i32 @pthread_getattr_np(i64 %me, ptr %attributes)
  %good = icmp eq i32 %status, 0
  br i1 %good, label %get, label %none
get:
  call i32 @pthread_attr_getstack(ptr %attributes, ptr %lowest, ptr %size)
  call i32 @pthread_attr_destroy(ptr %attributes)
  %end = load ptr, ptr %lowest
  ret ptr %end
none:
  ret ptr inttoptr (i64 1 to ptr)
}
"""
_STACK_END_DARWIN = """
declare ptr @pthread_get_stackaddr_np(i64)
declare i64 @pthread_get_stacksize_np(i64)

define internal ptr @stack_end(i64 %me) {
  %top = call ptr @pthread_get_stackaddr_np(i64 %me)
  %size = call i64 @pthread_get_stacksize_np(i64 %me)
  %down = sub i64 0, %size
  %end = getelementptr i8, ptr %top, i64 %down
  ret ptr %end
}
"""
_MAX_THREADS = 1024
_LINUX_NPROCESSORS = 84  # _SC_NPROCESSORS_ONLN of glibc and musl on every machine
_ASK_FOR_TILES = "call i64 (i64, ...) @syscall({})".format(", ".join(f"i64 {n}" for n in REQUEST_TILES))
_SPINS = 12_000  # pauses before an idle worker sleeps: 0.2 to 0.5 ms, longer than between two calls
_PAUSES = {  # machine: declaration, call
    "x86_64": ("declare void @llvm.x86.sse2.pause()", "call void @llvm.x86.sse2.pause()"),
    "aarch64": ("declare void @llvm.aarch64.hint(i32)", "call void @llvm.aarch64.hint(i32 1)"),
}


def _source(triple: str, names: Sequence[str] = _SOURCES) -> str:
    """Return the LLVM IR for a platform: this one, or Linux on another machine."""
    machine, _, system = platform_of(triple).partition("-")
    is_linux, is_darwin = system == "linux", system == "darwin"
    processors = os.sysconf_names["SC_NPROCESSORS_ONLN"] if triple_is_here(triple) else _LINUX_NPROCESSORS
    folder = Path(__file__).parent
    text = "\n".join((folder / name).read_text() for name in names)
    declaration, pause = _PAUSES.get(machine, ("", "fence seq_cst"))
    is_readable = machine == this_processor().platform.partition("-")[0]  # assembly for this machine only
    has_segments = is_readable and machine in RUN_ON and (is_linux or is_darwin)
    has_tiles = machine == "x86_64" and is_linux
    return Template(text).substitute(
        PAUSE=pause,
        PAUSE_DECLARATION=declaration,
        CURRENT_CPU="call i32 @sched_getcpu()" if is_linux else "add i32 0, -3",
        CPU_DECLARATION="declare i32 @sched_getcpu()" if is_linux else "",
        ON_LINUX="" if is_linux else ";",
        ASK_FOR_TILES=_ASK_FOR_TILES if has_tiles else "add i64 0, -1",
        ASK_DECLARATION="declare i64 @syscall(i64, ...)" if has_tiles else "",
        SIG_BLOCK="1" if is_darwin else "0",
        BYTES_CONTENT=str(CONTENT_OFFSET),
        TUPLE_ITEMS=str(tuple.__basicsize__),
        STACK_BYTES=str(_STACK_BYTES),
        STACK_RESERVE_BYTES=str(_STACK_RESERVE_BYTES),
        STACK_END=_STACK_END_DARWIN if is_darwin else _STACK_END,
        RUN_ON=RUN_ON[machine] if has_segments else NO_RUN_ON,
        HAS_SEGMENTS=str(int(has_segments)),
        SC_NPROCESSORS=str(processors),
        MAX_THREADS=str(_MAX_THREADS),
        SPINS=str(_SPINS),
    )


def host_machine(opt: int = 2, processor: Processor | None = None) -> Any:
    """Return a position-independent LLVM target machine for a processor, by default this one."""
    llvm = llvm_linking()
    chosen = processor or this_processor()
    if triple_is_here(chosen.triple):
        llvm.initfini.initialize_native_target()
        llvm.initfini.initialize_native_asmprinter()
        found = llvm.targets.Target.from_default_triple()
    else:
        llvm.initfini.initialize_all_targets()
        llvm.initfini.initialize_all_asmprinters()
        found = llvm.targets.Target.from_triple(chosen.triple)
    return found.create_target_machine(
        cpu=chosen.cpu,
        features=chosen.features,
        opt=opt,
        reloc="pic",
    )


def compile_ir(text: str, opt: int = 2, processor: Processor | None = None) -> bytes:
    """Compile LLVM IR to object code for a processor, by default this one. The middle-end optimiser runs only
    on functions that are marked for it (`optimise.simplify_marked`).

    Raises: RuntimeError from LLVM for IR that it rejects.
    """
    machine, llvm = host_machine(opt, processor), llvm_binding()
    llvm.initialize_native_asmparser()  # for module-level assembly
    module = llvm.parse_assembly(text)
    module.verify()
    simplify_marked(llvm, machine, module)
    object_code: bytes = machine.emit_object(module)
    return object_code


def triple_is_here(triple: str) -> bool:
    """Whether a triple denotes this platform."""
    return platform_of(triple) == this_processor().platform


def _cached_object(text: str, processor: Processor | None = None) -> bytes:
    chosen, version = processor or this_processor(), llvm_linking().initfini.llvm_version_info
    identity = "\0".join((text, chosen.triple, chosen.cpu, chosen.features, str(version)))
    name = f"native-{blake2b(identity.encode(), digest_size=16).hexdigest()}"
    if not settings().use_disk_cache:
        return compile_ir(text, processor=processor)
    cache = PrivateCache(settings().cache_dir, settings().cache_limit_bytes)
    code = cache.read(name)
    if code is None:
        code = compile_ir(text, processor=processor)
        cache.write(name, code)
    return code


def core_object(triple: str) -> bytes:
    """Return object code of the support library without its Python part, with the functions of heddle.h. It
    runs on any processor of the platform, because kernels in the same file may be for an older processor than
    this one."""
    return _cached_object(_source(triple, _C_SOURCES), Processor(triple, "", ""))


def kernel_symbol(name: str) -> str:
    """Return the linker symbol of a kernel. It differs from all symbols of the C library, because a kernel
    may be named `exp` and also call C's `exp`."""
    return _KERNEL_PREFIX + name


def is_symbol(name: str) -> bool:
    """Whether a kernel of this name can exist in object code: the name has no zero byte."""
    return "\0" not in name


class NativeLibrary:
    """The linked library. `addresses` maps exported symbols to addresses. `num_threads` is the size of the
    thread pool."""

    def __init__(self) -> None:
        llvm = llvm_linking()
        triple = llvm.targets.get_process_triple()
        code = _cached_object(_source(triple))
        self.elf_machine = code[:20]
        # JITLink places the sections of an object together. LLVM's older linker may place them anywhere, and
        # aborts the
        # process if two sections that refer to each other are more than 2 GiB apart.
        self.jit = llvm.orcjit.create_lljit_compiler(host_machine(), use_jit_link=True)
        builder = llvm.orcjit.JITLibraryBuilder().add_object_img(code).add_current_process()
        exported = KERNEL_SYMBOLS + PROGRAM_SYMBOLS + _OTHER_SYMBOLS
        for symbol in exported:
            builder.export_symbol(symbol)
        self._tracker = builder.link(self.jit, "heddle_native")
        self.addresses: dict[str, int] = {symbol: self._tracker[symbol] for symbol in exported}
        self._reset = ctypes.CFUNCTYPE(None)(self.addresses["heddle_pool_reset"])
        self._configure = ctypes.CFUNCTYPE(None, ctypes.c_int, ctypes.c_int)(
            self.addresses["heddle_pool_configure"]
        )
        self.set_alone = ctypes.CFUNCTYPE(None, ctypes.c_int)(self.addresses["heddle_pool_alone"])
        self.thread = ctypes.CFUNCTYPE(ctypes.c_void_p)(self.addresses["heddle_thread"])
        ctypes.CFUNCTYPE(ctypes.c_int)(self.addresses["heddle_thread_setup"])()
        self._reset()
        self._hold_over_forks()
        self.num_threads = 0
        self.set_num_threads(settings().num_threads)

    def _hold_over_forks(self) -> None:
        """Take the native locks in C-level fork handlers, where the interpreter runs no other thread. Waiting
        for a pool earlier, in Python, would block the whole interpreter."""
        handlers = [
            ctypes.c_void_p(self.addresses[f"heddle_fork_{when}"]) for when in ("before", "parent", "child")
        ]
        system = ctypes.CDLL(None)
        if hasattr(system, "pthread_atfork"):
            system.pthread_atfork(*handlers)
        elif hasattr(system, "__register_atfork"):  # glibc's name of the function in its shared library
            system["__register_atfork"](*handlers, None)
        else:
            os.register_at_fork(after_in_child=ctypes.CFUNCTYPE(None)(self.addresses["heddle_fork_child"]))

    def set_num_threads(self, count: int) -> None:
        """Set the number of threads for parallel loops, from the next loop on. Raises: UsageError U0701
        outside 1 to 1024."""
        if not 1 <= count <= _MAX_THREADS:
            raise UsageError(U0701, f"thread count must be 1 to {_MAX_THREADS}, got {count}")
        self.num_threads = count
        # With more threads than cores, spinning takes time from threads that have work.
        self._configure(count, _SPINS if count <= settings().num_threads else 1)


_lock = ForkLock(Rank.LIBRARY)
_library: list[NativeLibrary] = []


def native_library() -> NativeLibrary:
    """Return the process's native library; link it on first use. It is never unloaded, because worker threads
    run its code."""
    if not _library:
        with _lock:
            if not _library:
                _library.append(NativeLibrary())
    return _library[0]


@contextmanager
def loops_on_this_thread() -> Iterator[None]:
    """In the `with` block, run the parallel loops of this thread on this thread alone. If as many threads
    call programs as there are processors, this is faster than sharing each loop."""
    set_alone = native_library().set_alone
    set_alone(1)
    try:
        yield
    finally:
        set_alone(0)


def set_num_threads(count: int) -> None:
    """Run parallel loops on `count` threads, including the calling thread. Raises: UsageError U0701 outside 1
    to 1024."""
    native_library().set_num_threads(count)


@atexit.register
def _leave_linked() -> None:
    # Workers may still spin in the library's code while the interpreter clears modules.
    for library in _library:
        library._tracker.detach()
        library.jit.detach()


_count_of_libraries = [0]


def link_objects(objects: Sequence[bytes], kernels: Iterable[str]) -> Any:
    """Link object code into the process. Return LLVM's resource tracker: `tracker[kernel_symbol(name)]` is
    the address of a kernel and is valid while the tracker lives.

    Raises: FormatError U0502 for code of another processor, damaged code, or unresolved symbols.
    """
    library = native_library()
    builder = llvm_linking().orcjit.JITLibraryBuilder().add_current_process()
    for code in objects:
        if code[:6] != library.elf_machine[:6] or code[18:20] != library.elf_machine[18:20]:
            raise FormatError(U0502, "object code is for another kind of processor, or no object code")
        builder.add_object_img(code)
    for symbol in KERNEL_SYMBOLS + PROGRAM_SYMBOLS:
        builder.import_symbol(symbol, library.addresses[symbol])
    for name in kernels:
        builder.export_symbol(kernel_symbol(name))
    with _lock:
        _count_of_libraries[0] += 1
        library_name = f"kernels_{_count_of_libraries[0]}"
        try:
            return builder.link(library.jit, library_name)
        except RuntimeError as error:
            raise FormatError(U0502, f"kernels cannot be linked: {error}") from error
