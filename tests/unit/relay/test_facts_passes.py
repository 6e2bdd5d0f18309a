"""The table of passes, row by row: what its subtle points mean for a user's program."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import heddle as tvm
from heddle import relay
from heddle.ir.module import IRModule
from heddle.ir.structural import assert_structural_equal
from heddle.relay import transform as passes
from heddle.relay.placement import post_order
from heddle.relay.transform import effects
from heddle.support.diagnostics import HeddleError
from tests.unit.relay.programs import floats, program, run

X = "%x: Tensor[(2, 3), float32]"
PassContext = tvm.transform.PassContext


def same(found: Any, wanted: Any) -> None:
    if isinstance(wanted, tuple):
        assert len(found) == len(wanted)
        for one, other in zip(found, wanted, strict=True):
            same(one, other)
    else:
        assert found.dtype == wanted.dtype
        np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-6)


def names(mod: Any) -> dict[str, int]:
    return {key: int(count) for key, count in relay.analysis.list_op_freqs(mod).items()}


def changed(step: Any, text: str, *args: Any) -> Any:
    """The program after a pass, of which the values are those before."""
    mod = program(text)
    with PassContext(opt_level=4):
        made = step(mod)
    if args:
        same(run(made, *args), run(mod, *args))
    return made


LEVELS = {
    "ToANormalForm": 1,
    "ToBasicBlockNormalForm": 1,
    "ToGraphNormalForm": 1,
    "FuseOps": 0,
    "DefuseOps": 3,
    "FoldConstant": 2,
    "DeadCodeElimination": 1,
    "EliminateCommonSubexpr": 3,
    "RemoveUnusedFunctions": 1,
    "Inline": 1,
    "LambdaLift": 1,
    "PartialEvaluate": 1,
    "EtaExpand": 1,
    "LazyGradientInit": 2,
    "FoldScaleAxis": 3,
    "AlterOpLayout": 3,
    "Legalize": 1,
    "CanonicalizeOps": 3,
    "CanonicalizeCast": 3,
    "SimplifyInference": 0,
    "FastMath": 4,
    "CombineParallelConv2D": 4,
    "CombineParallelDense": 4,
    "CombineParallelBatchMatmul": 4,
    "SimplifyExpr": 0,
    "DynamicToStatic": 2,
    "MergeCompilerRegions": 0,
    "PartitionGraph": 0,
    "CapturePostDfsIndexInSpans": 0,
    "ToMixedPrecision": 0,
    "FakeQuantizationToInteger": 0,
}


@pytest.mark.parametrize("name", LEVELS)
def test_8_levels(name: str) -> None:
    step = getattr(relay.transform, name)()
    assert step.info.opt_level == LEVELS[name] and step.info.name.endswith(name)


def test_8_levels_decide_and_what_is_required_runs() -> None:
    mod = program(f"def @main({X}) {{ exp(%x) }}")
    step = relay.transform.Sequential([passes.FastMath()])
    assert PassContext.current().opt_level == 2
    assert names(step(mod)) == {"exp": 1}
    with PassContext(opt_level=4):
        assert names(step(mod)) == {"fast_exp": 1}
    with PassContext(opt_level=1, required_pass=["FastMath"]):
        assert names(step(mod)) == {"fast_exp": 1}
    with PassContext(opt_level=4, disabled_pass=["FastMath"]):
        assert names(step(mod)) == {"exp": 1}


def test_8_passes_of_python() -> None:
    @relay.transform.function_pass(opt_level=1)
    def twice(func: Any, mod: Any, ctx: Any) -> Any:
        return relay.Function(func.params, func.body * relay.const(2.0))

    @tvm.transform.module_pass(opt_level=1)
    def renamed(mod: Any, ctx: Any) -> Any:
        return tvm.IRModule.from_expr(mod["main"])

    value = floats(2, 3)
    steps = tvm.transform.Sequential([twice, renamed])
    with relay.build_config(opt_level=2):
        made = steps(program(f"def @main({X}) {{ tanh(%x) }}"))
    same(run(made, value), np.tanh(value) * 2)


def test_8_to_a_normal_form() -> None:
    text = f"def @main(%c: bool, {X}) {{ %0 = tanh(%x); if (%c) {{ %0 + %0 }} else {{ exp(%0) }} }}"
    value = floats(2, 3)
    made = changed(passes.ToANormalForm(), text, np.bool_(True), value)
    same(run(made, np.bool_(False), value), np.exp(np.tanh(value)))
    outer = made["main"].body
    assert isinstance(outer, relay.Let) and outer.value.op.name == "tanh"  # it is used by both scopes
    inside = next(node for node in post_order(made["main"]) if isinstance(node, relay.If))
    assert isinstance(inside.true_branch, relay.Let) and isinstance(inside.false_branch, relay.Let)
    x = relay.var("x", shape=(2,))
    alone = passes.ToANormalFormExpr(relay.tanh(relay.exp(x)))
    assert isinstance(alone, relay.Let) and alone.value.op.name == "exp"


def test_conditions_and_matched_data_are_of_the_scope_around() -> None:
    text = (
        "type B { Z(int32) }"
        " def @main(%x: int32) { if (%x < 3) { match (Z(%x)) { Z(%y) => %y } } else { 2 } }"
    )
    made = changed(passes.ToBasicBlockNormalForm(), text, np.int32(1))
    assert not any(isinstance(node, relay.Let) for node in post_order(made["main"]))


def test_8_to_basic_block_normal_form() -> None:
    text = f"def @main(%c: bool, {X}) {{ %0 = tanh(%x); %1 = exp(%0); if (%c) {{ %0 }} else {{ %0 * %1 }} }}"
    made = changed(passes.ToBasicBlockNormalForm(), text, np.bool_(False), floats(2, 3))
    lets = [node for node in post_order(made["main"]) if isinstance(node, relay.Let)]
    assert [let.value.op.name for let in lets] == ["tanh"]


def test_8_to_graph_normal_form() -> None:
    text = f"def @main({X}) {{ let %a = tanh(%x); let %b = %a + %a; %b * %a }}"
    made = changed(passes.ToGraphNormalForm(), text, floats(2, 3))
    assert not any(isinstance(node, relay.Let) for node in post_order(made["main"]))
    assert names(made) == {"tanh": 1, "add": 1, "multiply": 1}


def _groups(mod: Any) -> list[list[str]]:
    found = {id(n): n for n in post_order(mod["main"].body) if isinstance(n, relay.Function)}
    assert all(func.attrs["Primitive"] == 1 for func in found.values())
    return sorted(
        [call.op.name for call in post_order(func.body) if isinstance(call, relay.Call)]
        for func in found.values()
    )


def test_8_fuse_ops() -> None:
    text = (
        "def @main(%x: Tensor[(1, 2, 4, 4), float32], %w: Tensor[(2, 2, 1, 1), float32]) { "
        "%0 = nn.relu(nn.conv2d(%x, %w) * 2f); sum(transpose(exp(%0)), axis=[0]) }"
    )
    made = changed(passes.FuseOps(), text, floats(1, 2, 4, 4), floats(2, 2, 1, 1))
    groups = _groups(made)
    assert (groups[0][0] == "exp" and groups[0][-1] == "sum") or ["nn.conv2d", "multiply", "nn.relu"] in [
        group[:3] for group in groups
    ]
    assert sum(map(len, groups)) == 6
    func = next(n for n in post_order(made["main"].body) if isinstance(n, relay.Function))
    assert [param.name_hint for param in func.params] == [f"p{k}" for k in range(len(func.params))]
    scalars = [node for node in post_order(func.body) if isinstance(node, relay.Constant)]
    assert len(scalars) <= 1
    assert all(len(group) == 1 for group in _groups(changed(passes.FuseOps(0), text)))


@pytest.mark.parametrize("most", [1, 3, 20])
def test_8_fuse_ops_options(most: int) -> None:
    mod = program(f"def @main({X}) {{ {'tanh(' * 40}%x{')' * 40} }}")
    with PassContext(opt_level=3, config={"relay.FuseOps.max_depth": most}):
        found = _groups(passes.FuseOps()(mod))
    assert max(map(len, found)) == most and sum(map(len, found)) == 40


def test_8_defuse_ops() -> None:
    mod = program(f"def @main({X}) {{ (exp(tanh(%x)) + 1f, %x) }}")
    with PassContext(opt_level=3):
        assert_structural_equal(passes.DefuseOps()(passes.FuseOps()(mod)), mod)


def test_8_fold_constant() -> None:
    text = f"def @main({X}) {{ (%x + 2f * 3f, (1f, 4f).1, shape_of(%x), ndarray_size(%x)) }}"
    made = changed(passes.FoldConstant(), text, floats(2, 3))
    assert names(made) == {"add": 1}
    quantised = program("def @main() { qnn.quantize(2f, 0.5f, 1) }")
    assert names(passes.FoldConstant()(quantised)) == {"qnn.quantize": 1}
    folded = passes.FoldConstant(fold_qnn=True)(quantised)
    assert not names(folded) and run(folded) == 5
    folded = passes.FoldConstantExpr(relay.const(1.5) + relay.const(2.0), tvm.IRModule())
    assert isinstance(folded, relay.Constant) and folded.data.numpy() == 3.5


@pytest.mark.parametrize(
    "text",
    [
        "annotation.stop_fusion(%s)",
        'annotation.compiler_begin(%s, compiler="dnn")',
        'device_copy(%s, src_virtual_device="cpu", dst_virtual_device="cpu")',
        'on_device(%s, virtual_device="cpu")',
        "debug(%s)",
    ],
)
def test_8_fold_constant_leaves_annotations(text: str) -> None:
    """What is annotated is folded; what is said of it stays."""
    made = changed(passes.FoldConstant(), f"def @main() {{ {text % '(1f + 2f)'} }}")
    (name,) = names(made)
    assert name == text.partition("(")[0]
    assert isinstance(made["main"].body.args[0], relay.Constant) and run(made) == 3


def test_8_dead_code_elimination() -> None:
    text = (
        "def @main(%x: float32) { let %r = ref(%x); let %a = tanh(%x); let %w = ref_write(%r, 2f); "
        "let %f = fn (%n: float32) -> float32 { %f(%n) }; ref_read(%r) }"
    )
    made = changed(passes.DeadCodeElimination(), text, np.float32(1))
    assert "tanh" not in names(made) and not any(isinstance(n, relay.If) for n in post_order(made["main"]))
    once = changed(
        passes.DeadCodeElimination(inline_once=True),
        "def @main(%x: float32) { let %a = tanh(%x); let %b = exp(%a); %b + 1f }",
        np.float32(1),
    )
    assert not any(isinstance(node, relay.Let) for node in post_order(once["main"]))


def test_dead_code_looks_at_a_value_once_however_deep_lets_nest(monkeypatch: pytest.MonkeyPatch) -> None:
    looks = []
    monkeypatch.setattr(effects, "is_effect", lambda expr: looks.append(expr) or False)
    x = relay.var("x", shape=())
    value: Any = x
    for number in range(200):
        var = relay.var(f"v{number}")
        value = relay.Let(var, value, var + x)
    passes.DeadCodeElimination()(IRModule.from_expr(relay.Function([x], value)))
    assert len(looks) <= 4 * 200  # was 40,000


def test_8_eliminate_common_subexpr() -> None:
    text = f"def @main({X}) {{ (exp(%x), exp(%x), sum(%x, axis=[0]), sum(%x, axis=[1])) }}"
    made = changed(passes.EliminateCommonSubexpr(), text, floats(2, 3))
    assert names(made) == {"exp": 1, "sum": 2}
    left = changed(passes.EliminateCommonSubexpr(lambda expr: True), text)
    assert names(left) == {"exp": 2, "sum": 2}


def test_8_remove_unused_functions_and_inline() -> None:
    text = (
        "def @f(%x: float32, Inline=1) -> float32 { %x + 1f } def @g(%x: float32) -> float32 { @f(%x) } "
        "def @h(%x: float32) -> float32 { %x } def @main(%x: float32) { @f(@g(%x)) }"
    )
    found = passes.RemoveUnusedFunctions()(program(text))
    assert {var.name_hint for var in found.functions} == {"f", "g", "main"}
    found = passes.RemoveUnusedFunctions(["h"])(program(text))
    assert {var.name_hint for var in found.functions} == {"h"}
    found = changed(passes.Inline(), text, np.float32(3))
    assert {var.name_hint for var in found.functions} == {"g", "h", "main"}
    outside = text.replace("Inline=1", 'Inline=1, Compiler="dnn"')
    found = passes.Inline()(program(outside))
    callees = [n.op for n in post_order(found["main"].body) if isinstance(n, relay.Call)]
    assert any(isinstance(op, relay.Function) and op.attrs["Compiler"] == "dnn" for op in callees)


def test_8_lambda_lift() -> None:
    text = (
        "def @main(%y: float32) { let %f = fn (%x: float32) { %x + %y }; "
        "let %g = fn (%x: float32) { %x * 2f }; let %h = fn (%z: float32) { %z * 2f }; %f(%g(%h(1f))) }"
    )
    made = changed(passes.LambdaLift(), text, np.float32(3))
    lifted = {var.name_hint: func for var, func in made.functions.items() if var.name_hint != "main"}
    assert len(lifted) == 2 and all(name.startswith("lifted_name") for name in lifted)
    (outer,) = (func for func in lifted.values() if func.attrs.get("Closure"))
    assert outer.attrs["Closure"] == 1 and isinstance(outer.body, relay.Function)
    assert len(outer.params) == 1


def test_8_partial_evaluate() -> None:
    text = (
        "def @main(%x: float32) { let %r = ref(%x); let %f = fn (%n: int32) -> float32 { "
        "if (%n == 0) { ref_read(%r) } else { ref_write(%r, ref_read(%r) * 2f); %f(%n - 1) } }; "
        "let %a = %f(3); match (Some(%a)) { Some(%y) => %y + ref_read(%r), None => 0f } }"
    )
    mod = tvm.IRModule()
    mod.import_from_std("prelude.rly")
    mod = program(text, mod)
    made = passes.DeadCodeElimination()(passes.PartialEvaluate()(passes.ToANormalForm()(mod)))
    same(run(made, np.float32(1.5)), np.array(24, "float32"))
    kinds = (relay.If, relay.Match)
    assert not any(isinstance(node, kinds) for node in post_order(made["main"]))


def test_8_eta_expand() -> None:
    text = (
        "type B[A] { C(A) } def @f(%x: float32) -> float32 { %x } "
        "def @main(%x: float32) { let %g = @f; let %h = C; %h(%g(%x)) }"
    )
    made = changed(passes.EtaExpand(expand_constructor=True, expand_global_var=True), text)
    lets = [node for node in post_order(made["main"]) if isinstance(node, relay.Let)]
    assert all(isinstance(let.value, relay.Function) for let in lets) and len(lets) == 2
    assert sorted(len(let.value.type_params) for let in lets) == [0, 1]
    assert passes.EtaExpand()(program(text))["main"].body.value.name_hint == "f"


def test_8_eta_expand_leaves_patterns_and_makes_variables_of_its_own() -> None:
    text = (
        "type Tree[A] { Leaf(A), Fork(Tree[A], Tree[A]) } "
        "def @twice[A](%f: fn(Tree[A]) -> int32, %t: Tree[A]) -> int32 { %f(%t) } "
        "def @size[A](%t: Tree[A]) -> int32 { match (%t) { Leaf(_) => 1, "
        "Fork(%l, %r) => @twice(@size, %l) + @size(%r) } } "
        "def @main(%n: int32) -> int32 { let %leaf = Leaf; @size(Fork(%leaf(%n), %leaf(%n))) }"
    )
    made = changed(passes.EtaExpand(expand_constructor=True, expand_global_var=True), text)
    assert_structural_equal(relay.parse(made.astext()), made)
    same(run(made, 3), np.int32(2))


def test_8_to_cps() -> None:
    mod = program("def @main(%x: float32) -> float32 { exp(%x) + 1f }")
    func = passes.to_cps(mod["main"], mod)
    assert len(func.params) == 2 and len(func.type_params) == 1
    back = tvm.IRModule.from_expr(passes.un_cps(func))
    same(run(back, np.float32(2)), run(mod, np.float32(2)))


def test_8_defunctionalization() -> None:
    mod = program(
        "def @twice(%f: fn(float32) -> float32, %x: float32) -> float32 { %f(%f(%x)) } "
        "def @main(%x: float32) -> float32 { @twice(fn (%y: float32) -> float32 { %y * %x }, %x) }"
    )
    before = run(mod, np.float32(3))
    made = tvm.IRModule(mod.functions, type_definitions=mod.type_definitions)
    made["main"] = passes.Defunctionalization(mod["main"], made)
    assert any(name.name_hint.startswith("apply") for name in made.functions) and made.type_definitions
    same(run(passes.InferType()(made), np.float32(3)), before)


@pytest.mark.parametrize("mode", ["higher_order", "first_order"])
def test_8_gradient(mode: str) -> None:
    x, y = relay.var("x", shape=(2, 3)), relay.var("y", shape=(3,))
    mod = passes.InferType()(tvm.IRModule.from_expr(relay.Function([x, y], relay.tanh(x) * y)))
    made = tvm.IRModule.from_expr(relay.transform.gradient(mod["main"], mod, mode=mode))
    a, b = floats(2, 3), floats(3)
    value, (one, other) = run(made, a, b)
    same(value, np.tanh(a) * b)
    same(one, (1 - np.tanh(a) ** 2) * b)
    same(other, np.tanh(a).sum(0))
    if mode == "first_order":
        kinds = (relay.RefCreate, relay.Function)
        assert not any(isinstance(node, kinds) for node in post_order(made["main"].body))


def test_8_gradient_refuses() -> None:
    mod = program(f"def @main({X}) {{ nn.lrn(expand_dims(expand_dims(%x, axis=0), axis=0)) }}")
    with pytest.raises(HeddleError, match=r"no gradient of nn\.lrn"):
        relay.transform.gradient(mod["main"], mod, mode="first_order")
    with pytest.raises(ValueError, match="first_order, higher_order"):
        relay.transform.gradient(mod["main"], mod, mode="second_order")


def test_8_lazy_gradient_init() -> None:
    text = f'def @main({X}) {{ %x + zeros(shape=[2, 3], dtype="float32") * ones_like(%x) }}'
    made = changed(passes.LazyGradientInit(), text, floats(2, 3))
    assert_structural_equal(made["main"].params[0].ty, program(text)["main"].params[0].ty)
    assert made.get_type("GradCell")


def test_8_fold_scale_axis() -> None:
    x = relay.var("x", shape=(1, 2, 4, 4))
    scale = np.abs(floats(2, 1, 1)) + np.float32(0.5)
    weight = relay.const(floats(3, 2, 3, 3))

    def net(factor: Any) -> Any:
        y = relay.nn.conv2d(relay.nn.relu(x) * relay.const(factor), weight)
        return passes.InferType()(tvm.IRModule.from_expr(relay.Function([x], y)))

    value = floats(1, 2, 4, 4)
    with PassContext(opt_level=3):
        made = passes.FoldScaleAxis()(net(scale))
        same_axes = passes.FoldScaleAxis()(net(np.abs(floats(1, 1, 4))))
    assert "multiply" not in names(made) and names(same_axes)["multiply"] == 1
    np.testing.assert_allclose(run(made, value), run(net(scale), value), rtol=1e-4, atol=1e-5)


def test_8_canonicalize() -> None:
    text = f"def @main({X}, %b: Tensor[(3), float32]) {{ nn.bias_add(%x, %b) }}"
    assert names(changed(passes.CanonicalizeOps(), text, floats(2, 3), floats(3))).keys() <= {
        "add",
        "expand_dims",
    }


@pytest.mark.parametrize(("dtype", "count"), [("int32", 3), ("int16", 3), ("int8", 1)])
def test_8_canonicalize_cast(dtype: str, count: int) -> None:
    """Each operator on elements has its own cast to a wider dtype, so that no wide tensor lies between."""
    text = (
        "def @main(%x: Tensor[(2, 3), uint8]) { "
        f'%0 = cast(%x, dtype="{dtype}"); (nn.relu(%0), %0 + cast(1, dtype="{dtype}"), -%0, sum(%0)) }}'
    ).replace("-%0", "negative(%0)")
    made = changed(passes.CanonicalizeCast(), text, np.arange(6, dtype="uint8").reshape(2, 3))
    casts = [n for n in post_order(made["main"]) if isinstance(n, relay.Call) and n.op.name == "cast"]
    assert sum(isinstance(cast.args[0], relay.Var) for cast in casts) >= count
    with PassContext(opt_level=3):
        assert passes.CanonicalizeCast()(made) is made


def test_8_simplify_inference_and_fast_math() -> None:
    vectors = ", ".join(f"%{key}: Tensor[(3), float32]" for key in "gbmv")
    text = f"def @main({X}, {vectors}) {{ nn.dropout(nn.batch_norm(%x, %g, %b, %m, %v).0).0 }}"
    made = changed(passes.SimplifyInference(), text, floats(2, 3), *(np.abs(floats(3)) for _ in range(4)))
    assert not {"nn.dropout", "nn.batch_norm"} & names(made).keys()
    text = f"def @main({X}) {{ nn.softmax(exp(erf(tanh(%x)))) }}"
    with PassContext(opt_level=4):
        made = passes.FastMath()(program(text))
    assert set(names(made)) == {"nn.fast_softmax", "fast_exp", "fast_erf", "fast_tanh"}
    value = floats(2, 3)
    np.testing.assert_allclose(run(made, value), run(program(text), value), rtol=1e-2, atol=1e-3)


def test_8_combine_parallel() -> None:
    weights = ", ".join(f"%w{k}: Tensor[(4, 3), float32]" for k in range(3))
    text = f"def @main({X}, {weights}) {{ (nn.dense(%x, %w0), nn.dense(%x, %w1), nn.dense(%x, %w2)) }}"
    args = floats(2, 3), floats(4, 3), floats(4, 3), floats(4, 3)
    made = changed(passes.CombineParallelDense(), text, *args)  # three are enough, in one batch
    assert names(made)["nn.batch_matmul"] == 1 and "nn.dense" not in names(made)
    made = changed(passes.CombineParallelDense(3, False), text, *args)
    assert names(made)["nn.dense"] == 1 and names(made)["strided_slice"] == 3
    assert names(changed(passes.CombineParallelDense(4), text)) == {"nn.dense": 3}


def test_8_simplify_expr() -> None:
    text = (
        "def @main(%x: Tensor[(2, 3), float32], %i: Tensor[(2, 3), int32]) { "
        "(%x + 0f, %x * 1f, zeros_like(%x), reshape(reshape(%x, newshape=[6]), newshape=[3, 2]), "
        "transpose(transpose(%x)), %x + %x, 1f / sqrt(%x * %x), (%i + 2) + 3, (%i * 2) * 3, "
        'cast(cast(%i, dtype="int64"), dtype="int32"), %x + ones(shape=[4, 2, 3], dtype="float32") * 0f) }'
    )
    made = changed(passes.SimplifyExpr(), text, floats(2, 3), np.arange(6, dtype="int32").reshape(2, 3))
    found = names(made)
    assert "rsqrt" in found and not {"sqrt", "zeros_like", "transpose", "cast"} & found.keys()
    assert found["reshape"] == 1


def test_8_dynamic_to_static() -> None:
    x = relay.var("x", shape=(2, 3))
    made = relay.dyn.reshape(x, relay.const([3, 2]))
    mod = passes.InferType()(tvm.IRModule.from_expr(relay.Function([x], made)))
    found, value = passes.DynamicToStatic()(mod), floats(2, 3)
    assert names(found) == {"reshape": 1}
    same(run(found, value), value.reshape(3, 2))


def test_8_capture_post_dfs_index_in_spans() -> None:
    made = passes.CapturePostDfsIndexInSpans()(program(f"def @main({X}) {{ exp(tanh(%x)) }}"))
    texts = {n.op.name: n.span.text for n in post_order(made["main"].body) if isinstance(n, relay.Call)}
    assert all(text.startswith("index:") and len(text.split(":")) == 3 for text in texts.values())
    numbers = {name: [int(part) for part in text.split(":")[1:]] for name, text in texts.items()}
    assert numbers["tanh"][1] == numbers["exp"][0]  # what follows it on every way


def test_8_small_passes() -> None:
    made = changed(passes.DivToMul(), f"def @main({X}) {{ %x / 4f }}", floats(2, 3))
    assert set(names(made)) == {"multiply"}
    pair = ", ".join(f"exp(%x + {k}f)" for k in range(6))
    made = changed(passes.SplitArgs(3), f"def @main({X}) {{ concatenate(({pair}), axis=0) }}", floats(2, 3))
    groups = [n for n in post_order(made["main"]) if isinstance(n, relay.Tuple)]
    assert max(len(group.fields) for group in groups) <= 3
    text = f"def @main({X}) {{ let %a = tanh(%x); let %b = exp(%a); let %c = exp(%b); %c }}"
    made = passes.ManifestLifetimes()(program(text))
    killed = [
        n.args[0].name_hint
        for n in post_order(made["main"])
        if isinstance(n, relay.Call) and n.op.name == "memory.kill"
    ]
    assert "x" not in killed and len(killed) == 2
