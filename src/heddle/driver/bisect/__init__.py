"""`heddle bisect`: find the cause of a wrong result, and write a bundle that reproduces it."""

from heddle.driver.bisect.bisect import BisectOptions, Finding, bisect
from heddle.driver.bisect.bundle import replay

__all__ = ["BisectOptions", "Finding", "bisect", "replay"]
