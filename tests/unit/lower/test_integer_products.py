"""Products of quantised tensors: what passes make of them, what instructions they become, and what those do.

No processor that the tests run on needs to have the instructions: kernels are compiled for one that has, and
linked with functions that do what the manual says. Whole programs are scheduled for such a processor, and
lowered for this one.
"""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

import heddle
from heddle import relax
from heddle.codegen.build import generate_text
from heddle.codegen.llvm.machine import compile_text
from heddle.driver.pipeline import default_pipeline
from heddle.driver.stages import stage_modules, stage_text
from heddle.graph.rewriter import is_call
from heddle.ir.expr import Constant
from heddle.ir.visitor import walk
from heddle.lower.contract_in_bytes import ContractInBytes
from heddle.relax.interpreter import GraphInterpreter
from heddle.relax.transform.contract_quantized import ContractQuantized
from heddle.relax.transform.fold_constant import FoldConstant
from heddle.runtime.kernel_module import KernelModule
from heddle.script import from_source
from heddle.target import Target
from heddle.tir.interpreter import run_primfunc

PLAIN = "llvm -mcpu=x86-64-v3"
BYTES = "llvm -mcpu=alderlake"
"""A target with dot products of bytes, and vectors as long as those of PLAIN."""
INSTRUCTIONS = {
    "llvm -mcpu=haswell": "vpmaddwd",
    "llvm -mcpu=x86-64": "pmaddwd",
    "llvm -mcpu=skylake-avx512": "vpmaddwd",
    "llvm -mcpu=alderlake": "{vex}\tvpdpbusd",
    "llvm -mcpu=cascadelake": "vpdpbusd",
    "llvm -mcpu=znver4": "vpdpbusd",
    "llvm -mcpu=sapphirerapids": "vpdpbusd",
}

PRODUCT = """
from heddle.script import ir as I, relax as R, tir as T
@I.ir_module
class Module:
    @R.function
    def main(x: R.Tensor({data}, "{dtype}"), w: R.Tensor({weights}, "int8")):
        with R.dataflow():
            h = R.dequantize(x, R.const(0.5, "float32"), R.const({zero}, "{dtype}"))
            v = R.dequantize(w, R.const(0.25, "float32"), R.const({own}, "int8"))
            y = {value}
            R.output(y)
        return y
"""


def module(
    data: Any, w: Any, value: str = "R.matmul(h, v)", dtype: str = "uint8", zero: int = 100, own: int = 0
) -> Any:
    shape = str(data).replace("'", '"')
    text = PRODUCT.format(data=shape, weights=w.shape, value=value, dtype=dtype, zero=zero, own=own)
    return relax.transform.BindParams("main", {"w": w})(from_source(text))


def integers(rng: Any, dtype: str, *shape: int) -> Any:
    limits = np.iinfo(dtype)
    return rng.integers(limits.min, limits.max + 1, shape).astype(dtype)


def run(mod: Any, x: Any, target: str = "llvm", **options: Any) -> Any:
    executable = heddle.compile(mod, target=target, **options)
    return relax.VirtualMachine(executable, heddle.cpu())["main"](x).numpy()


def run_bytes(mod: Any, x: Any) -> Any:
    """Scheduled for dot products of bytes, and lowered without them."""
    return run(mod, x, PLAIN, relax_pipeline=default_pipeline(Target(BYTES)))


def exact(x: Any, w: Any, zero: int = 100, own: int = 0) -> Any:
    sums = (x.astype("int64") - zero) @ (w.astype("int64") - own)
    return sums.astype("float32") * np.float32(0.125)


SIZES = [
    (1, 4, 8),
    (5, 33, 17),
    (7, 34, 64),
    (13, 35, 72),
    (29, 96, 131),
    (0, 8, 8),
    (6, 3, 16),
    (3, 4097, 64),
]


@pytest.mark.parametrize(("m", "k", "n"), SIZES)
@pytest.mark.parametrize("dtype", ["int8", "uint8"])
def test_products_of_any_size_are_exact(m: int, k: int, n: int, dtype: str) -> None:
    rng = np.random.default_rng(m + k + n)
    x, w = integers(rng, dtype, m, k), integers(rng, "int8", k, n)
    mod = module((m, k), w, dtype=dtype)
    np.testing.assert_array_equal(run(mod, x), exact(x, w))
    np.testing.assert_array_equal(run_bytes(mod, x), exact(x, w))


@pytest.mark.parametrize("k", [64, 67])
def test_one_program_for_any_number_of_rows(k: int) -> None:
    rng = np.random.default_rng(k)
    w = integers(rng, "int8", k, 40)
    mod = module(("m", k), w, dtype="int8", zero=-7)
    for options in ({"target": "llvm"}, {"target": PLAIN, "relax_pipeline": default_pipeline(Target(BYTES))}):
        for mode in ("compiled", "bytecode"):
            executable = heddle.compile(mod, exec_mode=mode, **options)
            machine = relax.VirtualMachine(executable, heddle.cpu())["main"]
            for m in (0, 1, 5, 6, 23):
                x = integers(rng, "int8", m, k)
                np.testing.assert_array_equal(machine(x).numpy(), exact(x, w, -7))


def test_largest_factors() -> None:
    """255 * -128 in all pairs: instructions that limit sums of two to 16 bits give another result."""
    x, w = np.full((6, 64), 255, "uint8"), np.full((64, 32), -128, "int8")
    w[:, ::2] = 127
    mod = module((6, 64), w, zero=0)
    np.testing.assert_array_equal(run(mod, x), exact(x, w, 0))
    np.testing.assert_array_equal(run_bytes(mod, x), exact(x, w, 0))


def test_weights_whose_differences_need_more_than_a_byte() -> None:
    rng = np.random.default_rng(3)
    x, w = integers(rng, "uint8", 7, 38), integers(rng, "int8", 38, 24)
    mod = module((7, 38), w, own=-128)
    np.testing.assert_array_equal(run(mod, x), exact(x, w, own=-128))
    np.testing.assert_array_equal(run_bytes(mod, x), exact(x, w, own=-128))
    assert "vpdpwssd" in stage_text(mod, "asm", BYTES)


@pytest.mark.parametrize("target", INSTRUCTIONS)
@pytest.mark.parametrize("m", [1, 24, "m"])
def test_instructions(target: str, m: Any) -> None:
    mod = module((m, 64), integers(np.random.default_rng(1), "int8", 64, 128))
    assert INSTRUCTIONS[target] in stage_text(mod, "asm", target)


CONV = "R.nn.conv2d(h, v, padding=[{pad}, {pad}, {pad}, {pad}], strides=[{stride}, {stride}])"


@pytest.mark.parametrize("target", INSTRUCTIONS)
def test_instructions_of_convolutions(target: str) -> None:
    w = integers(np.random.default_rng(1), "int8", 32, 16, 3, 3)
    mod = module((1, 16, 14, 14), w, CONV.format(pad=1, stride=1))
    assert INSTRUCTIONS[target] in stage_text(mod, "asm", target)


@pytest.mark.parametrize(
    ("ins", "outs", "taps", "pad", "stride"),
    [
        (16, 24, 3, 1, 1),
        (12, 8, 3, 1, 2),
        (8, 40, 1, 0, 1),
        (64, 16, 1, 1, 1),
        (3, 32, 7, 3, 2),
        (4, 16, 3, 1, 1),
        (11, 8, 3, 1, 1),
    ],
)
@pytest.mark.parametrize("dtype", ["int8", "uint8"])
@pytest.mark.parametrize("size", [(9, 10), ("h", "w")])
def test_convolutions(ins: int, outs: int, taps: int, pad: int, stride: int, dtype: str, size: Any) -> None:
    rng = np.random.default_rng(ins)
    x, w = integers(rng, dtype, 2, ins, 9, 10), integers(rng, "int8", outs, ins, taps, taps)
    mod = module((2, ins, *size), w, CONV.format(pad=pad, stride=stride), dtype)
    real = np.pad(x.astype("int64") - 100, [(0, 0), (0, 0), (pad, pad), (pad, pad)])
    windows = np.lib.stride_tricks.sliding_window_view(real, (taps, taps), (2, 3))[:, :, ::stride, ::stride]
    sums = np.einsum("nchwij,ocij->nohw", windows, w.astype("int64"))
    expected = sums.astype("float32") * np.float32(0.125)
    np.testing.assert_array_equal(run(mod, x), expected)
    np.testing.assert_array_equal(run_bytes(mod, x), expected)


def test_the_loop_interpreter_runs_the_scheduled_loops() -> None:
    rng = np.random.default_rng(4)
    x, w = integers(rng, "uint8", 5, 35), integers(rng, "int8", 35, 16)
    mod = module((5, 35), w, "R.matmul(x, w, out_dtype='int32')", zero=0)
    for target, depth in ((BYTES, 4), (PLAIN, 2)):
        made = stage_modules(mod, target)["scheduled"]
        (loops,) = (func for var, func in made.functions.items() if var.name_hint.startswith("matmul"))
        packed = next(n for n in walk(made["main"]) if isinstance(n, Constant) and n.data.ndim == 4)
        assert packed.data.shape[-1] == depth and str(packed.data.dtype) == "int8"
        result = np.zeros((5, 16), "int32")
        given = x if depth == 4 else x.astype("int16")
        run_primfunc(loops, given, packed.data.numpy(), result)
        np.testing.assert_array_equal(result, x.astype("int32") @ w.astype("int32"))


SOFTWARE = (
    ("vpdpbusd.256", 8, 4, ("zext", "sext")),
    ("vpdpbusd.128", 4, 4, ("zext", "sext")),
    ("vpdpwssd.256", 8, 2, ("sext", "sext")),
    ("vpdpwssd.128", 4, 2, ("sext", "sext")),
)
"""Dot products, their lanes and depths, and how data and weights become wide."""


def software(text: str) -> str:
    """LLVM IR whose calls of dot products are calls of what they mean."""
    for name, lanes, depth, signs in SOFTWARE:
        called = f"@llvm.x86.avx512.{name}"
        if called not in text:
            continue
        text = re.sub(rf"^declare .*{re.escape(called)}\(.*$", "", text, flags=re.MULTILINE)
        text = text.replace(called, f"@software.{name}")
        count, bits = lanes * depth, 32 // depth
        vector, wide, sums = f"<{count} x i{bits}>", f"<{count} x i32>", f"<{lanes} x i32>"
        lines = [f"define internal {sums} @software.{name}({sums} %c0, {vector} %a, {vector} %b) {{"]
        lines += [f"  %{x}w = {op} {vector} %{x} to {wide}" for x, op in zip("ab", signs, strict=True)]
        lines += [f"  %p = mul {wide} %aw, %bw"]
        for k in range(depth):
            mask = ", ".join(f"i32 {lane * depth + k}" for lane in range(lanes))
            lines.append(f"  %p{k} = shufflevector {wide} %p, {wide} %p, <{lanes} x i32> <{mask}>")
            lines.append(f"  %c{k + 1} = add {sums} %c{k}, %p{k}")
        text += "\n" + "\n".join([*lines, f"  ret {sums} %c{depth}", "}"]) + "\n"
    return text


DOTS = """
@T.prim_func
def dots(
    a: T.Buffer(({k},), "{data}"), b: T.Buffer(({size},), "{weights}"), c: T.Buffer(({lanes},), "int32")
):
    for k in range({steps}):
        for l in T.vectorized({lanes}):
            for p in T.serial({factors}, annotations={{"dot_product": True}}):
                c[l] = c[l] + T.Cast("int32", a[{at}]) * T.Cast("int32", b[{weight}])
"""


@pytest.mark.parametrize(
    ("data", "weights", "depth"), [("uint8", "int8", 4), ("int16", "int8", 2), ("int16", "int16", 2)]
)
@pytest.mark.parametrize("lanes", [8, 4])
@pytest.mark.parametrize("target", [BYTES, PLAIN, "llvm -mcpu=x86-64"])
def test_what_instructions_do(data: str, weights: str, depth: int, lanes: int, target: str) -> None:
    """All factors, or the first few: with the processor's instruction, and without one."""
    rng = np.random.default_rng(depth)
    at, weight = f"k * {depth} + p", f"k * {depth * lanes} + l * {depth} + p"
    for factors in range(2, depth + 1):
        sizes = {"k": 9 * depth, "size": 9 * depth * lanes, "lanes": lanes, "steps": 9, "factors": factors}
        func = from_source(DOTS.format(data=data, weights=weights, at=at, weight=weight, **sizes))
        a, b = integers(rng, data, 9 * depth), integers(rng, weights, 9 * depth * lanes)
        c = integers(rng, "int32", lanes)
        a[0], b[:depth] = np.iinfo(data).min, np.iinfo(weights).min
        expected, got = c.copy(), c.copy()
        run_primfunc(func, a, b, expected)
        text, names = generate_text({"dots": func.with_attr("global_symbol", "dots")}, Target(target))
        if target == BYTES:
            called = "llvm.x86.avx512.vpdp"
        else:
            called = "pmadd.wd" if depth == 2 and 32 * lanes <= Target(target).vector_width_bits else ""
        assert called in text and ("llvm.x86" in text) == bool(called)
        code = compile_text(software(text), Target("llvm")).object_code
        KernelModule([code], names, "llvm")["dots"](a, b, got)
        np.testing.assert_array_equal(got, expected)


# ---- the passes


def calls(mod: Any, name: str) -> list[Any]:
    return [node for node in walk(mod["main"]) if is_call(node, f"relax.{name}")]


def test_bytes_are_multiplied_where_the_target_does() -> None:
    mod = ContractQuantized()(module((4, 8), np.ones((8, 16), "int8"), dtype="int8"))
    (product,) = calls(mod, "matmul")
    assert [str(arg.ty.dtype) for arg in product.args] == ["int16", "int8"]
    assert ContractInBytes(Target(PLAIN))(mod) is mod
    (product,) = calls(ContractInBytes(Target(BYTES))(mod), "matmul")
    assert [str(arg.ty.dtype) for arg in product.args] == ["uint8", "int8"]


def test_few_channels_and_groups_are_whole_numbers_in_float32() -> None:
    w = np.ones((8, 1, 3, 3), "int8")
    mod = ContractQuantized()(module((1, 8, 6, 6), w, "R.nn.conv2d(h, v, groups=8)"))
    (product,) = calls(mod, "nn.conv2d")
    assert {str(arg.ty.dtype) for arg in product.args} == {"float32"}


def test_what_nothing_quantises_stays_the_same_object() -> None:
    mod = from_source(PRODUCT.format(data=(2, 2), weights=(2, 2), value="x", dtype="uint8", zero=0, own=0))
    plain = relax.transform.DeadCodeElimination()(mod)
    assert ContractQuantized()(plain) is plain


@pytest.mark.parametrize(
    ("channels", "factors"), [(1, "float32"), (2, "float32"), (3, "bytes"), (5, "float32")]
)
def test_few_channels_fill_dot_products_or_are_whole_numbers(channels: int, factors: str) -> None:
    w = np.ones((16, channels, 3, 3), "int8")
    mod = ContractInBytes(Target(BYTES))(
        ContractQuantized()(module((1, channels, 6, 6), w, "R.nn.conv2d(h, v)"))
    )
    (product,) = calls(mod, "nn.conv2d")
    expected = ["uint8", "int8"] if factors == "bytes" else [factors] * 2
    assert [str(arg.ty.dtype) for arg in product.args] == expected


def test_everything_else_is_dequantised_once() -> None:
    mod = module((1, 8, 6, 6), np.ones((8, 8, 1, 1), "int8"), "R.add(h, R.nn.conv2d(h, v))")
    made = ContractQuantized()(mod)
    assert not [call for call in calls(made, "dequantize") if not isinstance(call.args[0], Constant)]
    assert len(calls(made, "subtract")) == 1


def test_folding_keeps_what_it_is_told() -> None:
    mod = module((4, 8), np.ones((8, 300), "int8"))
    assert len(calls(FoldConstant(frozenset({"dequantize"}))(mod), "dequantize")) == 2
    assert len(calls(FoldConstant()(mod), "dequantize")) == 1


def test_weights_of_a_few_bits_become_floats_when_compiled() -> None:
    """However much longer they are: products of floats read them at every call."""
    w = np.ones((300, 300), "int8")
    folded = FoldConstant()(module((4, 300), w))
    assert [str(arg.ty.dtype) for call in calls(folded, "matmul") for arg in call.args] == ["float32"] * 2
    assert isinstance(calls(folded, "matmul")[0].args[1], Constant)


@pytest.mark.parametrize(
    "value",
    [
        "R.matmul(h, R.dequantize(R.const([1, 2, 3, 4], 'int8'), R.const([1.0, 2.0, 3.0, 4.0]), "
        "R.const([0, 0, 0, 0], 'int8')))",  # scales along the sum
        "R.matmul(R.dequantize(x, R.const([1.0, 2.0, 3.0, 4.0]), R.const([0, 1, 2, 3], 'uint8')), v)",
        "R.dequantize(x, R.const(0.5), R.const(100000, 'int32'))",  # no difference in int16
        "R.dequantize(x, R.const([0.5, 2.0, 3.0, 4.0, 1.0]), R.const([0, 1, 2, 3, 4], 'uint8'), axis=0)",
        "R.matmul(h, v)",
        "R.linear(h, R.permute_dims(v), R.const([1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0]))",
    ],
)
def test_programs_mean_the_same(value: str) -> None:
    """Scales and zero points of all forms, by the reference of each operator."""
    rng = np.random.default_rng(1)
    x, w = integers(rng, "uint8", 5, 4), integers(rng, "int8", 4, 8)
    mod = module((5, 4), w, value)
    expected = GraphInterpreter(mod)["main"](x)
    np.testing.assert_allclose(run(mod, x), expected, rtol=1e-6, atol=1e-3)


@pytest.mark.parametrize(
    ("data", "weights"),
    [((2, 5, 8), (2, 8, 9)), ((3, 3, 8), (3, 8, 9)), ((5, 8), (2, 8, 9)), ((8,), (2, 8, 9))],
)
def test_bytes_of_several_matrices(data: Any, weights: Any) -> None:
    rng = np.random.default_rng(11)
    x, w = integers(rng, "uint8", *data), integers(rng, "int8", *weights)
    mod = ContractQuantized()(module(data, w))
    made = ContractInBytes(Target(BYTES))(mod)
    assert made is not mod
    np.testing.assert_array_equal(GraphInterpreter(made)["main"](x), exact(x, w))
    np.testing.assert_array_equal(run_bytes(module(data, w), x), exact(x, w))


@pytest.mark.parametrize(("zero", "dtype"), [(300, "uint8"), (-5, "uint8"), (200, "int8"), (9000, "int8")])
def test_padding_by_what_is_no_byte(zero: int, dtype: str) -> None:
    text = PRODUCT.replace('R.const({zero}, "{dtype}")', 'R.const({zero}, "int32")').format(
        data=(1, 8, 5, 5),
        weights=(8, 8, 3, 3),
        value="R.nn.conv2d(h, v, padding=1)",
        dtype=dtype,
        zero=zero,
        own=0,
    )
    rng = np.random.default_rng(12)
    x, w = integers(rng, dtype, 1, 8, 5, 5), integers(rng, "int8", 8, 8, 3, 3)
    mod = ContractQuantized()(relax.transform.BindParams("main", {"w": w})(from_source(text)))
    made = ContractInBytes(Target(BYTES))(mod)
    wanted = GraphInterpreter(mod)["main"](x)
    np.testing.assert_array_equal(GraphInterpreter(made)["main"](x), wanted)


BRANCHES = """
from heddle.script import ir as I, relax as R, tir as T
@I.ir_module
class Module:
    @R.function
    def main(x: R.Tensor((5, 16), "int8"), w: R.Tensor((16, 24), "int8"), c: R.Tensor((), "bool")):
        if c:
            h = R.dequantize(x, R.const(0.5, "float32"), R.const(3, "int8"))
            v = R.dequantize(w, R.const(0.25, "float32"), R.const(0, "int8"))
            y = R.matmul(h, v)
        else:
            k = R.dequantize(x, R.const(0.25, "float32"), R.const(3, "int8"))
            u = R.dequantize(w, R.const(0.25, "float32"), R.const(0, "int8"))
            y = R.matmul(k, u)
        z = R.dequantize(x, R.const(1.0, "float32"), R.const(3, "int8"))
        return (y, z)
"""


@pytest.mark.parametrize("exec_mode", ["compiled", "bytecode"])
@pytest.mark.parametrize("target", [PLAIN, BYTES])
def test_branches_share_no_differences(target: str, exec_mode: str) -> None:
    rng = np.random.default_rng(13)
    x, w = integers(rng, "int8", 5, 16), integers(rng, "int8", 16, 24)
    mod = relax.transform.BindParams("main", {"w": w})(from_source(BRANCHES))
    made = heddle.compile(mod, PLAIN, relax_pipeline=default_pipeline(Target(target)), exec_mode=exec_mode)
    machine = relax.VirtualMachine(made, heddle.cpu())
    for condition, scale in ((True, 0.125), (False, 0.0625)):
        y, z = machine["main"](x, np.array(condition))
        sums = (x.astype("int64") - 3) @ w.astype("int64")
        np.testing.assert_array_equal(y.numpy(), sums.astype("float32") * np.float32(scale))
        np.testing.assert_array_equal(z.numpy(), x.astype("float32") - 3)
