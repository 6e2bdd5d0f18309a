"""Checks by the native library against checks by code of the kernel's own: the same words about the same
arguments, right and wrong ones."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest

from heddle.codegen import compile_kernels
from heddle.prim.nodes import Var
from heddle.target import Target
from heddle.tir.checked_entry import QUICK_LOOK_ARGS
from heddle.tir.nodes import Buffer, Evaluate, PrimFunc, decl_buffer
from tests.unit.codegen.kernel_runner import KernelError
from tests.unit.codegen.test_packed_api import compiled

DTYPES = ("float32", "float64", "int8", "uint8", "int64", "bool", "float16")
SCALARS = ("int8", "uint8", "int32", "uint32", "int64", "bool", "float32", "float64")
BOUNDS = {"int8": 127, "uint8": 255, "int32": 2**31 - 1, "uint32": 2**32 - 1, "int64": 2**63 - 1, "bool": 1}


class Signature:
    """A kernel of random parameters, which does nothing, and arguments for it."""

    def __init__(self, seed: int, count: int | None = None) -> None:
        self.rng = random.Random(seed)
        self.sizes = {name: self.rng.choice([0, 1, 2, 3, 7]) for name in "mnk"}
        self.vars = {name: Var(name, "int64") for name in self.sizes}
        self.params: list[Any] = []
        self.args: list[Any] = []
        if self.rng.random() < 0.3:
            self.params.append(self.vars["k"])
            self.args.append(self.sizes["k"])
        for position in range(count or self.rng.randint(1, 4)):
            (self._scalar if self.rng.random() < 0.3 else self._tensor)(f"p{position}")

    def _scalar(self, name: str) -> None:
        dtype = self.rng.choice(SCALARS)
        self.params.append(Var(name, dtype))
        self.args.append(self.rng.choice([0, 1, True, BOUNDS.get(dtype, 2.5)]))

    def _tensor(self, name: str) -> None:
        dims = [self.rng.choice(["m", "n", "k", 0, 1, 3, 5]) for _ in range(self.rng.randint(0, 4))]
        shape = [self.vars.get(dim, dim) if isinstance(dim, str) else dim for dim in dims]
        self.params.append(decl_buffer(shape, self.rng.choice(DTYPES), name))
        buffer: Buffer = self.params[-1]
        sizes = [self.sizes[dim] if isinstance(dim, str) else dim for dim in dims]
        self.args.append(np.zeros(sizes, str(buffer.dtype)))

    def changed(self) -> list[Any]:
        """The arguments with one that is something else, most often a wrong one."""
        args, rng = list(self.args), self.rng
        index = rng.randrange(len(args))
        arg = args[index]
        other: list[Any] = [None, 1, 300, -1, -(2**40), 1.5, True, np.zeros((2, 3), "float32")]
        if isinstance(arg, np.ndarray):
            other += [arg.astype(rng.choice(DTYPES)), arg[..., None], np.asfortranarray(arg), arg.T]
            other += [np.repeat(arg, 2, axis) for axis in range(arg.ndim)]
            other += [np.zeros((*arg.shape, 2), arg.dtype)[..., 0], misaligned(arg)]
        args[index] = rng.choice(other)
        return args[:-1] if rng.random() < 0.05 else args


def misaligned(array: np.ndarray) -> np.ndarray:
    memory = np.zeros(array.nbytes + 64, np.uint8)
    start = 64 - memory.ctypes.data % 64 + 1
    return memory[start % 64 :][: array.nbytes].view(array.dtype).reshape(array.shape)


def outcome(kernel: Any, args: list[Any]) -> Any:
    try:
        kernel("f", *args)
    except KernelError as error:
        return str(error), error.kind
    return None


@pytest.mark.parametrize(
    ("seed", "count"), [*((seed, None) for seed in range(40)), (40, QUICK_LOOK_ARGS + 1)]
)
def test_the_library_says_what_code_would_say(seed: int, count: int | None) -> None:
    signature = Signature(seed, count)
    func = PrimFunc(tuple(signature.params), Evaluate(0), attrs={"global_symbol": "f"})
    by_runtime, by_code = (compiled(func, by_runtime) for by_runtime in (True, False))
    assert outcome(by_runtime, signature.args) is None
    for _ in range(150):
        args = signature.changed()
        assert outcome(by_runtime, args) == outcome(by_code, args)


def test_sizes_that_two_arguments_share() -> None:
    n, k = Var("n", "int64"), Var("k", "int32")
    one, two = decl_buffer((n, 3), "float32", "one"), decl_buffer((n, k), "float32", "two")
    func = PrimFunc((one, two, k), Evaluate(0), attrs={"global_symbol": "f"})
    for by_runtime in (True, False):
        kernel = compiled(func, by_runtime)
        kernel("f", np.zeros((5, 3), "float32"), np.zeros((5, 2), "float32"), 2)
        for shape, text in (((4, 2), "0 (n) to be 5, got 4"), ((5, 4), "1 (k) to be 2, got 4")):
            found = outcome(kernel, [np.zeros((5, 3), "float32"), np.zeros(shape, "float32"), 2])
            assert found == (f"f: argument 1 ('two'): expected dimension {text}", 1)


def test_long_and_foreign_names() -> None:
    for name in ("x" * 600, "größe→", "50%", ""):
        func = PrimFunc((decl_buffer((2,), "float32", name),), Evaluate(0), attrs={"global_symbol": "f"})
        found, _kind = outcome(compiled(func, True), [np.zeros(3, "float32")])
        wanted = f"f: argument 0 ({name!r}): expected dimension 0 to be 2, got 3"
        assert found == wanted.encode()[:487].decode()


def test_memory_that_is_not_there_or_never_looked_at() -> None:
    buffer = decl_buffer((Var("n", "int64"), 4), "float32", "a")
    func = PrimFunc((buffer,), Evaluate(0), attrs={"global_symbol": "f"})
    nowhere = np.lib.stride_tricks.as_strided(np.zeros(0, "float32"), (0, 4), (99, 7))
    for by_runtime in (True, False):
        kernel = compiled(func, by_runtime)
        assert outcome(kernel, [nowhere]) is None
        assert outcome(kernel, [np.zeros((1, 4), "float32")[:, ::-1][:, ::-1]]) is None
        wrong = np.zeros((3, 8), "float32")[:, ::2]
        assert outcome(kernel, [wrong])[0].endswith(
            "stride 0 to be 4, got 8 (the kernel takes dense tensors)"
        )


def test_a_kernel_has_one_text_about_its_arguments() -> None:
    """What the checks cost is a table, not code: no text for each way to be wrong."""
    shape = (2, 3, 4, 5)
    params = tuple(decl_buffer(shape, "float32", f"p{number}") for number in range(6))
    func = PrimFunc(params, Evaluate(0), attrs={"global_symbol": "f"})
    text = compile_kernels(func, Target("llvm")).llvm_ir
    assert "heddle_set_error" not in text
    assert text.count("call i32 @heddle_check_args") == 4
    assert text.count(' c"') == 1


def test_a_kernel_of_very_many_arguments() -> None:
    params = tuple(decl_buffer((Var(f"n{i}", "int64"), 3), "float32", f"p{i}") for i in range(1500))
    kernel = compiled(PrimFunc(params, Evaluate(0), attrs={"global_symbol": "f"}), True)
    args = [np.zeros((2, 3), "float32") for _ in params]
    assert outcome(kernel, args) is None
    for wrong in (np.zeros((2, 4), "float32"), np.zeros((2, 3), "float64"), 7):
        message, _ = outcome(kernel, [*args[:-1], wrong])
        assert "p1499" in message
