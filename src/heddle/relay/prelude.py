"""The prelude as Python sees it: its functions by name, and tensor arrays by element type."""

from __future__ import annotations

from heddle.ir.expr import GlobalVar
from heddle.ir.module import IRModule
from heddle.ir.node import Map
from heddle.ir.type_data import Constructor, GlobalTypeVar
from heddle.relay.codes import Q0106
from heddle.relay.parser import RelayParser
from heddle.relay.tensor_array import DTYPES, tensor_array_text, tensor_type_name
from heddle.relay.typed import infer_module
from heddle.support.diagnostics import MissingNameError, UsageError, did_you_mean
from heddle.support.span import Source


class Prelude:
    """Lists, options, trees and their functions, in `mod`: `p.map` is the GlobalVar of @map. What belongs to
    the tensor arrays of an element type is read when it is first asked for."""

    def __init__(self, mod: IRModule | None = None) -> None:
        self.mod = mod if mod is not None else IRModule()
        self.load_prelude()

    def load_prelude(self) -> None:
        """Add the definitions that the module lacks."""
        self.mod.import_from_std("prelude.rly")

    def __getattr__(self, name: str) -> GlobalVar:
        if name.startswith("_") or name == "mod":
            raise AttributeError(name)
        return self.mod.get_global_var(name)

    def get_name(self, canonical: str, dtype: str) -> str:
        """The name of what TVM calls `canonical`, for an element type."""
        return tensor_type_name(dtype) if canonical == "tensor_t" else f"{canonical}_{dtype}"

    def get_global_var(self, canonical: str, dtype: str) -> GlobalVar:
        """A function of the tensor arrays of an element type. Raises: MissingNameError I0301, UsageError
        Q0106."""
        self._register(dtype)
        return self.mod.get_global_var(self.get_name(canonical, dtype))

    def get_type(self, canonical: str, dtype: str) -> GlobalTypeVar:
        """The data type `tensor_t` for an element type. Raises: MissingNameError I0305, UsageError Q0106."""
        self._register(dtype)
        return self.mod.get_global_type_var(self.get_name(canonical, dtype))

    def get_ctor(self, ty_name: str, canonical: str, dtype: str) -> Constructor:
        """A constructor of the data type `ty_name`. Raises: MissingNameError Q0106, I0305."""
        self._register(dtype)
        name = self.get_name(canonical, dtype)
        definition = self.mod.type_definition(ty_name)
        found = definition.constructor(name)
        if found is None:
            known = [item.name_hint for item in definition.constructors]
            raise MissingNameError(
                Q0106, f"{ty_name} has no constructor {name!r}", help=did_you_mean(name, known)
            )
        return found

    def get_tensor_ctor(self, canonical: str, dtype: str) -> Constructor:
        """A constructor of `tensor_t`: tensor_nil, tensor0, ... Raises: as `get_ctor`."""
        return self.get_ctor(tensor_type_name(dtype), canonical, dtype)

    def _register(self, dtype: str) -> None:
        if dtype not in DTYPES:
            raise UsageError(
                Q0106, f"there are no tensor arrays of {dtype!r}", help=f"the types are {', '.join(DTYPES)}"
            )
        if GlobalTypeVar(tensor_type_name(dtype)) in self.mod.type_definitions:
            return
        source = Source(f"tensor_array_{dtype}", tensor_array_text(dtype))
        made = infer_module(RelayParser(source, self.mod).module())
        new = Map({var: func for var, func in made.functions.items() if var not in self.mod})
        self.mod.update(IRModule(new, type_definitions=made.type_definitions))


class TensorArrayOps:
    """The tensor arrays of one element type."""

    def __init__(self, prelude: Prelude, dtype: str) -> None:
        self.prelude, self.dtype = prelude, dtype

    def register(self) -> None:
        """Add the definitions to the prelude's module. Raises: UsageError Q0106."""
        self.prelude._register(self.dtype)

    define_tensor_adt = define_tensor_take = define_tensor_concat = define_tensor_expand_dims = register
    define_tensor_array = define_tensor_array_read = define_tensor_array_write = register
    define_tensor_array_unstack_tensor1 = define_tensor_array_unstack_tensor2 = register
    define_tensor_array_unstack_tensor3 = define_tensor_array_unstack_tensor4 = register
    define_tensor_array_unstack_tensor5 = define_tensor_array_unstack_tensor6 = register
    define_tensor_array_scatter = define_tensor_array_split = define_tensor_array_concat = register
    define_tensor_array_stack = register
    """Whoever asks for one definition gets all of the element type: they use each other."""

    def get_name(self, canonical: str) -> str:
        return self.prelude.get_name(canonical, self.dtype)

    def get_global_var(self, canonical: str) -> GlobalVar:
        return self.prelude.get_global_var(canonical, self.dtype)

    def get_type(self, canonical: str) -> GlobalTypeVar:
        return self.prelude.get_type(canonical, self.dtype)

    def get_ctor(self, canonical: str) -> Constructor:
        return self.prelude.get_tensor_ctor(canonical, self.dtype)
