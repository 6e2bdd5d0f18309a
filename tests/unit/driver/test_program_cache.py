"""Programs that are kept on disk: the second compilation loads what the first one made, and nothing else."""

from __future__ import annotations

import dataclasses
import functools
import itertools
import json
import os
import subprocess
import sys
import threading
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import onnx
import pytest
from onnx import helper

import heddle
from heddle.driver import program_cache
from heddle.driver.compile import build
from heddle.driver.program_cache import BuildOptions, ProgramCache, program_key
from heddle.frontend.onnx import from_onnx
from heddle.graph.op_builder import const
from heddle.ir import tensor_values
from heddle.ir.expr import Var
from heddle.ir.op import OP_RECORDS
from heddle.ir.structural import labelled_digest
from heddle.ir.transform import PassContext, PassInstrument
from heddle.relax import BlockBuilder, TensorType, op
from heddle.runtime import tensor
from heddle.runtime.artefact import section_table
from heddle.runtime.native.library import native_library, set_num_threads
from heddle.support import on_threads
from heddle.support.background import settle
from heddle.support.diagnostics import FormatError
from heddle.support.limits import limits
from heddle.support.private_cache import PrivateCache
from heddle.support.settings import settings
from heddle.target import Target
from tests.unit.frontend.onnx.models import info, node

PLAIN = BuildOptions("compiled", "fp32", False)


@pytest.fixture
def kept(tmp_path, monkeypatch):
    """A cache of this test's own, which keeps what compiles at once too."""
    cache = ProgramCache(PrivateCache(tmp_path / "cache", 1 << 30), least_s=0.0)
    monkeypatch.setattr(program_cache, "_shared", [cache])
    return cache


def layers(bias=0.5, rows=8, name="x"):
    """Products, a sum and a non-linear function, with rows that may be free."""
    rng = np.random.default_rng(3)
    x = Var(name, TensorType((rows, 24), "float32"))
    builder = BlockBuilder()
    with builder.function("main", [x]):
        with builder.dataflow():
            y = builder.emit(op.matmul(x, const(rng.standard_normal((24, 40)).astype("float32"))))
            y = builder.emit(op.nn.gelu(builder.emit(op.add(y, const(np.full(40, bias, "float32"))))))
            out = builder.emit_output(op.mean(y, 1))
        builder.emit_func_output(out)
    return builder.get()


def looping_model():
    """A Loop whose carried tensor grows: control flow, shapes known at run time, builtins."""
    body = helper.make_graph(
        [
            node("Concat", ["carried", "x"], ["longer"], axis=0),
            node("ReduceSum", ["longer"], ["sum"], keepdims=0),
            node("Identity", ["condition"], ["goes_on"]),
        ],
        "body",
        [info("i", [], "int64"), info("condition", [], "bool"), info("carried", ["m", 3])],
        [info("goes_on", [], "bool"), info("longer", ["k", 3]), info("sum", [])],
    )
    nodes = [node("Loop", ["trips", "", "x"], ["last", "sums"], "loop", body=body)]
    inputs = [info("trips", [], "int64"), info("x", ["n", 3])]
    graph = helper.make_graph(nodes, "g", inputs, [info("last", ["q", 3]), info("sums", ["t"])])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)])


MODELS = {
    "known": (layers, lambda rng: [rng.random((8, 24), "float32")]),
    "free": (lambda: layers(rows=heddle.tir.SizeVar("n")), lambda rng: [rng.random((5, 24), "float32")]),
    "loop": (
        lambda: from_onnx(looping_model()),
        lambda rng: [np.asarray(4, "int64"), rng.random((2, 3), "float32")],
    ),
}


def results(program, arrays):
    found = heddle.relax.VirtualMachine(program, heddle.cpu())["main"](*arrays)
    return [item.numpy() for item in (found if isinstance(found, (list, tuple)) else [found])]


@pytest.mark.parametrize("options", [{}, {"precision": "bf16"}, {"sanitize": True}], ids=str)
@pytest.mark.parametrize("exec_mode", ["compiled", "bytecode"])
@pytest.mark.parametrize("name", MODELS)
def test_the_second_compilation_loads_the_same_program(kept, name, exec_mode, options):
    make, arguments = MODELS[name]
    first = heddle.compile(make(), exec_mode=exec_mode, **options)
    assert kept.hits == 0
    second = heddle.compile(make(), exec_mode=exec_mode, **options)
    assert kept.hits == 1
    assert second.as_text(True, True) == first.as_text(True, True)
    assert dict(second.metadata) == dict(first.metadata) and dict(second.line_table) == dict(first.line_table)
    arrays, before = arguments(np.random.default_rng(11)), native_library().num_threads
    try:
        for threads in (1, 2):
            set_num_threads(threads)
            for wanted, got in zip(results(first, arrays), results(second, arrays), strict=True):
                np.testing.assert_array_equal(got, wanted)
    finally:
        set_num_threads(before)


def program_name(mod, target, options):
    key = program_key(mod, target, options)
    return None if key is None else key.name()


def test_what_can_differ_is_in_the_name():
    """One bit of a weight, a name, a place, a limit, an option, a target: each is another program."""
    target = Target("llvm -mcpu=x86-64-v3")
    names = [
        program_name(layers(), target, PLAIN),
        program_name(layers(bias=np.nextafter(np.float32(0.5), np.float32(1))), target, PLAIN),
        program_name(layers(rows=9), target, PLAIN),
        program_name(layers(name="y"), target, PLAIN),
        program_name(layers(), Target("llvm -mcpu=x86-64-v2"), PLAIN),
    ]
    for field, value in (("exec_mode", "bytecode"), ("precision", "bf16"), ("sanitize", True)):
        names.append(program_name(layers(), target, dataclasses.replace(PLAIN, **{field: value})))
    with limits(fold_bytes=12345):
        names.append(program_name(layers(), target, PLAIN))
    with PassContext(opt_level=3):
        names.append(program_name(layers(), target, PLAIN))
    assert None not in names and len(set(names)) == len(names)
    assert program_name(layers(), target, PLAIN) == names[0]
    model = looping_model()
    place = program_name(from_onnx(model), target, PLAIN)
    model.graph.node[0].name = "another"
    assert program_name(from_onnx(model), target, PLAIN) != place


def test_passes_that_are_chosen_or_watched_run(kept):
    class Watch(PassInstrument):
        seen = 0

        def run_before_pass(self, mod, info):
            self.seen += 1

    heddle.compile(layers())
    watch = Watch()
    with PassContext(instruments=[watch]):
        heddle.compile(layers())
    with PassContext(disabled_pass=["FuseOps"]):
        fewer = heddle.compile(layers())
    build(layers(), relax_pipeline=heddle.driver.pipeline.default_pipeline(Target("llvm")))
    build(layers(), tir_pipeline=lambda mod: mod)
    assert kept.hits == 0 and watch.seen > 20
    with PassContext():
        assert heddle.compile(layers()).as_text() != fewer.as_text()
    assert kept.hits == 1


@pytest.mark.parametrize("wrapped", [False, True])
def test_an_operator_of_ones_own_is_compiled_anew(kept, monkeypatch, wrapped):
    heddle.compile(layers())
    record = OP_RECORDS["relax.nn.gelu"]

    def lower(attrs, x):
        return heddle.te.compute(x.shape, lambda *i: x(*i) * 2)

    doubled = dataclasses.replace(record, lower=functools.partial(lower) if wrapped else lower)
    monkeypatch.setitem(OP_RECORDS._entries, "relax.nn.gelu", doubled)
    x = np.ones((8, 24), "float32")
    own = results(heddle.compile(layers()), [x])[0]
    monkeypatch.undo()
    assert kept.hits == 0 and np.abs(own - results(heddle.compile(layers()), [x])[0]).max() > 0.1


def test_values_without_a_text_of_their_own_have_no_key():
    class Foreign:
        def __repr__(self):
            return "Foreign()"

    func = layers()["main"]
    assert labelled_digest(func.with_attr("note", "text")) is not None
    assert labelled_digest(func.with_attr("note", Foreign())) is None


@pytest.mark.parametrize("damage", ["cut", "changed", "emptied"])
def test_a_damaged_file_is_compiled_anew(kept, tmp_path, damage):
    heddle.compile(layers())
    (path,) = (tmp_path / "cache").glob("program-*-*")
    data = path.read_bytes()
    changed = data[:-100] + bytes(100)
    path.write_bytes({"cut": data[: len(data) // 2], "changed": changed, "emptied": b""}[damage])
    x = np.ones((8, 24), "float32")
    wanted = results(heddle.compile(layers()), [x])
    assert kept.hits == 0
    np.testing.assert_array_equal(results(heddle.compile(layers()), [x]), wanted)
    assert kept.hits == 1


def held_writes(monkeypatch):
    """Programs are written when the event that this gives is set."""
    gate, put = threading.Event(), PrivateCache._put

    def slow(self, name, pieces):
        if name.startswith("program-"):
            gate.wait(60)
        put(self, name, pieces)

    monkeypatch.setattr(PrivateCache, "_put", slow)
    return gate


@pytest.mark.parametrize("columns", [1, 24000], ids=["small", "large"])
def test_weights_that_change_while_they_are_written_are_in_no_program(kept, monkeypatch, columns):
    """Their memory is the user's: nothing under the key of the old ones may have the new ones."""
    monkeypatch.setattr(program_cache, "_SMALL_BYTES", 1000)

    def ones():
        return tensor(np.ones((24, columns), "float32"))

    def added(weights):
        x = Var("x", TensorType((24, columns), "float32"))
        builder = BlockBuilder()
        with builder.function("main", [x]):
            with builder.dataflow():
                y = builder.emit(op.nn.gelu(builder.emit(op.add(x, const(weights)))))
                out = builder.emit_output(op.nn.gelu(y))
            builder.emit_func_output(out)
        return builder.get()

    x, weights = np.zeros((24, columns), "float32"), ones()
    wanted = results(heddle.compile(added(ones())), [x])[0]
    settle()
    kept.folder.clear()
    gate = held_writes(monkeypatch)
    heddle.compile(added(weights))
    weights[...] = 5.0
    gate.set()
    again = heddle.compile(added(ones()))
    np.testing.assert_array_equal(results(again, [x])[0], wanted)
    settle()
    heddle.compile(added(ones()))
    assert kept.hits == 1


def test_large_weights_are_read_only_where_a_program_may_be_there(kept, monkeypatch):
    """A module of its own kind begins to compile before its weights have a digest; one that differs from a
    program in its weights alone is another program."""

    def product(seed):
        x = Var("x", TensorType((4, 700), "float32"))
        builder = BlockBuilder()
        with builder.function("main", [x]):
            with builder.dataflow():
                weights = np.random.default_rng(seed).random((700, 700), "float32")
                out = builder.emit_output(op.matmul(x, const(weights)))
            builder.emit_func_output(out)
        return builder.get()

    gate, key_of = threading.Event(), tensor_values._key_of
    waited = []

    def slow(value):
        if value.size_bytes > 1 << 20:
            waited.append(gate.wait(60))
        return key_of(value)

    compiled = ProgramCache.get
    monkeypatch.setattr(tensor_values, "_key_of", slow)

    def get(self, mod, target, options, make):
        return compiled(self, mod, target, options, lambda: (make(), gate.set())[0])

    monkeypatch.setattr(ProgramCache, "get", get)
    x = np.ones((4, 700), "float32")
    monkeypatch.setattr(on_threads, "settings", lambda: dataclasses.replace(settings(), num_threads=2))
    found = [results(heddle.compile(product(seed)), [x])[0] for seed in (1, 2, 1, 2)]
    assert all(waited) and kept.hits == 2
    np.testing.assert_array_equal(found[0], found[2])
    np.testing.assert_array_equal(found[1], found[3])
    assert not np.array_equal(found[0], found[1])


def test_what_lies_outside_of_the_memory_of_tensors():
    data = np.zeros(1000, "uint8")
    spans = [(0, 0), (600, 700), (100, 500), (200, 300)]
    start = data.ctypes.data
    is_outside = program_cache._outside_of(
        [SimpleNamespace(address=start + low, size_bytes=high - low) for low, high in spans]
    )
    for begin, end in itertools.combinations(range(0, 1000, 50), 2):
        wanted = not any(low < end and begin < high for low, high in spans if low < high)
        assert is_outside(memoryview(data)[begin:end]) == wanted, (begin, end)
    assert is_outside(memoryview(data)[:0]) and program_cache._outside_of([])(memoryview(data))


def test_a_large_program_is_written_while_its_user_goes_on(kept, tmp_path, monkeypatch):
    """Whoever compiles the same again waits for the file, and then loads it."""
    monkeypatch.setattr(program_cache, "_SMALL_BYTES", 1000)
    gate = held_writes(monkeypatch)
    first = heddle.compile(layers())
    assert not list((tmp_path / "cache").glob("program-*-*"))
    threading.Timer(0.05, gate.set).start()
    second = heddle.compile(layers())
    assert kept.hits == 1 and len(list((tmp_path / "cache").glob("program-*-*"))) == 1
    x = np.random.default_rng(5).random((8, 24), "float32")
    np.testing.assert_array_equal(results(second, [x]), results(first, [x]))


def test_what_is_kept_has_no_digests_of_its_own(kept, tmp_path):
    """The cache's code covers all of it: what a file without one says is not believed."""
    heddle.compile(layers())
    (path,) = (tmp_path / "cache").glob("program-*-*")
    data = path.read_bytes()
    artefact = memoryview(data[data.index(b"HEDDLE") :])
    assert dict(section_table(artefact, is_authentic=True))
    with pytest.raises(FormatError, match="F0104"):
        dict(section_table(artefact))


def test_what_is_not_kept(tmp_path, monkeypatch):
    """Large programs, those that compile at once, and any where the folder is not the user's alone."""
    folder = tmp_path / "cache"
    small = ProgramCache(PrivateCache(folder, 3 * 24 * 40 * 4), least_s=0.0)
    quick = ProgramCache(PrivateCache(folder, 1 << 30), least_s=1e9)
    off = ProgramCache(None)
    for cache in (small, quick, off):
        monkeypatch.setattr(program_cache, "_shared", [cache])
        for _ in range(2):
            heddle.compile(layers())
        assert cache.hits == 0
    assert not list(folder.glob("program-*-*"))


@pytest.mark.parametrize(("use", "programs"), [("1", True), ("kernels", False), ("0", False)])
def test_processes(tmp_path, use, programs):
    """Another process compiles nothing, whatever its command; HEDDLE_CACHE says what is kept."""
    path, folder = tmp_path / "m.onnx", tmp_path / "cache"
    model = looping_model()
    onnx.save(model, path)
    found = []
    for _ in range(2):
        command = [sys.executable, "-m", "heddle", "run", str(path), "--json", "--repeat", "1"]
        env = {**os.environ, "HEDDLE_CACHE": use, "HEDDLE_CACHE_DIR": str(folder)}
        ran = subprocess.run(command, env=env, capture_output=True, check=True, cwd=Path.cwd())
        found.append(json.loads(ran.stdout)["kernels"])
    kernels = sum(found[0].values())
    assert kernels > 2
    assert found[1] == (
        {"compiled": kernels, "cached": 0} if use == "0" else {"compiled": 0, "cached": kernels}
    )
    assert bool(list(folder.glob("program-*-*"))) == programs
