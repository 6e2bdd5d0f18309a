import gc
import os
import struct
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from heddle.runtime import KernelModule, empty, load_module, set_num_threads, tensor
from heddle.runtime.native import library as native_library_module
from heddle.runtime.native.library import native_library
from heddle.runtime.native.source.fork_join import PARTS_OF_A_THREAD
from heddle.support.diagnostics import FormatError, Trap, UsageError

from .kernels import NAMES, kernel_module, object_code


@pytest.fixture(scope="module")
def kernels():
    return kernel_module()


@pytest.fixture(params=[1, 2, 5])
def threads(request):
    before = native_library().num_threads
    set_num_threads(request.param)
    yield request.param
    set_num_threads(before)


def run_fill(kernels, extent, grain):
    out = tensor(np.zeros(max(extent, 0) + 1, "int64"))
    kernels["sum_parallel"](out, extent, grain)
    return out.numpy()


def test_kernel_computes(kernels):
    x, out = tensor(np.arange(5, dtype="float32")), empty((5,))
    assert kernels["scale"](x, 2.5, out) is None
    np.testing.assert_array_equal(out.numpy(), np.arange(5) * 2.5)


def test_numpy_arguments_are_written_in_place(kernels):
    out = np.zeros(5, "float32")
    kernels["scale"](np.ones(5, "float32"), np.float32(3), out)
    assert out.tolist() == [3.0] * 5


def test_argument_kinds(kernels):
    out = tensor(np.full(12, -7, "int64"))
    kernels["echo"](out, None, 5, True, 2.5, -1, np.bool_(True))
    values = out.numpy()
    assert values[0::2].tolist() == [0, 1, 2, 3, 1, 2]
    float_bits = struct.unpack("<q", struct.pack("<d", 2.5))[0]
    assert values[1::2].tolist() == [0, 5, 1, float_bits, -1, 1]
    other = tensor([1.0])
    kernels["echo"](out, other)
    assert values[0] == 7


def test_arguments_that_do_not_fit(kernels):
    out = tensor(np.zeros(8, "int64"))
    with pytest.raises(TypeError, match=r"U0403.*argument 1 of 'echo'.*got str"):
        kernels["echo"](out, "text")
    with pytest.raises(OverflowError):
        kernels["echo"](out, 1 << 70)
    kernels["echo"](out, 3)
    assert out[1] == 3


def test_argument_references_do_not_leak(kernels):
    value = tensor([1.0])
    call = kernels["order"]
    before = sys.getrefcount(value), sys.getrefcount(None)
    for _ in range(1000):
        call(value, None, 1, 2.0)
    assert sys.getrefcount(value) == before[0]
    assert abs(sys.getrefcount(None) - before[1]) < 500


@pytest.mark.parametrize(
    ("kind", "error"), [(0, RuntimeError), (1, ValueError), (2, TypeError), (3, IndexError)]
)
def test_kernel_errors_are_typed(kernels, kind, error):
    with pytest.raises(error, match=r"expected 3 rows, got -4") as caught:
        kernels["fail"](kind, 3, -4)
    assert isinstance(caught.value, Trap)
    assert "in kernel 'fail'" in str(caught.value)


def test_parallel_for_covers_every_index_once(kernels, threads):
    for extent in (0, 1, 2, 3, 7, 64, 1000, 12_345):
        for grain in (1, 3, 5000):
            out = run_fill(kernels, extent, grain)
            np.testing.assert_array_equal(out[:-1], np.arange(1, extent + 1))
            parts = min(threads * PARTS_OF_A_THREAD if threads > 1 else 1, -(-extent // grain))
            assert out[-1] in {min(1, parts), parts}  # inline where waking workers does not pay


def test_every_other_run_goes_backwards(kernels):
    """What one run read last, the next one reads first."""
    set_num_threads(1)
    out = tensor(np.zeros(32, "int64"))
    runs = []
    for _ in range(4):
        out[...] = 0
        kernels["chunks"](out, 800, -10)
        runs.append(out.numpy()[1 : out[0] + 1].tolist())
    upwards = list(range(0, 800, 100))  # eighths
    assert runs in ([upwards, upwards[::-1]] * 2, [upwards[::-1], upwards] * 2)


@pytest.mark.parametrize(
    ("extent", "grain", "calls"), [(1200, -300, 4), (1200, 300, 1), (800, -800, 1), (3, -1, 1), (85, -10, 9)]
)
def test_chunks_are_worth_their_calls(kernels, extent, grain, calls):
    set_num_threads(1)
    out = tensor(np.zeros(64, "int64"))
    kernels["chunks"](out, extent, grain)
    assert out[0] == calls


def test_negative_extent_and_grain_do_nothing_strange(kernels, threads):
    assert run_fill(kernels, -5, 1).tolist() == [0]
    assert run_fill(kernels, 4, -1)[:-1].tolist() == [1, 2, 3, 4]


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 3000), st.integers(1, 300))
def test_parallel_for_property(extent, grain):
    out = run_fill(kernel_module_once(), extent, grain)
    np.testing.assert_array_equal(out[:-1], np.arange(1, extent + 1))


def kernel_module_once(cache=[]):  # noqa: B006 (one module for all examples)
    if not cache:
        cache.append(kernel_module())
    return cache[0]


def test_error_of_a_part_reaches_the_caller_and_the_pool_goes_on(kernels, threads):
    for _ in range(20):
        with pytest.raises(IndexError, match="expected 1000 rows, got 1000"):
            kernels["fail_in_part"]()
        np.testing.assert_array_equal(run_fill(kernels, 100, 1)[:-1], np.arange(1, 101))


def test_nested_loops_run_inline(kernels, threads):
    out = tensor(np.zeros(4, "int64"))
    kernels["nested"](out)
    assert out.numpy()[:3].tolist() == [1, 2, 3]


def test_many_python_threads_at_once(kernels):
    set_num_threads(2)
    wrong = []

    def work():
        for _ in range(200):
            if not np.array_equal(run_fill(kernels, 500, 1)[:-1], np.arange(1, 501)):
                wrong.append(1)

    workers = [threading.Thread(target=work) for _ in range(4)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert not wrong


def test_large_kernels_run_without_the_interpreter_lock(kernels):
    flag = tensor(np.zeros(5000, "int64"))
    waiter = threading.Thread(target=kernels["wait"], args=(flag,))
    waiter.start()
    flag[0] = 1  # would never be reached if the waiting kernel held the lock
    waiter.join()


def test_errors_belong_to_their_thread(kernels):
    messages = {}

    def work(number):
        for _ in range(100):
            with pytest.raises(Trap) as caught:
                kernels["fail"](0, number, number)
            messages.setdefault(number, set()).add(str(caught.value))

    workers = [threading.Thread(target=work, args=(n,)) for n in range(3)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert all(len(found) == 1 and f"got {n}" in next(iter(found)) for n, found in messages.items())


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_pool_works_after_fork(kernels):
    set_num_threads(2)
    run_fill(kernels, 1000, 1)
    child = os.fork()
    if child == 0:
        good = all(np.array_equal(run_fill(kernels, 1000, 1)[:-1], np.arange(1, 1001)) for _ in range(50))
        os._exit(0 if good else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    np.testing.assert_array_equal(run_fill(kernels, 1000, 1)[:-1], np.arange(1, 1001))


def test_process_ends_cleanly_while_workers_spin():
    program = (
        "import numpy as np; from heddle.runtime import set_num_threads, tensor\n"
        "from tests.unit.runtime.kernels import kernel_module\n"
        "set_num_threads(2); run = kernel_module()['sum_parallel']\n"
        "[run(tensor(np.zeros(1001, 'int64')), 1000, 1) for _ in range(50)]"
    )
    root = Path(__file__).parents[3]
    environment = {**os.environ, "PYTHONPATH": f"{root / 'src'}{os.pathsep}{root}"}
    for _ in range(3):
        command = [sys.executable, "-c", program]
        ended = subprocess.run(command, env=environment, capture_output=True, check=False)
        assert (ended.returncode, ended.stderr) == (0, b"")


_FUNCTIONS_IN_CYCLES = """
import gc
from heddle.runtime.native.library import native_library
from heddle.runtime.native.methods import make_fast_method

body = native_library().addresses["heddle_take_storage"]
for _ in range(100):
    owner = []
    keeper = [make_fast_method("lend", body, bytes(16), owner)]
    keeper.append(keeper)  # dies after what is older than it
    owner.append(keeper)
    del owner, keeper
    assert gc.collect() > 0
"""


def test_functions_in_cycles_are_collected_safely():
    """The interpreter reads a function's definition as the function dies. Memory that is given back is
    overwritten here, so that a definition that is gone too early ends the process.
    """
    environment = dict(
        os.environ,
        PYTHONMALLOC="malloc",
        GLIBC_TUNABLES="glibc.malloc.perturb=255:glibc.malloc.tcache_count=0",
    )
    command = [sys.executable, "-c", _FUNCTIONS_IN_CYCLES]
    ended = subprocess.run(command, env=environment, capture_output=True, check=False)
    assert ended.returncode == 0, ended.stderr


def test_workspace_is_aligned_and_reused(kernels):
    """In a thread of its own, which has no blocks that earlier kernels left."""
    out = tensor(np.zeros(3, "int64"))
    worker = threading.Thread(target=kernels["scratch"], args=(out, 10_000))
    worker.start()
    worker.join()
    first, second, third = out.numpy().tolist()
    assert first % 64 == 0
    assert second % 64 == 0
    assert abs(first - second) >= 10_000
    assert third in (first, second)


def test_workspace_too_large_is_a_trap(kernels):
    with pytest.raises(Trap, match="no memory for a kernel's 1152921504606846976 bytes"):
        kernels["scratch"](tensor(np.zeros(3, "int64")), 1 << 60)


def test_thread_count_is_checked():
    for count in (0, -1, 5000):
        with pytest.raises(UsageError, match="U0701"):
            set_num_threads(count)


def test_functions_keep_their_code_alive():
    call = kernel_module()["scale"]
    gc.collect()
    out = np.zeros(2, "float32")
    call(np.ones(2, "float32"), 2.0, out)
    assert out.tolist() == [2.0, 2.0]
    assert call.__name__ == "scale"


def test_module_surface(kernels, tmp_path):
    assert kernels.kind == "llvm"
    assert kernels.implements_function("scale")
    assert not kernels.implements_function("missing")
    with pytest.raises(AttributeError, match=r"(?s)U0501.*did you mean 'scale'"):
        kernels.get_function("scalle")
    kernels.export_library(tmp_path / "k.heddle")
    loaded = load_module(tmp_path / "k.heddle")
    assert (loaded.kind, loaded.names, loaded.objects) == ("llvm", NAMES, (object_code(),))
    result = loaded.time_evaluator("order", number=3, repeat=2)()
    assert len(result.results) == 2
    assert 0 < result.min <= result.mean <= result.max


def test_foreign_or_damaged_object_code(kernels):
    native_library()
    foreign = bytearray(object_code())
    foreign[18] ^= 0xFF
    for code in (b"", b"not an object", bytes(foreign)):
        with pytest.raises(FormatError, match="U0502"):
            KernelModule([code], ["scale"], "llvm")["scale"]
    with pytest.raises(FormatError, match="U0502"):
        KernelModule([object_code()], ["missing_symbol"], "llvm")["missing_symbol"]


def test_cached_library_that_is_damaged_is_compiled_again(tmp_path, monkeypatch):
    from dataclasses import replace

    fake = replace(native_library_module.settings(), cache_dir=tmp_path, use_disk_cache=True)
    monkeypatch.setattr(native_library_module, "settings", lambda: fake)
    text = "define i32 @f() { ret i32 1 }"
    first = native_library_module._cached_object(text)
    (path,) = tmp_path.glob("native-*")
    whole = path.read_bytes()
    path.write_bytes(whole[:-3])
    assert native_library_module._cached_object(text) == first
    assert path.read_bytes() == whole
