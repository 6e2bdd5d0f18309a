"""Products in few bits: what is computed so, what is not, and that values stay near."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest

import heddle
from heddle import relay
from heddle.driver.passes import read_pass
from heddle.ir.module import IRModule
from heddle.ir.transform import PassContext
from heddle.relay import transform as passes
from heddle.relay.op_attrs import register_mixed_precision_conversion, reset_op_attr
from heddle.relay.placement import post_order
from heddle.relay.transform.rewriting import is_call
from heddle.support.diagnostics import HeddleError, HeddleWarning
from heddle.target import Target
from tests.unit.relay.corpus import ROWS, parsed
from tests.unit.relay.programs import program, run

RNG = np.random.default_rng(9)
X = "%x: Tensor[(3, 4), float32], %w: Tensor[(4, 4), float32]"
KEEP = {"relay.ToMixedPrecision.keep_orig_output_dtype": True}


def _narrow(mod: IRModule, dtype: str = "float16", mode: int = 0, **config: Any) -> IRModule:
    with PassContext(config=config.get("config")) as ctx:
        return passes.ToMixedPrecision(dtype, mode).transform(mod, ctx)


def _dtypes(mod: IRModule, name: str) -> list[str]:
    return [str(node.ty.dtype) for node in post_order(mod["main"]) if is_call(node, name)]


def _near(found: Any, wanted: Any) -> None:
    if isinstance(wanted, tuple):
        for one, other in zip(found, wanted, strict=True):
            _near(one, other)
    else:
        np.testing.assert_allclose(np.asarray(found, "float32"), wanted, rtol=3e-2, atol=3e-2)


def _values(rows: int = 3) -> tuple[Any, Any]:
    return RNG.uniform(-1, 1, (rows, 4)).astype("float32"), RNG.uniform(-1, 1, (4, 4)).astype("float32")


PROGRAMS = {
    "what moves data follows": (
        "reshape(transpose(nn.dense(%x, %w)), newshape=[-1])",
        {"transpose", "reshape"},
    ),
    "elements follow": ("nn.relu(nn.dense(%x, %w) * 2f)", {"nn.relu", "multiply"}),
    "exponentials and sums do not": ("sum(exp(nn.dense(%x, %w)), axis=[1])", set()),
    "one wide operand is enough to stay": ("nn.dense(%x, %w) + %x", set()),
    "two narrow operands": ("nn.dense(%x, %w) + nn.dense(%x, tanh(%w))", {"add"}),
    "tuples": ("concatenate((nn.dense(%x, %w), nn.dense(%w, %w)), axis=0)", {"concatenate"}),
    "tuples with a wide field": ("concatenate((nn.dense(%x, %w), %x), axis=0)", set()),
    "parts": ("{ %0 = split(nn.dense(%x, %w), indices_or_sections=2, axis=1); %0.0 - %0.1 }", {"subtract"}),
    "comparisons": ("where(nn.dense(%x, %w) < nn.dense(%x, tanh(%w)), %x, tanh(%x))", set()),
    "casts": ('cast(cast(nn.dense(%x, %w), dtype="int32"), dtype="float32") * nn.dense(%x, %w)', set()),
    "shared": ("{ %0 = nn.dense(%x, %w); (nn.relu(%0), exp(%0), %0) }", {"nn.relu"}),
    "nothing": ("exp(%x)", set()),
}
FOLLOWING = ("nn.relu", "multiply", "add", "subtract", "transpose", "reshape", "concatenate")
PROGRAMS["nested tuples"] = ("((%x, nn.dense(%x, %w)), (nn.softmax(%x), ()))", set())


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
@pytest.mark.parametrize("rows", ["3", "?"])
@pytest.mark.parametrize("name", PROGRAMS)
def test_products_and_what_follows_them(name: str, rows: str, dtype: str) -> None:
    text, followers = PROGRAMS[name]
    if rows == "?" and "split" in text:
        rows = "3"
    mod = program(f"def @main({X.replace('(3, 4)', f'({rows}, 4)')}) {{ {text} }}")
    made = _narrow(mod, dtype)
    assert set(_dtypes(made, "nn.dense")) <= {dtype}
    for each in FOLLOWING:
        assert (dtype in _dtypes(made, each)) == (each in followers), each
    assert all(found == "float32" for each in ("exp", "sum") for found in _dtypes(made, each))
    args = _values()
    if dtype == "float16":
        _near(run(made, *args), run(mod, *args))
    _near(run(_narrow(mod, dtype, config=KEEP), *args), run(mod, *args))
    assert (made is mod) == (name == "nothing")


def test_results_keep_their_dtype_where_it_is_asked_for() -> None:
    mod = program(f"def @main({X}) {{ (nn.dense(%x, %w), %x) }}")
    shown = lambda made: [str(field.dtype) for field in made["main"].ret_ty.fields]  # noqa: E731
    assert shown(_narrow(mod)) == ["float16", "float32"]
    assert shown(_narrow(mod, config=KEEP)) == ["float32", "float32"]


def test_functions_that_are_called_keep_their_types() -> None:
    mod = program(f"""
    def @f({X}) -> Tensor[(3, 4), float32] {{ nn.dense(%x, %w) }}
    def @main({X}) {{ nn.dense(@f(%x, %w), %w) }}""")
    made = _narrow(mod)
    assert str(made["f"].ret_ty.dtype) == "float32" and str(made["main"].ret_ty.dtype) == "float16"
    args = _values()
    _near(run(made, *args), run(mod, *args))


def test_lets_branches_closures_and_references() -> None:
    mod = program(f"""
    def @main(%c: bool, {X}) {{
      let %y = nn.dense(%x, %w);
      let %t = (%y, nn.relu(%y));
      let %f = fn (%v: Tensor[(3, 4), float32]) {{ %v * 2f + %y }};
      let %z = if (%c) {{ %y }} else {{ exp(%t.1) }};
      let %r = ref(%y);
      let %u = ref_write(%r, %z);
      (%f(%y), ref_read(%r), %t)
    }}""")
    made = _narrow(mod)
    assert _dtypes(made, "nn.relu") == ["float16"]
    for chosen in (True, False):
        args = np.bool_(chosen), *_values()
        _near(run(made, *args), run(mod, *args))


@pytest.mark.parametrize("name", ROWS)
def test_programs_of_the_corpus_stay_well_typed(name: str) -> None:
    mod = parsed(name)
    made = _narrow(mod, mode=2)
    passes.InferType()(made)
    relay.parse(made.astext())


def test_networks() -> None:
    """A convolution with its normalisation and a constant bias; pools and global means between."""
    x = relay.var("x", shape=(1, 3, 8, 8))
    c = lambda *shape: relay.const(RNG.uniform(-0.3, 0.3, shape).astype("float32"))  # noqa: E731
    y = relay.nn.bias_add(relay.nn.conv2d(x, c(4, 3, 3, 3)), c(4))
    y = relay.nn.batch_norm(y, c(4), c(4), c(4), relay.const(np.ones(4, "float32")))[0]
    y = relay.nn.global_avg_pool2d(relay.nn.max_pool2d(relay.nn.relu(y), pool_size=(2, 2)))
    y = relay.nn.softmax(relay.nn.dense(relay.nn.batch_flatten(y), c(5, 4)))
    mod = passes.InferType()(IRModule.from_expr(relay.Function([x], y)))
    made = _narrow(mod)
    for each in ("nn.conv2d", "nn.bias_add", "nn.relu", "nn.max_pool2d", "nn.dense"):
        assert _dtypes(made, each) == ["float16"], each
    for each in ("nn.global_avg_pool2d", "nn.softmax"):
        assert _dtypes(made, each) == ["float32"], each
    value = RNG.uniform(-1, 1, (1, 3, 8, 8)).astype("float32")
    _near(run(made, value), run(mod, value))
    vm = heddle.relax.VirtualMachine(heddle.compile(made), heddle.cpu())
    _near(vm["main"](heddle.tensor(value)).numpy(), run(mod, value))


def test_integers_and_doubles_stay() -> None:
    for dtype in ("int32", "float64"):
        x = relay.var("x", shape=(2, 3), dtype=dtype)
        mod = passes.InferType()(IRModule.from_expr(relay.Function([x], relay.nn.dense(x, x))))
        assert _dtypes(_narrow(mod), "nn.dense") == [dtype]


def test_users_say_what_operators_do() -> None:
    mod = program(f"def @main({X}) {{ tanh(%x) + nn.dense(%x, %w) }}")
    register_mixed_precision_conversion("tanh", lambda call, dtype: [0, dtype, dtype])
    register_mixed_precision_conversion("nn.dense", lambda call, dtype: [0, "float32", dtype], 11)
    try:
        made = _narrow(mod)
    finally:
        reset_op_attr("tanh", "FTVMMixedPrecisionConversionType")
        reset_op_attr("nn.dense", "FTVMMixedPrecisionConversionType")
    assert _dtypes(made, "tanh") == ["float16"] and _dtypes(made, "nn.dense") == ["float32"]
    assert str(made["main"].ret_ty.dtype) == "float16"
    args = _values()
    _near(run(made, *args), run(mod, *args))


def test_operators_about_which_nothing_is_known() -> None:
    mod = program(f"def @main({X}) {{ nn.lrn(reshape(nn.dense(%x, %w), newshape=[3, 4, 1, 1])) }}")
    with pytest.raises(HeddleError, match=r"Q0505.*nn\.lrn"):
        _narrow(mod, mode=0)
    with pytest.warns(HeddleWarning, match=r"Q0505.*nn\.lrn"):
        _narrow(mod, mode=1)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        made = _narrow(mod, mode=2)
    assert _dtypes(made, "nn.lrn") == ["float32"]


def test_options_are_checked() -> None:
    for wrong in ({"missing_op_mode": 3}, {"mixed_precision_type": "float64"}):
        with pytest.raises(HeddleError, match="I0508"):
            passes.ToMixedPrecision(**wrong)
    assert read_pass("ToMixedPrecision", Target("llvm")) == passes.ToMixedPrecision("float16", 1)
