"""Annotated programs: each value of FAR's is on the second device, whatever that is.

`PROGRAMS` are texts with their arguments and the devices of the outputs, 0 or 1.
"""

from __future__ import annotations

from typing import Any

import numpy as np

T = "Tensor[(?, 2), float32]"
XY = f"%x: {T}, %y: {T}"
LIST = f"type L {{ Cons({T}, L), Nil }}\n"


def far(text: str, attrs: str = "") -> str:
    return f'on_device({text}, virtual_device="FAR"{attrs})'


def near(text: str) -> str:
    return f'on_device({text}, virtual_device="cpu(0)")'


def moved(text: str) -> str:
    """A copy on the first device."""
    return f'on_device({text}, virtual_device="cpu(0)", constrain_result=True, constrain_body=False)'


def both(text: str) -> str:
    return far(text, ", constrain_result=True")


_DOWN = f"""
def @down(%n: int32, %a: {T}) -> {T} {{
  if ({near("%n == 0")}) {{ {far("%a")} }} else {{ @down({near("%n - 1")}, tanh(%a) + 0.25f) }}
}}
"""
_WHILE = f"""
def @main({XY}) {{
  let %loop = fn (%i: int32, %a: {T}) -> (int32, {T}) {{
    if (%i < 3) {{ %loop(%i + 1, {far("exp(%a) * 0.5f")}) }} else {{ (%i, {near("%a")}) }}
  }};
  %loop(0, %x)
}}
"""
_TWICE = f"def @twice(%f: fn ({T}) -> {T}, %a: {T}) -> {T} {{ %f(%f(%a)) }}\n"
_SUM = f"""
def @sum(%l: L) -> {T} {{
  match (%l) {{ Cons(%a, Nil) => %a, Cons(%a, %r) => tanh(%a) + @sum(%r), Nil => {far("zeros(shape=[1, 2], dtype=FLOAT)")} }}
}}
"""

PROGRAMS: dict[str, tuple[str, list[int]]] = {
    "straight": (f"def @main({XY}) {{ {far('exp(%x)')} + %y }}", [0]),
    "all of it": (f"def @main({XY}) {{ {far('nn.relu(%x - %y)')} }}", [1]),
    "as it comes": (f"def @main({XY}) {{ ({far('%x')}, %y) }}", [0, 0]),
    "shared": (
        f"def @main({XY}) {{ %0 = {far('exp(%x)')}; (%0 + %y, %0 * %y, {both('tanh(%0)')}) }}",
        [1] * 3,
    ),
    "there and back": (
        f"def @main({XY}) {{ let %a = {far('exp(%x)')}; let %b = {near('tanh(%a)')}; let %c = {far('%b - %a')}; %c }}",
        [1],
    ),
    "tuples": (
        f"def @main({XY}) {{ let %p = {far('(exp(%x), (%y, tanh(%x)))')}; let %q = {moved('%p')}; (%q.1).1 + %q.0 }}",
        [0],
    ),
    "split": (
        f"def @main({XY}) {{ let %s = {far('split(%x, indices_or_sections=2, axis=1)')}; %s.0 + {far('%s.1')} }}",
        [1],
    ),
    "branch": (
        f"def @main(%c: bool, {XY}) {{ if (%c) {{ {far('exp(%x)')} }} else {{ tanh(%y) }} }}",
        [0],
    ),
    "branch there": (
        f"def @main(%c: bool, {XY}) {{ let %r = if (%c) {{ {far('exp(%x)')} }} else {{ {near('tanh(%y)')} }}; {far('%r * 2f')} }}",
        [1],
    ),
    "constants": (
        f"def @main({XY}) {{ ({far('%x * 2f')} + {far('2f')}, 2f * %y, {far('ones(shape=[2, 2], dtype=FLOAT)')}, 3f) }}",
        [0, 0, 0, 0],
    ),
    "constants there": (
        f"def @main({XY}) {{ {far('(3f, ones(shape=[2], dtype=FLOAT), %x + 1f)')} }}",
        [1, 1, 1],
    ),
    "shapes": (f"def @main({XY}) {{ {far('exp(%x)')} * cast(sum(shape_of(%y)), dtype=FLOAT) }}", [0]),
    "sizes there": (f"def @main({XY}) {{ {far('%x + cast(ndarray_size(%y), dtype=FLOAT)')} }}", [1]),
    "functions": (
        f'def @f(%a: {T}, %b: {T}, param_virtual_devices=["FAR", "cpu"], result_virtual_device="FAR") -> {T} '
        f"{{ %a + tanh(%b) }}\ndef @main({XY}) {{ @f(%x, %x) + {near('@f(%y, %x)')} }}",
        [1],
    ),
    "closures": (
        f"{_TWICE}def @main({XY}) {{ let %k = 0.5f; @twice(fn (%v: {T}) {{ %v * %k }}, {far('exp(%x)')}) + {near('%y')} }}",
        [0],
    ),
    "closures there": (
        f"{_TWICE}def @main({XY}) {{ let %z = {far('exp(%y)')}; "
        f"let %r = @twice(fn (%v: {T}) {{ %v + %z }}, %x); {near('tanh(%y)')} + {near('%r')} }}",
        [0],
    ),
    "recursion": (f"{_DOWN}def @main({XY}) {{ {near('@down(2, %x)')} * {near('%y')} }}", [0]),
    "a loop": (_WHILE, [0, 0]),
    "matches": (
        f"{LIST}def @main({XY}) {{ match (Cons({far('exp(%x)')}, Nil)) {{ Cons(%a, _) => {far('%a + 1f')}, Nil => %y }} }}",
        [1],
    ),
    "lists": (
        f"{LIST}{_SUM}def @main({XY}) {{ {far('exp(%x)')} + @sum(Cons(%x, Cons(%y, Cons(%x, Nil)))) }}",
        [1],
    ),
    "references": (
        f"def @main({XY}) {{ let %r = ref({far('exp(%x)')}); ref_write(%r, ref_read(%r) + %y); {near('ref_read(%r)')} }}",
        [0],
    ),
    "nothing said": (f"def @main({XY}) {{ {far('%x + %y', ', constrain_body=False')} }}", [0]),
    "copies of the user's": (
        f'def @main({XY}) {{ device_copy(exp(%x), src_virtual_device="FAR", dst_virtual_device="cpu(0)") - %y }}',
        [0],
    ),
    "products": (
        f"def @main({XY}) {{ let %w = {far('nn.dense(%x, %y, units=None)')}; nn.softmax({far('nn.softmax(%w)')}) }}",
        [0],
    ),
}


def text(name: str, device: str) -> str:
    """A program with a device for the second one."""
    return PROGRAMS[name][0].replace("FAR", device).replace("FLOAT", '"float32"')


def arguments(params: Any, rows: int) -> list[Any]:
    """Values for a program's parameters, with so many rows."""
    rng = np.random.default_rng(rows)
    made = [rng.standard_normal((rows, 2)).astype("float32") for _ in params]
    truth = np.asarray(rows % 2 == 1)
    return [truth if str(p.ty.dtype) == "bool" else v for p, v in zip(params, made, strict=True)]
