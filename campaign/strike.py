"""Signals to a victim: to its Python, to its JVM, or to both with all that they started."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from enum import Enum

import psutil

# By this variable the processes of a point are known, those that its JVM started included.
MARK = "HEADRACE_CAMPAIGN_POINT"


class Who(str, Enum):
    """Whom a signal hits."""

    PYTHON = "python"  # this one process
    JVM = "jvm"  # this one process; executors are left to themselves
    GROUP = "group"  # everything


def strike(who: Who, number: signal.Signals, python: int, jvm: int) -> None:
    """Send the signal; the JVM leads a session of its own, in which its executors are."""
    if who is Who.JVM:
        os.kill(jvm, number)
    elif who is Who.PYTHON:
        _to_python(number, python, os.kill)
    elif number in (signal.SIGTERM, signal.SIGINT):
        # As a terminal or a supervisor sends it.
        os.killpg(os.getpgid(python), number)
    else:
        os.killpg(os.getpgid(jvm), number)
        _to_python(number, os.getpgid(python), os.killpg)


def _to_python(number: signal.Signals, python: int, send: Callable[[int, int], None]) -> None:
    if number is signal.SIGSTOP and python == os.getpid():
        # To this very thread, which would go on for a moment if another one took the signal.
        signal.pthread_kill(threading.get_ident(), number)
    else:
        send(python, number)


def marked(mark: str) -> list[psutil.Process]:
    """The living processes of a point."""
    found = []
    for process in psutil.process_iter():
        with suppress(psutil.Error):
            if process.environ().get(MARK) == mark and process.status() != psutil.STATUS_ZOMBIE:
                found.append(process)
    return found


def left_over(mark: str, patience_s: float) -> list[str]:
    """What still lives of a point after a while, as texts; it is ended."""
    deadline = time.monotonic() + patience_s
    while (living := marked(mark)) and time.monotonic() < deadline:
        time.sleep(0.1)
    texts = []
    for process in living:
        with suppress(psutil.Error):
            texts.append(f"{process.pid} {' '.join(process.cmdline())[:120]}")
            process.kill()
    return texts


def wait_until_stopped(pid: int, patience_s: float) -> bool:
    """True once a process is stopped, False when it is not within the time."""
    deadline = time.monotonic() + patience_s
    while time.monotonic() < deadline:
        try:
            if psutil.Process(pid).status() == psutil.STATUS_STOPPED:
                return True
        except psutil.Error:
            return False
        time.sleep(0.05)
    return False
