"""Metrics of tables from their logs: rows, bytes, files, versions, freshness, and rows in quarantine."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress

from deltalake import DeltaTable

from headrace.delta_log.newest_time import StatisticsLacking, newest_time_micros
from headrace.delta_log.tables import commit_file, count_rows, open_table_log, table_size
from headrace.errors import PipelineError
from headrace.events.storage_errors import STORAGE_ERRORS
from headrace.metrics import catalogue
from headrace.metrics.definitions import Definitions
from headrace.metrics.samples import Samples
from headrace.model.names import QUARANTINE_SUFFIX
from headrace.project.inspection.open_rows import quarantines
from headrace.settings.settings import Settings
from headrace.storage.inventory import stored_tables
from headrace.stores.paths import storage_path


def add_tables(samples: Samples, settings: Settings, definitions: Definitions) -> dict[str, str]:
    """Add the metrics of tables; returns their paths by Delta's ids."""
    paths: dict[str, str] = {}
    readable: list[str] = []
    for name, path in stored_tables(settings.layout, settings.naming):
        # A table that cannot be read is reported by the flows that use it.
        with suppress(PipelineError, ValueError, LookupError, *STORAGE_ERRORS):
            table = open_table_log(path)
            if table is None:
                continue
            dataset = str(name)
            readable += [] if dataset.endswith(QUARANTINE_SUFFIX) else [dataset]
            paths[str(table.metadata().id)] = path
            samples.set(catalogue.TABLE_ROWS, count_rows(table, path), dataset)
            samples.set(catalogue.TABLE_BYTES, table_size(table), dataset)
            samples.set(catalogue.TABLE_FILES, len(table.file_uris()), dataset)
            samples.set(catalogue.TABLE_VERSION, table.version(), dataset)
            committed_at = commit_file(storage_path(path), table.version()).stat().st_mtime
            samples.set(catalogue.TABLE_COMMIT, round(committed_at, 3), dataset)
            defined = definitions.datasets.get(dataset)
            _add_freshness(samples, dataset, table, {} if defined is None else defined.freshness_s)
    with suppress(PipelineError, ValueError, LookupError, *STORAGE_ERRORS):
        # A value that is new has not increased, so the first rows need a value before them.
        waiting = dict.fromkeys(readable, 0) | {
            dataset: rows for dataset, rows, _ in quarantines(settings.layout, settings.naming)
        }
        for dataset, rows in waiting.items():
            samples.set(catalogue.QUARANTINED, rows, dataset)
    return paths


def _add_freshness(samples: Samples, dataset: str, table: DeltaTable, targets_s: Mapping[str, float]) -> None:
    for column, target_s in targets_s.items():
        samples.set(catalogue.FRESHNESS_TARGET, target_s, dataset, column)
        with suppress(StatisticsLacking):
            newest = newest_time_micros(table, column)
            if newest is not None:
                samples.set(catalogue.NEWEST_ROW, newest / 1e6, dataset, column)
