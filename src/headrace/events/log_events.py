"""Events of a log for the tables that are computed from them without Spark."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import cached_property
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from deltalake import QueryBuilder

from headrace.delta_log.tables import sql_literal
from headrace.errors import PipelineError
from headrace.events.levels import Level
from headrace.events.storage_errors import STORAGE_ERRORS, reason_of
from headrace.events.stream_reports import REPORTS, TIME, reports_of
from headrace.events.types import FlowStateChanged, UpdateCreated, UpdateStateChanged, UpdateTotals
from headrace.stores.delta_tables import open_delta

# How updates began, went on and ended, and the states of flows.
_STATES = (
    "SELECT id, event_type, origin['pipeline_id'] AS pipeline_id, origin['update_id'] AS update_id, "  # noqa: S608 - our own words
    "origin['flow_name'] AS flow, origin['dataset_name'] AS dataset, "
    "arrow_cast(timestamp, 'Int64') AS timestamp_us, details "
    f"FROM events WHERE event_type IN ('{UpdateCreated.event_type}', '{UpdateStateChanged.event_type}') "
    f"OR (event_type = '{FlowStateChanged.event_type}' AND level <> '{Level.METRICS.value}') ORDER BY id"
)
_TOTALS = (
    f"SELECT id, origin['update_id'] AS update_id, details FROM events WHERE event_type = '{UpdateTotals.event_type}' "  # noqa: S608 - our own words
    "ORDER BY id"
)
_OF_FLOWS = (
    "SELECT id, timestamp, origin['update_id'] AS update_id, origin['flow_name'] AS flow, origin['epoch'] AS epoch, "  # noqa: S608 - our own words
    f"origin['batch_id'] AS batch_id FROM events WHERE event_type = '{FlowStateChanged.event_type}'"
)
_BATCHES = (
    f"SELECT id, details FROM events WHERE event_type = '{FlowStateChanged.event_type}' "  # noqa: S608 - our own words
    "AND origin['batch_id'] IS NOT NULL"
)
_WITH_ORIGIN = (
    "SELECT id, timestamp, origin['update_id'] AS update_id, origin['flow_name'] AS flow, "
    "origin['dataset_name'] AS dataset, origin['epoch'] AS epoch, origin['batch_id'] AS batch_id, details FROM events "
)
_BATCH = f"event_type = '{FlowStateChanged.event_type}' AND origin['batch_id'] IS NOT NULL"
_FIRST_RECORDS = (
    f"SELECT min(id) FROM events WHERE {_BATCH} "  # noqa: S608 - our own words
    "GROUP BY origin['update_id'], origin['flow_name'], origin['epoch'], origin['batch_id']"
)


class LogEvents:
    """What tables for SQL are computed from: events of one version of a log, read when they are first needed."""

    def __init__(self, log: str) -> None:
        """Open a log.

        Raises:
            PipelineError: EVENTS.NOT_READABLE.
        """
        self._log = log
        with self._reading():
            self._table = open_delta(log)

    @cached_property
    def reports(self) -> pa.Table:
        """Reports of streams, with the columns of ``REPORT_SCHEMA``.

        Raises:
            PipelineError: EVENTS.NOT_READABLE.
        """
        with self._reading():
            return reports_of(self._batches(REPORTS))

    @cached_property
    def states(self) -> tuple[Mapping[str, Any], ...]:
        """The states of updates and flows, oldest first.

        Raises:
            PipelineError: EVENTS.NOT_READABLE.
        """
        with self._reading():
            return tuple(self._rows(_STATES).to_pylist())

    @cached_property
    def totals(self) -> Mapping[str, tuple[str, str]]:
        """The id and the details of the newest totals of each update.

        Raises:
            PipelineError: EVENTS.NOT_READABLE.
        """
        with self._reading():
            rows = self._rows(_TOTALS).to_pylist()
        return {row["update_id"]: (row["id"], row["details"]) for row in rows}

    @cached_property
    def of_flows(self) -> pa.Table:
        """Batches, states and lag of flows, without their details: id, timestamp, update_id, flow, epoch, batch_id.

        Raises:
            PipelineError: EVENTS.NOT_READABLE.
        """
        with self._reading():
            events = self._rows(_OF_FLOWS)
            return events.set_column(1, "timestamp", pc.cast(events.column("timestamp"), TIME)).combine_chunks()

    def batches_with_details(self, first: str) -> pa.Table:
        """The id and the details of batches, from an id on.

        Raises:
            PipelineError: EVENTS.NOT_READABLE.
        """
        with self._reading():
            return self._rows(f"{_BATCHES} AND id >= {sql_literal(first)}")

    def batches_that_have(self, field: str) -> pa.Table:
        """The first record of each batch that has something in a list, a field of its details, in order.

        The columns are id, timestamp, update_id, flow, dataset, epoch, batch_id and details.

        Raises:
            PipelineError: EVENTS.NOT_READABLE.
        """
        # To parse all details would take longer than the rest.
        has_some = f"strpos(details, '\"{field}\": [{{') > 0"
        return self._with_origin(f"{_BATCH} AND {has_some} AND id IN ({_FIRST_RECORDS})")

    def of_type(self, event_type: str) -> pa.Table:
        """The events of one type, in order, with the same columns.

        Raises:
            PipelineError: EVENTS.NOT_READABLE.
        """
        return self._with_origin(f"event_type = {sql_literal(event_type)}")

    def _with_origin(self, where: str) -> pa.Table:
        with self._reading():
            rows = self._rows(f"{_WITH_ORIGIN} WHERE {where} ORDER BY id")
            return rows.set_column(1, "timestamp", pc.cast(rows.column("timestamp"), TIME)).combine_chunks()

    def _rows(self, query: str) -> pa.Table:
        rows = self._batches(query).read_all()
        # Arrow can compute little with the type of texts that delta-rs has.
        fields = [
            field.with_type(pa.string()) if pa.types.is_string_view(field.type) else field for field in rows.schema
        ]
        return rows.cast(pa.schema(fields))

    def _batches(self, query: str) -> pa.RecordBatchReader:
        return pa.RecordBatchReader.from_stream(QueryBuilder().register("events", self._table).execute(query))

    @contextmanager
    def _reading(self) -> Iterator[None]:
        try:
            yield
        except (*STORAGE_ERRORS, pa.ArrowException) as error:
            raise PipelineError("EVENTS.NOT_READABLE", path=self._log, reason=reason_of(error)) from error
