"""Regular expressions in RE2's syntax. Matching time grows linearly with the length of the text."""

from __future__ import annotations

from heddle.vm.builtins.regex.matcher import Matcher, compile_pattern
from heddle.vm.builtins.regex.parse import PatternError

__all__ = ["Matcher", "PatternError", "compile_pattern"]
