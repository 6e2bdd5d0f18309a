"""Hostile models: `python -m tests.fuzz.onnx_models --count 10000 --seed 1 --jobs 1`.

Each mutation of a model (a case of `onnx.backend.test`, or a graph of `tests.fuzz.graphs`) is written to a
file, imported, compiled and called twice, with its case's inputs and random ones. Each step ends in a result
or in a HeddleError that is no InternalError, within `SECONDS` of processor time and `MEGABYTES` of address
space beyond the start, and the process lives on.

Workers are processes. Each writes the number of its mutation before it begins, so that a crash or a hang
names the one that did it: `--only NUMBER` repeats it here, `--keep FILE` writes its model too.
"""

from __future__ import annotations

import argparse
import random
import sys
import tempfile
import time
import traceback
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import onnx

from heddle.driver.compile import build
from heddle.driver.values import as_argument
from heddle.frontend.onnx import from_onnx
from heddle.runtime import cpu
from heddle.support.diagnostics import HeddleError, InternalError
from heddle.target import Target
from heddle.vm.relax import VirtualMachine
from tests.e2e.onnx_board import cases, data_sets, model_of
from tests.fuzz.artefacts import limit_memory
from tests.fuzz.graphs.run import case_of
from tests.fuzz.mutate import mutate_bytes
from tests.fuzz.mutate_messages import Pool, mutate_message
from tests.fuzz.workers import Count, Watch, run_numbers

SECONDS = 60.0
MEGABYTES = 6 << 10
MOST_BYTES = 1 << 18
DONORS = 200
GRAPHS_SHARE = 0.25
BYTES_SHARE = 0.1
DIMS = (0, 1, 2, 3, 5, 17)
MOST_ELEMENTS = 1 << 20


class Fuzzer:
    """Mutates, imports, compiles and runs in this process. A mutation is its seed and number."""

    def __init__(self, seed: int, run: bool = True) -> None:
        self._seed, self._run = seed, run
        self._names = sorted(name for name in cases() if name.split("/")[0] in ("node", "simple"))
        rng = random.Random(seed)
        donors = [model_of(cases()[name]) for name in rng.sample(self._names, DONORS)]
        self._donors = Pool([model for model in donors if model.ByteSize() <= MOST_BYTES])
        self._target = Target("llvm -opt-level=0")
        self._path = Path(tempfile.mkdtemp()) / "model.onnx"
        self.count = Count()

    def model(self, rng: random.Random) -> tuple[bytes, list[list[Any]]]:
        """The bytes of a mutated model, and inputs of the model that it was."""
        if rng.random() < GRAPHS_SHARE:
            case = case_of(rng.randrange(1 << 30))
            model, given = (
                case.model,
                [[made[value.name] for value in case.model.graph.input] for made in case.inputs],
            )
        else:
            name = rng.choice(self._names)
            model = model_of(cases()[name])
            given = [inputs for inputs, _ in data_sets(cases()[name], model)]
        if rng.random() < BYTES_SHARE or model.ByteSize() > MOST_BYTES:
            return mutate_bytes(rng, model.SerializeToString()), given
        made = onnx.ModelProto()
        made.CopyFrom(model)
        mutate_message(rng, made, self._donors)
        return made.SerializeToString(), given

    def one(self, number: int, keep: Path | None = None) -> None:
        rng = random.Random(f"{self._seed} {number}")
        data, given = self.model(rng)
        (keep or self._path).write_bytes(data)
        stage = "import"
        try:
            with warnings.catch_warnings(), np.errstate(all="ignore"):
                warnings.simplefilter("ignore")
                mod = from_onnx(keep or self._path)
                stage = "compile"
                if self._run:
                    mode = rng.choice(("bytecode", "bytecode", "compiled"))
                    made = build(mod, self._target, exec_mode=mode)
                    main = VirtualMachine(made, cpu())["main"]
                    stage = "run"
                    self._call(rng, main, data, given)
            self.count.outcomes["accepted"] += 1
        except InternalError:
            self._fault(number, stage)
        except HeddleError as error:
            self.count.outcomes[f"{stage} {error.code}"] += 1
        except Exception:
            self._fault(number, stage)

    def _call(self, rng: random.Random, main: Any, data: bytes, given: list[list[Any]]) -> None:
        graph = onnx.load_from_string(data).graph
        stored = {item.name for item in graph.initializer}
        wanted = [value for value in graph.input if value.name not in stored]
        for inputs in (given[0] if given else None, [_random_input(rng, value) for value in wanted]):
            if inputs is None or len(inputs) != len(wanted) or any(item is None for item in inputs):
                self.count.calls["no inputs"] += 1
                continue
            try:
                main(*(as_argument(item) for item in inputs))
                self.count.calls["result"] += 1
            except InternalError:
                raise
            except HeddleError as error:
                self.count.calls[str(error.code)] += 1

    def _fault(self, number: int, doing: str) -> None:
        error: BaseException | None = sys.exc_info()[1]
        while error is not None and error.__cause__ is not None:
            error = error.__cause__
        frames = traceback.extract_tb(error.__traceback__) if error else []
        own = [frame for frame in frames if "heddle" in frame.filename] or frames
        where = (
            f"{type(error).__name__} {own[-1].filename.rsplit('/', 1)[-1]}:{own[-1].lineno}" if own else "?"
        )
        text = f"mutation {number} of seed {self._seed}, {doing}:\n{traceback.format_exc(limit=-6)[-3000:]}"
        if where not in self.count.faults:
            print(f"FAULT {where}: {text}", flush=True)
        self.count.fault(where, text)


def _random_input(rng: random.Random, value: onnx.ValueInfoProto) -> Any:
    """An array for an input of tensors; None for another."""
    kind = value.type.tensor_type
    try:
        dtype = onnx.helper.tensor_dtype_to_np_dtype(kind.elem_type)
    except (KeyError, ValueError):
        return None
    dims = [dim.dim_value if dim.HasField("dim_value") else rng.choice(DIMS) for dim in kind.shape.dim]
    if not value.type.HasField("tensor_type") or any(not 0 <= dim <= MOST_ELEMENTS for dim in dims):
        return None
    if len(dims) > 16 or np.prod([float(dim) for dim in dims]) > MOST_ELEMENTS:
        return None
    values = np.random.default_rng(rng.getrandbits(32)).integers(-3, 12, dims)
    if dtype == np.object_:
        return values.astype(str).astype(object)
    with np.errstate(all="ignore"):
        return values.astype(dtype)


def fuzz(count: int, seed: int, jobs: int = 1, run: bool = True, first: int = 0) -> Count:
    """Run mutations `first` up to `first + count` in `jobs` processes."""
    watch = Watch(lambda: limit_memory(MEGABYTES), SECONDS, told_each=250)
    return run_numbers(Fuzzer(seed, run), range(first, first + count), jobs, watch)


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--count", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--first", type=int, default=0, help="the first number")
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--no-run", action="store_true", help="only import")
    parser.add_argument("--only", type=int, help="repeat one mutation in this process")
    parser.add_argument("--keep", type=Path, help="with --only: where its model is written")
    chosen = parser.parse_args()
    begin = time.perf_counter()
    if chosen.only is not None:
        fuzzer = Fuzzer(chosen.seed, not chosen.no_run)
        limit_memory(MEGABYTES)
        fuzzer.one(chosen.only, chosen.keep)
        total = fuzzer.count
    else:
        total = fuzz(chosen.count, chosen.seed, chosen.jobs, not chosen.no_run, chosen.first)
    done = sum(total.outcomes.values()) + total.num_faults
    print(f"{done} mutations in {time.perf_counter() - begin:.0f} s")
    print(f"outcomes: {dict(total.outcomes.most_common())}")
    print(f"calls: {dict(total.calls.most_common())}")
    print(f"{total.num_faults} faults at {len(total.faults)} places")
    print("\n".join(total.faults.values()))
    return 1 if total.faults else 0


if __name__ == "__main__":
    sys.exit(main())
