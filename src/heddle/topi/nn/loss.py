"""Loss functions for classification."""

from __future__ import annotations

from heddle import te
from heddle.prim.checked_index import checked_index
from heddle.prim.nodes import PrimExpr, constant
from heddle.prim.ops import cast, if_then_else, not_equal
from heddle.topi.dims import wide_index
from heddle.topi.reduce import reduce_element


def nll_loss(
    predictions: te.Tensor, targets: te.Tensor, weights: te.Tensor | None, reduction: str, ignore_index: int
) -> te.Tensor:
    """Negative log-likelihood loss: -weights[target] * predictions[target] for each target; with `reduction`
    their sum, or the sum divided by the sum of weights.

    `predictions: (n, classes, ...)` or (classes,), `targets: (n, ...)` or (). Targets equal to `ignore_index`
    are ignored; all others must be valid classes.
    """
    dtype = predictions.dtype

    def target_of(index: tuple[PrimExpr, ...]) -> PrimExpr:
        return wide_index(targets[index] if targets.ndim else targets())

    def class_of(target: PrimExpr) -> PrimExpr:
        return checked_index(target, predictions.shape[0 if predictions.ndim == 1 else 1], from_end=False)

    def weight(index: tuple[PrimExpr, ...]) -> PrimExpr:
        target = target_of(index)
        value = constant(1, dtype) if weights is None else weights[class_of(target)]
        return if_then_else(not_equal(target, ignore_index), value, constant(0, dtype))

    def loss(index: tuple[PrimExpr, ...]) -> PrimExpr:
        target = target_of(index)
        chosen = class_of(target)
        at = (chosen,) if predictions.ndim == 1 else (index[0], chosen, *index[1:])
        factor = constant(1, dtype) if weights is None else weights[chosen]
        valid = not_equal(target, ignore_index)
        return if_then_else(valid, constant(0, dtype) - predictions[at] * factor, constant(0, dtype))

    if reduction == "none":
        each: te.Tensor = te.compute(targets.shape, lambda *i: loss(i), name="nll_loss")
        return each
    axes = tuple(range(targets.ndim))
    total = reduce_element(targets.shape, axes, False, te.sum, loss, "nll_loss_sum")
    if reduction == "sum":
        return total
    count = reduce_element(targets.shape, axes, False, te.sum, weight, "nll_loss_weight")
    result: te.Tensor = te.compute((), lambda: total() / count(), name="nll_loss")
    return result


def cross_entropy_with_logits(predictions: te.Tensor, labels: te.Tensor) -> te.Tensor:
    """Return the negative sum of products; for more than one axis it is divided by the size of the first
    one.
    """
    axes = tuple(range(predictions.ndim))
    total = reduce_element(
        predictions.shape, axes, False, te.sum, lambda i: predictions[i] * labels[i], "cross_entropy_sum"
    )
    dtype = predictions.dtype
    batch = cast(dtype, predictions.shape[0]) if predictions.ndim > 1 else constant(1, dtype)
    result: te.Tensor = te.compute((), lambda: (constant(0, dtype) - total()) / batch, name="cross_entropy")
    return result
