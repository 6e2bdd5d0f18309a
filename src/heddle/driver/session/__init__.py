"""`heddle.Session`: a model that many threads ask. Compiled once, with a bounded pool of machines."""

from heddle.driver.session.batching import Batching
from heddle.driver.session.metrics import LatencySummary, SessionMetrics
from heddle.driver.session.session import Session

__all__ = ["Batching", "LatencySummary", "Session", "SessionMetrics"]
