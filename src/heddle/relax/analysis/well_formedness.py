"""Check that programs are well-formed, that is, that they obey the rules of their dialects."""

from __future__ import annotations

from heddle.ir.expr import Function
from heddle.ir.instrument import verify_module
from heddle.ir.module import IRModule
from heddle.support.diagnostics import Diagnostic, VerifyError


def _findings(program: IRModule | Function) -> list[Diagnostic]:
    return verify_module(program if isinstance(program, IRModule) else IRModule.from_expr(program))


def well_formed(program: IRModule | Function, check_ty: bool = True) -> bool:
    """Whether the verifier has no findings for a module or graph function. Types are always checked."""
    return not _findings(program)


def check_well_formed(program: IRModule | Function) -> None:
    """Verify a module or graph function. Raises: VerifyError with all findings, if there are any."""
    findings = _findings(program)
    if findings:
        raise VerifyError(findings)
