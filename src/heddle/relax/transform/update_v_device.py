"""UpdateVDevice: replace virtual device number `index` of the module's list.

I.module_global_infos({"vdevice": [llvm:0, llvm:1]})           [llvm:0, cuda:0]
x: R.Tensor((n,), "float32", "llvm:1")                   →     x: R.Tensor((n,), "float32", "cuda:0")
y = R.to_vdevice(z, "llvm:1")                                  y = R.to_vdevice(z, "cuda:0")
"""

from __future__ import annotations

from typing import Any

from heddle.graph.codes import R0207
from heddle.graph.copying import Copier
from heddle.graph.types import VDevice
from heddle.graph.vdevices import LISTED, listed
from heddle.ir.module import IRModule
from heddle.ir.pass_options import option
from heddle.ir.structural import structural_equal
from heddle.ir.transform import Pass, PassContext, map_functions
from heddle.support.diagnostics import IRTypeError
from heddle.support.frozen import frozen


@frozen(slots=False)
class UpdateVDevice(Pass):
    """Every mention of the old device, in types, constants and operators, becomes the new one.

    Raises: IRTypeError R0207 for a number that the list does not have.
    """

    new_vdevice: VDevice
    index: int = option(at_least=0)

    def transform(self, mod: IRModule, ctx: PassContext) -> IRModule:
        devices = list(listed(mod))
        if not 0 <= self.index < len(devices):
            raise IRTypeError(
                R0207, f"the module lists {len(devices)} virtual devices, not number {self.index}"
            )
        old, devices[self.index] = devices[self.index], self.new_vdevice
        changed = map_functions(
            mod, ("relax",), lambda _var, func: _Replacer(old, self.new_vdevice).visit(func)
        )
        return changed.with_global_info(LISTED, devices)


class _Replacer(Copier):
    def __init__(self, old: VDevice, new: VDevice) -> None:
        super().__init__()
        self._old, self._new = old, new

    def visit_VDevice(self, node: Any) -> Any:
        return self._new if structural_equal(node, self._old) else node
