"""Random loop programs to schedule: what people write, and what no schedule primitive may take at its word.

Reductions by several operations from several beginnings, axes called spatial that carry values from one
iteration to the next, shifted reads, scattered stores, conditions, loops that run blocks again, nests that
several blocks share, rows that each iteration uses again, parameters that are read and then written, sizes 0
and 1 and free ones. Every element of a temporary is stored before it is read.
"""

from __future__ import annotations

import random

from heddle.script import from_source
from heddle.tir.nodes import PrimFunc

DTYPES = ("int32", "int32", "int64", "uint8", "float32")
SIZES = (0, 1, 2, 3, 4, 5, 6, 7)

COMBINERS = {
    "{c} + {x}": ("0", "1"),
    "{c} - {x}": ("0", "2"),
    "{x} + {c}": ("0", "3"),
    "T.max({c}, {x})": ("-100", "0", "1"),
    "T.min({x}, {c})": ("100", "1"),
    "{c} * {x}": ("1", "2"),
    "{c} + {c} + {x}": ("0", "1"),
    "{x} - {c}": ("0",),
}


class Program:
    """The text of one function, stage by stage. `main(A, P, I, C)`: inputs, indices of rows, result."""

    def __init__(self, rng: random.Random) -> None:
        self.rng = rng
        self.dtype = rng.choice(DTYPES)
        self.is_free = rng.random() < 0.3
        self.rows = "n" if self.is_free else str(rng.choice(SIZES))
        self.columns = str(rng.choice(SIZES))
        self.lines: list[str] = []
        self.buffers = ["A", "P"]
        self.count = 0

    # ---- text

    def text(self) -> str:
        rows, columns, dtype = self.rows, self.columns, self.dtype
        shape = f"({rows}, {columns})"
        parameters = [f'{name}: T.Buffer({shape}, "{dtype}")' for name in ("A", "P")]
        parameters += [f'I: T.Buffer(({rows},), "int32")', f'C: T.Buffer({shape}, "{dtype}")']
        head = []
        if self.is_free:
            parameters = [name + ": T.handle" for name in ("a", "p", "i", "c")]
            head = ["n = T.int64(is_size_var=True)"]
            head += [
                f'{name} = T.match_buffer({name.lower()}, {shape}, "{dtype}")' for name in ("A", "P", "C")
            ]
            head.insert(3, f'I = T.match_buffer(i, ({rows},), "int32")')
        lines = "\n        ".join([*head, *self.lines])
        signature = ", ".join(parameters)
        return f"@I.ir_module\nclass Module:\n    @T.prim_func\n    def main({signature}):\n        {lines}\n"

    def func(self) -> PrimFunc:
        func = from_source(self.text())["main"]
        assert isinstance(func, PrimFunc)
        return func

    # ---- pieces

    def name(self, hint: str) -> str:
        self.count += 1
        return f"{hint}{self.count}"

    def temporary(self) -> str:
        made = self.name("T")
        self.lines.append(f'{made} = T.sblock_alloc_buffer(({self.rows}, {self.columns}), "{self.dtype}")')
        return made

    def const(self, value: object) -> str:
        value = str(value).lstrip("-") if self.dtype.startswith("u") else value
        return f"T.{self.dtype}({value})"

    def value(self, i: str, j: str) -> str:
        """A value at an element, of what is stored already."""
        rng = self.rng
        source = rng.choice(self.buffers)
        load = f"{source}[{i}, {j}]"
        kind = rng.choice(["plain", "plain", "sum", "shift", "flip", "gather", "twice", "chosen", "let"])
        if kind == "sum":
            return f"{load} + {rng.choice(self.buffers)}[{i}, {j}]"
        if kind == "shift":
            return f"T.if_then_else({i} > 0, {source}[{i} - 1, {j}], {self.const(2)})"
        if kind == "flip":
            return f"{source}[{self.rows} - 1 - {i}, {j}] + {self.const(1)}"
        if kind == "gather":
            return f"{source}[T.Cast('{'int64' if self.is_free else 'int32'}', I[{i}]), {j}]"
        if kind == "twice":
            return f"{load} + {load} + {self.const(1)}"
        if kind == "chosen":
            return f"T.if_then_else({i} < {j}, {load}, {self.const(3)} + {load})"
        if kind == "let":
            return f"T.if_then_else({load} > {self.const(1)}, {load} + {load}, {self.const(4)})"
        return f"{load} + {self.const(rng.choice([0, 1, 2]))}"

    def block(
        self,
        axes: list[tuple[str, str, str]],
        store: str,
        init: str = "",
        where: str = "",
        indent: int = 0,
        extra: list[str] | None = None,
    ) -> None:
        """A block under loops of its own; axes are (variable, S or R, extent)."""
        pad = indent
        lines = []
        for var, _, extent in axes:
            if var in (extra or []):
                continue
            lines.append("    " * pad + f"for {var} in range({extent}):")
            pad += 1
        space = "    " * pad
        lines.append(f'{space}with T.sblock("{self.name("B")}"):')
        for var, kind, extent in axes:
            if kind == "-":
                continue
            axis = "spatial" if kind == "S" else "reduce"
            lines.append(f"{space}    v{var} = T.axis.{axis}({extent}, {var})")
        if where:
            lines.append(f"{space}    T.where({where})")
        if init:
            lines += [f"{space}    with T.init():", f"{space}        {init}"]
        lines.append(f"{space}    {store}")
        self.lines += lines

    # ---- stages

    def grid(self) -> list[tuple[str, str, str]]:
        return [(self.name("i"), "S", self.rows), (self.name("j"), "S", self.columns)]

    def map(self, target: str, indent: int = 0, outer: str = "") -> None:
        """Each element once; sometimes run again, or first under a condition and before that without."""
        axes = self.grid()
        if outer:
            axes[0] = (outer, "S", self.rows)
        (i, _, _), (j, _, _) = axes
        again = [("r" + i, "-", "2")] if self.rng.random() < 0.1 else []
        value = self.value("v" + i, "v" + j)
        if self.rng.random() < 0.15 and not outer:
            self.block(axes, f"{target}[v{i}, v{j}] = {self.const(0)}", indent=indent)
            axes = self.grid()
            (i, _, _), (j, _, _) = axes
            where = self.rng.choice([f"{i} < 2", f"{i} + {j} < 3", f"{j} >= 1", f"{i} < {j}"])
            self.block(axes, f"{target}[v{i}, v{j}] = {self.value('v' + i, 'v' + j)}", where=where)
            return
        self.block(
            again + axes,
            f"{target}[v{i}, v{j}] = {value}",
            indent=indent,
            extra=[outer] if outer else None,
        )

    def reduction(self, target: str, indent: int = 0, outer: str = "") -> None:
        rng = self.rng
        axes = self.grid()
        if outer:
            axes[0] = (outer, "S", self.rows)
        i, j = axes[0][0], axes[1][0]
        k = self.name("k")
        extent = rng.choice(["1", "2", "3", "4", self.columns])
        axes.insert(rng.choice([1, 2]) if outer else rng.choice([0, 1, 2]), (k, "R", extent))
        form = rng.choice(list(COMBINERS))
        start = self.const(rng.choice(COMBINERS[form]))
        if rng.random() < 0.15:
            start = f"A[v{i}, v{j}]"
        own = f"{target}[v{i}, v{j}]"
        if extent == self.columns:
            x = f"{rng.choice(self.buffers)}[v{i}, v{k}]"
        else:
            x = f"{self.value('v' + i, 'v' + j)} + T.Cast('{self.dtype}', v{k})"
        update = form.format(c=own, x=f"({x})")
        where = f"{k} < 2" if rng.random() < 0.1 else ""
        self.block(
            axes,
            f"{own} = {update}",
            init=f"{own} = {start}",
            where=where,
            indent=indent,
            extra=[outer] if outer else None,
        )

    def carried(self, target: str) -> None:
        """After a map: changes in place, through axes that are called spatial and are not."""
        self.map(target)
        axes = self.grid()
        (i, _, _), (j, _, _) = axes
        rng = self.rng
        vi, vj = "v" + i, "v" + j
        stores = [
            f"{target}[{vi}, {vj}] = {target}[{vi}, {vj}] * {self.const(2)}",
            f"{target}[{self.rows} - 1 - {vi}, {vj}] = {target}[{vi}, {vj}] + {self.const(1)}",
            f"{target}[T.Cast('{'int64' if self.is_free else 'int32'}', I[{vi}]), {vj}] = A[{vi}, {vj}]",
            f"{target}[{vi} // 2, {vj}] = A[{vi}, {vj}]",
            f"{target}[{vi}, 0] = A[{vi}, {vj}]",
            f"{target}[{vi}, {vj}] = T.if_then_else({vi} > 0, {target}[{vi} - 1, {vj}], {self.const(5)})",
            f"{target}[{vi}, {vj}] = T.if_then_else({vj} > 0, {target}[{vi}, {vj} - 1], {self.const(5)})",
            f"{target}[{vi}, {vj}] = T.if_then_else({vj} < {self.columns} - 1 and {vi} > 0, "
            f"{target}[{vi} - 1, {vj} + 1], {self.const(1)})",
        ]
        again = [(self.name("again"), "-", "2")] if rng.random() < 0.2 else []
        self.block(again + axes, rng.choice(stores))

    def shared(self, targets: list[str]) -> None:
        """Several blocks under one loop; each may read rows that an earlier one made, in this iteration or,
        where all is stored before, in any."""
        outer = self.name("o")
        first = targets[0]
        self.map(first)
        self.buffers.append(first)
        self.lines.append(f"for {outer} in range({self.rows}):")
        if self.rng.random() < 0.25:
            self.reused(first, outer)
            targets = targets[1:]
        for target in targets:
            self.rng.choice([self.map, self.reduction])(target, 1, outer)
        # rows of `targets` after the first are complete only after the loop

    def reused(self, target: str, outer: str) -> None:
        """Rows that several iterations of a loop store, one after the other."""
        axes = self.grid()
        axes[0] = (outer, "S", self.rows)
        i, j = outer, axes[1][0]
        value = self.value("v" + i, "v" + j)
        self.block(axes, f"{target}[v{i} // 2, v{j}] = {value}", indent=1, extra=[outer])

    def target(self) -> str:
        """A new temporary, or a parameter that is read before."""
        return self.rng.choice("AP") if self.rng.random() < 0.15 else self.temporary()

    def stage(self, target: str) -> None:
        self.rng.choice([self.map, self.map, self.reduction, self.reduction, self.carried])(target)


def random_program(rng: random.Random) -> PrimFunc:
    program = Program(rng)
    if rng.random() < 0.25:
        program.buffers.append("C")
    for _ in range(rng.choice([0, 1, 1, 2, 2, 3])):
        if rng.random() < 0.25:
            made = [program.target() for _ in range(rng.choice([2, 2, 3]))]
            program.shared(made)
            program.buffers += made[1:]
        else:
            made_one = program.target()
            program.stage(made_one)
            program.buffers.append(made_one)
    program.stage("C")
    return program.func()
