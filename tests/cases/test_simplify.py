"""The golden cases of the simplifier: one rule a line. README.md tells what the variables are."""

from __future__ import annotations

import ast
from pathlib import Path
from typing import Any

import pytest

from heddle.arith import Analyzer
from heddle.ir.structural import structural_equal
from heddle.prim import ops
from heddle.prim.nodes import IntImm, PrimExpr, Range, SizeVar, Var, as_expr
from heddle.runtime.dtype import DataType
from heddle.script.parser import DEFAULT_NAMES
from heddle.support.span import Source
from heddle.tir.parser import PrimFuncParser
from tests.cases.golden import FOLDER

ARROW = " => "
PATHS = sorted((FOLDER / "arith").glob("*.txt"))
VARIABLES: dict[str, Any] = {name: Var(name, "int64") for name in "xyzabcij"}
VARIABLES |= {"n": SizeVar("n"), "m": SizeVar("m"), "s": Var("s", "int8")}
VARIABLES |= {name: Var(name, "bool") for name in "pq"} | {name: Var(name, "float32") for name in "fg"}


def analyzer() -> Analyzer:
    made = Analyzer()
    extents = {"a": IntImm("int64", 4), "b": IntImm("int64", 8), "c": IntImm("int64", 16)}
    for name, extent in (extents | {"i": VARIABLES["m"], "j": VARIABLES["n"]}).items():
        made.bind(VARIABLES[name], Range(IntImm("int64", 0), extent))
    return made


def read(text: str, dtype: DataType | None = None) -> PrimExpr:
    """The expression of a text; a plain number has `dtype`, where one is given."""
    tree = ast.parse(text.strip(), mode="eval").body
    value = PrimFuncParser(Source("<case>", text), {**DEFAULT_NAMES, **VARIABLES}).eval(tree)
    if (
        isinstance(tree, (ast.Constant, ast.UnaryOp))
        and isinstance(value, (int, float))
        and dtype is not None
    ):
        return ops.const(value, dtype)
    return as_expr(value)


def simplified(line: str) -> tuple[str, str | None]:
    """A line as it should be, and what is wrong with it."""
    left, arrow, right = line.partition(ARROW)
    assert arrow or line.endswith("=>"), f"expected `expression{ARROW}expression`, got {line!r}"
    expr = read(left.removesuffix("=>"))
    found = analyzer().simplify(expr)
    assert analyzer().simplify(found) is found, f"{found} is not simple yet"
    if right.strip() and structural_equal(found, read(right, found.dtype)):
        return line, None
    made = f"{left.removesuffix('=>').rstrip()}{ARROW}{found}"
    return made, f"got `{made}`, the case has `{line}`"


@pytest.mark.parametrize("path", PATHS, ids=lambda path: path.stem)
def test_simplifier_makes_what_the_case_has(path: Path, request: pytest.FixtureRequest) -> None:
    lines = path.read_text().splitlines()
    results = [
        (line, None) if not line.strip() or line.startswith("#") else simplified(line) for line in lines
    ]
    differences = [problem for _, problem in results if problem is not None]
    if differences and request.config.getoption("--update"):
        path.write_text("\n".join(line for line, _ in results) + "\n")
        return
    assert not differences, "\n".join(differences)


def test_a_line_that_differs_is_told_with_what_should_stand() -> None:
    assert simplified("x + x => x * 2") == ("x + x => x * 2", None)
    assert simplified("x + x => x * 3")[0] == "x + x => x * 2"
    assert simplified("x - x =>")[0].startswith("x - x => ")
    with pytest.raises(AssertionError, match="expected"):
        simplified("x + x")
