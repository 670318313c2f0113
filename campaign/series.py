"""A process that runs one command line after the other in the same JVM, each in a project of its own.

    python -m campaign.series BASE     with orders as lines of standard input, see :class:`campaign.victim.Order`

A JVM takes minutes to compile what an update needs; points that need no new one share it.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path

from campaign.arena import ROOT, TIMEOUT_S
from campaign.strike import MARK
from campaign.victim import Order
from headrace.cli.main import call
from headrace.project.open import Project
from headrace.project.test_harness import Harness
from headrace.settings.discover import find_settings
from headrace.settings.load import load_settings
from headrace.spark.session.existing_session import existing_session
from headrace.testing.warm import unchanged

_ENDED = "ended"


class Series:
    """The process.

    Args:
        base: the folder of all projects.
        environ: of the process.
    """

    def __init__(self, base: Path, environ: Mapping[str, str]) -> None:
        self.mark = f"{base}/series of {os.getpid()} at {time.monotonic()}"
        self.process = subprocess.Popen(
            [sys.executable, "-m", "campaign.series", str(base)],
            cwd=ROOT,
            env={**environ, MARK: self.mark},
            stdin=subprocess.PIPE,
            start_new_session=True,
        )

    @property
    def is_alive(self) -> bool:
        """Whether it can run another command line."""
        return self.process.poll() is None

    def begin(self, folder: Path, words: list[str]) -> None:
        """Let it run a command line in a folder; returns at once."""
        assert self.process.stdin is not None  # noqa: S101 - opened as a pipe
        self.process.stdin.write(f"{Order(str(folder), words).to_json()}\n".encode())
        self.process.stdin.flush()

    def stop(self, folder: Path) -> int | None:
        """Ask the command line to stop as a supervisor does, and wait for its exit code.

        Returns None, and kills the process, if it does not stop.
        """
        self.process.send_signal(signal.SIGTERM)
        ended, deadline = folder / _ENDED, time.monotonic() + TIMEOUT_S
        while not ended.exists():
            if not self.is_alive:
                return self.process.returncode
            if time.monotonic() > deadline:
                self.process.kill()
                self.process.wait()
                return None
            time.sleep(0.05)
        return int(ended.read_text(encoding="utf-8"))

    def close(self) -> int | None:
        """Let it exit; returns its exit code, None if it had to be killed."""
        assert self.process.stdin is not None  # noqa: S101 - opened as a pipe
        self.process.stdin.close()
        try:
            return self.process.wait(TIMEOUT_S)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
            return None


def output_of(folder: Path) -> str:
    """What the command line in a folder has printed."""
    return _log(folder).read_text(encoding="utf-8", errors="replace")


def _log(folder: Path) -> Path:
    # As the files of other victims are named.
    return folder / "victim.log"


def main() -> int:
    """Run the orders until the input ends."""
    base = Path(sys.argv[1])
    for line in sys.stdin:
        order = Order.from_json(line)
        folder = Path(order.folder)
        with _log(folder).open("wb") as log:
            os.dup2(log.fileno(), sys.stdout.fileno())
            os.dup2(log.fileno(), sys.stderr.fileno())
        code = _run(order, folder, base)
        sys.stdout.flush()
        draft = folder / f".{_ENDED}"
        draft.write_text(str(code), encoding="utf-8")
        draft.replace(folder / _ENDED)
    return 0


def _run(order: Order, folder: Path, base: Path) -> int:
    project = Project(load_settings(find_settings(folder), environ=os.environ), os.environ, Harness())
    session = existing_session()
    if session is None:
        return call(order.words, lambda *_, **__: project)
    with unchanged(session, base):
        return call(order.words, lambda *_, **__: project)


if __name__ == "__main__":
    sys.exit(main())
