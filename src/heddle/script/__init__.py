"""Scripts: modules, graph functions and loop functions in Python syntax: `from heddle.script import ir as I,
...`."""

from heddle.script import ir, relax, tir
from heddle.script.parser import from_source, parse
from heddle.script.printer import module_script
from heddle.script.round_trip import RoundTripEach, check_round_trip

__all__ = ["RoundTripEach", "check_round_trip", "from_source", "ir", "module_script", "parse", "relax", "tir"]
