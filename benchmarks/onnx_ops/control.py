"""Rows of control flow, sequences and optional values."""

from __future__ import annotations

from benchmarks.onnx_ops.case import LARGE_IMAGE, LARGE_TOKENS, SMALL_IMAGE, SMALL_TOKENS, Case, Sizes, just

_SEQUENCE = "seq(float[n,d]) s"
_SMALL_ITEMS: Sizes = {"n": 4, "d": 64, "items": 4}
_LARGE_ITEMS: Sizes = {"n": 256, "d": 768, "items": 8}
_LOOP_BODY = (
    "body = step (int64 i, bool more, float[b,d] h) => (bool on, float[b,d] next, float[b,d] kept) "
    "{ on = Identity(more) part = Mul(h, x) next = Tanh(part) kept = Identity(next) }"
)
_SCAN_BODY = (
    "body = step (float[b,d] h, float[b,d] x_t) => (float[b,d] next, float[b,d] kept) "
    "{ sum = Add(h, x_t) next = Tanh(sum) kept = Identity(next) }"
)

CONTROL: tuple[Case, ...] = (
    Case(
        "If",
        "bool c, float[n,c0,h,w] x",
        "y = If(c)<then_branch = yes () => (float[n,c0,h,w] t) { t = Relu(x) }, "
        "else_branch = no () => (float[n,c0,h,w] e) { e = Neg(x) }>",
        {"n": 1, "c0": 16, "h": 14, "w": 14},
        {"n": 1, "c0": 64, "h": 112, "w": 112},
        fills={"c": just(1)},
    ),
    Case(
        "Loop",
        "int64 trips, float[b,d] x",
        f"yes = Constant<value=bool {{1}}>() y, all = Loop<{_LOOP_BODY}>(trips, yes, x)",
        {"b": 1, "d": 64, "t": 10},
        {"b": 8, "d": 256, "t": 200},
        outputs="y, all",
        fills={"trips": just("t")},
    ),
    Case(
        "Scan",
        "float[b,d] h0, float[t,b,d] x",
        f"y, all = Scan<num_scan_inputs=1, {_SCAN_BODY}>(h0, x)",
        {"t": 10, "b": 1, "d": 64},
        {"t": 200, "b": 8, "d": 256},
        outputs="y, all",
    ),
    Case(
        "SequenceAt",
        _SEQUENCE + ", int64 i",
        "y = SequenceAt(s, i)",
        _SMALL_ITEMS,
        _LARGE_ITEMS,
        fills={"i": just(1)},
    ),
    Case(
        "SequenceConstruct",
        "float[n,d] x, float[n,d] z",
        "y = SequenceConstruct(x, z)",
        _SMALL_ITEMS,
        _LARGE_ITEMS,
    ),
    Case(
        "SequenceEmpty",
        "float[n,d] x",
        "e = SequenceEmpty() y = SequenceInsert(e, x)",
        _SMALL_ITEMS,
        _LARGE_ITEMS,
    ),
    Case(
        "SequenceErase",
        _SEQUENCE + ", int64 i",
        "y = SequenceErase(s, i)",
        _SMALL_ITEMS,
        _LARGE_ITEMS,
        fills={"i": just(1)},
    ),
    Case(
        "SequenceInsert",
        _SEQUENCE + ", float[n,d] x, int64 i",
        "y = SequenceInsert(s, x, i)",
        _SMALL_ITEMS,
        _LARGE_ITEMS,
        fills={"i": just(1)},
    ),
    Case("SequenceLength", _SEQUENCE, "y = SequenceLength(s)", _SMALL_ITEMS, _LARGE_ITEMS),
    Case(
        "SequenceMap",
        _SEQUENCE,
        "y = SequenceMap<body = each (float[n,d] a) => (float[n,d] o) { o = Relu(a) }>(s)",
        _SMALL_ITEMS,
        _LARGE_ITEMS,
    ),
    Case("ConcatFromSequence", _SEQUENCE, "y = ConcatFromSequence<axis=0>(s)", _SMALL_ITEMS, _LARGE_ITEMS),
    Case(
        "SplitToSequence",
        "float[b,s,d] x",
        "four = Constant<value=int64 {4}>() y = SplitToSequence<axis=1>(x, four)",
        SMALL_TOKENS,
        LARGE_TOKENS,
    ),
    Case(
        "Optional",
        "float[n,c,h,w] x",
        "o = Optional(x) y = OptionalGetElement(o)",
        SMALL_IMAGE,
        LARGE_IMAGE,
        opset=27,
    ),
    Case(
        "OptionalGetElement",
        "optional(float[n,d]) o",
        "y = OptionalGetElement(o)",
        _SMALL_ITEMS,
        _LARGE_ITEMS,
        opset=27,
    ),
    Case(
        "OptionalHasElement",
        "optional(float[n,d]) o",
        "y = OptionalHasElement(o)",
        _SMALL_ITEMS,
        _LARGE_ITEMS,
        opset=27,
    ),
)
