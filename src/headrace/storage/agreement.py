"""What the stores of a flow know of its progress, compared before the flow starts: the one place that does."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from headrace.checkpoints.damage import Damage, damage_of
from headrace.storage.deliveries import last_delivered
from headrace.delta_log.tables import TableState, committed_transaction, open_table, table_version
from headrace.storage.flow_stores import MEMORY, TABLE, FlowStores
from headrace.checkpoints.offsets import newest_batches, query_id_of, read_progress
from headrace.checkpoints.initial_offsets import newest_seeded
from headrace.graph.resolved import Mode
from headrace.plan.agreement import NONE, SOURCE, Disagreement, KnownBatches, KnownTable, contradiction, newest_known

# Where a table has it, that a transaction is not there says nothing.
_FORGETS = "delta.settransactionretentionduration"
# The place of a position in a table that stands before a commit, and not in it.
BETWEEN_COMMITS = -1


def contradiction_of(stores: FlowStores, tables_read: Iterable[TableState]) -> Disagreement | None:
    """What does not agree between the stores of a flow, or None when it can go on.

    Flows that are computed anew each time, or run once, need no agreement: what is missing is written again.

    Args:
        stores: of the flow.
        tables_read: tables of the pipeline that it may read, as they are now.
    """
    if stores.record.unreadable:
        return Disagreement("FLOW.RECORD_UNREADABLE", {"file": str(stores.file), "reason": stores.record.unreadable})
    if not stores.mode.streams and stores.mode is not Mode.SNAPSHOT:
        return None
    lost = stores.mode.streams and not (stores.checkpoint / "metadata").is_file()
    if lost and (stores.ran or committed_transaction(stores.tables[TABLE], stores.transaction) is not None):
        # A flow without rules commits under an id that lies in its checkpoint: its record, or else the event log, tells
        # that it ran. One with rules has left its transactions in the table, even if both are gone.
        return Disagreement("FLOW.CHECKPOINT_LOST", {"checkpoint": str(stores.checkpoint)})
    batches = batches_of(stores)
    damage = _damage(stores, batches)
    if damage is not None:
        said = {"file": str(damage.file), "reason": damage.reason, "checkpoint": str(stores.checkpoint)}
        return Disagreement("FLOW.CHECKPOINT_TORN" if damage.mendable else "FLOW.CHECKPOINT_DAMAGED", said)
    found = contradiction(batches, [*_own_tables(stores), *_tables_read(stores, tables_read)])
    places = {"checkpoint": str(stores.place), "file": str(stores.file)}
    return None if found is None else replace(found, said={**found.said, **places})


def damage_of_stores(stores: FlowStores) -> Damage | None:
    """The file of a flow's checkpoint that keeps it from going on because it is torn, or None."""
    return _damage(stores, batches_of(stores))


def _damage(stores: FlowStores, batches: KnownBatches) -> Damage | None:
    # That the checkpoint says so itself is not what another store knows.
    known = newest_known(replace(batches, done=NONE))
    return damage_of(stores.checkpoint, known) if stores.mode.streams else None


def batches_of(stores: FlowStores) -> KnownBatches:
    """The newest batches of a flow that its stores know."""
    record, logged = stores.record, stores.logged
    delivered = last_delivered(stores.file.parent, record.epoch)
    told = {f'the delivery note of sink "{name}"': batch for name, batch in delivered.items()}
    if logged is not None and logged[0] == record.epoch:
        told["the event log"] = logged[1]
    if stores.mode is Mode.SNAPSHOT:
        planned = done = NONE if record.snapshot is None else record.snapshot.number
    else:
        planned, done = (NONE if newest is None else newest for newest in newest_batches(stores.checkpoint))
        done = max(done, planned - 1)
    committed = _committed(stores)
    if stores.mode.streams:
        # An update may run meanwhile: what is done is read before the table, and what is planned after it.
        again, _ = newest_batches(stores.checkpoint)
        planned = planned if again is None else max(planned, again)
    if stores.mode is Mode.SNAPSHOT and committed is not None:
        # A snapshot that changes nothing is no commit.
        committed = max(committed, done)
    return KnownBatches(record.epoch, stores.newest_epoch, planned, done, committed, told)


def _committed(stores: FlowStores) -> int | None:
    """The newest batch of a flow that its table has; None where it has no table, or one that forgets transactions."""
    table = open_table(stores.tables[TABLE])
    if table is None or any(key.casefold() == _FORGETS for key in table.metadata().configuration):
        return None
    query_id = query_id_of(stores.checkpoint)
    known = [table.transaction_version(name) for name in (stores.transaction, query_id) if name is not None]
    newest = max(newest_seeded(stores.checkpoint), *(NONE if version is None else version for version in known))
    # Where the record does not name the pipeline, it may have had another name, and its transactions another id.
    return None if newest == NONE and not stores.record.pipeline else newest


def _own_tables(stores: FlowStores) -> list[KnownTable]:
    """The tables that a flow writes to, beside what its record knows of them."""
    found = []
    for name, known in stores.record.left.items():
        path = stores.tables[name]
        now = table_version(path)
        if name != MEMORY and (now is None or now.table_id != known.table_id):
            # Its user may delete it: the flow begins anew, and what was set aside is gone.
            continue
        same = now is not None and now.table_id == known.table_id
        found.append(KnownTable(name, path, known.version, now.version if now is not None and same else NONE))
    return found


def _tables_read(stores: FlowStores, tables: Iterable[TableState]) -> list[KnownTable]:
    """The tables that a stream reads, beside the versions up to which it has."""
    by_id = {table.table_id: table for table in tables}
    progress = read_progress(stores.checkpoint) if stores.mode.streams else None
    found = []
    for offset in progress.offsets if progress is not None else ():
        table = by_id.get(offset.get("reservoirId", "")) if isinstance(offset, dict) else None
        if table is not None:
            read = int(offset["reservoirVersion"]) - (int(offset.get("index", 0)) == BETWEEN_COMMITS)
            found.append(KnownTable(SOURCE, table.path, read, table.version))
    return found
