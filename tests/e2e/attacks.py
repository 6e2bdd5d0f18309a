"""Programs that try to get out of script text, each as a `model.py`; and a process that runs them all.

A file that an attack would write is named by the environment variable CANARY.
"""

from __future__ import annotations

import contextlib
import io
import json
import sys
from pathlib import Path

_LOOPS = """
@I.ir_module
class Module:
    @T.prim_func
    def k(A: T.Buffer((8,), "float32"), I: T.Buffer((8,), "int32"), B: T.Buffer((8,), "float32")):
{body}
    @R.function
    def main(x: R.Tensor((8,), "float32"), i: R.Tensor((8,), "int32")) -> R.Tensor((8,), "float32"):
        cls = Module
        y = R.call_tir(cls.k, (x, i), out_ty=R.Tensor((8,), "float32"))
        return y
"""
_GRAPH = """
@I.ir_module
class Module:
    @R.function{options}
    def main(x: R.Tensor((8,), "float32")):
{body}
"""


def _loops(body: str) -> str:
    return _LOOPS.format(body="\n".join(" " * 8 + line for line in body.strip().split("\n")))


def _graph(body: str, options: str = "(pure=False)") -> str:
    lines = "\n".join(" " * 8 + line for line in body.strip().split("\n"))
    return _GRAPH.format(body=lines, options=options)


_EACH = "for i in range(8):\n    "
SHELL = "touch $CANARY"

_ARRAY = 'R.const(1.0, "float32").data.numpy()'
REFUSED = {
    "library of an array": _graph(f'y = {_ARRAY}.ctypes._ctypes.CDLL(None).system(b"{SHELL}")\nreturn x'),
    "file of an array": _graph(f'y = {_ARRAY}.tofile("canary")\nreturn x'),
    "array in an attribute": _graph("return x").replace(
        "    @R.function", f'    I.module_attrs({{"k": {_ARRAY}.ctypes}})\n    @R.function'
    ),
    "format of a class": _graph('y = str.format("{0.__globals__}", range)\nreturn x'),
    "padding by a class": _graph('y = R.const(int.from_bytes(str.ljust("a", 300000000), "big"))\nreturn x'),
    "bytes by a class": _graph('y = int.to_bytes(1, 300000000, "big")\nreturn x'),
    "what a namespace imports": _graph("y = R.frozen(R.Tensor)\nreturn x"),
    "module of a function": _graph('y = R.const.__globals__["np"]\nreturn x'),
    "class of a node": _loops("A.dtype.numpy()\nT.evaluate(0)"),
    "hidden method of a node": _loops("T.evaluate(A._vector_index(0, A.dtype))"),
    "method of a constant": _graph('y = R.const(1.0, "float32")\nz = y.script()\nreturn y'),
    "metadata": _graph('y = metadata.index.__globals__["os"]\nreturn x'),
    "extern": _loops('T.evaluate(T.call_extern("int32", "system", B.data))'),
    "extern with a text": _loops(f'T.evaluate(T.call_extern("int32", "system", "{SHELL}"))'),
    "extern as a value": _loops(_EACH + 'B[i] = T.call_extern("float32", "system", A[i])'),
    "pure extern": _loops(_EACH + 'B[i] = T.call_pure_extern("float32", "getpid")'),
    "extern in an index": _loops(_EACH + 'B[T.call_extern("int32", "getpid")] = A[i]'),
    "extern in a bound": _loops('for i in range(T.call_extern("int32", "getpid")):\n    B[i] = A[i]'),
    "extern in a condition": _loops('if T.call_extern("int32", "getpid") > 0:\n    B[0] = A[0]'),
    "extern in a let": _loops(
        'B[0] = T.Let(T.Cast("float32", v), where={T.Var("v", "int32"): T.call_extern("int32", "getpid")})'
    ),
    "extern by intrinsic": _loops('T.evaluate(T.call_intrin("int32", "tir.call_extern", "getpid"))'),
    "llvm intrinsic": _loops('T.evaluate(T.call_llvm_intrin("void", "llvm.trap"))'),
    "pure llvm intrinsic": _loops('B[0] = T.call_llvm_pure_intrin("float32", "llvm.returnaddress")'),
    "packed function": _loops('T.evaluate(T.call_packed("os.system", "touch $CANARY"))'),
    "address": _loops("T.evaluate(T.address_of(A[0]))"),
    "address by intrinsic": _loops('T.evaluate(T.call_intrin("handle", "tir.address_of", A[0]))'),
    "access pointer": _loops(
        'T.evaluate(T.call_intrin("handle", "tir.tvm_access_ptr", T.float32(0), A.data, 1000000, 4, 3))'
    ),
    "pointer as a value": _loops("T.evaluate(B.data)"),
    "pointer from a number": _loops('T.evaluate(T.reinterpret("handle", T.int64(4096)))'),
    "pointer to a number": _loops('B[0] = T.Cast("float32", T.reinterpret("int64", A.data))'),
    "argument of the calling convention": _loops(
        'T.evaluate(T.call_intrin("int64", "tir.arg_value", A.data, 0))'
    ),
    "pointer bits": _loops('T.evaluate(T.call_intrin("int64", "tir.pointer_bits", A.data))'),
    "calling convention": _loops('T.func_attr({"calling_conv": "packed"})\n' + _EACH + "B[i] = A[i]"),
    "machine calls": _loops('T.evaluate(T.call_intrin("int32", "tir.vm_goto", 1))'),
    "promise": _loops('T.evaluate(T.call_intrin("bool", "tir.assume", A[0] > A[1]))\nB[0] = A[0]'),
    "larger view": _loops(
        'C = T.decl_buffer((100000000,), "float32", data=A.data)\n' + _EACH + "B[i] = C[i + 99999990]"
    ),
    "allocation over a pointer": _loops(
        'C = T.alloc_buffer((100000000,), "float32", data=A.data)\n' + _EACH + "B[i] = C[i + 99999990]"
    ),
    "pragma with LLVM IR": _loops('with T.attr(0, "pragma_import_llvm", "x"):\n    B[0] = A[0]'),
    "pragma with C": _loops('with T.attr(0, "pragma_import_c", "x"):\n    B[0] = A[0]'),
    "strides": """
@I.ir_module
class Module:
    @T.prim_func
    def k(a: T.handle, B: T.Buffer((8,), "float32")):
        A = T.match_buffer(a, (8,), "float32", strides=(100000000,))
        for i in range(8):
            B[i] = A[i]
    @R.function
    def main(x: R.Tensor((8,), "float32")) -> R.Tensor((8,), "float32"):
        cls = Module
        y = R.call_tir(cls.k, (x,), out_ty=R.Tensor((8,), "float32"))
        return y
""",
    "element offset": """
@I.ir_module
class Module:
    @T.prim_func
    def k(a: T.handle, B: T.Buffer((8,), "float32")):
        A = T.match_buffer(a, (8,), "float32", elem_offset=1099511627776)
        for i in range(8):
            B[i] = A[i]
    @R.function
    def main(x: R.Tensor((8,), "float32")) -> R.Tensor((8,), "float32"):
        cls = Module
        y = R.call_tir(cls.k, (x,), out_ty=R.Tensor((8,), "float32"))
        return y
""",
    "packed from the graph": _graph('y = R.call_packed("os.system", x, ty_args=R.Object)\nreturn y'),
    "pure packed": _graph(
        'y = R.call_pure_packed("os.system", x, ty_args=R.Tensor((8,), "float32"))\nreturn y'
    ),
    "packed with destination": _graph(
        'y = R.call_dps_packed("os.system", (x,), out_ty=R.Tensor((8,), "float32"))\nreturn y'
    ),
    "packed in place": _graph(
        'y = R.call_inplace_packed("os.system", x, inplace_indices=[0], ty_args=R.Tensor((8,), "float32"))\n'
        "return y"
    ),
    "external function": _graph('y = R.ExternFunc("os.system")(x, ty_args=R.Object)\nreturn y'),
    "external function as a closure": _graph(
        'f = R.make_closure(R.ExternFunc("os.system"), (x,))\n'
        "y = R.invoke_closure(f, (), ty_args=R.Object)\n"
        "return y"
    ),
    "files": _graph(
        'y = R.call_packed("vm.builtin.tensor_cache.load", R.str("/"), R.prim_value(1), R.prim_value(0), '
        "ty_args=R.Object)\nreturn y"
    ),
    "shared tensors": _graph(
        'y = R.call_packed("vm.builtin.tensor_cache.get", R.str("w"), ty_args=R.Object)\nreturn y'
    ),
    "python functions": _graph(
        'y = R.call_packed("vm.builtin.get_py_func", R.str("f"), ty_args=R.Object)\nreturn y'
    ),
    "debug function": _graph(
        'y = R.call_packed("vm.builtin.invoke_debug_func", x, R.str("f"), R.str(""), ty_args=R.Object)\n'
        "return y"
    ),
    "files with the machine": _graph(
        'y = R.call_builtin_with_ctx("vm.builtin.tensor_cache.load", (R.str("/"), R.prim_value(1), '
        "R.prim_value(0)), ty_args=R.Object)\nreturn y"
    ),
    "C source": _graph('y = R.ExternFunc("f", attrs={"c_source": "int f;"})(x, ty_args=R.Object)\nreturn y'),
}
"""Refused before anything is compiled, by every command."""

STOPPED = {
    "store after the end": _loops(_EACH + "B[i + 1] = A[i]"),
    "store far away": _loops(_EACH + "B[i + 100000000] = A[i]"),
    "store before the start": _loops(_EACH + "B[i - 1] = A[i]"),
    "store far before": _loops(_EACH + "B[i - 100000000] = A[i]"),
    "load after the end": _loops(_EACH + "B[i] = A[i + 100000000]"),
    "load before the start": _loops(_EACH + "B[i] = A[i - 100000000]"),
    "index from data": _loops(_EACH + "B[I[i] + 100000000] = A[i]"),
    "index of an index": _loops(_EACH + "B[i] = A[I[i + 100000000]]"),
    "index that wraps": _loops(_EACH + "B[(i * 1073741824) // 1073741824] = A[i]"),
    "index that wraps, in int64": _loops(
        _EACH
        + "B[(T.Cast('int64', i) * T.int64(4611686018427387904)) // T.int64(4611686018427387904)] = A[i]"
    ),
    "index of no number": _loops(_EACH + "B[T.Cast('int32', A[i] / (A[i] - A[i])) - 100] = A[i]"),
    "an unsigned index below zero": _loops(_EACH + "B[T.Cast('uint64', i - 1)] = A[i]"),
    "an unsigned index that wraps": _loops(_EACH + "B[T.Cast('uint32', i) - T.uint32(1)] = A[i]"),
    "an unsigned ramp": _loops(
        _EACH + "B[T.Ramp(T.uint64(0) - T.uint64(1), T.uint64(1), 2)] = T.Broadcast(A[i], 2)"
    ),
    "an index that is a condition": _loops(_EACH + "B[T.likely(i > 0) and 500] = A[i]"),
    "a value from before a store": _loops(
        "n = T.alloc_buffer((1,), 'int32')\nn[0] = 3\nv = n[0]\nn[0] = 500\nB[n[0] - v] = A[0]"
    ),
    "a condition that no longer holds": _loops(
        "n = T.alloc_buffer((1,), 'int32')\nn[0] = 3\n"
        "if n[0] < 8 and n[0] >= 0:\n    n[0] = 100\n    B[n[0]] = A[0]"
    ),
    "a condition that wraps": _loops(
        _EACH + "if i * 1073741824 < 5:\n        B[i * 100 - 700 + T.min(i * 1073741824, 0)] = A[i]"
    ),
    "the bits of a float": _loops(_EACH + "B[T.reinterpret('int32', A[i]) + 100000000] = A[i]"),
    "loop too long": _loops("for i in range(100000000):\n    B[i] = A[0]"),
    "parallel loop too long": _loops("for i in T.parallel(100000000):\n    B[i] = A[0]"),
    "vector loop too long": _loops("for i in T.vectorized(16):\n    B[i * 8] = A[0]"),
    "unrolled loop too long": _loops("for i in T.unroll(16):\n    B[i + 100000000] = A[0]"),
    "loop that begins outside": _loops("for i in T.serial(-100000000, 0):\n    B[i] = A[0]"),
    "while": _loops(
        'n = T.alloc_buffer((1,), "int32")\nn[0] = 0\n'
        "while B[n[0]] >= T.float32(-1e30):\n    n[0] = n[0] + 1000000"
    ),
    "under a condition that does not help": _loops(_EACH + "if i < 100:\n        B[i + 100000000] = A[i]"),
    "in a branch": _loops(_EACH + "B[i] = T.if_then_else(i < 100, A[i + 100000000], T.float32(0))"),
    "in a conjunction": _loops(
        _EACH + "if i >= 0 and A[i + 100000000] >= T.float32(0):\n        B[i] = A[i]"
    ),
    "in a select": _loops(_EACH + "B[i] = T.Select(i < 0, A[i + 100000000], A[i])"),
    "in a let": _loops(_EACH + 'B[i] = T.Let(A[v], where={T.Var("v", "int32"): i + 100000000})'),
    "ramp": _loops("B[T.Ramp(100000000, 1, 4)] = T.Broadcast(A[0], 4)"),
    "ramp over the end": _loops("B[T.Ramp(6, 1, 4)] = T.Broadcast(A[0], 4)"),
    "temporary": _loops(
        'C = T.alloc_buffer((8,), "float32")\n' + _EACH + "C[i] = A[i]\n" + _EACH + "B[i] = C[i * 100000000]"
    ),
    "block": _loops(
        "for i in range(8):\n    with T.sblock('b'):\n        v = T.axis.spatial(8, i)\n"
        "        B[v + 100000000] = A[v]"
    ),
    "block with a false domain": _loops(
        "for i in range(8):\n    with T.sblock('b'):\n        v = T.axis.spatial(8, i * 100000000)\n"
        "        B[v] = A[v]"
    ),
    "reduction": _loops(
        "for i, j in T.grid(8, 8):\n    with T.sblock('b'):\n        v, r = T.axis.remap('SR', [i, j])\n"
        "        with T.init():\n            B[v] = T.float32(0)\n"
        "        B[v] = B[v] + A[r * 100000000 + v]"
    ),
    "region": _loops(
        "for i in range(8):\n    with T.sblock('b'):\n        v = T.axis.spatial(8, i)\n"
        "        C = T.match_buffer(A[v * 1000000:v * 1000000 + 4], (4,))\n        B[v] = C[2]"
    ),
    "view that is larger": _loops(
        "for i in range(1):\n    with T.sblock('b'):\n        v = T.axis.spatial(1, i)\n"
        "        C = T.match_buffer(A[0:4], (100000000,))\n        B[v] = C[99999999]"
    ),
    "division by zero": _loops(_EACH + "B[i] = T.Cast('float32', 7 // (I[i] - I[i]))"),
    "remainder by zero": _loops(_EACH + "B[i] = T.Cast('float32', 7 % (I[i] - I[i]))"),
    "bound divided by zero": _loops("for i in range(8 // (I[0] - I[0])):\n    B[i] = A[0]"),
    "allocation of 2**60": _loops(
        'C = T.alloc_buffer((1152921504606846976,), "float32")\nC[I[0]] = A[0]\nB[0] = C[I[1]]'
    ),
    "allocation that wraps": _loops(
        'C = T.alloc_buffer((T.int64(4294967296), T.int64(4294967296)), "float32")\n'
        "C[I[0], I[1]] = A[0]\nB[0] = C[I[1], I[2]]"
    ),
    "allocation from data": _loops(
        "for j in range(1):\n    with T.sblock('b'):\n        v = T.axis.spatial(1, j)\n"
        '        C = T.sblock_alloc_buffer((I[0] - 1000000000,), "float32")\n'
        "        C[I[0]] = A[v]\n        B[v] = C[I[0]]"
    ),
    "recursion": """
@I.ir_module
class Module:
    @R.function
    def main(x: R.Tensor((8,), "float32")) -> R.Tensor((8,), "float32"):
        cls = Module
        y: R.Tensor((8,), "float32") = cls.main(x)
        z = R.add(y, x)
        return z
""",
}
"""Compiled, and stopped when they run."""


def run_all(command: list[str], folder: str, names: list[str]) -> None:
    """Run commands of the command line here, one after the other; a line of JSON about each."""
    from heddle.driver.cli.entry import main

    for name in names:
        path = Path(folder, f"{abs(hash(name))}.py")
        path.write_text({**REFUSED, **STOPPED}[name])
        sys.__stdout__.write(json.dumps({"begins": name}) + "\n")
        sys.__stdout__.flush()
        out, err = io.StringIO(), io.StringIO()
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            code = main([command[0], str(path), *command[1:]])
        sys.__stdout__.write(json.dumps({"name": name, "code": code, "err": err.getvalue()}) + "\n")
        sys.__stdout__.flush()


if __name__ == "__main__":
    run_all(json.loads(sys.argv[1]), sys.argv[2], json.loads(sys.argv[3]))
