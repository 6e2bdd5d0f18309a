"""LevelsOfTrees: convert recursion over a tree to a loop over its levels, with all nodes of a level at once.

    def f(t, w, u):                       def f(t, w, u):
        if has_tag(t, Leaf):                  kinds, xs = f_nodes(t, empty, empty)
            g(matmul(t.0, w))                 order = node_order(stack_chain(kinds))
        elif has_tag(t, Node):                all = g'(matmul'(stack_chain(xs), w))      # the leaves
            a = f(t.0, w, u)                  all = f_levels(0, depth, all, order, u)
            b = f(t.1, w, u)         →        all[-1]
            h(matmul(a + b, u))
        else: fatal                       def f_levels(level, depth, all, order, u):
                                              if level < depth:
                                                  a, b = all[left nodes], all[right nodes]
                                                  all[nodes] = h'(matmul'(a + b, u))
                                                  f_levels(level + 1, depth, all, order, u)
                                              else: all

A product of one row reads all its weights, and so does one of all rows of a level. The nodes are gathered
first, children before parents; a value that no clause takes ends the program there. What a node computes from
its own tensors is computed for all nodes before the loop.

Taken are functions without effects whose calls of themselves change nothing but the node, which have several
of them in a clause, and which compute tensors of fixed sizes with a product that gains. A list has one call:
LoopOverLists.
"""

from __future__ import annotations

import numpy as np

from heddle.graph.infer import type_of
from heddle.graph.nodes import SeqExpr
from heddle.graph.op_builder import const
from heddle.graph.types import ShapeExpr, ShapeType, TensorType
from heddle.ir.attrs import attrs_of
from heddle.ir.expr import Call, Expr, GlobalVar, Tuple, TupleGetItem, Var
from heddle.ir.module import IRModule
from heddle.ir.node import replace
from heddle.ir.op import Op
from heddle.ir.pass_options import option
from heddle.ir.transform import Pass, PassContext
from heddle.ir.types import AnyType, FuncType, TupleType, Type
from heddle.lower.normal_form import graph_functions
from heddle.lower.recursion.node_order import (
    CHILDREN,
    OWN_ROW,
    last_row,
    level_size,
    level_start,
    no_results,
    node_order,
    rows_of_level,
    rows_written,
)
from heddle.lower.recursion.tree_recursion import FEWEST_SHARED_BYTES, NodeKind, TreeRecursion, tree_recursion
from heddle.lower.recursion.writer import (
    RecursionWriter,
    core_call,
    field_of,
    item_of,
    less,
    next_number,
    no_rows,
    tensor_type,
)
from heddle.prim.nodes import PrimExpr, constant
from heddle.prim.nodes import Var as PrimVar
from heddle.prim.substitute import free_vars, substitute
from heddle.relax.transform.convert_to_dataflow import ConvertToDataflow
from heddle.relax.transform.dead_code_elimination import DeadCodeElimination
from heddle.runtime.dtype import DataType
from heddle.support.frozen import frozen
from heddle.support.span import at

_NUMBER = TensorType((), DataType("int64"))


@frozen(slots=False)
class LevelsOfTrees(Pass):
    """`exec_mode`: how graph functions will run, "compiled" or as "bytecode", to which the order of nodes
    costs more.

    Requires: loop functions (LegalizeOps). A function keeps its name and type.
    """

    exec_mode: str = option("compiled", one_of=tuple(FEWEST_SHARED_BYTES))

    def transform(self, mod: IRModule, ctx: PassContext) -> IRModule:
        least = FEWEST_SHARED_BYTES[self.exec_mode]
        trees = (tree_recursion(mod, var, func) for var, func in graph_functions(mod))
        found = [tree for tree in trees if tree is not None and tree.shared_bytes >= least]
        if not found:
            return mod
        maker = _Maker(mod)
        for tree in found:
            maker.make(tree)
        # what is gathered and not read goes, and operators fuse in blocks
        return DeadCodeElimination(keep_packed_calls=True)(ConvertToDataflow()(maker.get()))


class _Maker(RecursionWriter):
    """Writes functions anew, and adds those that they need. What stands for a value of a turn is renamed: in
    the function itself tensors of nodes are rows of all nodes, in that of a level rows of its nodes."""

    def make(self, tree: TreeRecursion) -> None:
        """Put a function that loops in the place of one that recurses."""
        func = tree.match.func
        with at(func.span), self.renaming(), self.scope() as scope:
            body = self.rebuilt(func.ret_ty, self._whole(tree))
            scope.close_block()
        made = SeqExpr(tuple(scope.blocks), body, type_of(body), span=func.body.span)
        self.update_func(tree.var, replace(func, body=made))

    def _whole(self, tree: TreeRecursion) -> list[Expr]:
        kinds = self._nodes(tree)
        num_children = [len(kind.children) for kind in tree.kinds]
        order = self.emit_te(node_order, kinds, num_children, primfunc_name_hint="node_order")
        depth, starts, *tables = [self.emit(TupleGetItem(order, k)) for k in range(2 + len(tree.kinds))]
        for kind in tree.kinds:
            self._ahead(kind)
        (count,) = tensor_type(kinds).dims or ()
        room = self.emit_te(no_results, count, tree.results, name_hint="room", primfunc_name_hint="room")
        results = self.leaves(room)
        bottom = const(np.asarray(0), "int64")
        for k, kind in tree.leaves:
            start, size = self._part(starts, bottom, k) if not kind.fields else (bottom, self._size(kind))
            results = self._written(tree, kind, results, (tables[k], start, size))
        inner = [tables[k] for k, _ in tree.inner]
        given = [self._value(leaf) for leaf in tree.reads]
        own = self._levels(tree, list(map(type_of, (*results, starts, *inner, *given))))
        made = self.emit(Call(own, (bottom, depth, *results, starts, *inner, *given)))
        rows = [self.emit(TupleGetItem(made, k)) for k in range(len(results))]
        return [self.emit_te(last_row, result, primfunc_name_hint="last") for result in rows]

    def _ahead(self, kind: NodeKind) -> None:
        """What is the same for all nodes, and what nodes compute from what they have."""
        for binding in kind.fixed:
            with at(binding.span):
                value = self.substitute(kind.turn.of_leaves(binding.value))
                self.renamed[binding.var] = self.emit(value, binding.var.name_hint)
        for item in kind.ahead:
            with at(item.binding.value.span):
                self.renamed[item.binding.var] = self.at_once(kind.turn, item, {}, self._size(kind))

    def _size(self, kind: NodeKind) -> PrimExpr:
        """How many nodes of a kind that has tensors there are."""
        (size, *_) = tensor_type(self._value(next(iter(kind.fields)))).dims or ()
        return size

    def _value(self, leaf: Expr) -> Expr:
        """What stands for a value of a turn."""
        if isinstance(leaf, TupleGetItem):
            return self.leaf(item_of(TupleGetItem(self._value(leaf.tuple_value), leaf.index)))
        return self.leaf(self.substitute(leaf))

    # ---- the nodes

    def _nodes(self, tree: TreeRecursion) -> Expr:
        """The kinds of all nodes, children before parents. The tensors that nodes have become rows."""
        name = self.global_names.fresh(f"{tree.var.name_hint}_nodes")
        fields = [var for kind in tree.kinds for var in kind.fields]
        node = Var(tree.match.param.name_hint, AnyType())
        chains = [Var("chain", AnyType()) for _ in (None, *fields)]
        result = TupleType(tuple(AnyType() for _ in chains))
        own = GlobalVar(name, FuncType((AnyType(), *result.fields), result, True))

        def after(kind: NodeKind, number: int) -> Expr:
            """The chains behind a node: behind those of its children."""
            items = {var: self.checked(node, k, tensor_type(var)) for var, k in kind.fields.items()}
            state: list[Expr] = list(chains)
            for _, place in kind.children:
                child = self.emit(field_of(node, place, AnyType()), "child")
                made = self.emit(Call(own, (child, *state)))
                state = [self.emit(TupleGetItem(made, k), "chain") for k in range(len(state))]
            new = [const(np.asarray(number), "int64"), *map(items.get, fields)]
            pairs = zip(state, new, strict=True)
            return Tuple(tuple(chain if item is None else Tuple((chain, item)) for chain, item in pairs))

        def clauses(number: int) -> Expr:
            if number == len(tree.kinds):
                error = tree.error
                return self.emit(Call(error.op, error.args, error.attrs, (result,)))
            kind = tree.kinds[number]
            test = self.emit(core_call("has_tag", node, constant(kind.clause.tag, "int64")), "fits")
            return self.branch(test, lambda: after(kind, number), lambda: clauses(number + 1))

        with self.function(name, [node, *chains], private=True):
            self.emit_func_output(clauses(0))
        kinds = Var("kind", _NUMBER)
        made = self.emit(Call(own, (self.substitute(tree.match.param), *map(no_rows, (kinds, *fields)))))
        counts = [PrimVar("nodes", DataType("int64"), None, True)]
        for kind in tree.kinds:  # all fields of a kind have as many rows
            counts += [PrimVar("rows", DataType("int64"), None, True)] * len(kind.fields)
        for k, (var, count) in enumerate(zip((kinds, *fields), counts, strict=True)):
            self.renamed[var] = self.stacked(self.emit(TupleGetItem(made, k), "chain"), var, count)
        return self.renamed.pop(kinds)

    # ---- the levels

    def _part(self, starts: Expr, level: Expr, kind: int) -> tuple[Expr, PrimExpr]:
        """Where the nodes of a kind and level begin in its table, and how many there are."""
        start = self.emit_te(level_start, starts, level, kind, primfunc_name_hint="level_start")
        size = self.emit_te(level_size, starts, level, kind, primfunc_name_hint="level_size")
        count = PrimVar("count", DataType("int64"), None, True)
        self.match_cast(self.emit(core_call("tensor_to_shape", size)), ShapeType((count,)))
        return start, count

    def _written(
        self, tree: TreeRecursion, kind: NodeKind, results: list[Expr], part: tuple[Expr, Expr, PrimExpr]
    ) -> list[Expr]:
        """The results of all nodes, with those of the nodes that are `part` of a table: it, where they begin
        in it, and how many they are."""
        table, start, count = part
        new = [self._value(leaf) for leaf in kind.results]
        types = [type_of(result) for result in results]
        func = rows_written(tree.results, [kind.is_many(leaf) for leaf in kind.results])
        callee = self.add_func(func, "rows_written")
        args = (callee, Tuple((*results, *new, table, start)), ShapeExpr((count,)))
        attrs = attrs_of({"inplace_indices": tuple(range(len(results)))})
        out = types[0] if len(types) == 1 else TupleType(tuple(types))
        made = self.emit(Call(Op.get("relax.call_tir_inplace"), args, attrs, (out,)), "results")
        if len(types) == 1:
            return [made]
        return [self.emit(TupleGetItem(made, k), "results") for k in range(len(types))]

    def _levels(self, tree: TreeRecursion, types: list[Type]) -> GlobalVar:
        """The function that computes a level and calls itself for the next, with sizes of its own. `types`
        are those of the results, the starts, the tables, and what is read."""
        sizes = {size: PrimVar(size.name, size.dtype, None, size.is_size) for size in free_vars(*types)}
        names = [*("results" for _ in tree.results), "starts", *("table" for _ in tree.inner)]
        names += [leaf.name_hint for leaf in tree.reads]
        others = [Var(name, substitute(ty, sizes)) for name, ty in zip(names, types, strict=True)]
        parts = iter(others)
        results, starts = [next(parts) for _ in tree.results], next(parts)
        tables = [next(parts) for _ in tree.inner]
        reads = dict(zip(tree.reads, parts, strict=True))
        level, depth = Var("level", _NUMBER), Var("depth", _NUMBER)
        params = [level, depth, *others]
        name = self.global_names.fresh(f"{tree.var.name_hint}_levels")
        result = TupleType(tuple(map(type_of, results)))
        own = GlobalVar(name, FuncType(tuple(map(type_of, params)), result, True))
        with self.renaming(), self.function(name, params, private=True):

            def again() -> Expr:
                following = self.emit_te(next_number, level, name_hint="level", primfunc_name_hint="next")
                after: list[Expr] = list(results)
                for (k, kind), table in zip(tree.inner, tables, strict=True):
                    part = (table, *self._part(starts, following, k))
                    self._compute(kind, reads, after, part)
                    after = self._written(tree, kind, after, part)
                return self.emit(Call(own, (following, depth, *after, *others[len(after) :])))

            test = self.emit_te(less, level, depth, name_hint="more", primfunc_name_hint="less")
            self.emit_func_output(self.branch(test, again, lambda: Tuple(tuple(results))))
        return own

    def _compute(
        self,
        kind: NodeKind,
        reads: dict[Var, Var],
        results: list[Expr],
        part: tuple[Expr, Expr, PrimExpr],
    ) -> None:
        """Compute what the nodes of a kind give that are `part` of its table: see `_written`."""

        def of_part(rows: Expr, column: int, name: str) -> Expr:
            return self.emit_te(rows_of_level, rows, *part, column, name_hint=name, primfunc_name_hint="rows")

        for k, (binding, _) in enumerate(kind.children):
            name = binding.var.name_hint
            rows = [of_part(result, CHILDREN + k, name) for result in results]
            self.renamed[binding.var] = self.rebuilt(type_of(binding.var), rows)
        for var in kind.reads:
            self.renamed[var] = of_part(reads[var], OWN_ROW, var.name_hint) if var in kind.own else reads[var]
        for binding in kind.turn.bindings:
            if binding.var in kind.below and isinstance(binding.value, TupleGetItem):
                self.renamed[binding.var] = self._value(binding.value)
        for item in kind.by_level:
            with at(item.binding.value.span):
                self.renamed[item.binding.var] = self.at_once(kind.turn, item, {}, part[2])
