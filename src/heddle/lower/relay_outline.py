"""Parts of graphs that Relay has no words for, as functions of graphs that a Relay program calls.

    lv1 = cls.loop(0, n, h, R.zeros((0, 4)), x)            def part(n, h, x):
    lv2 = lv1[1]                                               lv1 = cls.loop(0, n, h, R.zeros((0, 4)), x)
    lv3 = stack_chain(lv2)                            →        lv2 = lv1[1]
    lv4 = R.match_cast(lv3, R.Tensor((length, 4)))             lv3 = stack_chain(lv2)
                                                               return R.match_cast(lv3, R.Tensor((length, 4)))
                                                           lv4 = cls.part(n, h, x)

Chains of rows, sequences and what takes them stay inside; tensors go in and come out.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import prod
from operator import is_
from typing import Any

from heddle.graph.infer import function_type, type_of
from heddle.graph.nodes import Binding, BindingBlock, MatchCast, SeqExpr, VarBinding
from heddle.graph.rewriter import BindingRewriter, is_call
from heddle.graph.types import ShapeType, TensorType
from heddle.ir.call_graph import reachable
from heddle.ir.expr import Call, Expr, Function, GlobalVar, If, Tuple, TupleGetItem, Var
from heddle.ir.module import IRModule
from heddle.ir.node import replace
from heddle.ir.structural import structural_equal
from heddle.ir.types import TupleType, Type
from heddle.ir.visitor import walk_distinct
from heddle.lower.normal_form import graph_functions
from heddle.prim.nodes import IntImm, SizeVar
from heddle.prim.nodes import Var as PrimVar
from heddle.prim.substitute import free_vars
from heddle.relay.expand import without_symbols


def speaks(ty: Type | None) -> bool:
    """Whether Relay has values of a type: tensors of known rank, and tuples of them."""
    if isinstance(ty, TupleType):
        return all(map(speaks, ty.fields))
    return isinstance(ty, TensorType) and ty.dtype is not None and ty.ndim >= 0


def kept_functions(mod: IRModule) -> set[GlobalVar]:
    """The functions that stay graphs: those that take or give what Relay has no values for, and what they
    call."""
    graphs: dict[GlobalVar, Any] = dict(graph_functions(mod))
    without_words = [
        var
        for var, func in graphs.items()
        if not all(speaks(type_of(param)) for param in func.params) or not speaks(func.ret_ty)
    ]
    return reachable(graphs, without_words)


def with_parts_outlined(
    mod: IRModule, kept: set[GlobalVar], calls: Sequence[Call] = ()
) -> tuple[IRModule, set[GlobalVar]]:
    """The module with such parts as functions, and the functions that stay graphs: those of `kept`, and the
    new ones. `calls` are without words too."""
    maker = _Outliner(mod, kept, calls)
    for var, func in graph_functions(mod):
        if var not in kept:
            maker.outline(var, func)
    return maker.get(), maker.kept


class _Outliner(BindingRewriter):
    def __init__(self, mod: IRModule, kept: set[GlobalVar], calls: Sequence[Call]) -> None:
        super().__init__(mod)
        self.kept = set(kept)
        self._calls = {id(call) for call in calls}
        self._known_uses: dict[int, tuple[Binding, set[Var]]] = {}
        self._holders: dict[PrimVar, Var] = {}
        """A tensor that has a size."""
        self._casts: dict[PrimVar, Binding] = {}
        """What says what a size is, where no tensor has it."""
        self._shapes: dict[Expr, Binding] = {}
        """What shapes are bound to."""
        self._order: dict[Var, int] = {}
        """In which order shapes were bound."""

    def outline(self, var: GlobalVar, func: Function) -> None:
        """Outline the parts of one function."""
        self._holders = {}
        for param in func.params:
            self._note(param)
        body = self._sequence(func.body, var.name_hint)
        if body is not func.body:
            self.update_func(var, replace(func, body=body))

    def _note(self, var: Var) -> None:
        ty = type_of(var)
        for size in _plain_dims(ty) if isinstance(ty, TensorType) else ():
            self._holders.setdefault(size, var)

    def _sequence(self, body: Any, hint: str) -> SeqExpr:
        assert isinstance(body, SeqExpr)
        holders = dict(self._holders)
        bindings = [self._branches(binding, hint) for binding in body.bindings()]
        made: list[Binding] = []
        is_changed = any(a is not b for a, b in zip(bindings, body.bindings(), strict=True))
        while (
            first := next((k for k, item in enumerate(bindings) if self._is_foreign(item)), None)
        ) is not None:
            is_changed = True
            part = self._part(bindings, first)
            inside = {id(binding) for binding in part}
            self._holders = dict(holders)
            last = max(k for k, binding in enumerate(bindings) if id(binding) in inside)
            before = [binding for binding in bindings[: last + 1] if id(binding) not in inside]
            after = bindings[last + 1 :]
            early, late = self._apart(before, {binding.var for binding in part})
            for binding in (*made, *early):
                self._note(binding.var)
            made += [*early, *self._call(part, [*late, *after], body.body, hint)]
            bindings = [*late, *after]
        made += bindings
        return SeqExpr((BindingBlock(tuple(made), False),), body.body, body.ty) if is_changed else body

    def _branches(self, binding: Binding, hint: str) -> Binding:
        """The binding with the parts of its branches outlined."""
        self._note(binding.var)
        if isinstance(type_of(binding.var), ShapeType):
            self._shapes[binding.var] = binding
            self._order.setdefault(binding.var, len(self._order))
            if isinstance(binding, MatchCast):
                for size in _plain_dims(binding.ty):
                    self._casts.setdefault(size, binding)
        value = binding.value
        if (
            not isinstance(binding, VarBinding)
            or not isinstance(value, If)
            or not speaks(type_of(binding.var))
        ):
            return binding
        holders = dict(self._holders)
        yes = self._sequence(value.true_branch, hint)
        self._holders = dict(holders)
        no = self._sequence(value.false_branch, hint)
        self._holders = holders
        if yes is value.true_branch and no is value.false_branch:
            return binding
        return replace(binding, value=replace(value, true_branch=yes, false_branch=no))

    def _part(self, bindings: Sequence[Binding], first: int) -> list[Binding]:
        """The bindings that go together with a foreign one: what takes its values until tensors come out, and
        what makes a number or an empty tensor for them alone."""
        inside = {first}
        hidden = {bindings[first].var} if not _is_done(bindings[first]) else set()
        for k in range(first + 1, len(bindings)):
            binding = bindings[k]
            takes = self._uses(binding) & hidden
            refines = isinstance(binding, MatchCast) and self._uses(binding) & {
                bindings[j].var for j in inside
            }
            if takes or refines:
                inside.add(k)
                if not _is_done(binding):
                    hidden.add(binding.var)
        for k in reversed(range(first)):
            if not _is_small(bindings[k]):
                continue
            users = {j for j, other in enumerate(bindings) if bindings[k].var in self._uses(other)}
            if users and users <= inside:
                inside.add(k)
        return [bindings[k] for k in sorted(inside)]

    def _apart(self, bindings: Sequence[Binding], made: set[Var]) -> tuple[list[Binding], list[Binding]]:
        """Bindings that do not depend on some variables, and those that do."""
        early: list[Binding] = []
        late: list[Binding] = []
        known = set(made)
        for binding in bindings:
            if self._uses(binding) & known:
                known.add(binding.var)
                late.append(binding)
            else:
                early.append(binding)
        return early, late

    def _uses(self, binding: Binding) -> set[Var]:
        known = self._known_uses.get(id(binding))
        if known is None:
            known = self._known_uses[id(binding)] = binding, _uses(binding)
        return known[1]

    def _is_foreign(self, binding: Binding) -> bool:
        ty = type_of(binding.var)
        if isinstance(ty, ShapeType):
            return False
        value = binding.value
        if isinstance(value, Call) and isinstance(value.op, GlobalVar) and value.op in self.kept:
            return not all(speaks(type_of(arg)) for arg in value.args) or not speaks(ty)
        if isinstance(value, If) and _differ(value):
            return True
        return not speaks(ty) or id(value) in self._calls or is_call(value, "relax.call_pure_packed")

    def _call(
        self, part: Sequence[Binding], rest: Sequence[Binding], result: Expr, hint: str
    ) -> Iterator[Binding]:
        """A function of the part, and the bindings that call it."""
        own = {binding.var for binding in part}
        used = set[Any](walk_distinct(result)).union(*map(self._uses, rest))
        outputs = [binding.var for binding in part if binding.var in used]
        outputs += self._holders_inside(part, outputs, rest, result)
        inputs, makers = _inputs(part, own), list[Binding]()
        while more := self._makers(_sizes([*makers, *part], inputs)):
            makers = sorted((*makers, *more), key=lambda binding: self._order[binding.var])
            own |= {binding.var for binding in more}
            inputs = _inputs([*makers, *part], own)
        inputs += dict.fromkeys(
            self._holders[size] for size in _sizes([*makers, *part], inputs) if size in self._holders
        )
        name = self.global_names.fresh(f"{hint}_part")
        self.renamed.clear()
        params = [Var(var.name_hint, _with_plain_dims(type_of(var))) for var in inputs]
        with self.function(name, params, private=True):
            self.renamed.update(zip(inputs, params, strict=True))
            for binding in makers:
                self._copy(binding)
            casts = [binding for binding in makers if isinstance(binding, MatchCast)]
            known = {size for binding in casts for size in _plain_dims(binding.ty)}
            known |= {size for param in params for size in _plain_dims(type_of(param))}
            for var, param in zip(inputs, params, strict=True):
                if param.ty is not var.ty and known.issuperset(free_vars(type_of(var))):
                    self.renamed[var] = self.match_cast(param, type_of(var))
            for binding in part:
                self._copy(binding)
            given = [self.renamed.get(var, var) for var in outputs]
            self.emit_func_output(given[0] if len(given) == 1 else Tuple(tuple(given)))
        self.renamed.clear()
        func = self.module[name]
        callee = GlobalVar(name, function_type(func))
        self.kept.add(callee)
        call = Call(callee, tuple(inputs), ty=type_of(callee).ret)  # type: ignore[attr-defined]
        if len(outputs) == 1:
            yield VarBinding(outputs[0], call)
            return
        whole = Var(f"{hint}_part", TupleType(tuple(type_of(out) for out in outputs)))
        yield VarBinding(whole, call)
        for k, out in enumerate(outputs):
            yield VarBinding(out, TupleGetItem(whole, k, ty=type_of(out)))

    def _holders_inside(
        self, part: Sequence[Binding], outputs: Sequence[Var], rest: Sequence[Binding], result: Expr
    ) -> list[Var]:
        """Tensors of a part that nobody reads but for sizes that the part finds out."""
        types = [type_of(binding.var) for binding in rest]
        wanted = set(free_vars(*(binding.value for binding in rest), *types, result))
        wanted -= {size for var in outputs for size in _plain_dims(type_of(var))}
        made: list[Var] = []
        for binding in part:
            ty = type_of(binding.var)
            sizes = wanted.intersection(_plain_dims(ty)) if isinstance(ty, TensorType) else set()
            if any(size not in self._holders and size not in self._casts for size in sizes):
                made.append(binding.var)
                wanted -= sizes
        return made

    def _makers(self, sizes: Sequence[PrimVar]) -> list[Binding]:
        """What computes sizes that no tensor has: a tensor's elements, say. The part does it again."""
        made: list[Binding] = []
        for size in sizes:
            cast = None if size in self._holders else self._casts.get(size)
            if cast is not None and not any(cast is other for other in made):
                value = self._shapes.get(cast.value) if isinstance(cast.value, Var) else None
                made += [cast] if value is None or any(value is other for other in made) else [value, cast]
        return made

    def _copy(self, binding: Binding) -> None:
        if isinstance(binding, MatchCast):
            self.renamed[binding.var] = self.match_cast(self.substitute(binding.value), binding.ty)
        elif isinstance(binding.value, (If, Function)):
            self.binding(binding)
        else:
            self.renamed[binding.var] = self.emit(self.substitute(binding.value), binding.var.name_hint)


def _uses(binding: Binding) -> set[Var]:
    return {node for node in walk_distinct(binding.value) if isinstance(node, Var)}


def _differ(value: If) -> bool:
    """Whether branches give tensors of different fixed sizes, which have no type in common in Relay."""
    yes, no = (without_symbols(type_of(branch)) for branch in (value.true_branch, value.false_branch))
    return not structural_equal(yes, no)


def _is_done(binding: Binding) -> bool:
    """Whether a value is a tensor, or tensors, that Relay has."""
    return speaks(type_of(binding.var))


def _is_small(binding: Binding) -> bool:
    """A tensor of one element or none."""
    ty = type_of(binding.var)
    if not isinstance(ty, TensorType) or ty.dims is None or isinstance(binding.value, If):
        return False
    sizes = [dim.value if isinstance(dim, IntImm) else None for dim in ty.dims]
    return 0 in sizes or (None not in sizes and prod(size or 0 for size in sizes) == 1)


def _inputs(part: Sequence[Binding], own: set[Var]) -> list[Var]:
    """The variables from outside that a part uses, in order."""
    local = set(own)
    for binding in part:
        local |= {
            node.var for node in walk_distinct(binding.value) if isinstance(node, (VarBinding, MatchCast))
        }
        local |= {
            param
            for node in walk_distinct(binding.value)
            if isinstance(node, Function)
            for param in node.params
        }
    found = (node for binding in part for node in walk_distinct(binding.value) if isinstance(node, Var))
    return list(dict.fromkeys(var for var in found if var not in local))


def _with_plain_dims(ty: Type) -> Type:
    """A type whose sizes are numbers and variables, new ones in the place of expressions."""
    if not isinstance(ty, TensorType) or ty.dims is None:
        return ty
    dims = tuple(dim if isinstance(dim, (IntImm, PrimVar)) else SizeVar("size") for dim in ty.dims)
    return ty if all(map(is_, dims, ty.dims)) else TensorType(dims, ty.dtype)


def _sizes(part: Sequence[Binding], inputs: Sequence[Var]) -> list[PrimVar]:
    """The sizes that a part uses, and neither finds out nor sees in a tensor."""
    found = dict.fromkeys(var for binding in part for var in free_vars(binding.value, type_of(binding.var)))
    found |= dict.fromkeys(free_vars(*map(type_of, inputs)))
    known = {dim for var in inputs for dim in _plain_dims(type_of(var))}
    known |= {dim for binding in part if isinstance(binding, MatchCast) for dim in _plain_dims(binding.ty)}
    return [size for size in found if size not in known]


def _plain_dims(ty: Type) -> list[PrimVar]:
    """The variables that are sizes of a type by themselves."""
    dims = ty.dims if isinstance(ty, TensorType) else ty.values if isinstance(ty, ShapeType) else ()
    return [dim for dim in dims or () if isinstance(dim, PrimVar)]
