"""What programs written for TVM do beside building and running: they compare types and sizes, register hooks,
write passes, and make mistakes, whose messages say where."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest

import heddle
from heddle import relay
from heddle.ir.module import IRModule
from heddle.relay.op_attrs import op_attr, register_op_attr, reset_op_attr
from heddle.support.diagnostics import HeddleError, IRTypeError, Trap, UsageError

T = relay.transform
PASSES = heddle.transform


def _module(expr: Any) -> IRModule:
    return T.InferType()(IRModule.from_expr(expr))


def _x() -> Any:
    return relay.var("x", shape=(2, 3))


@contextmanager
def _hook(name: str, key: str, value: Any) -> Iterator[None]:
    assert op_attr(name, key) is None
    register_op_attr(name, key, value)
    try:
        yield
    finally:
        reset_op_attr(name, key)


# ---- comparing


def test_equal_types_are_equal() -> None:
    ty = _module(relay.exp(_x()))["main"].body.checked_type
    assert ty == relay.TensorType((2, 3), "float32") and (ty != relay.TensorType((2, 3))) is False
    assert hash(ty) == hash(relay.TensorType((2, 3)))
    others = [relay.TensorType((2,)), relay.TensorType((2, 3), "int32"), relay.TupleType([ty]), "x", None]
    assert not any(ty == other for other in others)
    assert relay.TupleType([ty, ty]) == relay.TupleType([relay.TensorType((2, 3)), ty])
    assert relay.scalar_type("int32") == relay.TensorType((), "int32")
    assert relay.TypeVar("A") != relay.TypeVar("A") and (a := relay.TypeVar("A")) == a
    assert len({relay.TensorType((2,)), relay.TensorType((2,)), relay.TensorType((relay.Any(),))}) == 2


def test_a_known_size_equals_its_number() -> None:
    shape = _module(relay.exp(_x()))["main"].body.checked_type.shape
    assert shape[0] == 2 and bool(shape[0] != 2) is False
    assert shape[0] != 3 and bool(shape[0] == 3) is False
    assert list(shape) == [2, 3] and tuple(shape) == (2, 3) and shape[1] in (1, 3)
    n = heddle.tir.Var("n", "int64")
    assert bool(n == 2) is False and n == n and n != heddle.tir.Var("n", "int64")


# ---- hooks of operators


def _compiled() -> dict[str, Callable[[IRModule], Any]]:
    def on_machine(mod: IRModule, mode: str) -> Any:
        return heddle.relax.VirtualMachine(heddle.compile(mod, exec_mode=mode), heddle.cpu())["main"]

    return {
        "bytecode": lambda mod: on_machine(mod, "bytecode"),
        "compiled": lambda mod: on_machine(mod, "compiled"),
        **{
            kind: lambda mod, kind=kind: relay.create_executor(kind, mod).evaluate()  # type: ignore[misc]
            for kind in ("vm", "graph", "aot")
        },
    }


@pytest.mark.parametrize("engine", _compiled())
def test_what_is_compiled_is_what_hooks_say(engine: str) -> None:
    mod, zeros = IRModule.from_expr(relay.Function([x := _x()], relay.sinh(x))), np.zeros((2, 3), "float32")
    with _hook("sinh", "FTVMLegalize", lambda attrs, args, types: relay.cosh(args[0])):
        found = _compiled()[engine](mod)(heddle.tensor(zeros)).numpy()
    assert (found == 1).all()
    assert not _compiled()[engine](mod)(heddle.tensor(zeros)).numpy().any()


def test_layouts_are_altered_at_their_level() -> None:
    seen = []
    mod = IRModule.from_expr(relay.nn.max_pool2d(relay.var("x", shape=(1, 2, 4, 4))))
    with _hook("nn.max_pool2d", "FTVMAlterOpLayout", lambda *given: seen.append(len(given))):
        relay.build(mod, "llvm")
        assert not seen
        with PASSES.PassContext(opt_level=3):
            relay.build(mod, "llvm")
            relay.vm.compile(mod, "llvm")
    assert seen == [4, 4]


FAILING: dict[str, tuple[str, str, Any, Callable[[], Any]]] = {
    "legalize": ("atan", "FTVMLegalize", lambda *_: 1 / 0, lambda: T.Legalize()(_of("atan"))),
    "target": ("atan", "target.rr", lambda _: 1 / 0, lambda: T.AnnotateTarget("rr")(_of("atan"))),
    "precision": (
        "atan",
        "FTVMMixedPrecisionConversionType",
        lambda *_: 1 / 0,
        lambda: T.ToMixedPrecision("float16")(_of("atan")),
    ),
}
OF_OTHER_KINDS = {
    "legalize": ("atan", "FTVMLegalize", lambda: T.Legalize()(_of("atan"))),
    "alter": ("atan", "FTVMAlterOpLayout", lambda: T.AlterOpLayout()(_of("atan"))),
    "convert": ("atan", "FTVMConvertOpLayout", lambda: T.ConvertLayout({"atan": ["NHWC"]})(_of("atan"))),
    "precision": (
        "atan",
        "FTVMMixedPrecisionConversionType",
        lambda: T.ToMixedPrecision("float16")(_of("atan")),
    ),
    "quantized": (
        "atan",
        "FTVMFakeQuantizationToInteger",
        lambda: T.FakeQuantizationToInteger()(_quantized()),
    ),
}


def _of(name: str) -> IRModule:
    return _module(getattr(relay, name)(_x()))


def _quantized() -> IRModule:
    one, zero = relay.const(1.0), relay.const(0)
    real = relay.qnn.op.dequantize(relay.var("q", shape=(2,), dtype="int8"), one, zero)
    return _module(relay.qnn.op.quantize(relay.atan(real), one, zero))


@pytest.mark.parametrize("case", FAILING)
def test_a_hook_that_fails_is_the_users(case: str) -> None:
    name, key, hook, act = FAILING[case]
    with _hook(name, key, hook), pytest.raises(UsageError, match=r"I0506.*ZeroDivisionError") as caught:
        act()
    assert f"at {__file__}" in str(caught.value)
    act()


@pytest.mark.parametrize("case", OF_OTHER_KINDS)
def test_a_hook_that_gives_something_else_is_named(case: str) -> None:
    name, key, act = OF_OTHER_KINDS[case]
    for hook, words in ((lambda *_: 7, "gave a int"), (lambda: None, "positional arguments")):
        with (
            _hook(name, key, hook),
            pytest.raises(UsageError, match=f"I0506.*{key} of atan.*{words}") as caught,
        ):
            act()
        assert f"at {__file__}" in str(caught.value)


def test_kinds_of_precision() -> None:
    with (
        _hook("atan", "FTVMMixedPrecisionConversionType", lambda *_: [9]),
        pytest.raises(UsageError, match=r"I0506.*the kind is 0, 1 or 2, got 9"),
    ):
        T.ToMixedPrecision("float16")(_of("atan"))


def test_a_fault_of_heddle_stays_one(monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> None:
    def failing(*_: Any) -> Any:
        return np.zeros(2).reshape(3)

    failing.__code__ = failing.__code__.replace(co_filename=heddle.relay.__file__)
    monkeypatch.setenv("HEDDLE_CACHE_DIR", str(tmp_path))
    monkeypatch.setattr(T.InferType, "transform", failing)
    with pytest.raises(heddle.support.diagnostics.InternalError, match="I0501"):
        T.InferType()(IRModule.from_expr(relay.exp(_x())))


# ---- passes and modules


@pytest.mark.parametrize("given", [lambda func: None, lambda func: func.body, lambda func: "text"])
def test_a_function_pass_gives_a_function(given: Callable[[Any], Any]) -> None:
    step = T.function_pass(opt_level=1)(lambda func, mod, ctx: given(func))
    with pytest.raises(UsageError, match=r"I0506.*for @main, and no function"):
        step(_of("exp"))


MISTAKES: dict[str, tuple[str, Callable[[], Any]]] = {
    "item": ("I0312.*item 'main'.*got Var", lambda: IRModule().__setitem__("main", _x())),
    "number": ("I0312.*item 'main'.*got int", lambda: IRModule().__setitem__("main", 3)),
    "type": ("I0312.*got TensorType", lambda: IRModule().__setitem__("main", relay.TensorType((2,)))),
    "batch by name": ("I0508.*no parameter x", lambda: T.ChangeBatch({"x": 0}, 16)(_of("exp"))),
    "batch of others": ("I0508.*no parameter x", lambda: T.ChangeBatch({_x(): 0}, 16)(_of("exp"))),
    "axis of batches": ("I0508.*an axis 5", lambda: _changed_batch(5)),
    "unused": ("I0301.*'nope'", lambda: T.RemoveUnusedFunctions(["nope"])(_of("exp"))),
    "bind": ("Q0101.*got dict", lambda: relay.bind(relay.exp(_x()), {"x": relay.const(1.0)})),
    "params": ("I0312.*list of Var", lambda: relay.Function(x := _x(), x)),
    "size": (r"R0101.*got None[\s\S]*relay.Any", lambda: relay.var("x", shape=(None, 2))),
    "zero point": ("R0204.*zero point", lambda: _quantized_at(2.7)),
    "targets": ("D0103.*got 2", lambda: relay.build(_of("exp"), target=["llvm", "llvm"])),
}


def _changed_batch(axis: int) -> IRModule:
    x = _x()
    return T.ChangeBatch({x: axis}, 4)(IRModule.from_expr(relay.Function([x], relay.exp(x))))


def _quantized_at(zero: Any) -> IRModule:
    return _module(relay.qnn.op.quantize(_x(), relay.const(0.1), relay.const(zero), out_dtype="int8"))


@pytest.mark.parametrize("mistake", MISTAKES)
def test_mistakes_are_told(mistake: str) -> None:
    words, act = MISTAKES[mistake]
    with pytest.raises(HeddleError, match=words):
        act()


def test_what_is_meant_works() -> None:
    assert _changed_batch(0)["main"].params[0].ty == relay.TensorType((4, 3))
    assert _quantized_at(3)["main"].ret_ty == relay.TensorType((2, 3), "int8")
    assert relay.build(_of("exp"), target=[heddle.target.Target("llvm")]) is not None
    assert isinstance(heddle.nd.array(np.ones(2), heddle.cpu()), heddle.nd.NDArray)


def test_the_gradient_of_unique_is_refused() -> None:
    x = relay.var("x", shape=(6,))
    func = _module(relay.Function([x], relay.unique(x)[0]))["main"]
    with pytest.raises(IRTypeError, match=r"R0210.*unique"):
        T.gradient(func, mode="first_order")


def test_a_result_that_no_memory_holds() -> None:
    sizes = relay.var("sizes", shape=(2,), dtype="int64")
    run = relay.create_executor("debug", IRModule.from_expr(relay.zeros(sizes, "float32"))).evaluate()
    with pytest.raises(Trap, match="U0601"):
        run(np.asarray([2**40, 2**20]))
    assert run(np.asarray([2, 3])).numpy().shape == (2, 3)


def test_visits_are_of_expressions() -> None:
    x, w, unused = _x(), relay.var("w", shape=(3, 3)), relay.var("unused", shape=())
    func = _module(relay.Function([x, unused, w], relay.nn.dense(x, w)))["main"]
    seen: list[Any] = []
    relay.analysis.post_order_visit(func, seen.append)
    names = [getattr(node, "name_hint", type(node).__name__) for node in seen]
    assert names == ["x", "unused", "w", "Op", "Call", "Function"]
