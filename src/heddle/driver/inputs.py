"""Prepare arguments for a model: arrays from files or random ones, and one value per symbolic dimension, all
checked."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from tokenize import TokenError
from typing import IO, Any

import numpy as np

from heddle.driver.codes import D0201, D0202, D0203, D0204
from heddle.driver.signature import Dim, Signature, TensorSpec, evaluate_dim
from heddle.runtime.dtype import DataType
from heddle.support.codes import S0101
from heddle.support.diagnostics import Diagnostic, UsageError, did_you_mean
from heddle.support.files import atomic_writer
from heddle.support.frozen import frozen
from heddle.support.reading import open_file

Array = np.ndarray[Any, Any]
_OF_A_LIBRARY = 2
"""`numpy.dtype.isbuiltin` of element types that a library adds, as `ml_dtypes` does."""
MADE_UP_INT_LIMIT = 2
"""Integers are 0 or 1: they are indices, masks or flags, and each of these takes them."""


@dataclass(slots=True)
class Dimensions:
    """Values of symbolic dimensions, and the sources of these values."""

    values: dict[str, int] = field(default_factory=dict)
    given_by: dict[str, str] = field(default_factory=dict)

    def give(self, name: str, value: int, by: str) -> None:
        """Raises: UsageError D0202 where another value was given."""
        known = self.values.setdefault(name, value)
        if known != value:
            raise UsageError(
                D0202, f"dimension {name!r} is {known} by {self.given_by[name]}, and {value} by {by}"
            )
        self.given_by.setdefault(name, by)


def parse_pairs(texts: Iterable[str], option: str) -> dict[str, str]:
    """Parse NAME=VALUE options to a dictionary. Raises: UsageError D0201 for another form or a repeated
    name.
    """
    pairs: dict[str, str] = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if not (name and equals and value):
            raise UsageError(D0201, f"{option} takes NAME=VALUE, got {text!r}")
        if name in pairs:
            raise UsageError(D0201, f"{option} {name} is given twice: {pairs[name]} and {value}")
        pairs[name] = value
    return pairs


def parse_dims(texts: Iterable[str]) -> dict[str, int]:
    """Parse `--dim` options to a dictionary of integers. Raises: UsageError D0201."""
    dims = {}
    for name, text in parse_pairs(texts, "--dim").items():
        if not (text.isascii() and text.isdecimal() and len(text) < 16):
            raise UsageError(D0201, f"--dim {name}={text}: expected a number that is not negative")
        dims[name] = int(text)
    return dims


def read_array(name: str, path: str) -> Array:
    """Read an array from a .npy file (also one of `write_array`), without pickled objects. Raises: UsageError
    D0203 with the reason."""
    try:
        with open_file(path) as file:
            array = np.lib.format.read_array(file, allow_pickle=False)
    except (OSError, ValueError, EOFError, TokenError) as error:  # the header is text of Python
        reason = getattr(error, "strerror", None) or error
        raise UsageError(D0203, f"input {name!r}: {path} is no readable .npy file: {reason}") from error
    return np.asarray(array)


def make_folder(folder: Path) -> None:
    """Make a folder for results, if there is none yet. Raises: UsageError S0101."""
    try:
        folder.mkdir(exist_ok=True)
    except (OSError, ValueError) as error:
        why = getattr(error, "strerror", None) or error
        raise UsageError(S0101, f"cannot write to {folder}: {why}") from error


def write_arrays(folder: Path, arrays: Iterable[tuple[str, Array]]) -> list[Path]:
    """Write each array as NAME.npy and return the paths. Characters that are invalid in file names become
    `_`; equal file names are numbered. Texts are written as fixed-width strings, and types that numpy lacks
    by their names (`write_array`). Raises: UsageError S0101."""
    make_folder(folder)
    written = list[Path]()
    for name, array in arrays:
        stem = re.sub(r"[^\w.-]", "_", name).lstrip(".") or "output"
        path, number = folder / f"{stem}.npy", 1
        while path in written:
            number += 1
            path = folder / f"{stem}_{number}.npy"
        with atomic_writer(path) as file:
            write_array(file, array.astype(str) if array.dtype == object else array)
        written.append(path)
    return written


def write_array(file: IO[bytes], array: Array) -> None:
    """Write an array in the `.npy` format. For number types that numpy lacks (bfloat16, small floats and
    integers), numpy would write bytes without a type. This function writes the type's name, so `np.load`
    returns the numbers if `ml_dtypes` is imported."""
    plain = np.asarray(array, order="C")
    if plain.dtype.isbuiltin != _OF_A_LIBRARY:
        np.lib.format.write_array(file, plain, allow_pickle=False)
        return
    header = np.lib.format.header_data_from_array_1_0(plain) | {"descr": plain.dtype.name}
    np.lib.format.write_array_header_1_0(file, header)
    file.write(plain.tobytes())


def _typed(spec: TensorSpec, array: Array) -> Array:
    """The array as numbers, where numpy wrote numbers of a type that it lacks as bytes alone."""
    dtype = None if spec.dtype is None else DataType(spec.dtype).numpy()
    is_bytes = (
        array.dtype.kind == "V" and array.dtype.names is None and array.dtype.isbuiltin != _OF_A_LIBRARY
    )
    if dtype is None or not is_bytes or dtype.isbuiltin != _OF_A_LIBRARY:
        return array
    return array.view(dtype) if array.dtype.itemsize == dtype.itemsize else array


@frozen
class Arguments:
    """The arrays of a call by parameter name, in order. `assumed` names the dimensions that were set to 1
    because no value was given."""

    arrays: dict[str, Array]
    dims: dict[str, int]
    assumed: tuple[str, ...]


def make_arguments(
    signature: Signature, given: Mapping[str, Array], dims: Mapping[str, int], seed: int = 0
) -> Arguments:
    """Return an array for every parameter: the given arrays, checked, and random ones for the rest.

    Random floats have mean 0 and standard deviation 1; random integers are 0 or 1. Raises: UsageError D0201
    to D0204.
    """
    _check_names(signature, given, dims)
    types = {spec.name: spec for spec in signature.inputs}
    given = {name: _typed(types[name], array) for name, array in given.items()}
    known = Dimensions()
    for name, value in dims.items():
        known.give(name, value, f"--dim {name}={value}")
    _learn(signature, given, known)
    assumed = tuple(name for name in signature.dim_names() if name not in known.values)
    for name in assumed:
        known.give(name, 1, "default")
    for spec in signature.inputs:
        if spec.name in given:
            _check_sizes(spec, given[spec.name], known)
    rng = np.random.default_rng(seed)
    arrays = {
        spec.name: given[spec.name] if spec.name in given else _made_up(spec, known, rng)
        for spec in signature.inputs
    }
    return Arguments(arrays, known.values, assumed)


def check_arrays(signature: Signature, arrays: Mapping[str, Array]) -> dict[str, int]:
    """Return the values of the symbolic dimensions for given arrays by parameter name. Parameters without an
    array are skipped. Raises: UsageError D0202, D0203 for arrays that do not match."""
    known = Dimensions()
    _learn(signature, arrays, known)
    for spec in signature.inputs:
        if spec.name in arrays:
            _check_sizes(spec, arrays[spec.name], known)
    return known.values


def _learn(signature: Signature, given: Mapping[str, Array], known: Dimensions) -> None:
    """Check kinds, and take dimensions from sizes."""
    there = [spec for spec in signature.inputs if spec.name in given]
    findings = [finding for spec in there for finding in _check_kind(spec, given[spec.name])]
    if findings:
        raise UsageError(findings)
    for spec in there:
        _learn_dims(spec, given[spec.name], known)


def _check_names(signature: Signature, given: Mapping[str, Array], dims: Mapping[str, int]) -> None:
    inputs, names = [spec.name for spec in signature.inputs], signature.dim_names()
    for name in given:
        if name not in inputs:
            raise UsageError(
                D0203,
                f"the model has no input {name!r}: it has {', '.join(inputs) or 'none'}",
                help=did_you_mean(name, inputs),
            )
    for name in dims:
        if name not in names:
            raise UsageError(
                D0201,
                f"the model has no dimension {name!r}: it has {', '.join(names) or 'none'}",
                help=did_you_mean(name, names),
            )


def _check_kind(spec: TensorSpec, array: Array) -> list[Diagnostic]:
    """Findings about an array's element type and number of dimensions."""
    findings = []
    if spec.kind != "tensor":
        findings.append(
            Diagnostic(D0203, f"input {spec.name!r} is of type {spec.kind}, no tensor", help=_FROM_PYTHON)
        )
    if spec.dtype is not None and array.dtype != DataType(spec.dtype).numpy():
        findings.append(
            Diagnostic(
                D0203,
                f"input {spec.name!r}: expected dtype {spec.dtype}, got {array.dtype}",
                help=f"array.astype({spec.dtype!r}) converts it",
            )
        )
    if spec.shape is not None and array.ndim != len(spec.shape):
        findings.append(
            Diagnostic(
                D0203,
                f"input {spec.name!r}: expected {len(spec.shape)} dimensions {spec.text()}, "
                f"got {array.ndim} of shape {array.shape}",
            )
        )
    return findings


def _learn_dims(spec: TensorSpec, array: Array, known: Dimensions) -> None:
    for axis, (dim, size) in enumerate(zip(spec.shape or (), array.shape, strict=False)):
        if isinstance(dim, str) and dim.isidentifier():
            known.give(dim, size, f"input {spec.name!r} (axis {axis})")


def _check_sizes(spec: TensorSpec, array: Array, known: Dimensions) -> None:
    for axis, (dim, size) in enumerate(zip(spec.shape or (), array.shape, strict=False)):
        expected = evaluate_dim(dim, known.values)
        if expected is not None and expected != size:
            raise UsageError(
                D0202,
                f"input {spec.name!r}: expected {_dim_text(dim, expected)} at axis {axis} of {spec.text()}, "
                f"got {size}",
            )


def _dim_text(dim: Dim, value: int) -> str:
    return str(value) if isinstance(dim, int) else f"{dim} = {value}"


_FROM_PYTHON = "files hold tensors alone: call the program from Python, where it takes values of all types"


def _made_up(spec: TensorSpec, known: Dimensions, rng: np.random.Generator) -> Array:
    if spec.kind != "tensor" or spec.shape is None or spec.dtype is None:
        raise UsageError(
            D0204,
            f"input {spec.name!r} of type {spec.text()} cannot be made up",
            help=f"--input {spec.name}=FILE.npy gives it" if spec.kind == "tensor" else _FROM_PYTHON,
        )
    sizes = [evaluate_dim(dim, known.values) for dim in spec.shape]
    shape = tuple(size for size in sizes if size is not None)
    if len(shape) != len(sizes) or any(size < 0 for size in shape):
        raise UsageError(D0204, f"input {spec.name!r} of type {spec.text()} has no size with {known.values}")
    dtype = DataType(spec.dtype)
    try:
        if dtype.is_float:
            return rng.standard_normal(shape, np.float32).astype(dtype.numpy())
        return rng.integers(0, MADE_UP_INT_LIMIT, shape).astype(dtype.numpy())
    except (MemoryError, ValueError) as error:  # numpy's ways to say that an array would be too large
        raise UsageError(D0204, f"input {spec.name!r} of shape {shape} is too large: {error}") from error
