"""Metrics of the storage as it is now: of its flows, its tables, and of what only a look at all of it finds."""

from __future__ import annotations

from headrace.metrics import catalogue
from headrace.metrics.dataset_health import dataset_health
from headrace.metrics.fold import EventFold
from headrace.metrics.samples import Samples
from headrace.project.inspection.flow_storage import add_stored_flows
from headrace.project.inspection.storage_survey import current_survey
from headrace.project.inspection.table_metrics import add_tables
from headrace.settings.settings import Settings
from headrace.storage.listed_storage import reading_storage


def add_storage(samples: Samples, settings: Settings, fold: EventFold, now: float, *, is_held: bool) -> None:
    """Add the metrics of the storage, and the health of datasets that follows from them.

    Args:
        samples: the metrics of events and of the lease.
        settings: the pipeline's.
        fold: the metrics of its events, read before the lease.
        now: the time in seconds since 1970.
        is_held: an update is running.
    """
    with reading_storage(settings.layout):
        add_stored_flows(samples, settings, fold, add_tables(samples, settings, fold.definitions), now)
        number = max((int(value) for value in samples.of(catalogue.LEASE_NUMBER).values()), default=-1)
        current_survey(settings, fold, number, now, is_held=is_held).add_to(samples)
    datasets = {name: flow.dataset for name, flow in fold.definitions.flows.items()}
    for dataset, (health, signals) in dataset_health(samples, datasets, now).items():
        for signal in signals or (None,):
            samples.set(catalogue.HEALTH, 1, dataset, health.value, signal.value if signal else "")
