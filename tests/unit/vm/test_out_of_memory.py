"""Allocations that fail, wherever they are: the error is typed, nothing is lost, the next call is right."""

import gc

import numpy as np
import pytest

from heddle.runtime import FunctionModule, allocator_for, cpu, tensor
from heddle.support.diagnostics import Trap
from heddle.vm.relax import VirtualMachine
from tests.fuzz.networks import CONVOLUTION, ENCODER, is_right, largest_error

from .programs import HELPERS, builder

EXEC_MODES = ("bytecode", "compiled")


@pytest.fixture(
    scope="module",
    params=[(network, mode) for network in (ENCODER, CONVOLUTION) for mode in EXEC_MODES],
    ids=lambda param: f"{param[0].name}-{param[1]}",
)
def model(request):
    network, exec_mode = request.param
    return network, VirtualMachine(network.executable(exec_mode), cpu())


def count_allocations(vm, inputs):
    books = allocator_for(cpu()).books
    before = books.num_allocations
    vm["main"](*inputs)
    return books.num_allocations - before


def test_every_allocation_may_fail(model):
    network, vm = model
    inputs, _ = network.inputs(np.random.default_rng(3))
    inputs = [tensor(x) for x in inputs]
    allocator = allocator_for(cpu())
    count = count_allocations(vm, inputs)
    assert count > 2
    gc.collect()
    before = allocator.books.bytes_in_use
    for number in range(count):
        allocator.fail_allocation(number)
        with pytest.raises(Trap, match="U0601") as caught:
            vm["main"](*inputs)
        assert "instruction" in caught.value.diagnostics[0].notes[-1]
        del caught
        gc.collect()
        assert allocator.books.bytes_in_use == before
        assert is_right(network, [x.numpy() for x in inputs], vm["main"](*inputs))
    assert largest_error(network, [x.numpy() for x in inputs], vm["main"](*inputs)) < 1e-4


def test_a_limit_caps_a_model_and_may_be_lifted(model):
    network, vm = model
    inputs, _ = network.inputs(np.random.default_rng(4))
    allocator = allocator_for(cpu())
    before = allocator.books.bytes_in_use
    allocator.memory_limit_bytes = before + 64
    try:
        vm.trim()
        with pytest.raises(Trap, match="U0601"):
            vm["main"](*inputs)
    finally:
        allocator.memory_limit_bytes = None
    assert is_right(network, inputs, vm["main"](*inputs))


def test_trim_gives_unused_blocks_back(model):
    network, vm = model
    vm["main"](*network.inputs(np.random.default_rng(5))[0])
    books = allocator_for(cpu()).books
    assert books.cached_bytes > 0
    vm.trim()
    assert books.cached_bytes == 0


def test_blocks_do_not_pile_up_over_random_shapes(model):
    """What the pool holds is bounded by the largest call, not by how many shapes there were."""
    network, vm = model
    rng, books = np.random.default_rng(6), allocator_for(cpu()).books
    vm.trim()
    for _ in range(150):
        vm["main"](*network.inputs(rng)[0])
    held = books.cached_bytes
    for _ in range(300):
        vm["main"](*network.inputs(rng)[0])
    assert books.cached_bytes <= 1.25 * held


@pytest.mark.usefixtures("mode")
def test_programs_with_closures_and_recursion_lose_nothing_either():
    """An allocation fails while tuples, closures and frames of a recursion are alive."""
    made = builder()
    with made.function("grow", 2):
        made.emit_call("is_zero", [made.r(0)], dst=made.r(2))
        made.emit_if(made.r(2), 2)
        made.emit_ret(made.r(1))
        made.emit_call("minus_one", [made.r(0)], dst=made.r(3))
        made.emit_call("fresh", [made.r(0)], dst=made.r(4))
        made.emit_call("vm.builtin.make_tuple", [made.r(4), made.r(1)], dst=made.r(5))
        made.emit_call("vm.builtin.make_closure", [made.f("grow"), made.r(5)], dst=made.r(6))
        made.emit_call("vm.builtin.invoke_closure", [made.vm_state(), made.r(6), made.r(3)], dst=made.r(7))
        made.emit_call("vm.builtin.make_tuple", [made.r(7), made.r(4)], dst=made.r(8))
        made.emit_ret(made.r(8))
    functions = {**HELPERS, "fresh": lambda n: tensor(np.full(100, n))}
    vm = VirtualMachine(made.get(imports=[FunctionModule(functions)]), cpu())
    vm["grow"](6, 0)
    allocator = allocator_for(cpu())
    gc.collect()
    before = allocator.books.bytes_in_use
    for number in range(6):
        allocator.fail_allocation(number)
        with pytest.raises(Trap, match="U0601"):
            vm["grow"](6, 0)
        gc.collect()
        assert allocator.books.bytes_in_use == before
    vm["grow"](6, 0)
    gc.collect()
    assert allocator.books.bytes_in_use == before


def test_key_value_caches_survive_a_failure():
    """A cache whose growth fails is as it was."""
    made = builder()
    with made.function("append", 2):
        made.emit_call("vm.builtin.attention_kv_cache_append", [made.r(0), made.r(1)], dst=made.r(2))
        made.emit_ret(made.r(2))
    with made.function("view", 1):
        made.emit_call("vm.builtin.attention_kv_cache_view", [made.r(0)], dst=made.r(1))
        made.emit_ret(made.r(1))
    with made.function("create", 1):
        made.emit_call(
            "vm.builtin.attention_kv_cache_create", [made.r(0), (2, 3), made.imm(0)], dst=made.r(1)
        )
        made.emit_ret(made.r(1))
    vm = VirtualMachine(made.get(), cpu())
    cache = vm["create"](np.zeros((1, 3), "float32"))
    row = tensor(np.ones((2, 3), "float32"))
    vm["append"](cache, row)
    allocator = allocator_for(cpu())
    allocator.fail_allocation(0)
    with pytest.raises(Trap, match="U0601"):
        vm["append"](cache, row)
    assert vm["view"](cache).numpy().tolist() == [[1.0] * 3] * 2
    vm["append"](cache, row)
    assert vm["view"](cache).shape == (4, 3)
