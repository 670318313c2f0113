"""The points where a victim can be hit: before, during and after each kind of commit; and a seeded choice of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from enum import Enum
from functools import partial
from pathlib import Path
from random import Random
from typing import Any

from campaign.changes import MERGED
from campaign.state import STATEFUL_FLOWS
from campaign.strike import Who
from campaign.workload import STREAMS, TARGETS, Scenario
from headrace.runtime.failpoints import Failpoint

# The share of the baseline's event log versions that every update is sure to write.
_SURE_OF_EVENTS = 0.6
# About the duration of a victim's merges.
_MAX_MERGE_MS = 12_000
# The same for a victim with stateful streams.
_MAX_STATE_MS = 60_000


class Moment(str, Enum):
    """The time of a hit, relative to a commit."""

    BEFORE = "before"
    DURING = "during"
    AFTER = "after"


@dataclass(frozen=True)
class Pass:
    """The n-th time, from 1 and over all flows, that the victim passes a failpoint of the engine."""

    point: str
    number: int

    def describe(self) -> str:
        """A short description."""
        return f'pass {self.number} of "{self.point}"'


@dataclass(frozen=True)
class File:
    """The *changes*-th time that a file of the storage is created or replaced.

    With *drafts*, its hidden temporary file in the same folder counts as well.
    """

    path: str
    changes: int = 1
    drafts: bool = False

    def describe(self) -> str:
        """A short description."""
        often = f", change {self.changes}" if self.changes > 1 else ""
        return f"{self.path}{often}{' or its draft' if self.drafts else ''}"

    def watch(self, storage: Path) -> Callable[[], bool]:
        """A function that returns whether it has happened since this call."""
        file = storage / self.path
        seen = [_identity(file)]

        def happened() -> bool:
            if self.drafts and _has_draft(file):
                return True
            identity = _identity(file)
            if identity is not None and identity != seen[-1]:
                seen.append(identity)
            return len(seen) > self.changes

        return happened


@dataclass(frozen=True)
class DataFile:
    """The *files*-th time that a table gets a data file, whether or not a commit names it."""

    table: str
    files: int = 1

    def describe(self) -> str:
        """A short description."""
        return f"data file {self.files} of {self.table}"

    def watch(self, storage: Path) -> Callable[[], bool]:
        """A function that returns whether it has happened since this call."""
        folder = storage / self.table
        before = _data_files(folder)
        return lambda: len(_data_files(folder) - before) >= self.files


@dataclass(frozen=True)
class Shot:
    """One point of the campaign: who is hit, where, and with which delay."""

    scenario: Scenario
    commit: str
    moment: Moment
    at: Pass | File | DataFile
    delay_ms: int = 0
    who: Who = Who.PYTHON

    def describe(self) -> str:
        """A one-line description."""
        later = f" and {self.delay_ms} ms" if self.delay_ms else ""
        place = f"{self.moment.value} {self.commit}"
        return f"{self.who.value:<6}  {self.scenario.value}, {place}: {self.at.describe()}{later}"

    def to_json(self) -> dict[str, Any]:
        """The shot as stored."""
        return asdict(self)


@dataclass(frozen=True)
class Span:
    """What an uninterrupted update of a scenario does: how often it passes each failpoint, its batches and its commits.

    ``batches`` are the batch numbers of each stream, ``commits`` the versions of each table by its path in the storage.
    """

    passes: Mapping[Failpoint, int]
    batches: Mapping[str, range]
    commits: Mapping[str, range]


Choice = Callable[[Random], Shot]
Spans = Mapping[Scenario, Span]


def choose_shots(
    seed: int,
    count: int,
    spans: Spans,
    whom: Sequence[Who] = tuple(Who),
    places: Callable[[Spans], Iterator[Choice]] | None = None,
) -> list[Shot]:
    """The first *count* shots; hits every choice once before it repeats one, and takes *whom* in turn.

    *places* are the choices; the default is those of the largest project.

    Law: the same arguments give the same shots, and a shot does not depend on *count*.
    """
    shots: list[Shot] = []
    round_number = 0
    while len(shots) < count:
        chance = Random(f"{seed}/{round_number}")  # noqa: S311 - not for security
        choices = list((places or _places)(spans))
        chance.shuffle(choices)
        for choice in choices:
            shot = choice(chance)
            shots.append(replace(shot, who=whom[(len(shots) + seed) % len(whom)]))
        round_number += 1
    return shots[:count]


def _places(spans: Spans) -> Iterator[Choice]:
    both = (Scenario.FIRST, Scenario.NEXT)
    yield from _native_commit_choices(spans, both, "bronze")
    yield from _spark_log_choices(spans, both, STREAMS)
    yield from _commit_choices(spans, both, "target commit", (Failpoint.BEFORE_WRITE, 400), Failpoint.WRITTEN)
    yield from _commit_choices(
        spans, both, "quarantine commit", (Failpoint.BEFORE_QUARANTINE, 400), Failpoint.QUARANTINED
    )
    yield from _commit_choices(spans, both, "event log commit", (Failpoint.WRITTEN, 12), Failpoint.COUNTED)
    yield from _event_log_choices(spans)
    yield from _flow_record_choices()
    yield from _new_table_choices()
    refresh = (Scenario.REFRESH,)
    yield from _commit_choices(spans, refresh, "reset", (Failpoint.RESET_STARTED, 300), Failpoint.RESET_CLEARED)
    yield from _commit_choices(
        spans, refresh, "reset of the table", (Failpoint.RESET_QUARANTINE_CLEARED, 300), Failpoint.RESET_CLEARED
    )
    yield from _commit_choices(spans, refresh, "target commit", (Failpoint.BEFORE_WRITE, 400), Failpoint.WRITTEN)
    yield from _commit_choices(
        spans, (Scenario.ENDLESS,), "target commit", (Failpoint.BEFORE_WRITE, 400), Failpoint.WRITTEN
    )
    load = (Scenario.LOAD,)
    yield from _commit_choices(spans, load, "commit of a load", (Failpoint.BEFORE_WRITE, 400), Failpoint.WRITTEN)
    yield from _commit_choices(
        spans, load, "fence behind a load", (Failpoint.CHECKPOINT_CREATED, 100), Failpoint.STREAM_REPOSITIONED
    )


def merge_choices(spans: Spans) -> Iterator[Choice]:
    """The choices for an update that merges change events."""
    scenarios = (Scenario.CHANGES,)
    yield from _spark_log_choices(spans, scenarios, MERGED)
    yield from _commit_choices(
        spans, scenarios, "quarantine commit", (Failpoint.BEFORE_QUARANTINE, 400), Failpoint.QUARANTINED
    )
    yield from _commit_choices(
        spans, scenarios, "memory of events", (Failpoint.QUARANTINED, 900), Failpoint.EVENTS_RETAINED
    )
    yield from _commit_choices(spans, scenarios, "merge", (Failpoint.BEFORE_WRITE, 900), Failpoint.WRITTEN)
    yield from _commit_choices(spans, scenarios, "event log commit", (Failpoint.WRITTEN, 12), Failpoint.COUNTED)
    for folder, commit in (("tables/default", "merge"), ("system/cdc/default", "memory of events")):
        for moment in (Moment.DURING, Moment.AFTER):
            yield partial(_merge_shot, spans=spans, folder=folder, commit=commit, moment=moment)
    for _ in range(3):
        yield partial(_any_time_shot, scenario=Scenario.CHANGES, longest_ms=_MAX_MERGE_MS)


def state_choices(spans: Spans) -> Iterator[Choice]:
    """The choices for an update of stateful streams, which may store state of a batch before the batch is committed."""
    scenarios = (Scenario.STATE,)
    yield from _spark_log_choices(spans, scenarios, STATEFUL_FLOWS)
    yield from _native_commit_choices(spans, scenarios, STATEFUL_FLOWS[0])
    yield from _commit_choices(spans, scenarios, "target commit", (Failpoint.BEFORE_WRITE, 400), Failpoint.WRITTEN)
    yield from _commit_choices(spans, scenarios, "event log commit", (Failpoint.WRITTEN, 12), Failpoint.COUNTED)
    for _ in range(4):
        yield partial(_any_time_shot, scenario=Scenario.STATE, longest_ms=_MAX_STATE_MS)


def small_choices(spans: Spans) -> Iterator[Choice]:
    """The choices around commits of small batches: behind the data file, at the commit, and behind it.

    The milliseconds behind a commit are those in which its checksum is written.
    """
    commits = spans[Scenario.NEXT].commits
    for table in (path for path in sorted(commits) if path.startswith("tables/") and commits[path]):
        for moment in Moment:
            yield partial(_small_shot, table=table, versions=commits[table], moment=moment)


def _small_shot(chance: Random, table: str, versions: range, moment: Moment) -> Shot:
    number = chance.randrange(len(versions))
    if moment is Moment.BEFORE:
        at: File | DataFile = DataFile(table, number + 1)
    else:
        at = File(f"{table}/_delta_log/{versions[number]:020d}.json", drafts=moment is Moment.DURING)
    return Shot(Scenario.NEXT, "commit of a small batch", moment, at, chance.choice((0, 0, 1, 2, 5, 10, 20)))


def _merge_shot(chance: Random, spans: Spans, folder: str, commit: str, moment: Moment) -> Shot:
    """A Delta commit to a merge target, or to its retained events."""
    commits = spans[Scenario.CHANGES].commits
    table = chance.choice([f"{folder}/{name}" for name in MERGED if commits.get(f"{folder}/{name}")])
    at = File(f"{table}/_delta_log/{chance.choice(commits[table]):020d}.json", drafts=moment is Moment.DURING)
    return Shot(Scenario.CHANGES, commit, moment, at)


def _any_time_shot(chance: Random, scenario: Scenario, longest_ms: int) -> Shot:
    return Shot(scenario, "any time", Moment.DURING, File("lease.json"), chance.randint(1, longest_ms))


def _commit_choices(
    spans: Spans, scenarios: Sequence[Scenario], commit: str, to: tuple[Failpoint, int], after: Failpoint
) -> Iterator[Choice]:
    """Before, during and after a commit of the engine."""
    before, longest_ms = to

    def shot(chance: Random, moment: Moment) -> Shot:
        scenario = chance.choice(scenarios)
        point = after if moment is Moment.AFTER else before
        at = Pass(point.value, chance.randint(1, spans[scenario].passes[point]))
        delay_ms = chance.randint(1, longest_ms) if moment is Moment.DURING else 0
        return Shot(scenario, commit, moment, at, delay_ms)

    for moment in Moment:
        yield partial(shot, moment=moment)


def _native_commit_choices(spans: Spans, scenarios: Sequence[Scenario], flow: str) -> Iterator[Choice]:
    """The target commit of a stream with Spark's own sink; version 0 of a table is its creation."""

    def shot(chance: Random, moment: Moment) -> Shot:
        scenario = chance.choice(scenarios)
        batch = chance.choice(spans[scenario].batches[flow])
        if moment is Moment.BEFORE:
            return Shot(scenario, "native commit", moment, File(_spark(flow, "offsets", batch)))
        at = File(_delta(flow, batch + 1), drafts=moment is Moment.DURING)
        return Shot(scenario, "native commit", moment, at)

    for moment in Moment:
        yield partial(shot, moment=moment)


def _spark_log_choices(spans: Spans, scenarios: Sequence[Scenario], flows: Sequence[str]) -> Iterator[Choice]:
    """Spark's offset log and commit log of a stream."""

    def shot(chance: Random, log: str, moment: Moment) -> Shot:
        scenario = chance.choice(scenarios)
        flow = chance.choice(flows)
        batch = chance.choice(spans[scenario].batches[flow])
        commit = f"Spark's {log}"
        if moment is not Moment.BEFORE:
            return Shot(scenario, commit, moment, File(_spark(flow, log, batch), drafts=moment is Moment.DURING))
        if log == "commits":
            return Shot(scenario, commit, moment, File(_spark(flow, "offsets", batch)), chance.randint(50, 900))
        if batch and batch == spans[scenario].batches[flow][0]:
            # The preceding commit already exists when the victim starts.
            return Shot(scenario, commit, moment, File("lease.json"), chance.randint(50, 900))
        return Shot(scenario, commit, moment, File(_spark(flow, "commits", batch - 1) if batch else _spark(flow)))

    for log in ("offsets", "commits"):
        for moment in Moment:
            yield partial(shot, log=log, moment=moment)


def _event_log_choices(spans: Spans) -> Iterator[Choice]:
    def shot(chance: Random) -> Shot:
        versions = spans[Scenario.NEXT].commits["system/events"]
        version = chance.choice(versions[: max(int(len(versions) * _SURE_OF_EVENTS), 1)])
        at = File(f"system/events/_delta_log/{version:020d}.json")
        return Shot(Scenario.NEXT, "event log commit", Moment.AFTER, at)

    yield shot


def _flow_record_choices() -> Iterator[Choice]:
    """The engine's file on a flow; that of a stream is written when the stream starts and when it is done."""

    def shot(chance: Random, moment: Moment) -> Shot:
        flow = chance.choice((*STREAMS, "totals"))
        path = f"checkpoints/default/{TARGETS.get(flow, flow)}/{flow}/flow.json"
        changes = chance.randint(1, 2) if flow in STREAMS else 1
        at = File(path, changes, drafts=moment is Moment.DURING)
        return Shot(Scenario.NEXT, "flow record", moment, at)

    for moment in (Moment.DURING, Moment.AFTER):
        yield partial(shot, moment=moment)


def _new_table_choices() -> Iterator[Choice]:
    def shot(chance: Random, moment: Moment) -> Shot:
        table = chance.choice(("bronze", "silver", "silver_quarantine", "per_kind", "ledger", "totals_quarantine"))
        if moment is Moment.BEFORE:
            return Shot(Scenario.FIRST, "table creation", moment, File("lease.json"), chance.randint(1, 1500))
        return Shot(Scenario.FIRST, "table creation", moment, File(_delta(table, 0), drafts=moment is Moment.DURING))

    for moment in Moment:
        yield partial(shot, moment=moment)


def _delta(table: str, version: int) -> str:
    return f"tables/default/{table}/_delta_log/{version:020d}.json"


def _spark(flow: str, log: str = "metadata", batch: int | None = None) -> str:
    folder = f"checkpoints/default/{TARGETS.get(flow, flow)}/{flow}/0"
    return f"{folder}/{log}" if batch is None else f"{folder}/{log}/{batch}"


def _identity(file: Path) -> tuple[int, int] | None:
    try:
        found = file.stat()
    except OSError:
        return None
    return found.st_ino, found.st_mtime_ns


def _data_files(folder: Path) -> frozenset[str]:
    return frozenset(file.name for file in folder.rglob("*.parquet") if "_delta_log" not in file.parts)


def _has_draft(file: Path) -> bool:
    start = f".{file.name}."
    try:
        return any(entry.name.startswith(start) and not entry.name.endswith(".crc") for entry in file.parent.iterdir())
    except OSError:
        return False
