"""A temporary table that gets rows of a preview: they are appended to it, or merged into it as an update would."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import functions as F

from headrace.cdc.scd_spec import START_AT
from headrace.cdc.table_lock import TableLock
from headrace.expectations.compile import Rules
from headrace.graph.resolved import ResolvedDataset
from headrace.graph.resolved_flows import ChangeFlow, SnapshotFlow
from headrace.model.expectations import Action
from headrace.model.names import quoted
from headrace.runtime.failpoints import no_failpoint
from headrace.settings.settings import Settings
from headrace.spark.cdc.change_writer import ChangeWriter
from headrace.spark.cdc.event_rules import snapshot_rules
from headrace.spark.cdc.merge_rules import merge_rules
from headrace.spark.cdc.snapshot_writer import SnapshotWriter
from headrace.spark.delta.tables import empty_frame


class BatchRules(Protocol):
    """The rules on the rows of a sample."""

    @property
    def rules(self) -> Rules:
        """The rules on single rows."""

    def with_rule_columns(self, frame: DataFrame) -> DataFrame:
        """The rows with the columns that rules about more than one row need."""


@dataclass(frozen=True)
class _EventRules:
    """Rules on events, which are all about one event."""

    rules: Rules

    def with_rule_columns(self, frame: DataFrame) -> DataFrame:
        """See :class:`BatchRules`."""
        return frame


@dataclass(frozen=True)
class Merging:
    """How the changes of one flow come into a table.

    Attributes:
        rules: on the changes.
        events: makes the rows of a batch changes.
        merge: merges the changes that passed; it gets all changes, too.
        begin: gets the version of a snapshot before its rows come.
    """

    rules: BatchRules
    events: Callable[[DataFrame], DataFrame]
    merge: Callable[[DataFrame, DataFrame], None]
    begin: Callable[[Any], None]


class SampleTable:
    """A temporary table of a dataset. It is empty at first.

    Args:
        session: the session.
        dataset: of the graph.
        folder: for the table, and for what is stored beside it; it does not exist yet.
        settings: of the project.
    """

    def __init__(self, session: SparkSession, dataset: ResolvedDataset, folder: Path, settings: Settings) -> None:
        self.path = str(folder / "table")
        self._retained = str(folder / "retained")
        self._session = session
        self._dataset = dataset
        self._settings = settings
        self._lock = TableLock()
        self._keys: tuple[str, ...] = ()
        self._batches = 0
        empty_frame(session, dataset.schema.nullable).write.format("delta").save(self.path)

    def append(self, rows: DataFrame, evaluated: DataFrame) -> None:
        """Append rows."""
        del evaluated
        rows.write.format("delta").mode("append").save(self.path)

    def merging(self, flow: ChangeFlow) -> Merging:
        """How the changes of a flow are merged."""
        self._keys = flow.feed.spec.keys
        return self._snapshots(flow) if isinstance(flow, SnapshotFlow) else self._changes(flow)

    def rows(self, limit: int) -> list[Row]:
        """Some rows, in the order of their keys and versions."""
        frame = self._session.read.format("delta").load(self.path)
        order = [*self._keys, *([START_AT] if START_AT in frame.columns else [])]
        return frame.orderBy(*[F.col(quoted(name)) for name in order]).limit(limit).collect()

    def _changes(self, flow: ChangeFlow) -> Merging:
        dataset, settings = self._dataset.dataset, self._settings
        on_tie = settings.on_tie.with_confs(dataset.properties)
        writer = ChangeWriter(
            flow=flow.flow,
            feed=flow.feed,
            table=self.path,
            retained_events=self._retained,
            transaction=flow.name,
            failpoint=no_failpoint,
            fence=_allow,
            table_lock=self._lock,
            retention=settings.retention.with_confs(dataset.properties),
            now=time.time,
            fencing_token=0,
            on_tie=on_tie,
        )

        def merge(rows: DataFrame, evaluated: DataFrame) -> None:
            writer(rows, self._next_batch(), evaluated)

        rules = merge_rules(flow.flow, flow.feed, dataset.expectations, on_tie)
        return Merging(_EventRules(rules), writer.select_events, merge, _ignore)

    def _snapshots(self, flow: SnapshotFlow) -> Merging:
        declared = self._dataset.dataset.expectations
        writer = SnapshotWriter(
            flow=flow.flow,
            feed=flow.feed,
            table=self.path,
            transaction=flow.name,
            failpoint=no_failpoint,
            fence=_allow,
            table_lock=self._lock,
            rejects_rows=any(rule.action in (Action.DROP, Action.QUARANTINE) for rule in declared),
        )

        def begin(version: Any) -> None:
            writer.version = version

        def merge(rows: DataFrame, evaluated: DataFrame) -> None:
            writer(rows, self._next_batch(), evaluated)

        rules = _EventRules(Rules(snapshot_rules(flow.flow, flow.feed, declared)))
        return Merging(rules, writer.select_events, merge, begin)

    def _next_batch(self) -> int:
        self._batches += 1
        return self._batches


def _allow() -> None:
    """Nobody else writes to a temporary table."""


def _ignore(version: Any) -> None:
    """Changes have their order in themselves."""
    del version
