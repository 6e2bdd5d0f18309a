"""Ctrl-C ends the program at every moment with 130.

Python looks at signals between its own instructions: not while it imports a library, waits for a helper, or
runs compiled code, which may take hours. A thread waits for the signal's number in a pipe, which the process
gets at once; if Python has not noticed the signal a little later, the thread ends the program.

CPython notes an interrupt of code that `exec` reads from text (dataclasses are made that way) as one that
nobody caught, whoever catches it, and at the end of `python -m` kills the process by the signal. A program
that was interrupted ends before that.

What is raised in a callback, such as `__del__` or that of a weak reference, is shown and forgotten, so the
interrupt that Python notices there comes once more.
"""

from __future__ import annotations

import _thread
import atexit
import os
import signal
import socket
import sys
import threading
import time
from contextlib import suppress
from typing import Any

from heddle.support.background import abandon

INTERRUPTED = 130
_GRACE_S = 1.0
"""For Python to notice; from there on KeyboardInterrupt ends the program, or the debugger's command."""
_LOST = 0
"""No signal has this number. It stands for an interrupt that nobody got."""
_MOMENT_S = 0.01
"""For the callback to end that took it."""

_interrupted = threading.Event()


def interrupted() -> int:
    """Say, once, that an interrupt ends the program, which shall end with the code that this gives."""
    if not _interrupted.is_set():
        _interrupted.set()
        abandon()
        with suppress(OSError, ValueError):
            sys.stderr.write("interrupted\n")
    return INTERRUPTED


def _end() -> None:
    if _interrupted.is_set():
        for stream in (sys.stdout, sys.stderr):
            with suppress(OSError, ValueError):
                stream.flush()
        os._exit(INTERRUPTED)


def end_on_interrupt() -> None:
    """Watch for interrupts from now on. Does nothing outside the main thread, or where they are ignored."""
    if threading.current_thread() is not threading.main_thread():
        return
    if signal.getsignal(signal.SIGINT) is not signal.default_int_handler:
        return
    receiving, sending = socket.socketpair()
    sending.setblocking(False)
    taken = threading.Event()

    def take(number: int, frame: Any) -> None:
        taken.set()
        signal.default_int_handler(number, frame)

    def watch() -> None:
        with sending:
            while received := receiving.recv(64):
                if _LOST in received:
                    time.sleep(_MOMENT_S)
                    _thread.interrupt_main()
                if signal.SIGINT in received and not taken.wait(_GRACE_S):
                    os.write(2, b"interrupted\n")
                    os._exit(INTERRUPTED)
                taken.clear()

    show_unraisable = sys.unraisablehook

    def unraisable(found: Any) -> None:
        if found.exc_type is KeyboardInterrupt:
            sending.send(bytes([_LOST]))
        else:
            show_unraisable(found)

    sys.unraisablehook = unraisable
    atexit.register(_end)  # after what is registered later
    signal.signal(signal.SIGINT, take)
    signal.set_wakeup_fd(sending.fileno(), warn_on_full_buffer=False)
    threading.Thread(target=watch, name="heddle-interrupt", daemon=True).start()
