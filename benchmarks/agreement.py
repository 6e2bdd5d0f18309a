"""Whole models against the outside world, sizes that users meet: numbers first, times elsewhere.

    python benchmarks/agreement.py [--check] [resnet50 ... bert gpt2 vit loop]

CNNs of the onnx package: outputs against the file that the package stores for them (constant weights), and
with random He-scaled weights against ONNX Runtime, the input of the last softmax included: a softmax that
saturates hides what goes into it. Transformers of full size: compiled once, then run at a grid of batches,
sequence and past lengths; a counter of compiled kernels must not move while they run. `--check` verifies and
round-trips the module after every pass. Errors are the largest difference relative to the output's scale.
Exit status 1 where one is above its limit.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT / "src"), str(ROOT)]

LIMIT, STORED_LIMIT = 1e-4, 1e-3  # onnx compares with stored outputs at 1e-3
BATCHES, SEQUENCES, PASTS = (1, 3), (1, 7, 32, 128, 511), (0, 1, 63)
TRANSFORMERS = ("bert", "gpt2", "vit")


def relative_error(got: Sequence[np.ndarray], expected: Sequence[np.ndarray]) -> float:
    """The largest difference, relative to the largest expected value of its output."""
    worst = 0.0
    for mine, theirs in zip(got, expected, strict=True):
        if mine.shape != theirs.shape or mine.dtype != theirs.dtype or not np.isfinite(mine).all():
            return float("inf")
        if theirs.size:
            worst = max(worst, float(np.abs(mine - theirs).max() / max(np.abs(theirs).max(), 1e-30)))
    return worst


def runner(model: Any, check: bool) -> Any:
    """Compile a model for good: a function from arrays to a list of arrays."""
    import heddle
    from heddle import relax
    from heddle.frontend.onnx import from_onnx
    from heddle.ir.instrument import VerifyEach
    from heddle.ir.transform import PassContext
    from heddle.script.round_trip import RoundTripEach

    with PassContext(instruments=[VerifyEach(), RoundTripEach()] if check else []):
        executable = heddle.compile(from_onnx(model), target="llvm")
    machine = relax.VirtualMachine(executable, heddle.cpu())

    def run(*arrays: np.ndarray) -> list[np.ndarray]:
        made = machine["main"](*arrays)
        return [item.numpy() for item in (made if isinstance(made, (tuple, list)) else (made,))]

    return run


def session(model: Any) -> Any:
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    source = str(model) if isinstance(model, Path) else model.SerializeToString()
    peer = onnxruntime.InferenceSession(source, options, providers=["CPUExecutionProvider"])
    names = [item.name for item in peer.get_inputs()]
    return lambda *arrays: peer.run(None, dict(zip(names, arrays, strict=True)))


def cnn(name: str, check: bool) -> Iterator[tuple[str, float, float]]:
    from tests.e2e.model_zoo import light_model, ramp_input, stored_light_model, with_logits

    model, expected = stored_light_model(name)
    image = ramp_input(model)
    yield f"{name} stored", relative_error(runner(model, check)(image), [expected]), STORED_LIMIT
    model = with_logits(light_model(name))
    image = np.random.default_rng(0).standard_normal(image.shape).astype(np.float32)
    yield f"{name} He-scaled", relative_error(runner(model, False)(image), session(model)(image)), LIMIT


def transformer(kind: str, check: bool) -> Iterator[tuple[str, float, float]]:
    from tests.e2e.model_zoo import exported, sample_inputs
    from tests.e2e.torch_modules import BASE, GPT2

    from heddle.codegen.cache import kernel_cache

    sizes = GPT2 if kind == "gpt2" else BASE
    path = exported(kind, sizes)
    run, peer = runner(path, check), session(path)
    before = (kernel_cache().counters.compiles, kernel_cache().counters.hits)
    for batch in BATCHES:
        for seq in SEQUENCES if kind != "vit" else (0,):
            for past in PASTS if kind == "gpt2" else (0,):
                arrays = sample_inputs(kind, sizes, batch, seq, past)
                label = f"{kind} batch {batch} sequence {seq} past {past}"
                yield label, relative_error(run(*arrays), peer(*arrays)), LIMIT
    after = (kernel_cache().counters.compiles, kernel_cache().counters.hits)
    yield f"{kind} kernels compiled or looked up while running", float(after != before), 0.0


def loop(_name: str, check: bool) -> Iterator[tuple[str, float, float]]:
    from onnx.reference import ReferenceEvaluator
    from tests.e2e.model_zoo import loop_model

    model = loop_model("start")
    run, peer, reference = runner(model, check), session(model), ReferenceEvaluator(model)
    for trips, limit in ((5, 100.0), (50, 100.0), (0, 1.0), (5, -1.0)):
        arrays = [np.array([1, 2, 3], np.float32), np.asarray(trips, np.int64), np.asarray(limit, np.float32)]
        got = run(*arrays)
        yield f"loop trips {trips} limit {limit}", relative_error(got, peer(*arrays)), LIMIT
        if got[1].size:  # onnx's evaluator stacks scan outputs as rows, and fails where there are none
            y, sums, z = reference.run(None, dict(zip(("x", "n", "limit"), arrays, strict=True)))
            label = f"loop trips {trips} limit {limit}, onnx's evaluator"
            yield label, relative_error(got, [y, sums.reshape(-1), z]), LIMIT


def main() -> int:
    from tests.e2e.model_zoo import LIGHT

    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("names", nargs="*", default=[*LIGHT, *TRANSFORMERS, "loop"])
    parser.add_argument("--check", action="store_true", help="verify and round-trip after every pass")
    options = parser.parse_args()
    failed = 0
    for name in options.names:
        case = cnn if name in LIGHT else transformer if name in TRANSFORMERS else loop
        start = time.perf_counter()
        for label, error, limit in case(name, options.check):
            verdict = "ok" if error <= limit else "WRONG"
            failed += verdict != "ok"
            print(f"{label:60s} {error:8.1e}  {verdict}", flush=True)
        print(f"{name}: {time.perf_counter() - start:.0f} s", flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    raise SystemExit(main())
