"""Arguments of a wrong kind are told in Heddle's own words, wherever they are given; the next call works."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from heddle.contrib import graph_executor

import heddle
from heddle import IRModule, relay
from heddle.graph.nodes import BindingBlock, SeqExpr, VarBinding
from heddle.ir.expr import GlobalVar
from heddle.ir.transform import Sequential
from heddle.relay import dataflow_pattern as dfp
from heddle.relay.layout_hooks import LayoutConfig
from heddle.runtime.params import load_param_dict
from heddle.support.diagnostics import HeddleError

X = relay.var("x", shape=(3,))
Y = relay.var("y", shape=(2,))
FUNC = relay.Function([X], relay.tanh(X))
MOD = IRModule.from_expr(FUNC)
ADD = dfp.is_op("add")

NODES: list[Callable[[], Any]] = [
    lambda: relay.Let(1, X, X),
    lambda: relay.Let(X, 1, X),
    lambda: relay.Function(3, X),
    lambda: relay.Function([X], 4),
    lambda: relay.Function([X, "y"], X),
    lambda: relay.If(1, X, X),
    lambda: relay.Call(None, [X]),
    lambda: relay.Call(relay.op.get("tanh"), X),
    lambda: relay.Call(relay.op.get("tanh"), [1]),
    lambda: relay.Tuple(None),
    lambda: relay.Tuple([X, 1]),
    lambda: relay.TupleGetItem("x", 0),
    lambda: relay.TupleGetItem(X, "0"),
    lambda: relay.TupleGetItem(X, 1.5),
    lambda: relay.TupleGetItem(X, True),
    lambda: relay.TensorType((2.5,)),
    lambda: relay.Tuple([relay.split(X, 3), 1]),
    lambda: relay.Constant(3),
    lambda: relay.Constant([1.0]),
    lambda: relay.Match(X, 3),
    lambda: relay.Match(X, [3]),
    lambda: relay.Clause(3, X),
    lambda: relay.PatternVar("x"),
    lambda: relay.PatternTuple([X]),
    lambda: relay.RefCreate(1),
    lambda: relay.RefRead(None),
    lambda: relay.RefWrite(X, 2),
    lambda: relay.var(3),
    lambda: relay.var("x", shape=3),
    lambda: relay.GlobalVar(3),
    lambda: relay.TensorType(3),
    lambda: relay.TupleType(3),
    lambda: relay.TupleType([X]),
    lambda: relay.FuncType(-1, X),
    lambda: relay.FuncType([], -1),
    lambda: VarBinding(X, 3),
    lambda: BindingBlock([X]),
    lambda: SeqExpr([X], X),
    lambda: SeqExpr(3, X),
]


@pytest.mark.parametrize("make", NODES)
def test_nodes(make: Callable[[], Any]) -> None:
    with pytest.raises(HeddleError, match=r"I0312|R0101|I0310"):
        make()


def test_messages_name_node_field_and_kinds() -> None:
    with pytest.raises(HeddleError, match=r"I0312.*If: field 'cond' is Expr, got int"):
        relay.If(1, X, X)
    with pytest.raises(HeddleError, match=r"Tuple: field 'fields' is tuple\[Expr, \.\.\.\], got .*Var, int"):
        relay.Tuple([X, 1])
    with pytest.raises(HeddleError, match=r"got NoneType"):
        relay.Tuple(None)
    assert len(relay.Tuple([X, Y])) == 2 and relay.Call(relay.op.get("tanh"), [X]).args == (X,)


MODULES: list[Callable[[], Any]] = [
    lambda: relay.create_executor("vm", FUNC),
    lambda: relay.create_executor("debug", 3),
    lambda: relay.analysis.list_op_freqs(FUNC),
    lambda: relay.to_relax(None),
    lambda: relay.to_relax(FUNC),
    lambda: relay.build(None),
    lambda: relay.vm.compile("x"),
    lambda: IRModule.from_expr(None),
]


@pytest.mark.parametrize("act", MODULES)
def test_modules(act: Callable[[], Any]) -> None:
    with pytest.raises(HeddleError, match=r"I0509.*got \w+"):
        act()


OTHERS: list[tuple[str, Callable[[], Any]]] = [
    ("I0301", lambda: relay.build(IRModule({GlobalVar("f"): FUNC}))),
    ("D0103.*list", lambda: relay.build(MOD, params=[1])),
    ("D0103.*list", lambda: relay.vm.compile(MOD, params=[1])),
    ("Q0101.*list", lambda: relay.bind(FUNC, [1])),
    ("Q0101.*a function, got int", lambda: relay.build_module.bind_params_by_name(3, {"x": 1})),
    ("Q0101.*a function, got IRModule", lambda: relay.build_module.bind_params_by_name(MOD, {})),
    ("Q0101.*NoneType", lambda: relay.parse(None)),
    ("Q0101.*bytes", lambda: relay.fromtext(b"fn")),
    ("Q0101.*int", lambda: relay.parse_expr(3)),
    ("Q0101.*NoneType", lambda: relay.transform.gradient(None)),
    ("Q0101.*NoneType", lambda: relay.transform.to_cps(None)),
    ("I0508.*Sequence", lambda: Sequential(None)),
    ("I0508.*Sequence", lambda: LayoutConfig(-1)),
    ("F0106.*NoneType", lambda: load_param_dict(None)),
    ("Q0101.*CallPattern: args", lambda: ADD(dfp.wildcard(), None)),
    ("Q0101.*TuplePattern: fields", lambda: dfp.is_tuple(-1)),
    ("Q0101.*AttrPattern: attrs", lambda: dfp.wildcard().has_attr(None)),
    ("Q0101.*LetPattern: var", lambda: dfp.is_let(1, ADD, ADD)),
    ("Q0101.*pattern", lambda: dfp.match(None, X)),
    ("Q0101.*callbacks", lambda: dfp.rewrite(ADD, X)),
    ("R0201.*arange", lambda: relay.arange({})),
    ("R0201.*matrix_set_diag", lambda: relay.matrix_set_diag(X, Y, align=None)),
    ("R0201.*strided_set", lambda: relay.strided_set(None, None, None, None)),
    ("I0508.*nbit_input", lambda: relay.quantize.qconfig(nbit_input=None)),
    ("I0508.*nbit_weight", lambda: relay.quantize.qconfig(nbit_weight=9)),
    ("I0508.*global_scale", lambda: relay.quantize.qconfig(global_scale=-1.0)),
    ("I0508.*global_scale", lambda: relay.quantize.qconfig(global_scale=float("nan"))),
    ("I0508.*skip_conv_layers", lambda: relay.quantize.qconfig(skip_conv_layers=3)),
    ("I0508.*calibrate_chunk_by", lambda: relay.quantize.qconfig(calibrate_chunk_by="a")),
    ("I0508.*do_simulation", lambda: relay.quantize.qconfig(do_simulation="n")),
    ("I0508.*calibrate_mode", lambda: relay.quantize.qconfig(calibrate_mode="mean")),
    ("I0508.*rounding", lambda: relay.quantize.qconfig(rounding="TONEAREST")),
]


@pytest.mark.parametrize(("message", "act"), OTHERS)
def test_functions(message: str, act: Callable[[], Any]) -> None:
    with pytest.raises(HeddleError, match=message):
        act()


def test_outputs_of_graphs() -> None:
    module = graph_executor.GraphModule(relay.build(MOD)["default"](heddle.cpu()))
    module.set_input("x", np.zeros(3, "float32"))
    module.run()
    with pytest.raises(HeddleError, match=r"V0804.*ndarray"):
        module.get_output(0, np.zeros(3, "float32"))
    with pytest.raises(HeddleError, match=r"V0803.*'a'"):
        module.get_output("a")
    assert module.get_output(0).numpy().tolist() == [0, 0, 0]


def test_several_results_can_be_taken_apart() -> None:
    first, second = relay.meshgrid([X, Y], "ij")
    assert isinstance(first, relay.TupleGetItem) and second.index == 1
    assert len(relay.split(relay.var("z", shape=(6,)), 3)) == 3


def test_what_stands_for_a_tuple_is_one_in_nodes() -> None:
    parts = relay.split(relay.var("z", shape=(6,)), 3)
    tup = parts.astuple()
    assert relay.Function([], parts).body is tup and relay.RefCreate(parts).value is tup
    assert relay.Call(relay.op.get("tanh"), [parts, X, parts]).args == (tup, X, tup)
    assert relay.Let(relay.var("t"), parts, X).value is tup
    assert IRModule.from_expr(parts)["main"].body is tup
    assert relay.TupleGetItem(tup, np.int64(2)).index == 2
