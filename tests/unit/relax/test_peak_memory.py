"""The compiler's bound of a function's memory, against what the allocator sees."""

import gc

import numpy as np
import pytest

import heddle
from heddle.driver.compile import with_machine_code
from heddle.driver.stages import stage_text
from heddle.runtime import allocator_for, cpu, tensor
from heddle.runtime.size_class import block_bytes
from heddle.runtime.size_text import evaluate_size
from heddle.script import from_source
from heddle.vm.insight.peak_memory import peak_memory_bytes, peak_memory_text
from heddle.vm.relax import VirtualMachine
from tests.fuzz.soak import observed_peak_bytes

HEAD = "@I.ir_module\nclass Module:\n"


def built(text):
    return heddle.compile(from_source(HEAD + text))


def bound_text(text, function="main"):
    return peak_memory_text(built(text).metadata, function)


def test_a_block_is_what_the_pool_lends():
    allocator = allocator_for(cpu())
    sizes = {0, 1, 63, 64, 65, 72, 73, 1000, 4097} | {int(1.37**power) for power in range(70)}
    for size in sorted(sizes):
        if size > 1 << 28:
            break
        before = allocator.books.bytes_in_use
        storage = allocator.alloc(size)
        lent = allocator.books.bytes_in_use - before
        assert block_bytes(size) == lent
        assert lent <= max(64, size + size // 8)
        del storage
    assert evaluate_size("2 * block(n * 4) + block(65)", {"n": 30}) == 2 * 120 + 72


CHAIN = """
    @R.function
    def main(x: R.Tensor(("n", "m"), "float32")):
        with R.dataflow():
            a = R.matmul(x, R.permute_dims(x))
            b = R.nn.softmax(a)
            c = R.matmul(b, x)
            d = R.sum(c, axis=1)
            R.output(d)
        return d
"""
BRANCH = """
    @R.function
    def main(x: R.Tensor(("n", 8), "float32"), c: R.Tensor((), "bool")):
        a = R.nn.softmax(x)
        if c:
            b = R.matmul(a, R.permute_dims(a))
            y = R.sum(b, axis=1)
        else:
            y = R.sum(a, axis=1)
        z = R.nn.softmax(y)
        return z
"""
NESTED = """
    @R.function
    def gram(x: R.Tensor(("p", "q"), "float32")) -> R.Tensor(("p", "p"), "float32"):
        p = T.int64()
        q = T.int64()
        with R.dataflow():
            t = R.permute_dims(x)
            y = R.matmul(x, t)
            R.output(y)
        return y

    @R.function
    def main(x: R.Tensor(("n", 4), "float32")):
        n = T.int64()
        cls = Module
        a: R.Tensor((n, n), "float32") = cls.gram(x)
        b = R.nn.softmax(a)
        c: R.Tensor((n, n), "float32") = cls.gram(b)
        return (b, c)
"""


@pytest.mark.parametrize("exec_mode", ["bytecode", "compiled"])
@pytest.mark.parametrize(
    ("text", "needs"), [(CHAIN, 1), (BRANCH, 2), (NESTED, 1)], ids=["chain", "branch", "nested"]
)
def test_what_is_observed_stays_below_the_bound_and_reaches_it(text, needs, exec_mode):
    executable = built(text)
    if exec_mode == "compiled":
        executable = with_machine_code(executable)
    vm = VirtualMachine(executable, cpu())
    rng = np.random.default_rng(0)
    closest = 0.0
    gc.collect()
    for _ in range(25):
        n, m = (int(size) for size in rng.integers(1, 90, 2))
        width = {CHAIN: m, BRANCH: 8, NESTED: 4}[text]
        inputs = [tensor(rng.standard_normal((n, width)).astype("float32"))]
        for flag in (True, False):
            given = [*inputs, tensor(np.array(flag))][:needs]
            peak, _ = observed_peak_bytes(vm, *given)
            bound = peak_memory_bytes(executable.metadata, "main", {"n": n, "m": m})
            assert peak <= bound, (n, m, flag)
            closest = max(closest, peak / bound)
    assert closest > 0.9


def test_sums_that_another_covers_are_left_out():
    text = bound_text(CHAIN)
    assert text.count(" + ") <= 2, text
    assert evaluate_size(text, {"n": 0, "m": 0}) >= 64


def test_static_sizes_are_one_number():
    text = bound_text("""
    @R.function
    def main(x: R.Tensor((32, 8), "float32")):
        with R.dataflow():
            y = R.nn.softmax(x)
            R.output(y)
        return y
""")
    assert text == "1024"


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        ("y: R.Tensor((n,), 'float32') = Module.main(x)", "recursion of main"),
        (
            "y = R.call_pure_packed('some.function', x, ty_args=R.Tensor((n,), 'float32'))",
            "call of some.function",
        ),
    ],
)
def test_what_has_no_bound_says_why(body, reason):
    text = f"""
    @R.function
    def main(x: R.Tensor(("n",), "float32")) -> R.Tensor(("n",), "float32"):
        n = T.int64()
        {body}
        return y
"""
    found = peak_memory_text(built(text).metadata, "main")
    assert found == f"unbounded: {reason}"
    assert peak_memory_bytes({"peak_memory.main": found}, "main", {"n": 3}) is None


def test_a_size_that_is_not_given_has_no_bound_yet():
    executable = built(CHAIN)
    assert peak_memory_bytes(executable.metadata, "main", {"n": 3}) is None
    assert peak_memory_bytes(executable.metadata, "nothing", {}) is None


def test_the_memory_stage_shows_the_formula():
    text = stage_text(from_source(HEAD + CHAIN), "memory")
    assert f"  peak: {bound_text(CHAIN)}" in text.splitlines()


def test_the_bound_travels_in_the_file(tmp_path):
    executable = built(CHAIN)
    executable.export_library(tmp_path / "x.heddle")
    loaded = heddle.runtime.load_module(tmp_path / "x.heddle")
    assert peak_memory_text(loaded.metadata, "main") == bound_text(CHAIN)


@pytest.mark.parametrize("exec_mode", ["bytecode", "compiled"])
def test_arguments_of_a_call_are_not_held_longer_than_their_registers(exec_mode):
    """What a function passed on and then cleared is free while later instructions run."""
    made = heddle.relax.ExecBuilder()
    with made.function("use", 1):
        made.emit_ret(made.void_arg())
    with made.function("main", 1):
        for register in (1, 2):
            made.emit_call("test.peak.fresh", [made.r(0)], dst=made.r(register))
            made.emit_call("use", [made.r(register)], dst=made.r(3))
            made.emit_call("vm.builtin.null_value", [], dst=made.r(register))
        made.emit_ret(made.r(0))
    functions = heddle.runtime.FunctionModule(
        {"test.peak.fresh": lambda n: heddle.runtime.empty((n,), "uint8")}
    )
    executable = made.get(imports=[functions])
    if exec_mode == "compiled":
        executable = with_machine_code(executable)
    peak, _ = observed_peak_bytes(VirtualMachine(executable, cpu()), 4096)
    assert peak == 4096


def test_functions_that_call_others_twice_are_looked_at_once():
    """Forty functions, each of which calls the one before twice, and keeps what it gives: 2**39 calls."""
    lines = ["@I.ir_module", "class Module:"]
    for place in range(40):
        body = "R.exp(x)" if place == 0 else f"cls.f{place - 1}(cls.f{place - 1}(x))"
        lines += [
            f"    @R.function{'' if place == 39 else '(private=True)'}",
            f"    def f{place}(x: R.Tensor(('n',), 'float32')) -> R.Tensor(('n',), 'float32'):",
            *(["        cls = Module"] if place else []),
            f"        return {body}",
        ]
    executable = heddle.compile(from_source("\n".join(lines)), "llvm")
    assert peak_memory_text(executable.metadata, "f39") == "40 * block(n * 4)"
