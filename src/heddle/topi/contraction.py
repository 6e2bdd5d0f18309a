"""Einstein summation: one reduction for two operands; more operands are contracted one after the other."""

from __future__ import annotations

from collections.abc import Sequence

from heddle import te
from heddle.prim.nodes import PrimExpr, is_const_int
from heddle.prim.ops import cast
from heddle.support.diagnostics import IRTypeError
from heddle.te.codes import E0104
from heddle.topi.reduce import accumulator, convert


def parse_subscripts(subscripts: str, ranks: Sequence[int]) -> tuple[list[str], str]:
    """Return the index letters of every operand and of the result. "..." becomes capital letters from the
    end. Raises: IRTypeError E0104."""
    text = subscripts.replace(" ", "")
    left, arrow, right = text.partition("->")
    parts = left.split(",")
    if len(parts) != len(ranks):
        raise IRTypeError(E0104, f"subscripts {subscripts!r} name {len(parts)} operands, got {len(ranks)}")
    broadcast = max(
        (
            rank - len(part.replace("...", ""))
            for part, rank in zip(parts, ranks, strict=True)
            if "..." in part
        ),
        default=0,
    )
    dots = "".join(chr(ord("A") + k) for k in range(broadcast))
    inputs = []
    for part, rank in zip(parts, ranks, strict=True):
        own = rank - len(part.replace("...", ""))
        filled = part.replace("...", dots[len(dots) - own :] if own > 0 else "")
        if len(filled) != rank or (not filled.isalpha() and filled):
            raise IRTypeError(E0104, f"subscripts {part!r} do not fit a tensor of {rank} dimensions")
        inputs.append(filled)
    if arrow:
        output = right.replace("...", dots)
    else:
        letters = "".join(inputs)
        output = dots + "".join(sorted(c for c in set(letters) if letters.count(c) == 1 and c not in dots))
    if len(set(output)) != len(output) or not set(output) <= set("".join(inputs)):
        raise IRTypeError(
            E0104, f"the result {output!r} of subscripts {subscripts!r} repeats or invents letters"
        )
    return inputs, output


def letter_sizes(inputs: Sequence[str], shapes: Sequence[Sequence[PrimExpr]]) -> dict[str, PrimExpr]:
    """Return the size of each letter. A size of 1 is replaced by another size of the same letter."""
    sizes: dict[str, PrimExpr] = {}
    for letters, shape in zip(inputs, shapes, strict=True):
        for letter, dim in zip(letters, shape, strict=True):
            if letter not in sizes or is_const_int(sizes[letter], 1):
                sizes[letter] = dim
    return sizes


def einsum(subscripts: str, *operands: te.Tensor) -> te.Tensor:
    """Multiply operands over equal letters, and sum over the letters that the result lacks (numpy's
    einsum).
    """
    inputs, output = parse_subscripts(subscripts, [t.ndim for t in operands])
    dtype = operands[0].dtype
    wide = accumulator(dtype)
    tensors, letters = list(operands), list(inputs)
    while len(tensors) > 2:
        rest = set("".join(letters[2:])) | set(output)
        joined = "".join(dict.fromkeys(c for c in letters[0] + letters[1] if c in rest))
        tensors[:2] = [_contract(tensors[:2], letters[:2], joined, wide)]
        letters[:2] = [joined]
    return convert(_contract(tensors, letters, output, wide), dtype)


def _contract(tensors: Sequence[te.Tensor], letters: Sequence[str], output: str, wide: str) -> te.Tensor:
    sizes = letter_sizes(letters, [t.shape for t in tensors])
    summed = [c for c in sizes if c not in output]
    over = {c: te.reduce_axis((0, sizes[c]), name=f"k_{c}") for c in summed}

    def element(*index: PrimExpr) -> PrimExpr:
        place = {**dict(zip(output, index, strict=True)), **{c: axis.var for c, axis in over.items()}}
        product: PrimExpr | None = None
        for tensor, names in zip(tensors, letters, strict=True):
            own = [
                place[c] * 0 if is_const_int(dim, 1) and not is_const_int(sizes[c], 1) else place[c]
                for c, dim in zip(names, tensor.shape, strict=True)
            ]
            value = cast(wide, tensor[tuple(own)] if own else tensor())
            product = value if product is None else product * value
        assert product is not None
        result: PrimExpr = te.sum(product, axis=list(over.values())) if over else product
        return result

    result: te.Tensor = te.compute([sizes[c] for c in output], element, name="einsum")
    return result
