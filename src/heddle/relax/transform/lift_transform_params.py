"""LiftTransformParams: move computations that depend only on parameters to a function that runs once.

    def main(x, w):                              def main(x, wt):
        R.func_attr({"num_input": 1})                R.func_attr({"num_input": 1})
        wt = R.permute_dims(w)             →         return R.matmul(x, wt)
        return R.matmul(x, wt)
                                                 def main_transform_params(params):
                                                     w = params[0]
                                                     wt = R.permute_dims(w)
                                                     return (wt,)

The new function returns the new parameters of the old one: the values that it still needs, in the order of
their definition, and last a shape with the symbolic dimensions that only the old parameters defined.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from heddle.graph.block_builder import BlockBuilder
from heddle.graph.codes import R0208
from heddle.graph.copying import Copier
from heddle.graph.infer import type_of
from heddle.graph.nodes import BindingBlock, MatchCast, SeqExpr, VarBinding, body_of
from heddle.graph.normalize import is_impure_call
from heddle.graph.num_input import NUM_INPUT, num_inputs
from heddle.graph.type_relations import definable_vars, symbolic_vars
from heddle.graph.types import ShapeExpr, ShapeType
from heddle.ir.attrs import attrs_of
from heddle.ir.expr import Call, Expr, Function, GlobalVar, Tuple, TupleGetItem, Var
from heddle.ir.module import IRModule
from heddle.ir.node import replace
from heddle.ir.structural import structural_digest, structural_equal
from heddle.ir.transform import Pass, PassContext
from heddle.ir.types import TupleType
from heddle.ir.visitor import walk_distinct
from heddle.prim.nodes import Var as PrimVar
from heddle.prim.substitute import free_vars
from heddle.support.diagnostics import UsageError
from heddle.support.frozen import frozen

SUFFIX = "transform_params"


@frozen(slots=False)
class LiftTransformParams(Pass):
    """Applies to functions with `num_input`. `shared_transform`: False gives each a function of its own,
    `NAME_transform_params`; True, or a list of names, makes one `transform_params` for all (or those), of
    what all of them compute.

    Requires the normal form. Raises: UsageError R0208 where functions that shall share have parameters of
    different types.
    """

    shared_transform: bool | Sequence[str] = False

    def transform(self, mod: IRModule, ctx: PassContext) -> IRModule:
        stated = [
            var for var, func in mod.functions.items() if func.dialect == "relax" and NUM_INPUT in func.attrs
        ]
        groups = [(f"{var.name_hint}_{SUFFIX}", [var]) for var in stated]
        if self.shared_transform is not False:
            members = stated
            if self.shared_transform is not True:
                named = {mod.get_global_var(name) for name in self.shared_transform}
                members = [var for var in stated if var in named]
            groups = [(SUFFIX, members)] if members else []
        builder = BlockBuilder(mod)
        for name, members in groups:
            _Group(builder, [_Member(var, mod[var]) for var in members]).split(name)
        return builder.get() if groups else mod


@dataclass(slots=True)
class _Member:
    """A function whose computations are lifted. `known` maps its variables to those of the new function."""

    name: GlobalVar
    func: Function
    known: dict[Var, Var] = field(default_factory=dict)
    dims: dict[PrimVar, PrimVar] = field(default_factory=dict)
    digests: dict[bytes, Var] = field(default_factory=dict)

    @property
    def inputs(self) -> tuple[Var, ...]:
        return self.func.params[: num_inputs(self.func)]

    @property
    def model_params(self) -> tuple[Var, ...]:
        return self.func.params[num_inputs(self.func) :]

    def bindings(self) -> Iterable[VarBinding]:
        return (item for item in body_of(self.func).bindings() if isinstance(item, VarBinding))


def _dims_of(params: Iterable[Var]) -> tuple[PrimVar, ...]:
    return tuple(dict.fromkeys(dim for param in params for dim in symbolic_vars(type_of(param))))


class _Group:
    """Functions that share one lifted function."""

    def __init__(self, builder: BlockBuilder, members: list[_Member]) -> None:
        self._builder, self._members = builder, members
        copier = Copier()
        copier.define_dims(*(type_of(param) for param in members[0].model_params))
        self._params = [copier.define(param) for param in members[0].model_params]
        self._made: dict[bytes, VarBinding] = {}
        for member in members:
            self._match(member)
            self._number(member)
        self._common = [
            digest for digest in self._made if all(digest in member.digests for member in members)
        ]

    # ---- what can be lifted

    def _match(self, member: _Member) -> None:
        """The members' parameters are the same ones."""
        dims = _dims_of(member.model_params)
        member.dims = dict(zip(dims, _dims_of(self._params), strict=False))
        member.known = dict(zip(member.model_params, self._params, strict=False))
        types = [Copier(dims=member.dims).visit(type_of(param)) for param in member.model_params]
        wanted = [type_of(param) for param in self._params]
        same = len(types) == len(wanted) and all(map(structural_equal, types, wanted))
        if not same:
            raise UsageError(
                R0208,
                f"{member.name.name_hint!r} and {self._members[0].name.name_hint!r} cannot share: their "
                "parameters differ",
                span=member.func.span,
            )

    def _number(self, member: _Member) -> None:
        """Equal computations on the parameters have equal digests, in whatever function."""
        given = {dim for param in member.model_params for dim in definable_vars(type_of(param))}
        for binding in member.bindings():
            value = binding.value
            if not isinstance(value, (Call, Tuple, TupleGetItem)) or is_impure_call(value, self._builder.mod):
                continue
            used = [node for node in walk_distinct(value) if isinstance(node, Var)]
            if not used or any(var not in member.known for var in used) or set(free_vars(value)) - given:
                continue
            copier = Copier(member.known, member.dims)
            canonical = copier.visit(value)
            digest = structural_digest(canonical)
            if digest not in self._made:
                self._made[digest] = VarBinding(copier.define(binding.var, True), canonical)
            member.known[binding.var] = self._made[digest].var
            member.digests.setdefault(digest, binding.var)

    # ---- the new functions

    def split(self, name: str) -> None:
        lifted = {self._made[digest].var for digest in self._common}
        there = lifted | set(self._params)
        rest = [self._rest(member, lifted) for member in self._members]
        needed: set[Var] = set()
        for member, body in zip(self._members, rest, strict=True):
            used = (node for node in walk_distinct(body) if isinstance(node, Var))
            needed.update(member.known[var] for var in used if member.known.get(var) in there)
        order = [*self._params, *(self._made[digest].var for digest in self._common)]
        outputs = [var for var in order if var in needed]
        dims = self._missing_dims(rest, outputs)
        self._builder.module[name] = self._transform(name, outputs, dims)
        for member, body in zip(self._members, rest, strict=True):
            self._builder.update_func(member.name, self._remaining(member, body, outputs, dims))

    def _rest(self, member: _Member, lifted: set[Var]) -> SeqExpr:
        """What is left of a function; of variables that stood for one lifted value, the first is left."""
        firsts = {member.known[var]: var for var in reversed(member.known)}
        doubles = {
            var: firsts[to] for var, to in member.known.items() if firsts[to] is not var and to in lifted
        }
        blocks = []
        for block in body_of(member.func).blocks:
            kept = tuple(item for item in block.bindings if member.known.get(item.var) not in lifted)
            if kept:
                blocks.append(replace(block, bindings=kept))
        body = replace(body_of(member.func), blocks=tuple(blocks))
        return _Rename(doubles).visit(body) if doubles else body

    def _missing_dims(self, rest: list[SeqExpr], outputs: list[Var]) -> list[PrimVar]:
        """Dimensions that functions still mention, and only parameters gave that they lose."""
        given = {dim for var in outputs for dim in definable_vars(type_of(var))}
        missing: dict[PrimVar, None] = {}
        for member, body in zip(self._members, rest, strict=True):
            own = {dim for param in member.inputs for dim in definable_vars(type_of(param))}
            ret = () if member.func.ret_ty is None else symbolic_vars(member.func.ret_ty)
            casts = [node.ty for node in walk_distinct(body) if isinstance(node, MatchCast)]
            for dim in (*free_vars(body), *ret, *(dim for ty in casts for dim in symbolic_vars(ty))):
                if dim in member.dims and dim not in own and member.dims[dim] not in given:
                    missing[member.dims[dim]] = None
        return list(missing)

    def _transform(self, name: str, outputs: list[Var], dims: list[PrimVar]) -> Function:
        whole = Var("params", TupleType(tuple(type_of(param) for param in self._params)))
        bindings = [
            VarBinding(replace(p, is_dataflow=True), TupleGetItem(whole, k))
            for k, p in enumerate(self._params)
        ]
        renamed: dict[Var, Expr] = {p: item.var for p, item in zip(self._params, bindings, strict=True)}
        shape = (ShapeExpr(tuple(dims)),) if dims else ()
        result = Tuple((*outputs, *shape))
        steps = [self._made[digest] for digest in self._common]
        fields = TupleType((*(type_of(var) for var in outputs), *(ShapeType(tuple(dims)) for _ in shape)))
        output = Var("gv", fields)
        block = BindingBlock((*bindings, *steps, VarBinding(output, result)), True)
        func = Function(
            (whole,),
            SeqExpr((_Rename(renamed).visit(block),), output, fields),
            fields,
            attrs=attrs_of({"global_symbol": name, NUM_INPUT: 0}),
        )
        return self._builder.normalize_function(Copier().visit(func))

    def _remaining(self, member: _Member, body: SeqExpr, outputs: list[Var], dims: list[PrimVar]) -> Function:
        firsts = {member.known[var]: var for var in reversed(member.known)}
        own_dims = {there: here for here, there in member.dims.items()}
        params = [firsts[var] for var in outputs]
        if dims:
            params.append(Var("dims", ShapeType(tuple(own_dims[dim] for dim in dims))))
        func = replace(member.func, params=(*member.inputs, *params), body=body, ty=None)
        return self._builder.normalize_function(Copier().visit(func))


class _Rename(Copier):
    """Replaces variables and leaves definitions as they are."""

    def __init__(self, variables: dict[Var, Any]) -> None:
        super().__init__(variables)

    def visit_VarBinding(self, node: VarBinding) -> VarBinding:
        return replace(node, value=self.visit(node.value))

    def visit_MatchCast(self, node: MatchCast) -> MatchCast:
        return replace(node, value=self.visit(node.value))

    def visit_Function(self, node: Function) -> Function:
        return replace(node, body=self.visit(node.body))
