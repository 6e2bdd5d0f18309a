"""Rows of operators on strings."""

from __future__ import annotations

from benchmarks.onnx_ops.case import Case

_TEXTS = "string[n] x"
_SMALL = {"n": 16}
_LARGE = {"n": 20_000}

TEXT: tuple[Case, ...] = (
    Case("StringConcat", "string[n] x, string[n] z", "y = StringConcat(x, z)", _SMALL, _LARGE),
    Case(
        "StringNormalizer",
        _TEXTS,
        'y = StringNormalizer<case_change_action="LOWER", is_case_sensitive=0, locale="C", '
        'stopwords=["a", "of"]>(x)',
        _SMALL,
        _LARGE,
    ),
    Case("StringSplit", _TEXTS, 'y, n0 = StringSplit<delimiter="e">(x)', _SMALL, _LARGE, outputs="y, n0"),
)
