"""Programs in which some tensors lie in another layout, with `layout_transform` only where that has to be."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from heddle.graph.types import TensorType
from heddle.ir.expr import Expr, Function, Tuple, TupleGetItem
from heddle.ir.node import label, replace
from heddle.ir.node import node as declared
from heddle.ir.types import TupleType, Type
from heddle.relay.builders import var
from heddle.relay.nodes import TempExpr
from heddle.relay.placement import post_order
from heddle.relay.transform.copying import map_parts, with_nodes
from heddle.relay.transform.rewriting import call, is_call, rank, recalled, sizes, works_on_elements
from heddle.relay.typed import infer_local
from heddle.support.diagnostics import HeddleError

Alter = Callable[[Any], Any]
"""A call of an operator in other layouts, over the same arguments; None to leave it alone."""


@declared("relay.Arranged")
class Arranged(TempExpr):
    """A tensor of a program in another layout: `value` is in `other`, and stands for one in `own`. Of a tuple
    all fields are, or those of the numbers `fields`."""

    value: Expr
    own: str
    other: str
    fields: tuple[int, ...] | None = None
    ty: Type | None = label(default=None)

    def realize(self) -> Expr:
        """The tensor in its own layout."""
        moved: Expr = _moved(self.value, self.other, self.own)
        return moved

    def moves(self, index: int) -> bool:
        """Whether a field of a tuple is in the other layout."""
        return self.fields is None or index in self.fields

    @property
    def is_permuted(self) -> bool:
        """Whether the layouts have the same axes in another order, and no blocks."""
        return self.other.isalpha() and sorted(self.own) == sorted(self.other)

    def axis(self, axis: int) -> int:
        """Where an axis is in the other layout."""
        return self.other.index(self.own[axis % len(self.own)])


def arranged(func: Function, alter: Alter) -> Function:
    """A typed function with calls in the layouts that `alter` gives them."""
    found: Function = _Arranger(alter).run(func)
    return found


def _moved(value: Any, source: str, target: str) -> Any:
    if source == target:
        return value
    return call("layout_transform", value, src_layout=source, dst_layout=target)


class _Arranger:
    def __init__(self, alter: Alter) -> None:
        self._alter = alter
        self._made: dict[int, Any] = {}
        self._kept: dict[tuple[int, str, str], Any] = {}

    def run(self, func: Function) -> Any:
        for node in post_order(func):
            self._made[id(node)] = self._node(node)
        return self._plain(func)

    def _node(self, node: Any) -> Any:
        if is_call(node):
            made = self._altered(node)
            made = self._carried(node) if made is None else made
            if made is not None:
                return made
        tup = self._made.get(id(node.tuple_value)) if isinstance(node, TupleGetItem) else None
        if isinstance(tup, Arranged):
            part = TupleGetItem(tup.value, node.index)
            return Arranged(part, tup.own, tup.other) if tup.moves(node.index) else part
        return map_parts(node, lambda child: self._plain(child) if id(child) in self._made else child)

    def _plain(self, node: Any) -> Any:
        """A value in its own layout."""
        made = self._made[id(node)]
        if not isinstance(made, Arranged):
            return made
        key = id(node), made.own, made.own
        if key not in self._kept:
            if isinstance(node.ty, TupleType):
                parts = [TupleGetItem(made.value, k) for k in range(len(node.ty.fields))]
                fields = [
                    _moved(part, made.other, made.own) if made.moves(part.index) else part for part in parts
                ]
                self._kept[key] = Tuple(tuple(fields))
            else:
                self._kept[key] = made.realize()
        return self._kept[key]

    def _in(self, node: Any, own: str, other: str) -> Any:
        """A value that is in `own`, in `other`."""
        key = id(node), own, other
        if key not in self._kept:
            made = self._made[id(node)]
            is_near = isinstance(made, Arranged) and made.own == own
            value, source = (made.value, made.other) if is_near else (self._plain(node), own)
            self._kept[key] = _moved(value, source, other)
        return self._kept[key]

    # ---- calls that are said to be in other layouts

    def _altered(self, node: Any) -> Any:
        made = self._alter(node)
        if made is None or made is node:
            return None
        before, after = _layouts(node), _layouts(made)
        plain = {id(arg): new for arg in node.args if (new := self._plain(arg)) is not arg}
        if before is None or after is None:
            return with_nodes(made, plain)
        args = []
        for k, arg in enumerate(made.args):
            is_given = k < len(before[0]) and k < len(node.args) and arg is node.args[k]
            args.append(self._in(arg, before[0][k], after[0][k]) if is_given else with_nodes(arg, plain))
        made = replace(made, args=tuple(args), ty=None)
        return made if before[1] == after[1] else Arranged(made, before[1], after[1])

    # ---- calls that follow

    def _carried(self, node: Any) -> Any:
        """The call in the layout of its arguments; None where it cannot be."""
        args = node.args
        if is_call(node, "concatenate") and isinstance(args[0], Tuple):
            args = args[0].fields
        state = next((made for arg in args if isinstance(made := self._made[id(arg)], Arranged)), None)
        if state is None or state.fields is not None or hasattr(args[0].ty, "fields"):
            return None
        if works_on_elements(node.op):
            return self._elements(node, state)
        if self._made[id(args[0])] is not state and not is_call(node, "concatenate"):
            return None
        if is_call(node, "layout_transform"):
            is_from = str(node.attrs.src_layout) == state.own
            return _moved(state.value, state.other, node.attrs.dst_layout) if is_from else None
        rule = _RULES.get(node.op.name, _layout_rule)
        found = rule(node.attrs, state) if state.is_permuted else None
        if found is None or (rule is _layout_rule and not _has_layout(node, state, found[0])):
            return None
        changed, own, other, *fields = found
        first: Any = state.value
        if is_call(node, "concatenate"):
            first = Tuple(tuple(self._in(arg, state.own, state.other) for arg in args))
        made = recalled(node, first, *map(self._plain, node.args[1:]), **changed)
        return made if own == other else Arranged(made, own, other, *fields)

    def _elements(self, node: Any, state: Arranged) -> Any:
        ndim = len(state.own)
        if rank(node) != ndim:
            return None
        args = []
        for arg in node.args:
            made, own = self._made[id(arg)], rank(arg)
            if isinstance(made, Arranged) and (made.own, made.other) == (state.own, state.other):
                args.append(made.value)
            elif own == 0:
                args.append(self._plain(arg))
            elif not state.is_permuted and not _fills_blocks(arg, state):
                return None
            elif own == ndim:
                args.append(self._in(arg, state.own, state.other))
            else:
                whole = call("expand_dims", self._plain(arg), axis=0, num_newaxis=ndim - own)
                args.append(_moved(whole, state.own, state.other))
        made = replace(node, args=tuple(args), ty=None)
        return Arranged(made, state.own, state.other)


def _layouts(made: Any) -> tuple[list[str], str] | None:
    """The layouts of a call's first arguments, and of its result; None of one that has none."""
    attrs = made.attrs if is_call(made) else {}
    data = attrs.get("data_layout") or attrs.get("layout")
    if not data:
        return None
    kernel = [str(attrs.get("kernel_layout"))] if attrs.get("kernel_layout") else []
    return [str(data), *kernel], str(attrs.get("out_layout") or data)


def _fills_blocks(arg: Any, state: Arranged) -> bool:
    """Whether a tensor, with axes of one before its own, can be put into the blocks of a layout."""
    known = sizes(arg)
    if known is None:
        return False
    known = (1,) * (len(state.own) - len(known)) + known
    blocks = re.findall(r"(\d+)([a-z])", state.other)
    return not any(known[state.own.index(axis.upper())] % int(size) for size, axis in blocks)


# ---- attributes in the other layout: what changes, and the layouts of the result

_Found = tuple[Any, ...] | None


def _layout_rule(attrs: Any, state: Arranged) -> _Found:
    """An operator whose layout is an attribute: pools, resizes."""
    own = str(attrs.get("layout") or "")
    if own != state.own or str(attrs.get("out_layout") or own) != own:
        return None
    out = {"out_layout": state.other} if attrs.get("out_layout") else {}
    return {"layout": state.other, **out}, state.own, state.other


def _has_layout(node: Any, state: Arranged, changed: dict[str, Any]) -> bool:
    """Whether an operator of one operand is there in another layout."""
    if len(node.args) != 1:
        return False
    ty = node.args[0].ty
    dims = tuple(ty.dims[state.own.index(letter)] for letter in state.other)
    try:
        infer_local(recalled(node, var("x", TensorType(dims, ty.dtype)), **changed))
    except HeddleError:
        return False
    return True


def _axis_rule(*fields: tuple[int, ...]) -> Callable[[Any, Arranged], _Found]:
    def rule(attrs: Any, state: Arranged) -> _Found:
        return {"axis": state.axis(attrs.axis)}, state.own, state.other, *fields

    return rule


def _reduction(attrs: Any, state: Arranged) -> _Found:
    given, count = attrs.axis, len(state.own)
    listed = [given] if isinstance(given, int) else range(count) if given is None else given
    axes = {axis % count for axis in listed}
    if attrs.get("exclude"):
        axes = set(range(count)) - axes
    if not axes:
        return None
    changed = {"axis": sorted(map(state.axis, axes))} | ({"exclude": False} if "exclude" in attrs else {})
    if attrs.keepdims:
        return changed, state.own, state.other
    gone = {state.own[axis] for axis in axes}
    own, other = ("".join(c for c in layout if c not in gone) for layout in (state.own, state.other))
    return changed, own, other


def _pad(attrs: Any, state: Arranged) -> _Found:
    widths = [attrs.pad_width[state.own.index(letter)] for letter in state.other]
    return {"pad_width": widths}, state.own, state.other


def _transpose(attrs: Any, state: Arranged) -> _Found:
    axes = attrs.axes or list(range(len(state.own)))[::-1]
    return {"axes": [state.axis(axis) for axis in axes]}, "", ""


def _slice(attrs: Any, state: Arranged) -> _Found:
    axes = attrs.axes if attrs.axes is not None else range(len(attrs.begin))
    return {"axes": [state.axis(axis) for axis in axes]}, state.own, state.other


_RULES: dict[str, Callable[[Any, Arranged], _Found]] = {
    **dict.fromkeys(("concatenate", "split", "nn.bias_add", "nn.prelu"), _axis_rule()),
    **dict.fromkeys(("nn.softmax", "nn.log_softmax", "nn.fast_softmax"), _axis_rule()),
    "nn.batch_norm": _axis_rule((0,)),
    **dict.fromkeys(("sum", "mean", "max", "min", "prod", "all", "any"), _reduction),
    "nn.pad": _pad,
    "transpose": _transpose,
    "strided_slice": _slice,
}
