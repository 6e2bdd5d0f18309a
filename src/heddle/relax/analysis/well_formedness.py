"""Whether programs keep the rules of their dialects, as a question and as a demand."""

from __future__ import annotations

from heddle.ir.expr import Function
from heddle.ir.instrument import verify_module
from heddle.ir.module import IRModule
from heddle.support.diagnostics import Diagnostic, VerifyError


def _findings(program: IRModule | Function) -> list[Diagnostic]:
    return verify_module(program if isinstance(program, IRModule) else IRModule.from_expr(program))


def well_formed(program: IRModule | Function, check_ty: bool = True) -> bool:
    """Whether a module or graph function has no findings. Types are always checked."""
    return not _findings(program)


def check_well_formed(program: IRModule | Function) -> None:
    """Raises: VerifyError with every finding, if there is one."""
    findings = _findings(program)
    if findings:
        raise VerifyError(findings)
