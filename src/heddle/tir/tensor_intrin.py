"""Tensor intrinsics: a hardware operation, described by loops, and the code that invokes it.

    TensorIntrin.register("dot_4", dot_desc, dot_impl)

`desc` and `impl` are loop functions with the same parameters. The description is one loop nest with one
block. The root block of the implementation states which regions it reads and writes. A schedule replaces a
block that computes what the description computes by the implementation.
"""

from __future__ import annotations

from heddle.support.diagnostics import UsageError, did_you_mean
from heddle.support.frozen import frozen
from heddle.tir.codes import T0423
from heddle.tir.nodes import PrimFunc, SBlockRealize


@frozen
class TensorIntrin:
    """A description and an implementation. Raises: UsageError T0423 if they do not match."""

    desc: PrimFunc
    impl: PrimFunc

    def __post_init__(self) -> None:
        for func in (self.desc, self.impl):
            if not isinstance(func.body, SBlockRealize):
                raise UsageError(T0423, "expected functions with a root block")
        ours, theirs = self.desc.buffers, self.impl.buffers
        if len(ours) != len(theirs):
            raise UsageError(
                T0423, f"the description has {len(ours)} buffers, the implementation {len(theirs)}"
            )
        for a, b in zip(ours, theirs, strict=True):
            if a.dtype != b.dtype or a.ndim != b.ndim:
                raise UsageError(
                    T0423,
                    f"buffer {a.name!r} of the description is {a.dtype} of rank {a.ndim}, "
                    f"{b.name!r} of the implementation {b.dtype} of rank {b.ndim}",
                )

    @staticmethod
    def register(name: str, desc: PrimFunc, impl: PrimFunc, override: bool = False) -> TensorIntrin:
        """Register an intrinsic under a name. Raises: UsageError T0423 if the name is taken (unless
        `override`)."""
        if name in _INTRINSICS and not override:
            raise UsageError(T0423, f"intrinsic {name!r} is registered already")
        _INTRINSICS[name] = TensorIntrin(desc, impl)
        return _INTRINSICS[name]

    @staticmethod
    def get(name: str, allow_missing: bool = False) -> TensorIntrin | None:
        """Return the intrinsic with a name. If there is none and `allow_missing` is True, return None.
        Raises: UsageError T0423 for an unknown name otherwise."""
        if name not in _INTRINSICS and not allow_missing:
            raise UsageError(
                T0423, f"no intrinsic is called {name!r}", help=did_you_mean(name, list(_INTRINSICS))
            )
        return _INTRINSICS.get(name)


_INTRINSICS: dict[str, TensorIntrin] = {}
