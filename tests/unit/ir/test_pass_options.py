"""Every option of every pass is checked when the pass is made: its type, and what its declaration bounds."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from dataclasses import dataclass, fields
from typing import Any, get_type_hints

import numpy as np
import pytest

from heddle.driver.passes import pass_classes
from heddle.ir.module import IRModule
from heddle.ir.pass_options import _METADATA, fits, option
from heddle.ir.transform import Pass, PassContext
from heddle.lower.legalize_ops import LegalizeOps
from heddle.relax.transform.convert_to_dataflow import ConvertToDataflow
from heddle.relax.transform.dead_code_elimination import DeadCodeElimination
from heddle.relax.transform.fold_constant import FoldConstant
from heddle.relax.transform.lift_transform_params import LiftTransformParams
from heddle.support.diagnostics import HeddleError, UsageError
from heddle.tir.transform.bf16_legalize import BF16Legalize
from heddle.tir.transform.flatten_buffer import FlattenBuffer
from heddle.tir.transform.simplify import Simplify
from heddle.tir.transform.unroll_loop import UnrollLoop

PASSES = [cls for cls in pass_classes().values() if inspect.signature(cls).parameters]
NOT_LOOKED_AT = {("CombineParallelMatmul", "check")}
"""Options whose type says nothing: functions."""


class Nonsense:
    """A value that fits no option."""


def required(cls: type[Pass]) -> dict[str, Any]:
    """A value for each option without a default, of its type but without a meaning."""
    hints = get_type_hints(cls)
    params = inspect.signature(cls).parameters
    return {name: hints[name] for name, p in params.items() if p.default is inspect.Parameter.empty}


def options() -> Iterator[tuple[type[Pass], str]]:
    for cls in PASSES:
        for item in fields(cls):  # type: ignore[arg-type]
            if (cls.__name__, item.name) not in NOT_LOOKED_AT:
                yield cls, item.name


@pytest.mark.parametrize(("cls", "name"), list(options()))
def test_no_option_takes_nonsense(cls: type[Pass], name: str) -> None:
    hints = get_type_hints(cls)
    assert name in hints and not fits(Nonsense(), hints[name])
    given = {key: object.__new__(_plain(hint)) for key, hint in required(cls).items() if key != name}
    with pytest.raises(UsageError) as caught:
        cls(**given, **{name: Nonsense()})
    assert caught.value.code == "I0508"


def _plain(hint: Any) -> type:
    return hint if isinstance(hint, type) and hint not in (int, str) else object


@pytest.mark.parametrize(
    ("cls", "name"),
    [(cls, name) for cls, name in options() if get_type_hints(cls)[name] in (int, str, "tuple[str, ...]")],
)
def test_numbers_and_names_are_bounded(cls: type[Pass], name: str) -> None:
    """An option that is a number or one of a few names says which: those that may be any are listed here."""
    free = {"func_name", "param_tuple_name", "legalize_map_attr_name", "compiler_filter", "mod_name"}
    free |= {"target_weight_name"}
    (item,) = [item for item in fields(cls) if item.name == name]  # type: ignore[arg-type]
    assert _METADATA in item.metadata or name in free


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: BF16Legalize(dtypes=["foo"]), ["dtypes", "'foo'", "bfloat16"]),
        (lambda: BF16Legalize(dtypes="bfloat16"), ["dtypes", "tuple[str, ...]"]),
        (lambda: LegalizeOps(dispatch="cublas"), ["dispatch", "'cublas'", "'sampling'", "'sort_scan'"]),
        (lambda: ConvertToDataflow(min_size=-1), ["min_size", "at least 1", "-1"]),
        (lambda: ConvertToDataflow(min_size=0), ["min_size", "at least 1"]),
        (lambda: ConvertToDataflow(min_size=True), ["min_size", "int"]),
        (lambda: ConvertToDataflow(min_size=2.0), ["min_size", "int"]),
        (lambda: UnrollLoop(-1), ["auto_max_step", "at least 0"]),
        (lambda: FoldConstant(frozenset({"dequantise"})), ["keep", "'dequantise'", "dequantize"]),
        (lambda: DeadCodeElimination("main"), ["entry_functions", "'main'"]),
    ],
)
def test_messages_name_option_and_values(make: Any, words: list[str]) -> None:
    with pytest.raises(UsageError) as caught:
        make()
    assert caught.value.code == "I0508"
    shown = str(caught.value)
    assert all(word in shown for word in words), shown


def test_what_fits_is_kept() -> None:
    assert BF16Legalize(["float16"]) == BF16Legalize(("float16",))
    assert hash(BF16Legalize(["float16"])) == hash(BF16Legalize(("float16",)))
    assert ConvertToDataflow(np.int64(3)).min_size == 3
    assert FoldConstant({"add"}).keep == frozenset({"add"})


@pytest.mark.parametrize("step", [DeadCodeElimination(["nobody"]), LiftTransformParams(["nobody"])])
def test_functions_that_a_module_lacks_are_refused(step: Pass) -> None:
    with pytest.raises(HeddleError, match="nobody"):
        step(IRModule({}))


def test_a_users_pass_is_checked_too() -> None:
    @dataclass(frozen=True)
    class Mine(Pass):
        count: int = option(1, at_least=0)

        def transform(self, mod: IRModule, ctx: PassContext) -> IRModule:
            return mod

    assert Mine(0).count == 0
    for value in (-1, "2"):
        with pytest.raises(UsageError, match="I0508"):
            Mine(value)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("value", "hint", "expected"),
    [
        (("a", 1), tuple[str, int], True),
        (["a", 1], tuple[str, int], True),
        (("a", "b"), tuple[str, int], False),
        (("a",), tuple[str, int], False),
        (("a", 1, 1), tuple[str, int], False),
        ("ab", tuple[str, str], False),
        (("a", "b", "c"), tuple[str, ...], True),
        (("a", 1), tuple[str, ...], False),
    ],
)
def test_tuples_fit_by_place(value: Any, hint: Any, expected: bool) -> None:
    assert fits(value, hint) is expected


def test_passes_without_options_are_equal_where_their_class_is():
    class Mine(Pass):
        def __init__(self, size):
            self.size = size

        def transform(self, mod, ctx):
            return mod

    assert Simplify() == Simplify() and hash(Simplify()) == hash(Simplify())
    assert Simplify() != FlattenBuffer() and repr(Simplify()) == "Simplify()"
    assert Mine(1) == Mine(1) != Mine(2) and hash(Mine(1)) == hash(Mine(1))
