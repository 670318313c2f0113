"""Checks a project after each save: saves in quick succession are one, a save during a check leads to one more."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Protocol

from headrace.project.development.board import DevBoard
from headrace.project.development.check import Check
from headrace.project.development.project_files import Files

# Editors and formatters write a file several times; whoever saves all files writes several.
_QUIET_S, _LONGEST_QUIET_S = 0.1, 1.0


class Sources(Protocol):
    """The files of the project."""

    def scan(self) -> Files:
        """Those that exist now."""

    def changed(self, before: Files, after: Files) -> tuple[str, ...]:
        """The names of those that differ."""


class Watch(Protocol):
    """Tells when to look."""

    def watch(self, files: Files) -> None:
        """The files to watch."""

    def wait(self) -> None:
        """Until something may have changed."""

    def wake(self) -> None:
        """End the wait."""


class DevLoop:
    """Checks one project, again and again, in the thread that calls it.

    Args:
        sources: the files of the project.
        watch: tells when to look at them.
        check: checks the project.
        board: gets what was found.
        now: the time in seconds since 1970.
        pause: waits for some seconds.
    """

    def __init__(
        self,
        sources: Sources,
        watch: Watch,
        check: Callable[[], Check],
        board: DevBoard,
        now: Callable[[], float],
        pause: Callable[[float], object],
    ) -> None:
        self._sources = sources
        self._watch = watch
        self._check = check
        self._board = board
        self._now = now
        self._pause = pause
        self._is_stopping = threading.Event()
        self._is_asked = threading.Event()

    def run(self) -> None:
        """Check the project now, and after each save, until it is stopped."""
        seen = self._sources.scan()
        self._watch.watch(seen)
        self._run_check(())
        while not self._is_stopping.is_set():
            self._watch.wait()
            found = self._sources.scan()
            is_asked = self._is_asked.is_set()
            if self._is_stopping.is_set() or (found == seen and not is_asked):
                continue
            self._is_asked.clear()
            found = self._settled(found)
            saved, seen = self._sources.changed(seen, found), found
            self._watch.watch(seen)
            # What is saved from now on is found by the next look, after the check.
            if saved or is_asked:
                self._run_check(saved)

    def ask(self) -> None:
        """Check once more, whether or not a file was saved. Returns at once."""
        self._is_asked.set()
        self._watch.wake()

    def stop(self) -> None:
        """End the loop after the running check. Returns at once."""
        self._is_stopping.set()
        self._watch.wake()

    def _settled(self, found: Files) -> Files:
        """The files, once nothing was saved for a moment."""
        waited_s = 0.0
        while waited_s < _LONGEST_QUIET_S and not self._is_stopping.is_set():
            self._pause(_QUIET_S)
            waited_s += _QUIET_S
            before, found = found, self._sources.scan()
            if found == before:
                break
        return found

    def _run_check(self, saved: tuple[str, ...]) -> None:
        self._board.show(self._board.state.begun(saved))
        self._board.show(self._board.state.ended(self._check(), self._now()))
