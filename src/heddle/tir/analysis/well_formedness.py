"""Check that loop functions are well-formed."""

from __future__ import annotations

from heddle.ir.module import IRModule
from heddle.support.diagnostics import VerifyError
from heddle.tir.nodes import PrimFunc
from heddle.tir.verify import verify_prim_func


def verify_well_formed(program: IRModule | PrimFunc, assert_mode: bool = True) -> bool:
    """Whether the verifier has no findings. With `assert_mode`, raise VerifyError with all findings instead
    of returning False."""
    mod = program if isinstance(program, IRModule) else IRModule.from_expr(program)
    funcs = [func for func in mod.functions.values() if isinstance(func, PrimFunc)]
    findings = [finding for func in funcs for finding in verify_prim_func(func, mod)]
    if findings and assert_mode:
        raise VerifyError(findings)
    return not findings
