"""A session: names and places of inputs, turns, timeouts, memory, batches, closing, forks."""

import asyncio
import gc
import os
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

import heddle
from heddle import Batching, Session
from heddle.driver.session.gate import Gate
from heddle.driver.session.metrics import Counters
from heddle.frontend.onnx import from_onnx
from heddle.script import from_source
from heddle.support.diagnostics import HeddleError, UsageError

TWO = from_source("""
@I.ir_module
class Two:
    @R.function
    def main(x: R.Tensor(("n", 4), "float32"), y: R.Tensor(("n", 4), "float32")) -> R.Tuple(
        R.Tensor(("n", 4), "float32"), R.Tensor(("n", 4), "float32")
    ):
        s = R.add(x, y)
        p = R.multiply(x, y)
        return (s, p)
""")
MIXED = from_source("""
@I.ir_module
class Mixed:
    @R.function
    def main(x: R.Tensor(("n", 4), "float32")) -> R.Tensor((4,), "float32"):
        return R.sum(x, axis=0)
""")


@pytest.fixture(scope="module")
def program():
    return heddle.compile(TWO)


def arrays(rows: int, seed: int = 0):
    rng = np.random.default_rng(seed)
    return [rng.standard_normal((rows, 4), "float32") for _ in range(2)]


def check(outputs, x, y):
    first, second = outputs.values()
    np.testing.assert_array_equal(first, x + y)
    np.testing.assert_array_equal(second, x * y)


@pytest.mark.parametrize("batching", [None, Batching(8, 0.001)])
def test_inputs_come_in_order_or_by_name(program, batching):
    x, y = arrays(3)
    with Session(program, batching=batching) as session:
        assert [spec.text() for spec in session.inputs] == ["float32[n, 4]"] * 2
        check(session.run(x, y), x, y)
        check(session.run({"y": y, "x": x}), x, y)
        check(session.run(inputs={"y": y, "x": x}), x, y)
        check(session.run(x.tolist(), y.tolist()), x, y)
        check(session.run_async(x, y).result(), x, y)
        check(asyncio.run(_awaited(session, x, y)), x, y)


async def _awaited(session, x, y):
    return await asyncio.wrap_future(session.run_async(x, y))


@pytest.mark.parametrize("batching", [None, Batching(8, 0.001)])
def test_wrong_inputs_are_told_and_the_next_request_works(program, batching):
    x, y = arrays(3)
    with Session(program, batching=batching) as session:
        with pytest.raises(UsageError, match="expected 2 inputs"):
            session.run(x)
        with pytest.raises(UsageError, match="expected the inputs x, y, got x, z"):
            session.run({"x": x, "z": y})
        for wrong in (y[:2], y[:, :3], y.astype("float64"), y[0]):
            with pytest.raises(heddle.HeddleError, match=r"'?y'?"):
                session.run(x, wrong)
        check(session.run(x, y), x, y)
        metrics = session.metrics()
    assert metrics.num_running == metrics.num_waiting == 0


@pytest.mark.parametrize("batching", [None, Batching(16, 0.002)])
@pytest.mark.parametrize("num_machines", [1, 3])
def test_many_threads_get_their_own_results(program, batching, num_machines):
    with Session(program, num_machines=num_machines, batching=batching) as session:

        def ask(seed):
            x, y = arrays(seed % 7, seed)
            check(session.run(x, y, timeout_s=60 if seed % 3 else None), x, y)

        with ThreadPoolExecutor(16) as clients:
            list(clients.map(ask, range(200)))
        metrics = session.metrics()
    assert metrics.num_requests == 200
    assert metrics.num_failed == metrics.num_timed_out == 0
    assert 0 < metrics.latency.p50_s <= metrics.latency.p99_s <= metrics.latency.max_s
    assert metrics.num_calls == 200 if batching is None else metrics.num_calls < 200
    assert metrics.as_dict()["latency"]["max_s"] == metrics.latency.max_s


def test_a_batch_that_fails_fails_only_the_request_at_fault():
    broken = from_source("""
@I.ir_module
class Broken:
    @R.function
    def main(x: R.Tensor(("n", 4), "float32"), i: R.Tensor(("n",), "int64")) -> R.Tensor(("n", 4), "float32"):
        t = R.const([[1, 2, 3, 4], [5, 6, 7, 8]], "float32")
        return R.add(x, R.take(t, i, axis=0, mode="fast"))
""")
    x = np.zeros((1, 4), "float32")
    with Session(heddle.compile(broken), num_machines=1, batching=Batching(4, 0.5)) as session:
        futures = [session.run_async(x, np.array([index])) for index in (0, 7, 1, 0)]
        for index in (0, 2, 3):
            assert next(iter(futures[index].result().values())).shape == (1, 4)
        with pytest.raises(heddle.HeddleError):
            futures[1].result()


def test_requests_that_cannot_be_joined_are_refused():
    with pytest.raises(UsageError, match=r"D0804.*output"):
        Session(heddle.compile(MIXED), batching=Batching())
    with pytest.raises(UsageError, match="D0804"):
        Batching(max_rows=0)


def test_a_request_that_waits_too_long_is_told(program):
    x, y = arrays(2)
    for batching in (None, Batching(100, 5.0)):
        with Session(program, num_machines=1, batching=batching) as session:
            if batching is None:
                machine = session._gate.enter()
            with pytest.raises(TimeoutError, match="D0802"):
                session.run(x, y, timeout_s=0.05)
            assert session.metrics().num_timed_out == 1
            if batching is None:
                session._gate.leave(machine)
                check(session.run(x, y), x, y)


def test_requests_that_are_given_up_stop_nobody(program):
    x, y = arrays(2)
    with Session(program, num_machines=1, batching=Batching(100, 0.05)) as session:
        for _ in range(3):
            for future in [session.run_async(x, y) for _ in range(4)]:
                future.cancel()
            time.sleep(0.1)
        check(session.run(x, y), x, y)


@pytest.mark.parametrize("batching", [None, Batching(4, 0.001)])
def test_a_session_that_nobody_has_leaves_no_threads(program, batching):
    x, y = arrays(2)
    before = threading.active_count()
    for _ in range(3):
        session = Session(program, batching=batching)
        check(session.run(x, y, timeout_s=60), x, y)
        del session
    gc.collect()
    deadline = time.monotonic() + 30
    while threading.active_count() > before and time.monotonic() < deadline:
        time.sleep(0.01)
    assert threading.active_count() <= before


def test_texts_and_sequences_go_in_and_come_out():
    onnx = pytest.importorskip("onnx", reason="ONNX models need the extra onnx")
    make, types = onnx.helper, onnx.TensorProto
    nodes = [
        make.make_node("StringNormalizer", ["t"], ["low"], case_change_action="LOWER"),
        make.make_node("SequenceAt", ["s", "i"], ["one"]),
        make.make_node("SequenceErase", ["s", "i"], ["rest"]),
    ]
    inputs = [
        make.make_tensor_value_info("t", types.STRING, ["n"]),
        make.make_tensor_sequence_value_info("s", types.FLOAT, None),
        make.make_tensor_value_info("i", types.INT64, []),
    ]
    outputs = [
        make.make_tensor_value_info("low", types.STRING, ["n"]),
        make.make_tensor_value_info("one", types.FLOAT, None),
        make.make_tensor_sequence_value_info("rest", types.FLOAT, None),
    ]
    graph = make.make_graph(nodes, "mixed", inputs, outputs)
    model = make.make_model(graph, opset_imports=[make.make_opsetid("", 17)], ir_version=9)
    sequence = [np.full((k, 2), k, "float32") for k in range(3)]
    with Session(from_onnx(model)) as session:
        for texts in (["Ab", "cD"], np.array(["Ab", "cD"]), np.array(["Ab", "cD"], object)):
            found = list(session.run(texts, sequence, 1).values())
            assert found[0].tolist() == ["ab", "cd"]
            np.testing.assert_array_equal(found[1], sequence[1])
            assert [item.shape for item in found[2]] == [(0, 2), (2, 2)]


def test_memory_is_waited_for_and_refused_where_it_never_suffices():
    session = Session(heddle.compile(MEMORY), num_machines=4, memory_limit_bytes=1 << 20)
    small, large = np.ones((64, 64), "float32"), np.ones((4096, 64), "float32")
    with session, ThreadPoolExecutor(8) as clients:
        for outputs in clients.map(session.run, [small] * 50):
            assert float(next(iter(outputs.values()))[0]) == float(np.float32(small.sum(1)[0]))
        with pytest.raises(MemoryError, match="D0801"):
            session.run(large)


MEMORY = from_source("""
@I.ir_module
class Memory:
    @R.function
    def main(x: R.Tensor(("n", 64), "float32")) -> R.Tensor(("n",), "float32"):
        w = R.const(1.0, "float32")
        y = R.matmul(x, R.full((64, 64), w, dtype="float32"))
        z = R.nn.softmax(y, axis=-1)
        return R.multiply(R.sum(z, axis=1), R.const(64.0, "float32"))
""")


def test_limits_that_mean_nothing_are_refused(program):
    with pytest.raises(UsageError, match="D0801"):
        Session(program, num_machines=0)
    with pytest.raises(UsageError, match="D0102"):
        Session(program, function="mein")


@pytest.mark.parametrize("batching", [None, Batching(4, 0.001)])
def test_a_closed_session_refuses(program, batching):
    x, y = arrays(1)
    session = Session(program, batching=batching)
    future = session.run_async(x, y)
    session.close()
    check(future.result(), x, y)
    session.close()
    for call in (session.run, session.run_async):
        with pytest.raises(UsageError, match="D0803"):
            call(x, y)


def test_warm_up_runs_every_machine(program):
    with Session(program, num_machines=3) as session:
        session.warm_up({"n": 5})
        assert len(session._gate._idle) == 3
        with pytest.raises(UsageError, match="D0201"):
            session.warm_up({"m": 5})
        assert "sum" in session.profile(*arrays(2)).table() or session.profile(*arrays(2)).calls


def test_a_path_and_a_module_are_models_too(program, tmp_path):
    path = tmp_path / "two.heddle"
    program.export_library(path)
    x, y = arrays(2)
    for model in (path, str(path), TWO):
        with Session(model) as session:
            check(session.run(x, y), x, y)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no processes are forked here")
def test_a_forked_child_has_machines_of_its_own(program):
    x, y = arrays(2)
    for batching in (None, Batching(4, 0.001)):
        with Session(program, batching=batching) as session:
            check(session.run(x, y, timeout_s=60), x, y)
            child = os.fork()
            if child == 0:
                try:
                    check(session.run(x, y, timeout_s=60), x, y)
                    os._exit(0)
                except BaseException:
                    os._exit(1)
            assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def test_a_gate_lets_in_by_turns():
    gate, order = Gate(object, 1), []
    first = gate.enter()

    def wait(number):
        machine = gate.enter()
        order.append(number)
        gate.leave(machine)

    threads = []
    for number in range(8):
        threads.append(threading.Thread(target=wait, args=(number,)))
        threads[-1].start()
        while gate.num_waiting <= number:
            time.sleep(0.001)
    gate.leave(first)
    for thread in threads:
        thread.join()
    assert order == list(range(8))


def test_a_large_request_is_not_passed_by_small_ones():
    gate = Gate(object, 3, limit_bytes=10)
    machine = gate.enter(6)
    entered = []
    for need in (8, 1):
        threading.Thread(target=lambda need=need: entered.append((need, gate.enter(need)))).start()
        while gate.num_waiting < (1 if need == 8 else 2):
            time.sleep(0.001)
    assert not entered
    gate.leave(machine, 6)
    while len(entered) < 2:
        time.sleep(0.001)
    assert sorted(need for need, _ in entered) == [1, 8]


def test_a_machine_that_cannot_be_made_takes_no_place():
    def make():
        raise UsageError(heddle.driver.codes.D0801, "no machine")

    gate = Gate(make, 1)
    for _ in range(3):
        with pytest.raises(UsageError):
            gate.enter()


def test_percentiles_are_right_to_four_percent():
    counters, rng = Counters(), np.random.default_rng(0)
    seconds = rng.lognormal(-7, 2, 5000)
    for value in seconds:
        counters.begin()
        counters.end(float(value))
    latency = counters.snapshot(0, 1).latency
    for share, found in ((50, latency.p50_s), (90, latency.p90_s), (99, latency.p99_s)):
        assert found == pytest.approx(np.percentile(seconds, share), rel=0.05)
    assert latency.max_s == seconds.max()


@pytest.mark.parametrize("timeout_s", [None, 60])
@pytest.mark.parametrize("batching", [None, Batching(8, 0.001)])
def test_a_callback_may_ask_the_session(program, batching, timeout_s):
    """The one thread of the session runs the callback."""
    made, done = [], threading.Event()

    def ask(_):
        try:
            made.append(session.run(x, y, timeout_s=timeout_s))
        finally:
            done.set()

    x, y = arrays(3)
    with Session(program, num_machines=1, batching=batching) as session:
        session.run_async(*arrays(2)).add_done_callback(ask)
        assert done.wait(60)
        check(made[0], x, y)
        with pytest.raises(HeddleError):
            session.run(x, y[:, :3])
        check(session.run(x, y), x, y)


@pytest.mark.parametrize("batching", [None, Batching(8, 0.001)])
@pytest.mark.parametrize("num_machines", [1, 2])
def test_a_callback_may_close_the_session(program, batching, num_machines):
    session, errors, done = (
        Session(program, num_machines=num_machines, batching=batching),
        [],
        threading.Event(),
    )

    def close(_):
        try:
            session.close()
        except BaseException as error:
            errors.append(error)
        done.set()

    session.run_async(*arrays(2)).add_done_callback(close)
    assert done.wait(60)
    assert errors == []
    with pytest.raises(UsageError, match="D0803"):
        session.run(*arrays(2))


def test_a_callback_that_fails_stops_nobody(program):
    with Session(program, num_machines=1, batching=Batching(8, 0.001)) as session:
        x, y = arrays(3)
        session.run_async(x, y).add_done_callback(lambda _: 1 / 0)
        check(session.run(x, y), x, y)


@pytest.mark.parametrize("change", ["fewer rows", "other rows", "another type"])
def test_a_caller_who_changes_an_array_gets_the_error_alone(program, change):
    """A batch waits until it is full; a request that waits in it gets another form meanwhile."""
    with Session(program, num_machines=1, batching=Batching(7, 60)) as session:
        given = [arrays(rows, seed=rows) for rows in (2, 3, 2)]
        wrong = given[1][0] = given[1][0].copy()
        futures = [session.run_async(*pair) for pair in given[:2]]
        if change == "fewer rows":
            wrong.resize((1, 4), refcheck=False)
        elif change == "other rows":
            wrong.shape = (4, 3)
        else:
            wrong.dtype = np.int32
        futures.append(session.run_async(*given[2]))  # the batch is full
        for number in (0, 2):
            check(futures[number].result(20), *given[number])
        assert isinstance(futures[1].exception(60), HeddleError)
