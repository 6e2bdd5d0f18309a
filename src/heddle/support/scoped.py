"""Objects that hold inside of a `with` block, in this thread or task."""

from __future__ import annotations

from contextvars import ContextVar
from typing import Any, ClassVar, Self


class Scoped:
    """The base class of such a class; blocks lie inside one another.

    class Settings(Scoped): ...

    with Settings() as given:
        assert Settings.innermost() is given
    """

    __slots__ = ()
    _entered: ClassVar[ContextVar[tuple[Any, ...]]]

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        if Scoped in cls.__bases__:
            cls._entered = ContextVar(cls.__name__, default=())

    @classmethod
    def innermost(cls) -> Self | None:
        """What the innermost block is of; None outside of all."""
        entered = cls._entered.get()
        return entered[-1] if entered else None

    def __enter__(self) -> Self:
        self._entered.set((*self._entered.get(), self))
        return self

    def __exit__(self, *error: object) -> None:
        self._entered.set(self._entered.get()[:-1])
