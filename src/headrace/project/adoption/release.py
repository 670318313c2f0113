"""Releases a table: it leaves the pipeline, stays where it lies, and its checkpoints are written out for Spark jobs.

A job goes on with a checkpoint under a query id of its own. If a batch was planned and not done, the table records
under that id whether it has it, as Delta's own sink does, so that the job writes it again or not.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import replace

from headrace.delta_log.tables import committed_transaction
from headrace.plan.agreement import NONE
from headrace.project.adoption.adopt import take_checkpoint
from headrace.project.adoption.handover_project import HandoverProject
from headrace.project.adoption.release_plan import FlowRelease, ReleasePlan
from headrace.project.steps import Reached, no_step
from headrace.settings.settings import Settings
from headrace.spark.delta.transaction import delta_transaction
from headrace.storage.adopted_tables import AdoptedTables, Handover, MovedFlow, TableRecord
from headrace.stores.paths import StoragePath, on_disk, storage_path


class Release:
    """The steps of one release; each can be repeated after a crash.

    Args:
        project: the pipeline; its session is opened if the table has to record a batch.
        plan: what to do; it has no problems.
        fence: returns while the lease is held; called before each change.
        now_s: the time, in seconds since 1970.
        reached: called at each step, for tests that crash there.
    """

    def __init__(
        self,
        project: HandoverProject,
        plan: ReleasePlan,
        fence: Callable[[], None],
        now_s: float,
        reached: Reached = no_step,
    ) -> None:
        self._settings, self._plan, self._session = project.settings, plan, project.session
        self._fence, self._now_s, self._reached = fence, now_s, reached
        self._records = project.records

    def run(self) -> TableRecord:
        """Do all steps."""
        record = self._begin()
        self._reached("record written")
        batches = {}
        for one in self._plan.flows:
            if not one.checkpoint:
                continue
            found = one.flow.batches
            committed = found.done if found.committed is None else found.committed
            if found.planned > found.done and committed != NONE:
                batches[one.query_id] = committed
        missing = {
            query: batch for query, batch in batches.items() if committed_transaction(record.location, query) is None
        }
        if missing:
            self._fence()
            delta_transaction(self._session(), record.location).record(missing)
        self._reached("batches recorded")
        for one in self._plan.flows:
            if one.checkpoint:
                self._fence()
                take_checkpoint(one.flow.stores.checkpoint, storage_path(one.checkpoint), one.query_id)
                self._reached("checkpoint copied")
        self._fence()
        path = on_disk(storage_path(self._plan.path), "removing a link")
        if path.is_symlink():
            path.unlink()
        self._reached("link removed")
        for one in self._plan.flows:
            self._fence()
            _retire(self._settings, one.flow.stored.file.parent, record)
            self._reached("flow retired")
        done = replace(record, state=Handover.RELEASED, changed_at=self._now_s)
        self._records.store(done)
        return done

    def _known_id(self) -> str:
        """The id under which the record of the table is stored."""
        return "" if self._plan.record is None else self._plan.record.table_id

    def _begin(self) -> TableRecord:
        plan = self._plan
        if plan.record is not None and plan.record.state is Handover.RELEASING:
            return plan.record
        record = TableRecord(
            plan.dataset,
            plan.location,
            plan.table.table_id if plan.record is None and plan.table is not None else self._known_id(),
            os.path.realpath(self._settings.storage),
            Handover.RELEASING,
            self._now_s,
            tuple(map(_moved, plan.flows)),
        )
        self._records.store(record)
        return record


def undo_adoption(settings: Settings, record: TableRecord) -> None:
    """Undo an adoption that a crash has interrupted; the table and the checkpoints of the jobs stay as they are."""
    layout, naming = settings.layout, settings.naming
    name = naming.canonical(record.dataset)
    path = on_disk(storage_path(layout.table(naming, name)), "removing a link")
    if path.is_symlink():
        path.unlink()
    for flow in record.flows:
        _retire(settings, storage_path(layout.flow_state(naming, name, flow.flow)).parent, record)
    AdoptedTables(layout).remove(record)


def _retire(settings: Settings, folder: StoragePath, record: TableRecord) -> None:
    """Move what the pipeline has of a flow to where no update looks for it."""
    retired = on_disk(storage_path(settings.layout.root) / "system" / "released" / record.table_id, "retiring a flow")
    source = on_disk(folder, "retiring a flow")
    if not source.exists():
        return
    retired.mkdir(parents=True, exist_ok=True)
    taken = {entry.name for entry in retired.iterdir()}
    numbered = (f"{source.name}-{number}" for number in range(2, len(taken) + 3))
    source.rename(retired / next(name for name in (source.name, *numbered) if name not in taken))


def _moved(one: FlowRelease) -> MovedFlow:
    found = one.flow.batches
    committed = found.done if found.committed is None else found.committed
    return MovedFlow(
        one.flow.stored.name, one.checkpoint, one.query_id, found.planned, committed, one.flow.stored.record.epoch
    )
