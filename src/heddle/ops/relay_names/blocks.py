"""Relay's operators that put elements into blocks: layouts, batches of parts, windows; and annotations."""

from __future__ import annotations

from typing import Any

from heddle.graph.codes import R0203, R0205
from heddle.graph.op_builder import call_op, const
from heddle.graph.virtual_device import device_attribute
from heddle.ir.expr import Tuple
from heddle.ir.op_def import Input, Itself, OpAlias
from heddle.ops.relay_names.rules import (
    DATA,
    Given,
    Rows,
    alias,
    as_list,
    attr,
    axis_from,
    dims_of,
    rank,
    tensor_type,
    whole,
)
from heddle.support.diagnostics import IRTypeError

Sub = tuple[str, int]
"""An axis of a layout: a letter, and how many places a small one has; 0 of a large one."""


# ---- layouts


def _axes(layout: str) -> list[Sub]:
    """`NCHW8c` is N, C, H, W and 8 places of c. Raises: IRTypeError R0205 for a text that is none."""
    found: list[Sub] = []
    number = ""
    for letter in layout:
        if letter.isdigit():
            number += letter
        elif letter.isalpha() and letter.isascii() and bool(number) == letter.islower():
            found.append((letter, int(number or 0)))
            number = ""
        else:
            raise IRTypeError(R0205, f"layout {layout!r} is malformed at {letter!r}")
    large = [letter for letter, places in found if not places]
    small = [letter.upper() for letter, places in found if places]
    is_whole = not number and len(set(large)) == len(large) and len(set(small)) == len(small)
    if not is_whole or not set(small) <= set(large):
        raise IRTypeError(R0205, f"layout {layout!r} is malformed: each letter once, small ones with places")
    return found


def _divided(dim: Any, places: int) -> Any:
    known = whole(dim)
    if known is not None and known % places:
        raise IRTypeError(R0203, f"layout_transform: {known} is no multiple of {places}")
    return dim // places


def _plain(given: Given) -> tuple[Any, list[str], dict[str, Any]]:
    """The data with one axis a letter, in the order of the source's large letters; the letters; sizes."""
    axes, dims = _axes(str(given["src_layout"])), list(dims_of(given["data"]))
    if len(axes) != len(dims):
        raise IRTypeError(R0203, f"layout {given['src_layout']!r} is not one of {len(dims)} axes")
    letters = [letter for letter, places in axes if not places]
    places = {letter.upper(): count for letter, count in axes if count}
    order, sizes = [], {}
    for letter in letters:
        order.append(axes.index((letter, 0)))
        sizes[letter] = dims[order[-1]]
        if letter in places:
            order.append(axes.index((letter.lower(), places[letter])))
            sizes[letter] = sizes[letter] * places[letter]
            if whole(dims[order[-1]]) not in (None, places[letter]):
                raise IRTypeError(
                    R0203, f"axis {letter.lower()} has {places[letter]} places, not {dims[order[-1]]}"
                )
    moved = call_op("permute_dims", given["data"], axes=order)
    return call_op("reshape", moved, shape=[sizes[letter] for letter in letters]), letters, sizes


def _split(given: Given) -> tuple[Any, list[int]]:
    """The data with the axes of the target layout in the order of the source's letters, and the order of the
    target."""
    plain, letters, sizes = _plain(given)
    target = _axes(str(given["dst_layout"]))
    places = {letter.upper(): count for letter, count in target if count}
    if {letter for letter, count in target if not count} != set(letters):
        raise IRTypeError(R0205, f"layouts {given['src_layout']} and {given['dst_layout']} have other axes")
    shape: list[Any] = []
    place: dict[Sub, int] = {}
    for letter in letters:
        place[letter, 0] = len(shape)
        shape.append(_divided(sizes[letter], places[letter]) if letter in places else sizes[letter])
        if letter in places:
            place[letter.lower(), places[letter]] = len(shape)
            shape.append(places[letter])
    return call_op("reshape", plain, shape=shape), [place[axis] for axis in target]


def _layouts() -> Rows:
    yield (
        "permute_dims",
        alias(
            "layout_transform",
            DATA,
            (attr("src_layout", "str"), attr("dst_layout", "str")),
            x=lambda given: _split(given)[0],
            axes=lambda given: _split(given)[1],
        ),
    )


# ---- batches of parts


def _block(given: Given) -> list[int]:
    block = [int(size) for size in as_list(given["block_shape"])]
    if not block or min(block) < 1 or len(block) >= rank(given["data"]):
        raise IRTypeError(R0203, f"block {block} does not fit data of {rank(given['data'])} axes")
    return block


def _pairs(given: Given, name: str) -> list[tuple[int, int]]:
    pairs = [(int(first), int(last)) for first, last in given[name]]
    if len(pairs) != len(_block(given)) or min(map(min, pairs)) < 0:
        raise IRTypeError(R0203, f"{name} {pairs} are no widths for {len(_block(given))} axes")
    return pairs


def _to_batch(given: Given) -> tuple[Any, list[int], list[Any]]:
    """Padded data with each block's places in axes of their own, how these go to the front, and the sizes of
    the result."""
    block, pads = _block(given), _pairs(given, "paddings")
    count, rest = len(block), rank(given["data"]) - len(block) - 1
    widths = [0, 0, *(width for pair in pads for width in pair), *[0] * (2 * rest)]
    padded = call_op("nn.pad", given["data"], pad_width=widths, pad_value=float(given["pad_value"]))
    dims = [d + sum(pad) for d, pad in zip(dims_of(given["data"])[1 : 1 + count], pads, strict=True)]
    batch, tail = dims_of(given["data"])[0], list(dims_of(given["data"])[1 + count :])
    outer = [_divided(dim, size) for dim, size in zip(dims, block, strict=True)]
    inner = [part for pair in zip(outer, block, strict=True) for part in pair]
    blocks = call_op("reshape", padded, shape=[batch, *inner, *tail])
    order = [*range(2, 2 + 2 * count, 2), 0, *range(1, 1 + 2 * count, 2)]
    order += range(1 + 2 * count, 1 + 2 * count + rest)
    product = batch
    for size in block:
        product = product * size
    return call_op("permute_dims", blocks, axes=order), order, [product, *outer, *tail]


def _from_batch(given: Given) -> tuple[Any, list[Any]]:
    """The data with blocks in their places, and the sizes of these axes."""
    block, dims = _block(given), list(dims_of(given["data"]))
    count, total = len(block), 1
    for size in block:
        total *= size
    batch = _divided(dims[0], total)
    spatial, tail = dims[1 : 1 + count], dims[1 + count :]
    parts = call_op("reshape", given["data"], shape=[*block, batch, *spatial, *tail])
    order = [count, *(axis for n in range(count) for axis in (count + 1 + n, n))]
    order += range(2 * count + 1, 2 * count + 1 + len(tail))
    moved = call_op("permute_dims", parts, axes=order)
    sizes = [dim * size for dim, size in zip(spatial, block, strict=True)]
    return call_op("reshape", moved, shape=[batch, *sizes, *tail]), sizes


def _batches() -> Rows:
    block = attr("block_shape", "ints", (1, 1))
    yield (
        "reshape",
        alias(
            "nn.space_to_batch_nd",
            DATA,
            (block, attr("paddings", "pairs"), attr("pad_value", "float", 0.0)),
            x=lambda given: _to_batch(given)[0],
            shape=lambda given: _to_batch(given)[2],
        ),
    )
    yield (
        "strided_slice",
        alias(
            "nn.batch_to_space_nd",
            DATA,
            (block, attr("crops", "pairs")),
            x=lambda given: _from_batch(given)[0],
            axes=lambda given: list(range(1, 1 + len(_block(given)))),
            begin=lambda given: [first for first, _ in _pairs(given, "crops")],
            end=lambda given: [
                size - last
                for size, (_, last) in zip(_from_batch(given)[1], _pairs(given, "crops"), strict=True)
            ],
        ),
    )


# ---- gaps and windows


def _strides(given: Given) -> list[int]:
    strides = [int(step) for step in as_list(given["strides"])]
    if len(strides) != rank(given["x"]) or min(strides) < 1:
        raise IRTypeError(R0203, f"strides {strides} are none for {rank(given['x'])} axes")
    return strides


def _with_gaps(given: Given) -> Any:
    """Each element followed by `stride - 1` others."""
    dims, strides = dims_of(given["x"]), _strides(given)
    apart = call_op("reshape", given["x"], shape=[size for dim in dims for size in (dim, 1)])
    widths = [width for step in strides for width in (0, 0, 0, step - 1)]
    padded = call_op("nn.pad", apart, pad_width=widths, pad_value=float(given["dilation_value"]))
    return call_op("reshape", padded, shape=[dim * step for dim, step in zip(dims, strides, strict=True)])


def _gap_ends(given: Given) -> list[Any]:
    sizes = zip(dims_of(given["x"]), _strides(given), strict=True)
    return [0 if whole(dim) == 0 else (dim - 1) * step + 1 for dim, step in sizes]


def _windows(given: Given) -> tuple[Any, list[int]]:
    """The data with two axes for each one that windows move along, and the order with the windows last."""
    shape = [int(size) for size in as_list(given["window_shape"])]
    steps = [int(step) for step in as_list(given["strides"])]
    first = axis_from(int(given["axis"]), rank(given["data"]))
    if first + len(shape) != rank(given["data"]) or len(steps) != len(shape) or min(shape + steps) < 1:
        raise IRTypeError(R0203, f"windows {shape} with strides {steps} do not fit axes from {first} on")
    found = given["data"]
    for place, (size, step) in enumerate(zip(shape, steps, strict=True)):
        dim = whole(dims_of(given["data"])[first + place])
        if dim is None or dim < size:
            raise IRTypeError(R0203, f"windows of {size} need at least as many elements, known when compiled")
        count = (dim - size) // step + 1
        rows = [[start * step + inside for inside in range(size)] for start in range(count)]
        found = call_op("take", found, _indices(rows), axis=first + 2 * place, mode="clip")
    outer = list(range(first)) + [first + 2 * place for place in range(len(shape))]
    return found, outer + [first + 2 * place + 1 for place in range(len(shape))]


def _indices(rows: list[list[int]]) -> Any:
    return const(rows, "int64")


def _gaps() -> Rows:
    yield (
        "strided_slice",
        alias(
            "nn.dilate",
            (Input("x"),),
            (attr("strides", "ints", (1, 1)), attr("dilation_value", "float", 0.0)),
            x=_with_gaps,
            axes=lambda given: list(range(rank(given["x"]))),
            begin=lambda given: [0] * rank(given["x"]),
            end=_gap_ends,
            strides=lambda given: [1] * rank(given["x"]),  # those of the attribute are the gaps
            function=lambda data, strides, dilation_value=0.0: {
                "x": data,
                "strides": strides,
                "dilation_value": dilation_value,
            },
        ),
    )
    yield (
        "permute_dims",
        alias(
            "sliding_window",
            DATA,
            (attr("axis", "int"), attr("window_shape", "ints"), attr("strides", "ints")),
            x=lambda given: _windows(given)[0],
            axes=lambda given: _windows(given)[1],
        ),
    )


# ---- annotations


def _annotations() -> Rows:
    """What says something about a value and is that value."""
    yield "astype", alias("annotation.checkpoint", DATA, x="data", dtype=_dtype)
    for name in ("compiler_begin", "compiler_end"):
        anything, compiler = (Input("data", "any"),), (attr("compiler", "str"),)
        yield "astype", alias(f"annotation.{name}", anything, compiler, expression=Itself("data"))
    for name in ("stop_fusion", "bitpack_start", "bitpack_end", "with_funcid"):
        yield "astype", alias(f"annotation.{name}", DATA, expression=Itself("data"))
    anything = (Input("data", "any"),)
    yield "astype", alias("debug", anything, expression=Itself("data"))
    yield "astype", alias("memory.kill", anything, expression=lambda given: Tuple(()))
    hint = alias("annotation.cast_hint", DATA, (attr("dtype", "dtype"),), expression=Itself("data"))
    yield "astype", hint
    yield "to_vdevice", _on_device()
    ends = {"src_virtual_device": "src_device", "dst_virtual_device": "dst_device"}
    copy = alias(
        "device_copy",
        DATA,
        tuple(attr(name, "device") for name in ends),
        expression=Itself("data"),
        function=lambda data, src_device, dst_device: {
            "data": data,
            "src_virtual_device": device_attribute(src_device),
            "dst_virtual_device": device_attribute(dst_device),
        },
    )
    yield "to_vdevice", copy


def _on_device() -> OpAlias:
    return alias(
        "on_device",
        (Input("body"),),
        (
            attr("virtual_device", "device"),
            attr("constrain_result", "bool", False),
            attr("constrain_body", "bool", True),
        ),
        expression=Itself("body"),
        function=lambda body, device, constrain_result=False, constrain_body=True: {
            "body": body,
            "virtual_device": device_attribute(device),
            "constrain_result": constrain_result,
            "constrain_body": constrain_body,
        },
    )


def _dtype(given: Given) -> str:
    return str(tensor_type(given["data"]).dtype)


def aliases() -> Rows:
    """Records and what Relay calls them here."""
    yield from _layouts()
    yield from _batches()
    yield from _gaps()
    yield from _annotations()
