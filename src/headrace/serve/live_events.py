"""New events of a pipeline as they are stored: one reader for all browsers that look at it."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from starlette.concurrency import run_in_threadpool

from headrace.errors import PipelineError
from headrace.events.levels import Level
from headrace.events.reader import EventReader
from headrace.project.development.board import DevState
from headrace.serve.pipelines import ServedPipeline

POLL_S, HEARTBEAT_S = 1.0, 15.0
# A browser that is so far behind is sent away; it comes back with the number of the last event that it got.
_MOST_WAITING = 1000
_MOST_MISSED = 1000
MOST_CLIENTS = 500

Row = Mapping[str, Any]
# What changes pages and is no event.
_REFRESH: Row = {}


@dataclass(frozen=True)
class EventFilter:
    """Which events are wanted: those of some types and levels; all for none."""

    types: frozenset[str] = frozenset()
    levels: frozenset[Level] = frozenset()

    def takes(self, row: Row) -> bool:
        """Whether an event is wanted."""
        is_of_type = not self.types or row["event_type"] in self.types
        return is_of_type and (not self.levels or row["level"] in {level.value for level in self.levels})


_ALL = EventFilter()


class LiveEvents:
    """The new events of one pipeline. Used from one event loop.

    Args:
        pipeline: the pipeline.
        is_stopping: true once the server stops, which ends all streams.
        poll_s: how often the event log is looked at while somebody listens.
        heartbeat_s: after so long without an event, a line is sent, so that the connection is known to work.

    While the project is being developed, a check of it is sent as ``refresh``, without a number: pages look again.
    """

    def __init__(
        self,
        pipeline: ServedPipeline,
        is_stopping: Callable[[], bool],
        poll_s: float = POLL_S,
        heartbeat_s: float = HEARTBEAT_S,
    ) -> None:
        self._pipeline = pipeline
        self._is_stopping = is_stopping
        self._poll_s = poll_s
        self._heartbeat_s = heartbeat_s
        self._clients: set[asyncio.Queue[Row | None]] = set()
        self._reading: asyncio.Task[None] | None = None
        # The reader knows from where on it hands out events.
        self._has_begun = asyncio.Event()

    @property
    def is_full(self) -> bool:
        """Whether no more clients are served."""
        return len(self._clients) >= MOST_CLIENTS

    async def listen(self, after: int | None, wanted: EventFilter = _ALL) -> AsyncIterator[str]:
        """The events as server-sent events, until the server stops or the client is too slow.

        Args:
            after: the number of the last event that the client has; None for new ones only.
            wanted: which events.
        """
        queue: asyncio.Queue[Row | None] = asyncio.Queue(_MOST_WAITING)
        self._clients.add(queue)
        try:
            if self._reading is None or self._reading.done():
                self._has_begun.clear()
                self._reading = asyncio.create_task(self._read())
            yield "retry: 3000\n: events of the pipeline\n\n"
            last = -1 if after is None else after
            if after is not None:
                # What comes after these is handed out. If the log cannot be read, they come with the next connection.
                with suppress(TimeoutError):
                    await asyncio.wait_for(self._has_begun.wait(), self._heartbeat_s)
            for row in [] if after is None else await run_in_threadpool(self._missed, after, wanted):
                last = row["sequence"]
                yield _message(row)
            while True:
                try:
                    found = await asyncio.wait_for(queue.get(), self._heartbeat_s)
                except TimeoutError:
                    yield ": no event\n\n"
                    continue
                if found is None:
                    return
                if found == _REFRESH:
                    yield "event: refresh\ndata: {}\n\n"
                    continue
                if found["sequence"] > last:
                    last = found["sequence"]
                    # The number alone is no event for the client, and where it goes on when it comes back.
                    yield _message(found) if wanted.takes(found) else f"id: {last}\n\n"
        finally:
            self._clients.discard(queue)

    async def _read(self) -> None:
        """Hand out new events, until nobody listens."""
        reader = self._pipeline.events()
        last: int | None = None
        shown = self._dev_state
        while self._clients:
            if self._is_stopping():
                for queue in self._clients:
                    _end(queue)
                return
            rows: list[Row] = []
            # The storage may be away for a moment.
            with suppress(PipelineError):
                if last is None:
                    last = await run_in_threadpool(_newest, reader)
                    self._has_begun.set()
                else:
                    rows = await run_in_threadpool(event_rows, reader, last, None, self._pipeline.redact)
            if self._dev_state is not shown:
                shown = self._dev_state
                rows = [*rows, _REFRESH]
            for row in rows:
                last = row.get("sequence", last)
                for queue in self._clients:
                    try:
                        queue.put_nowait(row)
                    except asyncio.QueueFull:
                        _end(queue)
            await asyncio.sleep(self._poll_s)

    @property
    def _dev_state(self) -> DevState | None:
        board = self._pipeline.board
        return None if board is None else board.state

    def _missed(self, after: int, wanted: EventFilter) -> list[Row]:
        with suppress(PipelineError):
            return event_rows(self._pipeline.events(), after, _MOST_MISSED, self._pipeline.redact, wanted)
        return []


def event_rows(
    reader: EventReader, after: int, newest: int | None, redact: Callable[[str], str], wanted: EventFilter = _ALL
) -> list[Row]:
    """The events after a number as JSON objects, oldest first.

    Args:
        reader: of the event log.
        after: the number of the last event that is known; -1 for none.
        newest: only so many, the newest; None for all.
        redact: removes secrets from a text.
        wanted: which events.

    Raises:
        PipelineError: EVENTS.NOT_READABLE.
    """
    known = {"data_plane_id": {"seq_no": after}}
    found = reader.events(after=known, newest=newest, types=wanted.types, levels=wanted.levels)
    return [
        {
            "sequence": row["sequence"]["data_plane_id"]["seq_no"],
            "timestamp": row["timestamp"].isoformat(),
            "event_type": row["event_type"],
            "level": row["level"],
            "message": redact(row["message"]),
            "update_id": row["origin"]["update_id"],
            "flow": row["origin"]["flow_name"],
            "dataset": row["origin"]["dataset_name"],
        }
        for row in found
    ]


def _newest(reader: EventReader) -> int:
    """The number of the newest event; -1 without one."""
    rows = list(reader.events(newest=1))
    return int(rows[0]["sequence"]["data_plane_id"]["seq_no"]) if rows else -1


def _message(row: Row) -> str:
    """One server-sent event; JSON in one line, so that no text of an event can begin another one."""
    return f"id: {row['sequence']}\nevent: event\ndata: {json.dumps(row)}\n\n"


def _end(queue: asyncio.Queue[Row | None]) -> None:
    with suppress(asyncio.QueueEmpty):
        while True:
            queue.get_nowait()
    queue.put_nowait(None)
