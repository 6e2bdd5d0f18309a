"""The instrument that checks Relax programs around passes, at TVM's name."""

from __future__ import annotations

from heddle.ir.instrument import verify_module
from heddle.ir.module import IRModule
from heddle.ir.transform import PassInfo, PassInstrument
from heddle.support.diagnostics import VerifyError

_MAY_BE_OUT_OF_FORM = ("Normalize", "NormalizeGlobalVar", "ResolveGlobals")
"""Passes that are there to bring programs into form."""


class WellFormedInstrument(PassInstrument):
    """Checks the module before and after each pass. Types are checked, whatever `check_ty` says.

    Raises: VerifyError with every finding, and the pass.
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
