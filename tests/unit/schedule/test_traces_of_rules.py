"""What a rule did to a kernel can be done to an equal one, and saved."""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import partial

import pytest

from heddle.driver.pipeline import legalize_passes, optimize_passes
from heddle.ir.json_codec import load_json, save_json
from heddle.ir.structural import assert_structural_equal
from heddle.ir.transform import PassContext
from heddle.lower.default_schedule import ApplyDefaultSchedule, Scheduled
from heddle.script import from_source
from heddle.target import Target
from heddle.tir.nodes import PrimFunc
from heddle.tir.schedule import Schedule, Trace

NETWORK = """
@I.ir_module
class Module:
    @R.function
    def main(
        x: R.Tensor(({batch}, 64), "float32"),
        w: R.Tensor((64, 256), "float32"),
        image: R.Tensor((1, 8, 12, 12), "float32"),
        kernel: R.Tensor((16, 8, 3, 3), "float32"),
        mixed: R.Tensor((64, 16, 1, 1), "float32"),
    ):
        with R.dataflow():
            h = R.nn.relu(R.matmul(x, w))
            p = R.nn.softmax(R.multiply(h, h))
            s = R.permute_dims(p)
            c = R.nn.relu(R.nn.conv2d(image, kernel, padding=1))
            d = R.nn.max_pool2d(R.nn.conv2d(c, mixed), [2, 2], [2, 2])
            R.output(s, d)
        return s, d
"""


def scheduled(batch: str) -> Iterator[Scheduled]:
    """What the rules make of each kernel of the network."""
    target = Target("llvm -mcpu=x86-64-v3")
    mod = from_source(NETWORK.format(batch=batch))
    with PassContext():
        for each in (*optimize_passes(target), *legalize_passes(target)):
            if isinstance(each, ApplyDefaultSchedule):
                break
            mod = each(mod)
    for func in mod.functions.values():
        made = each.scheduled(func, Schedule) if isinstance(func, PrimFunc) else None
        if made is not None and made.schedule.trace.insts:
            yield made


@pytest.mark.parametrize("batch", ["32", '"n"'])
def test_traces_apply_to_equal_kernels_and_can_be_saved(batch: str) -> None:
    """Buffers, sizes and variables of loops among the arguments are those of the other kernel then."""
    seen = 0
    for made in scheduled(batch):
        trace, wanted = made.schedule.trace, made.schedule.func
        kinds = {inst.kind for inst in trace.insts}
        seen += "share_output" in kinds
        for apply in (
            trace.apply_to_schedule,
            trace.simplified().apply_to_schedule,
            partial(Trace.apply_json_to_schedule, json.dumps(trace.as_json())),
        ):
            again = Schedule(load_json(save_json(made.start)), debug_mask="all")
            apply(again)
            assert_structural_equal(again.func, wanted)
    assert seen, "no kernel keeps a row in its result: the test shall have one"
