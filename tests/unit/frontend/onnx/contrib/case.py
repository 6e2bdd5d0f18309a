"""One operator beside ONNX's default domain, compiled in both modes, against ONNX Runtime."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import ml_dtypes
import numpy as np
import onnx
import onnxruntime
from onnx import helper, numpy_helper

import heddle
from heddle import relax
from heddle.frontend.onnx import from_onnx

MODES = ("compiled", "bytecode")
MICROSOFT = "com.microsoft"
OPSETS = {"": 21, MICROSOFT: 1, "ai.onnx.ml": 3}
_LOOSE = {"float16": (2e-2, 1e-2), "bfloat16": (1e-1, 5e-2)}
"""Results of few bits against those of float32: a few roundings of 11 and of 8 bits."""


@dataclass(frozen=True)
class Case:
    """`feed` are the inputs in their order, None for one left out; those in `stored` are constants.
    `free` names dimensions that only a call gives, by input. `only` compares a part of each output. `step` is
    by how much integers may differ, where a number lies between two."""

    op: str
    feed: Mapping[str, Any]
    attrs: Mapping[str, Any] = field(default_factory=dict)
    outputs: Sequence[str] = ("y",)
    stored: Sequence[str] = ()
    free: Mapping[str, Sequence[Any]] = field(default_factory=dict)
    domain: str = MICROSOFT
    rtol: float = 1e-4
    atol: float = 1e-5
    step: int = 0
    only: Any = None
    opsets: Mapping[str, int] = field(default_factory=lambda: OPSETS)

    def arrays(self) -> dict[str, np.ndarray]:
        return {name: np.asarray(array) for name, array in self.feed.items() if array is not None}

    def model(self) -> onnx.ModelProto:
        arrays = self.arrays()
        names = [name if name in arrays else "" for name in self.feed]
        node = helper.make_node(
            self.op, names, list(self.outputs), name="node", domain=self.domain, **self.attrs
        )
        inputs = [
            helper.make_tensor_value_info(
                name, helper.np_dtype_to_tensor_dtype(array.dtype), self.free.get(name, array.shape)
            )
            for name, array in arrays.items()
            if name not in self.stored
        ]
        results = [onnx.ValueInfoProto(name=name) for name in self.outputs if name]
        constants = [numpy_helper.from_array(arrays[name], name) for name in self.stored]
        graph = helper.make_graph([node], "graph", inputs, results, constants)
        opsets = [helper.make_opsetid(domain, version) for domain, version in self.opsets.items()]
        return helper.make_model(graph, opset_imports=opsets, ir_version=10)

    def given(self) -> dict[str, np.ndarray]:
        return {name: array for name, array in self.arrays().items() if name not in self.stored}

    def as_type(self, dtype: str) -> Case:
        """The same with floats of fewer bits."""
        kind = ml_dtypes.bfloat16 if dtype == "bfloat16" else np.dtype(dtype)

        def cast(array: Any) -> Any:
            return array.astype(kind) if array is not None and array.dtype == np.float32 else array

        rtol, atol = _LOOSE[dtype]
        return replace(
            self, feed={name: cast(array) for name, array in self.feed.items()}, rtol=rtol, atol=atol
        )


def expected(case: Case) -> list[np.ndarray]:
    """ONNX Runtime's results. Floats of few bits are computed in float32, which it has kernels for."""
    wide = {
        name: array.astype(np.float32) if array is not None and array.dtype.name in _LOOSE else array
        for name, array in case.feed.items()
    }
    whole = replace(case, feed=wide)
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    options.intra_op_num_threads = 1
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = onnxruntime.InferenceSession(whole.model().SerializeToString(), options)
    return session.run(None, whole.given())  # type: ignore[no-any-return]


def machines(case: Case) -> list[relax.VirtualMachine]:
    module = from_onnx(case.model())
    return [
        relax.VirtualMachine(heddle.compile(module, target="llvm", exec_mode=mode), heddle.cpu())
        for mode in MODES
    ]


def results(machine: relax.VirtualMachine, case: Case) -> list[np.ndarray]:
    made = machine["main"](*case.given().values())
    return [item.numpy() for item in (made if len([x for x in case.outputs if x]) > 1 else [made])]


def check(case: Case, wanted: Sequence[np.ndarray] | None = None, others: Sequence[Case] = ()) -> None:
    """Compare with ONNX Runtime, or with `wanted`; the same machines then run `others`, of other sizes."""
    built = machines(case)
    for one in (case, *others):
        goal = expected(one) if wanted is None else wanted
        for machine in built:
            compare(one, results(machine, one), goal)


def compare(case: Case, got: Sequence[np.ndarray], goal: Sequence[np.ndarray]) -> None:
    assert len(got) == len(goal)
    for index, (mine, theirs) in enumerate(zip(got, goal, strict=True)):
        assert mine.shape == theirs.shape, (case.op, index, mine.shape, theirs.shape)
        if mine.dtype.name not in _LOOSE:
            assert mine.dtype == theirs.dtype, (case.op, index)
        if case.only is not None:
            mine, theirs = case.only(index, mine), case.only(index, theirs)
        if case.step and mine.dtype.kind in "iu":
            away = np.abs(mine.astype(np.int64) - theirs.astype(np.int64))
            assert away.size == 0 or (away.max() <= case.step and (away > 0).mean() <= 0.02), (case.op, away)
            continue
        np.testing.assert_allclose(
            mine.astype(np.float64),
            theirs.astype(np.float64),
            rtol=case.rtol,
            atol=case.atol,
            err_msg=case.op,
        )


SIZES = ((2, 5), (1, 1), (3, 7))


def check_sizes(build: Any, sizes: Sequence[tuple[int, int]] = SIZES) -> None:
    """One model with free batch and sequence runs all sizes, also an empty batch."""
    cases = [build(*size) for size in sizes]
    built = machines(cases[0])
    for case in cases:
        goal = expected(case)
        for machine in built:
            compare(case, results(machine, case), goal)
    empty = build(0, sizes[0][1])
    for machine in built:
        assert all(item.size == 0 for item in results(machine, empty))
