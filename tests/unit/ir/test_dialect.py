"""Functions say their dialect, and what works on functions of any asks its record."""

from __future__ import annotations

import ast
import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import pytest

from heddle.graph.copying import copy_with_new_vars
from heddle.graph.types import TensorType
from heddle.ir.dialect import DIALECTS, Dialect, ScriptContext, declare_dialect, dialect_of
from heddle.ir.expr import ExternFunc, Function, Var
from heddle.ir.instrument import VerifyEach, verify_function, verify_module
from heddle.ir.json_codec import load_json, save_json
from heddle.ir.module import IRModule
from heddle.ir.node import PRINTERS, replace
from heddle.ir.structural import assert_structural_equal, structural_equal, structural_hash
from heddle.ir.transform import FunctionPass, PassContext
from heddle.ir.types import FuncType, Type
from heddle.relax.codes import R0303
from heddle.script import from_source
from heddle.script import ir as I
from heddle.script import relax as R
from heddle.script import tir as T
from heddle.support.diagnostics import Diagnostic, MissingNameError, UsageError
from heddle.support.text import TextBuilder


@I.ir_module
class Program:
    @R.function
    def main(x: R.Tensor((4,), "float32")) -> R.Tensor((4,), "float32"):
        cls = Program
        with R.dataflow():
            y = R.call_tir(cls.double, (x,), out_ty=R.Tensor((4,), "float32"))
            R.output(y)
        return y

    @T.prim_func
    def double(a: T.Buffer((4,), "float32"), b: T.Buffer((4,), "float32")):
        for i in range(4):
            with T.sblock("double"):
                vi = T.axis.spatial(4, i)
                b[vi] = a[vi] + a[vi]


OF = {"main": "relax", "double": "tir"}


@pytest.mark.parametrize("name", OF)
def test_a_record_prints_reads_and_verifies_its_functions(name: str) -> None:
    func = Program[name]
    dialect = dialect_of(func)
    assert (func.dialect, dialect.name) == (OF[name], OF[name])
    text = dialect.write(func, name, []).build()
    assert f"@{dialect.decorator}" in text
    assert all(line.strip() in str(Program) for line in text.splitlines())
    assert dialect.verify(func, Program) == verify_function(func, Program) == []
    assert_structural_equal(dialect.normalize(func, Program), func)
    assert from_source(str(Program))[name].dialect == OF[name]


def test_a_record_runs_its_functions() -> None:
    x, out = np.random.default_rng().standard_normal(4).astype("float32"), np.zeros(4, "float32")
    np.testing.assert_array_equal(DIALECTS["relax"].run(Program["main"], Program, [x]), x + x)
    DIALECTS["tir"].run(Program["double"], Program, [x, out])
    np.testing.assert_array_equal(out, x + x)


def test_external_functions_are_in_no_dialect() -> None:
    func = ExternFunc("elsewhere")
    assert func.dialect == "" and verify_function(func, IRModule()) == []
    with pytest.raises(UsageError, match="I0303"):
        dialect_of(func)


# ---- another dialect, whose functions have the class of relax's


class _Reader:
    def __init__(self, context: ScriptContext) -> None:
        self._context = context

    def signature(self, node: ast.FunctionDef) -> Type:
        return FuncType((TensorType((2,), "int8"),), TensorType((2,), "int8"))

    def parse(self, node: ast.FunctionDef) -> Function:
        return _function(node.name)


def _function(name: str) -> Function:
    x = Var("x", TensorType((2,), "int8"))
    return Function((x,), x, x.ty, True, {"global_symbol": name}, dialect="toy")


def _rule(func: Function, _mod: IRModule) -> list[Diagnostic]:
    """Symbols are in lower case."""
    name = str(func.attrs["global_symbol"])
    return [] if name.islower() else [Diagnostic(R0303, f"{name} shouts", func.span)]


def _toy_lines(name: str) -> TextBuilder:
    out = TextBuilder()
    out.line("@Y.toy_func")
    out.line(f"def {name}(x): ...")
    return out


@pytest.fixture
def toy() -> Iterator[Dialect]:
    dialect = Dialect(
        name="toy",
        families=("toy",),
        decorator="Y.toy_func",
        script=lambda node, **_options: f"a toy of {len(node.params)}",
        write=lambda _func, name, _constants: _toy_lines(name),
        read=_Reader,
        verify=_rule,
        run=lambda func, _mod, args: args[0],
        normalize=lambda func, _mod: func,
    )
    yield declare_dialect(dialect)
    DIALECTS.remove("toy")
    PRINTERS.remove("toy")


def test_text_and_rules_are_the_dialects_own(toy: Dialect) -> None:
    func = _function("quiet")
    assert str(func) == "a toy of 1"
    mod = Program.with_functions({**Program.functions, **IRModule({"quiet": func}).functions})
    assert "@Y.toy_func\n    def quiet(x): ..." in str(mod) and "@R.function\n    def main" in str(mod)
    assert verify_module(mod) == []
    loud = IRModule({"LOUD": _function("LOUD")})
    assert [finding.message for finding in verify_module(loud)] == ["LOUD shouts"]
    with pytest.raises(UsageError, match="LOUD shouts"), PassContext(instruments=[VerifyEach()]):
        _Rename()(loud)


def test_script_text_tells_the_dialect(toy: Dialect) -> None:
    text = str(IRModule({"quiet": _function("quiet")})).replace(": ...", ":\n        pass")
    assert_structural_equal(from_source(text)["quiet"], _function("quiet"))


@dataclass(frozen=True)
class _Rename(FunctionPass):
    dialects: ClassVar[tuple[str, ...] | None] = ("relax",)

    def transform_function(self, func: Any, mod: IRModule, ctx: PassContext) -> Any:
        return func.with_attr("seen", func.dialect)


@dataclass(frozen=True)
class _RenameAll(_Rename):
    dialects: ClassVar[tuple[str, ...] | None] = None


def test_passes_work_on_functions_of_their_dialects(toy: Dialect) -> None:
    mod = IRModule({**{var.name_hint: func for var, func in Program.functions.items()}, "f": _function("f")})
    seen = {var.name_hint: func.attrs.get("seen") for var, func in _Rename()(mod).functions.items()}
    assert seen == {"main": "relax", "double": None, "f": None}
    seen = {var.name_hint: func.attrs.get("seen") for var, func in _RenameAll()(mod).functions.items()}
    assert seen == {"main": "relax", "double": "tir", "f": "toy"}


def test_copies_keep_the_dialect(toy: Dialect) -> None:
    func = _function("f")
    for made in (func.with_attr("a", 1), replace(func, is_pure=False), copy_with_new_vars(func)):
        assert made.dialect == "toy"


def test_the_dialect_is_part_of_a_function() -> None:
    func = _function("f")
    other = replace(func, dialect="relax")
    assert not structural_equal(func, other) and structural_hash(func) != structural_hash(other)


@pytest.mark.parametrize("dialect", ["relax", "toy"])
def test_json_keeps_the_dialect_and_its_old_form(dialect: str) -> None:
    """Files from before functions said their dialect are read, and relax functions are written as then."""
    func = replace(_function("f"), dialect=dialect)
    text = save_json(func)
    fields = next(node["fields"] for node in json.loads(text)["nodes"] if node["kind"] == "ir.Function")
    assert ("dialect" in fields) == (dialect != "relax")
    again = load_json(text)
    assert_structural_equal(again, func)
    assert again.dialect == dialect


def test_a_dialect_that_nobody_declared() -> None:
    func = replace(_function("f"), dialect="unheard")
    assert str(func).startswith("ir.Function(")
    with pytest.raises(MissingNameError, match=r"S0202.*unheard"):
        verify_module(IRModule({"f": func}))
