"""Lines that programs for TVM have everywhere: each is run, and what it gives is compared."""

from __future__ import annotations

import html
from typing import Any

import numpy as np
import pytest

import heddle
from heddle import relax, te, tir
from heddle.ir.structural import assert_structural_equal
from heddle.script import ir as I
from heddle.script import relax as R
from heddle.script import tir as T
from heddle.support.diagnostics import MissingNameError


@I.ir_module
class Model:
    @R.function
    def main(x: R.Tensor((2, 3), "float32")) -> R.Tensor((2, 3), "float32"):
        return R.nn.relu(x)


def kernel(*outputs: Any, name: str) -> Any:
    return te.create_prim_func(outputs).with_attr("global_symbol", name)


# ---- show


@pytest.mark.parametrize("options", [{}, {"black_format": True}, {"black_format": False, "style": "light"}])
def test_show_prints_the_text(options: Any, capsys: pytest.CaptureFixture[str]) -> None:
    for shown in (Model, Model["main"], Model["main"].params[0]):
        shown.show(**options)
        assert capsys.readouterr().out == f"{shown}\n"


def test_show_passes_options_of_the_text_on(capsys: pytest.CaptureFixture[str]) -> None:
    func = relax.Function([], relax.const(np.arange(3, dtype="float32")))
    func.show(show_meta=True)
    assert capsys.readouterr().out == func.script(show_meta=True) + "\n"


def test_a_schedule_shows_its_module_and_its_trace(capsys: pytest.CaptureFixture[str]) -> None:
    a = te.placeholder((8,), "float32", name="A")
    sch = tir.Schedule(kernel(a, te.compute((8,), lambda i: a[i] + 1.0, name="B"), name="f"))
    sch.split(sch.get_loops(sch.get_sblock("B"))[0], [None, 4])
    sch.trace.show(black_format=False)
    trace = capsys.readouterr().out
    assert trace == f"{sch.trace}\n" and "sch.split(loop=" in trace
    sch.show()
    assert capsys.readouterr().out == f"{sch.mod}\n{sch.trace}\n"


def test_notebooks_show_text_as_text() -> None:
    func = Model["main"].with_attr("mark", "<b>&")
    assert func._repr_html_() == f"<pre>{html.escape(str(func))}</pre>"
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
