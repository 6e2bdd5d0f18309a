"""Requests from many threads: `heddle.Session` beside ONNX Runtime's session, in turn, in one process.

python -m benchmarks.serving bert-32 resnet50 --clients 1,8,64 --threads 2

Names are workloads (`python -m benchmarks --list`) or networks (`python -m benchmarks.zoo --list`).
"""

from __future__ import annotations

import argparse
import threading
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import onnxruntime

import heddle
from benchmarks import workloads
from benchmarks.measure import relative_error
from benchmarks.zoo import catalogue
from heddle.runtime.native.library import set_num_threads


def throughput(call: Callable[[], Any], num_clients: int, seconds: float) -> tuple[float, np.ndarray]:
    """Requests a second, and the latencies in seconds at 50 and 99 percent. The first request is not counted:
    threads of the previous engine still spin, and the caches hold its weights."""
    call()
    stop, latencies = time.perf_counter() + seconds, list[float]()

    def client() -> None:
        while (start := time.perf_counter()) < stop:
            call()
            latencies.append(time.perf_counter() - start)

    clients = [threading.Thread(target=client) for _ in range(num_clients)]
    start = time.perf_counter()
    for each in clients:
        each.start()
    for each in clients:
        each.join()
    return len(latencies) / (time.perf_counter() - start), np.percentile(latencies, [50, 99])


def model_and_request(name: str) -> tuple[str, list[np.ndarray]]:
    """The file of a workload or of a network, and the arrays of its first request."""
    if name in workloads.WORKLOADS:
        (workload,) = workloads.chosen([name])
        return str(workload.path()), workload.requests()[0]
    (network,) = catalogue.chosen([name], "all")
    return str(network.path()), network.arrays(network.sizes[0])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="+", help="workloads, or networks of the zoo")
    parser.add_argument("--clients", default="1,8,64")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--seconds", type=float, default=2.0)
    parser.add_argument("--repeat", type=int, default=2)
    options = parser.parse_args()
    set_num_threads(options.threads)
    for model in options.names:
        path, arrays = model_and_request(model)
        ours = heddle.Session(path, num_machines=options.threads)
        how = onnxruntime.SessionOptions()
        how.intra_op_num_threads = options.threads
        peer = onnxruntime.InferenceSession(path, how, providers=["CPUExecutionProvider"])
        given = {each.name: array for each, array in zip(peer.get_inputs(), arrays, strict=True)}
        calls = {"heddle": lambda: ours.run(*arrays), "onnxruntime": lambda: peer.run(None, given)}  # noqa: B023
        error = relative_error(list(calls["heddle"]().values()), calls["onnxruntime"]())
        for num_clients in map(int, options.clients.split(",")):
            best: dict[str, tuple[float, np.ndarray]] = {}
            for _ in range(options.repeat):
                for name, call in calls.items():
                    found = throughput(call, num_clients, options.seconds)
                    best[name] = max(best.get(name, found), found, key=lambda figures: figures[0])
            text = "; ".join(
                f"{name} {rate:.0f} requests/s, {1e3 * p50:.1f} and {1e3 * p99:.1f} ms at 50 and 99%"
                for name, (rate, (p50, p99)) in best.items()
            )
            ratio = best["heddle"][0] / best["onnxruntime"][0]
            print(f"{model}, {num_clients} clients: {ratio:.2f} ({text}; error {error:.1e})", flush=True)
        ours.close()


if __name__ == "__main__":
    main()
