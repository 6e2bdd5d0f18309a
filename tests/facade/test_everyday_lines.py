"""Lines that programs for TVM have everywhere: each is run, and what it gives is compared."""

from __future__ import annotations

import html
import importlib
import operator
import re
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import heddle
from heddle import ir, relax, relay, te, tir
from heddle.driver.named_pipelines import PIPELINE_MAP
from heddle.facade.table import ALIASES, EXPORTS
from heddle.ir.structural import assert_structural_equal
from heddle.ir.visitor import walk
from heddle.script import ir as I
from heddle.script import relax as R
from heddle.script import tir as T
from heddle.support.diagnostics import IRTypeError, MissingNameError, ParseError, UsageError, VerifyError


@I.ir_module
class Model:
    @R.function
    def main(x: R.Tensor((2, 3), "float32")) -> R.Tensor((2, 3), "float32"):
        return R.nn.relu(x)


def kernel(*outputs: Any, name: str) -> Any:
    return te.create_prim_func(outputs).with_attr("global_symbol", name)


# ---- show


@pytest.mark.parametrize("options", [{}, {"black_format": False}])
def test_show_prints_the_text(options: Any, capsys: pytest.CaptureFixture[str]) -> None:
    for shown in (Model, Model["main"], Model["main"].params[0]):
        shown.show(**options)
        assert capsys.readouterr().out == f"{shown}\n"


def plain(text: str) -> str:
    """Text without the codes of a terminal."""
    return re.sub("\x1b\\[[0-9;]*m", "", text)


@pytest.mark.parametrize("style", ["light", "dark", "ansi", "friendly"])
def test_a_style_gives_colours_and_nothing_else(style: str, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("pygments")
    sch = tir.Schedule(_plus_one())
    sch.get_sblock("B")
    for shown in (Model, Model["main"], sch.trace):
        shown.show(style=style)
        printed = capsys.readouterr().out
        assert "\x1b[" in printed and plain(printed) == f"{shown}\n"


def test_a_terminal_gets_colours_unless_it_wants_none(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("pygments")
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True, raising=False)
    monkeypatch.delenv("NO_COLOR", raising=False)
    Model.show()
    assert "\x1b[" in capsys.readouterr().out
    monkeypatch.setenv("NO_COLOR", "1")
    Model.show()
    assert capsys.readouterr().out == f"{Model}\n"


def test_unknown_styles_and_missing_packages(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("pygments")
    with pytest.raises(UsageError, match=r"S0706(.|\n)*friendly"):
        Model.show(style="freindly")
    monkeypatch.setattr("heddle.support.shown.find_spec", lambda name: None)
    for options, package in (({"style": "light"}, "Pygments"), ({"black_format": True}, "Black")):
        with pytest.warns(UserWarning, match=package):
            Model.show(**options)
        assert capsys.readouterr().out == f"{Model}\n"
    assert Model._repr_html_() == f"<pre>{html.escape(str(Model))}</pre>"


def _plus_one() -> Any:
    a = te.placeholder((8,), "float32", name="A")
    return kernel(a, te.compute((8,), lambda i: a[i] + 1.0, name="B"), name="f")


def test_show_passes_options_of_the_text_on(capsys: pytest.CaptureFixture[str]) -> None:
    func = relax.Function([], relax.const(np.arange(3, dtype="float32")))
    func.show(show_meta=True)
    assert capsys.readouterr().out == func.script(show_meta=True) + "\n"


def test_a_schedule_shows_its_module_and_its_trace(capsys: pytest.CaptureFixture[str]) -> None:
    sch = tir.Schedule(_plus_one())
    sch.split(sch.get_loops(sch.get_sblock("B"))[0], [None, 4])
    sch.trace.show(black_format=False)
    trace = capsys.readouterr().out
    assert trace == f"{sch.trace}\n" and "sch.split(loop=" in trace
    sch.show()
    assert capsys.readouterr().out == f"{sch.mod}\n{sch.trace}\n"


def test_notebooks_show_text_as_text() -> None:
    func = Model["main"].with_attr("mark", "<b>&")
    shown = html.unescape(re.sub("<[^>]*>", "", func._repr_html_())).strip()
    assert shown == str(func).strip()
    assert "&lt;b&gt;&amp;" in func._repr_html_() and "<b>" not in func._repr_html_()


# ---- tensor expressions and modules


@pytest.mark.parametrize("dtype", ["float32", "int32"])
def test_extremes_of_values(dtype: str) -> None:
    a = te.placeholder((2, 4), dtype, name="A")
    relu = te.compute((2, 4), lambda i, j: te.max(a[i, j], 0), name="relu")
    least = te.compute((2, 4), lambda i, j: te.min(a[i, j], relu[i, j], 1, -2), name="least")
    module = heddle.build(kernel(a, relu, least, name="extremes"))
    x = np.array([[-3, -1, 0, 1], [2, 5, -7, 4]], dtype)
    given = [heddle.runtime.tensor(each) for each in (x, np.empty_like(x), np.empty_like(x))]
    module(*given)
    np.testing.assert_array_equal(given[1].numpy(), np.maximum(x, 0))
    np.testing.assert_array_equal(given[2].numpy(), np.minimum(x, -2))


def test_extremes_over_axes_stay() -> None:
    a = te.placeholder((2, 4), "float32", name="A")
    k = te.reduce_axis((0, 4), name="k")
    module = heddle.build(kernel(a, te.compute((2,), lambda i: te.max(a[i, k], k)), name="row_max"))
    x = np.array([[-3, -1, 0, 1], [2, 5, -7, 4]], "float32")
    given = [heddle.runtime.tensor(each) for each in (x, np.empty((2,), "float32"))]
    module(*given)
    np.testing.assert_array_equal(given[1].numpy(), x.max(axis=1))


def test_a_module_of_several_functions_needs_a_name() -> None:
    @I.ir_module
    class Two:
        @T.prim_func
        def one(a: T.Buffer((1,), "float32")):
            a[0] = 1.0

        @T.prim_func
        def two(a: T.Buffer((1,), "float32")):
            a[0] = 2.0

    with pytest.raises(MissingNameError, match=r"U0501.*'main'"):
        heddle.build(Two)(heddle.runtime.empty((1,), "float32"))


# ---- operators' words


def test_void_is_an_element_type_left_open() -> None:
    @R.function
    def said(x: R.Tensor((2, 3), "float32"), w: R.Tensor((3, 2), "float32")):
        return R.matmul(x, w, out_dtype="void")

    @R.function
    def unsaid(x: R.Tensor((2, 3), "float32"), w: R.Tensor((3, 2), "float32")):
        return R.matmul(x, w)

    assert_structural_equal(said.without_attr("global_symbol"), unsaid.without_attr("global_symbol"))
    assert said.ret_ty.dtype == "float32"


# ---- operators and properties of Relax expressions


def tensor_var(name: str, dtype: str = "float32", shape: Any = (2, 3)) -> Any:
    return relax.Var(name, R.Tensor(shape, dtype))


def run_emitted(value: Any, params: list[Any], *arrays: np.ndarray) -> np.ndarray:
    """What a function that gives `value` computes of `arrays`, compiled."""
    builder = relax.BlockBuilder()
    with builder.function("main", params):
        builder.emit_func_output(builder.emit(value))
    machine = relax.VirtualMachine(relax.build(builder.get(), "llvm"), heddle.cpu())
    result: np.ndarray = machine["main"](*map(heddle.runtime.tensor, arrays)).numpy()
    return result


OPERATORS = {
    "add": operator.add,
    "subtract": operator.sub,
    "multiply": operator.mul,
    "divide": operator.truediv,
    "floor_divide": operator.floordiv,
    "mod": operator.mod,
    "power": operator.pow,
    "less": operator.lt,
    "less_equal": operator.le,
    "greater": operator.gt,
    "greater_equal": operator.ge,
}


@pytest.mark.parametrize("name", OPERATORS)
def test_operators_build_relax_calls(name: str) -> None:
    x, y = tensor_var("x"), tensor_var("y")
    assert_structural_equal(
        relax.Function([x, y], OPERATORS[name](x, y)), relax.Function([x, y], getattr(relax.op, name)(x, y))
    )
    a = np.array([[1.5, 2.0, 3.0], [0.5, 4.0, 2.0]], "float32")
    b = np.array([[2.0, 2.0, 1.0], [1.0, 3.0, 5.0]], "float32")
    result = run_emitted(OPERATORS[name](x, y), [x, y], a, b)
    assert result.dtype == OPERATORS[name](a, b).dtype
    np.testing.assert_allclose(result, OPERATORS[name](a, b), rtol=1e-6)


def test_operators_nest_and_mix_with_constants_on_both_sides() -> None:
    x = tensor_var("x")
    a = np.array([[1.5, -2.0, 3.0], [0.5, 4.0, -1.0]], "float32")
    two = relax.const(2.0)
    np.testing.assert_allclose(run_emitted(two - (-x * x) / two, [x], a), 2 + a * a / 2, rtol=1e-6)
    assert_structural_equal(two + two, relax.op.add(two, two))
    np.testing.assert_array_equal(run_emitted(x.astype("int32"), [x], a), a.astype("int32"))


@pytest.mark.parametrize("make", [lambda x: x + 1.0, lambda x: 1.0 - x, lambda x: x < 2, lambda x: x * None])
def test_a_number_is_made_a_constant_first(make: Any) -> None:
    with pytest.raises(IRTypeError, match=r"R0103(.|\n)*convert it with `const` first"):
        make(tensor_var("x"))


def test_equality_stays_identity() -> None:
    x, y = tensor_var("x"), tensor_var("x")
    assert x == x and x != y and {x: 1, y: 2}[y] == 2


def test_relay_keeps_its_own_operators() -> None:
    x = relay.var("x", shape=(2, 3))
    parsed = relay.parse_expr("fn (%y: Tensor[(2, 3), float32]) { %y }").params[0]
    for value in (x, relay.Var("z", relay.TensorType((2, 3))), parsed, relay.exp(x), relay.const(1.0)):
        assert (value + x).op.name == (value + value).op.name == "add"
        assert (-value).op.name == "negative" and value.astype("int8").op.name == "cast"
    assert isinstance(x, relay.Var) and (relax.Tuple([x, x])[1] + x).op.name == "add"
    with pytest.raises(TypeError, match="unsupported operand"):
        x // x
    again = heddle.ir.load_json(heddle.ir.save_json(relay.Function([x], x)))
    assert (again.params[0] + again.params[0]).op.name == "add"


def test_fields_of_tuples() -> None:
    x, y = tensor_var("x"), tensor_var("y", "int32", (4,))
    pair = relax.Var("pair", R.Tuple(x.ty, y.ty))
    assert_structural_equal(pair[1], relax.TupleGetItem(pair, 1))
    assert pair[1].ty.dtype == pair[-1].ty.dtype == "int32" and pair[-2].index == 0
    assert [field.index for field in pair] == [0, 1]
    assert list(relax.Tuple([x, y])) == [x, y]
    for index in (2, -3):
        with pytest.raises(IndexError, match="I0310"):
            pair[index]
    for wrong in (lambda: x[0], lambda: pair["a"], lambda: iter(x), lambda: list(relax.Var("u"))):
        with pytest.raises(UsageError, match="I0310"):
            wrong()
    assert relax.Var("u")[3].index == 3  # what has no type yet may be a tuple


def test_properties_of_types() -> None:
    n = tir.Var("n", "int64")
    x = relax.Var("x", relax.TensorType((n, 8), "float16"))
    assert x.shape[0] is n and list(x.shape) == list(x.ty.dims) and x.dtype == "float16" and x.ndim == 2
    assert x.struct_info is x.ty and relax.const(1.0).dtype == "float32"
    assert relax.Var("s", R.Prim("int64")).dtype == "int64"
    bare = relax.op.add(x, x)
    for name in ("shape", "dtype", "ndim", "struct_info"):
        with pytest.raises(MissingNameError, match=r"I0304(.|\n)*BlockBuilder"):
            getattr(bare, name)
    for var, name in ((relax.Var("t", R.Tuple()), "shape"), (relax.Var("t", R.Tensor(ndim=2)), "dtype")):
        with pytest.raises(MissingNameError, match=f"I0309.*{name}"):
            getattr(var, name)


# ---- types as words of scripts


def test_a_word_of_a_type_is_a_type() -> None:
    x = relax.Var("x", R.Tensor((2, 3), "float32"))
    assert_structural_equal(x.ty, relax.TensorType((2, 3), "float32"))
    assert relax.Var("x", R.Tensor).ty.ndim == -1 and isinstance(relax.Var("x", R.Object).ty, relax.AnyType)
    with pytest.raises(IRTypeError, match=r"I0311.*str"):
        relax.Var("x", "float32")


def test_names_among_sizes_are_symbolic() -> None:
    ty = relax.Var("x", R.Tensor(("n", 8, "n * 2 + m"), "float32")).ty
    n, eight, last = ty.dims
    assert isinstance(n, tir.Var) and n.name == "n" and int(eight) == 8
    assert str(last) == "n * 2 + m" and n in list(walk(last))
    pair = relax.Var("p", R.Tuple(R.Tensor(("n",)), R.Tensor(("n",)))).ty
    assert pair.fields[0].dims[0] is pair.fields[1].dims[0] and pair.fields[0].dims[0] is not n
    for wrong in ("n +", "f(n)", "n / 2", "1 // 0", "1.5", "n.a"):
        with pytest.raises(ParseError, match="R0401"):
            relax.Var("x", R.Tensor((wrong,)))


def test_a_free_size_by_name_runs() -> None:
    x = relax.Var("x", R.Tensor(("n", 8), "float32"))
    for size in (0, 1, 7):
        a = np.arange(size * 8, dtype="float32").reshape(size, 8)
        np.testing.assert_array_equal(run_emitted(x + x, [x], a), a + a)


@pytest.mark.parametrize("make", [relax.TensorType, relax.TensorStructInfo, relax.ShapeType])
def test_names_in_types_say_what_to_do(make: Any) -> None:
    with pytest.raises(IRTypeError, match=r'K0102.*\'n\'(.|\n)*tir.Var\("n", "int64"\)'):
        make(("n", 8))


@pytest.mark.parametrize("call_tir", [R.call_tir, relax.op.call_tir, relax.call_tir])
def test_call_tir_takes_words_of_types(call_tir: Any) -> None:
    x = tensor_var("x")
    name = relax.GlobalVar("f")
    word, ty = R.Tensor((2, 3), "float32"), relax.TensorType((2, 3), "float32")
    wanted = relax.op.call_tir(name, [x], ty)
    assert_structural_equal(call_tir(name, [x], word), wanted)
    assert_structural_equal(call_tir(name, [x], out_sinfo=word), wanted)
    assert_structural_equal(call_tir(name, [x], [word, word]), relax.op.call_tir(name, [x], [ty, ty]))


def test_call_tir_built_in_python_runs() -> None:
    a = te.placeholder((2, 3), "float32", name="A")
    x = tensor_var("x")
    builder = relax.BlockBuilder()
    name = builder.add_func(kernel(a, te.compute((2, 3), lambda i, j: a[i, j] + 1.0), name="f"), "f")
    with builder.function("main", [x]):
        builder.emit_func_output(builder.emit(R.call_tir(name, [x], R.Tensor((2, 3), "float32"))))
    machine = relax.VirtualMachine(relax.build(builder.get(), "llvm"), heddle.cpu())
    value = np.ones((2, 3), "float32")
    np.testing.assert_array_equal(machine["main"](heddle.runtime.tensor(value)).numpy(), value + 1)


# ---- passes and pipelines


@pytest.fixture
def own_pipelines() -> Iterator[None]:
    """Pipelines that a test registers go again."""
    known = dict(PIPELINE_MAP)
    yield
    PIPELINE_MAP.clear()
    PIPELINE_MAP.update(known)


@I.ir_module
class Both:
    @T.prim_func
    def loops(a: T.Buffer((2,), "float32")):
        a[0] = 1.0

    @R.function
    def main(x: R.Tensor((2, 3), "float32")) -> R.Tensor((2, 3), "float32"):
        with R.dataflow():
            y = R.nn.relu(x)
            R.output(y)
        return y


def test_passes_over_functions_see_their_dialect_alone() -> None:
    seen = []

    @relax.transform.function_pass(opt_level=1, name="Graphs")
    def graphs(func: Any, mod: Any, ctx: Any) -> Any:
        seen.append(func)
        return func.with_attr("seen", mod is Both)

    @tir.transform.prim_func_pass(opt_level=0)
    class Loops:
        def __init__(self, mark: str) -> None:
            self.mark = mark

        def transform_function(self, func: Any, mod: Any, ctx: Any) -> Any:
            return func.with_attr("mark", self.mark)

    assert graphs.info.name == "Graphs" and graphs.info.opt_level == 1
    made = graphs(Both)
    assert seen == [Both["main"]] and made["main"].attrs["seen"] and made["loops"] is Both["loops"]
    made = Loops("m")(Both)
    assert made["loops"].attrs["mark"] == "m" and made["main"] is Both["main"]
    assert relax.transform.function_pass(lambda func, mod, ctx: func, opt_level=0)(Both) is Both


def test_passes_over_dataflow_blocks() -> None:
    @relax.transform.dataflowblock_pass(opt_level=0)
    def to_exp(block: Any, mod: Any, ctx: Any) -> Any:
        bindings = [
            relax.VarBinding(b.var, relax.op.exp(relax.op.abs(b.value.args[0]))) for b in block.bindings
        ]
        return relax.DataflowBlock(bindings)

    made = to_exp(Both)
    assert relax.analysis.well_formed(made) and made["loops"] is Both["loops"]
    machine = relax.VirtualMachine(relax.build(made, "llvm"), heddle.cpu())
    x = np.array([[-1, 0, 2], [3, -4, 1]], "float32")
    result = machine["main"](heddle.runtime.tensor(x)).numpy()
    np.testing.assert_allclose(result, np.exp(np.abs(x)), rtol=1e-5)
    assert relax.transform.dataflowblock_pass(lambda block, mod, ctx: block, opt_level=0)(Both) is Both


def test_pass_instruments_of_plain_classes() -> None:
    @ir.instrument.pass_instrument
    class Names:
        def __init__(self, start: str) -> None:
            self.names = [start]

        def run_before_pass(self, mod: Any, info: Any) -> None:
            self.names.append(info.name)

    names = Names("start")
    assert isinstance(names, ir.instrument.PassInstrument) and Names.__name__ == "Names"
    with ir.transform.PassContext(instruments=[names]):
        relax.transform.Normalize()(Both)
        relax.transform.FoldConstant()(Both)
    assert names.names == ["start", "Normalize", "FoldConstant"]


def test_the_instrument_of_well_formedness_names_the_pass() -> None:
    stray = relax.Var("stray", R.Tensor((2, 3), "float32"))

    @relax.transform.function_pass(opt_level=0)
    def breaks(func: Any, mod: Any, ctx: Any) -> Any:
        return relax.Function(func.params, relax.SeqExpr([], stray), stray.ty)

    with ir.transform.PassContext(instruments=[relax.ir.instrument.WellFormedInstrument()]):
        relax.transform.FoldConstant()(Both)
        with pytest.raises(VerifyError, match="stray") as caught:
            breaks(Both)
    assert caught.value.__notes__ == ["after pass breaks"]


@pytest.mark.usefixtures("own_pipelines")
def test_pipelines_by_name() -> None:
    fused = relax.get_pipeline()(Both)
    assert any("call_tir" in str(b.value) for b in fused["main"].body.bindings())
    built = relax.get_pipeline("default_build")(Both)
    assert_structural_equal(built, relax.get_default_pipeline(heddle.target.Target("llvm"))(Both))
    runs = []

    @relax.register_pipeline("mine")
    def mine(mark: str = "plain") -> Any:
        @ir.transform.module_pass(opt_level=0)
        def run(mod: Any, ctx: Any) -> Any:
            runs.append(mark)
            return relax.get_pipeline("default")(mod)

        return run

    relax.get_pipeline("mine", mark="loud")(Both)
    machine = relax.VirtualMachine(relax.build(Both, "llvm", relax_pipeline="mine"), heddle.cpu())
    x = np.array([[-1, 0, 2], [3, -4, 1]], "float32")
    np.testing.assert_array_equal(machine["main"](heddle.runtime.tensor(x)).numpy(), np.maximum(x, 0))
    assert runs == ["loud", "plain"]
    with pytest.raises(ValueError, match=r"D0103.*registered already"):
        relax.register_pipeline("mine")
    with pytest.raises(ValueError, match=r"D0103.*'mime'(.|\n)*did you mean 'mine'"):
        relax.get_pipeline("mime")


@pytest.mark.parametrize("module", sorted(EXPORTS))
def test_dir_lists_every_public_name_and_each_resolves(module: str) -> None:
    facade = importlib.import_module(module)
    listed = set(dir(facade))
    wanted = {word.partition("=")[0] for words in EXPORTS[module].values() for word in words.split()}
    below = {n[len(module) + 1 :] for n in (*EXPORTS, *ALIASES) if n.rpartition(".")[0] == module}
    assert wanted | below <= listed


def test_dir_lists_passes_and_submodules_before_they_are_asked_for() -> None:
    program = (
        "import heddle, heddle.relax.transform as t\n"
        "assert {'FoldConstant', 'FuseOps', 'function_pass'} <= set(dir(t)) and 'Var' not in dir(t)\n"
        "assert {'relax', 'tirx', 'frontend', 'compile'} <= set(dir(heddle))\n"
        "import heddle.relay; assert {'add', 'nn', 'Var'} <= set(dir(heddle.relay))\n"
        "assert all(getattr(heddle, n, None) is not None for n in ('relax', 'compile', 'tir'))\n"
    )
    subprocess.run([sys.executable, "-c", program], check=True)


# ---- visitors and mutators


@I.ir_module
class Sums:
    @R.function
    def main(x: R.Tensor((2, 3), "float32"), c: R.Tensor((), "bool")) -> R.Tensor((2, 3), "float32"):
        with R.dataflow():
            a = R.add(x, x)
            b = R.add(a, R.const(1.0))
            R.output(b)
        if c:
            d = R.add(b, x)
        else:
            d = R.nn.relu(b)
        return d


def run_sums(mod: Any, flag: bool) -> np.ndarray:
    machine = relax.VirtualMachine(relax.build(mod, "llvm"), heddle.cpu())
    x = np.array([[-1, 0, 2], [3, -4, 1]], "float32")
    result: np.ndarray = machine["main"](*map(heddle.runtime.tensor, (x, np.array(flag)))).numpy()
    return result


def test_a_visitor_sees_every_call_and_definition() -> None:
    @relax.expr_functor.visitor
    class Names(relax.PyExprVisitor):
        def __init__(self) -> None:
            self.calls: list[str] = []
            self.defined: list[str] = []

        def visit_call_(self, call: Any) -> None:
            self.calls.append(call.op.name)
            super().visit_call_(call)

        def visit_var_def_(self, var: Any) -> None:
            self.defined.append(var.name_hint)

        visit_dataflow_var_def_ = visit_var_def_

    names = Names()
    names.visit_expr(Sums["main"])
    assert names.calls == ["relax.add", "relax.add", "relax.add", "relax.nn.relu"]
    assert {"x", "c", "a", "b", "d"} <= set(names.defined)


@pytest.mark.parametrize("flag", [True, False])
def test_a_mutator_makes_programs_that_run(flag: bool) -> None:
    @relax.expr_functor.mutator
    class Change(relax.PyExprMutator):
        def visit_call_(self, call: Any) -> Any:
            call = self.visit_expr_post_order(call)
            if call.op == heddle.ir.Op.get("relax.add"):
                one = self.builder_.emit(relax.op.multiply(call.args[0], relax.const(3.0)))
                return relax.op.subtract(one, relax.op.exp(call.args[1]))  # nested: it is normalised
            return call

    change = Change(Sums)
    change.builder_.update_func(Sums.get_global_var("main"), change.visit_expr(Sums["main"]))
    made = change.builder_.get()
    assert relax.analysis.well_formed(made)
    x = np.array([[-1, 0, 2], [3, -4, 1]], "float32")
    b = 3 * (3 * x - np.exp(x)) - np.exp(np.float32(1))
    np.testing.assert_allclose(
        run_sums(made, flag), 3 * b - np.exp(x) if flag else np.maximum(b, 0), rtol=1e-4, atol=1e-4
    )


def test_a_mutator_that_changes_nothing_keeps_the_function() -> None:
    assert relax.PyExprMutator(Sums).visit_expr(Sums["main"]) is Sums["main"]


def test_a_mutator_follows_types_that_change() -> None:
    class Half(relax.PyExprMutator):
        def visit_var_def_(self, var: Any) -> Any:
            if var.name_hint != "x":
                return super().visit_var_def_(var)
            new = relax.Var("x", R.Tensor((2, 3), "float64"))
            self.set_var_remap(var, new)
            return new

        def visit_constant_(self, op: Any) -> Any:
            return relax.const(op.data.numpy(), "float64")

    made = Half(Sums).visit_expr(Sums["main"])
    assert made.ret_ty.dtype == "float64" and relax.analysis.well_formed(made)
