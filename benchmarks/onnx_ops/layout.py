"""Rows of operators that move elements without regard to their values."""

from __future__ import annotations

from benchmarks.onnx_ops.case import (
    IMAGE,
    LARGE_IMAGE,
    LARGE_TOKENS,
    SMALL_IMAGE,
    SMALL_TOKENS,
    TOKENS,
    Case,
    Weight,
    integers,
    on_images,
    on_tokens,
)

_HEADS = "float[b,s,h,e] x"
_SMALL_HEADS = {"b": 1, "s": 16, "h": 4, "e": 32}
_LARGE_HEADS = {"b": 4, "s": 256, "h": 12, "e": 64}
_WINDOWS = "float[b, s, u, v, e] x"
_SMALL_WINDOWS = {"b": 1, "s": 4, "u": 7, "v": 7, "e": 32}
_LARGE_WINDOWS = {"b": 8, "s": 8, "u": 14, "v": 14, "e": 64}

LAYOUT: tuple[Case, ...] = (
    Case("Transpose", _HEADS, "y = Transpose<perm=[0,2,1,3]>(x)", _SMALL_HEADS, _LARGE_HEADS, form="heads"),
    Case("Transpose", _HEADS, "y = Transpose<perm=[0,2,3,1]>(x)", _SMALL_HEADS, _LARGE_HEADS, form="keys"),
    on_images("Transpose", "Transpose<perm=[0,2,3,1]>(x)", form="to channels last"),
    Case(
        "Transpose",
        _WINDOWS,
        "y = Transpose<perm=[0,3,1,2,4]>(x)",
        _SMALL_WINDOWS,
        _LARGE_WINDOWS,
        form="5 axes",
    ),
    on_tokens("Reshape", "Reshape(x, shape)", weights={"shape": integers(0, 0, 8, -1)}),
    on_images("Flatten", "Flatten(x)"),
    Case(
        "Squeeze",
        "float[n,1,s,d] x",
        "y = Squeeze(x, axes)",
        {"n": 1, "s": 16, "d": 256},
        {"n": 4, "s": 256, "d": 768},
        weights={"axes": integers(1)},
    ),
    on_tokens("Unsqueeze", "Unsqueeze(x, axes)", weights={"axes": integers(1)}),
    on_images("Shape", "Shape(x)"),
    on_images("Size", "Size(x)"),
    Case(
        "Concat",
        "float[n,c,h,w] x, float[n,c,h,w] z",
        "y = Concat<axis=1>(x, z)",
        SMALL_IMAGE,
        LARGE_IMAGE,
        form="2 of channels",
    ),
    Case(
        "Concat",
        ", ".join(f"float[b,s,d] x{place}" for place in range(16)),
        f"y = Concat<axis=2>({', '.join(f'x{place}' for place in range(16))})",
        {"b": 1, "s": 16, "d": 16},
        {"b": 4, "s": 512, "d": 32},
        form="16 of columns",
    ),
    Case(
        "Split",
        TOKENS,
        "y, y1, y2 = Split<axis=2, num_outputs=3>(x)",
        SMALL_TOKENS | {"d": 384},
        LARGE_TOKENS,
        outputs="y, y1, y2",
        form="3 of columns",
    ),
    Case(
        "Split",
        IMAGE,
        "y, y1 = Split<axis=1, num_outputs=2>(x)",
        SMALL_IMAGE,
        LARGE_IMAGE,
        outputs="y, y1",
        form="2 of channels",
    ),
    on_tokens("Tile", "Tile(x, repeats)", form="middle axis", weights={"repeats": integers(1, 2, 1)}),
    Case(
        "Tile",
        "float[n,d] x",
        "y = Tile(x, repeats)",
        {"n": 16, "d": 8},
        {"n": 4096, "d": 16},
        form="columns",
        weights={"repeats": integers(1, 8)},
    ),
    Case(
        "Expand",
        "float[n,1,s,d] x",
        "y = Expand(x, shape)",
        {"n": 1, "s": 16, "d": 64},
        {"n": 4, "s": 256, "d": 128},
        weights={"shape": integers(1, 8, 1, 1)},
    ),
    Case(
        "Expand",
        "float[n,s,1] x",
        "y = Expand(x, shape)",
        {"n": 1, "s": 64},
        {"n": 4, "s": 4096},
        form="columns",
        weights={"shape": integers(1, 1, 64)},
    ),
    on_images("DepthToSpace", "DepthToSpace<blocksize=2>(x)"),
    on_images("DepthToSpace", 'DepthToSpace<blocksize=2, mode="CRD">(x)', form="CRD"),
    on_images("SpaceToDepth", "SpaceToDepth<blocksize=2>(x)"),
    on_images("Pad", "Pad(x, pads)", weights={"pads": integers(0, 0, 1, 1, 0, 0, 1, 1)}),
    on_images(
        "Pad",
        'Pad<mode="reflect">(x, pads)',
        form="reflect",
        weights={"pads": integers(0, 0, 3, 3, 0, 0, 3, 3)},
    ),
    on_images(
        "Pad", 'Pad<mode="edge">(x, pads)', form="edge", weights={"pads": integers(0, 0, 3, 3, 0, 0, 3, 3)}
    ),
    on_images("CenterCropPad", "CenterCropPad<axes=[2, 3]>(x, shape)", weights={"shape": integers(12, 12)}),
    on_images(
        "Slice",
        "Slice(x, starts, ends, axes)",
        form="rows",
        weights={"starts": integers(2, 2), "ends": integers(-2, -2), "axes": integers(2, 3)},
    ),
    on_tokens(
        "Slice",
        "Slice(x, starts, ends, axes, steps)",
        form="backwards",
        weights={
            "starts": integers(-1),
            "ends": integers(-(2**31)),
            "axes": integers(2),
            "steps": integers(-1),
        },
    ),
    on_images(
        "Slice",
        "Slice(x, starts, ends, axes, steps)",
        form="every second",
        weights={
            "starts": integers(0, 0),
            "ends": integers(2**31, 2**31),
            "axes": integers(2, 3),
            "steps": integers(2, 2),
        },
    ),
    Case("Trilu", "float[b,s,s] x", "y = Trilu<upper=0>(x)", {"b": 1, "s": 64}, {"b": 4, "s": 512}),
    on_tokens(
        "ReverseSequence",
        "ReverseSequence<batch_axis=0, time_axis=1>(x, lengths)",
        weights={
            "lengths": Weight(
                ("b",), "int64", lambda rng, shape, sizes: rng.integers(1, sizes["s"] + 1, shape), True
            )
        },
    ),
    Case(
        "Col2Im",
        "float[n,k,l] x",
        "y = Col2Im<pads=[1,1,1,1]>(x, image, block)",
        {"n": 1, "k": 72, "l": 196, "side": 14},
        {"n": 1, "k": 576, "l": 3136, "side": 56},
        weights={"image": integers("side", "side"), "block": integers(3, 3)},
    ),
)
