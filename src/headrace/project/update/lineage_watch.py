"""Sends events of lineage about an update while it runs; an update never fails or waits long because of them."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import datetime
from importlib.metadata import PackageNotFoundError, version

from headrace.errors import PipelineError
from headrace.events.levels import Level
from headrace.events.reader import EventReader
from headrace.events.types import Event, Warned
from headrace.lineage.lost_updates import (
    RUNS_ENDED,
    LostUpdate,
    events_of_update,
    last_sign_of_life,
    lost_updates,
)
from headrace.lineage.run_events import Producer, RunEvents
from headrace.lineage.sender import LineageSender, Sending
from headrace.lineage.transports import Transport, transport_of
from headrace.project.update.git_repository import git_repository
from headrace.settings.secrets import Secrets
from headrace.settings.settings import Settings

NOT_MADE = "LINEAGE.NOT_MADE"
# Takes note of an event of the log, and its time.
AddEvent = Callable[[Event, datetime], None]


@dataclass(frozen=True)
class LineageOfUpdates:
    """What the events of a pipeline's updates are made with.

    Attributes:
        settings: the pipeline's.
        secrets: looks up what transports refer to.
        environ: the environment variables.
    """

    settings: Settings
    secrets: Secrets
    environ: Mapping[str, str]

    @contextmanager
    def watch(
        self, update_id: str, emit: Callable[[Event], None], store: Callable[[], None]
    ) -> Iterator[AddEvent | None]:
        """Send events about an update during the block, and what waits at its end, for a limited time.

        Args:
            update_id: of the update, which holds the lease.
            emit: records warnings; used by other threads.
            store: stores the events of the log that were recorded so far.

        Yields:
            What takes note of the events of the log; None if lineage is off.
        """
        transports = {transport.name: transport for transport in self.settings.lineage.transports}
        if not transports:
            yield None
            return

        def open_transport(name: str) -> Transport:
            return transport_of(transports[name].resolved(self.secrets, self.environ), time.monotonic)

        sending = Sending(open_transport, emit, store, time.monotonic, self.secrets.redact)
        with LineageSender(transports, sending) as sender:
            watch = _Watch(self._producer(update_id), sender, emit)
            reporting = threading.Thread(
                target=lambda: watch.report_lost(EventReader(self.settings.layout.events)),
                name="headrace-lineage-lost",
                daemon=True,
            )
            reporting.start()
            try:
                yield watch.add
            finally:
                reporting.join(sending.patience_s)

    def _producer(self, update_id: str) -> Producer:
        settings = self.settings
        return Producer(
            namespace=settings.lineage.namespace_of(settings.id),
            pipeline=settings.name,
            update_id=update_id,
            every_s=settings.lineage.every_s,
            version=version("headrace"),
            spark_version=_spark_version(),
            repository=git_repository(settings.root),
        )


def _spark_version() -> str:
    """The version of PySpark; empty if it was not installed as a package, as on some clusters."""
    try:
        return version("pyspark")
    except PackageNotFoundError:
        return ""


@dataclass
class _Watch:
    """The events of one update. Safe to use from several threads."""

    producer: Producer
    sender: LineageSender
    emit: Callable[[Event], None]
    _lock: threading.Lock = field(default_factory=threading.Lock)
    # None after it has failed.
    _runs: RunEvents | None = field(init=False)

    def __post_init__(self) -> None:
        self._runs = RunEvents(self.producer)

    def add(self, event: Event, at: datetime) -> None:
        """Take note of an event of the log; returns at once, and never fails."""
        problem: Exception | None = None
        with self._lock:
            if self._runs is None:
                return
            try:
                self.sender.put(self._runs.add(event, at))
            except Exception as error:  # noqa: BLE001 - the update goes on, whatever is wrong with its lineage
                # What follows would be about runs whose beginning is missing.
                self._runs, problem = None, error
        if problem is not None:
            self._warn(f"events of lineage could not be made, and are no longer sent: {type(problem).__name__}")

    def report_lost(self, reader: EventReader) -> None:
        """Report the ends of the runs of earlier updates whose processes are gone, and record that it was done."""
        try:
            lost = lost_updates(reader, self.producer.update_id) if reader.exists else []
            for update in reversed(lost):
                self._report(update, reader)
        except PipelineError as error:
            self._warn(f"the runs of earlier updates could not be read: {error.message}")
        except Exception as error:  # noqa: BLE001 - see above
            self._warn(f"the runs of earlier updates could not be reported: {type(error).__name__}")

    def _report(self, update: LostUpdate, reader: EventReader) -> None:
        known = self.producer
        producer = Producer(
            update.namespace, known.pipeline, update.update_id, known.every_s, known.version, known.spark_version
        )
        runs = RunEvents(producer)
        last = last_sign_of_life(reader, update.update_id)
        for event, at in events_of_update(reader, update.update_id):
            runs.add(event, at)
        events = [] if last is None else runs.lost(last)
        self.sender.put(events)
        number = "a run" if len(events) == 1 else f"{len(events)} runs"
        text = f"{number} of update {update.update_id}, whose process is gone, reported as aborted"
        facts = {"update_id": update.update_id, "runs": len(events)}
        self.emit(Warned(RUNS_ENDED, text, level=Level.INFO, facts=facts))

    def _warn(self, text: str) -> None:
        # The log of an update that has ended is closed.
        with suppress(Exception):
            self.emit(Warned(NOT_MADE, text))
