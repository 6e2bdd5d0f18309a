"""Bindings of graph functions with all that lies inside of them, and the calls of kernels among them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from heddle.graph.nodes import Binding, SeqExpr
from heddle.graph.rewriter import is_call
from heddle.ir.expr import Call, Expr, Function, GlobalVar, If
from heddle.ir.module import IRModule
from heddle.lower.normal_form import graph_functions
from heddle.support.span import DerivedSpan, Span, derive, leaves
from heddle.tir.nodes import PrimFunc


def bodies_in(value: Expr) -> tuple[Expr, ...]:
    """The bodies that a bound value holds: branches, or that of a local function."""
    if isinstance(value, If):
        return value.true_branch, value.false_branch
    return (value.body,) if isinstance(value, Function) else ()


def bindings_in(body: Expr) -> Iterator[Binding]:
    """All bindings of a body in order, those of inner bodies after the binding that holds them."""
    if isinstance(body, SeqExpr):
        for binding in body.bindings():
            yield binding
            for inner in bodies_in(binding.value):
                yield from bindings_in(inner)


def kernel_of(value: Expr, mod: IRModule) -> str | None:
    """The loop function of the module that an expression calls, in whatever form of call."""
    if not isinstance(value, Call):
        return None
    for item in (value.op, *value.args):
        if isinstance(item, GlobalVar) and isinstance(mod.functions.get(item), PrimFunc):
            return item.name_hint
    return None


def kernel_calls(mod: IRModule) -> Iterator[tuple[str, str, Span | None]]:
    """Each call of a loop function: the graph function, the loop function, where it comes from."""
    for var, func in graph_functions(mod):
        for binding in bindings_in(func.body):
            kernel = kernel_of(binding.value, mod)
            if kernel is not None:
                yield var.name_hint, kernel, binding.origin


def shared_places(mod: IRModule) -> dict[str, dict[Span, Span]]:
    """Of each loop function that several calls share, all places that one in it stands for: the loop function
    has those of the first call, and the places of equal calls are in the same order."""
    calls: dict[str, list[tuple[Span, ...]]] = {}
    for _, kernel, span in kernel_calls(mod):
        calls.setdefault(kernel, []).append(leaves(span))
    return {
        kernel: {place: DerivedSpan("sharing", alike) for alike in zip(*rows, strict=True) for place in alike}
        for kernel, rows in calls.items()
        if len(rows) > 1 and len(set(map(len, rows))) == 1
    }


def spread(spans: Sequence[Span | None], shared: Mapping[Span, Span]) -> list[Span | None]:
    """Spans with all the places that theirs stand for."""
    known: dict[Span | None, Span | None] = {None: None}
    for span in spans:
        if span not in known:
            known[span] = derive("sharing", *(shared.get(leaf, leaf) for leaf in leaves(span)))
    return [known[span] for span in spans]


def is_allocation(value: Expr) -> bool:
    """Whether a value is a new storage of the memory plan."""
    return is_call(value, "relax.memory.alloc_storage")
