"""What the machine itself costs: calls, loops and fork-join, with hardly any arithmetic in them.

    python benchmarks/machine.py [--tvm-python PYTHON] [--json FILE]

- a chain of 100 tiny calls that are not fused, and a call of one kernel from Python, in both execution modes;
  `--tvm-python` names an interpreter that has apache-tvm, which runs the same program in turn;
- a loop of 10,000 iterations whose end depends on data and whose body has two operators, against ONNX
  Runtime's Loop, if that is installed;
- fork-join of the thread pool: a parallel loop of two parts against the same part alone, on two threads.

Calls and loops run on one thread and count its processor time; fork-join counts wall time. All are the least
of several repetitions.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
import timeit
from collections.abc import Callable
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT / "src"), str(ROOT)]

MODES = ("bytecode", "compiled")
LENGTHS = (1, 100)
TRIPS = 10_000

TVM_CHAIN = """
import sys, time, timeit, json
import numpy as np, tvm
from tvm import relax, te
found = {}
for n in (1, 100):
    for mode in ("bytecode", "compiled"):
        builder = relax.BlockBuilder()
        x = relax.Var("x", relax.TensorStructInfo((4,), "float32")) if hasattr(relax, "TensorStructInfo") \\
            else relax.Var("x", relax.TensorType((4,), "float32"))
        with builder.function("main", [x]):
            v = x
            for _ in range(n):
                v = builder.emit_te(lambda a: te.compute(a.shape, lambda i: a[i] + np.float32(1)), v)
            builder.emit_func_output(v)
        executable = relax.build(builder.get(), target="llvm", exec_mode=mode)
        call = relax.VirtualMachine(executable, tvm.cpu())["main"]
        given = tvm.runtime.tensor(np.zeros(4, "float32"))
        assert call(given).numpy()[0] == n
        count = 200_000 // n // 10
        found[f"{n} {mode}"] = min(
            timeit.repeat(lambda: call(given), number=count, repeat=7, timer=time.thread_time)
        ) / count
print(json.dumps(found))
"""


def least_s(call: Callable[[], Any], count: int, repeat: int = 7, clock: Any = time.thread_time) -> float:
    """The least seconds a call of several repetitions."""
    return min(timeit.repeat(call, number=count, repeat=repeat, timer=clock)) / count


def chain_seconds() -> dict[str, float]:
    """Seconds of a call of a chain, by its length and the mode."""
    import numpy as np

    import heddle
    from heddle import relax, te
    from heddle.driver.pipeline import default_pipeline
    from heddle.ir.transform import Sequential
    from heddle.target import Target

    passes = default_pipeline(Target("llvm")).passes
    unfused = Sequential(tuple(p for p in passes if p.info.name not in ("FuseOps", "FuseTIR")), "unfused")
    found = {}
    for length in LENGTHS:
        for mode in MODES:
            builder = relax.BlockBuilder()
            x = relax.Var("x", relax.TensorType((4,), "float32"))
            with builder.function("main", [x]):
                v = x
                for _ in range(length):
                    v = builder.emit_te(lambda a: te.compute(a.shape, lambda i: a[i] + np.float32(1)), v)
                builder.emit_func_output(v)
            executable = heddle.compile(builder.get(), target="llvm", relax_pipeline=unfused, exec_mode=mode)
            call = relax.VirtualMachine(executable, heddle.cpu())["main"]
            given = heddle.runtime.tensor(np.zeros(4, "float32"))
            assert call(given).numpy()[0] == length
            found[f"{length} {mode}"] = least_s(lambda call=call, given=given: call(given), 20_000 // length)
    return found


def loop_model() -> Any:
    """y = x; for n times: y = y * 0.5 + 1."""
    import numpy as np
    from onnx import TensorProto, helper, numpy_helper

    def floats(name: str) -> Any:
        return helper.make_tensor_value_info(name, TensorProto.FLOAT, [4])

    scalar = {
        name: helper.make_tensor_value_info(name, kind, [])
        for name, kind in (("i", TensorProto.INT64), ("c", TensorProto.BOOL), ("c2", TensorProto.BOOL))
    }
    body = helper.make_graph(
        [
            helper.make_node("Mul", ["v", "k"], ["m"]),
            helper.make_node("Add", ["m", "one"], ["w"]),
            helper.make_node("Identity", ["c"], ["c2"]),
        ],
        "body",
        [scalar["i"], scalar["c"], floats("v")],
        [scalar["c2"], floats("w")],
    )
    graph = helper.make_graph(
        [helper.make_node("Loop", ["n", "", "x"], ["y"], body=body)],
        "graph",
        [floats("x"), helper.make_tensor_value_info("n", TensorProto.INT64, [])],
        [floats("y")],
        [numpy_helper.from_array(np.float32(0.5), "k"), numpy_helper.from_array(np.float32(1), "one")],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def loop_seconds() -> dict[str, float]:
    """Seconds of a loop of TRIPS iterations, by engine."""
    import numpy as np

    import heddle
    from heddle.frontend.onnx import from_onnx

    model = loop_model()
    x, n = np.arange(4, dtype=np.float32), np.asarray(TRIPS, np.int64)
    given = heddle.runtime.tensor(x), heddle.runtime.tensor(n)
    calls: dict[str, Callable[[], Any]] = {}
    for mode in MODES:
        executable = heddle.compile(from_onnx(model), target="llvm", exec_mode=mode)
        main = heddle.relax.VirtualMachine(executable, heddle.cpu())["main"]
        calls[mode] = lambda main=main: main(*given).numpy()
    try:
        import onnxruntime
    except ImportError:
        print("onnxruntime is not installed: no comparison of the loop")
    else:
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads, options.log_severity_level = 1, 3
        session = onnxruntime.InferenceSession(model.SerializeToString(), options)
        calls["onnxruntime"] = lambda: session.run(None, {"x": x, "n": n})[0]
    results = [call() for call in calls.values()]
    assert all(np.array_equal(result, results[0]) for result in results)
    times: dict[str, list[float]] = {name: [] for name in calls}
    for _ in range(5):
        for name, call in calls.items():
            times[name].append(least_s(call, 1, 3))
    return {name: min(values) for name, values in times.items()}


FORK_JOIN = """
@I.ir_module
class Module:
    @T.prim_func
    def parts(A: T.Buffer(({parts}, 4096), "float32")):
        T.func_attr({{"global_symbol": "parts", "tir.is_scheduled": True}})
        for p in T.parallel({parts}, annotations={{"grain": 1}}):
            for r in range(64):
                for i in T.vectorized(4096):
                    A[p, i] = A[p, i] * T.float32(0.5) + T.float32(1)
"""


def fork_join_seconds() -> dict[str, float]:
    """Wall seconds of two equal parts on two threads, and of one part on one."""
    import numpy as np

    import heddle
    from heddle.runtime.native.library import set_num_threads
    from heddle.script import from_source

    kernels = {}
    for parts in (1, 2):
        module = heddle.compile(from_source(FORK_JOIN.format(parts=parts)), target="llvm")
        given = heddle.runtime.tensor(np.zeros((parts, 4096), "float32"))
        kernels[parts] = lambda run=module["parts"], given=given: run(given)
    times: dict[int, list[float]] = {1: [], 2: []}
    set_num_threads(2)
    for _ in range(20):
        for parts, call in kernels.items():
            least_s(call, 20, 2, time.perf_counter)  # the other thread is awake
            times[parts].append(least_s(call, 200, 3, time.perf_counter))
    return {f"{parts} part": min(values) for parts, values in times.items()}


def tvm_seconds(python: str) -> dict[str, float]:
    environment = {**os.environ, "TVM_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}
    done = subprocess.run([python, "-c", TVM_CHAIN], capture_output=True, text=True, env=environment)
    if done.returncode:
        raise SystemExit(f"TVM's side failed:\n{done.stderr[-2000:]}")
    result: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return result


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--tvm-python", help="an interpreter that has apache-tvm")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    forked = fork_join_seconds()
    from heddle.runtime.native.library import set_num_threads

    set_num_threads(1)
    ours = chain_seconds()
    theirs = tvm_seconds(options.tvm_python) if options.tvm_python else {}
    loop = loop_seconds()
    for name, seconds in ours.items():
        length, mode = name.split()
        line = f"{length:>4s} call(s) {mode:9s} {seconds / int(length) * 1e9:8.0f} ns a call"
        if name in theirs:
            other = theirs[name]
            line += f"   TVM {other / int(length) * 1e9:8.0f} ns   ratio {seconds / other:5.2f}"
        print(line)
    for name, seconds in loop.items():
        line = f"loop of {TRIPS} {name:12s} {seconds * 1e3:8.2f} ms"
        print(
            line + (f"   {loop['onnxruntime'] / seconds:5.1f}x ONNX Runtime" if "onnxruntime" in loop else "")
        )
    extra = forked["2 part"] - forked["1 part"]
    print(f"fork-join on 2 threads: {extra * 1e6:.2f} us beyond a part of {forked['1 part'] * 1e6:.1f} us")
    if options.json:
        data = {"chain_s": ours, "tvm_chain_s": theirs, "loop_s": loop, "fork_join_s": forked}
        options.json.write_text(json.dumps(data, indent=1))


if __name__ == "__main__":
    main()
