"""Capabilities: what the functions that a program names can access, and which programs may call them.

A builtin declares what it accesses beyond the program's own values (`builtin(reaches=...)`). An untrusted
program may not call any other function of the process.
"""

from __future__ import annotations

from collections.abc import Sequence

from heddle.runtime.function import find_global_func
from heddle.runtime.module import Module, modules_of
from heddle.support.codes import S0401
from heddle.support.diagnostics import Diagnostic, UsageError
from heddle.support.span import Span
from heddle.vm.builtins import load
from heddle.vm.builtins.table import BUILTINS, REACHING_BUILTINS
from heddle.vm.executable import Executable
from heddle.vm.graph.aot import AotExecutorFactoryModule
from heddle.vm.graph.factory import GraphExecutorFactoryModule
from heddle.vm.isa import FuncKind

PROCESS_FUNCTION = "functions of the process"
MAX_FINDINGS = 20
_HELP = "read the file; if you would run it as a program, run it with --trust (trust=True)"


def reach_of(name: str) -> str:
    """Return what a function of the process can access; "" for a builtin that only computes."""
    assert load.GROUPS  # the builtins are declared
    return REACHING_BUILTINS.get(name, "" if name in BUILTINS else PROCESS_FUNCTION)


def refusal(capability: str, what: str, span: Span | None) -> Diagnostic:
    """Return the finding for a place in a program that needs a capability."""
    message = f"{what} needs a capability that files from outside do not have: {capability}"
    return Diagnostic(S0401, message, span, (), _HELP)


def check_program(program: Module, name: str) -> None:
    """Reject a compiled program of any machine or executor, as `check_executable` does one of a machine.

    Raises: UsageError S0401.
    """
    if isinstance(program, Executable):
        check_executable(program, name)
    elif isinstance(program, AotExecutorFactoryModule):
        check_executable(program.lib, name)
    elif isinstance(program, GraphExecutorFactoryModule):
        called = [node.function for node in program.graph.nodes if not node.is_input]
        _check_called(program.lib or program, called, name)


def check_executable(executable: Executable, name: str) -> None:
    """Reject a compiled model whose bytecode calls functions of the process.

    The model's kernels are machine code and must be trusted. Its bytecode may call only these kernels and
    builtins that only compute. An unknown name is not rejected here; the machine reports it.

    Raises: UsageError S0401.
    """
    rows = executable.program.functions
    _check_called(executable, [row.name for row in rows if row.kind is FuncKind.PACKED], name)


def _check_called(program: Module, called: Sequence[str], name: str) -> None:
    # Look up names only: getting a function would link the module, which may be for another machine.
    own = {known for module in modules_of(program) for known in module.function_names()}
    findings = []
    for callee in dict.fromkeys(called):
        reach = None if callee in own else reach_of(callee)
        if reach and (callee in BUILTINS or find_global_func(callee) is not None):
            findings.append(refusal(reach, f"{name} calls {callee!r}, which", None))
    if findings:
        raise UsageError(findings[:MAX_FINDINGS])
