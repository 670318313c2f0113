"""What the process of a request printed, and processes that an earlier server has started."""

from __future__ import annotations

import os
import signal
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from headrace.project.lease_holders import Process
from headrace.project.requests.request import Ended, Request
from headrace.project.scheduling.child_process import ChildUpdate, Printed, last_line, printed_value
from headrace.settings.settings import Settings


class RunningVerb(Protocol):
    """A verb that was started."""

    @property
    def process(self) -> tuple[int, float] | None:
        """The id and the start time of its process; None if it has none."""

    def ended(self) -> Ended | None:
        """How it ended; None while it runs. Returns at once."""

    def stop(self) -> None:
        """Ask it to stop. Returns at once; may be called again."""


@dataclass(frozen=True)
class ChildVerb:
    """A verb in a child process of this one."""

    child: ChildUpdate
    printed: Printed

    @property
    def process(self) -> tuple[int, float] | None:
        """See :class:`RunningVerb`."""
        return self.child.process

    def ended(self) -> Ended | None:
        """See :class:`RunningVerb`."""
        code = self.child.exit_code()
        return None if code is None else Ended(code, printed_value(self.printed), last_line(self.printed))

    def stop(self) -> None:
        """See :class:`RunningVerb`."""
        self.child.stop()


@dataclass(frozen=True)
class EarlierVerb:
    """A verb that an earlier server has started, or was about to start."""

    request: Request
    host: str
    printed: Printed

    @property
    def process(self) -> tuple[int, float] | None:
        """See :class:`RunningVerb`."""
        found = self.request
        if found.host != self.host or found.pid is None or found.process_started_at is None:
            return None
        return found.pid, found.process_started_at

    def ended(self) -> Ended | None:
        """See :class:`RunningVerb`. Nobody saw its exit code."""
        if self._is_alive:
            return None
        return Ended(None, printed_value(self.printed), last_line(self.printed))

    def stop(self) -> None:
        """See :class:`RunningVerb`."""
        if self.process is not None and self._is_alive:
            with suppress(ProcessLookupError, PermissionError):
                os.kill(self.process[0], signal.SIGTERM)

    @property
    def _is_alive(self) -> bool:
        return self.process is not None and Process(*self.process).is_alive


def printed_of(logs: Path, request: Request) -> Printed:
    """The files with what the process of a request printed."""
    return Printed.of(logs, request.file_name)


def result_of(settings: Settings, request: Request, known: Mapping[str, Request]) -> Any:
    """The JSON document of a request that has ended; None if this machine has none.

    Args:
        settings: of the pipeline.
        request: the request.
        known: all requests, by id.
    """
    if not request.state.has_ended:
        return None
    other = known.get(request.merged_into, request)
    return printed_value(printed_of(Path(settings.layout.logs), other))
