"""Relay's names: what resolves, with which parameters, and what is known to be missing."""

from __future__ import annotations

import ast
import inspect
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest

import heddle
from heddle.relay.op import find, lookup
from heddle.support.diagnostics import HeddleError

LINES = Path(__file__).with_name("names.txt").read_text().splitlines()[1:]
MISSING = dict(
    line.split(maxsplit=1) for line in Path(__file__).with_name("missing_names.txt").read_text().splitlines()
)
"""Why a name is not there: one line each."""
OPERATORS = {line.split()[1]: line.split()[2:] for line in LINES if line.startswith("op ")}
PYTHON = [line for line in LINES if not line.startswith("op ")]


def resolve(name: str) -> Any:
    found: Any = heddle
    for part in name.split("."):
        found = getattr(found, part)
    return found


def _literal(value: ast.expr) -> Any:
    """A default; `...` for one that is no literal."""
    try:
        return ast.literal_eval(value)
    except ValueError:
        return ...


def _parts(lines: Iterable[str]) -> Iterator[tuple[str, list[tuple[str, Any]] | None]]:
    """Each name of Python's with parameters and defaults; `...` where there is no default."""
    for line in lines:
        name, bracket, _ = line.partition("(")
        if not bracket:
            yield name, None
            continue
        parsed = ast.parse(f"def f{line[len(name) :]}: pass").body[0]
        assert isinstance(parsed, ast.FunctionDef)
        names = [arg.arg for arg in parsed.args.args]
        values: list[Any] = [_literal(value) for value in parsed.args.defaults]
        defaults = [...] * (len(names) - len(values)) + values
        yield name, list(zip(names, defaults, strict=True))


PARTS = dict(_parts(PYTHON))


def test_names_resolve() -> None:
    """At least 97 of a hundred; a name that is missing is listed with the reason, and no other is."""
    missing = {name for name in PARTS if not _is_there(name)}
    missing |= {f"op:{name}" for name in OPERATORS if find(name) is None}
    assert missing == MISSING.keys()


def _is_there(name: str) -> bool:
    try:
        resolve(name)
    except AttributeError:
        return False
    return True


LEAVES = "leaves of the visitors share one method, which is called with the node alone"
OTHER_PARAMETERS = {
    "relay.quantize.QConfig.__init__": "settings by name, where TVM has the address of an object",
    **{
        f"relay.{visitor}.visit_{leaf}": LEAVES
        for visitor in ("ExprVisitor", "ExprMutator")
        for leaf in ("constant", "constructor", "global_id", "global_var", "op", "var")
        if (visitor, leaf) != ("ExprVisitor", "global_id")
    },
}
"""Callables with parameters of their own, and why."""
TYPES = (
    "relay.TensorType(shape, dtype='float32')",
    "relay.TupleType(fields)",
    "relay.FuncType(arg_types, ret_type, type_params=None, type_constraints=None)",
    "relay.RefType(value)",
    "relay.IncompleteType(kind=0)",
    "relay.TypeVar(name_hint, kind=0)",
    "relay.GlobalTypeVar(name_hint, kind=5)",
    "relay.TypeCall(func, args)",
    "relay.TypeRelation(func, args, num_inputs, attrs)",
    "relay.TypeData(header, type_vars, constructors)",
    "relay.Constructor(name_hint, inputs, belong_to)",
    "relay.GlobalVar(name_hint)",
)
CALLED = {name: wanted for name, wanted in _parts(PYTHON) if wanted is not None and _is_there(name)}
CALLED |= {name: wanted for name, wanted in _parts(TYPES) if wanted is not None}


@pytest.mark.parametrize("name", [name for name in CALLED if name not in OTHER_PARAMETERS])
def test_callables_take_these_parameters(name: str) -> None:
    """In this order, under these names and with these defaults; more optional ones may follow."""
    wanted, found = CALLED[name], resolve(name.removesuffix(".__init__"))
    if not callable(found):
        assert [parameter for parameter, _ in wanted] == ["self"] and inspect.isdatadescriptor(found)
        return
    given = list(inspect.signature(found).parameters.values())
    if wanted[:1] == [("self", ...)]:
        wanted = wanted[1:]
        given = given if isinstance(found, type) or inspect.ismethod(found) else given[1:]
    assert len(given) >= len(wanted)
    for spec, (parameter, default) in zip(given, wanted, strict=False):
        assert parameter in (spec.name, "_") and spec.kind is spec.POSITIONAL_OR_KEYWORD
        assert default is ... or _plain(spec.default) == _plain(default), parameter
    variadic = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    further = [spec for spec in given[len(wanted) :] if spec.kind not in variadic]
    assert all(spec.default is not spec.empty for spec in further)


def test_what_has_other_parameters_is_there() -> None:
    assert OTHER_PARAMETERS.keys() <= CALLED.keys()


def test_nodes_take_the_words_of_tvm() -> None:
    """Spans in place, `None` for what may be left out; classes answer for the nodes they make."""
    relay = heddle.relay
    x = relay.var("x", shape=(2,))
    span = relay.parse_expr("free_var %y: float32; %y").span
    call = relay.Call(op=relay.exp(x).op, args=[x], attrs=None, type_args=[x.ty], span=span)
    assert call.type_args == (x.ty,) and call.span is span and len(call.attrs) == 0
    made = [
        relay.Let(variable=x, value=call, body=x, span=span),
        relay.Let(x, call, x, span),
        relay.If(cond=x, true_branch=x, false_branch=x, span=span),
        relay.If(x, x, x, span),
        relay.Tuple([x, x], span),
        relay.TupleGetItem(tuple_value=x, index=1, span=span),
        relay.Constant(relay.const(1).data, span),
        relay.RefCreate(x, span),
        relay.RefRead(x, span),
        relay.RefWrite(x, x, span),
        relay.Function([x], x, None, None, None, span),
    ]
    assert all(node.span is span and getattr(node, "ty", None) is None for node in made)
    assert made[0].var is x and isinstance(made[0], relay.Let) and not isinstance(x, relay.Let)
    assert {relay.Let: "let", relay.If: "if"}[type(made[2])] == "if"
    assert relay.PatternTuple().patterns == relay.PatternTuple(patterns=None).patterns == ()
    with pytest.raises(TypeError, match=r"If\(cond, true_branch, false_branch, span=None\): missing"):
        relay.If(x, x)


def test_type_variables_of_data_types_need_the_module() -> None:
    relay = heddle.relay
    mod = relay.prelude.Prelude().mod
    _, cons, _ = mod.get_type("List")
    (own,) = mod.type_definitions[cons.belong_to].type_vars
    analysis = relay.analysis
    assert analysis.all_type_vars(cons) == () and analysis.all_type_vars(cons, mod=mod) == (own,)
    assert analysis.bound_type_vars(cons, mod) == (own,) and analysis.free_type_vars(expr=cons, mod=mod) == ()


def _plain(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value


OTHERWISE = {"collapse_sum_to", "qnn.simulated_dequantize", "qnn.simulated_quantize", "take"}
"""Operators whose registration in TVM counts other inputs than their calls have, or none."""


@pytest.mark.parametrize("name", [name for name in OPERATORS if find(name) and name not in OTHERWISE])
def test_operators_take_as_many_inputs(name: str) -> None:
    record, alias = lookup(name)
    count = int(OPERATORS[name][0])
    inputs = alias.inputs_of(record)
    least = sum(not spec.optional for spec in inputs)
    assert least <= count <= len(inputs) or count < 0


@pytest.mark.parametrize("args", [(), (1, 2, 3, 4), (1, 2)])
def test_wrong_numbers_of_arguments_are_refused(args: tuple[int, ...]) -> None:
    with pytest.raises(HeddleError, match="R0201"):
        heddle.relay.clip(*args)


def test_classes_answer_for_the_nodes_that_they_make() -> None:
    """Attributes of nodes stand on the classes that build them; a tuple has no element type to change."""
    relay = heddle.relay
    x = relay.Var("x", relay.TensorType((2,)))
    assert relay.Var.name_hint is not None and x.name_hint == "x" and isinstance(x, relay.ExprWithOp)
    pair = relay.TupleWrapper(relay.Tuple([x, x]), 2)
    with pytest.raises(HeddleError, match=r"Q0102.*astype of a tuple"):
        pair.astype("float16")


def test_functions_of_the_machine() -> None:
    relay = heddle.relay
    x, shape = relay.var("x", shape=(2, 3)), relay.var("s", shape=(1,), dtype="int64")
    assert relay.vm.shape_of(x).op.name == "vm.shape_of"
    assert relay.vm.reshape_tensor(x, shape, (6,)).attrs.newshape == (6,)


def test_definitions_of_tensor_arrays_come_together() -> None:
    prelude = heddle.relay.prelude.Prelude()
    ops = heddle.relay.prelude.TensorArrayOps(prelude, "int16")
    ops.define_tensor_array_stack()
    assert "tensor_array_concat_int16" in {var.name_hint for var in prelude.mod.functions}
