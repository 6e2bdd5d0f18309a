"""Where each public name lives. This is the one place that knows both TVM's dotted names and our rooms.

`EXPORTS` maps a public module to (room module → names, `public=own` where they differ). A public module for
which there is a room keeps the room's own names; one without is made of its exports alone. `ALIASES` are
second names of modules, submodules included. `PASSES` says in which packages the passes of a public module
lie, one to a file.
Everything is text: nothing is imported before it is asked for.
"""

from __future__ import annotations

ALIASES: dict[str, str] = {
    "heddle.tirx": "heddle.tir",
    "heddle.sym": "heddle.arith",
    "heddle.relax.frontend": "heddle.frontend",
    "heddle.script.tirx": "heddle.script.tir",
    "heddle.nd": "heddle.runtime",
    "heddle.relax.testing.vm": "heddle.testing.vm",
    "heddle.relax.testing.lib_comparator": "heddle.testing.lib_comparator",
    "heddle.s_tir.schedule": "heddle.tir.schedule",
    "heddle.relax.transform.transform": "heddle.relax.transform",
    "heddle.relax.analysis.type_relations": "heddle.graph.type_relations",
    "heddle.relax.binding": "heddle.graph.binding",
    "heddle.relax.block_builder": "heddle.graph.block_builder",
    "heddle.relax.copying": "heddle.graph.copying",
    "heddle.relax.infer": "heddle.graph.infer",
    "heddle.relax.nodes": "heddle.graph.nodes",
    "heddle.relax.normalize": "heddle.graph.normalize",
    "heddle.relax.num_input": "heddle.graph.num_input",
    "heddle.relax.op": "heddle.graph.op",
    "heddle.relax.op_builder": "heddle.graph.op_builder",
    "heddle.relax.rewriter": "heddle.graph.rewriter",
    "heddle.relax.te_call": "heddle.graph.te_call",
    "heddle.relax.types": "heddle.graph.types",
    "heddle.relax.vdevices": "heddle.graph.vdevices",
}

WORDS: dict[str, str] = {"heddle.relay": "heddle.relay.op"}
"""Public modules that have the operators of a dialect as functions, and the module that makes them."""

PASSES: dict[str, tuple[str, ...]] = {
    "heddle.relax.transform": (
        "heddle.relax.transform",
        "heddle.lower",
        "heddle.lower.loops",
        "heddle.lower.recursion",
    ),
    "heddle.relax.backend": ("heddle.lower",),
    "heddle.relay.transform": ("heddle.relay.transform",),
    "heddle.tir.transform": ("heddle.tir.transform",),
    "heddle.s_tir.transform": ("heddle.tir.transform",),
}

_DEVICES = "Device cpu cuda device ext_dev hexagon metal opencl rocm vulkan webgpu"
_GLOBAL_FUNCTIONS = "get_global_func list_global_func_names register_global_func remove_global_func"
_STRUCTURAL = "assert_structural_equal structural_equal structural_hash"
_SCALARS = {
    "heddle.prim.nodes": (
        "Add And Broadcast Call Cast Div EQ FloatImm FloorDiv FloorMod GE GT IntImm LE LT Let Max Min Mod "
        "Mul NE Not Or "
        "Expr=PrimExpr PrimExpr Ramp Range Select Shuffle SizeVar Sub Var const=constant"
    ),
    "heddle.prim.ops": (
        "all any bitwise_and bitwise_not bitwise_or bitwise_xor call_intrin ceildiv div floordiv floormod "
        "if_then_else infinity max=maximum max_value min=minimum min_value shift_left shift_right truncdiv "
        "truncmod"
    ),
    "heddle.prim.intrinsics": (
        "abs acos acosh asin asinh atan atan2 atanh call_extern call_llvm_intrin call_llvm_pure_intrin "
        "call_packed "
        "call_pure_extern ceil copysign cos cosh erf exp exp2 exp10 floor fmod hypot isfinite isinf isnan "
        "likely log "
        "log10 log1p log2 nearbyint popcount power pow=power reinterpret round rsqrt sigmoid sin sinh sqrt "
        "tan tanh trunc"
    ),
    "heddle.ir.expr": "StringImm",
}
_LOOPS = {
    **_SCALARS,
    "heddle.te.tensor": "CommReducer Reduce",
    "heddle.codegen.build": "build",
    "heddle.tir.index_map": "IndexMap",
    "heddle.tir.tensor_intrin": "TensorIntrin",
}
_SCHEDULE = {
    "heddle.tir.schedule.schedule": "ExprRV LoopRV SBlockRV BlockRV=SBlockRV Schedule",
    "heddle.tir.schedule.error": "ScheduleError",
    "heddle.tir.schedule.instruction": "Instruction",
    "heddle.tir.schedule.trace": "Trace",
}
_HOISTING = {
    "heddle.tir.transform.hoist_if": "HoistIfThenElse",
    "heddle.tir.transform.simplify": "StmtSimplify=Simplify",
    "heddle.tir.transform.user_passes": "prim_func_pass",
}
_GRAPH_NODES = {
    "heddle.ir.expr": (
        "Call Constant DataTypeImm Expr ExternFunc Function GlobalVar If StringImm Tuple TupleGetItem Var"
    ),
    "heddle.ir.types": "AnyType FuncType ObjectType=AnyType PrimType TupleType Type",
    "heddle.graph.nodes": "Binding BindingBlock DataflowBlock DataflowVar MatchCast SeqExpr VarBinding",
    "heddle.graph.types": (
        "ShapeExpr ShapeType ShapeStructInfo=ShapeType TensorType TensorStructInfo=TensorType VDevice"
    ),
}
_TREE_KERNELS = {
    "heddle.frontend.nn.llm.tree_kernels": (
        "tree_attn_cpu=tree_attn tree_attn_with_paged_kv_cache_cpu=tree_attn_with_paged_kv_cache"
    ),
}
_ROTARY_KERNELS = {"heddle.frontend.nn.llm.rotary_kernel": "llama_rope_with_position_map"}
_ATTENTION_KERNELS = {
    "heddle.frontend.nn.llm.attention_kernels": (
        "_attention_decode_cpu=attention_decode _attention_prefill_cpu=attention_prefill "
        "_attention_prefill_mla_cpu=attention_prefill_mla "
        "_attention_prefill_ragged_cpu=attention_prefill_ragged"
    ),
    "heddle.frontend.nn.llm.page_kernels": (
        "_compact_kv_copy_cpu=compact_kv_copy _copy_single_page_cpu=copy_single_page "
        "_copy_single_page_mla_cpu=copy_single_page_mla _kv_cache_debug_get_kv=kv_cache_debug_get_kv "
        "_kv_cache_debug_get_kv_mla=kv_cache_debug_get_kv_mla "
        "_kv_cache_transpose_append=kv_cache_transpose_append "
        "_kv_cache_transpose_append_mla=kv_cache_transpose_append_mla "
        "_merge_state_inplace_cpu=merge_state_inplace"
    ),
}

_WITH_FIELDS = {
    "heddle.relay.with_fields": (
        "CallWithFields ConstantWithFields FunctionWithFields IfWithFields LetWithFields "
        "RefCreateWithFields RefReadWithFields RefWriteWithFields TupleGetItemWithFields TupleWithFields "
        "VarWithFields"
    ),
}
_RELAY_BUILD = {
    "heddle.driver.relay_build": "BuildModule build optimize",
    "heddle.driver.relay_executor": "AotExecutor GraphExecutor",
}
_GRAPH_MODULES = {
    "heddle.vm.graph": "GraphModule GraphExecutorFactoryModule",
    "heddle.vm.graph.aot": "AotModule AotExecutorFactoryModule",
}

_OP_ATTRS = {
    "heddle.relay.op_attrs": (
        "register_alter_op_layout register_convert_op_layout register_fake_quantization_to_integer "
        "register_legalize register_mixed_precision_conversion"
    ),
    "heddle.ir.op": "Op",
}
_RELAY_MACHINE = {
    "heddle.driver.relay_vm": "VMCompiler compile",
    "heddle.driver.relay_executor": "VMExecutor",
    "heddle.vm.relay": "Executable VirtualMachine",
    "heddle.relay.op": "reshape_tensor shape_of=shape_of_tensor",
}

EXPORTS: dict[str, dict[str, str]] = {
    "heddle": {
        "heddle.driver.compile": "compile",
        "heddle.driver.jit.program": "jit",
        "heddle.driver.session": "Batching Session",
        "heddle.runtime.device": _DEVICES,
        "heddle.runtime.dtype": "DataType",
        "heddle.runtime.function": "get_global_func register_global_func",
        "heddle.runtime.tensor": "Tensor tensor",
        "heddle.ir.module": "IRModule",
        "heddle.codegen.build": "build",
        "heddle.support.diagnostics": "HeddleError InternalError",
    },
    "heddle.backend": {
        "heddle.driver.backend": (
            "HeddleBackend HeddleRep is_compatible prepare run_model run_node supports_device"
        ),
    },
    "heddle.relax": {
        **_GRAPH_NODES,
        "heddle.ir.structural": _STRUCTURAL,
        "heddle.graph.block_builder": "BlockBuilder",
        "heddle.graph.op_builder": "const",
        "heddle.graph.infer": "get_type=type_of",
        "heddle.graph.rewriter": "BindingRewriter",
        "heddle.relax.expr_functor": "PyExprMutator PyExprVisitor",
        "heddle.relax.script": "call_dps_packed call_packed call_tir prim_value",
        "heddle.vm.relax": "ExecBuilder VMExecutable VMInstrumentReturnKind VirtualMachine",
        "heddle.driver.compile": "build",
        "heddle.driver.pipeline": "get_default_pipeline=default_pipeline",
        "heddle.driver.named_pipelines": (
            "default_build_pipeline get_pipeline register_pipeline zero_pipeline"
        ),
    },
    "heddle.relax.expr": _GRAPH_NODES,
    "heddle.relay.frontend": {"heddle.frontend.relay_programs": "from_onnx"},
    "heddle.relay": {
        **_RELAY_BUILD,
        **_WITH_FIELDS,
        "heddle.ir.expr": "ExprWithOp=Expr",
        "heddle.runtime.params": "load_param_dict save_param_dict",
        "heddle.lower.relay_to_relax": "to_relax",
        "heddle.relay.op": "logsumexp mean_std mean_variance op_names segment_sum std variance",
        "heddle.relay.nodes": "TempExpr",
        "heddle.relay.scope_builder": "WithScope",
        "heddle.relay.storage_info": "StaticMemoryPlan StorageInfo",
        "heddle.relay.transform.function_pass": "build_config",
        "heddle.relay.transform.span_check": "SpanCheck",
        "heddle.relay.types": "is_dynamic ShapeVar",
        "heddle.ir.module": "IRModule",
    },
    "heddle.relay.op": _OP_ATTRS,
    "heddle.relay.op.op": {**_OP_ATTRS, "heddle.relay.op": "get"},
    "heddle.relay.adt": {
        "heddle.relay.builders": "PatternConstructor PatternTuple",
        "heddle.relay.nodes": "Clause Match Pattern PatternVar PatternWildcard",
        "heddle.ir.type_data": "Constructor TypeData",
    },
    "heddle.relay.expr": {
        **_WITH_FIELDS,
        "heddle.relay.builders": (
            "Call Constant Function If Let RefCreate RefRead RefWrite Tuple TupleGetItem TupleWrapper Var "
            "bind const var"
        ),
        "heddle.ir.expr": "Expr ExprWithOp=Expr GlobalVar",
    },
    "heddle.relay.function": {"heddle.relay.builders": "Function"},
    "heddle.relay.ty": {
        "heddle.relay.builders": "FuncType TensorType scalar_type",
        "heddle.ir.type_data": "GlobalTypeVar TypeCall TypeKind",
        "heddle.ir.types": "TupleType Type TypeVar",
        "heddle.relay.nodes": "Any=AnyDim IncompleteType RefType TypeRelation",
        "heddle.relay.types": "is_dynamic ShapeVar",
    },
    "heddle.relay.expr_functor": {"heddle.relay.functor": "ExprFunctor ExprMutator ExprVisitor"},
    "heddle.relay.type_functor": {"heddle.relay.functor": "TypeFunctor TypeMutator TypeVisitor"},
    "heddle.relay.build_module": {
        **_RELAY_BUILD,
        "heddle.relay.executor": "bind_params_by_name create_executor",
    },
    "heddle.relay.backend": {"heddle.driver.relay_build": "Executor Runtime"},
    "heddle.relay.backend.executor_factory": _GRAPH_MODULES,
    "heddle.relay.vm": _RELAY_MACHINE,
    "heddle.relay.backend.vm": _RELAY_MACHINE,
    "heddle.relay.backend.interpreter": {
        "heddle.relay.executor": "Executor Interpreter=Executor",
        "heddle.relay.interpreter": "Closure",
        "heddle.runtime.data": "ConstructorValue RefValue",
    },
    "heddle.relay.transform": {
        "heddle.ir.transform": "FunctionPass PassContext Sequential",
        "heddle.lower.relay_fuse_ops": "FuseOps",
        "heddle.lower.relay_plan_devices": "PlanDevices",
        "heddle.relay.layout_hooks": "LayoutConfig",
        "heddle.relay.transform.compiler_functions": (
            "InlineCompilerFunctionsBoundTo MarkCompilerFunctionsAsExtern "
            "OutlineCompilerFunctionsWithExistingGlobalSymbols"
        ),
        "heddle.relay.transform.fold_constant": "FoldConstantExpr",
        "heddle.relay.transform.function_pass": "build_config function_pass",
        "heddle.relay.transform.gradient": "gradient",
        "heddle.relay.transform.infer_type": "InferTypeLocal",
        "heddle.relay.transform.to_a_normal_form": "ToANormalFormExpr",
        "heddle.relay.transform.to_cps": "ToCPS to_cps un_cps",
        "heddle.relay.transform.defunctionalization": "Defunctionalization",
    },
    "heddle.relay.quantize": {},
    "heddle.relay.qnn": {},
    "heddle.relay.qnn.op": {},
    "heddle.relay.qnn.transform": {
        "heddle.relay.transform.qnn_canonicalize_ops": "CanonicalizeOps=QnnCanonicalizeOps",
        "heddle.relay.transform.legalize": "Legalize=QnnLegalize",
    },
    "heddle.error": {
        "heddle.support.diagnostics": "DiagnosticError=HeddleError TVMError=HeddleError",
    },
    "heddle.relax.analysis": {
        "heddle.ir.visitor": "post_order_visit",
        "heddle.graph.type_relations": "type_lca",
        "heddle.relax.analysis.well_formedness": "check_well_formed well_formed",
        "heddle.ir.instrument": "verify_module",
    },
    "heddle.relax.transform": {
        "heddle.ir.transform": "FunctionPass PassContext Sequential",
        "heddle.relax.transform.lower_runtime_builtin": "VMBuiltinLower=LowerRuntimeBuiltin",
        "heddle.relax.transform.user_passes": "dataflowblock_pass function_pass",
    },
    "heddle.relax.backend": {},
    "heddle.relax.utils": {"heddle.graph.copying": "copy_with_new_vars"},
    "heddle.relax.pipeline": {
        "heddle.driver.pipeline": "get_default_pipeline=default_pipeline",
        "heddle.driver.named_pipelines": (
            "PIPELINE_MAP default_build_pipeline get_pipeline register_pipeline zero_pipeline"
        ),
    },
    "heddle.relax.ir": {},
    "heddle.relax.ir.instrument": {"heddle.relax.analysis.instrument": "WellFormedInstrument"},
    "heddle.ir": {
        "heddle.ir.expr": "BaseFunc Call Constant Expr GlobalVar StringImm Tuple TupleGetItem Var",
        "heddle.ir.types": "FuncType PointerType PrimType TupleType Type",
        "heddle.ir.module": "IRModule",
        "heddle.ir.op": "Op",
        "heddle.relay.op_attrs": "register_op_attr",
        "heddle.relay.qnn.fake_quantization": "TensorAffineType TupleAffineType",
        "heddle.ir.node": "Map Node",
        "heddle.ir.structural": _STRUCTURAL,
        "heddle.ir.json_codec": "load_json save_json",
        "heddle.prim.nodes": "FloatImm IntImm PrimExpr Range",
        "heddle.graph.types": "VDevice",
        "heddle.support.span": "Span",
    },
    "heddle.ir.expr": {"heddle.prim.nodes": "PrimExpr Range"},
    "heddle.ir.base": {
        "heddle.ir.structural": _STRUCTURAL,
        "heddle.ir.json_codec": "load_json save_json",
        "heddle.ir.node": "Node",
    },
    "heddle.transform": {
        "heddle.ir.transform": "Pass PassContext PassInfo Sequential module_pass",
        "heddle.ir.instrument": "PrintAfterAll PrintBeforeAll",
    },
    "heddle.instrument": {
        "heddle.ir.instrument": (
            "DumpIR PassTimingInstrument PrintAfterAll PrintBeforeAll VerifyEach pass_instrument"
        ),
        "heddle.ir.transform": "PassInstrument",
        "heddle.driver.compile_profile": "CompileProfile",
    },
    "heddle.tir": {**_LOOPS, **_SCHEDULE},
    "heddle.tir.expr": {**_SCALARS, "heddle.tir.nodes": "BufferLoad IterVar", "heddle.te.tensor": "Reduce"},
    "heddle.tir.stmt": {
        "heddle.tir.nodes": (
            "AllocBuffer AssertStmt AttrStmt Bind BufferRegion BufferStore DeclBuffer Evaluate For ForKind "
            "IfThenElse "
            "MatchBufferRegion SBlock SBlockRealize SeqStmt Stmt While"
        ),
    },
    "heddle.tir.function": {
        "heddle.tir.nodes": "PrimFunc",
        "heddle.tir.index_map": "IndexMap",
        "heddle.tir.tensor_intrin": "TensorIntrin",
    },
    "heddle.tir.buffer": {"heddle.tir.nodes": "Buffer decl_buffer"},
    "heddle.tir.stmt_functor": {
        "heddle.ir.visitor": "post_order_visit",
        "heddle.tir.substitute": "substitute=substitute_stmt",
    },
    "heddle.tir.transform": _HOISTING,
    "heddle.tir.schedule": _SCHEDULE,
    "heddle.tir.analysis": {
        "heddle.tir.analysis.well_formedness": (
            "verify_well_formed verify_tirx_well_formed=verify_well_formed"
        ),
        "heddle.tir.analysis.work": "estimate_tir_flops",
    },
    "heddle.s_tir": {
        **_SCHEDULE,
        "heddle.tir.nodes": "MatchBufferRegion SBlock SBlockRealize",
        "heddle.tir.tensor_intrin": "TensorIntrin",
    },
    "heddle.s_tir.transform": _HOISTING,
    "heddle.s_tir.analysis": {"heddle.tir.analysis.work": "estimate_tir_flops"},
    "heddle.te": _SCALARS,
    "heddle.topi": {
        "heddle.topi.broadcast": "broadcast_to",
        "heddle.topi.transform": (
            "concatenate expand_dims flatten flip repeat reshape split squeeze stack strided_slice tile "
            "transpose"
        ),
        "heddle.topi.create": "arange full",
        "heddle.topi.index": "gather_nd one_hot take",
    },
    "heddle.arith": {},
    "heddle.target": {"heddle.graph.virtual_device": "VirtualDevice"},
    "heddle.runtime": {
        "heddle.runtime.device": _DEVICES,
        "heddle.runtime.dtype": "DataType dtype_of",
        "heddle.runtime.function": _GLOBAL_FUNCTIONS + " Function convert",
        "heddle.runtime.kernel_module": "KernelModule",
        "heddle.runtime.library_program": "LibraryProgram",
        "heddle.runtime.module": "FunctionModule Module load_module system_lib",
        "heddle.runtime.params": "load_param_dict save_param_dict",
        "heddle.runtime.native.library": "set_num_threads",
        "heddle.runtime.shape": "Array Map Shape ShapeTuple=Shape",
        "heddle.runtime.storage": "Allocator Storage allocator_for clear_allocators",
        "heddle.runtime.tensor": "NDArray=Tensor Tensor array=tensor empty from_dlpack tensor",
        "heddle.runtime.timing": "BenchmarkResult",
        "heddle.runtime.variants": "Variant VariantsModule variants_in",
    },
    "heddle.runtime.vm": {
        "heddle.vm.relax": "VMExecutable VMInstrumentReturnKind VirtualMachine",
        "heddle.vm.relay": "Executable",
    },
    "heddle.runtime.profiler_vm": {"heddle.vm.relay": "VirtualMachineProfiler"},
    "heddle.contrib": {},
    "heddle.contrib.graph_executor": {"heddle.vm.graph.module": "GraphModule create"},
    "heddle.contrib.pipeline_executor": {
        "heddle.vm.graph.pipeline": "PipelineExecutorFactoryModule PipelineModule pipeline_executor_enabled",
    },
    "heddle.contrib.pipeline_executor_build": {
        "heddle.driver.relay_pipeline": "PipelineConfig build export_library pipeline_executor_build_enabled",
    },
    "heddle.contrib.debugger": {},
    "heddle.contrib.debugger.debug_executor": {
        "heddle.vm.graph.debug": "GraphModuleDebug create",
        "heddle.vm.graph": "GraphModule",
    },
    "heddle.runtime.executor": {"heddle.vm.graph.aot": "AotModule"},
    "heddle.runtime.executor.aot_executor": {"heddle.vm.graph.aot": "AotModule"},
    "heddle.contrib.tvmjs": {
        "heddle.runtime.tensor_cache": (
            "_convert_bf16_to_f32=bfloat16_bits_to_float32 _convert_f32_to_bf16=float32_to_bfloat16_bits "
            "dump_tensor_cache load_tensor_cache dump_ndarray_cache=dump_tensor_cache "
            "load_ndarray_cache=load_tensor_cache"
        ),
    },
    "heddle.script": {"heddle.script.ir": "ir_module"},
    "heddle.frontend": {},
    "heddle.frontend.nn": {},
    "heddle.frontend.nn.llm": {},
    "heddle.frontend.nn.llm.kv_cache": {
        **_ATTENTION_KERNELS,
        **_TREE_KERNELS,
        **_ROTARY_KERNELS,
        "heddle.frontend.nn.llm.create": "create_paged_kv_cache",
        "heddle.vm.builtins.kv_cache": "AttnKind RopeMode",
    },
    "heddle.frontend.nn.llm.tree_attn": _TREE_KERNELS,
    "heddle.frontend.nn.llm.position_embedding": _ROTARY_KERNELS,
    "heddle.driver": {},
    "heddle.vm": {},
    "heddle.testing": {},
    "heddle.relax.testing": {},
    "heddle.support": {},
    "heddle.support.cc": {"heddle.runtime.linker": "create_executable create_shared create_staticlib"},
    "heddle.support.utils": {"heddle.support.temporary": "TempDirectory tempdir"},
    "heddle.config": {"heddle.support.limits": "Limits current_limits limits"},
    "heddle.ffi": {
        "heddle.runtime.device": "Device",
        "heddle.runtime.function": "Function get_global_func register_global_func remove_global_func",
        "heddle.runtime.shape": "Array Map Shape",
        "heddle.runtime.tensor": "from_dlpack",
        "heddle.ir.structural": "structural_equal structural_hash",
    },
    "heddle.ffi.access_path": {"heddle.ir.access_path": "AccessPath"},
    "heddle.ffi.registry": {"heddle.runtime.function": _GLOBAL_FUNCTIONS},
    "heddle.ffi.container": {"heddle.runtime.shape": "Array Map"},
}
