"""Serve a program from several threads.

    python examples/serve_from_threads.py

A machine serves one thread at a time, because it keeps memory between calls. The executable is shared:
weights and code are there once. Here each worker thread makes a machine of its own, and requests of different
lengths wait in one queue.
"""

import queue
import threading

import numpy as np

import heddle
from heddle import relax
from heddle.script import from_source

NUM_WORKERS = 3
MODEL = from_source("""
@I.ir_module
class Model:
    @R.function
    def main(x: R.Tensor(("n", 8), "float32")) -> R.Tensor((8,), "float32"):
        y = R.nn.softmax(x, axis=-1)
        z = R.mean(y, axis=0)
        return z
""")


def expected(x: np.ndarray) -> np.ndarray:
    powers = np.exp(x - x.max(axis=-1, keepdims=True))
    return (powers / powers.sum(axis=-1, keepdims=True)).mean(axis=0)


def serve(executable: relax.VMExecutable, requests: queue.Queue, answers: dict[int, np.ndarray]) -> None:
    """Answer requests, (number, array), until None comes."""
    machine = relax.VirtualMachine(executable, heddle.cpu())
    while (request := requests.get()) is not None:
        number, x = request
        answers[number] = machine["main"](x).numpy()


def main() -> None:
    executable = heddle.compile(MODEL, target="llvm")
    rng = np.random.default_rng(0)
    inputs = [rng.standard_normal((int(rng.integers(1, 50)), 8), "float32") for _ in range(40)]

    requests: queue.Queue = queue.Queue()
    answers: dict[int, np.ndarray] = {}
    workers = [
        threading.Thread(target=serve, args=(executable, requests, answers)) for _ in range(NUM_WORKERS)
    ]
    for worker in workers:
        worker.start()
    for item in enumerate(inputs):
        requests.put(item)
    for _ in workers:
        requests.put(None)
    for worker in workers:
        worker.join()

    for number, x in enumerate(inputs):
        np.testing.assert_allclose(answers[number], expected(x), rtol=1e-5, atol=1e-6)
    print(len(answers), "requests answered by", NUM_WORKERS, "threads")


if __name__ == "__main__":
    main()
