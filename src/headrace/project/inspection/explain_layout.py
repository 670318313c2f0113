"""The layout of a dataset's table, with advice."""

from __future__ import annotations

from headrace.delta_log.plain_tables import needs_of_writers
from headrace.delta_log.tables import open_table_log
from headrace.errors import PipelineError
from headrace.graph.resolved import ResolvedDataset
from headrace.graph.resolved_flows import Mode
from headrace.plan.table_report import TableReport, table_report
from headrace.settings.settings import Settings
from headrace.storage.maintained_tables import maintained_tables, table_facts

_MERGING = frozenset({Mode.MERGE.value, Mode.SNAPSHOT.value})


def layout_report(
    dataset: ResolvedDataset, settings: Settings, now_s: float
) -> tuple[TableReport | None, tuple[str, ...]]:
    """The report, None if no flow has written the table yet; and why it could not be made."""
    try:
        path = settings.layout.table(settings.naming, dataset.name)
        tables = maintained_tables(settings.layout, settings.naming)
        table = next((table for table in tables if table.path == path), None)
        if table is None:
            return None, ()
        policy = settings.maintenance
        facts = table_facts(table, settings.layout, settings.naming, policy, now_s, is_held=False)
        log = open_table_log(table.path)
        # Changes have a writer of their own.
        needs = () if log is None or table.modes & _MERGING else needs_of_writers(log)
    except PipelineError as error:
        return None, (error.message,)
    return (None if facts is None else table_report(facts, settings.maintenance, now_s, needs)), ()
