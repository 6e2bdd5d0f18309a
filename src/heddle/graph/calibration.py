"""Calibration of quantisation: choose the range of quantised values from samples."""

from __future__ import annotations

from typing import Any

import numpy as np

_BINS, _PERCENTILE = 2048, 0.99999


def largest(samples: Any) -> float:
    """Return the largest magnitude; 0 for no samples."""
    return float(np.abs(samples).max(initial=0))


def percentile(samples: Any) -> float:
    """Return the magnitude below which all but 1 in 100,000 samples stay."""
    return float(np.quantile(np.abs(samples), _PERCENTILE, method="lower")) if samples.size else 0.0


def divergence(samples: Any, bits: int = 8) -> float:
    """The limit whose integers tell least wrongly how often each magnitude occurs.

    For each limit the histogram of magnitudes, what is beyond counted at the limit, is compared with itself
    averaged over as many groups as there are integers (Kullback and Leibler). Zeros are exact at every limit
    and do not count, nor do numbers at the largest magnitude where that is the limit. The work grows with the
    number of samples and a fixed number of bins.
    """
    sizes = np.abs(samples[samples != 0])
    most = largest(sizes)
    if not most:
        return 0.0
    inner = sizes[sizes < most]
    counts, edges = np.histogram(inner, _BINS, (0, most))
    groups = 1 << (bits - 1)
    limits = range(groups, _BINS + 1, 8)
    losses = [
        _loss(counts, limit, groups, sizes.size - inner.size if limit < _BINS else 0) for limit in limits
    ]
    return float(edges[limits[int(np.argmin(losses))]])


def _loss(counts: Any, limit: int, groups: int, beyond: int) -> float:
    """The divergence of what is in the first `limit` bins from its averages over groups; `beyond` are
    numbers in none of all bins."""
    kept = counts[:limit].astype(np.float64)
    clipped = kept.copy()
    clipped[-1] += counts[limit:].sum() + beyond
    group = np.arange(limit) * groups // limit
    is_used = kept > 0
    sums = np.bincount(group, kept, groups)
    used = np.maximum(np.bincount(group, is_used, groups), 1)
    averaged = (sums / used)[group] * is_used
    if not averaged.sum():
        return 0.0 if not clipped.sum() else float(np.inf)
    p, q = clipped / clipped.sum(), averaged / averaged.sum()
    both = (p > 0) & (q > 0)
    lost = p[(p > 0) & (q == 0)].sum()  # what lies beyond, where no number was
    return float((p[both] * np.log(p[both] / q[both])).sum() + lost * np.log(1e6))
