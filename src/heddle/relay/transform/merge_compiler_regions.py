"""Neighbouring regions of one compiler, as one region."""

from __future__ import annotations

from heddle.ir.expr import Function
from heddle.ir.module import IRModule
from heddle.relay.transform.compiler_regions import BEGIN, Regions, inputs_of, unmarked
from heddle.relay.transform.copying import with_nodes
from heddle.relay.transform.rewriting import TypedPass, is_call
from heddle.support.frozen import frozen


@frozen(slots=False)
class MergeCompilerRegions(TypedPass):
    """Leave out the marks between regions of one compiler that follow each other.

        %0 = annotation.compiler_end(tanh(annotation.compiler_begin(%x, compiler="d")), compiler="d");
        annotation.compiler_end(exp(annotation.compiler_begin(%0, compiler="d")), compiler="d")

    becomes

        annotation.compiler_end(exp(tanh(annotation.compiler_begin(%x, compiler="d"))), compiler="d")

    Regions stay apart where one would have to wait for itself: where the second takes a value that is made of
    the first by something else.
    """

    def change(self, func: Function, mod: IRModule) -> Function:
        regions = Regions(func)
        for expr in regions.order:
            region = regions.of(expr)
            for value in inputs_of(expr) if region is not None else ():
                maker, user = regions.of(unmarked(value)), regions.of(expr)
                assert user is not None
                if maker is not None and maker is not user and regions.may_join(maker, user):
                    regions.join(maker, user)
        users: dict[int, list[object]] = {}
        for region in regions.all():
            for member in region.members:
                for value in inputs_of(member):
                    users.setdefault(id(value), []).append(region)
        made = {
            id(expr): unmarked(expr)
            for expr in regions.order
            if is_call(expr, BEGIN)
            and (maker := regions.of(unmarked(expr))) is not None
            and all(user is maker for user in users.get(id(expr), [None]))
        }
        return with_nodes(func, made) if made else func
