"""Adopts a table under the lease, in steps that can be repeated after a crash.

The record of the table comes first: while it says that the adoption is under way, no flow writes to the table. The
table itself records the batches that it has, under the transaction of the flow's epoch, so that all checks that compare
tables with checkpoints hold as they are. The query gets an id of its own: what the job would still commit under its id
is not taken for a batch of the flow.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from dataclasses import replace
from uuid import uuid4

from headrace.checkpoints.restored import copy_checkpoint
from headrace.delta_log.tables import committed_transaction, table_version
from headrace.errors import InternalError, PipelineError
from headrace.plan.agreement import NONE
from headrace.project.adoption.adoption_plan import AdoptionPlan
from headrace.project.adoption.handover_project import HandoverProject
from headrace.project.adoption.job_comparison import FlowAdoption, is_running
from headrace.project.steps import Reached, no_step
from headrace.spark.delta.transaction import delta_transaction
from headrace.storage.adopted_tables import AdoptedTables, Consent, Handover, MovedFlow, TableRecord
from headrace.storage.flow_record import FlowRecord, next_epoch, write_record
from headrace.storage.flow_records import transaction_id
from headrace.storage.flow_stores import TABLE
from headrace.stores.paths import StoragePath, on_disk, remove_tree, storage_path


class Adoption:
    """The steps of one adoption.

    Args:
        project: the pipeline; its session is opened if the table has to record batches.
        plan: what to do; it has no problems.
        consents: what the user allows to be done with the table.
        fence: returns while the lease is held; called before each change.
        now_s: the time, in seconds since 1970.
        reached: called at each step, for tests that crash there.
    """

    def __init__(
        self,
        project: HandoverProject,
        plan: AdoptionPlan,
        consents: frozenset[Consent],
        fence: Callable[[], None],
        now_s: float,
        reached: Reached = no_step,
    ) -> None:
        self._settings, self._state, self._plan = project.settings, project.state, plan
        self._session, self._fence, self._now_s, self._reached = project.session, fence, now_s, reached
        self._records = project.records
        self._consents = consents

    def run(self) -> TableRecord:
        """Do all steps.

        Raises:
            PipelineError: ADOPT.JOB_RUNS if the job writes meanwhile; nothing of it is left.
        """
        record = self._begin()
        self._reached("record written")
        moved = {flow.flow: flow for flow in record.flows}
        for taken in self._plan.flows:
            if taken.job is not None:
                self._fence()
                known = moved[taken.flow.name]
                take_checkpoint(taken.job.path, self._checkpoint(taken, known), known.own_query_id)
                self._reached("checkpoint copied")
        self._check_stopped(record)
        batches = {self._transaction(taken, moved[taken.flow.name]): taken.committed for taken in self._plan.flows}
        missing = {
            transaction: batch
            for transaction, batch in batches.items()
            if batch != NONE and committed_transaction(record.location, transaction) is None
        }
        if missing:
            self._fence()
            delta_transaction(self._session(), record.location).record(missing)
        self._reached("batches recorded")
        self._fence()
        self._link(record.location)
        self._reached("link made")
        for taken in self._plan.flows:
            write_record(self._state.record_file(taken.flow), self._flow_record(taken, moved[taken.flow.name]))
            self._reached("flow written")
        # A table that was made here, released and taken back, is an own one again.
        is_own = not os.path.islink(self._plan.path)  # noqa: PTH114 - a place of the storage
        consents = frozenset(Consent) if is_own else record.consents
        done = replace(record, state=Handover.ADOPTED, changed_at=self._now_s, consents=consents)
        self._records.store(done)
        return done

    def _begin(self) -> TableRecord:
        plan = self._plan
        if plan.table is None:
            raise InternalError("an adoption without a table")
        if plan.begun is not None:
            self._check_same(plan.begun)
            return plan.begun
        record = TableRecord(
            plan.dataset,
            plan.location,
            plan.table.table_id,
            os.path.realpath(self._settings.storage),
            Handover.ADOPTING,
            self._now_s,
            tuple(map(self._moved, plan.flows)),
            self._consents,
        )
        self._records.store(record)
        return record

    def _check_same(self, begun: TableRecord) -> None:
        """Check that an interrupted adoption was of the same checkpoints, which have not changed since."""
        now = {
            taken.flow.name: (str(taken.job.path), taken.job.planned, taken.committed) if taken.job else None
            for taken in self._plan.flows
        }
        then = {
            moved.flow: (moved.checkpoint, moved.planned, moved.committed) if moved.checkpoint else None
            for moved in begun.flows
        }
        if (begun.dataset, then) != (self._plan.dataset, now):
            raise PipelineError("ADOPT.OTHER_BEGUN", name=begun.dataset)

    def _moved(self, taken: FlowAdoption) -> MovedFlow:
        epoch = self._unused_epoch(taken)
        if taken.job is None:
            return MovedFlow(taken.flow.name, "", "", NONE, NONE, epoch)
        job = taken.job
        return MovedFlow(
            taken.flow.name, str(job.path), job.query_id, job.planned, taken.committed, epoch, str(uuid4())
        )

    def _unused_epoch(self, taken: FlowAdoption) -> int:
        """An epoch whose transactions the table does not have, whoever made them."""
        file, record = self._state.record_file(taken.flow), self._state.progress_of(taken.flow)
        epoch = next_epoch(file, record)
        while (
            committed_transaction(self._plan.location, self._state.transaction(replace(record, epoch=epoch)))
            is not None
        ):
            epoch += 1
        return epoch

    def _transaction(self, taken: FlowAdoption, moved: MovedFlow) -> str:
        record = self._state.progress_of(taken.flow)
        return transaction_id(record.pipeline or self._settings.id, record.identity, moved.epoch)

    def _checkpoint(self, taken: FlowAdoption, moved: MovedFlow) -> StoragePath:
        return self._state.checkpoint(taken.flow, moved.epoch)

    def _check_stopped(self, record: TableRecord) -> None:
        """Refuse a job that has written since it was looked at, and leave nothing of the adoption."""
        reason = is_running(self._plan.flows)
        for moved in record.flows:
            newest = committed_transaction(record.location, moved.query_id) if moved.query_id else None
            if newest is not None and newest > moved.committed:
                reason = reason or f"the table had batch {moved.committed} of its query, and has batch {newest}"
        if not reason:
            return
        for taken in self._plan.flows:
            for moved in record.flows:
                if moved.flow == taken.flow.name:
                    remove_tree(self._checkpoint(taken, moved))
        self._records.remove(record)
        raise PipelineError("ADOPT.JOB_RUNS", name=record.dataset, reason=reason)

    def _link(self, location: str) -> None:
        path = on_disk(storage_path(self._plan.path), "linking a table")
        if os.path.realpath(path) == location:
            return
        path.parent.mkdir(parents=True, exist_ok=True)
        path.symlink_to(location, target_is_directory=True)

    def _flow_record(self, taken: FlowAdoption, moved: MovedFlow) -> FlowRecord:
        flow = taken.flow
        before = self._state.progress_of(flow)
        record = replace(before.restarted(moved.epoch), first_epoch=moved.epoch, started_at=self._now_s)
        record = replace(record, pipeline=record.pipeline or self._settings.id)
        version = table_version(self._plan.path)
        if version is not None:
            record = replace(record, counted_version=version.version, target_id=version.table_id)
        if taken.job is None:
            return record
        return replace(
            record,
            fingerprint=flow.analysis.fingerprint,
            sources=tuple(source.digest for source in flow.analysis.sources),
            state_signature=flow.state_signature,
            table_versions={} if version is None else {TABLE: version},
        )


def take_checkpoint(source: StoragePath, target: StoragePath, query_id: str) -> None:
    """Copy a checkpoint for a query with another id, also from another file system; the copy appears whole.

    On one file system, the copy is links to the files, which Spark never changes in place.
    """
    if (target / "metadata").is_file():
        return
    into = on_disk(target, "copying a checkpoint")
    into.parent.mkdir(parents=True, exist_ok=True)
    try:
        copy_checkpoint(source, target, query_id, {})
    except OSError:
        # Another file system, or one without links.
        staged = into.with_name(f".{into.name}.taken")
        remove_tree(staged)
        shutil.copytree(on_disk(source, "copying a checkpoint"), staged)
        copy_checkpoint(staged, target, query_id, {})
        remove_tree(staged)


def claim(records: AdoptedTables, record: TableRecord, now_s: float) -> TableRecord:
    """Make this storage the one whose pipeline writes to an adopted table, after it was copied or moved."""
    claimed = replace(record, storage=os.path.realpath(records.root), changed_at=now_s)
    records.store(claimed)
    return claimed
