"""`heddle.Session`: serve a model to many threads. The model is compiled once and runs on a bounded pool of
machines."""

from heddle.driver.session.batching import Batching
from heddle.driver.session.metrics import LatencySummary, SessionMetrics
from heddle.driver.session.session import Session

__all__ = ["Batching", "LatencySummary", "Session", "SessionMetrics"]
