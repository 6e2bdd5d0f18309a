"""A pass instrument that verifies Relax programs before and after passes; it has TVM's name."""

from __future__ import annotations

from heddle.ir.instrument import verify_module
from heddle.ir.module import IRModule
from heddle.ir.transform import PassInfo, PassInstrument
from heddle.support.diagnostics import VerifyError

_MAY_BE_OUT_OF_FORM = ("Normalize", "NormalizeGlobalVar", "ResolveGlobals")
"""Passes whose input need not be well-formed, because they establish the normal form."""


class WellFormedInstrument(PassInstrument):
    """Verifies the module before and after each pass. Types are always checked; `check_ty` is ignored.

    Raises: VerifyError with all findings and the name of the pass.
    """

    def __init__(self, check_ty: bool = True) -> None:
        self.skip_pass_name = list(_MAY_BE_OUT_OF_FORM)

    def run_before_pass(self, mod: IRModule, info: PassInfo) -> None:
        self._check(mod, info.name, "before")

    def run_after_pass(self, mod: IRModule, info: PassInfo) -> None:
        self._check(mod, info.name, "after")

    def _check(self, mod: IRModule, name: str, when: str) -> None:
        findings = [] if name in self.skip_pass_name else verify_module(mod)
        if findings:
            error = VerifyError(findings)
            error.add_note(f"{when} pass {name}")
            raise error
