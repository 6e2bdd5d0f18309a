"""Capabilities: what the functions that a program names can access, and which programs may call them.

A builtin declares what it accesses beyond the program's own values (`builtin(reaches=...)`). An untrusted
program may not call any other function of the process.
"""

from __future__ import annotations

from heddle.runtime.function import find_global_func
from heddle.runtime.module import modules_of
from heddle.support.codes import S0401
from heddle.support.diagnostics import Diagnostic, UsageError
from heddle.support.span import Span
from heddle.vm.builtins import load
from heddle.vm.builtins.table import BUILTINS, REACHING_BUILTINS
from heddle.vm.executable import Executable
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


def check_executable(executable: Executable, name: str) -> None:
    """Reject a compiled model whose bytecode calls functions of the process.

    The model's kernels are machine code and must be trusted. Its bytecode may call only these kernels and
    builtins that only compute. An unknown name is not rejected here; the machine reports it.

    Raises: UsageError S0401.
    """
    # Look up names only: getting a function would link the module, which may be for another machine.
    own = {known for module in modules_of(executable) for known in module.function_names()}
    findings = []
    for row in executable.program.functions:
        if row.kind is not FuncKind.PACKED or row.name in own:
            continue
        reach = reach_of(row.name)
        if reach and (row.name in BUILTINS or find_global_func(row.name) is not None):
            findings.append(refusal(reach, f"{name} calls {row.name!r}, which", None))
    if findings:
        raise UsageError(findings[:MAX_FINDINGS])
