"""The table of recipes: a function that adds nodes to a builder, and how often it is taken."""

from __future__ import annotations

from collections.abc import Callable

from tests.fuzz.graphs.builder import Builder

Recipe = Callable[[Builder], object]
RECIPES: dict[str, tuple[Recipe, float, bool]] = {}


def recipe(weight: float = 1.0, special: bool = False) -> Callable[[Recipe], Recipe]:
    """Register the function. `special`: its nodes have stated results for NaN and infinities."""

    def register(function: Recipe) -> Recipe:
        assert function.__name__ not in RECIPES
        RECIPES[function.__name__] = (function, weight, special)
        return function

    return register
