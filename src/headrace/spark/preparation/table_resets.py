"""Clears tables and starts the flows that write to them over, in steps that a crash may separate."""

from __future__ import annotations

from collections.abc import Iterable
from collections.abc import Set as AbstractSet
from dataclasses import replace
from functools import partial

from headrace.autoloader.schemas.schema_store import mark_schemas_outdated
from headrace.delta_log.tables import table_exists
from headrace.graph.resolved import ResolvedDataset
from headrace.model.names import QualifiedName
from headrace.plan.steps import TableChange, TableStep
from headrace.runtime.failpoints import Failpoint
from headrace.spark.cdc.retained_events import clear_retained_events
from headrace.spark.delta.alter import cluster_table
from headrace.spark.delta.fencing import write_fenced
from headrace.spark.preparation.quarantine_tables import clear_quarantine
from headrace.spark.update.context import UpdateContext
from headrace.storage.backfills import retire_backfills
from headrace.storage.dead_letters import delete_dead_letters
from headrace.storage.flow_record import next_epoch, write_record
from headrace.storage.inventory import flows_of


class TableResets:
    """The tables that an update resets."""

    def __init__(self, context: UpdateContext) -> None:
        self._context = context
        self._steps: dict[QualifiedName, TableStep] = {}

    def announce(self, tables: Iterable[TableStep]) -> None:
        """Record which tables this update will reset."""
        self._steps = {step.dataset: step for step in tables if step.change is TableChange.RESET}

    def reset(self, dataset: ResolvedDataset, prepared: AbstractSet[QualifiedName], *, rows_lost: bool) -> None:
        """Clear a table and start a new epoch of every flow that writes to it; safe to repeat after a crash.

        A sink is not cleared.

        Flows that are no longer in the code start over too if they come back, because their rows are cleared as well.

        Args:
            dataset: whose table.
            prepared: the tables that this update has prepared already.
            rows_lost: rows are cleared that cannot be read again.
        """
        context = self._context
        self._mark(dataset.name, prepared)
        flows = context.graph.flows_into(dataset.name)
        records = {context.state.record_file(flow): context.state.progress_of(flow) for flow in flows}
        context.guard.failpoint(Failpoint.RESET_STARTED)
        if dataset.kind.stored:
            self._clear(dataset)
        context.guard.failpoint(Failpoint.RESET_CLEARED)
        context.guard.fence()
        stored = flows_of(context.layout, context.naming, dataset.name)
        former = {flow.file: flow.record for flow in stored if flow.file not in records}
        if dataset.name in context.catalog.cleared:
            for name in {*(flow.name for flow in flows), *(flow.name for flow in stored)}:
                folder = context.catalog.auto_loader_folder(dataset.name, name)
                mark_schemas_outdated(folder)
        # Flows of the code come last: while one of their records is being reset, the next update repeats the reset.
        for file, record in (*former.items(), *records.items()):
            retire_backfills(file.parent, context.naming.canonical)
            delete_dead_letters(file.parent, record.epoch, context.guard.fence)
            fresh = record.cleared(next_epoch(file, record), rows_lost=rows_lost)
            write_record(file, replace(fresh, resetting=self._reads_from_reset(dataset)))
        context.guard.failpoint(Failpoint.RESET_DONE)

    def _mark(self, name: QualifiedName, prepared: AbstractSet[QualifiedName]) -> None:
        """Record that a table and its readers in this update are being reset, so that the next update does the rest.

        Stream readers cannot continue once the table is cleared; other tables stay as they are if the update ends
        early. The readers are recorded first, because they can be reset without the table.
        """
        context = self._context
        reached = {name}
        for flow in context.graph.stored_flows:
            inputs = {given.name for given in context.graph.stored_inputs(flow) if given.streaming}
            if flow.target in self._steps.keys() - prepared and inputs & reached:
                reached.add(flow.target)
        for flow in reversed(context.graph.stored_flows):
            if flow.target in reached:
                accepted = flow.target == name or self._steps[flow.target].accepted
                record = replace(context.state.progress_of(flow), resetting=True, accepted=accepted)
                write_record(context.state.record_file(flow), record)

    def _clear(self, dataset: ResolvedDataset) -> None:
        """Clear a table, its quarantine and its retained events."""
        context = self._context
        # Checked before each step and in its commit, because a process may be paused in between.
        context.guard.fence()
        clear_quarantine(context, dataset)
        retained = context.layout.cdc_state(context.naming, dataset.name)
        if table_exists(retained):
            write_fenced(
                retained,
                context.guard.fencing_token,
                context.guard.fence,
                partial(clear_retained_events, context.session, retained),
            )
        context.guard.failpoint(Failpoint.RESET_QUARANTINE_CLEARED)
        context.guard.fence()
        path = context.table_path(dataset.name)
        write_fenced(
            path, context.guard.fencing_token, context.guard.fence, partial(context.catalog.replace_table, dataset)
        )
        if dataset.dataset.cluster_by:
            # Delta accepts it from no writer; after a crash in between, the next update does it, as any layout change.
            cluster_table(context.session, context.catalog.names.of(dataset.name).text, dataset.dataset.cluster_by)

    def _reads_from_reset(self, dataset: ResolvedDataset) -> bool:
        """True when a stream into the dataset cannot continue because it reads a table that a later update resets."""
        context = self._context
        flows = context.graph.flows_into(dataset.name)
        inputs = {given.name for flow in flows for given in context.graph.stored_inputs(flow) if given.streaming}
        later = inputs - self._steps.keys()
        return any(context.state.is_resetting(up) for name in later for up in context.graph.flows_into(name))
