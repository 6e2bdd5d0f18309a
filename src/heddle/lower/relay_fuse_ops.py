"""FuseOps for Relay: group calls into inline functions, each of which becomes one kernel.

Groups are those of the normal form: by what the loops of each call are, and by post-dominators.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

from heddle.graph.types import TensorType
from heddle.ir.attrs import attrs_of
from heddle.ir.expr import Call, Constant, Function, Tuple, Var
from heddle.ir.module import IRModule
from heddle.ir.node import replace
from heddle.ir.op import Op
from heddle.ir.pass_options import option
from heddle.ir.structural import structural_hash
from heddle.ir.transform import PassContext, declare_config
from heddle.ir.visitor import walk_distinct
from heddle.lower.fuse_ops import edge_pattern, has_costly_work, repeats
from heddle.lower.fusion_graph import MAX_GROUP, FusionNode, find_groups
from heddle.lower.legalize_ops import LegalizeOps
from heddle.lower.relay_to_relax import to_relax
from heddle.relay.nodes import AnyDim
from heddle.relay.placement import Placement, Scope, operands, post_order
from heddle.relay.transform.copying import with_nodes
from heddle.relay.transform.rewriting import TypedPass, is_call, is_pure_operator
from heddle.relay.transform.to_a_normal_form import PRIMITIVE
from heddle.support.diagnostics import HeddleError
from heddle.support.frozen import frozen
from heddle.tir.analysis.op_pattern import OpPattern, op_pattern
from heddle.tir.nodes import PrimFunc

MAX_DEPTH = declare_config(
    "relay.FuseOps.max_depth",
    f"how many operators a group of Relay's FuseOps has at most; {MAX_GROUP} where it says more",
    int,
    1,
)
LINK_PARAMS = declare_config(
    "relay.FuseOps.link_params", "whether Relay's FuseOps puts constants into groups", bool
)
STOP = "annotation.stop_fusion"


@frozen(slots=False)
class FuseOps(TypedPass):
    """Make functions of operators that are computed in one pass over memory.

        fn (%x: Tensor[(4), float32]) { exp(tanh(%x)) }

    becomes

        fn (%x: Tensor[(4), float32]) {
          (fn (%p0: Tensor[(4), float32], Primitive=1) { exp(tanh(%p0)) })(%x) }

    `fuse_opt_level` -1 is that of the context; below 1, each operator is a function of its own. Scalar
    constants are inside of a function, and all constants with `link_params`, or the context's option
    `relay.FuseOps.link_params`; else they are arguments. `annotation.stop_fusion` ends a group, and goes.
    """

    fuse_opt_level: int = option(-1, at_least=-1)
    link_params: bool = False

    def change(self, func: Function, mod: IRModule) -> Function:
        ctx = PassContext.current()
        level = ctx.opt_level if self.fuse_opt_level < 0 else self.fuse_opt_level
        most = min(ctx.config.get(MAX_DEPTH, MAX_GROUP), MAX_GROUP) if level >= 1 else 1
        link = self.link_params or ctx.config.get(LINK_PARAMS, False)
        return _Fuser(func, most, link).fused() if not func.attrs.get(PRIMITIVE) else func


class _Fuser:
    """Groups of at most `most` calls of a function's body."""

    def __init__(self, func: Function, most: int, link: bool) -> None:
        self._func, self._most, self._link = func, most, link
        inside = {
            id(part)
            for expr in post_order(func)
            if isinstance(expr, Function) and expr.attrs.get(PRIMITIVE)
            for part in post_order(expr.body)
        }
        self._order = [expr for expr in post_order(func) if id(expr) not in inside]
        placed = Placement(func)
        self._home = placed.home
        self._uses = Counter(id(child) for expr in self._order for child in operands(expr))

    def fused(self) -> Function:
        calls = [expr for expr in self._order if is_call(expr)]
        stops = {id(expr): expr.args[0] for expr in calls if is_call(expr, STOP)}
        by_scope: dict[int, tuple[Scope, list[Call]]] = {}
        for call in calls:
            if id(call) not in stops:
                scope = self._home[id(call)]
                by_scope.setdefault(id(scope), (scope, []))[1].append(call)
        made: dict[int, Any] = dict(stops)
        for _, members in by_scope.values():
            for group in self._groups(members):
                made[id(group[-1])] = self._called(group)
        return with_nodes(self._func, made) if made else self._func

    def _groups(self, calls: list[Call]) -> list[list[Any]]:
        """Calls of one scope, those of a group together, its result last."""
        nodes = {id(call): self._node(place, call) for place, call in enumerate(calls)}
        for user in calls:
            for source in self._sources(user):
                if id(source) in nodes:
                    node, taker = nodes[id(source)], nodes[id(user)]
                    node.users.append(taker)
                    node.user_patterns.append(_edge(source, user, taker.pattern))
                    node.repeats.append(repeats(source, user))
        for call in calls:
            taken = sum(_times(call, user.key) for user in nodes[id(call)].users)
            nodes[id(call)].escapes = taken < self._uses[id(call)] or not taken
        if self._most <= 1:
            return [[call] for call in calls]
        found = []
        for group in find_groups(list(nodes.values()), self._most):
            members = [node.key for node in sorted(group.members, key=lambda node: node.index)]
            found.append([member for member in members if member is not group.root.key] + [group.root.key])
        return found

    def _node(self, place: int, call: Call) -> FusionNode:
        pattern, is_costly = _kind(call)
        return FusionNode(call, place, pattern, is_costly=is_costly)

    def _sources(self, call: Call) -> list[Any]:
        """What a call takes, each once; of a tuple that it takes alone, the fields."""
        found: dict[int, Any] = {}
        for arg in call.args:
            values = arg.fields if isinstance(arg, Tuple) and self._uses[id(arg)] == 1 else (arg,)
            found |= {id(value): value for value in values}
        return list(found.values())

    def _called(self, group: list[Any]) -> Call:
        """A call of a function of a group's calls."""
        inside = {id(member) for member in group}
        params: dict[int, tuple[Var, Any]] = {}

        def below(expr: Any) -> Sequence[Any]:
            is_tuple = isinstance(expr, Tuple) and self._uses[id(expr)] == 1
            return operands(expr) if id(expr) in inside or is_tuple else ()

        for expr in post_order(group[-1], below):
            is_tuple = isinstance(expr, Tuple) and self._uses[id(expr)] == 1
            if id(expr) in inside or is_tuple or isinstance(expr, Op) or self._is_linked(expr):
                continue
            params[id(expr)] = Var(f"p{len(params)}", expr.ty, dialect="relay"), expr
        body = with_nodes(group[-1], {key: var for key, (var, _) in params.items()})
        body = replace(body) if body is group[-1] else body  # of constants alone: no call of itself
        func = Function(
            tuple(var for var, _ in params.values()), body, attrs=attrs_of({PRIMITIVE: 1}), dialect="relay"
        )
        return Call(func, tuple(value for _, value in params.values()), span=group[-1].span)

    def _is_linked(self, expr: Any) -> bool:
        return isinstance(expr, Constant) and (self._link or expr.data.ndim == 0)


def _times(value: Any, user: Any) -> int:
    """How often a call takes a value, in tuples too."""
    args = [field for arg in user.args for field in (arg.fields if isinstance(arg, Tuple) else (arg,))]
    return sum(arg is value for arg in args)


def _edge(source: Any, user: Any, pattern: OpPattern) -> OpPattern:
    """As in the normal form; two dimensions of which nothing is known are not known to be equal."""
    is_open = any(isinstance(node, AnyDim) for ty in (source.ty, user.ty) for node in walk_distinct(ty))
    found = edge_pattern(source, user, pattern)
    return OpPattern.INJECTIVE if is_open and pattern is OpPattern.BROADCAST else found


_KINDS: dict[tuple[Any, ...], tuple[OpPattern, bool]] = {}
"""The patterns of calls that were seen, by operator, attributes and types."""
_MOST_KINDS = 4096


def _kind(call: Call) -> tuple[OpPattern, bool]:
    """The pattern of a call's loops, and whether their work is costly. What is no one loop function, or gives
    no one tensor, is opaque."""
    opaque = OpPattern.OPAQUE, False
    if not is_pure_operator(call.op) or not isinstance(call.ty, TensorType):
        return opaque
    types = tuple(arg.ty for arg in call.args)
    key = (
        call.op.name,  # type: ignore[attr-defined]
        structural_hash(call.attrs),
        *(structural_hash(ty) for ty in (*types, call.ty)),
    )
    if key not in _KINDS:
        if len(_KINDS) >= _MOST_KINDS:
            _KINDS.clear()
        _KINDS[key] = _kind_of_loops(call, types) or opaque
    return _KINDS[key]


def _kind_of_loops(call: Call, types: Sequence[Any]) -> tuple[OpPattern, bool] | None:
    params = [
        arg if isinstance(arg, Constant) else Var(f"p{k}", ty, dialect="relay")
        for k, (arg, ty) in enumerate(zip(call.args, types, strict=True))
    ]
    own = Call(call.op, tuple(params), call.attrs)
    func = Function(tuple(param for param in params if isinstance(param, Var)), own, dialect="relay")
    try:
        lowered = LegalizeOps()(to_relax(IRModule.from_expr(func)))
    except HeddleError:
        return None  # a call that the normal form refuses is refused there, with a place
    loops = [each for each in lowered.functions.values() if isinstance(each, PrimFunc)]
    if not loops:
        return None
    kinds = [op_pattern(each) for each in loops]
    if max(kinds) > OpPattern.INJECTIVE and len(kinds) > 1:
        return OpPattern.OPAQUE, False
    return max(kinds), any(map(has_costly_work, loops))
