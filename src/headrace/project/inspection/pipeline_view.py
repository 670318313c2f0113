"""A pipeline at one moment, for people who look at it: updates, definitions, metrics, alerts, and who runs it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial

from headrace.alerts.alert import Alert
from headrace.assistant.doctor.facts import Logged, Unread
from headrace.events.past_updates import PastUpdate, past_updates
from headrace.events.reader import EventReader
from headrace.metrics.samples import Samples
from headrace.model.liveness import Liveness
from headrace.model.outcome import Outcome
from headrace.project.inspection.diagnosis.careful_reading import reading_carefully
from headrace.project.inspection.diagnosis.logged_facts import logged_facts
from headrace.project.inspection.event_metrics import FoldedEvents
from headrace.project.inspection.monitored_pipelines import own_liveness
from headrace.project.inspection.pipeline_alerts import alerts_of
from headrace.project.inspection.pipeline_metrics import pipeline_metrics
from headrace.project.lease_holders import Holder, host_name, latest_outcome, liveness, read_holder
from headrace.settings.secrets import Secrets
from headrace.settings.settings import Settings

# Parts of a view.
METRICS, EVENT_LOG = "the metrics", "the event log"


@dataclass(frozen=True)
class PipelineView:
    """A pipeline at one moment.

    Attributes:
        as_of: when it was read, in seconds since 1970.
        outcome: of the latest update; None if none has run.
        updates: the newest ones, the newest first.
        logged: definitions, failures and warnings.
        samples: the metrics, those of tables among them.
        alerts: the most urgent first, as a check would find them now.
        holder: who holds the lease, or held it last; None for nobody.
        is_held: whether a process holds it now.
        unread: what could not be read, and why.
    """

    as_of: float
    outcome: Outcome | None
    updates: tuple[PastUpdate, ...]
    logged: Logged
    samples: Samples
    alerts: tuple[Alert, ...]
    holder: Holder | None
    is_held: bool
    unread: tuple[Unread, ...] = ()


class PipelineViewer:
    """Reads a pipeline again and again, for one thread. What it has read of the event log, it does not read again.

    Args:
        settings: the pipeline's.
        environ: the environment variables.
        secrets: of the pipeline.
        now: the time in seconds since 1970.
        newest: how many updates a view has, at most.
    """

    def __init__(
        self,
        settings: Settings,
        environ: Mapping[str, str],
        secrets: Secrets,
        now: Callable[[], float],
        newest: int,
    ) -> None:
        self._settings, self._environ, self._secrets = settings, environ, secrets
        self._now, self._newest = now, newest
        self._reader = EventReader(settings.layout.events)
        self._events = FoldedEvents(settings, self._reader)

    def updates(self, newest: int, before: int | None) -> tuple[PastUpdate, ...]:
        """So many updates, the newest first; with *before*, of those created before this sequence number.

        Any thread may call it: it has a reader of its own.

        Raises:
            PipelineError: EVENTS.NOT_READABLE.
        """
        held = own_liveness(self._settings, self._environ, self._now)
        return past_updates(EventReader(self._settings.layout.events), newest, held, before)

    def view(self) -> PipelineView:
        """The pipeline now. What cannot be read is noted in it; the rest is read."""
        settings, environ, now, reader = self._settings, self._environ, self._now, self._reader
        as_of, layout, host = now(), settings.layout, host_name(environ)
        check_lease = partial(liveness, layout.lease, host, now)
        with reading_carefully(layout) as reading:
            held = reading.read(EVENT_LOG, lambda: own_liveness(settings, environ, now), Liveness(is_held=False))
            metrics = partial(pipeline_metrics, settings, now, check_lease, tables=True, events=self._events)
            samples = reading.read(METRICS, metrics, Samples())
            alerts = alerts_of(settings, environ, self._secrets)
            return PipelineView(
                as_of,
                reading.read(EVENT_LOG, lambda: latest_outcome(reader.outcome, layout.lease, host, now), None),
                reading.read(EVENT_LOG, lambda: past_updates(reader, self._newest, held), ()),
                reading.read(EVENT_LOG, lambda: logged_facts(reader, now()), Logged()),
                samples,
                reading.read("the alerts", lambda: alerts.current(samples), ()),
                reading.read("the lease", lambda: read_holder(layout.lease), None),
                held.is_held,
                tuple(reading.unread),
            )
