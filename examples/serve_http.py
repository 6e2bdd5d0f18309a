"""Serve a model over HTTP with FastAPI: a session answers many clients, whose requests share calls.

    pip install "heddle-compiler[serve]"
    python examples/serve_http.py

Starts the service on a free port, asks it from 16 threads, checks every answer against numpy, and stops it.
"""

import json
import threading
import time
import urllib.request
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import uvicorn
from fastapi import FastAPI, HTTPException

import heddle
from heddle.script import from_source

MODEL = from_source("""
@I.ir_module
class Classifier:
    @R.function
    def main(x: R.Tensor(("batch", 8), "float32")) -> R.Tensor(("batch", 8), "float32"):
        return R.nn.softmax(x, axis=-1)
""")


def service(session: heddle.Session) -> FastAPI:
    """POST /run {"x": rows} → {name: values}; GET /metrics. What a model refuses is the client's error."""
    app = FastAPI()

    @app.post("/run")
    def run(inputs: dict[str, list]) -> dict[str, list]:
        try:
            outputs = session.run(inputs, timeout_s=5.0)
        except TimeoutError as error:
            raise HTTPException(503, str(error)) from error
        except heddle.HeddleError as error:
            raise HTTPException(422, str(error)) from error
        return {name: array.tolist() for name, array in outputs.items()}

    @app.get("/metrics")
    def metrics() -> dict:
        return session.metrics().as_dict()

    return app


def ask(url: str, body: object) -> dict:
    request = urllib.request.Request(url, json.dumps(body).encode(), {"Content-Type": "application/json"})
    with urllib.request.urlopen(request) as answer:
        return json.load(answer)


def main() -> None:
    batching = heddle.Batching(max_rows=64, max_delay_s=0.002)
    with heddle.Session(MODEL, batching=batching) as session:
        server = uvicorn.Server(uvicorn.Config(service(session), port=0, log_level="warning"))
        threading.Thread(target=server.run).start()
        while not server.started:
            time.sleep(0.01)
        url = f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}/run"

        def client(number: int) -> None:
            x = np.random.default_rng(number).standard_normal((1 + number % 3, 8)).astype("float32")
            powers = np.exp(x - x.max(axis=1, keepdims=True))
            (found,) = ask(url, {"x": x.tolist()}).values()
            np.testing.assert_allclose(found, powers / powers.sum(axis=1, keepdims=True), atol=1e-6)

        with ThreadPoolExecutor(16) as clients:
            list(clients.map(client, range(200)))
        print("200 requests answered in", "fewer" if session.metrics().num_calls < 200 else "200", "calls")
        server.should_exit = True


if __name__ == "__main__":
    main()
