"""Compile modules to executables: `heddle.compile` and `heddle.build`."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import Any

from heddle import __version__
from heddle.codegen.backend import backend_of
from heddle.codegen.build import build as build_kernels
from heddle.codegen.c_source import c_source_modules
from heddle.codegen.cache import KernelCache
from heddle.driver.codes import D0103
from heddle.driver.dialects import in_relax
from heddle.driver.named_pipelines import PIPELINE_MAP, get_pipeline
from heddle.driver.pipeline import OptionError, default_pipeline
from heddle.driver.program_cache import BuildOptions, program_cache
from heddle.driver.signature import COMPILER, METADATA_PREFIX, PRECISION, Signature, TensorSpec
from heddle.driver.sources import is_example, module_of
from heddle.driver.targets import as_target
from heddle.driver.variants import is_several, make_variants, targets_of
from heddle.graph.nodes import SeqExpr
from heddle.graph.types import ShapeType, TensorType
from heddle.ir.expr import Expr, Function, Tuple, Var
from heddle.ir.instrument import verify_module
from heddle.ir.module import IRModule
from heddle.ir.nesting import refusing_deep_nesting
from heddle.ir.transform import Pass
from heddle.ir.types import TupleType, Type
from heddle.lower.codegen_vm import vm_codegen
from heddle.lower.program_to_tir import program_functions
from heddle.ops.load import load as load_operators
from heddle.prim.nodes import IntImm
from heddle.relax.transform.bind_params import BindParams
from heddle.runtime.kernel_module import CSourceModule, KernelModule
from heddle.runtime.module import Module
from heddle.support.collection import collection_paused
from heddle.support.diagnostics import VerifyError
from heddle.target import Target
from heddle.tir.nodes import CHECK_BOUNDS, PrimFunc
from heddle.tir.transform.check_bounds import ALL, marked
from heddle.vm.executable import LIBRARY_PREFIX
from heddle.vm.isa import FuncKind
from heddle.vm.program import CHECKS_LIFETIMES
from heddle.vm.relax.executable import VMExecutable


def compile(
    mod: Any,
    target: Any = None,
    *,
    params: Mapping[str, Any] | None = None,
    relax_pipeline: Any = "default",
    tir_pipeline: Any = "default",
    exec_mode: str = "compiled",
    precision: str = "fp32",
    sanitize: bool = False,
    example_inputs: Any = None,
    dynamic_shapes: Any = None,
) -> Module:
    """Compile a module or a function. Graph functions give an executable, loop functions alone give a kernel
    module.

    `mod` is an IRModule or a function; the path of a model in a form that `heddle run` accepts (`m.onnx`,
    script text `m.py`, which is not trusted, `m.relay`); an `onnx.ModelProto`; or a PyTorch model: a module
    with `example_inputs` and, for free sizes, `dynamic_shapes`, or a `torch.export.ExportedProgram` (see
    `heddle.frontend.torch_export.from_torch`). Example inputs may also be the second argument:
    `heddle.compile(module, (x,))`.

    `target` is a Target or its text; the default is the current target, else this machine. A list of targets
    gives one module with a variant for each; a machine runs the best variant that it can
    (`heddle.runtime.variants`). The other options are those of `build`, except that `exec_mode` is "compiled"
    by default.

    Raises: as `build`; UsageError D0101, D0108 for another `mod`; the errors of importers.
    """
    if example_inputs is None and is_example(target):
        example_inputs, target = target, None
    mod = module_of(mod, example_inputs, dynamic_shapes)
    functions = mod.functions.values() if isinstance(mod, IRModule) else (mod,)
    with refusing_deep_nesting("the compiler", functions):
        if any(isinstance(func, Function) for func in functions):
            module = mod if isinstance(mod, IRModule) else IRModule.from_expr(mod)
            return build(
                module,
                target,
                params,
                relax_pipeline,
                tir_pipeline,
                exec_mode,
                precision=precision,
                sanitize=sanitize,
            )
        if precision != "fp32":
            raise OptionError(
                D0103, f"precision {precision!r} is for graph functions: loops state their types"
            )
        loops = _pipeline("tir_pipeline", tir_pipeline, None)(
            with_bounds_checks(mod, mod.attrs.get(CHECK_BOUNDS), sanitize)
        )
        if is_several(target):
            return make_variants(targets_of(target), lambda chosen: build_kernels(loops, chosen))
        return build_kernels(loops, as_target(target))


def build(
    mod: IRModule,
    target: Any = None,
    params: Mapping[str, Any] | None = None,
    relax_pipeline: Any = "default",
    tir_pipeline: Any = "default",
    exec_mode: str = "bytecode",
    cache: KernelCache | None = None,
    precision: str = "fp32",
    sanitize: bool = False,
) -> Module:
    """Compile a graph module: run the pipeline, generate bytecode and kernels, and link them into one
    executable. A list of targets gives a `VariantsModule` of executables. Relay functions are converted with
    `to_relax` first.

    `params` are values of parameters of `main` by name; they become constants. `relax_pipeline` is "default",
    a registered name, None for a module that is already lowered, or a pass (any function from module to
    module) that takes the graph module to the form that code generation accepts. `tir_pipeline` is None or a
    pass over the loop functions, which runs before the passes of code generation. `exec_mode`: "bytecode"
    leaves graph functions to the VM's interpreter; "compiled" compiles them to machine code too. `cache`
    holds compiled kernels; the default is the process's cache. With it and the default pipelines, the whole
    program is looked up first (`heddle.driver.program_cache`).

    `precision`: "fp32" computes as the model says; "bf16" rounds the factors of products with constant
    weights to bfloat16 and accumulates in float32 (`relax.transform.ContractInBfloat16`). It applies to the
    default pipeline only; use `default_pipeline(target, precision)` to build your own.

    `sanitize` is for debugging: kernels check every buffer access, and their temporaries are filled with NaN,
    or bytes 0xAB. The machine runs the bytecode with lifetime checks, on memory that is filled with ones
    before and after use. A module with the attribute `check_bounds` has checks for accesses that are not
    proved to be in range.

    Raises: OptionError D0103 (a ValueError) for an invalid option, D0105 for targets with equal needs;
    BindingError R0208 for invalid parameters; VerifyError with the findings for an invalid program;
    UsageError H01.. for a malformed target, G02.. for C source that cannot be compiled.
    """

    def make(chosen: Target) -> VMExecutable:
        return build_for(
            mod,
            chosen,
            params,
            relax_pipeline,
            tir_pipeline,
            exec_mode,
            cache,
            precision=precision,
            sanitize=sanitize,
        )

    return make_variants(targets_of(target), make) if is_several(target) else make(as_target(target))


@collection_paused()
def build_for(
    mod: IRModule,
    chosen: Target,
    params: Mapping[str, Any] | None = None,
    relax_pipeline: Any = "default",
    tir_pipeline: Any = "default",
    exec_mode: str = "bytecode",
    cache: KernelCache | None = None,
    precision: str = "fp32",
    sanitize: bool = False,
) -> VMExecutable:
    """Compile a graph module for one target, as `build` says."""
    if exec_mode not in EXEC_MODES:
        raise OptionError(D0103, f"unknown exec_mode {exec_mode!r}: expected one of {', '.join(EXEC_MODES)}")
    load_operators()
    mod = in_relax(mod)
    if params:
        mod = BindParams("main", params)(mod)
    default = default_pipeline(chosen, precision, exec_mode)
    if precision != "fp32" and relax_pipeline != "default":
        raise OptionError(
            D0103,
            f"precision {precision!r} belongs to the default pipeline, and another relax_pipeline was given",
            help="put ContractInBfloat16 into that pipeline",
        )
    pipeline = _pipeline("relax_pipeline", relax_pipeline, default)
    lower_loops = _pipeline("tir_pipeline", tir_pipeline, None)

    def make() -> VMExecutable:
        return _compiled(mod, chosen, pipeline, lower_loops, options, cache)

    options = BuildOptions(exec_mode, precision, sanitize)
    is_default = isinstance(relax_pipeline, str) and relax_pipeline == "default"
    is_default = is_default and isinstance(tir_pipeline, str) and cache is None
    return program_cache().get(mod, chosen, options, make) if is_default else make()


def _compiled(
    mod: IRModule,
    chosen: Target,
    pipeline: Callable[[IRModule], IRModule],
    lower_loops: Callable[[IRModule], IRModule],
    options: BuildOptions,
    cache: KernelCache | None,
) -> VMExecutable:
    findings = verify_module(mod)
    if findings:
        raise VerifyError(findings[:20])
    builder, loops = vm_codegen(pipeline(mod))
    for var, func in mod.functions.items():
        if isinstance(func, Function):
            builder.metadata[METADATA_PREFIX + var.name_hint] = function_signature(func).to_json()
    builder.metadata[COMPILER] = f"heddle {__version__}"
    if options.precision != "fp32":
        builder.metadata[PRECISION] = options.precision
    if options.sanitize:
        builder.metadata[CHECKS_LIFETIMES] = "yes"
    if mod.attrs.get(LIBRARY_PREFIX):
        builder.metadata[LIBRARY_PREFIX] = str(mod.attrs[LIBRARY_PREFIX])
    loops = with_bounds_checks(lower_loops(loops), mod.attrs.get(CHECK_BOUNDS), options.sanitize)
    modules = [*kernel_modules(loops, chosen, cache), *c_source_modules(mod, chosen)]
    executable = builder.get(imports=modules)
    return with_machine_code(executable, chosen, cache) if options.exec_mode == "compiled" else executable


def with_bounds_checks(loops: Any, mode: Any = None, sanitize: bool = False) -> Any:
    """Mark loop functions (of a module, or a single one) for `CheckBounds`."""
    wanted = ALL if sanitize else mode
    if wanted is None:
        return loops
    if isinstance(loops, PrimFunc):
        return marked(loops, str(wanted))
    table = {
        var: marked(func, str(wanted)) if isinstance(func, PrimFunc) else func
        for var, func in loops.functions.items()
    }
    return loops.with_functions(table)


def _pipeline(option: str, given: Any, default: Pass | None) -> Callable[[Any], Any]:
    """Return the pass for an option; the identity if there is none."""
    if given is None or (isinstance(given, str) and given == "default"):
        chosen = default if given is not None else None
        return chosen if chosen is not None else lambda mod: mod
    if isinstance(given, str) and option == "relax_pipeline" and given in PIPELINE_MAP:
        return get_pipeline(given)  # type: ignore[no-any-return]
    if not callable(given):
        raise OptionError(D0103, f"unknown {option} {given!r}: expected 'default', None or a pass")
    return given  # type: ignore[no-any-return]


EXEC_MODES = ("bytecode", "compiled")


def with_machine_code(
    executable: VMExecutable, target: Any = None, cache: KernelCache | None = None
) -> VMExecutable:
    """Return the program with machine code for its bytecode functions. The bytecode stays for observers.

    The executable may also be loaded from a file or built by hand.
    """
    chosen, program = as_target(target), executable.program
    native = [module for module in executable.imports if isinstance(module, KernelModule)]
    kernels = [name for module in native for name in module.names]
    made = build_kernels(program_functions(program, kernels), chosen, cache)
    joined = backend_of(chosen).join(native, made, chosen)
    rows = tuple(
        replace(row, kind=FuncKind.VMTIR, register_file_size=max(row.register_file_size, row.num_args + 1))
        if row.kind is FuncKind.VM and row.has_bytecode
        else row
        for row in program.functions
    )
    others = [module for module in executable.imports if not _is_joined(module)]
    return VMExecutable(replace(program, functions=rows), [joined, *others])


def _is_joined(module: Module) -> bool:
    """Whether `join` takes all of a module. A user's C keeps its text, apart from the code."""
    return isinstance(module, KernelModule) and type(module) is not CSourceModule


def kernel_modules(mod: IRModule, target: Target, cache: KernelCache | None = None) -> list[KernelModule]:
    """Compile the loop functions of a module to machine code."""
    if not any(isinstance(func, PrimFunc) for func in mod.functions.values()):
        return []
    return [build_kernels(mod, target, cache)]


def function_signature(func: Function) -> Signature:
    """Return the parameters and results of a graph function, by the names in its text. A result that is a
    variable has its name; other results are numbered. Items of a nested tuple are numbered after the tuple's
    name."""
    result = func.ret_ty if func.ret_ty is not None else func.body.ty
    body = func.body.body if isinstance(func.body, SeqExpr) else func.body
    outputs = tuple(_outputs(body, result, None, ()))
    return Signature(tuple(_spec(var.name_hint, var.ty) for var in func.params), outputs)


def _outputs(
    value: Expr | None, ty: Type | None, name: str | None, path: tuple[int, ...]
) -> Iterator[TensorSpec]:
    """The outputs in a result, and where they lie in it. `name` is the one that the tuple around it gives."""
    if isinstance(value, Var) and (path or not isinstance(ty, TupleType)):
        name = value.name_hint
    if not isinstance(ty, TupleType):
        yield _spec(name or "output_0", ty, path)
        return
    parts = value.fields if isinstance(value, Tuple) else (None,) * len(ty.fields)
    for index, (part, part_ty) in enumerate(zip(parts, ty.fields, strict=True)):
        yield from _outputs(part, part_ty, f"{name}.{index}" if name else f"output_{index}", (*path, index))


def _spec(name: str, ty: Type | None, path: tuple[int, ...] = ()) -> TensorSpec:
    if not isinstance(ty, TensorType):
        kind = "shape" if isinstance(ty, ShapeType) else type(ty).__name__.removesuffix("Type").lower()
        return TensorSpec(name, kind=kind, path=path)
    shape = (
        None
        if ty.dims is None
        else tuple(int(dim.value) if isinstance(dim, IntImm) else str(dim) for dim in ty.dims)
    )
    return TensorSpec(name, None if ty.dtype is None else str(ty.dtype), shape, path=path)
