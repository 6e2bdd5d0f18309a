"""Small real programs that the fuzzers start from, and what to call them with."""

from __future__ import annotations

import random
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

import heddle
from heddle import relay
from heddle.driver.relay_pipeline import PipelineConfig, build
from heddle.runtime import DataType, Module, Shape, VariantsModule, register_global_func, tensor
from heddle.runtime.function import find_global_func
from heddle.runtime.processor import this_processor
from heddle.script import from_source
from heddle.support.diagnostics import TrapTypeError
from heddle.vm.codes import V0402
from heddle.vm.relax import ExecBuilder, VMExecutable
from heddle.vm.relay import Executable

_GRAPH = """
@I.ir_module
class Module:
    @R.function
    def main(x: R.Tensor(("n", 4), "float32"), c: R.Tensor((), "bool")) -> R.Tensor(("n", 4), "float32"):
        if c:
            y = R.exp(x)
        else:
            y = R.nn.relu(x)
        return y

    @R.function
    def pair(x: R.Tensor(("n", "m"), "float32"), y: R.Tensor(("n", "m"), "float32")):
        with R.dataflow():
            a = R.add(x, y)
            b = R.permute_dims(a)
            c = R.matmul(a, b)
            d = R.sum(c, axis=1)
            R.output(a, d)
        return (a, (d, x))

    @R.function
    def sized(s: R.Shape(["a", "b"])) -> R.Tensor(("a", "b"), "float32"):
        a = T.int64()
        b = T.int64()
        y = R.zeros(R.shape([a, b]), "float32")
        return y
"""


def _helper(function: Any, *numbers: Any) -> Any:
    """What `function` gives for numbers; the typed error of a careful helper for other operands."""
    if not all(isinstance(number, int) and abs(number) < 1 << 62 for number in numbers):
        raise TrapTypeError(V0402, f"expected numbers, got {[type(number) for number in numbers]}")
    return function(*numbers)


HELPERS = {
    "test.fuzz.minus_one": lambda *n: _helper(lambda n: n - 1, *_exactly(1, n)),
    "test.fuzz.plus": lambda *n: _helper(lambda a, b: a + b, *_exactly(2, n)),
    "test.fuzz.is_zero": lambda *n: _helper(lambda n: n == 0, *_exactly(1, n)),
}


def _exactly(count: int, values: tuple[Any, ...]) -> tuple[Any, ...]:
    if len(values) != count:
        raise TrapTypeError(V0402, f"expected {count} numbers, got {len(values)}")
    return values


def register_helpers() -> None:
    for name, helper in HELPERS.items():
        if find_global_func(name) is None:
            register_global_func(name, helper)


def graph(exec_mode: str = "bytecode") -> VMExecutable:
    """Branches, tuples in tuples, symbolic sizes; with kernels."""
    return heddle.compile(from_source(_GRAPH), exec_mode=exec_mode)


def native() -> VMExecutable:
    """The same with machine code of graph functions."""
    return graph("compiled")


def loops() -> VMExecutable:
    """Recursion, a jump back, closures that bind, tuples, constants of every kind."""
    ib = ExecBuilder()
    with ib.function("main", 1, param_names=["n"]):
        ib.emit_call("test.fuzz.is_zero", [ib.r(0)], dst=ib.r(1), place="loop.py:3")
        ib.emit_if(ib.r(1), 3)
        ib.emit_call("vm.builtin.copy", [ib.imm(0)], dst=ib.r(4))
        ib.emit_goto(4)
        ib.emit_call("test.fuzz.minus_one", [ib.r(0)], dst=ib.r(2), place="loop.py:5")
        ib.emit_call("main", [ib.r(2)], dst=ib.r(3))
        ib.emit_call("test.fuzz.plus", [ib.r(3), ib.imm(1)], dst=ib.r(4))
        ib.emit_ret(ib.r(4))
    with ib.function("count", 1):
        ib.emit_call("test.fuzz.is_zero", [ib.r(0)], dst=ib.r(1))
        ib.emit_if(ib.r(1), 2)
        ib.emit_ret(ib.r(0))
        ib.emit_call("test.fuzz.minus_one", [ib.r(0)], dst=ib.r(0))
        ib.emit_goto(-4)
    with ib.function("four", 4):
        ib.emit_call("vm.builtin.make_tuple", [ib.r(i) for i in range(4)], dst=ib.r(4))
        ib.emit_ret(ib.r(4))
    with ib.function("bind", 2):
        ib.emit_call("vm.builtin.make_closure", [ib.f("four"), ib.r(0), ib.r(1)], dst=ib.r(2))
        ib.emit_call("vm.builtin.check_func_info", [ib.r(2), ib.convert_constant("here")])
        ib.emit_call("vm.builtin.invoke_closure", [ib.vm_state(), ib.r(2), ib.imm(1), ib.r(0)], dst=ib.r(3))
        ib.emit_call("vm.builtin.tuple_getitem", [ib.r(3), ib.imm(3)], dst=ib.r(4))
        ib.emit_call("vm.builtin.null_value", [], dst=ib.r(3))
        ib.emit_ret(ib.r(4))
    with ib.function("consts", 0):
        values = (
            tensor(np.arange(6, dtype="float32")),
            Shape([2, 3]),
            DataType("int8"),
            "text",
            2.5,
            1 << 60,
        )
        for at, value in enumerate(values):
            ib.emit_call("vm.builtin.copy", [ib.convert_constant(value)], dst=ib.r(at))
        ib.emit_call("vm.builtin.reshape", [ib.r(0), ib.r(1)], dst=ib.r(6))
        ib.emit_call("vm.builtin.make_tuple", [ib.r(i) for i in range(7)], dst=ib.r(7))
        ib.emit_ret(ib.r(7))
    ib.memory_scopes[0] = "global"
    ib.metadata["note"] = "made by hand"
    return ib.get()


def memory() -> VMExecutable:
    """Shape heap, storages, tensors in them, views."""
    ib = ExecBuilder()
    with ib.function("main", 1):
        ib.emit_call("vm.builtin.alloc_shape_heap", [ib.vm_state(), ib.imm(3)], dst=ib.r(1))
        context = ib.convert_constant("loc=param[0]")
        ib.emit_call("vm.builtin.check_tensor_info", [ib.r(0), ib.imm(2), DataType("float32"), context])
        ib.emit_call("vm.builtin.match_shape", [ib.r(0), ib.r(1), *map(ib.imm, (2, 1, 0, 1, 1)), context])
        ib.emit_call("vm.builtin.make_shape", [ib.r(1), *map(ib.imm, (2, 1, 1, 1, 0))], dst=ib.r(2))
        uint8 = ib.convert_constant(DataType("uint8"))
        ib.emit_call("vm.builtin.alloc_storage", [ib.vm_state(), (640,), ib.imm(0), uint8], dst=ib.r(3))
        ib.emit_call(
            "vm.builtin.alloc_tensor", [ib.r(3), ib.imm(64), ib.r(2), DataType("float32")], dst=ib.r(4)
        )
        ib.emit_call("vm.builtin.null_value", [], dst=ib.r(3))
        ib.emit_call("vm.builtin.shape_of", [ib.r(4)], dst=ib.r(5))
        ib.emit_call("vm.builtin.reshape", [ib.r(0), ib.r(5)], dst=ib.r(6))
        ib.emit_call("vm.builtin.match_prim_value", [ib.imm(4), ib.r(1), ib.imm(2), ib.imm(0), context])
        ib.emit_call("vm.builtin.make_prim_value", [ib.r(1), ib.imm(1), ib.imm(0)], dst=ib.r(7))
        ib.emit_call("vm.builtin.read_if_cond", [ib.r(7)], dst=ib.r(8))
        ib.emit_if(ib.r(8), 3)
        ib.emit_call("vm.builtin.make_tuple", [ib.r(6), ib.r(5), ib.r(7)], dst=ib.r(9))
        ib.emit_ret(ib.r(9))
        ib.emit_ret(ib.r(6))
    return ib.get()


def caches() -> VMExecutable:
    """A key-value cache that grows, is read, and is shortened."""
    ib = ExecBuilder()
    with ib.function("main", 1):
        ib.emit_call("vm.builtin.attention_kv_cache_create", [ib.r(0), (4, 4), ib.imm(0)], dst=ib.r(1))
        ib.emit_call("vm.builtin.attention_kv_cache_append", [ib.r(1), ib.r(0)], dst=ib.r(1))
        ib.emit_call("vm.builtin.attention_kv_cache_view", [ib.r(1)], dst=ib.r(2))
        ib.emit_call("vm.builtin.make_tuple", [ib.r(1)], dst=ib.r(3))
        ib.emit_call("vm.builtin.attention_kv_cache_array_popn", [ib.r(3), ib.imm(1)], dst=ib.r(4))
        ib.emit_call(
            "vm.builtin.attention_kv_cache_window_override", [ib.r(1), ib.r(0), ib.imm(8)], dst=ib.r(5)
        )
        ib.emit_ret(ib.r(2))
    return ib.get()


def variants() -> VariantsModule:
    """The graph for this machine and for one of another kind."""
    other = "x86_64" if this_processor().platform.startswith("aarch64") else "aarch64"
    targets = ["llvm", f"llvm -mtriple={other}-unknown-linux-gnu"]
    return heddle.compile(from_source(_GRAPH), target=targets, exec_mode="compiled")


_PRELUDE = """
type Plan { Leaf(Tensor[(?, 4), float32]), Node(Plan, fn (int32) -> Plan) }

def @grow(%n: int32, %x: Tensor[(?, 4), float32]) -> Plan {
  if (%n <= 0) { Leaf(tanh(%x)) } else {
    Node(Leaf(%x), fn (%k: int32) -> Plan { @grow(%n - %k, %x * 0.5f) })
  }
}

def @join(%t: Plan, %seen: ref(int32)) -> Tensor[(?, 4), float32] {
  match (%t) {
    Leaf(%x) => { ref_write(%seen, ref_read(%seen) + 1); %x },
    Node(%left, %right) => concatenate((@join(%left, %seen), @join(%right(1), %seen)), axis=0),
  }
}

def @main(%x: Tensor[(?, 4), float32], %n: int32) {
  let %seen = ref(0);
  let %all = @join(@grow(minimum(%n, 3), %x), %seen);
  let %sums = @map(fn (%y: Tensor[(?, 4), float32]) { sum(%y, axis=[0]) }, Cons(%all, Cons(%x, Nil)));
  (@foldl(fn (%a, %b) { %a + %b }, zeros(shape=[4], dtype="float32"), %sums), %all, ref_read(%seen))
}
"""
_SIZES = """
def @rows(%x: Tensor[(?, 4), float32]) -> int32 { take(shape_of(%x), 0) }

def @main(%x: Tensor[(?, 4), float32], %c: bool, %n: int32) {
  %0 = split(%x, indices_or_sections=2, axis=1);
  let %y: Tensor[(?, 2), float32] = if (%c) { concatenate((%0.0, %0.1), axis=0) } else { nn.softmax(%0.0) };
  let %hot = dyn.one_hot(arange(0, @rows(%x), 1, dtype="int32"), 1f, 0f, @rows(%x));
  ((%y, nn.dense(%0.1, %0.0)), (sum(%hot, axis=[0]), %n * 2), dyn.topk(sum(%x, axis=[1]), %n).0)
}
"""


def _relay(text: str) -> Executable:
    mod = heddle.IRModule()
    mod.import_from_std("prelude.rly")
    return relay.vm.compile(relay.parse('#[version = "0.0.5"]\n' + text, "fuzz", mod))


def pipeline() -> Module:
    """Two graphs and how they are connected."""
    stages = [
        relay.parse(f'#[version = "0.0.5"]\ndef @main(%x: Tensor[(3, 4), float32]) {{ {body} }}')
        for body in ("(tanh(%x), %x + 1f)", "nn.relu(%x)")
    ]
    config = PipelineConfig()
    first, second = (config[stage] for stage in stages)
    config["input"]["x"].connect(first["input"]["x"])
    first["output"][1].connect(second["input"]["x"])
    config["param_group"]["p"].connect(second["param"])
    second["output"][0].connect(config["output"][0])
    return build(config)


RELAY_MODELS = {
    "relay data": lambda: _relay(_PRELUDE),
    "relay sizes": lambda: _relay(_SIZES),
}
MODELS = {
    "graph": graph,
    "native": native,
    "loops": loops,
    "memory": memory,
    "caches": caches,
    "variants": variants,
    "pipeline": pipeline,
    **RELAY_MODELS,
}


def stored(executable: Module) -> bytes:
    with TemporaryDirectory() as folder:
        path = Path(folder) / "model.heddle"
        executable.export_library(path)
        return path.read_bytes()


def likely_value(rng: random.Random, name: str) -> Any:
    """An argument for a parameter of such a name, as the programs here have it; any other gets any value."""
    if name == "x":
        return np.full((rng.choice((0, 1, 2, 3)), 4), rng.random(), "float32")
    if name == "c":
        return np.array(rng.choice((True, False)))
    return rng.choice((0, 1, 2, 5)) if name in ("n", "value") else random_value(rng)


def random_value(rng: random.Random, depth: int = 0) -> Any:
    """An argument of any kind."""
    choice = rng.randrange(9 if depth < 2 else 6)
    if choice <= 1:
        return np.zeros(rng.choice(((2, 4), (3, 4), (4, 4), (0, 4), (), (6,))), "float32")
    if choice == 2:
        return rng.choice((0, 1, 3, -1, 1 << 40))
    if choice == 3:
        return rng.choice((True, False, None, 1.5))
    if choice == 4:
        return Shape(rng.choices((0, 1, 2, 3, 7, -1), k=rng.randrange(4)))
    if choice == 5:
        return np.array(rng.choice((True, False)))
    if choice == 6:
        return tuple(random_value(rng, depth + 1) for _ in range(rng.randrange(4)))
    return rng.choice(("text", np.arange(4), np.ones((2, 2), "float16")))
