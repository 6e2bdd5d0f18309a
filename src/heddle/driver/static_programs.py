"""Programs for the graph and the ahead-of-time executor, as the command line calls them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Any

from heddle.driver.signature import METADATA_PREFIX, signature_from_json
from heddle.runtime.device import cpu
from heddle.runtime.module import Module
from heddle.runtime.shape import Array
from heddle.support.frozen import frozen
from heddle.vm.graph.aot import AotExecutorFactoryModule
from heddle.vm.graph.factory import GraphExecutorFactoryModule

Factory = GraphExecutorFactoryModule | AotExecutorFactoryModule


@frozen
class Described:
    """What a report asks of an executable, of a program that no machine runs. `text` shows it."""

    metadata: Mapping[str, str]
    text: str
    imports: Sequence[Module] = ()
    variant: str = ""
    variant_target: str | None = None


def program_of(factory: Factory) -> Any:
    """The executable of a program that was compiled ahead of time; the description of a graph."""
    if isinstance(factory, AotExecutorFactoryModule):
        return factory.lib
    kernels = () if factory.lib is None else (factory.lib,)
    return Described(factory.function_metadata, factory.graph_json, kernels)


def call_of(factory: Factory) -> Callable[..., Any]:
    """A call of the program on the first CPU. Its outputs are in the tuples that `main` returns. The first
    call makes the executor, so that a file for another machine can be looked into."""
    executor = cache(lambda: factory[factory.libmod_name](cpu()))
    text = factory.function_metadata.get(METADATA_PREFIX + "main")
    paths = [spec.path for spec in signature_from_json(text).outputs] if text is not None else None

    def call(*args: Any) -> Any:
        module: Any = executor()
        for number, arg in enumerate(args):
            module.set_input(number, arg)
        module.run()
        found = [module.get_output(index) for index in range(module.get_num_outputs())]
        return Array(found) if paths is None else _nested(paths, found)

    return call


def _nested(paths: Sequence[tuple[int, ...]], values: Sequence[Any]) -> Any:
    if list(paths) == [()]:
        return values[0]
    parts: dict[int, list[tuple[tuple[int, ...], Any]]] = {}
    for path, value in zip(paths, values, strict=True):
        parts.setdefault(path[0], []).append((path[1:], value))
    return Array(_nested(*zip(*part, strict=True)) for _, part in sorted(parts.items()))
