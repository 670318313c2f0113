"""The commits of a dataset's table, each with the batch that made it."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from datetime import datetime, timedelta
from typing import Any

from headrace.events.envelope import seq_no_at
from headrace.events.recorded import Recorded, Stretch, batches_of_flows
from headrace.project.inspection.table_history import TableCommit, table_history, with_batches
from headrace.serve.pipelines import ServedPipeline

NOT_STORED = "This kind of dataset has no table."
# A batch is recorded once its commit is made; another machine may have dated the commit.
_EARLIER, _LATER = timedelta(minutes=1), timedelta(minutes=10)
# Flows also record batches without a commit.
_MOST_BATCHES = 2000


def table_path(pipeline: ServedPipeline, dataset: str) -> str:
    """Where the table of a dataset is.

    Raises:
        InvalidName: no table can have such a name.
    """
    settings = pipeline.settings
    return settings.layout.table(settings.naming, settings.naming.canonical(dataset))


def commit_facts(
    pipeline: ServedPipeline,
    flows: Collection[str],
    path: str,
    reports: Iterable[Recorded],
    newest: int,
    before: int | None,
) -> list[dict[str, Any]]:
    """So many commits of a table, the newest first.

    Args:
        pipeline: of the table.
        flows: that write to it.
        path: of the table.
        reports: the newest events of these flows.
        newest: how many commits, at most.
        before: only those before this version; None for all.

    Raises:
        PipelineError: STORAGE.TABLE_UNREADABLE, STORAGE.EMPTY_COMMIT, EVENTS.NOT_READABLE.
    """
    commits = with_batches(table_history(path, newest, before), reports)
    unknown = [one for one in commits if one.flow is None]
    found = iter(with_batches(unknown, _batches_near(pipeline, flows, unknown)))
    return [(next(found) if one.flow is None else one).to_json() for one in commits]


def _batches_near(pipeline: ServedPipeline, flows: Collection[str], commits: Sequence[TableCommit]) -> list[Recorded]:
    """The batches that were recorded when the commits were made."""
    times = [datetime.fromisoformat(one.committed_at) for one in commits if one.committed_at is not None]
    if not times:
        return []
    stretch = Stretch(seq_no_at(min(times) - _EARLIER), seq_no_at(max(times) + _LATER))
    return batches_of_flows(pipeline.events(), flows, _MOST_BATCHES, stretch, from_oldest=True)
