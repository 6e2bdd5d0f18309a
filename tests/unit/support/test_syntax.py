"""Syntax trees that threads make at the same time."""

from __future__ import annotations

import ast
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from heddle.support.syntax import parse_expression, parse_module


@pytest.mark.parametrize("parse", [parse_expression, parse_module])
def test_a_text_that_another_thread_disturbed_is_read_again(
    parse: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun, genuine = [], ast.parse

    def disturbed(*args: Any, **options: Any) -> Any:
        begun.append(args)
        if len(begun) < 4:
            raise SystemError("AST constructor recursion depth mismatch (before=42, after=41)")
        return genuine(*args, **options)

    monkeypatch.setattr(ast, "parse", disturbed)
    assert ast.unparse(parse("n + 1")) == "n + 1"
    assert len(begun) == 4


def test_a_text_that_is_none_is_refused() -> None:
    with pytest.raises(SyntaxError):
        parse_expression("n +")


def test_many_threads_read_texts() -> None:
    texts = [f"min({k}, n * {k} + (m - {k}) // 3)" for k in range(2000)]
    with ThreadPoolExecutor(8) as threads:
        assert [ast.unparse(tree) for tree in threads.map(parse_expression, texts)] == texts
