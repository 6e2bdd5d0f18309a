"""Loop functions that differ in sizes alone become one, which computes what each did."""

import numpy as np
import pytest

import heddle
from heddle.driver.pipeline import legalize_passes, optimize_passes
from heddle.graph.op_builder import const
from heddle.graph.rewriter import is_call
from heddle.ir.expr import Call, Tuple, Var
from heddle.ir.transform import PassContext, Sequential
from heddle.ir.visitor import walk
from heddle.lower.share_kernels import ShareKernels
from heddle.prim.nodes import FloorDiv, FloorMod, IntImm, SizeVar
from heddle.relax import BlockBuilder, TensorType, op
from heddle.runtime.native.library import native_library, set_num_threads
from heddle.script import from_source
from heddle.target import Target
from heddle.tir.nodes import For, PrimFunc

LAYERS = 6


def dense_network(batch=1, height=5, width=7, channels=80, layers=LAYERS):
    """Each layer sees the images of all before it: its convolution and its concat grow."""
    rng = np.random.default_rng(7)
    x = Var("x", TensorType((batch, channels, height, width), "float32"))
    builder = BlockBuilder()
    with builder.function("main", [x]):
        with builder.dataflow():
            y = x
            for layer in range(layers):
                ins = channels + 16 * layer
                weights = const(rng.standard_normal((16, ins, 1, 1)).astype("float32") / ins)
                scale = const(rng.standard_normal((1, ins, 1, 1)).astype("float32"))
                z = builder.emit(op.nn.relu(builder.emit(op.multiply(y, scale))))
                y = builder.emit(op.concat([y, builder.emit(op.nn.conv2d(z, weights))], 1))
            out = builder.emit_output(op.tanh(y))
        builder.emit_func_output(out)
    return builder.get()


def scheduled(mod, share=True, kind="llvm"):
    target = Target(kind)
    with PassContext(disabled_pass=[] if share else ["ShareKernels"]):
        return Sequential((*optimize_passes(target), *legalize_passes(target)), "test")(mod)


def kernels(mod):
    return [func for func in mod.functions.values() if isinstance(func, PrimFunc)]


def machine(mod, share=True, **options):
    with PassContext(disabled_pass=[] if share else ["ShareKernels"]):
        return heddle.relax.VirtualMachine(heddle.compile(mod, **options), heddle.cpu())


SIZES = {
    "known": {},
    "free images": {"height": SizeVar("h"), "width": SizeVar("w")},
    "free batch": {"batch": SizeVar("n")},
}


@pytest.mark.parametrize("exec_mode", ["compiled", "bytecode"])
@pytest.mark.parametrize("name", SIZES)
def test_the_same_bits_with_fewer_kernels(name, exec_mode):
    mod = dense_network(**SIZES[name])
    shared, separate = (len(kernels(scheduled(mod, share))) for share in (True, False))
    assert shared <= separate - 2 * (LAYERS - 1)
    ours, apart = (machine(mod, share, exec_mode=exec_mode) for share in (True, False))
    batch = 3 if name == "free batch" else 1
    x = np.random.default_rng(5).standard_normal((batch, 80, 5, 7)).astype("float32")
    wanted, before = apart["main"](x).numpy(), native_library().num_threads
    try:
        for threads in (1, 2):
            set_num_threads(threads)
            np.testing.assert_array_equal(ours["main"](x).numpy(), wanted)
    finally:
        set_num_threads(before)


def test_sanitized():
    mod = dense_network()
    x = np.random.default_rng(1).standard_normal((1, 80, 5, 7)).astype("float32")
    wanted = machine(mod, share=False)["main"](x).numpy()
    np.testing.assert_allclose(machine(mod, sanitize=True)["main"](x).numpy(), wanted, rtol=1e-6)


def test_printed_and_parsed():
    mod = scheduled(dense_network())
    calls = [node for node in walk(mod["main"]) if isinstance(node, Call) and is_call(node, "relax.call_tir")]
    assert any(len(call.args) > 2 for call in calls)
    again = from_source(mod.script(show_meta=True))
    x = np.random.default_rng(1).standard_normal((1, 80, 5, 7)).astype("float32")
    wanted = machine(dense_network())["main"](x).numpy()
    np.testing.assert_array_equal(machine(again)["main"](x).numpy(), wanted)


def test_saved_and_loaded(tmp_path):
    x = np.random.default_rng(1).standard_normal((1, 80, 5, 7)).astype("float32")
    compiled = heddle.compile(dense_network())
    path = tmp_path / "net.so"
    compiled.export_library(str(path))
    loaded = heddle.relax.VirtualMachine(heddle.runtime.load_module(str(path)), heddle.cpu())
    wanted = heddle.relax.VirtualMachine(compiled, heddle.cpu())["main"](x).numpy()
    np.testing.assert_array_equal(loaded["main"](x).numpy(), wanted)


@pytest.mark.parametrize("exec_mode", ["compiled", "bytecode"])
def test_profiles_count_the_same_work(exec_mode):
    x = np.random.default_rng(1).standard_normal((1, 80, 5, 7)).astype("float32")

    def work(share):
        rows = machine(dense_network(), share, exec_mode=exec_mode).profile("main", x).calls
        counted = [row for row in rows if row.flops is not None]
        assert counted
        return sum(row.flops for row in counted), sum(row.moved_bytes for row in counted), len(counted)

    assert work(True) == work(False)


def test_flat_maps_of_other_sizes_stay_apart():
    """Their one loop takes its index apart: by constants that is nothing, by sizes a division an element."""
    n = SizeVar("n")
    arguments = [Var(f"x{k}", TensorType((n, k, 5, 16), "float32")) for k in range(3, 9)]
    builder = BlockBuilder()
    with builder.function("main", arguments):
        with builder.dataflow():
            made = builder.emit_output(Tuple(tuple(builder.emit(op.nn.relu(x)) for x in arguments)))
        builder.emit_func_output(made)
    for func in kernels(scheduled(builder.get())):
        loops = [node for node in walk(func.body) if isinstance(node, For)]
        inner = [loop for loop in loops if not any(isinstance(node, For) for node in walk(loop.body))]
        divisors = [n.b for loop in inner for n in walk(loop) if isinstance(n, (FloorDiv, FloorMod))]
        assert inner and all(isinstance(divisor, IntImm) for divisor in divisors)


def test_few_functions_stay():
    mod = dense_network(layers=3)
    before = scheduled(mod, share=False)
    assert ShareKernels()(before) is before


def test_a_name_for_the_outside_stays():
    before = scheduled(dense_network(), share=False)
    table = {
        var: func.with_attr("global_symbol", var.name_hint) if isinstance(func, PrimFunc) else func
        for var, func in before.functions.items()
    }
    named = before.with_functions(table)
    assert ShareKernels()(named) is named


LIMITS = ((-(2**63), 5), (0, 2**63 - 1), (-7, 700), (-(2**31), 2**31 - 1), (2**62, 2**62 + 3))


def test_values_that_lie_far_apart():
    x = Var("x", TensorType((100,), "int64"))
    builder = BlockBuilder()
    with builder.function("main", [x]):
        with builder.dataflow():
            parts = [
                builder.emit(op.minimum(op.maximum(x, const(low, "int64")), const(high, "int64")))
                for low, high in LIMITS
            ]
            out = builder.emit_output(op.concat(parts, 0))
        builder.emit_func_output(out)
    given = np.arange(-50, 50) * 2**56
    wanted = np.concatenate([np.clip(given, low, high) for low, high in LIMITS])
    np.testing.assert_array_equal(machine(builder.get())["main"](given).numpy(), wanted)


def test_calls_whose_sizes_are_a_variable_keep_their_function():
    body = """
    @T.prim_func(private=True)
    def f{k}(A: T.Buffer((128,), "float32"), B: T.Buffer((128,), "float32"), n: T.int64):
        for i in range({extent}):
            with T.sblock("b"):
                v = T.axis.spatial({extent}, i)
                B[v] = A[v] + T.Cast("float32", n)
"""
    text = "from heddle.script import ir as I, relax as R, tir as T\n@I.ir_module\nclass Module:\n"
    text += "".join(body.format(k=k, extent=100 + k) for k in range(5))
    text += """
    @R.function
    def main(x: R.Tensor((128,), "float32"), s: R.Shape(["m"])):
"""
    for k in range(5):
        sizes = "s" if k == 2 else f"R.shape([{k}])"
        called = f'R.call_tir(Module.f{k}, (x,), out_ty=R.Tensor((128,), "float32"), tir_vars={sizes})'
        text += f"        y{k} = {called}\n"
    text += "        return (y0, y1, y2, y3, y4)\n"
    mod = from_source(text)
    made = ShareKernels()(mod)
    names = [
        node.args[0].name_hint
        for node in walk(made["main"])
        if isinstance(node, Call) and is_call(node, "relax.call_tir")
    ]
    assert names.count("f2") == 1
    assert len(set(names)) == 2


def scaled_network(count, rows, dtype="float32"):
    """Functions x * scale + offset, of other constants each; some are no numbers of a few digits."""
    scales = [0.1, -3.5, 1e-30, float("inf"), 2.0**-140, -0.0][:count]
    builder = BlockBuilder()
    for number, scale in enumerate(scales):
        x = Var("x", TensorType((rows, 37), dtype))
        with builder.function(f"f{number}", [x]):
            with builder.dataflow():
                scaled = builder.emit(op.multiply(x, const(scale, dtype)))
                out = builder.emit_output(op.add(scaled, const(float(number) + 0.3, dtype)))
            builder.emit_func_output(out)
    return builder.get()


@pytest.mark.parametrize("exec_mode", ["compiled", "bytecode"])
@pytest.mark.parametrize("rows", [19, "free"], ids=str)
def test_functions_that_differ_in_floats_are_shared_to_the_bit(rows, exec_mode):
    mod = scaled_network(6, SizeVar("n") if rows == "free" else rows)
    assert len(kernels(scheduled(mod))) == 1 < len(kernels(scheduled(mod, share=False)))
    shared, separate = (machine(mod, share, exec_mode=exec_mode) for share in (True, False))
    x = np.random.default_rng(5).standard_normal((19, 37)).astype("float32")
    x[0, :4] = np.nan, np.inf, -0.0, 1e-40
    for number in range(6):
        got, wanted = (each[f"f{number}"](x).numpy() for each in (shared, separate))
        np.testing.assert_array_equal(got.view(np.uint32), wanted.view(np.uint32))


def test_fewer_functions_of_free_sizes_are_shared():
    """Three are enough where sizes are free; loops of known bounds need four."""
    for rows, count in ((SizeVar("n"), 1), (19, 3)):
        assert len(kernels(scheduled(scaled_network(3, rows)))) == count


@pytest.mark.parametrize(("sides", "count"), [((14, 28, 56), 3), ((140, 280, 560), 1)], ids=str)
def test_rows_of_a_few_vectors_keep_their_length(sides, count):
    """Groups of channels change places, as in networks that shuffle them: a row is the innermost loop."""
    builder = BlockBuilder()
    for side in sides:
        x = Var("x", TensorType((SizeVar("n"), 4 * side, side, side), "float32"))
        with builder.function(f"f{side}", [x]):
            with builder.dataflow():
                groups = builder.emit(op.reshape(x, (x.ty.shape[0], 4, side, side, side)))
                swapped = builder.emit(op.permute_dims(groups, [0, 2, 1, 3, 4]))
                out = builder.emit_output(op.reshape(swapped, x.ty.shape))
            builder.emit_func_output(out)
    assert len(kernels(scheduled(builder.get()))) == count


@pytest.mark.parametrize("dtype", ["float16", "float64"])
def test_floats_of_other_widths_stay_constants(dtype):
    assert len(kernels(scheduled(scaled_network(4, SizeVar("n"), dtype)))) == 4


def test_work_that_grows_with_the_square_of_a_size_is_told():
    """Convolutions from c to c channels are one function, whose costs are a polynomial of c. The order of
    their loops depends on the second cache, which differs between computers."""
    kind = "llvm -l2-cache-bytes=1048576"
    rng = np.random.default_rng(3)
    builder = BlockBuilder()
    for channels in (128, 256, 320):
        x = Var("x", TensorType((1, channels, SizeVar("h"), SizeVar("w")), "float32"))
        with builder.function(f"f{channels}", [x]):
            with builder.dataflow():
                out = x
                for _ in range(3):
                    weights = const(rng.standard_normal((channels, channels, 3, 3)).astype("float32"))
                    out = builder.emit(op.nn.conv2d(out, weights, strides=[2, 2], padding=[1, 1, 1, 1]))
                out = builder.emit_output(op.nn.relu(out))
            builder.emit_func_output(out)
    mod = builder.get()
    assert len(kernels(scheduled(mod, kind=kind))) < len(kernels(scheduled(mod, share=False, kind=kind)))
    reports = []
    for share in (True, False):
        vm = machine(mod, share, exec_mode="bytecode", target=kind)
        for channels in (128, 256, 320):
            x = np.ones((1, channels, 19, 31), "float32")
            calls = vm.profile(f"f{channels}", x).calls
            reports.append(sum(row.flops or 0 for row in calls))
    assert reports[:3] == reports[3:] and len(set(reports)) == 3
