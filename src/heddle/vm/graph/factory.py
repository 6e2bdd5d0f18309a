"""Compiled graphs as modules: the graph, its parameters, and the module with its kernels."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from heddle.runtime.artefact import Section, require
from heddle.runtime.module import Module, SectionData, register_loader
from heddle.runtime.params import load_param_dict, save_param_dict
from heddle.runtime.tensor import Tensor
from heddle.runtime.wire import Reader, Writer
from heddle.support.diagnostics import FormatError
from heddle.vm.codes import V0802
from heddle.vm.graph.debug import GraphDebugExecutor
from heddle.vm.graph.executor import GraphExecutor
from heddle.vm.graph.module import one_device
from heddle.vm.graph.nodes import Graph, graph_from_json


class GraphExecutorFactoryModule(Module):
    """The result of `relay.build` for the graph executor. `factory["default"](dev)` creates an executor. It
    unpacks to three items: the graph's JSON text, the module with the kernels, and the parameters."""

    kind = "GraphExecutorFactory"

    def __init__(
        self,
        graph: Graph,
        lib: Module | None,
        params: Mapping[str, Tensor],
        libmod_name: str = "default",
        links_params: bool = False,
        metadata: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__()
        if lib is not None:
            self._imports.append(lib)
        self.graph, self.libmod_name = graph, libmod_name
        self._values = dict(params)
        self._links_params = links_params
        self._metadata = dict(metadata or {})
        self._queries: dict[str, Callable[..., Any]] = {
            libmod_name: lambda *devices: self._executor(GraphExecutor, devices),
            "debug_create": lambda name, *devices: self._executor(GraphDebugExecutor, devices),
            "get_graph_json": self.get_graph_json,
            "get_graph_params": self.get_params,
            "remove_params": self.without_params,
        }

    def _executor(self, make: type[GraphExecutor], devices: Sequence[Any]) -> GraphExecutor:
        return make(self.graph, self.lib, one_device(list(devices)), self._values)

    def function_names(self) -> Sequence[str]:
        return tuple(self._queries)

    def _find(self, name: str) -> Callable[..., Any] | None:
        return self._queries.get(name)

    def __iter__(self) -> Iterator[Any]:
        return iter((self.graph_json, self.lib, self.params))

    @property
    def module(self) -> GraphExecutorFactoryModule:
        """The factory itself. TVM scripts get the module from this attribute."""
        return self

    @property
    def lib(self) -> Module | None:
        """The module with the kernels; None if the graph calls none."""
        return self.imports[0] if self.imports else None

    @property
    def function_metadata(self) -> Mapping[str, str]:
        """Texts by name that the compiler stored about the functions and kernels."""
        return self._metadata

    @property
    def graph_json(self) -> str:
        """The graph as JSON text."""
        return self.graph.to_json()

    @property
    def params(self) -> dict[str, Tensor]:
        """The parameters by name; empty if they are linked into the code."""
        return {} if self._links_params else dict(self._values)

    def get_graph_json(self) -> str:
        """The graph as JSON text."""
        return self.graph_json

    get_executor_config = get_graph_json

    def get_params(self) -> dict[str, Tensor]:
        """Return the parameters by name; empty if they are linked into the code."""
        return self.params

    def get_lib(self) -> Module | None:
        """The module with the kernels."""
        return self.lib

    def without_params(self) -> GraphExecutorFactoryModule:
        """Return the factory without parameter values. The user sets them with `load_params`."""
        return GraphExecutorFactoryModule(
            self.graph, self.lib, {}, self.libmod_name, metadata=self.function_metadata
        )

    def save_sections(self) -> Mapping[str, SectionData]:
        head = Writer()
        head.text(self.libmod_name)
        head.u64(int(self._links_params))
        head.text(self.graph_json)
        texts = Writer()
        texts.texts([text for pair in self._metadata.items() for text in pair])
        return {"graph": head.bytes(), "params": save_param_dict(self._values), "metadata": texts.bytes()}


def load_factory(sections: Mapping[str, Section]) -> GraphExecutorFactoryModule:
    """Restore a factory from its sections. The kernels are the factory's import.

    Raises: FormatError V0802, F0106 for malformed sections.
    """
    head = require(sections, "graph").reader()
    name, links, text = head.text(), head.u64(), head.text()
    head.done()
    params = load_param_dict(require(sections, "params").data)
    graph = graph_from_json(text)
    unknown = sorted(params.keys() - {node.name for node in graph.nodes if node.is_input})
    if unknown:
        raise FormatError(V0802, f"the graph has no parameter {unknown[0]!r}")
    metadata = _read_metadata(sections["metadata"].reader()) if "metadata" in sections else {}
    return GraphExecutorFactoryModule(graph, None, params, name, bool(links), metadata)


def _read_metadata(reader: Reader) -> dict[str, str]:
    """Raises: FormatError F0106 for a name without a text."""
    words = reader.texts()
    reader.done()
    if len(words) % 2:
        raise reader.fail("expected names and texts in pairs")
    return dict(zip(words[::2], words[1::2], strict=True))


register_loader(GraphExecutorFactoryModule.kind, load_factory)
