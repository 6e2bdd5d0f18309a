"""Static networks by the graph executor and ahead of time, beside the Relax machine; what a node costs."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from heddle.contrib import graph_executor
from heddle.runtime.executor import AotModule

import heddle
from benchmarks.measure import least_in_turn, relative_error
from benchmarks.workloads import chosen
from heddle import relay
from heddle.driver.values import as_arrays
from heddle.relax import VirtualMachine

NAMES = ("resnet50", "mobilenetv2", "bert-128")
CHAIN = 200


def _module(kind: str, mod: Any) -> Any:
    executor = relay.backend.Executor(kind)
    made = relay.build(mod, target="llvm", executor=executor)["default"](heddle.cpu())
    return graph_executor.GraphModule(made) if kind == "graph" else AotModule(made)


def rows(_threads: int) -> Iterator[str]:
    """A line for each network and executor, then one for a chain of small operators."""
    for workload in chosen(list(NAMES)):
        path, request = str(workload.path()), workload.requests()[0]
        graph = heddle.compile(path)
        main = VirtualMachine(graph, heddle.cpu())["main"]
        args = [heddle.tensor(array) for array in request]
        wanted = as_arrays(main(*args))
        free, _ = relay.frontend.from_onnx(path)
        names = [param.name_hint for param in free["main"].params]
        shapes = {name: array.shape for name, array in zip(names, request, strict=True)}
        mod, _ = relay.frontend.from_onnx(path, shapes)
        fixed = VirtualMachine(heddle.compile(mod), heddle.cpu())["main"]
        for kind in ("graph", "aot"):
            module = _module(kind, mod)
            for name, array in zip(names, request, strict=True):
                module.set_input(name, array)
            module.run()
            found = [module.get_output(k).numpy() for k in range(len(wanted))]
            ours, theirs = least_in_turn(module.run, lambda run=fixed, args=args: run(*args))  # type: ignore[misc]
            yield (
                f"{workload.name} {kind}: {1e3 * ours:.3f} ms, Relax machine {1e3 * theirs:.3f} ms, "
                f"ratio {ours / theirs:.3f}, error {relative_error(found, wanted):.0e}"
            )
    yield from _nodes()


def _nodes() -> Iterator[str]:
    """A chain of operators that do not fuse, on four numbers: time for each."""
    x = relay.var("x", shape=(4,))
    y: Any = x
    for _ in range(CHAIN):
        y = relay.annotation.stop_fusion(relay.add(y, relay.const(1.0)))
    mod = heddle.IRModule.from_expr(relay.Function([x], y))
    for kind in ("graph", "aot"):
        module = _module(kind, mod)
        module.set_input("x", np.zeros(4, "float32"))
        module.run()
        assert module.get_output(0).numpy()[0] == CHAIN
        ours, _ = least_in_turn(module.run, module.run, turns=40)
        yield f"a node of {CHAIN} small ones, {kind}: {1e9 * ours / CHAIN:.0f} ns with its kernel"
