"""The prelude as Python sees it: its functions by name, and tensor arrays by element type."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from heddle.ir.expr import GlobalVar
from heddle.ir.module import IRModule
from heddle.ir.node import Map
from heddle.ir.type_data import Constructor, GlobalTypeVar, TypeCall, TypeData
from heddle.relay.codes import Q0106
from heddle.relay.parser import RelayParser
from heddle.relay.static_tensor_array import StaticTensors, known_shape, shape_name
from heddle.relay.tensor_array import DTYPES, program, tensor_array_text, tensor_type_name
from heddle.relay.text_values import type_text
from heddle.relay.typed import infer_local, infer_module
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
        return _constructor(self.mod.type_definition(ty_name), self.get_name(canonical, dtype))

    def get_tensor_ctor(self, canonical: str, dtype: str) -> Constructor:
        """A constructor of `tensor_t`: tensor_nil, tensor0, ... Raises: as `get_ctor`."""
        return self.get_ctor(tensor_type_name(dtype), canonical, dtype)

    def get_name_static(
        self, canonical: str, dtype: str, shape: Sequence[Any], batch_dim: int | None = None
    ) -> str:
        """The name of what TVM calls `canonical`, for an element type and a shape."""
        tensors = StaticTensors(dtype, known_shape(shape), batch_dim)
        return tensors.type_name if canonical == "tensor_t" else f"{canonical}_{tensors.suffix}"

    def get_global_var_static(
        self, canonical: str, dtype: str, shape: Sequence[Any], batch_dim: int | None = None
    ) -> GlobalVar:
        """A function of the arrays that `StaticTensorArrayOps` registered. Raises: MissingNameError I0301."""
        return self.mod.get_global_var(self.get_name_static(canonical, dtype, shape, batch_dim))

    def get_type_static(self, canonical: str, dtype: str, shape: Sequence[Any]) -> GlobalTypeVar:
        """The data type `tensor_t` of tensors of a shape. Raises: MissingNameError I0305."""
        return self.mod.get_global_type_var(self.get_name_static(canonical, dtype, shape))

    def get_ctor_static(self, ty_name: str, name: str, dtype: str, shape: Sequence[Any]) -> Constructor:
        """A constructor of what TVM calls `ty_name`. Raises: MissingNameError Q0106, I0305."""
        definition = self.mod.type_definition(self.get_name_static(ty_name, dtype, shape))
        return _constructor(definition, self.get_name_static(name, dtype, shape))

    def get_tensor_ctor_static(self, name: str, dtype: str, shape: Sequence[Any]) -> Constructor:
        """tensor_nil or tensor_constructor. Raises: as `get_ctor_static`."""
        return self.get_ctor_static("tensor_t", name, dtype, shape)

    def _register(self, dtype: str) -> None:
        _check_dtype(dtype)
        if GlobalTypeVar(tensor_type_name(dtype)) not in self.mod.type_definitions:
            self._define(f"tensor_array_{dtype}", tensor_array_text(dtype))

    def _define(self, name: str, text: str, anew: bool = False) -> None:
        """Add what a text defines; functions that are there stay, unless `anew`."""
        made = infer_module(RelayParser(Source(name, text), self.mod).module())
        new = Map({var: func for var, func in made.functions.items() if anew or var not in self.mod})
        self.mod.update(IRModule(new, type_definitions=made.type_definitions))


def _check_dtype(dtype: str) -> None:
    if dtype not in DTYPES:
        raise UsageError(
            Q0106, f"there are no tensor arrays of {dtype!r}", help=f"the types are {', '.join(DTYPES)}"
        )


def _constructor(definition: TypeData, name: str) -> Constructor:
    found = definition.constructor(name)
    if found is None:
        known = [item.name_hint for item in definition.constructors]
        ty_name = definition.header.name_hint
        raise MissingNameError(
            Q0106, f"{ty_name} has no constructor {name!r}", help=did_you_mean(name, known)
        )
    return found


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
    define_tensor_array_stack = define_tensor_array_gather = register
    """Whoever asks for one definition gets all of the element type: they use each other."""

    def get_name(self, canonical: str) -> str:
        """As `Prelude.get_name`, for the element type."""
        return self.prelude.get_name(canonical, self.dtype)

    def get_global_var(self, canonical: str) -> GlobalVar:
        """As `Prelude.get_global_var`, for the element type."""
        return self.prelude.get_global_var(canonical, self.dtype)

    def get_type(self, canonical: str) -> GlobalTypeVar:
        """As `Prelude.get_type`, for the element type."""
        return self.prelude.get_type(canonical, self.dtype)

    def get_ctor(self, canonical: str) -> Constructor:
        """As `Prelude.get_tensor_ctor`, for the element type."""
        return self.prelude.get_tensor_ctor(canonical, self.dtype)


class StaticTensorArrayOps:
    """The tensor arrays of one element type whose tensors have one shape; `relay.Any()` for free sizes."""

    def __init__(
        self, prelude: Prelude, dtype: str, shape: Sequence[Any], batch_dim: int | None = None
    ) -> None:
        """Raises: UsageError Q0106 for other element types."""
        _check_dtype(dtype)
        self.prelude, self.dtype, self.shape, self.batch_dim = prelude, dtype, shape, batch_dim
        self._tensors = StaticTensors(dtype, known_shape(shape), batch_dim)

    def register(self) -> None:
        """Add the definitions to the prelude's module, those of scatter and split with free sizes."""
        self._all()
        self.define_tensor_array_scatter()
        if self._tensors.shape[:1] == (None,):
            self.define_tensor_array_split()

    def _all(self) -> None:
        self._define(self._tensors, *self._tensors.functions())

    define_tensor_adt = define_tensor_take = define_tensor_concatenate = define_tensor_expand_dims = _all
    define_tensor_get_data = define_tensor_array = define_tensor_array_read = define_tensor_array_write = _all
    define_tensor_array_unstack = define_tensor_array_stack = define_tensor_array_concat = _all
    define_tensor_array_gather = _all
    """Whoever asks for one definition gets all: they use each other."""

    def define_tensor_array_scatter(
        self, indices_shape: Sequence[Any] | None = None, force_update: bool = False
    ) -> None:
        """Add scatter for numbers of a shape; one that is there stays, unless `force_update`."""
        self._all()
        indices = None if indices_shape is None else known_shape(indices_shape)
        self._define(self._tensors, self._tensors.scatter(indices), anew=force_update)

    def define_tensor_array_split(
        self,
        value_shape: Sequence[Any] | None = None,
        lengths_shape: Sequence[Any] | None = None,
        force_update: bool = False,
    ) -> None:
        """Add split for a tensor and lengths of these shapes; one that is there stays, unless `force_update`.

        Raises: UsageError Q0106 where the first size of the array's tensors is not free.
        """
        if self._tensors.shape[:1] != (None,):
            raise UsageError(
                Q0106,
                f"tensors of shape {shape_name(self._tensors.shape)} come of no split",
                help="the first size is that of each part: make it relay.Any()",
            )
        self._all()
        value, lengths = (
            None if shape is None else known_shape(shape) for shape in (value_shape, lengths_shape)
        )
        if value is not None:
            whole = self._tensors.of(value)
            self._define(whole, *whole.functions())
        self._define(self._tensors, self._tensors.split(value, lengths), anew=force_update)

    def _define(self, tensors: StaticTensors, *functions: str, anew: bool = False) -> None:
        known = self.prelude.mod.type_definitions
        new = (each.type_text() for each in tensors.used() if GlobalTypeVar(each.type_name) not in known)
        self.prelude._define(tensors.type_name, program(*dict.fromkeys(new), *functions), anew)

    def is_cached(self, name: str) -> bool:
        """Whether the module has a function of what TVM calls `name`."""
        return self.get_name(name) in {var.name_hint for var in self.prelude.mod.functions}

    def get_name(self, canonical: str, extra_shapes: Sequence[Sequence[Any]] | None = None) -> str:
        """The name, and behind it the other shapes that a definition has."""
        name = self.prelude.get_name_static(canonical, self.dtype, self.shape, self.batch_dim)
        return "_".join((name, *(shape_name(known_shape(shape)) for shape in extra_shapes or ())))

    def get_global_var(self, canonical: str) -> GlobalVar:
        """A function that was registered. Raises: MissingNameError I0301."""
        return self.prelude.mod.get_global_var(self.get_name(canonical))

    def get_type(self, canonical: str) -> GlobalTypeVar:
        """The data type `tensor_t`. Raises: MissingNameError I0305."""
        return self.prelude.mod.get_global_type_var(self.get_name(canonical))

    def get_ctor(self, canonical: str) -> Constructor:
        """tensor_nil or tensor_constructor. Raises: MissingNameError Q0106."""
        definition = self.prelude.mod.type_definition(self.get_name("tensor_t"))
        return _constructor(definition, self.get_name(canonical))


def get_tensor_array_shape(expr: Any, dtype: str, prelude: Prelude) -> tuple[Any, ...] | None:
    """The shape of the tensors in an array; None where it is known only when a program runs.

    Raises: UsageError Q0106 where the expression is no tensor array of the element type.
    """
    ty = infer_local(expr, prelude.mod)
    item = ty.args[0] if isinstance(ty, TypeCall) and len(ty.args) == 1 else None
    header = item.func if isinstance(item, TypeCall) else item
    if header == GlobalTypeVar(tensor_type_name(dtype)):
        return None
    name = header.name_hint if isinstance(header, GlobalTypeVar) else ""
    if not name.startswith(f"static_tensor_{dtype}_"):
        raise UsageError(Q0106, f"expected a tensor array of {dtype}, got {type_text(ty)}")
    tensor: Any = prelude.mod.type_definition(name).constructors[1].inputs[0]
    return tuple(tensor.shape)
