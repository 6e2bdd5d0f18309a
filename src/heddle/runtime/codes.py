"""Diagnostic codes of the runtime room: values, devices, tensors, packed functions, modules."""

from heddle.support.diagnostics import declare_code

U0101 = declare_code(
    "U0101", "unknown dtype", "The spelling names no element type; see `docs/glossary.md` for the list."
)
