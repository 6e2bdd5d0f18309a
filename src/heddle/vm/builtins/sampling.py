"""Builtins that choose the next token from probabilities or logits. Tensors are float32. Functions that
return a single token expect a batch of one."""

from __future__ import annotations

import secrets
from typing import Any

import numpy as np

from heddle.runtime.number_tensors import tensor_of_numbers
from heddle.runtime.tensor import Tensor, tensor
from heddle.support.diagnostics import TrapValueError
from heddle.vm.builtins.kv_cache.state import check_tensor
from heddle.vm.builtins.table import builtin
from heddle.vm.codes import V0403

_COLD = 1e-6
"""Temperatures below this choose the most probable token."""
_Floats = np.ndarray[Any, np.dtype[np.float32]]


def _single(what: str, value: Any) -> _Floats:
    """Return the last axis of a tensor whose other axes have size 1. The result shares its memory."""
    shape = tuple(value.shape) if isinstance(value, Tensor) and value.ndim else (None,)
    array: _Floats = check_tensor(what, value, shape, "float32").numpy()
    if array.shape[-1] == 0 or array.size != array.shape[-1]:
        raise TrapValueError(V0403, f"{what}: expected one row of at least one element, got {shape}")
    return array.reshape(-1)


def _probabilities(logits: _Floats, temperature: float) -> _Floats:
    if not temperature > 0:
        raise TrapValueError(V0403, f"expected a positive temperature, got {temperature}")
    weights = np.exp((logits - logits.max(-1, keepdims=True)) / np.float32(temperature))
    result: _Floats = weights / weights.sum(-1, keepdims=True)
    return result


def _sample_top_p(probabilities: _Floats, top_p: float, uniform: float) -> int:
    """Nucleus sampling (Holtzman et al. 2020): draw from the smallest set of most probable tokens whose total
    reaches `top_p`."""
    order = np.argsort(-probabilities, kind="stable")
    sums = np.cumsum(probabilities[order], dtype=np.float64)
    last = min(int(np.searchsorted(sums, top_p)), len(order) - 1)
    chosen = int(np.searchsorted(sums[: last + 1], uniform * sums[last], side="right"))
    return int(order[min(chosen, last)])


@builtin("multinomial_from_uniform")
def multinomial_from_uniform(prob: Tensor, uniform: Tensor) -> Tensor:
    """For each row, return the first index at which the running sum of probabilities exceeds the row's
    number; if there is none, the last index.

    Shapes: prob (batch, n) float32, uniform (batch, 1) float32 → (batch, 1) int64.
    """
    rows = check_tensor("prob", prob, (None, None), "float32").numpy()
    numbers = check_tensor("uniform", uniform, (rows.shape[0], 1), "float32").numpy()
    if rows.shape[1] == 0:
        raise TrapValueError(V0403, "prob: expected at least one element a row")
    exceeds = np.cumsum(rows, axis=1) > numbers
    found = np.where(exceeds.any(1), exceeds.argmax(1), rows.shape[1] - 1)
    return tensor(found.astype(np.int64)[:, None])


@builtin("sample_top_p_from_logits")
def sample_top_p_from_logits(logits: Tensor, temperature: float, top_p: float, uniform: float) -> int:
    """Draw a token from softmax(logits / temperature), restricted to the nucleus `top_p`. `uniform` is a
    random number in [0, 1). A temperature near 0 selects the most probable token."""
    row = _single("logits", logits)
    if 0 <= temperature < _COLD:
        return int(row.argmax())
    return _sample_top_p(_probabilities(row, temperature), top_p, uniform)


@builtin("sample_top_p_from_prob")
def sample_top_p_from_prob(prob: Tensor, top_p: float, uniform: float) -> int:
    """Draw a token from probabilities, restricted to the nucleus `top_p`. `uniform` is a random number in [0,
    1)."""
    return _sample_top_p(_single("prob", prob), top_p, uniform)


def _tokens(ids: Tensor, num_logits: int) -> np.ndarray[Any, Any]:
    found: np.ndarray[Any, Any] = check_tensor("token ids", ids, (None,), "int32").numpy()
    if found.size and not 0 <= found.min() <= found.max() < num_logits:
        given = f"{found.min()} to {found.max()}"
        raise TrapValueError(V0403, f"token ids: expected 0 to {num_logits - 1}, got {given}")
    return found


@builtin("apply_repetition_penalty")
def apply_repetition_penalty(logits: Tensor, token_ids: Tensor, penalty: float) -> None:
    """Make given tokens less likely, in place: divide logits above 0 by the penalty and multiply the others
    by it (Keskar et al. 2019, CTRL, section 4.1). token_ids: (n,) int32."""
    row = _single("logits", logits)
    ids = _tokens(token_ids, len(row))
    picked = row[ids]
    row[ids] = np.where(picked > 0, picked / np.float32(penalty), picked * np.float32(penalty))


@builtin("apply_presence_and_frequency_penalty")
def apply_presence_and_frequency_penalty(
    logits: Tensor, token_ids: Tensor, token_freqs: Tensor, presence_penalty: float, frequency_penalty: float
) -> None:
    """Subtract frequency · frequency_penalty + presence_penalty from the logits of given tokens, in place.
    token_ids and token_freqs: (n,) int32."""
    row = _single("logits", logits)
    ids = _tokens(token_ids, len(row))
    freqs = check_tensor("token frequencies", token_freqs, (len(ids),), "int32").numpy()
    row[ids] -= freqs * np.float32(frequency_penalty) + np.float32(presence_penalty)


@builtin("apply_softmax_with_temperature")
def apply_softmax_with_temperature(logits: Tensor, temperature: float) -> None:
    """Replace logits by softmax(logits / temperature), in place."""
    row = _single("logits", logits)
    row[:] = _probabilities(row, temperature)


@builtin("random_key")
def random_key(place: int) -> Tensor:
    """Return a fresh random key: int64 of rank 0. `place` differs between the calls of a program, so that
    common subexpression elimination does not merge them."""
    return tensor_of_numbers([(secrets.randbits(63) ^ place) & (1 << 63) - 1], ())
