"""What the functions that a program names can get at, and which programs may call them.

A builtin says what it reaches beyond the program's own values (`builtin(reaches=...)`); any other function of
the process is out of reach for a program from outside.
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
    """What a function of the process gets at; "" for builtins that only compute."""
    assert load.GROUPS  # the builtins are declared
    return REACHING_BUILTINS.get(name, "" if name in BUILTINS else PROCESS_FUNCTION)


def refusal(capability: str, what: str, span: Span | None) -> Diagnostic:
    """The finding for a place that asks for more than computing."""
    message = f"{what} needs a capability that files from outside do not have: {capability}"
    return Diagnostic(S0401, message, span, (), _HELP)


def check_executable(executable: Executable, name: str) -> None:
    """Refuse a compiled model whose bytecode calls functions of the process.

    Its kernels are machine code: who loads it trusts whoever made it. Its bytecode still calls nothing but
    these and builtins that compute. A name that nothing has is left to the machine, which names it.

    Raises: UsageError S0401.
    """
    # By name: asking a module for a function would link it, for whatever machine it is.
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
