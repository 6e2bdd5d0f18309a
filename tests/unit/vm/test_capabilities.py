"""What the bytecode of a compiled model from outside may call."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from heddle.runtime.function import register_global_func, remove_global_func
from heddle.runtime.module import FunctionModule
from heddle.support.diagnostics import UsageError
from heddle.vm.builtins.table import BUILTINS, REACHING_BUILTINS
from heddle.vm.capabilities import check_executable, reach_of
from heddle.vm.relax.builder import ExecBuilder
from heddle.vm.relax.executable import VMExecutable


def calling(name: str, *imports: FunctionModule) -> VMExecutable:
    builder = ExecBuilder()
    with builder.function("main", num_inputs=1):
        builder.emit_call(name, args=[builder.r(0)], dst=builder.r(1))
        builder.emit_ret(builder.r(1))
    return VMExecutable(builder.get().program, imports)


@pytest.fixture
def registered() -> Iterator[str]:
    register_global_func("tests.capabilities", lambda x: x)
    yield "tests.capabilities"
    remove_global_func("tests.capabilities")


def test_a_function_of_the_process_is_refused(registered: str) -> None:
    with pytest.raises(UsageError, match=r"S0401.*tests.capabilities.*functions of the process"):
        check_executable(calling(registered), "m.heddle")


@pytest.mark.parametrize("name", sorted(REACHING_BUILTINS))
def test_builtins_that_reach_out_are_refused(name: str) -> None:
    with pytest.raises(UsageError, match="S0401") as error:
        check_executable(calling(name), "m.heddle")
    assert REACHING_BUILTINS[name] in str(error.value)


@pytest.mark.parametrize("name", sorted(BUILTINS.keys() - REACHING_BUILTINS.keys()))
def test_builtins_that_compute_are_not(name: str) -> None:
    assert reach_of(name) == ""
    check_executable(calling(name), "m.heddle")


def test_its_own_functions_and_those_that_nobody_has_are_not(registered: str) -> None:
    check_executable(calling(registered, FunctionModule({registered: lambda x: x})), "m.heddle")
    check_executable(calling("tests.nobody"), "m.heddle")


def test_what_reaches_files_and_python_says_so() -> None:
    """A builtin that is added to these groups has to be looked at."""
    groups = ("tensor_cache.", "param_", "register_py", "get_py", "clear_py", "call_py", "invoke_debug")
    outside = {name for name in BUILTINS if name.removeprefix("vm.builtin.").startswith(groups)}
    assert outside == set(REACHING_BUILTINS)
