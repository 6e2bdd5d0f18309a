"""The graph executor: runs programs without control flow as a list of kernel calls over preallocated
memory.
"""

from heddle.vm.graph.debug import GraphModuleDebug
from heddle.vm.graph.executor import GraphExecutor
from heddle.vm.graph.factory import GraphExecutorFactoryModule
from heddle.vm.graph.module import GraphModule
from heddle.vm.graph.nodes import Graph, GraphNode, graph_from_json
from heddle.vm.graph.trace import trace_program

__all__ = [
    "Graph",
    "GraphExecutor",
    "GraphExecutorFactoryModule",
    "GraphModule",
    "GraphModuleDebug",
    "GraphNode",
    "graph_from_json",
    "trace_program",
]
