"""Tensor arrays: lists of tensors of one element type whose ranks and sizes are known only when a program
runs.

The text is the same for each element type: `tensor_array_read_float32`, `tensor_array_read_int8`, ...
"""

from __future__ import annotations

from collections.abc import Iterator

MAX_RANK = 6
INDICES = "Tensor[(?), int32]"
DTYPES = ("float32", "float16", "float64", "int32", "uint8", "int8", "int16", "uint16", "int64")


def tensor_type_name(dtype: str) -> str:
    """The data type: no tensor, or one of rank 0 to 6."""
    return f"tensor_{dtype}_t"


def tensor_array_text(dtype: str) -> str:
    """The definitions for one element type; they use those of the prelude."""
    return "\n".join(('#[version = "0.0.5"]', *_definitions(dtype)))


def _definitions(d: str) -> Iterator[str]:
    t = tensor_type_name(d)
    array = f"List[{t}]"
    yield f"type {t} {{ tensor_nil_{d},"
    for rank in range(MAX_RANK + 1):
        yield f"  tensor{rank}_{d}({_tensor(rank, d)}),"
    yield "}"
    yield from places_text(d, t, array)
    yield from _on_tensors(d, t)
    for rank in range(1, MAX_RANK + 1):
        yield from _unstack(rank, d, array)
    yield from _on_arrays(d, t, array)


def places_text(d: str, t: str, array: str) -> Iterator[str]:
    """An array of nothing, and its places."""
    yield (
        f"def @tensor_array_{d}(%n: int32) -> {array} {{ "
        f"if (%n == 0) {{ Nil }} else {{ Cons(tensor_nil_{d}, @tensor_array_{d}(%n - 1)) }} }}"
    )
    yield f"def @tensor_array_read_{d}(%ta: {array}, %i: int32) -> {t} {{ @nth(%ta, %i) }}"
    yield (
        f"def @tensor_array_write_{d}(%ta: {array}, %i: int32, %v: {t}) -> {array} {{ @update(%ta, %i, %v) }}"
    )


def _tensor(rank: int, d: str) -> str:
    return f"Tensor[({', '.join('?' * rank)}), {d}]"


def _on_tensors(d: str, t: str) -> Iterator[str]:
    """Functions of single tensors, a clause for each rank."""
    clauses = [f"tensor{k}_{d}(%x) => tensor{k + 1}_{d}(expand_dims(%x, axis=0))" for k in range(MAX_RANK)]
    yield f"def @tensor_expand_dims_{d}(%t: {t}) -> {t} {{ match? (%t) {{ {', '.join(clauses)} }} }}"
    clauses = [
        f"(tensor{k}_{d}(%x), tensor{k}_{d}(%y)) => tensor{k}_{d}(concatenate((%x, %y), axis=0))"
        for k in range(1, MAX_RANK + 1)
    ]
    yield (
        f"def @tensor_concatenate_{d}(%a: {t}, %b: {t}) -> {t} "
        f"{{ match? ((%a, %b)) {{ {', '.join(clauses)} }} }}"
    )
    clauses = [f"tensor{k}_{d}(%x) => {_part(k, d)}" for k in range(1, MAX_RANK + 1)]
    yield (
        f"def @tensor_take_{d}(%t: {t}, %lower: int32, %upper: int32) -> {t} "
        f"{{ match? (%t) {{ {', '.join(clauses)} }} }}"
    )


def _part(rank: int, d: str) -> str:
    """Elements `lower` to `upper` along axis 0."""
    begin, end = "reshape(%lower, newshape=[1])", "reshape(%upper, newshape=[1])"
    if rank > 1:
        rest = f"strided_slice(shape_of(%x), begin=[1], end=[{rank}])"
        begin = f'concatenate(({begin}, zeros(shape=[{rank - 1}], dtype="int32")), axis=0)'
        end = f"concatenate(({end}, {rest}), axis=0)"
    strides = f'ones(shape=[{rank}], dtype="int32")'
    return f"tensor{rank}_{d}(dyn.strided_slice(%x, {begin}, {end}, {strides}))"


def _unstack(rank: int, d: str, array: str) -> Iterator[str]:
    """The tensors that a tensor is along axis 0."""
    ty, name = _tensor(rank, d), f"tensor_array_unstack_tensor{rank}_{d}"
    yield (
        f"def @tensor_array_unstack_tensor{rank}_helper_{d}(%i: int32, %up: int32, %t: {ty}) -> {array} {{ "
        f"if (%i == %up) {{ Nil }} else {{ Cons(tensor{rank - 1}_{d}(take(%t, %i, axis=0)), "
        f"@tensor_array_unstack_tensor{rank}_helper_{d}(%i + 1, %up, %t)) }} }}"
    )
    yield (
        f"def @{name}(%t: {ty}) -> {array} "
        f"{{ @tensor_array_unstack_tensor{rank}_helper_{d}(0, take(shape_of(%t), 0), %t) }}"
    )


def _on_arrays(d: str, t: str, array: str) -> Iterator[str]:
    yield (
        f"def @tensor_array_stack_{d}(%ta: {array}) -> {t} {{ "
        f"let %rows = @map(@tensor_expand_dims_{d}, %ta); "
        f"@foldl(@tensor_concatenate_{d}, @hd(%rows), @tl(%rows)) }}"
    )
    yield (
        f"def @tensor_array_concat_{d}(%ta: {array}) -> {t} {{ match? (%ta) {{ Cons(%x, Nil) => %x, "
        f"Cons(%x, %rest) => @tensor_concatenate_{d}(%x, @tensor_array_concat_{d}(%rest)) }} }}"
    )
    yield from scatter_text(d, array, INDICES)
    yield from split_text(d, d, array, t, INDICES)
    yield from gather_text(d, array, t)


def scatter_text(d: str, array: str, indices: str) -> Iterator[str]:
    """Values into places, whose numbers have the type `indices`. `d` is what names end in."""
    yield (
        f"def @tensor_array_scatter_helper_{d}(%ta: {array}, %i: int32, %up: int32, %at: {indices}, "
        f"%values: {array}) -> {array} {{ if (%i == %up) {{ %ta }} else {{ "
        f"let %new = @tensor_array_write_{d}(%ta, take(%at, %i), @tensor_array_read_{d}(%values, %i)); "
        f"@tensor_array_scatter_helper_{d}(%new, %i + 1, %up, %at, %values) }} }}"
    )
    yield (
        f"def @tensor_array_scatter_{d}(%ta: {array}, %at: {indices}, %values: {array}) -> {array} "
        f"{{ @tensor_array_scatter_helper_{d}(%ta, 0, take(shape_of(%at), 0), %at, %values) }}"
    )


def split_text(d: str, whole: str, array: str, value: str, lengths: str) -> Iterator[str]:
    """`whole` is the suffix of the functions on tensors of the type `value`, which is split."""
    yield (
        f"def @tensor_array_split_helper_{d}(%ta: {array}, %value: {value}, %first: int32, "
        f"%i: int32, %up: int32, %lengths: {lengths}) -> {array} {{ if (%i == %up) {{ %ta }} else {{ "
        f"let %last = %first + take(%lengths, %i); "
        f"let %new = @tensor_array_write_{d}(%ta, %i, @tensor_take_{whole}(%value, %first, %last)); "
        f"@tensor_array_split_helper_{d}(%new, %value, %last, %i + 1, %up, %lengths) }} }}"
    )
    yield (
        f"def @tensor_array_split_{d}(%ta: {array}, %value: {value}, %lengths: {lengths}) -> {array} "
        f"{{ @tensor_array_split_helper_{d}(%ta, %value, 0, 0, take(shape_of(%lengths), 0), %lengths) }}"
    )


def gather_text(d: str, array: str, stacked: str) -> Iterator[str]:
    """The tensors at some places, stacked."""
    yield (
        f"def @tensor_array_gather_helper_{d}(%ta: {array}, %i: int32, %up: int32, %at: {INDICES}) "
        f"-> {array} {{ if (%i == %up) {{ Nil }} else {{ Cons(@tensor_array_read_{d}(%ta, take(%at, %i)), "
        f"@tensor_array_gather_helper_{d}(%ta, %i + 1, %up, %at)) }} }}"
    )
    yield (
        f"def @tensor_array_gather_{d}(%ta: {array}, %at: {INDICES}) -> {stacked} {{ @tensor_array_stack_{d}("
        f"@tensor_array_gather_helper_{d}(%ta, 0, take(shape_of(%at), 0), %at)) }}"
    )
