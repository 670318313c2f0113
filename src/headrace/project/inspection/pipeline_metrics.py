"""Collects the metrics of a pipeline: from its event log, and from its storage as it is now."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import partial
from pathlib import Path

from headrace.alerts.alert import AlertState
from headrace.alerts.store import read_alerts
from headrace.errors import PipelineError
from headrace.metrics import catalogue, cost_metrics
from headrace.metrics.fold import EventFold
from headrace.metrics.samples import Samples
from headrace.model.liveness import Liveness
from headrace.model.outcome import ACTIVE_STATES, UpdateState
from headrace.model.version import __version__
from headrace.project.inspection.event_metrics import FoldedEvents
from headrace.project.inspection.stored_metrics import add_storage
from headrace.project.lease_holders import host_name, liveness, read_holder
from headrace.settings.settings import Settings
from headrace.settings.storage import MonitoringFile
from headrace.storage.refused_update import refused_problems
from headrace.stores.paths import StoragePath


def metrics_of(settings: Settings, environ: Mapping[str, str], *, tables: bool = True) -> Samples:
    """The current metrics of a pipeline.

    Args:
        settings: the pipeline's.
        environ: the environment variables.
        tables: read each table's log for its rows, bytes and files, each quarantine, and the folders of flows.

    Raises:
        PipelineError: EVENTS.NOT_READABLE.
    """
    check_lease = partial(liveness, settings.layout.lease, host_name(environ), time.time)
    return pipeline_metrics(settings, time.time, check_lease, tables=tables)


def pipeline_metrics(
    settings: Settings,
    now: Callable[[], float],
    check_lease: Callable[[], Liveness],
    *,
    tables: bool,
    events: FoldedEvents | None = None,
) -> Samples:
    """The current metrics of a pipeline.

    Args:
        settings: the pipeline's.
        now: the time in seconds since 1970.
        check_lease: who holds the lease of the pipeline.
        tables: read each table's log for its rows, bytes and files, each quarantine, and the folders of flows.
        events: its events, of which earlier calls have read some.

    Raises:
        PipelineError: EVENTS.NOT_READABLE.
    """
    events = events or FoldedEvents(settings)
    fold, lease = events.newest(), check_lease()
    running = fold.running_update
    lost = running if running is not None and not lease.may_run(running) else None
    if lost is not None:
        # It may have ended since the log was read, and another one may have begun.
        fold = events.newest()
    samples = fold.samples
    if fold.newest_event_at is not None:
        samples.set(catalogue.NEWEST_EVENT, fold.newest_event_at)
    if fold.latest is not None:
        is_lost = lost is not None and fold.running_update == lost
        samples.set(catalogue.UPDATE_STATE, 1, UpdateState.LOST.value if is_lost else fold.latest.state)
        if is_lost:
            fold.lose_flows()
    _add_current(samples, fold, now())
    _add_lease(samples, settings.layout.lease, now(), held=lease.is_held)
    _add_monitoring(samples, settings)
    samples.set(catalogue.BUILD, 1, __version__)
    with suppress(OSError):
        samples.set(catalogue.FREE, shutil.disk_usage(settings.layout.root).free)
    if tables:
        add_storage(samples, settings, fold, now(), is_held=lease.is_held)
    return samples


def _add_current(samples: Samples, fold: EventFold, now: float) -> None:
    """Add what depends on the time of the scrape."""
    for flow, watermark in fold.watermarks.items():
        samples.set(catalogue.WATERMARK_DELAY, round(now - watermark, 3), flow)
    for flow, sources in fold.unread.oldest.items():
        for source, oldest in sources.items():
            samples.set(catalogue.LAG_SECONDS, 0 if oldest is None else round(now - oldest, 3), flow, source)
    for flow, cost in fold.costs.items():
        for metric, value in ((cost_metrics.COST, cost.current(now)), (cost_metrics.USUAL_COST, cost.usual(now))):
            if value is not None:
                samples.set(metric, value, flow)
    active = {state.value for state in ACTIVE_STATES}
    for flow in [
        flow for flow, _, state in samples.of(catalogue.FLOW_STATE) if state in active and flow in fold.phases
    ]:
        cause = fold.phases[flow].cause(now)
        if cause is not None:
            samples.set(catalogue.BOTTLENECK, 1, flow, cause)


def _add_monitoring(samples: Samples, settings: Settings) -> None:
    """Add what monitoring itself has stored."""
    for code, problems in refused_problems(Path(settings.layout.monitoring(MonitoringFile.REFUSED))).items():
        samples.set(catalogue.UPDATE_REFUSED, problems, code)
    with suppress(PipelineError):
        for alert in read_alerts(Path(settings.layout.monitoring(MonitoringFile.ALERTS))).alerts:
            if alert.state is AlertState.OPEN:
                samples.add(catalogue.ALERTS, 1, alert.rule_id, alert.severity.value)


def _add_lease(samples: Samples, file: StoragePath, now: float, *, held: bool) -> None:
    samples.set(catalogue.LEASE, int(held))
    holder = read_holder(file)
    if holder is not None:
        samples.set(catalogue.LEASE_NUMBER, holder.number, holder.host)
        if held:
            samples.set(catalogue.LEASE_AGE, round(now - holder.renewed_at, 3), holder.host)
