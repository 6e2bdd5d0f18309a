"""On which device each value of a program is."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from heddle.graph.types import TensorType
from heddle.graph.virtual_device import ANYWHERE, VirtualDevice, device_attribute, virtual_device
from heddle.ir.expr import Call, Constant, Function, GlobalVar, Var, is_relay
from heddle.ir.module import IRModule
from heddle.ir.node import map_children, replace
from heddle.ir.op import Op
from heddle.ir.transform import Pass, PassContext
from heddle.ir.type_data import Constructor
from heddle.ir.types import TupleType
from heddle.relay.builders import without_type
from heddle.relay.codes import Q0506, Q0507
from heddle.relay.nodes import Clause, Let, Match, Pattern
from heddle.relay.op import PARAM_DEVICES, RESULT_DEVICE
from heddle.relay.placement import operands, post_order
from heddle.relay.text_values import type_text
from heddle.relay.transform.rewriting import call, is_call
from heddle.relay.typed import infer_module
from heddle.runtime.device import Device, cpu
from heddle.support.diagnostics import IRTypeError
from heddle.support.disjoint_sets import DisjointSets
from heddle.support.frozen import frozen
from heddle.target import Target

_ON, _COPY = "on_device", "device_copy"
_SHAPES = ("shape_of", "vm.shape_of")
Edge = tuple[int, int]
"""An expression, by identity, and the number of its operand."""


@frozen(slots=False)
class PlanDevices(Pass):
    """Put every value on a device, by the annotations of the program, and insert copies between devices.
    `config` is the device of what nothing is said about. Where a field of an annotation is open (a
    `VirtualDevice` without a device, say), what other annotations say fills it, and then `config`.

        add(on_device(tanh(%x), virtual_device="cuda(0)"), %y)

    becomes, with `"cpu"`,

        def @main(%x, %y, param_virtual_devices=["cuda(0)", "cpu(0)"], result_virtual_device="cpu(0)") {
          add(device_copy(tanh(%x), src_virtual_device="cuda(0)", dst_virtual_device="cpu(0)"), %y)
        }

    Operands and results of operators, fields of tuples, branches and matches with what they give are on one
    device; arguments are where the parameters of the functions are; shapes are on the host. A function's
    result that nothing is said about is on the default device, its parameters where its result is, and the
    value of a let where the let's is. A constant is wherever it is read. A program without annotations stays.

    Raises: IRTypeError Q0506 for a value that is annotated for two devices, Q0507 for one that would have to
    be copied and is neither a tensor nor a tuple of tensors.
    """

    config: str | Device | VirtualDevice | Target
    opt_level = 0

    def transform(self, mod: IRModule, ctx: PassContext) -> IRModule:
        if not any(_is_annotated(func) for func in mod.functions.values() if is_relay(func)):
            return mod
        mod = infer_module(mod)
        plan = DevicePlan(mod, virtual_device(self.config))
        return infer_module(mod.with_functions({**mod.functions, **plan.rewritten()}))


def _is_annotated(func: Function) -> bool:
    has_attrs = PARAM_DEVICES in func.attrs or RESULT_DEVICE in func.attrs
    return has_attrs or any(is_call(node, _ON, _COPY) for node in post_order(func))


class DevicePlan:
    """Sets of values on one device, by union; `_device` has those of sets that are known. The module's
    functions have types. Raises: IRTypeError Q0506."""

    def __init__(self, mod: IRModule, default: VirtualDevice) -> None:
        functions = {var: func for var, func in mod.functions.items() if is_relay(func)}
        self._functions: dict[GlobalVar, Any] = functions
        self._nodes = {id(node): node for func in functions.values() for node in post_order(func)}
        self._values = {node.var: node.value for node in self._nodes.values() if isinstance(node, Let)}
        self._sets: DisjointSets[int] = DisjointSets()
        self._device: dict[int, VirtualDevice] = {}
        self._kept: list[Any] = []
        self._copies: set[Edge] = set()
        """Operands that are on another device than what uses them."""
        self._results_of: dict[int, object] = {}
        """What stands for results that are constants, by the function."""
        self._results: set[int] = set()
        """Calls whose value is on another device than the function's result."""
        self._constrain()
        self._fill_in(default)

    # ---- sets

    def _key(self, expr: Any) -> int:
        if isinstance(expr, GlobalVar):  # one for each name
            expr = self._functions.get(expr, expr)
        elif isinstance(expr, Constant):  # another one at each place
            expr = object()
        self._kept.append(expr)
        return id(expr)

    def _root(self, expr: Any) -> int:
        return self._sets.root(self._key(expr))

    def _join(self, a: Any, b: Any) -> bool:
        """Put two values on one device; False where they are on different ones."""
        one, other = self._root(a), self._root(b)
        joined = self._device.get(one, ANYWHERE).joined(self._device.get(other, ANYWHERE))
        if joined is None:
            return False
        self._sets.join(one, other)
        self._device[other] = joined
        return True

    def _fix(self, expr: Any, device: Any) -> None:
        root, wanted = self._root(expr), virtual_device(device)
        known = self._device.get(root, ANYWHERE)
        if (joined := known.joined(wanted)) is None:
            raise _conflict(expr, known, wanted)
        self._device[root] = joined

    def _same(self, a: Any, b: Any) -> None:
        if not self._join(a, b):
            raise _conflict(a, self.of(a), self.of(b))

    def of(self, expr: Any) -> VirtualDevice:
        """The device of an expression that is no constant, all of it once the plan is made."""
        return self._device[self._root(expr)]

    def result_of(self, func: Function) -> VirtualDevice:
        """The device of what a function gives."""
        return self.of(self._body(func))

    def _body(self, func: Function) -> Any:
        """What stands for a function's result."""
        body = func.body
        return self._results_of.setdefault(id(func), object()) if isinstance(body, Constant) else body

    def devices(self) -> list[VirtualDevice]:
        """Those that values are on, in the order of the program."""
        found = map(self.of, filter(self._has_place, self._nodes.values()))
        return list({each.place: each for each in found}.values())

    # ---- constraints

    def _constrain(self) -> None:
        """What the program says: devices first, then what is on one device."""
        tops = {id(node.value) for node in self._nodes.values() if isinstance(node, Let)}
        tops |= {id(node.body) for node in self._nodes.values() if isinstance(node, (Let, Function))}
        for node in self._nodes.values():
            if is_call(node, _ON):
                if node.attrs.constrain_body:
                    self._fix(node.args[0], node.attrs.virtual_device)
                if node.attrs.constrain_result or (node.attrs.constrain_body and id(node) in tops):
                    self._fix(node, node.attrs.virtual_device)
            elif is_call(node, _COPY):
                self._fix(node.args[0], node.attrs.src_virtual_device)
                self._fix(node, node.attrs.dst_virtual_device)
            elif isinstance(node, Function):
                for param, device in zip(node.params, node.attrs.get(PARAM_DEVICES) or (), strict=False):
                    self._fix(param, device)
                if RESULT_DEVICE in node.attrs:
                    self._fix(self._body(node), node.attrs[RESULT_DEVICE])
            elif is_call(node, *_SHAPES):
                self._fix(node, cpu(0))
        for node in self._nodes.values():
            self._unite(node)
        for node in self._nodes.values():
            self._relate(node)

    def _unite(self, node: Any) -> None:
        """What cannot be apart."""
        if isinstance(node, Let):
            self._same(node.var, node.value)
        elif isinstance(node, Match):
            for each in _bound([clause.lhs for clause in node.clauses]):
                self._same(each, node.data)
        values = () if isinstance(node, Let) else operands(node)[isinstance(node, Call) :]
        for child in values:  # a function as a value: all of it is where the value is
            if (func := self._called(child)) is not None:
                for part in (*func.params, self._body(func)):
                    self._same(part, child)

    def _relate(self, node: Any) -> None:
        """What is on one device, or copied."""
        if is_call(node, _ON, _COPY, *_SHAPES):
            return
        if isinstance(node, Let):
            self._edges(node, [1])
        elif isinstance(node, Call) and not isinstance(node.op, (Op, Constructor)):
            func = self._called(node.op)
            if func is None:
                self._edges(node, range(len(node.args) + 1))
                return
            for number, param in enumerate(func.params, 1):
                self._edge(node, number, param)
            if not self._join(self._body(func), node):
                self._results.add(id(node))
        elif not isinstance(node, (Function, Op, Constructor, GlobalVar)):
            self._edges(node, range(len(operands(node))))

    def _called(self, op: Any) -> Function | None:
        """The function that an expression is, where that is seen."""
        if isinstance(op, GlobalVar):
            op = self._functions.get(op)
        while isinstance(op, Var) and op in self._values:
            op = self._values[op]
        return op if isinstance(op, Function) else None

    def _edges(self, node: Any, numbers: Iterable[int]) -> None:
        for number in numbers:
            if not isinstance(operands(node)[number], (Op, Constructor)):
                self._edge(node, number, node)

    def _edge(self, node: Any, number: int, where: Any) -> None:
        """An operand is where something else is, or a copy of it."""
        if not self._join(operands(node)[number], where):
            self._copies.add((id(node), number))

    # ---- what nothing is said about

    def _fill_in(self, default: VirtualDevice) -> None:
        """Devices for the sets that have none."""
        nodes = [node for node in reversed(self._nodes.values()) if self._has_place(node)]
        for func in nodes:
            if isinstance(func, Function):
                self._default(self._body(func), default)
                for param in func.params:
                    self._default(param, self.result_of(func))
        for node in nodes:
            if isinstance(node, Let) and self._root(node) in self._device:
                self._default(node.value, self.of(node))
        for node in nodes:
            self._default(node, default)

    def _default(self, expr: Any, device: VirtualDevice) -> None:
        root = self._root(expr)
        self._device[root] = self._device.get(root, ANYWHERE).filled(device)

    def _has_place(self, node: Any) -> bool:
        is_elsewhere = isinstance(node, GlobalVar) and node not in self._functions
        return not isinstance(node, (Op, Constructor, Constant)) and not is_elsewhere

    # ---- the program anew

    def target(self, node: Any, number: int) -> VirtualDevice:
        """The device that an operand is to be on."""
        func = self._called(node.op) if isinstance(node, Call) and number else None
        return self.of(func.params[number - 1] if func is not None else node)

    def rewritten(self) -> dict[GlobalVar, Any]:
        """The functions with copies between devices, and with the devices of their parameters and results."""
        made: dict[int, Any] = {}
        for key, node in self._nodes.items():
            made[key] = self._made(node, made)
        return {var: made[id(func)] for var, func in self._functions.items()}

    def _made(self, node: Any, made: dict[int, Any]) -> Any:
        if is_call(node, _ON):
            body = node.args[0]
            return self._moved(made[id(body)], body, self.of(node))
        moved = {
            number: self._moved(made[id(child)], child, self.target(node, number))
            for number, child in enumerate(operands(node))
            if (id(node), number) in self._copies
        }
        by_child = {id(operands(node)[number]): value for number, value in moved.items()}

        def new(child: Any) -> Any:
            if isinstance(child, (Clause, Pattern)):
                return map_children(child, new)
            return by_child.get(id(child), made.get(id(child), child))

        if isinstance(node, Call):  # arguments one by one: parameters may be on several devices
            args = (moved.get(number, made[id(arg)]) for number, arg in enumerate(node.args, 1))
            found = _with_parts(node, made.get(id(node.op), node.op), tuple(args))
        else:
            found = map_children(node, new)
        found = found if found is node else without_type(found)
        if id(node) in self._results:
            func = self._called(node.op)
            return self._moved(found, node if func is None else self._body(func), self.of(node))
        if not isinstance(node, Function):
            return found
        places = [device_attribute(self.of(param)) for param in node.params]
        result = device_attribute(self.result_of(node))
        return found.with_attr({PARAM_DEVICES: tuple(places), RESULT_DEVICE: result})

    def _moved(self, value: Any, old: Any, target: VirtualDevice) -> Any:
        """The value of `old` on a device."""
        if isinstance(value, Constant) or target.place == (source := self.of(old)).place:
            return value
        if not _is_copied(ty := getattr(old, "ty", TupleType(()))):
            raise IRTypeError(
                Q0507,
                f"a value of type {type_text(ty)} would be copied from {source} to {target}",
                span=getattr(old, "span", None),
                help="annotate the tensors before they are put into it",
            )
        ends = {
            "src_virtual_device": device_attribute(source),
            "dst_virtual_device": device_attribute(target),
        }
        return call(_COPY, value, **ends)


def _with_parts(node: Any, op: Any, args: tuple[Any, ...]) -> Any:
    same = op is node.op and all(a is b for a, b in zip(args, node.args, strict=True))
    return node if same else replace(node, op=op, args=args)


def _is_copied(ty: Any) -> bool:
    """Whether values of a type are tensors and tuples of them."""
    return isinstance(ty, TensorType) or (isinstance(ty, TupleType) and all(map(_is_copied, ty.fields)))


def _conflict(expr: Any, one: VirtualDevice, other: VirtualDevice) -> IRTypeError:
    return IRTypeError(
        Q0506,
        f"a value is on two devices: {one} and {other}",
        span=getattr(expr, "span", None),
        help="annotate another use of it, or copy it with device_copy",
    )


def _bound(patterns: Iterable[Any]) -> list[Var]:
    """The variables of patterns."""
    found: list[Var] = []
    todo = list(patterns)
    while todo:
        pattern = todo.pop()
        found += [pattern.var] if hasattr(pattern, "var") else []
        todo += getattr(pattern, "patterns", ())
    return found
