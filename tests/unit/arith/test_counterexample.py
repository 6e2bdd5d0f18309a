"""Points that refute what has no proof: nothing that had one is lost, and little is searched."""

from __future__ import annotations

import gc
from typing import Any
from unittest import mock

from hypothesis import given
from hypothesis import strategies as st
from tests.unit.arith.expressions import conditions, domains, show
from tests.unit.arith.test_simplify_properties import SETTINGS, analyzer_for

from heddle.arith import Analyzer, prover
from heddle.arith import analyzer as analyzer_module
from heddle.arith.facts import Knowledge
from heddle.prim.nodes import Range, SizeVar, Var
from heddle.prim.ops import floordiv, floormod


@SETTINGS
@given(data=st.data())
def test_what_has_a_proof_is_not_refuted(data: Any) -> None:
    domain = data.draw(domains())
    condition, assumed = data.draw(conditions(domain)), data.draw(st.lists(conditions(domain), max_size=2))

    def knowing() -> Analyzer:
        analyzer = analyzer_for(domain)
        for each in assumed:
            analyzer.assume(each)
        return analyzer

    found = knowing().can_prove(condition)
    with (
        mock.patch.object(prover, "is_refuted", return_value=False),
        mock.patch.object(analyzer_module, "is_refuted", return_value=False),
    ):
        assert knowing().can_prove(condition) == found, (show(condition), list(map(show, assumed)))


def _sizes() -> tuple[Analyzer, list[Any]]:
    analyzer = Analyzer()
    sizes = [SizeVar(name) for name in "abcd"]
    outputs = [floordiv(size + 1, 3) + 1 for size in sizes]
    return analyzer, outputs


def test_facts_about_free_sizes_are_still_proved() -> None:
    analyzer, (a, b, c, d) = _sizes()
    f = Var("f", "int64")
    analyzer.bind(f, Range(a * b * c * d))
    assert analyzer.can_prove(f < a * b * c * d)
    assert analyzer.can_prove_equal(a * b * c * d, d * (c * (b * a)))
    analyzer.bind(Var("g", "int64"), Range(a))
    g = Var("g2", "int64")
    analyzer.bind(g, Range(b))
    assert analyzer.can_prove(g * c + floormod(f, c) < b * c)


def test_products_that_differ_are_told_apart_at_once() -> None:
    """Four sizes of pooled images, in an order that is not the other's."""
    analyzer, (a, b, c, d) = _sizes()
    searched = []
    search = prover._search
    with mock.patch.object(prover, "_search", lambda *args: searched.append(1) or search(*args)):
        for one in (a, a * b, a * b * c, a * b * c * d):
            for other in (b, b * c, b * c * d, a * b * d):
                assert not analyzer.can_prove_equal(one, other)
    assert len(searched) < 50


def test_a_search_that_fails_ends_early() -> None:
    """Sums of products of rounded quotients: nothing refutes them, and the ways to weaken them multiply."""
    analyzer = Analyzer()
    h, w, n = (SizeVar(name) for name in "hwn")
    levels = [floordiv(h + k - 1, k) * floordiv(w + k - 1, k) for k in (4, 8, 16, 32)]
    looked = 0
    search = prover._search

    def counted(know: Any, form: Any, depth: int) -> bool:
        nonlocal looked
        looked += len(form.terms)
        return search(know, form, depth)

    with mock.patch.object(prover, "_search", counted):
        assert not analyzer.can_prove(sum(levels[1:], levels[0]) * n * 3 <= levels[0] * n * 32)
    assert 0 < looked <= prover.MAX_WORK
    assert analyzer._know.work_left is None
    assert analyzer.can_prove(levels[0] * n <= levels[0] * n * 32)


def test_what_an_analyzer_knows_dies_with_it() -> None:
    """Compilers make thousands, and pause the collector of cycles meanwhile."""
    analyzer, (a, b, c, d) = _sizes()
    assert not analyzer.can_prove_equal(a * b, c * d)
    assert analyzer._know.caches.points
    gc.disable()
    try:
        known = len([item for item in gc.get_objects() if isinstance(item, Knowledge)])
        del analyzer
        left = len([item for item in gc.get_objects() if isinstance(item, Knowledge)])
    finally:
        gc.enable()
    assert left == known - 1
