"""Decides how a materialized view is refreshed, and refreshes the groups whose rows changed.

A view is refreshed in full whenever it is not certain that its stored rows are those of its query over known versions
of its tables, or that the changes since then are known.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field, replace

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame

from headrace.delta_log.tables import table_state
from headrace.errors import PipelineError
from headrace.graph.declared_refresh import declared_obstacle, properties_obstacle
from headrace.graph.resolved_flows import RefreshFlow
from headrace.model.outcome import FlowCounts
from headrace.model.refresh import (
    AUTO_REFRESH_KEY,
    AutoRefresh,
    Obstacle,
    Refresh,
    RefreshMethod,
    RefreshPolicy,
    auto_refresh,
)
from headrace.plan.refresh_choice import cheaper_method, cost_key
from headrace.spark.cdc.batch_cache import BatchCache, cached_frames
from headrace.spark.delta.transaction import DeltaTransaction, delta_transaction, is_supported
from headrace.spark.jvm.causes import chain
from headrace.spark.refresh.compute_change import ChangeComputation, ViewFacts
from headrace.spark.refresh.expectation_totals import query_id, totals
from headrace.spark.refresh.group_writer import GroupWriter, is_small_view
from headrace.spark.refresh.pinned_query import PinnedQuery, pin
from headrace.spark.refresh.pinned_tables import ChangeKind, changed_files, has_same_columns, reason_for_reading_all
from headrace.spark.refresh.view_change import NeedsAllRows, ViewChange, is_stored_otherwise
from headrace.spark.session.active_session import make_active
from headrace.spark.update.context import UpdateContext
from headrace.storage.flow_record import FlowRecord
from headrace.storage.view_positions import NoPositions, ViewPositions, last_positions

_METADATA = "spark.databricks.delta.commitInfo.userMetadata"
_CAREFUL = f"{AUTO_REFRESH_KEY} is full"
_INPUTS_UNCHANGED = "no row of its tables changed"
_CANCELED = frozenset({"SPARK_JOB_CANCELLED", "SPARK_JOB_CANCELED", "JOB_CANCELLED"})


@dataclass(frozen=True)
class FullRefresh:
    """A refresh that computes all rows.

    Attributes:
        frame: the rows.
        refresh: why it is a full one.
        user_metadata: of the commit; None for none.
        input_bytes: the size of the tables that are read; 0 if unknown.
    """

    frame: DataFrame
    refresh: Refresh
    user_metadata: str | None = None
    input_bytes: int = 0

    @property
    def cost_key(self) -> str:
        """The name under which its cost is stored."""
        return cost_key(RefreshMethod.FULL, reads_all=True)


@dataclass
class GroupRefresh:
    """A refresh of groups, ready to be committed.

    Attributes:
        refresh: why it is one of groups.
        cost_key: the name under which its cost is stored.
        input_bytes: the size of the tables that are read.
        changed_bytes: the size of their changed files.
    """

    refresh: Refresh
    cost_key: str
    input_bytes: int
    changed_bytes: int
    _writer: GroupWriter
    _opened: DeltaTransaction
    _change: ViewChange | None
    _positions: ViewPositions
    _began_s: float
    _caches: ExitStack = field(default_factory=ExitStack)

    def write(self) -> None:
        """Commit it.

        Raises:
            Outdated: another writer has changed the view meanwhile.
        """
        with self._caches:
            self._writer.write(self._opened, self._change, self._positions, self.refresh, self._began_s)


class ViewRefresh:
    """The refresh of one view in one update.

    Args:
        context: shared by the flows of the update.
        flow: the flow of the view.
        record: its record.
    """

    def __init__(self, context: UpdateContext, flow: RefreshFlow, record: FlowRecord) -> None:
        self._context = context
        self._flow = flow
        self._record = record
        self._dataset = context.graph.by_name[flow.target]
        self._policy = self._dataset.dataset.refresh_policy
        self._path = context.table_path(flow.target)

    def choose(
        self, frame: DataFrame, *, requested: bool = False, failed: str | None = None
    ) -> FullRefresh | GroupRefresh:
        """The refresh of the view.

        Args:
            frame: what its query returns.
            requested: the user asks for a full refresh.
            failed: why a refresh of groups could not be committed; None before the first try.

        Raises:
            PipelineError: REFRESH.FULL_NEEDED: its policy forbids the full refresh that it needs.
        """
        began_s = time.monotonic()
        make_active(frame.sparkSession)
        obstacle = self._flow.analysis.refresh.obstacle or declared_obstacle(self._dataset.dataset)
        if obstacle is None and self._leaves_choice(frame):
            return FullRefresh(frame, Refresh(RefreshMethod.FULL, _CAREFUL))
        query = obstacle or self._pinned(frame)
        if isinstance(query, Obstacle):
            return FullRefresh(frame, Refresh(RefreshMethod.FULL, query.describe()))
        inputs = {table_id: table.version for table_id, table in query.inputs.items()}
        expectations = self._dataset.dataset.expectations
        positions = ViewPositions(query_id(self._flow.analysis.fingerprint, expectations), inputs)
        size = sum(table.size_bytes for table in query.inputs.values())
        try:
            if requested or failed is not None:
                raise NeedsAllRows(failed or "full refresh")  # noqa: TRY301 - as the others
            return self._groups(query, frame, positions, size, began_s)
        except NeedsAllRows as needed:
            reason = str(needed)
        is_strict = self._policy is RefreshPolicy.INCREMENTAL_STRICT
        if is_strict and self._record.started_at and not requested:
            location = self._flow.flow.location
            raise PipelineError("REFRESH.FULL_NEEDED", location=location, name=self._flow.target, reason=reason)
        refresh = Refresh(RefreshMethod.FULL, reason)
        text = replace(positions, refresh=refresh).to_text(frame.sparkSession.conf.get(_METADATA, None))
        try:
            return FullRefresh(query.whole(), refresh, text, size)
        except (PySparkException, Py4JError):
            # No reason to fail: without input versions, the next refresh is a full one too.
            return FullRefresh(frame, refresh)

    def _leaves_choice(self, frame: DataFrame) -> bool:
        """Whether nobody has asked for anything but full refreshes."""
        conf = frame.sparkSession.conf.get(AUTO_REFRESH_KEY, None)
        return self._policy is RefreshPolicy.AUTO and auto_refresh(conf) is AutoRefresh.FULL

    def _pinned(self, frame: DataFrame) -> PinnedQuery | Obstacle:
        if not is_supported(frame.sparkSession):
            return Obstacle("version of Delta", "it is not known to Headrace")
        try:
            return pin(frame)
        except (Py4JError, TypeError) as error:
            # A plan with parts that no rule knows: they have other methods, or none.
            return Obstacle("plan of the query", f"it cannot be read ({type(error).__name__})")

    def _groups(
        self, query: PinnedQuery, frame: DataFrame, positions: ViewPositions, size: int, began_s: float
    ) -> GroupRefresh:
        """The refresh of the groups that changed.

        Raises:
            NeedsAllRows: all rows have to be computed.
        """
        expectations = self._dataset.dataset.expectations
        for reason in self._reasons_from_record():
            raise NeedsAllRows(reason)
        opened = delta_transaction(frame.sparkSession, self._path)
        last = self._last(query, frame, opened, positions)
        if self._may_be_uncounted(last):
            self._writer().count_again(last, self._path)
        since = dict(last.inputs)
        files = {table_id: changed_files(table, since[table_id]) for table_id, table in query.inputs.items()}
        changed = sum(size_bytes for _, size_bytes in files.values())
        moved = {table_id for table_id, (kind, _) in files.items() if kind is not ChangeKind.NONE}
        reads_all = not (query.query.follows_from_rows and query.adds_up(moved))
        refresh = self._choice(query.query.method, size, changed, reads_all=reads_all)
        caches = ExitStack()
        try:
            cache = caches.enter_context(cached_frames())
            change = self._change(query, since, opened, cache)
            counted = totals(expectations, self._known_counts(last), change, opened.rows())
        except (PySparkException, Py4JError, TypeError) as error:
            caches.close()
            if any(cause.condition in _CANCELED for cause in chain(error)):
                raise
            text = str(next(chain(error)).message).strip().split("\n")[0][:200]
            raise NeedsAllRows(f"the changes could not be computed: {text}") from error
        except BaseException:
            caches.close()
            raise
        if change is None:
            refresh = Refresh(refresh.method, _INPUTS_UNCHANGED)
        key = cost_key(refresh.method, reads_all=reads_all)
        writer = replace(self._writer(), expectations=counted)
        return GroupRefresh(refresh, key, size, changed, writer, opened, change, positions, began_s, caches)

    def _reasons_from_record(self) -> Iterator[str]:
        """Why the rows of the view cannot be relied on, without a look at its table."""
        record = self._record
        if not record.started_at:
            yield "first refresh"
        elif record.fingerprint != self._flow.analysis.fingerprint:
            yield "its code, settings or input columns changed"
        elif any(known.version < 0 for known in record.inputs.values()):
            yield "rows were erased from its tables"
        state = table_state(self._path)
        if state is None or state.table_id != record.target_id:
            yield "its table was replaced since its last refresh"
            return
        obstacle = properties_obstacle(state.properties)
        if obstacle is not None:
            yield obstacle.describe()

    def _last(
        self, query: PinnedQuery, frame: DataFrame, opened: DeltaTransaction, positions: ViewPositions
    ) -> ViewPositions:
        """What the stored rows come from.

        Raises:
            NeedsAllRows: they, or the changes since them, are not known.
        """
        state = table_state(self._path)
        version = int(opened.opened.snapshot().version())
        if state is None or state.version < version or not has_same_columns(frame, state.schema):
            raise NeedsAllRows("the columns of its table differ from those of its query")
        if state.partition_by != self._dataset.dataset.partition_by:
            raise NeedsAllRows("its partition columns changed")
        last = last_positions(self._path, version)
        if isinstance(last, NoPositions):
            raise NeedsAllRows(last.reason)
        if last.query != positions.query:
            raise NeedsAllRows("its code, settings or input columns changed")
        if set(last.inputs) != set(positions.inputs):
            raise NeedsAllRows("it reads other tables than at its last refresh")
        for table_id, table in query.inputs.items():
            reason = reason_for_reading_all(table, last.inputs[table_id])
            if reason is not None:
                raise NeedsAllRows(reason)
        return last

    def _choice(self, partial: RefreshMethod, size: int, changed: int, *, reads_all: bool) -> Refresh:
        """Whether only what changed is refreshed.

        Raises:
            NeedsAllRows: computing all rows costs less, and the policy leaves the choice.
        """
        if self._policy is not RefreshPolicy.AUTO:
            return Refresh(partial, f"refresh policy {self._policy.value}")
        method, reason = cheaper_method(partial, self._record.refresh_costs, size, changed, reads_all=reads_all)
        if method is RefreshMethod.FULL:
            raise NeedsAllRows(reason)
        return Refresh(method, reason)

    def _change(
        self, query: PinnedQuery, since: dict[str, int], opened: DeltaTransaction, cache: BatchCache
    ) -> ViewChange | None:
        required = tuple(column.name for column in self._dataset.code_schema.columns if not column.nullable)
        view = ViewFacts(self._name, required, is_small=is_small_view(opened))
        change = ChangeComputation(query, opened.rows(), cache, view).change(since)
        if (
            change is not None
            and change.keys is not None
            and is_stored_otherwise(change.keys, self._dataset.dataset.partition_by)
        ):
            raise NeedsAllRows("a partition column has an empty text or NULL, which Delta stores alike")
        return change

    def _may_be_uncounted(self, last: ViewPositions) -> bool:
        """Whether a crash may have kept the counts of the last refresh out of the event log."""
        record = self._record
        ended = (known.version for known in record.table_versions.values() if known.table_id == record.target_id)
        return last.version > max(ended, default=-1)

    def _known_counts(self, last: ViewPositions) -> FlowCounts | None:
        """The counts of the last refresh, if they are needed."""
        if not self._dataset.dataset.expectations:
            return None
        return self._context.reporting.known_counts(self._flow.name, self._record.epoch, last.version)

    @property
    def _name(self) -> str:
        return str(self._flow.target)

    def _writer(self) -> GroupWriter:
        context, flow, record = self._context, self._flow, self._record
        return GroupWriter(
            flow.name,
            self._name,
            record.epoch,
            context.state.transaction(record),
            context.guard,
            context.emit_timed(flow.name),
            context.reporting.known_counts,
        )
