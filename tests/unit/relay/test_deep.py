"""Programs nested as deeply as they like: printed, read, compared, saved, inferred and run."""

from __future__ import annotations

import numpy as np
import pytest

from heddle.ir.json_codec import load_json, save_json
from heddle.ir.structural import assert_structural_equal, structural_equal, structural_hash
from heddle.relay import Let, astext, parse_expr
from heddle.relay.analysis import free_vars, well_formed
from heddle.relay.typed import infer_expr, infer_module
from tests.unit.relay.programs import program, run, value

COUNT = 2_000
LETS = "".join(f"let %a{i} = add({'%x' if i == 0 else f'%a{i - 1}'}, 1f);\n" for i in range(COUNT))
CALLS = "negative(" * COUNT + "%x" + ")" * COUNT
BRACES = "{" * COUNT + "1f" + "}" * COUNT
BRANCHES = "".join(f"if (%c) {{ {i} }} else " for i in range(3000)) + "{ 5 }"
FUNCTIONS = "".join(f"fn (%y{i}: int32) {{ " for i in range(300)) + "1" + "}" * 300


@pytest.mark.parametrize(
    "text",
    [
        f"free_var %x: float32; {LETS} %a{COUNT - 1}",
        f"free_var %x: float32; {CALLS}",
        BRACES,
        f"free_var %c: bool; {BRANCHES}",
        FUNCTIONS,
    ],
    ids=["lets", "calls", "braces", "branches", "functions"],
)
def test_nesting_has_no_limit(text: str) -> None:
    expr = parse_expr(text)
    again = parse_expr(astext(expr))
    assert structural_equal(expr, again, map_free_vars=True)
    assert structural_hash(expr, True) == structural_hash(again, True)
    assert structural_equal(load_json(save_json(expr)), expr, map_free_vars=True)
    assert well_formed(expr) and len(free_vars(expr)) <= 1
    assert str(infer_expr(expr).checked_type)


def test_a_deep_difference_is_found() -> None:
    a = parse_expr("negative(" * COUNT + "1f" + ")" * COUNT)
    b = parse_expr("negative(" * COUNT + "2f" + ")" * COUNT)
    assert not structural_equal(a, b)
    with pytest.raises(ValueError, match="values differ"):
        assert_structural_equal(parse_expr("negative(negative(1f))"), parse_expr("negative(negative(2f))"))


def test_deep_programs_run() -> None:
    mod = program(f"def @main(%x: float32) {{ {LETS} %a{COUNT - 1} }}")
    assert run(mod, 0.5) == np.float32(COUNT + 0.5)
    assert isinstance(mod["main"].body, Let)
    assert infer_module(mod) is mod


@pytest.mark.long("a hundred thousand frames")
def test_recursion_of_100000_calls() -> None:
    text = "def @main(%n: int32) -> int32 { if (%n == 0) { 0 } else { @main(%n - 1) + 1 } }"
    assert run(program(text), 100_000) == 100_000


def test_a_shared_expression_is_computed_once() -> None:
    """2 ** 200 nodes as a tree."""
    text = "%0 = 1f;" + "".join(f"%{i + 1} = add(%{i}, %{i});" for i in range(100)) + "%100"
    expr = parse_expr(text)
    assert value(expr) == np.float32(2.0**100)
    assert structural_equal(expr, parse_expr(astext(infer_expr(expr), annotate=lambda _: "")))
