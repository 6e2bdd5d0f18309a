"""An instrument that runs kernels of another library beside a program's."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from heddle.relax.testing.lib_comparator import LibCompareVMInstrument

import heddle
from heddle.runtime import FunctionModule, cpu
from heddle.script import ir as I
from heddle.script import relax as R
from heddle.vm.relax import VirtualMachine
from tests.unit.relax.running import MODES


@I.ir_module
class Model:
    @R.function
    def main(x: R.Tensor(("n", 5), "float32")) -> R.Tensor((5,), "float32"):
        y = R.sum(R.exp(x), axis=[0])
        return R.nn.softmax(y)


X = np.random.default_rng(5).standard_normal((7, 5)).astype("float32")


def expected() -> Any:
    y = np.exp(X).sum(0)
    return np.exp(y - y.max()) / np.exp(y - y.max()).sum()


class Counting(LibCompareVMInstrument):
    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.names: list[str] = []

    def compare(self, name: str, ref_args: Any, new_args: Any, ret_indices: Any) -> None:
        self.names.append(name)
        assert tuple(ret_indices) == (len(ref_args) - 1,)
        assert new_args[-1].address != ref_args[-1].address
        super().compare(name, ref_args, new_args, ret_indices)


@pytest.mark.fact("8.4")
@pytest.mark.parametrize("mode", MODES)
def test_a_library_agrees_with_itself(mode: str, capsys: pytest.CaptureFixture[str]) -> None:
    executable = heddle.compile(Model, exec_mode=mode)
    vm = VirtualMachine(executable, cpu())
    instrument = Counting(heddle.compile(Model), cpu())
    vm.set_instrument(instrument)
    np.testing.assert_allclose(vm["main"](X).numpy(), expected(), rtol=1e-5)
    kernels = {name for name in executable.imports[0].function_names() if not name.startswith("__vmtir__")}
    assert set(instrument.names) == kernels  # the function that computes sizes works in place
    assert instrument.counter == len(instrument.names) == len(capsys.readouterr().out.splitlines())


@pytest.mark.fact("8.4")
@pytest.mark.parametrize("mode", MODES)
def test_a_library_that_differs_is_found(mode: str) -> None:
    executable = heddle.compile(Model, exec_mode=mode)
    vm = VirtualMachine(executable, cpu())
    name = next(each for each in executable.imports[0].function_names() if "softmax" in each)
    calls: list[int] = []

    def wrong(*tensors: Any) -> None:
        calls.append(len(tensors))
        tensors[-1][:] = expected() * 1.01

    other = FunctionModule({name: wrong, "vm.builtin.match_shape": wrong})
    vm.set_instrument(LibCompareVMInstrument(other, cpu(), verbose=False))
    with pytest.raises(AssertionError, match=f"kernel '{name}' differs"):
        vm["main"](X)
    assert len(calls) == 1  # the builtin was left alone
    vm.set_instrument(LibCompareVMInstrument(other, cpu(), verbose=False, rtol=0.1))
    vm["main"](X)

    class Skipping(LibCompareVMInstrument):
        def skip_instrument(self, func: Any, name: str, before_run: bool, ret_val: Any, *args: Any) -> bool:
            return "softmax" in name

    skipping = Skipping(other, cpu())
    vm.set_instrument(skipping)
    vm["main"](X)
    assert skipping.counter == 0
