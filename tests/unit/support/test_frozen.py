"""Frozen classes are what `dataclasses` makes of the same declarations."""

from __future__ import annotations

import copy
import dataclasses
import inspect
import pickle
from typing import Any, get_type_hints

import pytest

from heddle.support.frozen import frozen


def declared(decorate: Any) -> type[Any]:
    class Base:
        """Below."""

        first: int
        second: str = "b"

    base = decorate()(Base)

    class Made(base):
        """With all kinds of fields."""

        items: list[int] = dataclasses.field(default_factory=list)
        hidden: int = dataclasses.field(default=3, repr=False, compare=False)
        derived: int = dataclasses.field(init=False)
        fixed: tuple[int, ...] = dataclasses.field(init=False, default=(1,))
        named: str = dataclasses.field(default="n", kw_only=True)

        def __post_init__(self) -> None:
            object.__setattr__(self, "derived", self.first * 2)

    return decorate()(Made)


OURS = declared(lambda: frozen)
THEIRS = declared(lambda: dataclasses.dataclass(frozen=True, slots=True))
GIVEN = [((1,), {}), ((1, "x", [2], 5), {"named": "m"}), ((), {"first": 4, "hidden": 9})]


@pytest.mark.parametrize(("args", "named"), GIVEN)
def test_instances_are_the_same(args: Any, named: Any) -> None:
    ours, theirs = OURS(*args, **named), THEIRS(*args, **named)
    assert repr(ours) == repr(theirs)
    assert dataclasses.asdict(ours) == dataclasses.asdict(theirs)
    assert ours == OURS(*args, **named) != OURS(7)
    assert ours != theirs
    assert dataclasses.replace(ours, first=8).derived == 16
    assert copy.copy(ours) == copy.deepcopy(ours) == ours


def test_signatures_and_slots_are_the_same() -> None:
    ours, theirs = inspect.signature(OURS), inspect.signature(THEIRS)
    assert [(p.name, p.kind) for p in ours.parameters.values()] == [
        (p.name, p.kind) for p in theirs.parameters.values()
    ]
    assert get_type_hints(OURS.__init__) | {"return": type(None)} == get_type_hints(THEIRS.__init__)
    assert OURS.__slots__ == THEIRS.__slots__
    assert OURS.__match_args__ == THEIRS.__match_args__
    assert not hasattr(OURS(1), "__dict__")


def test_fields_are_kept() -> None:
    made = OURS(1)
    with pytest.raises(dataclasses.FrozenInstanceError, match="cannot assign to field 'first'"):
        made.first = 2
    with pytest.raises(dataclasses.FrozenInstanceError, match="cannot delete field 'first'"):
        del made.first
    with pytest.raises(dataclasses.FrozenInstanceError):
        made.other = 2


def test_lists_of_defaults_are_not_shared() -> None:
    assert OURS(1).items is not OURS(1).items


@frozen
class Pair:
    left: Any
    right: Any = None


def test_hashes_equality_and_pickles() -> None:
    assert hash(Pair(1, 2)) == hash(Pair(1, 2))
    assert {Pair(1): 2}[Pair(1)] == 2
    assert Pair(1) != (1, None)
    with pytest.raises(TypeError, match="unhashable"):
        hash(Pair([]))
    assert pickle.loads(pickle.dumps(Pair(1, (2,)))) == Pair(1, (2,))
    cycle: list[Any] = []
    cycle.append(Pair(cycle))
    assert repr(cycle) == "[Pair(left=[...], right=None)]"


def test_options_and_own_methods_win() -> None:
    @frozen(eq=False, repr=False)
    class ByIdentity:
        value: int

    assert ByIdentity(1) != ByIdentity(1)
    assert hash(ByIdentity(1)) is not None
    assert "value" not in repr(ByIdentity(1))

    @frozen
    class Own:
        value: int

        def __eq__(self, other: object) -> bool:
            return True

        def __hash__(self) -> int:
            return 5

        def __repr__(self) -> str:
            return "own"

    assert (Own(1) == 3, hash(Own(1)), repr(Own(1))) == (True, 5, "own")

    @frozen(slots=False, kw_only=True)
    class Loose:
        value: int

    assert Loose(value=1).__dict__ == {"value": 1}
    with pytest.raises(TypeError):
        Loose(1)  # type: ignore[misc]


def test_defaults_come_last() -> None:
    with pytest.raises(TypeError, match="value"):

        @frozen
        class Wrong:
            first: int = 0
            value: int
