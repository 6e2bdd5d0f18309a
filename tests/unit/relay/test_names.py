"""Relay's names: what resolves, with which parameters, and what is known to be missing."""

from __future__ import annotations

import ast
import inspect
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import heddle
from heddle.relay.op import RelayWord, find, lookup
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


def _parts() -> Iterator[tuple[str, list[tuple[str, Any]] | None]]:
    """Each name of Python's with parameters and defaults; `...` where there is no default."""
    for line in PYTHON:
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


PARTS = dict(_parts())


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


WORDS = [name for name in PARTS if _is_there(name) and isinstance(resolve(name), RelayWord)]


@pytest.mark.parametrize("name", WORDS)
def test_functions_take_these_parameters(name: str) -> None:
    """In this order and with these defaults; more optional ones may follow."""
    wanted, found = PARTS[name], list(inspect.signature(resolve(name)).parameters.values())
    assert wanted is not None
    assert [spec.name for spec in found[: len(wanted)]] == [parameter for parameter, _ in wanted]
    for spec, (parameter, default) in zip(found, wanted, strict=False):
        assert default is ... or _plain(spec.default) == _plain(default), parameter
    assert all(spec.default is not spec.empty for spec in found[len(wanted) :])


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
