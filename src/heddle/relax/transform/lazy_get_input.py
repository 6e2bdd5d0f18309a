"""LazyGetInput: fetch each of the model's parameters through a callback when it is first needed.

def main(x, w):                                def main(x, fget_param):
    R.func_attr({"num_input": 1})                  R.func_attr({"num_input": 1})
    return R.matmul(x, w)                   →      w_untyped = fget_param(0, "w")
                                                   w = R.match_cast(w_untyped, R.Tensor((4, 8)))
                                                   return R.matmul(x, w)
"""

from __future__ import annotations

from typing import Any, ClassVar

from heddle.ir.expr import Call, Expr, Function, StringImm, Var
from heddle.ir.transform import FunctionPass, PassContext
from heddle.ir.types import AnyType, FuncType, PrimType
from heddle.prim.nodes import constant
from heddle.relax.lazy_params import LazyRewriter
from heddle.runtime.dtype import DataType


class LazyGetInput(FunctionPass):
    """Applies to functions with a global_symbol. The callback gets a parameter's number after the inputs
    (`num_input`, by default none) and its name.
    """

    dialects: ClassVar[tuple[str, ...] | None] = ("relax",)

    def transform_function(self, func: Function, mod: Any, ctx: PassContext) -> Function:
        if "global_symbol" not in func.attrs:
            return func
        ty = FuncType((PrimType(DataType("int64")), AnyType()), AnyType(), True)
        callback = Var("fget_param", ty)

        def fetch(number: int, name: str) -> Expr:
            return Call(callback, (constant(number, "int64"), StringImm(name)))

        return LazyRewriter(mod, func, fetch, None).rewritten((callback,))
