"""Loads: the query of a stream run once, as a batch, over an exact range of its sources."""

from __future__ import annotations

import shlex
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from headrace.errors import PipelineError
from headrace.graph.resolved import Mode, ResolvedFlow
from headrace.model.names import QualifiedName


@dataclass(frozen=True)
class TableRange:
    """Rows that versions *first* to *last* of a table have added, both included.

    ``whole`` means all rows that version *last* holds, which is what a stream reads that begins at the start.
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
    """Files by path, each with the milliseconds since 1970 at which it was last changed.

    ``before`` are the files that are left out because they come before the range. ``paths`` are those that the source
    reads, as the query has them.
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
    """Rows that were set aside and go through the rules of today, or once more to the sink that has refused them.

    ``version`` is that of the quarantine in which they are open. Where there are ``rules``, those rows alone are meant
    that broke one of them. ``changes`` are columns that get new values first, each with an expression of SQL.
    ``judged`` is false for rows that are let through whatever the rules say. ``failing`` are the ids of rows that the
    flow's query has failed with, and with which it is called once more; None where rows that broke rules are meant. An
    empty one takes those with which it does not fail any more. ``from_source`` means that rows are made anew, by the
    query of today, of the records that they came from.
    """

    dataset: QualifiedName
    version: int
    rules: tuple[str, ...] = ()
    changes: tuple[tuple[str, str], ...] = ()
    judged: bool = True
    failing: tuple[str, ...] | None = None
    from_source: bool = False

    def describe(self) -> str:
        """For the reader."""
        broken = f" that violated {', '.join(self.rules)}" if self.rules else ""
        if self.failing is not None:
            broken = f" with cause {', '.join(self.rules)}"
        changed = "".join(f", with {column} = {text}" for column, text in self.changes)
        through = "" if self.judged else ", ignoring expectations"
        rows = "the source records of quarantined rows" if self.from_source else "quarantined rows"
        return f'{rows} of "{self.dataset}"{broken}{changed}{through}'

    def to_json(self) -> dict[str, Any]:
        """The replay as stored."""
        return {
            "dataset": str(self.dataset),
            "version": self.version,
            "rules": list(self.rules),
            "changes": list(map(list, self.changes)),
            "judged": self.judged,
            "failing": None if self.failing is None else list(self.failing),
            "from_source": self.from_source,
        }


SourceRange: TypeAlias = "TableRange | FilesRange"


@dataclass(frozen=True)
class Load:
    """One load of a flow: a range of each of its sources, in their order, or rows that were set aside.

    Its batch is committed in an epoch of its own, minus its number, so that it is in the table once however often it
    is tried. ``fences`` means that the stream begins right behind it: it has read nothing yet. ``retired`` means that
    nothing of it is left to do although it was not finished, or that its rows are gone since its table was cleared.
    ``begun`` means that an earlier update has asked for it.
    """

    number: int
    ranges: tuple[SourceRange, ...]
    fences: bool
    done: bool = False
    retired: bool = False
    begun: bool = field(default=False, compare=False)
    replay: Replay | None = None

    @property
    def pending(self) -> bool:
        """True when a crash has left something of it to do."""
        return not (self.done or self.retired)

    @property
    def epoch(self) -> int:
        """The epoch that the load's batch is committed and counted in."""
        return -self.number

    def describe(self) -> str:
        """For the reader."""
        if self.replay is not None:
            return f"replays {self.replay.describe()}"
        loaded = ", ".join(found.describe() for found in self.ranges)
        return f"backfills {loaded}{'; the stream starts after this range' if self.fences else ''}"


def unreplayable(flow: ResolvedFlow) -> PipelineError | None:
    """Why rows that were set aside of a flow cannot go through its rules again; None when they can."""
    if flow.mode in (Mode.APPEND, Mode.ONCE, Mode.MERGE, Mode.UPDATE):
        return None
    place = flow.flow.location
    return PipelineError("REPLAY.NOT_KEPT", location=place, flow=flow.name, name=flow.target, mode=flow.mode.value)


def unloadable(flow: ResolvedFlow) -> PipelineError | None:
    """Why the query of a flow cannot be run over a part of its input; None when it can."""
    place = flow.flow.location
    if flow.mode is not Mode.APPEND:
        return PipelineError("BACKFILL.NOT_A_STREAM", location=place, flow=flow.name, mode=flow.mode.value)
    if flow.analysis.operators:
        kinds = ", ".join(dict.fromkeys(operator.kind for operator in flow.analysis.operators))
        name = shlex.quote(str(flow.target))
        return PipelineError("BACKFILL.STATEFUL", location=place, flow=flow.name, operators=kinds, name=name)
    return None


@dataclass(frozen=True)
class Backfill:
    """What the user asks for: a flow or its table, and where the range begins and ends.

    The end is not part of the range. ``again`` lets rows in that the stream, or a load before, has read or will read.
    ``abandon`` gives up a load that was interrupted before its rows were in the table.
    """

    name: str
    start: str = "earliest"
    end: str = "latest"
    again: bool = False
    abandon: bool = False


@dataclass(frozen=True)
class Replayed:
    """What the user asks for: whose rows, of these those that broke one of some rules, with new values, judged or not.

    ``changes`` are texts such as ``amount=0``. ``abandon`` gives up a replay that was interrupted before its rows were
    in the table. ``from_source`` reads again what the rows came from, in place of the rows.
    """

    name: str
    rules: tuple[str, ...] = ()
    changes: tuple[str, ...] = ()
    judged: bool = True
    abandon: bool = False
    from_source: bool = False
