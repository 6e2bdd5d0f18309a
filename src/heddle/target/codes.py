"""Diagnostic codes of targets."""

from heddle.support.diagnostics import declare_code

A0101 = declare_code("A0101", "malformed target", "A target is a kind followed by options: `llvm -mcpu=NAME -num-cores=4`.")
A0102 = declare_code("A0102", "unknown target kind", "Programs are compiled for the kinds that the message lists.")
A0103 = declare_code("A0103", "unknown target option", "The target kind has no such option.")
A0104 = declare_code("A0104", "no current target", "`Target.current(allow_none=False)` was called outside `with target:`.")
