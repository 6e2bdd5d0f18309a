"""On which device each value of a program is."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

from heddle.ir.expr import Call, Constant, Function, GlobalVar, Var, is_relay
from heddle.ir.module import IRModule
from heddle.ir.node import map_children, replace
from heddle.ir.op import Op
from heddle.ir.transform import Pass, PassContext
from heddle.ir.type_data import Constructor
from heddle.relay.builders import without_type
from heddle.relay.codes import Q0506
from heddle.relay.nodes import Clause, Let, Match, Pattern
from heddle.relay.op import PARAM_DEVICES, RESULT_DEVICE
from heddle.relay.placement import operands, post_order
from heddle.relay.transform.rewriting import call, is_call
from heddle.relay.typed import infer_module
from heddle.runtime.device import Device
from heddle.support.diagnostics import IRTypeError
from heddle.support.frozen import frozen

_ON, _COPY = "on_device", "device_copy"
_HOST = "cpu(0)"
_SHAPES = ("shape_of", "vm.shape_of")
Edge = tuple[int, int]
"""An expression, by identity, and the number of its operand."""


@frozen(slots=False)
class PlanDevices(Pass):
    """Put every value on a device, by the annotations of the program, and insert copies between devices.
    `config` is the device of what nothing is said about.

        add(on_device(tanh(%x), virtual_device="cuda(0)"), %y)

    becomes, with `"cpu"`,

        def @main(%x, %y, param_virtual_devices=["cuda(0)", "cpu(0)"], result_virtual_device="cpu(0)") {
          add(device_copy(tanh(%x), src_virtual_device="cuda(0)", dst_virtual_device="cpu(0)"), %y)
        }

    Operands and results of operators, fields of tuples, branches and matches with what they give are on one
    device; arguments are where the parameters of the functions are; shapes are on the host. A function's
    result that nothing is said about is on the default device, its parameters where its result is, and the
    value of a let where the let's is. A program without annotations stays.

    Raises: IRTypeError Q0506 for a value that is annotated for two devices.
    """

    config: str | Device
    opt_level = 0

    def transform(self, mod: IRModule, ctx: PassContext) -> IRModule:
        functions = {var: func for var, func in mod.functions.items() if is_relay(func)}
        if not any(map(_is_annotated, functions.values())):
            return mod
        mod = infer_module(mod)
        plan = _Plan({var: mod.functions[var] for var in mod.functions if var in functions})
        plan.constrain()
        plan.fill_in(device_text(self.config))
        return infer_module(mod.with_functions({**mod.functions, **plan.rewritten()}))


def device_text(device: Any) -> str:
    """The text of a device, the same for `cpu`, `cpu:0` and `cpu(0)`."""
    found = re.fullmatch(r"(\w+)(?:[:(](\d+)\)?)?", str(device))
    return f"{found[1]}({int(found[2] or 0)})" if found else str(device)


def _is_annotated(func: Function) -> bool:
    has_attrs = PARAM_DEVICES in func.attrs or RESULT_DEVICE in func.attrs
    return has_attrs or any(is_call(node, _ON, _COPY) for node in post_order(func))


class _Plan:
    """Sets of values on one device, by union; `_device` has those of sets that are known."""

    def __init__(self, functions: dict[GlobalVar, Any]) -> None:
        self._functions = functions
        self._nodes = {id(node): node for func in functions.values() for node in post_order(func)}
        self._values = {node.var: node.value for node in self._nodes.values() if isinstance(node, Let)}
        self._above: dict[int, int] = {}
        self._device: dict[int, str] = {}
        self._kept: list[Any] = []
        self._copies: set[Edge] = set()
        """Operands that are on another device than what uses them."""
        self._results: set[int] = set()
        """Calls whose value is on another device than the function's result."""

    # ---- sets

    def _key(self, expr: Any) -> int:
        if isinstance(expr, GlobalVar):  # one for each name
            expr = self._functions.get(expr, expr)
        self._kept.append(expr)
        return id(expr)

    def _root(self, key: int) -> int:
        while (above := self._above.get(key)) is not None:
            self._above[key] = self._above.get(above, above)  # ways become shorter as they are gone
            key = above
        return key

    def _join(self, a: Any, b: Any) -> bool:
        """Put two values on one device; False where they are on different ones."""
        one, other = self._root(self._key(a)), self._root(self._key(b))
        if one == other:
            return True
        known = self._device.get(one), self._device.get(other)
        if None not in known and known[0] != known[1]:
            return False
        self._above[one] = other
        if known[0] is not None:
            self._device[other] = known[0]
        return True

    def _fix(self, expr: Any, device: Any) -> None:
        text = device_text(device)
        if self._device.setdefault(self._root(self._key(expr)), text) != text:
            raise _conflict(expr, self._on(expr), text)

    def _same(self, a: Any, b: Any) -> None:
        if not self._join(a, b):
            raise _conflict(a, self._on(a), self._on(b))

    def _on(self, expr: Any) -> str:
        return self._device[self._root(self._key(expr))]

    # ---- constraints

    def constrain(self) -> None:
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
                    self._fix(node.body, node.attrs[RESULT_DEVICE])
            elif is_call(node, *_SHAPES):
                self._fix(node, _HOST)
        for node in self._nodes.values():
            self._relate(node)

    def _relate(self, node: Any) -> None:
        if is_call(node, _ON, _COPY, *_SHAPES):
            return
        if isinstance(node, Let):
            self._same(node.var, node.value)
            self._edges(node, [1])
        elif isinstance(node, Call) and not isinstance(node.op, (Op, Constructor)):
            func = self._called(node.op)
            if func is None:
                self._edges(node, range(len(node.args) + 1))
                return
            for number, param in enumerate(func.params, 1):
                self._edge(node, number, param)
            if not self._join(func.body, node):
                self._results.add(id(node))
        elif not isinstance(node, (Function, Op, Constructor, GlobalVar)):
            self._edges(node, range(len(operands(node))))
        if isinstance(node, Match):
            for each in _bound([clause.lhs for clause in node.clauses]):
                self._same(each, node.data)
        for child in operands(node):  # a function as a value: all of it is where the value is
            func = self._called(child)
            if (
                func is not None
                and not (isinstance(node, Call) and child is node.op)
                and not isinstance(node, Let)
            ):
                for part in (*func.params, func.body):
                    self._same(part, child)

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

    def fill_in(self, default: str) -> None:
        """Devices for the sets that have none."""
        nodes = [node for node in reversed(self._nodes.values()) if self._has_place(node)]
        for func in nodes:
            if isinstance(func, Function):
                self._default(func.body, default)
                for param in func.params:
                    self._default(param, self._on(func.body))
        for node in nodes:
            if isinstance(node, Let) and self._root(id(node)) in self._device:
                self._default(node.value, self._on(node))
        for node in nodes:
            self._default(node, default)

    def _default(self, expr: Any, device: str) -> None:
        self._device.setdefault(self._root(self._key(expr)), device)

    def _has_place(self, node: Any) -> bool:
        is_elsewhere = isinstance(node, GlobalVar) and node not in self._functions
        return not isinstance(node, (Op, Constructor)) and not is_elsewhere

    # ---- the program anew

    def _target(self, node: Any, number: int) -> Any:
        """What an operand is to be on the device of."""
        func = self._called(node.op) if isinstance(node, Call) and number else None
        return func.params[number - 1] if func is not None else node

    def rewritten(self) -> dict[GlobalVar, Any]:
        made: dict[int, Any] = {}
        for key, node in self._nodes.items():
            made[key] = self._made(node, made)
        return {var: made[id(func)] for var, func in self._functions.items()}

    def _made(self, node: Any, made: dict[int, Any]) -> Any:
        if is_call(node, _ON):
            body = node.args[0]
            return _moved(made[id(body)], self._on(body), self._on(node))
        moved = {
            number: _moved(made[id(child)], self._on(child), self._on(self._target(node, number)))
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
            return _moved(found, self._on(func.body if func is not None else node), self._on(node))
        if not isinstance(node, Function):
            return found
        places = tuple(map(self._on, node.params))
        return found.with_attr({PARAM_DEVICES: places, RESULT_DEVICE: self._on(node.body)})


def _with_parts(node: Any, op: Any, args: tuple[Any, ...]) -> Any:
    same = op is node.op and all(a is b for a, b in zip(args, node.args, strict=True))
    return node if same else replace(node, op=op, args=args)


def _conflict(expr: Any, one: str, other: str) -> IRTypeError:
    return IRTypeError(
        Q0506,
        f"a value is on two devices: {one} and {other}",
        span=getattr(expr, "span", None),
        help="annotate another use of it, or copy it with device_copy",
    )


def _moved(value: Any, source: str, target: str) -> Any:
    if source == target or isinstance(value, Constant):
        return value  # a constant is wherever it is read
    return call(_COPY, value, src_virtual_device=source, dst_virtual_device=target)


def _bound(patterns: Iterable[Any]) -> list[Var]:
    """The variables of patterns."""
    found: list[Var] = []
    todo = list(patterns)
    while todo:
        pattern = todo.pop()
        found += [pattern.var] if hasattr(pattern, "var") else []
        todo += getattr(pattern, "patterns", ())
    return found
