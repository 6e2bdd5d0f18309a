"""`heddle bisect`: where a wrong number comes from, and a bundle that shows it elsewhere."""

from heddle.driver.bisect.bisect import BisectOptions, Finding, bisect
from heddle.driver.bisect.bundle import replay

__all__ = ["BisectOptions", "Finding", "bisect", "replay"]
