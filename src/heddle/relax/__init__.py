"""The Relax dialect: dataflow programs over tensors with symbolic shapes."""

from heddle.graph.block_builder import BlockBuilder
from heddle.graph.nodes import BindingBlock, DataflowBlock, DataflowVar, MatchCast, SeqExpr, VarBinding
from heddle.graph.op_builder import const
from heddle.graph.types import ShapeExpr, ShapeType, TensorType, VDevice
from heddle.relax import print, verify
from heddle.relax.interpreter import GraphInterpreter
from heddle.relax.verify import well_formed

__all__ = [
    "BindingBlock",
    "BlockBuilder",
    "DataflowBlock",
    "DataflowVar",
    "GraphInterpreter",
    "MatchCast",
    "SeqExpr",
    "ShapeExpr",
    "ShapeType",
    "TensorType",
    "VDevice",
    "VarBinding",
    "const",
    "print",
    "verify",
    "well_formed",
]
