"""Compares what the stores of a flow know of its progress, before the flow starts."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace

from headrace.checkpoints.damage import Damage, find_damage
from headrace.checkpoints.initial_offsets import newest_initial_batch
from headrace.checkpoints.offsets import newest_batches, query_id_of, read_progress
from headrace.delta_log.tables import TableState, committed_transaction, open_table_log, table_version
from headrace.delta_log.unread_commits import BETWEEN_COMMITS
from headrace.graph.resolved_flows import Mode
from headrace.plan.agreement import (
    NONE,
    SOURCE,
    Disagreement,
    KnownBatches,
    KnownTable,
    find_disagreement,
    newest_known,
)
from headrace.storage.deliveries import last_delivered
from headrace.storage.flow_stores import RETAINED_EVENTS, TABLE, FlowStores
from headrace.stores.snapshots import is_reading_snapshot, reading_afresh

# A table with this property drops old transactions, so that a missing one proves nothing.
_TRANSACTION_RETENTION = "delta.settransactionretentionduration"


def disagreement_of(stores: FlowStores, tables_read: Iterable[TableState]) -> Disagreement | None:
    """The first disagreement between the stores of a flow; None when it can continue.

    Flows that recompute their result, or run once, need no agreement: whatever is missing is written again.

    Args:
        stores: the stores of the flow.
        tables_read: the current states of the pipeline's tables that it may read.
    """
    if stores.adoption is not None and stores.adoption.problem is not None:
        return stores.adoption.problem
    if stores.record.unreadable:
        return Disagreement("FLOW.RECORD_UNREADABLE", {"file": str(stores.file), "reason": stores.record.unreadable})
    if not stores.mode.is_streaming and stores.mode is not Mode.SNAPSHOT:
        return None
    lost = stores.mode.is_streaming and not (stores.checkpoint / "metadata").is_file()
    if lost and (stores.has_run or committed_transaction(stores.tables[TABLE], stores.transaction) is not None):
        # A flow without rules commits under an id that is in its checkpoint: its record or the event log shows that it
        # ran. A flow with rules has transactions in its table, even if record and event log are lost.
        code = "FLOW.CHECKPOINT_LOST" if stores.adoption is None else "ADOPT.NO_START"
        return Disagreement(code, {"checkpoint": str(stores.checkpoint)})
    batches = batches_of(stores)
    damage = _damage(stores, batches)
    if damage is not None:
        params = {"file": str(damage.file), "reason": damage.reason, "checkpoint": str(stores.checkpoint)}
        return Disagreement("FLOW.CHECKPOINT_TORN" if damage.is_repairable else "FLOW.CHECKPOINT_DAMAGED", params)
    found = find_disagreement(batches, [*_own_tables(stores), *_tables_read(stores, tables_read)])
    paths = {"checkpoint": str(stores.progress_path), "file": str(stores.file)}
    return None if found is None else replace(found, params={**found.params, **paths})


def confirmed(find: Callable[[], Disagreement | None]) -> Disagreement | None:
    """A disagreement, unless it is found in a snapshot alone.

    A running update may have written some of the stores after others were listed.
    """
    found = find()
    if found is None or not is_reading_snapshot():
        return found
    with reading_afresh():
        return find()


def damage_of_stores(stores: FlowStores) -> Damage | None:
    """The damage that keeps a flow from continuing on its checkpoint; None when there is none."""
    return _damage(stores, batches_of(stores))


def _damage(stores: FlowStores, batches: KnownBatches) -> Damage | None:
    # The checkpoint's own commits are left out: only what other stores know counts here.
    known = newest_known(replace(batches, done=NONE))
    return find_damage(stores.checkpoint, known) if stores.mode.is_streaming else None


def batches_of(stores: FlowStores) -> KnownBatches:
    """The newest batches of a flow that each of its stores knows."""
    record, logged = stores.record, stores.logged
    delivered = last_delivered(stores.file.parent, record.epoch)
    reported = {f'the delivery note of sink "{name}"': batch for name, batch in delivered.items()}
    if logged is not None and logged[0] == record.epoch:
        reported["the event log"] = logged[1]
    if stores.mode is Mode.SNAPSHOT:
        planned = done = NONE if record.snapshot is None else record.snapshot.number
    else:
        planned, done = (NONE if newest is None else newest for newest in newest_batches(stores.checkpoint))
        done = max(done, planned - 1)
    committed = _committed(stores)
    if stores.mode.is_streaming:
        # An update may be running: completed batches are read before the table, planned ones after it.
        planned_now, _ = newest_batches(stores.checkpoint)
        planned = planned if planned_now is None else max(planned, planned_now)
    if stores.mode is Mode.SNAPSHOT and committed is not None:
        # A snapshot without changes makes no commit.
        committed = max(committed, done)
    return KnownBatches(record.epoch, stores.newest_epoch, planned, done, committed, reported)


def _committed(stores: FlowStores) -> int | None:
    """The newest batch in a flow's table; None without a table, or when the table drops old transactions."""
    table = open_table_log(stores.tables[TABLE])
    if table is None or any(key.casefold() == _TRANSACTION_RETENTION for key in table.metadata().configuration):
        return None
    query_id = query_id_of(stores.checkpoint)
    known = [table.transaction_version(name) for name in (stores.transaction, query_id) if name is not None]
    newest = max(newest_initial_batch(stores.checkpoint), *(NONE if version is None else version for version in known))
    # A record without a pipeline id may come from a pipeline with another name, whose transactions had another id.
    return None if newest == NONE and not stores.record.pipeline else newest


def _own_tables(stores: FlowStores) -> list[KnownTable]:
    """The tables that a flow writes to, each with the version in the flow's record and the current one."""
    found = []
    for name, known in stores.record.table_versions.items():
        path = stores.tables[name]
        now = table_version(path)
        if name != RETAINED_EVENTS and (now is None or now.table_id != known.table_id):
            # The user may delete it: the flow starts over, and quarantined rows are lost with it.
            continue
        same = now is not None and now.table_id == known.table_id
        found.append(KnownTable(name, path, known.version, now.version if now is not None and same else NONE))
    return found


def _tables_read(stores: FlowStores, tables: Iterable[TableState]) -> list[KnownTable]:
    """The tables that a stream reads, each with the version up to which it has read and the current one."""
    by_id = {table.table_id: table for table in tables}
    progress = read_progress(stores.checkpoint) if stores.mode.is_streaming else None
    found = []
    for offset in progress.offsets if progress is not None else ():
        table = by_id.get(offset.get("reservoirId", "")) if isinstance(offset, dict) else None
        if table is not None:
            read = int(offset["reservoirVersion"]) - (int(offset.get("index", 0)) == BETWEEN_COMMITS)
            found.append(KnownTable(SOURCE, table.path, read, table.version))
    return found
