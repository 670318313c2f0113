"""Records the events of an update: in the event log, in its outcome, and for those who listen."""

from __future__ import annotations

import socket
import threading
import uuid
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from datetime import datetime
from functools import partial
from itertools import count

from headrace.events.envelope import Origin, redacted
from headrace.events.expiry import Retention
from headrace.events.log import EventLog
from headrace.events.outcome import COUNTED_IN_TOTALS, TOTALS_AFTER_EVENTS, OutcomeBuilder
from headrace.events.reader import EventReader
from headrace.events.recorded import find_request
from headrace.events.types import TERMINAL_UPDATE_STATES, BatchDone, Event, UpdateStateChanged
from headrace.model.outcome import Outcome, UpdateState
from headrace.project.resolution.resolve_request import Resolved
from headrace.project.update.event_hooks import Hooks
from headrace.project.update.java_garbage import GarbageCollection
from headrace.project.update.lineage_watch import LineageOfUpdates
from headrace.project.update.log_trimming import record_trimming
from headrace.settings.secrets import Secrets
from headrace.settings.settings import Settings
from headrace.spark.session.active_session import make_active


def outcome_of_request(settings: Settings, request_id: str) -> Outcome | None:
    """How the update ended that answers a request, for the holder of the lease; None without one.

    An update without an end is LOST: its process held the lease before.

    Raises:
        PipelineError: EVENTS.NOT_READABLE.
    """
    reader = EventReader(settings.layout.events)
    update_id = find_request(reader, request_id)
    outcome = None if update_id is None else reader.outcome(update_id)
    return outcome.as_lost() if outcome is not None and outcome.state is UpdateState.RUNNING else outcome


@contextmanager
def recorded_events(
    update_id: str,
    settings: Settings,
    secrets: Secrets,
    environ: Mapping[str, str],
    resolved: Resolved,
    on_event: Callable[[Event], None] | None,
    clock: Callable[[], datetime],
) -> Iterator[tuple[Callable[[Event], None], OutcomeBuilder]]:
    """Open the log of an update; its hooks run, and its log is written, until the end of the block.

    Events of lineage are sent until then, too.

    Args:
        update_id: of the update.
        settings: the pipeline's.
        secrets: what no event may contain.
        environ: the environment variables.
        resolved: the project, with its hooks.
        on_event: receives every event after it was logged.
        clock: the time of events, with a zone.

    Yields:
        A function that records an event, from any thread; and the builder of the outcome, made from what was logged.
    """
    session = resolved.catalog.session
    log = EventLog(
        settings.layout.events,
        origin=Origin(settings.id, settings.name, update_id, host=socket.gethostname()),
        clock=clock,
        new_id=lambda: str(uuid.uuid4()),
        redact=secrets.redact,
        on_row=lambda row: hooks.notify(row),  # noqa: PLW0108 - hooks is assigned after the log
        retention=Retention(*settings.event_log_retention),
        before_removal=partial(record_trimming, EventReader(settings.layout.events)),
    )
    # The outcome comes from the logged events, built as any other process would build it.
    builder = OutcomeBuilder(update_id)
    order = threading.Lock()
    counted = count(1)
    garbage = GarbageCollection()
    with log, ExitStack() as stack:

        def emit(event: Event) -> None:
            # Terminals and programs receive only what the log stores.
            event = redacted(event, secrets.redact)
            with order:
                ends = isinstance(event, UpdateStateChanged) and event.state in TERMINAL_UPDATE_STATES
                if ends and (totals := builder.total()).flows:
                    # Batches expire before the state of their update does.
                    log.emit(totals)
                at = log.emit(event)
                builder.apply(event, at)
                if isinstance(event, COUNTED_IN_TOTALS) and next(counted) % TOTALS_AFTER_EVENTS == 0:
                    log.emit(builder.total())
            if add_to_lineage is not None:
                add_to_lineage(event, at)
            if on_event is not None:
                on_event(event)
            if isinstance(event, BatchDone):
                garbage.batch_done()

        lineage = LineageOfUpdates(settings, secrets, environ)
        add_to_lineage = stack.enter_context(lineage.watch(update_id, emit, log.flush))
        hooks = stack.enter_context(Hooks(resolved.hooks, emit, lambda: make_active(session)))
        yield emit, builder
