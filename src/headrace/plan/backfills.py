"""Backfills: the query of a stream, run once as a batch over an exact range of its sources."""

from __future__ import annotations

import shlex
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from headrace.errors import PipelineError
from headrace.graph.resolved_flows import AppendFlow, MergeFlow, OneTimeFlow, ResolvedFlow, UpdateFlow
from headrace.model.names import QualifiedName


@dataclass(frozen=True)
class TableRange:
    """Rows that versions *first* to *last* of a table added, both included.

    ``whole`` means all rows of version *last*, which is what a stream reads that starts at the earliest position.
    """

    dataset: QualifiedName
    table_id: str
    first: int
    last: int
    whole: bool

    def describe(self) -> str:
        """For the reader."""
        rows = f"all rows at version {self.last}" if self.whole else f"new rows in versions {self.first} to {self.last}"
        return f'{rows} of table "{self.dataset}"'

    def to_json(self) -> dict[str, Any]:
        """The range as stored."""
        return {
            "table": str(self.dataset),
            "table_id": self.table_id,
            "first": self.first,
            "last": self.last,
            "whole": self.whole,
        }


@dataclass(frozen=True)
class FilesRange:
    """Files by path, each with its modification time in milliseconds since 1970.

    ``before`` holds the files that come before the range and are excluded. ``paths`` are the paths of the source, as
    the query has them.
    """

    source: str
    paths: tuple[str, ...]
    files: tuple[tuple[str, int], ...]
    before: tuple[tuple[str, int], ...]

    def describe(self) -> str:
        """For the reader."""
        return f"{len(self.files)} file{'' if len(self.files) == 1 else 's'} of {self.source}"

    def to_json(self) -> dict[str, Any]:
        """The range as stored."""
        return {
            "source": self.source,
            "paths": list(self.paths),
            "files": list(map(list, self.files)),
            "before": list(map(list, self.before)),
        }


@dataclass(frozen=True)
class Replay:
    """A replay of quarantined rows through the current expectations, or of dead letters through the query or the sink.

    Attributes:
        dataset: whose rows.
        version: of the quarantine table in which they are open.
        rules: only rows that violated one of these; empty for all.
        changes: columns that get new values first, each with a SQL expression.
        applies_rules: false to write the rows whatever the expectations say.
        dead_letter_ids: ids of the dead letters with which the query runs again; None for a replay of quarantined
            rows. If empty, those with which the query no longer fails.
        from_source: compute the rows again, with the current query, from the records that they came from.
    """

    dataset: QualifiedName
    version: int
    rules: tuple[str, ...] = ()
    changes: tuple[tuple[str, str], ...] = ()
    applies_rules: bool = True
    dead_letter_ids: tuple[str, ...] | None = None
    from_source: bool = False

    def describe(self) -> str:
        """For the reader."""
        broken = f" that violated {', '.join(self.rules)}" if self.rules else ""
        if self.dead_letter_ids is not None:
            broken = f" with cause {', '.join(self.rules)}"
        changed = "".join(f", with {column} = {text}" for column, text in self.changes)
        through = "" if self.applies_rules else ", ignoring expectations"
        rows = "the source records of quarantined rows" if self.from_source else "quarantined rows"
        return f'{rows} of "{self.dataset}"{broken}{changed}{through}'

    def to_json(self) -> dict[str, Any]:
        """The replay as stored."""
        return {
            "dataset": str(self.dataset),
            "version": self.version,
            "rules": list(self.rules),
            "changes": list(map(list, self.changes)),
            "judged": self.applies_rules,
            "failing": None if self.dead_letter_ids is None else list(self.dead_letter_ids),
            "from_source": self.from_source,
        }


SourceRange: TypeAlias = "TableRange | FilesRange"


@dataclass(frozen=True)
class Backfill:
    """One backfill of a flow: a range of each of its sources, in their order, or a replay.

    Its batch is committed in an epoch of its own, minus its number, so that repeated attempts write it only once.

    Attributes:
        number: of the backfill, from 1.
        ranges: one per source.
        stream_starts_after: the stream starts right after the ranges. It has read nothing yet.
        done: its rows are in the table.
        retired: it was not finished and needs no more work, or its rows were cleared with the table.
        is_resumed: an earlier update requested it.
        replay: the rows to replay; None for a backfill of ranges.
    """

    number: int
    ranges: tuple[SourceRange, ...]
    stream_starts_after: bool
    done: bool = False
    retired: bool = False
    is_resumed: bool = field(default=False, compare=False)
    replay: Replay | None = None

    @property
    def pending(self) -> bool:
        """True if a crash left it incomplete."""
        return not (self.done or self.retired)

    @property
    def epoch(self) -> int:
        """The epoch in which the backfill's batch is committed and counted."""
        return -self.number

    def describe(self) -> str:
        """For the reader."""
        if self.replay is not None:
            return f"replays {self.replay.describe()}"
        loaded = ", ".join(found.describe() for found in self.ranges)
        return f"backfills {loaded}{'; the stream starts after this range' if self.stream_starts_after else ''}"


def no_replay_reason(flow: ResolvedFlow) -> PipelineError | None:
    """Why the quarantined rows of a flow cannot be replayed; None if they can."""
    if isinstance(flow, AppendFlow | UpdateFlow | MergeFlow | OneTimeFlow):
        return None
    location = flow.flow.location
    return PipelineError("REPLAY.NOT_KEPT", location=location, flow=flow.name, name=flow.target, mode=flow.mode.value)


def no_backfill_reason(flow: ResolvedFlow) -> PipelineError | None:
    """Why the query of a flow cannot run over a part of its input; None if it can."""
    location = flow.flow.location
    if not isinstance(flow, AppendFlow):
        return PipelineError("BACKFILL.NOT_A_STREAM", location=location, flow=flow.name, mode=flow.mode.value)
    if flow.analysis.operators:
        kinds = ", ".join(dict.fromkeys(operator.kind for operator in flow.analysis.operators))
        name = shlex.quote(str(flow.target))
        return PipelineError("BACKFILL.STATEFUL", location=location, flow=flow.name, operators=kinds, name=name)
    return None


@dataclass(frozen=True)
class BackfillRequest:
    """The user's request: a flow or its table, and the start and end of the range.

    The end is exclusive. ``again`` allows rows that the stream or an earlier backfill has read or will read.
    ``abandon`` gives up a backfill that was interrupted before its rows were in the table.
    """

    name: str
    start: str = "earliest"
    end: str = "latest"
    again: bool = False
    abandon: bool = False


@dataclass(frozen=True)
class ReplayRequest:
    """The user's request: the dataset, the violated rules, new values, and whether expectations apply.

    ``changes`` are texts such as ``amount=0``. ``abandon`` gives up a replay that was interrupted before its rows were
    in the table. ``from_source`` reads the source records again instead of the stored rows.
    """

    name: str
    rules: tuple[str, ...] = ()
    changes: tuple[str, ...] = ()
    applies_rules: bool = True
    abandon: bool = False
    from_source: bool = False
