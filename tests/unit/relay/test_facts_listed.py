"""Every fact that users' programs rely on has a test, or a reason why it has none."""

from __future__ import annotations

import ast
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import heddle as tvm
from heddle import relay
from heddle.ir.structural import assert_structural_equal
from tests.unit.relay.programs import floats, run

FOLDER = Path(__file__).parent
PASSES = """
to_a_normal_form to_basic_block_normal_form to_graph_normal_form fuse_ops defuse_ops fold_constant
dead_code_elimination eliminate_common_subexpr remove_unused_functions_and_inline lambda_lift partial_evaluate
eta_expand defunctionalization to_cps gradient lazy_gradient_init fold_scale_axis alter_op_layout
convert_layout legalize canonicalize simplify_inference_and_fast_math combine_parallel simplify_expr
dynamic_to_static merge_composite annotate_target merge_compiler_regions_and_partition_graph
capture_post_dfs_index_in_spans to_mixed_precision fake_quantization_to_integer small_passes
passes_of_python levels
"""
"""The rows of the table of passes."""
NUMBERS = {
    "1": "1 2 3 4 5 6 7 8 9 10 11 12 13 14 15",
    "2": "1 2 3 4 5 6 7 9 10",
    "3": "1 2 4 5 7 8 9 11 12 13 14 15 16",
    "4": "1 2 3 4 5",
    "5a": "0 1 3 6 7",
    "5b": "9",
    "5c": "1 4",
    "5d": "1 2 3 4",
    "5e": "1 2",
    "6": "1",
    "7": "1 2 3 4 5 7 8 10",
    "8": PASSES,
    "9": "1 2 5 6 7 9 10",
    "10": "1 2 3 4 5 6",
    "11": "1 2 3",
    "12": "1",
}
"""The facts that the document of the machine states or that programs see, by section; 0 is a table."""
FACTS = {f"{section}.{number}" for section, numbers in NUMBERS.items() for number in numbers.split()}
ELSEWHERE: dict[str, tuple[str, ...]] = {
    "4.5": (
        "test_static_tensor_arrays.py::test_names",
        "test_static_tensor_arrays.py::test_unstacked_written_and_stacked",
        "test_static_tensor_arrays.py::test_definitions_for_other_shapes",
    ),
    "9.5": (
        "test_quantized_operators.py::test_requantize_is_exact",
        "test_quantized_operators.py::test_halves",
        "test_quantized_operators.py::test_requantize_by_channels_and_with_scales_as_inputs",
    ),
    "9.6": (
        "test_quantized_operators.py::test_halves",
        "test_quantized_operators.py::test_the_configuration_holds_where_a_call_says_none",
    ),
    "9.7": (
        "test_quantized_operators.py::test_arithmetic",
        "test_quantized_operators.py::test_concatenate",
        "test_quantized_operators.py::test_dense_and_batch_matmul",
        "test_quantized_operators.py::test_conv2d",
    ),
    "10.1": ("test_dataflow_pattern.py::test_what_patterns_fit",),
    "10.2": (
        "test_dataflow_pattern.py::test_one_pattern_is_one_expression",
        "test_dataflow_pattern.py::test_an_alternative_that_fails_later_is_taken_back",
    ),
    "10.4": ("test_dataflow_pattern.py::test_dominators",),
    "10.5": (
        "test_dataflow_pattern.py::test_matches_do_not_overlap",
        "test_dataflow_pattern.py::test_what_is_used_outside_is_not_taken",
        "test_dataflow_pattern.py::test_callbacks_see_types_where_they_ask",
    ),
    "11.1": ("test_plan_devices.py::test_functions_are_put_on_devices",),
    "11.2": ("test_plan_devices.py::test_names_of_devices",),
    "11.3": (
        "test_plan_devices.py::test_copies_are_where_the_device_changes",
        "test_plan_devices.py::test_branches_and_matches",
        "test_plan_devices.py::test_closures_and_recursion",
    ),
    "8.to_a_normal_form": ("test_to_a_normal_form.py::test_primitive_functions_are_atoms",),
    "8.partial_evaluate": ("test_partial_evaluate.py::test_programs_before_and_after",),
    "8.fold_scale_axis": ("test_fold_scale_axis.py::test_factors_stay_where_values_would_change",),
    "8.lazy_gradient_init": ("test_lazy_gradient_init.py::test_values_and_types_stay",),
    "8.small_passes": (
        "test_passes.py::test_programs_before_and_after",
        "test_small_passes.py::test_parallel_products_are_batched",
        "test_manifest_lifetimes.py::test_names_end_behind_their_last_use",
    ),
}
"""Facts that tests without numbers state, beside those that have them."""
LEFT_OUT = {
    "5a.1, the order in closures": "What a closure has bound follows its arguments in the registers here.",
    "5a.3, a shape of (1,)": "The document of the machine says rank 0, and that rules.",
    "5d.2, None and texts": "No type of Relay has them: a run with one is refused.",
    "5e.2, the order of passes": "Relay takes the pipeline of all dialects; what it does is tested.",
    "6.1": "The sizes of results come from the records of operators, to which users' programs cannot add.",
    "7.4, memory pools": "The compiler plans all memory by itself, and refuses pools.",
    "8.fuse_ops, 256 operators": "A group has 64 at most, so that no kernel is one expression of hundreds.",
    "8.fuse_ops, max_function_args": "No target here limits the arguments of a kernel.",
    "8.eliminate_common_subexpr, states": "No operator has a state here: generators of chance take a key.",
    "8.simplify_expr, constants of floats": "Merged, they would round otherwise; integers are merged.",
    "8.small_passes, RemoveStandaloneReshapes": "Reshapes are views from the beginning, not calls of memory.",
    "9.2, other dtypes": "Other floats and integers are converted, which no program that TVM takes can tell.",
    "9.6, float32 on SSE 4.1": "Integers are computed on every machine, so that results are the same on all.",
    "9.10, other conversions": "Settings that ask for other conversions or rounding are refused.",
}
"""A fact, or what of it, and the reason in a sentence."""


def _functions(path: Path) -> list[str]:
    return [node.name for node in ast.parse(path.read_text()).body if isinstance(node, ast.FunctionDef)]


NAMES = [name for path in sorted(FOLDER.glob("test_facts_*.py")) for name in _functions(path)]


def _tested() -> set[str]:
    numbers = {".".join(found) for name in NAMES for found in re.findall(r"_(\d+[a-e]?)_(\d+)", name)}
    return numbers | {
        f"8.{row}" for row in PASSES.split() if any(name.startswith(f"test_8_{row}") for name in NAMES)
    }


def test_every_fact_is_tested_or_left_out_with_a_reason() -> None:
    assert sorted(FACTS - _tested() - ELSEWHERE.keys() - LEFT_OUT.keys()) == []
    assert sorted({key.partition(",")[0] for key in LEFT_OUT} - FACTS) == []
    assert sorted(ELSEWHERE.keys() - FACTS) == []
    assert not _tested() & LEFT_OUT.keys()
    assert all(re.fullmatch(r"[A-Z].*[^.]\.", reason) for reason in LEFT_OUT.values())


@pytest.mark.parametrize("fact", ELSEWHERE)
def test_tests_without_numbers_are_there(fact: str) -> None:
    for place in ELSEWHERE[fact]:
        file, _, name = place.partition("::")
        assert name in _functions(FOLDER / file), place


def test_12_1_the_most_used_forms() -> None:
    """In one program: variables, constants, types, operators, lets, tuples, globals, type variables."""
    mod, a = tvm.IRModule(), relay.TypeVar("a")
    p, same = relay.Var("p", a), relay.GlobalVar("same")
    mod[same] = relay.Function([p], p, a, [a])
    x = relay.var("x", relay.TensorType((1, 2, 4, 4), "float32"))
    w, t = relay.var("w", shape=(3, 2, 3, 3)), relay.Var("t")
    net = relay.nn.relu(relay.nn.conv2d(relay.Call(same, [x]), w, padding=(1, 1)))
    low = relay.qnn.op.dequantize(relay.cast(net, "int8"), relay.const(0.5), relay.const(0))
    body = relay.Let(t, relay.Tuple([relay.add(net, relay.const(1.0)), low]), t)
    mod["main"] = relay.Function([x, w], body)
    mod = relay.transform.InferType()(mod)
    kind = relay.FuncType([x.type_annotation], x.type_annotation)
    assert isinstance(kind, relay.FuncType) and [*relay.analysis.free_vars(body)] == [x, w]
    assert_structural_equal(relay.parse(mod.astext()), mod)
    values: tuple[Any, ...] = floats(1, 2, 4, 4), floats(3, 2, 3, 3)
    with tvm.transform.PassContext(opt_level=3):
        lib = relay.build(mod, target="llvm", params={"w": values[1]})
    wanted = run(mod, *values)
    for found in (
        relay.create_executor("graph", mod).evaluate()(*values),
        relay.create_executor("vm", mod, tvm.cpu(), "llvm").evaluate()(*values),
    ):
        np.testing.assert_allclose(found[0].numpy(), wanted[0], rtol=1e-4, atol=1e-5)
    assert lib.get_graph_json()
    free = relay.var("n", shape=(relay.Any(), 2))
    assert relay.transform.InferType()(tvm.IRModule.from_expr(relay.exp(free)))["main"].ret_type is not None
