"""Chains of rows, which loops collect, become tensors; in both modes."""

import numpy as np
import pytest

from heddle.runtime import FunctionModule, allocator_for, cpu, tensor
from heddle.support.diagnostics import HeddleError, Trap
from heddle.vm.relax import VirtualMachine

from .programs import HELPERS, builder, call_builtin

pytestmark = pytest.mark.usefixtures("mode")  # bytecode and compiled


def chain_of(first, rows):
    made = tensor(first)
    for row in rows:
        made = (made, tensor(row))
    return made


def stack(chain):
    return call_builtin("stack_chain", lambda ib: [ib.r(0)], 1, (chain,))


@pytest.mark.parametrize("dtype", ["float32", "int64", "bool", "float16"])
@pytest.mark.parametrize("inner", [(), (1,), (7,), (2, 0), (3, 5)])
@pytest.mark.parametrize(("before", "count"), [(0, 0), (0, 1), (2, 0), (3, 11)])
def test_rows_lie_below_each_other(dtype, inner, before, count):
    values = np.random.default_rng().integers(0, 2, (before + count, *inner)).astype(dtype)
    made = stack(chain_of(values[:before].copy(), values[before:]))
    assert made.dtype == dtype
    np.testing.assert_array_equal(made.numpy(), values)


def test_a_row_may_have_dimensions_of_one_more():
    row = np.arange(6, dtype="float32")
    made = stack(chain_of(np.zeros((0, 2, 3), "float32"), [row.reshape(1, 2, 3)]))
    np.testing.assert_array_equal(made.numpy(), row.reshape(1, 2, 3))


@pytest.mark.parametrize(
    ("chain", "kind", "message"),
    [
        ((1, 2), TypeError, "expected a chain of rows"),
        (3, TypeError, "expected a chain of rows.*got int"),
        ((tensor(np.zeros((0, 2), "float32")),), TypeError, "expected a chain of rows.*got Array"),
        ((tensor(np.zeros((0, 2), "float32")), 5), TypeError, "expected a chain of rows"),
        (tensor(np.float32(3)), TypeError, "expected a chain of rows.*got Tensor"),
        (chain_of(np.zeros((0, 2), "float32"), [np.zeros(3, "float32")]), ValueError, "8 bytes.*12 bytes"),
        (chain_of(np.zeros((0, 2), "float32"), [np.zeros(2, "int32")]), ValueError, "rows of a chain differ"),
        (chain_of(np.zeros((0, 2), "float32"), [np.zeros(2, "f"), np.zeros(1, "f")]), ValueError, "4 bytes"),
    ],
)
def test_what_is_no_chain_is_refused(chain, kind, message):
    with pytest.raises(kind, match=message) as caught:
        stack(chain)
    assert isinstance(caught.value, HeddleError)


def collecting():
    """main(chain, row, n): n more rows, then the tensor, in the register that held the chain."""
    made = builder()
    with made.function("main", 3):
        made.emit_call("is_zero", [made.r(2)], dst=made.r(3))
        made.emit_if(made.r(3), 3)
        made.emit_call("vm.builtin.stack_chain", [made.r(0)], dst=made.r(0))
        made.emit_ret(made.r(0))
        made.emit_call("minus_one", [made.r(2)], dst=made.r(4))
        made.emit_call("vm.builtin.make_tuple", [made.r(0), made.r(1)], dst=made.r(0))
        made.emit_call("main", [made.r(0), made.r(1), made.r(4)], dst=made.r(0))
        made.emit_ret(made.r(0))
    return VirtualMachine(made.get(imports=[FunctionModule(HELPERS)]), cpu())


def test_long_chains_are_made_and_dropped():
    vm, row = collecting(), np.arange(3, dtype="int32")
    for count in (0, 1, 20_000):
        made = vm["main"](np.zeros((0, 3), "int32"), row, count)
        np.testing.assert_array_equal(made.numpy(), np.broadcast_to(row, (count, 3)))


def test_memory_that_is_not_there_is_a_typed_error_and_the_next_call_works():
    vm, allocator = collecting(), allocator_for(cpu())
    first, row = np.zeros((0, 1 << 10), "int8"), np.zeros((1 << 10,), "int8")
    vm.trim()
    allocator.memory_limit_bytes = allocator.books.bytes_in_use + (1 << 16)
    try:
        with pytest.raises(Trap, match="U0601"):
            vm["main"](first, row, 100)
    finally:
        allocator.memory_limit_bytes = None
    assert vm["main"](first, row, 100).shape == (100, 1 << 10)
