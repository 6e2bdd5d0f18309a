"""Tensors that lie in the frames of compiled programs: which do, and that nobody can tell.

Every program runs as bytecode too; results, errors, books and what is left in the pool have to be the same.
"""

from __future__ import annotations

import gc
import threading
from collections.abc import Callable, Iterator
from functools import cache
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest

from heddle.codegen.llvm.program_builtins import FRAME_READS
from heddle.codegen.llvm.program_held import held_registers
from heddle.codegen.llvm.program_uses import Uses
from heddle.codegen.program_steps import step_of
from heddle.driver.compile import build, with_machine_code
from heddle.frontend.onnx import from_onnx
from heddle.ir.instrument import VerifyEach
from heddle.ir.transform import PassContext
from heddle.lower.program_to_tir import program_functions
from heddle.runtime import DataType, Shape, allocator_for, cpu, tensor
from heddle.runtime.kernel_module import KernelModule
from heddle.runtime.native.library import native_library
from heddle.script import from_source
from heddle.support.diagnostics import HeddleError
from heddle.tir.nodes import SeqStmt
from heddle.vm.relax import ExecBuilder, VirtualMachine, VMExecutable

MODES = ("bytecode", "compiled")
SIZES = (0, 1, 2, 7, 64, 997)

CHAIN = """
@I.ir_module
class Module:
    @R.function
    def main(x: R.Tensor(("n", "m"), "{dtype}")) -> R.Tuple(
        R.Tensor(("m", "n"), "{dtype}"), R.Tensor(("n * m",), "{dtype}")):
        n = T.int64()
        m = T.int64()
        with R.dataflow():
            a = R.cumsum(x, axis=1)
            b = R.permute_dims(R.cumsum(a, axis=0))
            c = R.reshape(R.cumsum(b, axis=0), (n * m,))
            d = R.reshape(R.cumsum(c, axis=0), (m, n))
            y = R.cumsum(d, axis=1)
            z = R.reshape(R.cumsum(y, axis=0), (n * m,))
            R.output(y, z)
        return (y, z)
"""


def chain(x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    n, m = x.shape
    b = np.cumsum(np.cumsum(x, 1, x.dtype), 0, x.dtype).T
    d = np.cumsum(np.cumsum(b, 0, x.dtype).ravel(), 0, x.dtype).reshape(m, n)
    y = np.cumsum(d, 1, x.dtype)
    return y, np.cumsum(y, 0, x.dtype).ravel()


@cache
def executable(mode: str, dtype: str = "int64") -> VMExecutable:
    with PassContext(instruments=(VerifyEach(),)):
        return build(from_source(CHAIN.format(dtype=dtype)), exec_mode=mode)


@pytest.fixture(autouse=True, scope="module")
def only_own_objects() -> Iterator[None]:
    """What other tests left alive is not collected again at each count: that took most of the time."""
    gc.collect()
    gc.freeze()
    yield
    gc.unfreeze()
    gc.collect()
    gc.freeze()  # as `conftest.py` does


def bytes_in_use() -> int:
    gc.collect()
    return int(allocator_for(cpu()).books.bytes_in_use)


@pytest.fixture(params=[1, 2])
def threads(request: pytest.FixtureRequest) -> Any:
    library = native_library()
    before = library.num_threads
    library.set_num_threads(request.param)
    yield request.param
    library.set_num_threads(before)


def uses_of(program: VMExecutable, name: str = "main") -> Uses:
    kernels = {
        name for module in program.imports if isinstance(module, KernelModule) for name in module.names
    }
    [func] = [
        f
        for v, f in program_functions(program.program, kernels).functions.items()
        if v.name_hint.endswith(name)
    ]
    assert isinstance(func.body, SeqStmt)
    return Uses([stmt.value for stmt in func.body.seq], kernels, int(func.attrs["vm_num_args"]), FRAME_READS)


# ---- models


def test_what_only_kernels_read_lies_in_the_frame() -> None:
    program = executable("bytecode")
    uses = uses_of(program)
    text = program.as_text()
    assert text.count("alloc_tensor") > 4
    allocated = text.count("call  vm.builtin.alloc_tensor") + text.count("call  vm.builtin.reshape")
    # y and its storage leave with the result, and so does the view of what z is
    assert 2 <= len(uses.tensors) <= allocated - 3
    assert any(tensor.is_view for tensor in uses.tensors.values())
    assert uses.storages


@pytest.mark.parametrize("dtype", ["int8", "int64", "float32", "float64"])
def test_sizes_that_change_between_calls(dtype: str, threads: int) -> None:
    rng = np.random.default_rng(threads)
    machines = [VirtualMachine(executable(mode, dtype), cpu()) for mode in (*MODES, "compiled")]
    for _ in range(25):
        n, m = rng.choice(SIZES[:-1]), rng.choice(SIZES)
        x = rng.integers(-3, 4, (n, m)).astype(dtype)
        for vm in machines:
            for got, expected in zip(vm["main"](x), chain(x), strict=True):
                assert got.dtype == dtype and got.shape == expected.shape
                np.testing.assert_allclose(got.numpy(), expected, rtol=1e-4)


def test_calls_keep_nothing_and_allocate_what_bytecode_does() -> None:
    books = allocator_for(cpu()).books
    rng = np.random.default_rng(0)
    inputs = [tensor(rng.integers(0, 9, (n, m))) for n in (0, 1, 7) for m in (1, 64)]
    counts = {}
    for mode in MODES:
        vm = VirtualMachine(executable(mode), cpu())
        before, made = bytes_in_use(), books.num_allocations
        for _ in range(3):
            for x in inputs:
                vm["main"](x)
        counts[mode] = books.num_allocations - made
        assert bytes_in_use() == before
    assert counts["bytecode"] == counts["compiled"] > 0


def test_two_machines_of_one_executable_on_two_threads() -> None:
    failures: list[BaseException] = []

    def work(seed: int) -> None:
        try:
            rng = np.random.default_rng(seed)
            vm = VirtualMachine(executable("compiled"), cpu())
            for _ in range(150):
                x = rng.integers(0, 9, rng.choice(SIZES[:-1], 2))
                for got, expected in zip(vm["main"](x), chain(x), strict=True):
                    np.testing.assert_array_equal(got.numpy(), expected)
        except (HeddleError, AssertionError) as error:
            failures.append(error)

    before = bytes_in_use()
    workers = [threading.Thread(target=work, args=(seed,)) for seed in range(2)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert not failures
    assert bytes_in_use() == before


def test_every_allocation_may_fail_while_tensors_are_in_the_frame() -> None:
    allocator = allocator_for(cpu())
    x = tensor(np.arange(14).reshape(2, 7))
    for mode in MODES:
        vm = VirtualMachine(executable(mode), cpu())
        vm["main"](x)
        made = allocator.books.num_allocations
        vm["main"](x)
        count, before = allocator.books.num_allocations - made, bytes_in_use()
        for number in range(count):
            allocator.fail_allocation(number)
            with pytest.raises(HeddleError, match="U0601"):
                vm["main"](x)
            assert bytes_in_use() == before


def lstm_model() -> onnx.ModelProto:
    rng = np.random.default_rng(1)
    weights = {
        "W": rng.standard_normal((2, 20, 3)).astype("float32"),
        "R": rng.standard_normal((2, 20, 5)).astype("float32"),
        "B": rng.standard_normal((2, 40)).astype("float32"),
    }
    node = onnx.helper.make_node("LSTM", ["x", *weights], ["y"], hidden_size=5, direction="bidirectional")
    floats = onnx.TensorProto.FLOAT
    graph = onnx.helper.make_graph(
        [node],
        "lstm",
        [onnx.helper.make_tensor_value_info("x", floats, ["length", "batch", 3])],
        [onnx.helper.make_tensor_value_info("y", floats, ["length", 2, "batch", 5])],
        [onnx.numpy_helper.from_array(value, name) for name, value in weights.items()],
    )
    return onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 17)], ir_version=8)


def test_loops_of_a_recurrent_network_at_any_sizes(threads: int) -> None:
    model = lstm_model()
    session = onnxruntime.InferenceSession(model.SerializeToString())
    machines = [VirtualMachine(build(from_onnx(model), exec_mode=mode), cpu()) for mode in MODES]
    rng = np.random.default_rng(2)
    for length, batch in [(1, 1), (7, 2), (2, 13), (31, 1), (7, 2)]:
        x = rng.standard_normal((length, batch, 3)).astype("float32")
        [expected] = session.run(None, {"x": x})
        for vm in machines:
            before = bytes_in_use()
            np.testing.assert_allclose(vm["main"](x).numpy(), expected, rtol=1e-4, atol=1e-5)
            assert bytes_in_use() == before


# ---- programs by hand


@cache
def kernels() -> KernelModule:
    """A module with the kernel `negative`, of vectors of any length."""
    source = """
@I.ir_module
class Module:
    @R.function
    def main(x: R.Tensor(("n",), "float32")) -> R.Tensor(("n",), "float32"):
        return R.negative(x)
"""
    [module] = [part for part in build(from_source(source)).imports if isinstance(part, KernelModule)]
    assert "negative" in module.names
    return module


FLOAT32 = DataType("float32")


class Program:
    """A function `main(x: (n,) float32)` under construction: heap %1, shape (n,) %2, bytes (4 n,) %3."""

    def __init__(self) -> None:
        self.ib = ExecBuilder()

    def alloc(self, dst: int, storage: int, shape: Any = None, offset: int = 0) -> None:
        ib = self.ib
        shape = ib.r(2) if shape is None else shape
        ib.emit_call(
            "vm.builtin.alloc_tensor", [ib.r(storage), ib.imm(offset), shape, FLOAT32], dst=ib.r(dst)
        )

    def storage(self, dst: int, sizes: Any = None) -> None:
        ib, uint8 = self.ib, DataType("uint8")
        given = ib.r(2) if sizes is None else ib.convert_constant(Shape(sizes))
        dtype = FLOAT32 if sizes is None else uint8
        ib.emit_call("vm.builtin.alloc_storage", [ib.vm_state(), given, ib.imm(0), dtype], dst=ib.r(dst))

    def negative(self, source: int, target: int) -> None:
        self.ib.emit_call("negative", [self.ib.r(source), self.ib.r(target)])

    def kill(self, register: int) -> None:
        self.ib.emit_call("vm.builtin.null_value", [], dst=self.ib.r(register))

    def view(self, source: int, target: int, shape: Any) -> None:
        self.ib.emit_call("vm.builtin.reshape", [self.ib.r(source), shape], dst=self.ib.r(target))


def made(body: Callable[[Program], None]) -> VMExecutable:
    program = Program()
    ib = program.ib
    with ib.function("main", 1):
        where = ib.convert_constant("main, parameter x")
        ib.emit_call("vm.builtin.alloc_shape_heap", [ib.vm_state(), ib.imm(1)], dst=ib.r(1))
        ib.emit_call("vm.builtin.match_shape", [ib.r(0), ib.r(1), *map(ib.imm, (1, 1, 0)), where])
        ib.emit_call("vm.builtin.make_shape", [ib.r(1), *map(ib.imm, (1, 1, 0))], dst=ib.r(2))
        body(program)
    return ib.get(imports=[kernels()])


def outcome(vm: VirtualMachine, x: np.ndarray) -> Any:
    try:
        return vm["main"](x).numpy().tolist()
    except HeddleError as error:
        return str(error)[: len("error[U0000]")]


def agree(body: Callable[[Program], None], in_frame: int, *, calls: int = 2) -> dict[int, Any]:
    """What the program gives at several sizes, in both modes the same; nothing is left behind."""
    program = made(body)
    assert len(uses_of(program).tensors) == in_frame
    machines = [VirtualMachine(program, cpu()), VirtualMachine(with_machine_code(program), cpu())]
    results = {}
    for n in (0, 1, 5):
        x = np.arange(n, dtype="float32")
        for _ in range(calls):
            outcomes = []
            for vm in machines:
                before = bytes_in_use()
                outcomes.append(outcome(vm, x))
                assert bytes_in_use() == before
            assert outcomes[0] == outcomes[1]
            results[n] = outcomes[0]
    return results


def result(program: Program, source: int) -> None:
    """Return the negative of a register, in a storage of its own: %9, %10."""
    program.storage(9)
    program.alloc(10, 9)
    program.negative(source, 10)
    program.ib.emit_ret(program.ib.r(10))


def test_a_tensor_of_the_frame() -> None:
    def body(program: Program) -> None:
        program.storage(4)
        program.alloc(5, 4)
        program.kill(4)
        program.negative(0, 5)
        result(program, 5)  # %5 is never cleared: the return drops it

    assert agree(body, 1) == {0: [], 1: [0.0], 5: [0.0, 1.0, 2.0, 3.0, 4.0]}


def test_a_storage_that_is_too_small() -> None:
    def body(program: Program) -> None:
        program.storage(4, (8,))
        program.alloc(5, 4)
        program.negative(0, 5)
        result(program, 5)

    results = agree(body, 1)
    assert results[1] == [0.0]
    assert results[5] == "error[U0602]"


def test_an_offset_and_sizes_that_are_known() -> None:
    def body(program: Program) -> None:
        program.storage(4, (24,))
        program.alloc(5, 4, program.ib.convert_constant(Shape((1,))), 8)
        program.alloc(6, 4, program.ib.convert_constant(Shape((1,))), 24)
        result(program, 5)

    assert set(agree(body, 2).values()) == {"error[U0602]"}


def test_a_storage_that_is_gone() -> None:
    def body(program: Program) -> None:
        program.storage(4)
        program.kill(4)
        program.alloc(5, 4)
        result(program, 5)

    assert set(agree(body, 1).values()) == {"error[V0408]"}


def test_a_tensor_that_is_gone() -> None:
    def body(program: Program) -> None:
        program.storage(4)
        program.alloc(5, 4)
        program.negative(0, 5)
        program.kill(5)
        result(program, 5)

    assert all(isinstance(got, str) for got in agree(body, 1).values())


def test_views_share_the_storage_and_must_not_grow() -> None:
    def body(program: Program) -> None:
        program.storage(4, (8,))
        program.alloc(5, 4, program.ib.convert_constant(Shape((2, 1))))
        program.kill(4)
        program.view(5, 6, program.ib.r(2))
        program.kill(5)
        program.negative(0, 6)
        result(program, 6)

    results = agree(body, 2)
    assert results[1] == [0.0]
    assert results[5] == "error[V0403]"


def test_a_view_that_leaves_the_function_is_an_object() -> None:
    def body(program: Program) -> None:
        program.storage(4)
        program.alloc(5, 4)
        program.negative(0, 5)
        program.view(5, 6, program.ib.r(2))
        program.kill(5)
        program.ib.emit_ret(program.ib.r(6))

    assert agree(body, 0)[5] == [0.0, -1.0, -2.0, -3.0, -4.0]


def test_a_storage_with_a_tensor_that_leaves_is_counted_by_all() -> None:
    def body(program: Program) -> None:
        program.storage(4, (40,))
        program.alloc(5, 4)
        program.alloc(6, 4, offset=20)
        program.kill(4)
        program.negative(0, 5)
        program.negative(5, 6)
        program.ib.emit_ret(program.ib.r(6))

    assert agree(body, 0)[5] == [0.0, 1.0, 2.0, 3.0, 4.0]


def test_a_loop_meets_its_own_tensors_again() -> None:
    """%7 counts down; %5 and its storage are made again each time, and never cleared."""

    def body(program: Program) -> None:
        ib = program.ib
        ib.emit_call("vm.builtin.copy", [ib.imm(3)], dst=ib.r(7))
        program.storage(4)  # pc 4
        program.alloc(5, 4)
        program.negative(0, 5)
        ib.emit_call("vm.builtin.make_prim_value", [ib.r(1), ib.imm(1), ib.imm(0)], dst=ib.r(8))
        ib.emit_call("vm.builtin.read_if_cond", [ib.r(7)], dst=ib.r(8))
        ib.emit_if(ib.r(8), 3)
        ib.emit_call("vm.builtin.copy", [ib.imm(0)], dst=ib.r(7))
        ib.emit_goto(-7)
        result(program, 5)

    assert agree(body, 1)[5] == [0.0, 1.0, 2.0, 3.0, 4.0]


def test_tail_calls_move_and_share_their_arguments() -> None:
    """`turn(n, a, b, c)`: while n, turn(0, b, b, x); the same value twice, and a constant."""
    ib = ExecBuilder()
    with ib.function("turn", 4):
        ib.emit_call("vm.builtin.read_if_cond", [ib.r(0)], dst=ib.r(4))
        ib.emit_if(ib.r(4), 3)
        fixed = ib.convert_constant(tensor(np.array([7.0], "float32")))
        ib.emit_call("turn", [ib.imm(0), ib.r(2), ib.r(2), fixed], dst=ib.r(5))
        ib.emit_ret(ib.r(5))
        ib.emit_call("vm.builtin.make_tuple", [ib.r(1), ib.r(2), ib.r(3)], dst=ib.r(5))
        ib.emit_ret(ib.r(5))
    program = ib.get()
    machines = [VirtualMachine(program, cpu()), VirtualMachine(with_machine_code(program), cpu())]
    for vm in machines:
        before = bytes_in_use()
        for n in (1, 0, 1, 1):
            a, b, c = (tensor(np.array([value], "float32")) for value in (1.0, 2.0, 3.0))
            got = [item.numpy().tolist() for item in vm["turn"](n, a, b, c)]
            assert got == ([[2.0], [2.0], [7.0]] if n else [[1.0], [2.0], [3.0]])
        del a, b, c
        assert bytes_in_use() == before


def test_registers_that_may_hold_objects() -> None:
    def body(program: Program) -> None:
        program.storage(4)
        program.alloc(5, 4)
        program.kill(4)
        program.negative(0, 5)
        program.kill(5)
        result(program, 0)

    program = made(body)
    [func] = program_functions(program.program, kernels().names).functions.values()
    statements = [stmt.value for stmt in func.body.seq]
    held = held_registers(statements, 1, {1, 2})
    assert held[-1] == {0, 5, 6}  # x, the result's storage, the result
    made_at, killed_at = (
        i for i, call in enumerate(statements) if "vm_call" in call.op.name and step_of(call).dst == 4
    )
    assert 4 not in held[made_at] and 4 in held[killed_at]
