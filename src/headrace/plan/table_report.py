"""Layout of a table's files, its features, and advice with figures; pure, from facts that were read before."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from shlex import quote
from typing import Any

from headrace.model.maintenance import MaintenancePolicy, Task, VacuumScope
from headrace.model.pipeline_keys import MANAGED_KEY
from headrace.model.sizes import size_text
from headrace.plan.maintenance import (
    SMALL_FILE_BYTES,
    Action,
    ActionState,
    Role,
    Size,
    TableFacts,
    table_action,
    unneeded_files,
)

# Partitions that are this many, and smaller than a small file on average, cost readers more than they save.
_MANY_PARTITIONS = 100


@dataclass(frozen=True)
class TableReport:
    """The layout of a table, and what would improve it.

    Attributes:
        facts: what the report was made from.
        unused: files on disk that no reader needs.
        advice: commands and edits, with figures.
        needs_of_writers: why small batches are written by Spark, each a phrase.
    """

    facts: TableFacts
    unused: Size
    advice: tuple[str, ...]
    needs_of_writers: tuple[str, ...] = ()

    def describe(self) -> Iterator[tuple[str, str]]:
        """Lines as label and text."""
        facts, size = self.facts, self.facts.size
        average = size_text(size.size_bytes / max(size.files, 1))
        small = self._small.files
        yield "layout", f"{size.describe()}, {average} on average; {small} small file{'' if small == 1 else 's'}"
        if self._deleted_rows:
            yield "", f"{self._deleted_rows} deleted rows in these files ({self._deleted_share:.0%})"
        if self.unused.files:
            yield "", f"{self.unused.describe()} on disk are unused"
        elif facts.needed is None:
            yield "", f"unused files are unknown: {facts.kept_for}"
        order = self._order
        if order:
            yield "", order
        for feature in facts.features.known:
            excluded = "; ".join(feature.excludes) or "nobody"
            yield "feature", f"{feature.name} ({feature.does}) excludes: {excluded}"
        for name in facts.features.unknown:
            yield "feature", f"{name} is unknown to this version of Headrace"
        for need in self.needs_of_writers:
            yield "writer", f"small batches are written by Spark because of {need}"
        for text in self.advice:
            yield "advice", text

    def to_json(self) -> dict[str, Any]:
        """The report as JSON."""
        facts, size = self.facts, self.facts.size
        return {
            "files": size.files,
            "size_bytes": size.size_bytes,
            "small_files": self._small.files,
            "small_bytes": self._small.size_bytes,
            "deleted_rows": self._deleted_rows,
            "deleted_share": round(self._deleted_share, 4),
            "unused_files": None if facts.needed is None else self.unused.files,
            "unused_bytes": None if facts.needed is None else self.unused.size_bytes,
            "files_on_disk": facts.size_on_disk.files,
            "bytes_on_disk": facts.size_on_disk.size_bytes,
            "z_order": list(facts.z_order),
            "cluster_by": list(facts.cluster_by),
            "unordered_bytes": self._unordered_bytes if facts.z_order or facts.cluster_by else None,
            "features": [
                {"name": feature.name, "needed_by": feature.need.value, "excludes": list(feature.excludes)}
                for feature in facts.features.known
            ]
            + [{"name": name, "needed_by": None, "excludes": []} for name in facts.features.unknown],
            "small_batches_need_spark": list(self.needs_of_writers),
            "advice": list(self.advice),
        }

    @property
    def _small(self) -> Size:
        sizes = [file.size for file in self.facts.files if file.size < SMALL_FILE_BYTES]
        return Size(len(sizes), sum(sizes))

    @property
    def _deleted_rows(self) -> int:
        return sum(file.deleted_rows for file in self.facts.files)

    @property
    def _deleted_share(self) -> float:
        return self._deleted_rows / max(sum(file.rows or 0 for file in self.facts.files), 1)

    @property
    def _unordered_bytes(self) -> int:
        return sum(file.size for file in self.facts.files if file.path in self.facts.unordered)

    @property
    def _order(self) -> str:
        facts = self.facts
        columns = ", ".join(facts.cluster_by or facts.z_order)
        share = self._unordered_bytes / max(facts.size.size_bytes, 1)
        how = "clustered" if facts.cluster_by else "Z-ordered"
        return f"{how} by {columns}, except for {share:.0%} of the bytes" if columns else ""


def table_report(
    facts: TableFacts, policy: MaintenancePolicy, now_s: float, needs_of_writers: tuple[str, ...] = ()
) -> TableReport:
    """The report on a table.

    Args:
        facts: the facts.
        policy: the settings of maintenance.
        now_s: the time, in seconds since 1970.
        needs_of_writers: why small batches are written by Spark, each a phrase.
    """
    unused = unneeded_files(facts, policy, now_s)
    size = Size(len(unused), sum(file.size for file in unused))
    return TableReport(facts, size, tuple(_advice(facts, policy, now_s)), needs_of_writers)


def _advice(facts: TableFacts, policy: MaintenancePolicy, now_s: float) -> Iterator[str]:
    if not facts.managed:
        yield f"no maintenance, because {MANAGED_KEY} is false; remove it to let headrace maintain do it"
        return
    for task in (Task.COMPACT, Task.CLUSTER, Task.VACUUM):
        action = table_action(task, facts, policy, now_s)
        if action is not None and action.state is ActionState.PLANNED:
            yield f"headrace maintain {quote(facts.name)} --only {task.value}: {_figures(action)}"
    unused = unneeded_files(facts, policy, now_s)
    if unused and policy.vacuum is not VacuumScope.ALL and facts.role is Role.STREAMING:
        size = Size(len(unused), sum(file.size for file in unused))
        yield f"set maintenance.vacuum to all, then run headrace maintain {quote(facts.name)}: {size.describe()} unused"
    partitions = len({file.partition for file in facts.files})
    average = facts.size.size_bytes / max(partitions, 1)
    if partitions > _MANY_PARTITIONS and average < SMALL_FILE_BYTES:
        yield (
            f"replace partition_cols by cluster_by: {partitions} partitions have {size_text(average)} on average; "
            "needs a full refresh"
        )


def _figures(action: Action) -> str:
    if action.task is Task.VACUUM or action.before is None or action.after is None:
        return action.reason
    return f"{action.reason}; {action.before.describe()} become about {action.after.files}"
