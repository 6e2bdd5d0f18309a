"""An operator on tensors of free sizes does what its rule says of the sizes that come.

Every dimension of a sample is a symbol of its own. The program runs on the sample, and on the sample with one
size one less or one more, all in turn. What the type rule refuses for fixed sizes is an error at run time too
before memory is touched, and what it accepts has the shape that it tells.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pytest

from heddle.graph.types import TensorType
from heddle.ir.expr import Tuple, Var
from heddle.ir.node import replace
from heddle.ir.op_def import OpDef
from heddle.prim.nodes import IntImm
from heddle.runtime.dtype import dtype_of
from heddle.support.diagnostics import HeddleError, IRTypeError, TrapIndexError
from tests.ops.agreement import on_loop_interpreter
from tests.ops.cases import Case, Typed, flat, records
from tests.ops.programs import Program, module_of, result_type, typed_program
from tests.ops.sizes import other_sizes
from tests.ops.test_ops import leaf_types

OTHERWISE = {
    "split": "parts at the end of a free axis that turns out too short are empty",
    "squeeze": "without axes only sizes that are known to be 1 are dropped",
}
"""Operators that say that they take free sizes in another way than fixed ones."""
STRICTER = {
    "reshape": "0 stands for the size of the input where it is free, for itself where the input is empty",
    "einsum": "a free size of 1 does not stretch",
    "nn.prelu": "a free number of slopes is the number of channels",
    "quantize": "a free number of scales is the size of the axis",
    "dequantize": "a free number of scales is the size of the axis",
}
"""Operators that refuse free sizes that they take where they are fixed."""
NEEDS_CONSTANT = ("gather_nd", "scatter_nd")
"""Operators whose loops depend on a size, the last one of the indices."""
MOST_SAMPLES = 8


@pytest.mark.parametrize("record", records(), ids=lambda record: record.name)
def test_free_sizes_are_judged_as_fixed_ones(record: OpDef) -> None:
    assert isinstance(record.samples, tuple)
    if record.name in NEEDS_CONSTANT:
        pytest.skip("the last size of the indices must be a constant")
    made = [
        typed_program(Case(record, sample, sample.dtypes[0], index), True, is_apart=True)
        for index, sample in enumerate(record.samples[:MOST_SAMPLES])
    ]
    found = [program for program in made if program is not None]
    functions = on_loop_interpreter(module_of(found))
    wrong = []
    for program in found:
        for arrays in (tuple(program.typed.arrays), *other_sizes(program.typed.arrays)):
            problem = "; ".join(_problems(record.name, program, arrays, functions(program.name)))
            if problem:
                shapes = ", ".join(str(array.shape) for array in arrays)
                wrong.append(f"{program.name} {dict(program.case.sample.attrs)} on {shapes}: {problem}")
    assert not wrong, "\n".join(wrong)


def _problems(name: str, program: Program, arrays: Sequence[np.ndarray], function: Any) -> Iterator[str]:
    wanted, refusal = _static_shapes(program.typed, arrays)
    try:
        got = [array.shape for array in flat(function(*arrays))]
    except TrapIndexError:
        return  # an index that the sizes that were changed leave outside
    except HeddleError as error:
        if error.code == "T0601":
            yield f"reads or writes beyond its tensors: {error}"
        elif refusal is None and name not in STRICTER:
            yield f"refused: {error}"
        return
    if name in OTHERWISE:
        return
    if refusal is not None:
        yield f"runs and gives {got}; for fixed sizes: {refusal}"
    elif any(
        shape is not None and any(size not in (None, given) for size, given in zip(shape, real, strict=True))
        for shape, real in zip(wanted, got, strict=True)
    ):
        yield f"gives {got}, fixed sizes {wanted}"


def _static_shapes(
    typed: Typed, arrays: Sequence[np.ndarray]
) -> tuple[list[list[int | None] | None], IRTypeError | None]:
    """The shapes that the type rule tells for fixed sizes, or what it refuses."""
    fixed = {
        var: Var(var.name_hint, TensorType(array.shape, dtype_of(array.dtype)))
        for var, array in zip(typed.params, arrays, strict=True)
    }

    def with_fixed_sizes(arg: Any) -> Any:
        if isinstance(arg, Tuple):
            return Tuple(tuple(map(with_fixed_sizes, arg.fields)))
        return fixed.get(arg, arg) if isinstance(arg, Var) else arg

    call = replace(typed.call, args=tuple(map(with_fixed_sizes, typed.call.args)))
    try:
        types = leaf_types(result_type(Typed(call)))
    except IRTypeError as error:
        return [], error
    return [
        None if ty.dims is None else [dim.value if isinstance(dim, IntImm) else None for dim in ty.dims]
        for ty in types
    ], None
