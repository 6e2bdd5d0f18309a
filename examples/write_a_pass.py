"""Write a pass, and see the program before and after it.

    python examples/write_a_pass.py

A pass is a function from module to module. This one works on graph functions binding by binding: where both
operands of an addition are one value, it multiplies by two instead.
"""

from dataclasses import dataclass

import numpy as np

import heddle
from heddle import relax
from heddle.graph.rewriter import BindingRewriter, is_call
from heddle.ir.expr import Call, Expr, Function, Var
from heddle.ir.module import IRModule
from heddle.ir.transform import FunctionPass, PassContext
from heddle.script import from_source

MODEL = from_source("""
@I.ir_module
class Model:
    @R.function
    def main(x: R.Tensor(("n",), "float32")) -> R.Tensor(("n",), "float32"):
        with R.dataflow():
            a = R.add(x, x)
            b = R.exp(a)
            c = R.add(b, x)
            R.output(c)
        return c
""")


class _Doubler(BindingRewriter):
    def rewrite(self, var: Var, value: Expr) -> Expr | None:
        """The value that a variable gets; None would drop the binding."""
        if isinstance(value, Call) and is_call(value, "relax.add") and value.args[0] is value.args[1]:
            return relax.op.multiply(value.args[0], relax.const(2.0, "float32"))
        return value


@dataclass(frozen=True)
class DoubleInsteadOfAdd(FunctionPass):
    """x + x → x * 2"""

    dialects = ("relax",)

    def transform_function(self, func: Function, mod: IRModule, ctx: PassContext) -> Function:
        return _Doubler(mod).run(func)


def main() -> None:
    print("before:")
    print(MODEL.script())
    changed = DoubleInsteadOfAdd()(MODEL)
    print("after:")
    print(changed.script())

    x = np.random.default_rng(0).standard_normal(7, "float32")
    results = [
        relax.VirtualMachine(heddle.compile(mod), heddle.cpu())["main"](x).numpy() for mod in (MODEL, changed)
    ]
    np.testing.assert_array_equal(results[0], results[1])
    print("both compute the same")


if __name__ == "__main__":
    main()
