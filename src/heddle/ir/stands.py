"""Public classes that stand for node classes: they differ in what they are called with alone.

    class Let(Takes, node=nodes.Let, takes="variable=var value body"):
        ...

`Let(variable=x, value=v, body=b)` is then a `nodes.Let`, `isinstance(node, Let)` tells whether a node is one,
`Let == type(node)` holds, and further names on the class are those of the node class.
"""

from __future__ import annotations

from inspect import Parameter, Signature
from typing import Any, ClassVar


class Stands(type):
    """A class whose instances are those of the node class `stands_for`."""

    stands_for: type = object

    def __instancecheck__(cls, instance: object) -> bool:
        return isinstance(instance, cls.stands_for)

    def __getattr__(cls, name: str) -> Any:
        return getattr(cls.stands_for, name)

    def __eq__(cls, other: object) -> bool:
        return other is cls or other is cls.stands_for

    def __hash__(cls) -> int:
        return hash(cls.stands_for)


def words_taken(takes: str) -> tuple[Signature, dict[str, str]]:
    """The signature of what takes these words, and by public names those of the node's fields.

    `public=own` is for a field that has another name in the node, `?` behind the public name for one that may
    be left out or None.
    """
    fields, parameters = {}, []
    for word in takes.split():
        public, _, own = word.partition("=")
        kept = public.removesuffix("?")
        fields[kept] = own or kept
        default = Parameter.empty if kept == public else None
        parameters.append(Parameter(kept, Parameter.POSITIONAL_OR_KEYWORD, default=default))
    return Signature(parameters), fields


def words_given(name: str, signature: Signature, args: Any, kwargs: Any) -> dict[str, Any]:
    """What is given for words; None for one that may be left out is left out.

    Raises: TypeError for other arguments than the signature takes, as a function would.
    """
    try:
        given = signature.bind(*args, **kwargs).arguments
    except TypeError as error:
        raise TypeError(f"{name}{signature}: {error}") from None
    optional = {key for key, spec in signature.parameters.items() if spec.default is None}
    return {key: value for key, value in given.items() if value is not None or key not in optional}


class Takes(metaclass=Stands):
    """A class that takes the words of `takes` (see `words_taken`), then a span. Fields in `fixed` have these
    values."""

    _fields: ClassVar[dict[str, str]]
    _fixed: ClassVar[dict[str, Any]]
    __signature__: ClassVar[Signature]

    def __init_subclass__(cls, *, node: type, takes: str, **fixed: Any) -> None:
        cls.stands_for, cls._fixed = node, fixed
        cls.__signature__, cls._fields = words_taken(f"{takes} span?")

    def __new__(cls, *args: Any, **kwargs: Any) -> Any:
        """The node. Raises: TypeError for other arguments than the class takes, as a function would."""
        given = words_given(cls.__name__, cls.__signature__, args, kwargs)
        return cls.stands_for(**{cls._fields[key]: value for key, value in given.items()}, **cls._fixed)
