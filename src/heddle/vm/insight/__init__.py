"""Watching a machine: profiles, recordings, and a debugger that goes both ways."""

from heddle.vm.insight.debugger import Debugger, Stop
from heddle.vm.insight.recording import Cursor, Recording, Step, Write

__all__ = ["Cursor", "Debugger", "Recording", "Step", "Stop", "Write"]
