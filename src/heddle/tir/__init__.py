"""The loop IR: programs over buffers, their text, interpreter, schedules and lowering."""

from heddle.tir import print_stmt, verify
from heddle.tir.nodes import (
    AllocBuffer,
    AssertStmt,
    AttrStmt,
    Bind,
    Buffer,
    BufferLoad,
    BufferRegion,
    BufferStore,
    DeclBuffer,
    Evaluate,
    For,
    ForKind,
    IfThenElse,
    IterType,
    IterVar,
    MatchBufferRegion,
    PrimFunc,
    SBlock,
    SBlockRealize,
    SeqStmt,
    Stmt,
    While,
    decl_buffer,
)

__all__ = [
    "AllocBuffer", "AssertStmt", "AttrStmt", "Bind", "Buffer", "BufferLoad", "BufferRegion", "BufferStore", "DeclBuffer",
    "Evaluate", "For", "ForKind", "IfThenElse", "IterType", "IterVar", "MatchBufferRegion", "PrimFunc", "SBlock",
    "SBlockRealize", "SeqStmt", "Stmt", "While", "decl_buffer", "print_stmt", "verify",
]
