"""Concatenations of many tensors in several steps."""

from __future__ import annotations

from typing import Any

from heddle.ir.expr import Tuple
from heddle.ir.pass_options import option
from heddle.relay.transform.rewriting import RewritePass, call, is_call
from heddle.support.frozen import frozen


@frozen
class SplitArgs(RewritePass):
    """Concatenate at most `max_function_args` tensors at a time; a kernel of no step takes more.

        concatenate((%a, %b, %c), axis=1)

    becomes, with 2,

        %0 = annotation.stop_fusion(concatenate((%a, %b), axis=1));
        concatenate((%0, %c), axis=1)
    """

    max_function_args: int = option(at_least=2)
    opt_level = 1

    def rewrite(self, old: Any, new: Any) -> Any:
        if not is_call(old, "concatenate") or not isinstance(new.args[0], Tuple):
            return new
        fields, most, axis = list(new.args[0].fields), self.max_function_args, old.attrs.axis
        if len(fields) <= most:
            return new
        while len(fields) > most:
            groups = [fields[k : k + most] for k in range(0, len(fields), most)]
            fields = [
                call("annotation.stop_fusion", call("concatenate", Tuple(tuple(group)), axis=axis))
                if len(group) > 1
                else group[0]
                for group in groups
            ]
        return call("concatenate", Tuple(tuple(fields)), axis=axis)
