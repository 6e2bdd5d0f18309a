"""Random relax programs: calls, tuples, branches, loop functions, symbolic shapes, dataflow blocks.

    python -m tests.fuzz.relax_programs --seed 0 --count 200 [--minutes 5]

numpy computes each value beside the text. The graph interpreter, bytecode and machine code must give the same
(the two last bit by bit), with every pass and without one of them that optimises; the text of the program
parses to an equal program.
"""

from __future__ import annotations

import random
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from heddle.driver.compile import build, with_machine_code
from heddle.ir.instrument import VerifyEach
from heddle.ir.structural import structural_equal
from heddle.ir.transform import PassContext
from heddle.relax.interpreter import GraphInterpreter
from heddle.runtime import cpu
from heddle.script import from_source
from heddle.script.round_trip import RoundTripEach
from heddle.vm.relax import VirtualMachine
from tests.fuzz.graphs.judge import OPTIONAL_PASSES
from tests.fuzz.seeds import run_seeds

SIZES = ((3, 4), (1, 7), (5, 1), (2, 2), (0, 3))
"""n and m of the runs of one program."""

Shape = tuple[str, ...]
Env = dict[str, Any]
LOOPS = """
    @T.prim_func
    def scale(a: T.handle, b: T.handle):
        n = T.int64(is_size_var=True)
        m = T.int64(is_size_var=True)
        A = T.match_buffer(a, (n, m), "float32")
        B = T.match_buffer(b, (n, m), "float32")
        for i, j in T.grid(n, m):
            with T.sblock("B"):
                vi, vj = T.axis.remap("SS", [i, j])
                B[vi, vj] = A[vi, vj] * T.float32(0.5) + T.float32(1)

    @T.prim_func
    def rows(a: T.handle, b: T.handle):
        n = T.int64(is_size_var=True)
        m = T.int64(is_size_var=True)
        A = T.match_buffer(a, (n, m), "float32")
        B = T.match_buffer(b, (n,), "float32")
        for i, j in T.grid(n, m):
            with T.sblock("B"):
                vi, vj = T.axis.remap("SR", [i, j])
                with T.init():
                    B[vi] = T.float32(0)
                B[vi] = B[vi] + A[vi, vj]
"""

UNARY: dict[str, Callable[[Any], Any]] = {
    "R.tanh": np.tanh,
    "R.abs": np.abs,
    "R.negative": np.negative,
    "R.nn.relu": lambda x: np.maximum(x, np.float32(0)),
    "R.sin": np.sin,
    "R.cos": np.cos,
}
BINARY: dict[str, Callable[[Any, Any], Any]] = {
    "R.add": np.add,
    "R.subtract": np.subtract,
    "R.multiply": np.multiply,
    "R.maximum": np.maximum,
    "R.minimum": np.minimum,
}


@dataclass
class Body:
    """Statements of one function. `shapes` holds tensors by name, `steps` what they are for numpy."""

    rng: random.Random
    count: list[int]
    shapes: dict[str, Shape]
    helpers: tuple[str, ...] = ()
    lines: list[str] = field(default_factory=list)
    steps: list[Callable[[Env], None]] = field(default_factory=list)
    indent: int = 2

    def name(self) -> str:
        self.count[0] += 1
        return f"v{self.count[0]}"

    def say(self, text: str) -> None:
        self.lines.append("    " * self.indent + text)

    def pick(self, fits: Callable[[Shape], bool] = lambda shape: True) -> str:
        found = [name for name, shape in self.shapes.items() if fits(shape)]
        return found[max(self.rng.randrange(len(found)), self.rng.randrange(len(found)))]

    def bind(self, text: str, shape: Shape, value: Callable[[Env], Any], name: str | None = None) -> str:
        made = name or self.name()
        self.say(f"{made} = {text}")
        self.shapes[made] = shape
        self.steps.append(lambda env: env.__setitem__(made, np.asarray(value(env))))
        return made

    def evaluate(self, env: Env) -> None:
        for step in self.steps:
            step(env)

    # ---- statements

    def unary(self) -> None:
        x, op = self.pick(), self.rng.choice(list(UNARY))
        self.bind(f"{op}({x})", self.shapes[x], lambda env: UNARY[op](env[x]))

    def binary(self) -> None:
        x, op = self.pick(), self.rng.choice(list(BINARY))
        y = self.pick(lambda shape: shape == self.shapes[x])
        self.bind(f"R.tanh({op}({x}, {y}))", self.shapes[x], lambda env: np.tanh(BINARY[op](env[x], env[y])))

    def broadcast(self) -> None:
        x = self.pick(lambda shape: len(shape) == 2)
        shape = self.shapes[x]
        row = f"R.sum({x}, axis=[0], keepdims=True)"
        self.bind(
            f"R.tanh(R.add({x}, {row}))",
            shape,
            lambda env: np.tanh(env[x] + env[x].sum(0, keepdims=True, dtype="float32")),
        )

    def moved(self) -> None:
        x = self.pick(lambda shape: len(shape) == 2)
        a, b = self.shapes[x]
        kind = self.rng.choice(["permute", "flatten", "twice", "split"])
        if kind == "permute":
            self.bind(f"R.permute_dims({x})", (b, a), lambda env: env[x].T)
        elif kind == "flatten":
            flat = self.bind(
                f"R.reshape({x}, R.shape([{a} * ({b})]))", (f"{a} * ({b})",), lambda env: env[x].reshape(-1)
            )
            self.bind(f"R.reshape({flat}, R.shape([{a}, {b}]))", (a, b), lambda env: env[x])
        elif kind == "twice":
            both = self.bind(
                f"R.concat(({x}, {x}), axis=1)",
                (a, f"2 * ({b})"),
                lambda env: np.concatenate([env[x]] * 2, 1),
            )
            pair = self.name()
            self.say(f"{pair} = R.split({both}, 2, axis=1)")
            self.bind(f"{pair}[{self.rng.choice([0, 1])}]", (a, b), lambda env: env[x])
        else:
            self.bind(
                f'R.take({x}, R.const([0, 0], "int64"), axis=1)', (a, "2"), lambda env: env[x][:, [0, 0]]
            )

    def product(self) -> None:
        x = self.pick(lambda shape: len(shape) == 2)
        a, _ = self.shapes[x]
        self.bind(
            f"R.tanh(R.matmul({x}, R.permute_dims({x})))", (a, a), lambda env: np.tanh(env[x] @ env[x].T)
        )

    def tuples(self) -> None:
        x, y = self.pick(), self.pick()
        made, at = self.name(), self.rng.choice([0, 1])
        self.say(f"{made} = (({x}, {y}), {x})")
        chosen = (x, y)[at]
        self.bind(f"{made}[0][{at}]", self.shapes[chosen], lambda env: env[chosen])

    def loops(self) -> None:
        x = self.pick(lambda shape: len(shape) == 2)
        a, b = self.shapes[x]
        half = np.float32(0.5)
        if self.rng.random() < 0.6:
            text = f'R.call_tir(cls.scale, ({x},), out_ty=R.Tensor(({a}, {b}), "float32"))'
            self.bind(text, (a, b), lambda env: env[x] * half + np.float32(1))
        else:
            text = f'R.call_tir(cls.rows, ({x},), out_ty=R.Tensor(({a},), "float32"))'
            made = self.bind(text, (a,), lambda env: env[x].sum(1, dtype="float32"))
            self.bind(f"R.tanh({made})", (a,), lambda env: np.tanh(env[made]))

    def matched(self) -> None:
        x = self.pick()
        shape = self.shapes[x]
        dims = ", ".join(shape) + ","
        self.bind(f'R.match_cast({x}, R.Tensor(({dims}), "float32"))', shape, lambda env: env[x])

    def called(self, helpers: dict[str, Body]) -> None:
        if not helpers:
            return self.unary()
        name = self.rng.choice(list(helpers))
        x, body = self.pick(lambda shape: len(shape) == 2), helpers[name]
        shape = self.shapes[x]

        def value(env: Env) -> Any:
            inner = {"p": env[x]}
            body.evaluate(inner)
            return inner["result"]

        self.bind(f"cls.{name}({x})", shape, value)
        return None

    def some(self, count: int, helpers: dict[str, Body]) -> None:
        kinds = [self.unary, self.binary, self.binary, self.broadcast, self.moved, self.product]
        kinds += [self.tuples, self.loops, self.matched, lambda: self.called(helpers)]
        for _ in range(count):
            self.rng.choice(kinds)()

    def block(self, count: int, helpers: dict[str, Body]) -> None:
        """A dataflow block; what is used after it is an output of the block."""
        before = set(self.shapes)
        self.say("with R.dataflow():")
        self.indent += 1
        self.some(count, {})
        made = [name for name in self.shapes if name not in before]
        kept = sorted(self.rng.sample(made, min(len(made), 2)))
        self.say(f"R.output({', '.join(kept)})")
        self.indent -= 1
        for name in made:
            if name not in kept:
                del self.shapes[name]

    def branch(self, helpers: dict[str, Body]) -> None:
        """Both sides end in a value of one shape."""
        x = self.pick(lambda shape: len(shape) == 2)
        shape, result = self.shapes[x], self.name()
        self.say("if c:")
        sides = []
        for side in range(2):
            if side:
                self.say("else:")
            inner = Body(self.rng, self.count, dict(self.shapes), indent=self.indent + 1)
            inner.lines = self.lines
            inner.some(self.rng.choice([0, 1, 2]), helpers)
            last = inner.pick(lambda found: found == shape)
            op = self.rng.choice(list(UNARY))
            inner.bind(f"{op}({last})", shape, lambda env, op=op, last=last: UNARY[op](env[last]), result)
            sides.append(inner)
        self.shapes[result] = shape

        def run(env: Env) -> None:
            own = dict(env)
            sides[0 if env["c"] else 1].evaluate(own)
            env[result] = own[result]

        self.steps.append(run)


@dataclass
class Program:
    """Text, and numpy's results for given inputs."""

    text: str
    main: Body
    results: list[str]

    def expected(self, env: Env) -> list[Any]:
        own = dict(env)
        self.main.evaluate(own)
        return [own[name] for name in self.results]


def _helper(name: str, rng: random.Random, count: list[int], helpers: dict[str, Body]) -> tuple[str, Body]:
    body = Body(rng, count, {"p": ("n", "m")})
    body.some(rng.choice([1, 2, 3]), helpers)
    last = body.pick(lambda shape: shape == ("n", "m"))
    body.bind(f"R.tanh({last})", ("n", "m"), lambda env: np.tanh(env[last]), "result")
    ty = 'R.Tensor(("n", "m"), "float32")'
    text = _function(name, f"p: {ty}", body.lines, "result", f" -> {ty}")
    return text, body


def _function(name: str, params: str, lines: list[str], result: str, ty: str = "") -> str:
    head = f"\n    @R.function\n    def {name}({params}){ty}:\n"
    sizes = "        n, m = T.int64(), T.int64()\n        cls = Module\n"
    return head + sizes + "\n".join(lines) + f"\n        return {result}\n"


def random_program(rng: random.Random) -> Program:
    count, helpers, texts = [0], {}, []
    for number in range(rng.choice([0, 1, 2])):
        text, body = _helper(f"helper{number}", rng, count, dict(helpers))
        helpers[f"helper{number}"] = body
        texts.append(text)
    main = Body(rng, count, {"x": ("n", "m"), "y": ("n", "m")})
    for _ in range(rng.choice([1, 2, 3])):
        kind = rng.choice(["block", "block", "branch", "plain"])
        if kind == "block":
            main.block(rng.choice([2, 3, 5]), helpers)
        elif kind == "branch":
            main.branch(helpers)
        else:
            main.some(rng.choice([1, 2]), helpers)
    results = [main.pick() for _ in range(rng.choice([1, 2, 3]))]
    params = 'x: R.Tensor(("n", "m"), "float32"), y: R.Tensor(("n", "m"), "float32"), c: R.Tensor((), "bool")'
    texts.append(_function("main", params, main.lines, f"({', '.join(results)},)"))
    text = f"@I.ir_module\nclass Module:{LOOPS}" + "".join(texts)
    return Program(text, main, results)


# ---- judging


def _flat(value: Any) -> list[Any]:
    parts = value if isinstance(value, (tuple, list)) else [value]
    return [np.asarray(part.numpy() if hasattr(part, "numpy") else part) for part in parts]


def _differs(got: list[Any], wanted: list[Any]) -> str:
    for number, (mine, theirs) in enumerate(zip(got, wanted, strict=True)):
        if mine.shape != theirs.shape or mine.dtype != theirs.dtype:
            return f"output {number} is {mine.dtype}{mine.shape}, expected {theirs.dtype}{theirs.shape}"
        if not np.allclose(mine, theirs, rtol=1e-4, atol=1e-4):
            return f"output {number} differs by {np.abs(mine - theirs).max()}"
    return ""


def judge(program: Program, seed: int) -> str:
    """What is wrong; nothing where all agree."""
    mod = from_source(program.text)
    if not structural_equal(mod, from_source(str(mod))):
        return "the text does not parse to an equal program"
    without = OPTIONAL_PASSES[seed % len(OPTIONAL_PASSES)]
    engines = {"interpreter": GraphInterpreter(mod)["main"]}
    for name, disabled in (("all passes", []), (f"without {without}", [without])):
        watch = (VerifyEach(), RoundTripEach()) if seed % 4 == 0 else ()
        with PassContext(disabled_pass=disabled, instruments=watch):
            made = build(mod)
        engines[f"bytecode, {name}"] = VirtualMachine(made, cpu())["main"]
        engines[f"compiled, {name}"] = VirtualMachine(with_machine_code(made), cpu())["main"]
    rng = np.random.default_rng(seed)
    for n, m in SIZES:
        if m == 0 or (n == 0 and "R.take" in program.text):
            continue
        x, y = (rng.uniform(-2, 2, (n, m)).astype("float32") for _ in range(2))
        for c in (True, False):
            wanted = program.expected({"x": x, "y": y, "c": c})
            given = (x, y, np.asarray(c))
            results = {
                name: _flat(call(*(array.copy() for array in given))) for name, call in engines.items()
            }
            for name, got in results.items():
                found = _differs(got, wanted)
                if found:
                    return f"n = {n}, m = {m}, c = {c}: {name}: {found}"
            for pair in ("all passes", f"without {without}"):
                both = zip(results[f"bytecode, {pair}"], results[f"compiled, {pair}"], strict=True)
                if any(a.tobytes() != b.tobytes() for a, b in both):
                    return f"n = {n}, m = {m}, c = {c}: bits of bytecode and machine code differ, {pair}"
    return ""


def try_seed(seed: int) -> str:
    program = random_program(random.Random(seed))
    try:
        return judge(program, seed)
    except Exception as error:  # every error is a fault, and reported as one
        return f"{type(error).__name__}: {error}"


if __name__ == "__main__":
    sys.exit(run_seeds(__doc__, "programs", try_seed, lambda seed: random_program(random.Random(seed)).text))
