"""The tables of a storage that maintenance looks after, and what it must know of each; read without a JVM."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime

import pyarrow.parquet as pq
from deltalake.exceptions import DeltaError

from headrace.delta_log.log_files import newest_checkpoint
from headrace.delta_log.table_features import features_of
from headrace.delta_log.table_files import (
    LiveFile,
    files_needed_since,
    first_version_since,
    is_outside,
    live_files,
    stored_files,
    unordered_files,
)
from headrace.delta_log.table_layout import table_layout
from headrace.delta_log.tables import TableState, commit_file, open_table, query_rows, table_exists, table_state
from headrace.errors import PipelineError
from headrace.graph.resolved_flows import Mode
from headrace.model.maintenance import MaintenancePolicy
from headrace.model.names import QUARANTINE_SUFFIX, Naming, QualifiedName
from headrace.model.pipeline_keys import MANAGED_KEY, z_order_columns
from headrace.model.triggers import InvalidInterval, parse_interval_s
from headrace.plan.maintenance import Role, TableFacts
from headrace.settings.storage import StorageLayout
from headrace.storage.adopted_tables import AdoptedTables, Consent, needs_consent
from headrace.storage.dead_letter_tables import dead_letter_table
from headrace.storage.held_versions import known_positions
from headrace.storage.inventory import StoredFlow, stored_flows, stored_tables
from headrace.storage.table_positions import Positions, TablePosition
from headrace.stores.paths import readable_file, storage_path

_APPENDING = frozenset({Mode.APPEND.value, Mode.ONCE.value})
_REPLACING = frozenset({Mode.REPLACE.value, Mode.COMPLETE.value})
_VERBS = {
    Mode.MERGE.value: "merges changes into it",
    Mode.SNAPSHOT.value: "merges snapshots into it",
    Mode.COMPLETE.value: "replaces it in each batch",
    Mode.REPLACE.value: "recomputes it",
}
# Delta's default, and how much earlier commits count as removable: Delta removes those of whole days.
_LOG_RETENTION = "interval 30 days"
_LOG_MARGIN_S = 2 * 86_400.0
_STATUSES = "status IN ('replayed', 'released')"


@dataclass(frozen=True)
class MaintainedTable:
    """A table of the storage, what it is, and the modes of the flows that write it.

    ``owner`` is the name of the dataset that it belongs to, ``protected`` says why its files must stay as they are.
    """

    name: str
    path: str
    role: Role
    owner: QualifiedName
    modes: frozenset[str] = frozenset()
    protected: str = ""


def maintained_tables(layout: StorageLayout, naming: Naming) -> tuple[MaintainedTable, ...]:
    """All tables of a storage but the event logs, which maintain themselves; each dataset before its other tables."""
    flows = stored_flows(layout, naming)
    return tuple(_tables(layout, naming, flows))


class TableReading:
    """Reads the facts of several tables.

    Args:
        layout: the paths in the storage.
        naming: resolves names to qualified ones.
        is_once: read the positions of streams once, and not for each table.
    """

    def __init__(self, layout: StorageLayout, naming: Naming, *, is_once: bool) -> None:
        self._layout = layout
        self._naming = naming
        self._is_once = is_once
        self._positions: Positions | None = None

    def facts(
        self, table: MaintainedTable, policy: MaintenancePolicy, now_s: float, *, is_held: bool
    ) -> TableFacts | None:
        """See :func:`table_facts`."""
        if self._is_once and self._positions is None:
            self._positions = known_positions(self._layout, self._naming)
        known = self._positions
        return table_facts(table, self._layout, self._naming, policy, now_s, is_held=is_held, positions=known)


def table_facts(
    table: MaintainedTable,
    layout: StorageLayout,
    naming: Naming,
    policy: MaintenancePolicy,
    now_s: float,
    *,
    is_held: bool,
    positions: Positions | None = None,
) -> TableFacts | None:
    """What maintenance must know of a table, and of the streams that read it at this moment; None without the table.

    Args:
        table: the table.
        layout: the paths in the storage.
        naming: resolves names to qualified ones.
        policy: the settings.
        now_s: the time, in seconds since 1970.
        is_held: whether an update is running.
        positions: of all streams, for a caller that looks at several tables at once; None to read them.

    Raises:
        PipelineError: STORAGE.TABLE_UNREADABLE, STORAGE.EMPTY_COMMIT.
    """
    positions = known_positions(layout, naming) if positions is None else positions
    # Before the log: a file that is committed meanwhile is then not among them.
    on_disk = stored_files(table.path, _partition_columns(table.path))
    state = table_state(table.path)
    if state is None:
        return None
    laid_out = table_layout(table.path)
    files = live_files(table.path, state.version)
    facts = TableFacts(
        name=table.name,
        path=table.path,
        role=table.role,
        managed=state.properties.get(MANAGED_KEY, "true").strip().casefold() != "false",
        protected=table.protected,
        busy=_busy(table, positions) if is_held else "",
        partition_by=state.partition_by,
        cluster_by=laid_out.cluster_by or (),
        z_order=() if laid_out.cluster_by else z_order_columns(state.properties),
        files=files,
        commits=state.version - newest_checkpoint(storage_path(table.path) / "_delta_log", state.version)[0],
        features=features_of(laid_out.features, state.properties),
        stored=on_disk,
        streams=tuple(found.reader for found in positions.known if found.table_id == state.table_id),
        expired_rows=_expired_rows(table, files, policy, now_s),
    )
    return _with_needed(_with_order(facts, files), state, positions, policy, now_s)


def expiry_condition(policy: MaintenancePolicy, now_s: float, literal: Callable[[str], str]) -> str:
    """The SQL condition of quarantined rows and dead letters past their retention.

    Args:
        policy: the settings.
        now_s: the time, in seconds since 1970.
        literal: writes a time in UTC as a literal.
    """

    def older_than(retain_s: float) -> str:
        oldest = datetime.fromtimestamp(now_s - retain_s, UTC)
        return f"quarantined_at < {literal(oldest.strftime('%Y-%m-%d %H:%M:%S'))}"

    condition = f"({_STATUSES} AND {older_than(policy.rows_retain_s)})"
    if policy.open_rows_retain_s is not None:
        condition += f" OR (status = 'open' AND {older_than(policy.open_rows_retain_s)})"
    return condition


def delta_rs_time(text: str) -> str:
    """A literal of a time in UTC in the SQL of delta-rs."""
    return f"arrow_cast('{text}', 'Timestamp(Microsecond, Some(\"UTC\"))')"


def _tables(layout: StorageLayout, naming: Naming, flows: Sequence[StoredFlow]) -> Iterator[MaintainedTable]:
    known = dict(stored_tables(layout, naming))
    for name, path in known.items():
        base = replace(name, name=name.name.removesuffix(QUARANTINE_SUFFIX))
        modes = _modes(flows, name)
        if name != base and not modes and _modes(flows, base):
            yield MaintainedTable(str(name), path, Role.QUARANTINE, base, _modes(flows, base))
            continue
        role = Role.OTHER if not modes else Role.VIEW if modes <= _REPLACING else Role.STREAMING
        adopted = AdoptedTables(layout).at(path)
        yield MaintainedTable(str(name), path, role, name, modes, needs_consent(adopted, Consent.MAINTAIN))
    for name in dict.fromkeys(flow.dataset for flow in flows):
        memory = layout.cdc_state(naming, name)
        if table_exists(memory):
            yield MaintainedTable(f"{name}, changes", memory, Role.CHANGES, name, _modes(flows, name))
    for flow in flows:
        letters = dead_letter_table(flow.file.parent)
        if table_exists(letters):
            modes = frozenset({flow.record.mode})
            yield MaintainedTable(f"{flow.name}, dead letters", letters, Role.DEAD_LETTERS, flow.dataset, modes)


def _modes(flows: Sequence[StoredFlow], dataset: QualifiedName) -> frozenset[str]:
    return frozenset(flow.record.mode for flow in flows if flow.dataset == dataset)


def _busy(table: MaintainedTable, positions: Positions) -> str:
    """Why a running update may conflict with a rewrite of a table; empty if it only appends to it."""
    if table.role in (Role.CHANGES, Role.DEAD_LETTERS):
        return "a running update may change it"
    if table.role is Role.QUARANTINE and positions.unknown:
        # A replay changes the status of rows.
        return positions.unknown[0]
    others = sorted(table.modes - _APPENDING)
    return f"a running update {_VERBS.get(others[0], 'may change it')}" if others else ""


def _partition_columns(path: str) -> tuple[str, ...]:
    state = table_state(path)
    return () if state is None else state.partition_by


def _with_order(facts: TableFacts, files: tuple[LiveFile, ...]) -> TableFacts:
    if facts.cluster_by:
        return replace(facts, unordered=frozenset(file.path for file in files if file.cube is None))
    if facts.z_order:
        return replace(facts, unordered=unordered_files(facts.path, files, facts.z_order))
    return facts


def _with_needed(
    facts: TableFacts, state: TableState, positions: Positions, policy: MaintenancePolicy, now_s: float
) -> TableFacts:
    if positions.unknown:
        reason = positions.unknown[0]
        return replace(facts, needed=None, kept_for=reason, log_kept_for=reason, unknown_streams=reason)
    first = first_version_since(facts.path, state.version, now_s - policy.retain_s)
    position = positions.oldest(state.table_id)
    if position is not None:
        facts = replace(facts, log_kept_for=_log_kept_for(facts.path, state, position, now_s))
    kept_for = ""
    if position is not None and position.version < first:
        first = position.version
        kept_for = f"{position.reader} needs version {first} and later"
    try:
        needed = files_needed_since(facts.path, state.version, first)
    except PipelineError as error:
        return replace(facts, needed=None, kept_for=f"{kept_for}: {error.message}" if kept_for else error.message)
    outside = min((name for name in needed if is_outside(name)), default=None)
    if outside is not None:
        return replace(facts, needed=None, kept_for=f"its log names a file outside of its folder: {outside}")
    return replace(facts, needed=needed, kept_for=kept_for)


def _log_kept_for(path: str, state: TableState, position: TablePosition, now_s: float) -> str:
    """Why commits past the retention of a table's log are needed; empty if a stream needs only later ones."""
    text = state.properties.get("delta.logRetentionDuration", _LOG_RETENTION).casefold()
    text = text.removeprefix("interval").strip()
    try:
        committed_s = commit_file(storage_path(path), position.version).stat().st_mtime
        is_recent = committed_s > now_s - parse_interval_s(text) + _LOG_MARGIN_S
    except FileNotFoundError:
        is_recent = position.version > state.version
    except InvalidInterval:
        is_recent = False
    return "" if is_recent else f"{position.reader} needs version {position.version} and later of the log"


def _expired_rows(
    table: MaintainedTable, files: Iterable[LiveFile], policy: MaintenancePolicy, now_s: float
) -> int | None:
    if table.role not in (Role.QUARANTINE, Role.DEAD_LETTERS):
        return 0
    opened = open_table(table.path)
    if opened is None:
        return 0
    condition = expiry_condition(policy, now_s, delta_rs_time)
    try:
        (found,) = query_rows(opened, f"SELECT count(*) AS n FROM q WHERE {condition}")  # noqa: S608 - our own words
    except DeltaError:
        # delta-rs reads no rows of a table whose types were widened. These columns have had one type only.
        return _expired_in_files(table.path, files, policy, now_s)
    return int(found["n"])


def _expired_in_files(path: str, files: Iterable[LiveFile], policy: MaintenancePolicy, now_s: float) -> int | None:
    """The same from the files alone; None if they do not have the columns under their names, or deletion vectors."""
    count = 0
    for file in files:
        stored = pq.ParquetFile(readable_file(storage_path(path) / file.path))
        if file.vector is not None or not {"status", "quarantined_at"} <= set(stored.schema_arrow.names):
            return None
        for row in stored.read(columns=["status", "quarantined_at"]).to_pylist():
            retain_s = policy.open_rows_retain_s if row["status"] == "open" else policy.rows_retain_s
            at: datetime = row["quarantined_at"]
            age_s = now_s - at.replace(tzinfo=at.tzinfo or UTC).timestamp()
            count += retain_s is not None and age_s > retain_s
    return count
