"""Marked regions as functions of the module."""

from __future__ import annotations

from typing import Any

from heddle.ir.attrs import attrs_of
from heddle.ir.expr import Call, Constant, Function, GlobalVar, Tuple, TupleGetItem, Var, is_relay
from heddle.ir.module import IRModule
from heddle.ir.transform import Pass, PassContext
from heddle.relay.placement import operands
from heddle.relay.transform.compiler_regions import (
    BEGIN,
    COMPILER,
    END,
    GLOBAL_SYMBOL,
    Region,
    Regions,
    inputs_of,
    unmarked,
)
from heddle.relay.transform.copying import with_nodes
from heddle.relay.transform.inline import INLINE
from heddle.relay.transform.rewriting import is_call
from heddle.relay.transform.to_a_normal_form import PRIMITIVE
from heddle.relay.typed import infer_module
from heddle.support.frozen import frozen
from heddle.support.names import identifier


@frozen(slots=False)
class PartitionGraph(Pass):
    """Make a function of each region that AnnotateTarget marked.

        def @main(%x: float32) {
          annotation.compiler_end(tanh(annotation.compiler_begin(%x, compiler="d")), compiler="d")
        }

    becomes

        def @main(%x: float32) { @tvmgen_default_d_main_0(%x) }
        def @tvmgen_default_d_main_0(%d_0_i0: float32, Compiler="d", Primitive=1, Inline=1,
                                     global_symbol="tvmgen_default_d_main_0") { tanh(%d_0_i0) }

    A region that gives several values gives a tuple. With `bind_constants`, constants are inside of the
    function; else they are its arguments. What is no letter, digit or `_` in a name becomes `_`.
    """

    mod_name: str = "default"
    bind_constants: bool = True

    def transform(self, mod: IRModule, ctx: PassContext) -> IRModule:
        typed = infer_module(mod)
        table: dict[GlobalVar, Any] = {}
        for var, func in typed.functions.items():
            if not is_relay(func):
                table[var] = func
                continue
            prefix = "_".join(part for part in ("tvmgen", self.mod_name) if part)
            made = _Partitioner(func, prefix, var.name_hint, self.bind_constants)
            table[var] = made.result
            table |= made.functions
        same = all(table[var] is func for var, func in typed.functions.items())
        return mod if same else infer_module(typed.with_functions(table))


class _Partitioner:
    """`result` is a function with calls in the place of its regions, `functions` are what these call."""

    def __init__(self, func: Function, prefix: str, name: str, bind_constants: bool) -> None:
        self._prefix, self._name, self._bind_constants = prefix, name, bind_constants
        self._regions = Regions(func)
        self._leaving = self._leaving_values()
        self.functions: dict[GlobalVar, Function] = {}
        made: dict[int, Any] = {}
        for number, region in enumerate(self._regions.all()):
            made |= self._called(region, number)
        marks = (expr for expr in self._regions.order if is_call(expr, BEGIN, END))
        made |= {id(mark): unmarked(mark) for mark in marks if id(mark) not in made}
        self.result = with_nodes(func, made) if made else func

    def _leaving_values(self) -> dict[Region, list[Any]]:
        """The members that something else than their own region takes, by region."""
        found: dict[Region, dict[int, Any]] = {}
        for expr in self._regions.order:
            if is_call(expr, BEGIN, END):
                continue
            inputs = inputs_of(expr) if self._regions.of(expr) is not None else operands(expr)
            for value in map(unmarked, inputs):
                maker = self._regions.of(value)
                if maker is not None and maker is not self._regions.of(expr):
                    found.setdefault(maker, {})[id(value)] = value
        return {region: list(values.values()) for region, values in found.items()}

    def _called(self, region: Region, number: int) -> dict[int, Any]:
        """What stands for the values that leave a region."""
        leaving = self._leaving.get(region, [])
        if not leaving:
            return {}
        name = identifier(f"{self._prefix}_{region.compiler}_{self._name}_{number}")
        inside: dict[int, Any] = {}
        params: list[Var] = []
        args: list[Any] = []
        for source in self._regions.sources(region):
            if isinstance(source, Constant) and self._bind_constants:
                inside[id(source)] = source
                continue
            hint = identifier(f"{region.compiler}_{number}_i{len(params)}")
            params.append(Var(hint, source.ty, dialect="relay"))
            args.append(source)
            inside[id(source)] = params[-1]
        for member in region.members:
            for value in inputs_of(member):
                if value is not unmarked(value):
                    inside[id(value)] = unmarked(value)
        attrs = {PRIMITIVE: 1, INLINE: 1, COMPILER: region.compiler, GLOBAL_SYMBOL: name}
        body = leaving[0] if len(leaving) == 1 else Tuple(tuple(leaving))
        body = with_nodes(body, {key: value for key, value in inside.items() if id(value) != key})
        var = GlobalVar(name)
        self.functions[var] = Function(tuple(params), body, attrs=attrs_of(attrs), dialect="relay")
        call = Call(var, tuple(args), span=leaving[0].span)
        if len(leaving) == 1:
            return {id(leaving[0]): call}
        return {id(value): TupleGetItem(call, place) for place, value in enumerate(leaving)}
