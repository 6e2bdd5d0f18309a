"""Script text: what is printed parses back to an equal program and prints the same; wrong text is refused
with a place."""

import pytest

from heddle.ir.expr import GlobalVar
from heddle.ir.structural import assert_structural_equal
from heddle.script import check_round_trip, from_source
from heddle.script import ir as I
from heddle.script import relax as R
from heddle.script import tir as T
from heddle.support.diagnostics import HeddleError, ParseError


@I.ir_module
class Program:
    @T.prim_func(private=True)
    def scale(a: T.handle, b: T.handle, factor: T.int64):
        n = T.int64(is_size_var=True)
        A = T.match_buffer(a, (n, T.int64(4)), "float32")
        B = T.match_buffer(b, (n, T.int64(4)), "float32")
        C = T.sblock_alloc_buffer((n, T.int64(4)), "float32")
        for i, j in T.grid(n, T.int64(4)):
            with T.sblock("C"):
                vi, vj = T.axis.remap("SS", [i, j])
                T.where(i < n - 1 or j >= 2)
                C[vi, vj] = T.if_then_else(vi < 3 and not vj >= 2, A[vi, vj], -1.5) * T.Cast(
                    "float32", factor
                )
        for i in T.parallel(n):
            for j in T.vectorized(T.int64(4)):
                with T.sblock("B"):
                    vi = T.axis.spatial(n, i)
                    vj = T.axis.spatial(T.int64(4), T.min(j, 3))
                    T.reads(C[vi, 0:4])
                    T.writes(B[vi, vj])
                    B[vi, vj] = T.max(C[vi, vj], T.exp(C[vi, 3 - vj]) / 2.0) - (1.0 - C[vi, 0])

    @R.function
    def main(x: R.Tensor(("n", 4), "float32"), c: R.Tensor((), "bool"), s: R.Shape(["n", "k"])) -> R.Tensor(
        ndim=2, dtype="float32"
    ):
        n = T.int64()
        cls = Program
        with R.dataflow():
            y = R.call_tir(cls.scale, (x,), out_ty=R.Tensor((n, 4), "float32"), tir_vars=R.shape([n]))
            z = R.add(y, R.const([0.5, 1.0, -2.0, 3.25], "float32"))
            R.output(z)
        m = T.int64()
        w = R.match_cast(z, R.Tensor((m, 4), "float32"))

        @R.function
        def again(q: R.Tensor((m, 4), "float32")) -> R.Tensor((m, 4), "float32"):
            return R.multiply(q, w)

        if c:
            u = again(w)
        else:
            u = w
        pair = (u, s)
        v = pair[0]
        _ = R.call_packed(
            "log", v, R.prim_value(n + 1), R.str("text"), R.dtype("int8"), ty_args=[R.Tensor(ndim=1)]
        )
        return v


def test_program_of_all_kinds_round_trips():
    assert check_round_trip(Program) is None


def test_source_text_equals_decorated_functions():
    assert_structural_equal(Program, from_source(str(Program)))


STATEMENTS = {
    "while": "while A[0] < T.float32(3):\n        A[0] = A[0] + 1.0",
    "bind": "x: T.int32 = 3\n    A[x] = T.float32(1)",
    "alloc": 'B = T.alloc_buffer((4,), "float32", scope="local")\n    B[0] = A[0]',
    "decl": 'B = T.decl_buffer((2, 2), "float32", data=A.data)\n    B[1, 0] = A[0]',
    "assert": 'T.assert_(A[0] > 0.0, "expected %e, got %g", error_kind="ValueError", expected=1, got=2)',
    "attr": 'with T.attr(A, "hint", 3):\n        A[0] = A[1]',
    "ramp": "A[T.Ramp(0, 1, 4)] = T.Broadcast(T.float32(2), 4)",
    "predicate": "A.vstore([T.Ramp(0, 1, 4)], A.vload([T.Ramp(0, 1, 4)], predicate=T.Broadcast(T.bool(True), 4)))",
    "let": 'A[0] = T.Let(y * y, where={T.Var("y", "float32"): A[1]})',
    "select": 'A[0] = T.Select(A[1] < A[2], A[1], T.float32("inf"))',
    "shuffle": "A[0] = T.Shuffle([A[T.Ramp(0, 1, 4)]], [2])",
    "division": "A[0] = A[T.truncdiv(7, 2) + 7 // 2 % 3 - T.truncmod(7, 2)]",
    "thread": 'for i in T.thread_binding(8, thread="threadIdx.x"):\n        A[i] = T.float32(0)',
    "annotations": 'for i in T.serial(2, 6, annotations={"grain": 4, "name": "x", "flags": [1, 2]}):\n        A[i] = T.float32(0)',
    "nested": "for i in range(4):\n        if i < 2:\n            A[i] = T.float32(0)\n        else:\n            T.evaluate(0)",
}


@pytest.mark.parametrize("name", STATEMENTS)
def test_statements_round_trip(name):
    text = f'@T.prim_func\ndef f(A: T.Buffer((8,), "float32")):\n    {STATEMENTS[name]}\n'
    func = from_source(text)
    again = from_source(str(func))
    assert_structural_equal(func, again)
    assert str(func) == str(again)


@pytest.mark.parametrize(
    "text",
    [
        "x - (y - z)",
        "x - y - z",
        "(x + y) * z",
        "x + y * z",
        "x // (y // z)",
        "-x + y",
        "(x < y) == (y < z)",
        "not (x < y and y < z or z < x)",
        "T.min(x, y) % 4",
        "x * -1",
        "T.shift_right(x, 2) + T.bitwise_and(x, 7)",
    ],
)
def test_parentheses_keep_the_tree(text):
    source = f"@T.prim_func\ndef f(x: T.int32, y: T.int32, z: T.int32):\n    T.evaluate({text})\n"
    func = from_source(source)
    assert_structural_equal(func, from_source(str(func)))


WRONG = {
    "syntax": ("@T.prim_func\ndef f(:\n    pass", "I0601", ":2:"),
    "name": ('@T.prim_func\ndef f(A: T.Buffer((8,), "float32")):\n    A[0] = B[0]', "I0602", ":3:12"),
    "attribute": (
        '@R.function\ndef f(x: R.Tensor((2,), "float32")):\n    y = R.ad(x, x)\n    return y',
        "I0602",
        ":3:9",
    ),
    "annotation": ("@T.prim_func\ndef f(A):\n    pass", "T0301", ":2:7"),
    "rank": ('@T.prim_func\ndef f(A: T.Buffer((8, 2), "float32")):\n    A[0] = T.float32(1)', "T0101", ":3:"),
    "dtype": ('@T.prim_func\ndef f(A: T.Buffer((8,), "float32")):\n    A[0] = T.int32(1)', "T0102", ":3:"),
    "type": ("@R.function\ndef f(x: 3):\n    return x", "R0401", ":2:10"),
    "branch": (
        '@R.function\ndef f(c: R.Tensor((), "bool")):\n    if c:\n        a = c\n    return c',
        "R0402",
        ":3:",
    ),
    "output": (
        '@R.function\ndef f(x: R.Tensor((2,), "float32")):\n    with R.dataflow():\n        y = x\n    return y',
        "R0402",
        ":4:",
    ),
    "shape": (
        '@R.function\ndef f(x: R.Tensor((2, 3), "float32")):\n    y = R.matmul(x, x)\n    return y',
        "R0203",
        ":3:",
    ),
    "bare": ("x = 1", "I0601", ""),
}


@pytest.mark.parametrize("name", WRONG)
def test_wrong_text_has_a_code_and_a_place(name):
    text, code, place = WRONG[name]
    with pytest.raises(HeddleError) as caught:
        from_source(text)
    assert caught.value.code == code
    assert place in str(caught.value)


def test_misspelt_operator_is_suggested():
    with pytest.raises(ParseError, match="did you mean"):
        from_source(WRONG["attribute"][0])


def test_nothing_of_the_text_is_executed():
    with pytest.raises(ParseError):
        from_source("@T.prim_func\ndef f(x: T.int32):\n    T.evaluate(x.__class__.__mro__)")


@pytest.mark.parametrize("call", ['T.cast(A[0], "int32")', 'T.cast("int32", A[0])', 'T.Cast("int32", A[0])'])
def test_casts_take_the_value_and_the_dtype_in_either_order(call):
    source = """
@T.prim_func
def main(A: T.Buffer((1,), "float32"), B: T.Buffer((1,), "int32")):
    B[0] = {}
"""
    func = from_source(source.format(call))
    assert_structural_equal(func, from_source(source.format('T.Cast("int32", A[0])')))


@pytest.mark.parametrize(
    "body",
    ["T.Cast('int64', 0)", "T.Cast('bool', T.Not(True))", "T.Cast('float32', T.Shuffle([1, 2], [1]))"],
)
def test_numbers_in_nodes_become_constants(body: str) -> None:
    text = f"@T.prim_func\ndef f(A: T.Buffer((4,), 'float32')):\n    A[0] = T.Cast('float32', {body})\n"
    func = from_source(text)
    assert_structural_equal(from_source(str(func)), func)


def test_names_that_are_words_keep_the_order_of_attributes() -> None:
    func = Program["main"].with_attrs({"a": 1, "global_symbol": "from", "b": 2})
    mod = Program.with_functions({**Program.functions, GlobalVar("from"): func})
    assert check_round_trip(mod) is None


def test_a_type_of_functions_has_sizes_of_its_own() -> None:
    """Of two values the types are equal although each has a size that is its own."""
    text = """
@I.ir_module
class Module:
    @R.function
    def main(f: R.Callable((R.Tensor(("n",), "float32"),), R.Tensor(("n",), "float32"))):
        m = T.int64()
        g: R.Callable((R.Tensor((m,), "float32"),), R.Tensor((m,), "float32")) = f
        return g
"""
    mod = from_source(text)
    assert_structural_equal(from_source(str(mod)), mod)
