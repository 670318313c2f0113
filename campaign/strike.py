"""Signals to a victim: to its Python process, to its JVM, or to both with all their child processes."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from enum import Enum

import psutil

# The environment variable that marks the processes of a point, including the children of its JVM.
MARK = "HEADRACE_CAMPAIGN_POINT"


class Who(str, Enum):
    """The processes that a signal hits."""

    PYTHON = "python"  # the Python process only
    JVM = "jvm"  # the JVM only, not its executors
    GROUP = "group"  # all processes


def strike(who: Who, number: signal.Signals, python: int, jvm: int) -> None:
    """Send the signal; the JVM leads its own process group, which includes its executors."""
    if who is Who.JVM:
        os.kill(jvm, number)
    elif who is Who.PYTHON:
        _to_python(number, python, os.kill)
    elif number in (signal.SIGTERM, signal.SIGINT):
        # Like a terminal or a supervisor.
        os.killpg(os.getpgid(python), number)
    else:
        os.killpg(os.getpgid(jvm), number)
        _to_python(number, os.getpgid(python), os.killpg)


def _to_python(number: signal.Signals, python: int, send: Callable[[int, int], None]) -> None:
    if number is signal.SIGSTOP and python == os.getpid():
        # To this thread: it would run on for a moment if another thread took the signal.
        signal.pthread_kill(threading.get_ident(), number)
    else:
        send(python, number)


def marked(mark: str) -> list[psutil.Process]:
    """The running processes of a point."""
    found = []
    for process in psutil.process_iter():
        with suppress(psutil.Error):
            if process.environ().get(MARK) == mark and process.status() != psutil.STATUS_ZOMBIE:
                found.append(process)
    return found


def kill_leftovers(mark: str, timeout_s: float) -> list[str]:
    """Wait for the processes of a point to exit; kills those that remain and returns them as texts."""
    deadline = time.monotonic() + timeout_s
    while (living := marked(mark)) and time.monotonic() < deadline:
        time.sleep(0.1)
    texts = []
    for process in living:
        with suppress(psutil.Error):
            texts.append(f"{process.pid} {' '.join(process.cmdline())[:120]}")
            process.kill()
    return texts


def wait_until_stopped(pid: int, timeout_s: float) -> bool:
    """Wait until a process is stopped; returns False on a timeout."""
    deadline = time.monotonic() + timeout_s
    while time.monotonic() < deadline:
        try:
            if psutil.Process(pid).status() == psutil.STATUS_STOPPED:
                return True
        except psutil.Error:
            return False
        time.sleep(0.05)
    return False
