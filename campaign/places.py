"""Where a victim can be hit: each kind of commit, before, during and after it; and a seeded choice among them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from enum import Enum
from functools import partial
from pathlib import Path
from random import Random
from typing import Any

from campaign.changes import MERGED
from campaign.state import KEEPING
from campaign.strike import Who
from campaign.workload import STREAMS, TARGETS, Scenario
from headrace.runtime.failpoints import Failpoint

# The last version of the event log that an update is sure to write is earlier than that of the baseline.
_SURE_OF_EVENTS = 0.6
# About as long as a victim takes to merge.
_LONGEST_MS = 12_000
# The same of one that goes on with streams that keep state.
_LONGEST_OF_STATES_MS = 60_000


class Moment(str, Enum):
    """When, seen from a commit."""

    BEFORE = "before"
    DURING = "during"
    AFTER = "after"


@dataclass(frozen=True)
class Pass:
    """The victim's own pass of a point of the engine, counted over all flows from 1."""

    point: str
    number: int

    def describe(self) -> str:
        """For people."""
        return f'pass {self.number} of "{self.point}"'


@dataclass(frozen=True)
class File:
    """A file of the storage that comes to be, or is replaced, as often as *changes* says.

    With *drafts*, a hidden file beside it, out of which it is made, counts as well.
    """

    path: str
    changes: int = 1
    drafts: bool = False

    def describe(self) -> str:
        """For people."""
        often = f", change {self.changes}" if self.changes > 1 else ""
        return f"{self.path}{often}{' or its draft' if self.drafts else ''}"

    def watch(self, storage: Path) -> Callable[[], bool]:
        """A function that says whether it has come to that; what is there now does not count."""
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
class Shot:
    """One point of the campaign: who is hit, where, and how long after that."""

    scenario: Scenario
    commit: str
    moment: Moment
    at: Pass | File
    delay_ms: int = 0
    who: Who = Who.PYTHON

    def describe(self) -> str:
        """One line for people."""
        later = f" and {self.delay_ms} ms" if self.delay_ms else ""
        place = f"{self.moment.value} {self.commit}"
        return f"{self.who.value:<6}  {self.scenario.value}, {place}: {self.at.describe()}{later}"

    def to_json(self) -> dict[str, Any]:
        """The shot as stored."""
        return asdict(self)


@dataclass(frozen=True)
class Span:
    """What an uninterrupted update of a scenario does: how often it passes each point, and what it numbers.

    ``batches`` are those of each stream, ``commits`` the versions of each table by its path in the storage.
    """

    passes: Mapping[Failpoint, int]
    batches: Mapping[str, range]
    commits: Mapping[str, range]


Choice = Callable[[Random], Shot]
Spans = Mapping[Scenario, Span]


def chosen(
    seed: int,
    count: int,
    spans: Spans,
    whom: Sequence[Who] = tuple(Who),
    places: Callable[[Spans], Iterator[Choice]] | None = None,
) -> list[Shot]:
    """So many shots; every place is hit once before one is hit again, and each of *whom* in turn.

    *places* are those of the larger project, unless others are given.

    Law: the same arguments give the same shots, and a shot does not depend on how many follow it.
    """
    shots: list[Shot] = []
    round_number = 0
    while len(shots) < count:
        chance = Random(f"{seed}/{round_number}")  # noqa: S311 - which place to try next is no secret
        choices = list((places or _places)(spans))
        chance.shuffle(choices)
        for choice in choices:
            shot = choice(chance)
            shots.append(replace(shot, who=whom[(len(shots) + seed) % len(whom)]))
        round_number += 1
    return shots[:count]


def _places(spans: Spans) -> Iterator[Choice]:
    both = (Scenario.FIRST, Scenario.NEXT)
    yield from _of_a_native_commit(spans, both, "bronze")
    yield from _of_spark(spans, both, STREAMS)
    yield from _around(spans, both, "target commit", (Failpoint.TO_WRITE, 400), Failpoint.WRITTEN)
    yield from _around(spans, both, "quarantine commit", (Failpoint.TO_SET_ASIDE, 400), Failpoint.QUARANTINED)
    yield from _around(spans, both, "event log commit", (Failpoint.WRITTEN, 12), Failpoint.COUNTED)
    yield from _of_the_event_log(spans)
    yield from _of_a_record()
    yield from _of_a_new_table()
    refresh = (Scenario.REFRESH,)
    yield from _around(spans, refresh, "reset", (Failpoint.RESET_BEGUN, 300), Failpoint.RESET_CLEARED)
    yield from _around(spans, refresh, "reset of the table", (Failpoint.RESET_ASIDE, 300), Failpoint.RESET_CLEARED)
    yield from _around(spans, refresh, "target commit", (Failpoint.TO_WRITE, 400), Failpoint.WRITTEN)
    yield from _around(spans, (Scenario.ENDLESS,), "target commit", (Failpoint.TO_WRITE, 400), Failpoint.WRITTEN)
    load = (Scenario.LOAD,)
    yield from _around(spans, load, "commit of a load", (Failpoint.TO_WRITE, 400), Failpoint.WRITTEN)
    yield from _around(spans, load, "fence behind a load", (Failpoint.SEEDED, 100), Failpoint.FENCED)


def of_merges(spans: Spans) -> Iterator[Choice]:
    """The places of an update that merges change events."""
    scenarios = (Scenario.CHANGES,)
    yield from _of_spark(spans, scenarios, MERGED)
    yield from _around(spans, scenarios, "quarantine commit", (Failpoint.TO_SET_ASIDE, 400), Failpoint.QUARANTINED)
    yield from _around(spans, scenarios, "memory of events", (Failpoint.QUARANTINED, 900), Failpoint.REMEMBERED)
    yield from _around(spans, scenarios, "merge", (Failpoint.TO_WRITE, 900), Failpoint.WRITTEN)
    yield from _around(spans, scenarios, "event log commit", (Failpoint.WRITTEN, 12), Failpoint.COUNTED)
    for folder, commit in (("tables/default", "merge"), ("system/cdc/default", "memory of events")):
        for moment in (Moment.DURING, Moment.AFTER):
            yield partial(_of_a_merge, spans=spans, folder=folder, commit=commit, moment=moment)
    for _ in range(3):
        yield partial(_at_any_time, scenario=Scenario.CHANGES, longest_ms=_LONGEST_MS)


def of_states(spans: Spans) -> Iterator[Choice]:
    """The places of an update of streams that keep state: before a batch is done, state of it may be there already."""
    scenarios = (Scenario.STATE,)
    yield from _of_spark(spans, scenarios, KEEPING)
    yield from _of_a_native_commit(spans, scenarios, KEEPING[0])
    yield from _around(spans, scenarios, "target commit", (Failpoint.TO_WRITE, 400), Failpoint.WRITTEN)
    yield from _around(spans, scenarios, "event log commit", (Failpoint.WRITTEN, 12), Failpoint.COUNTED)
    for _ in range(4):
        yield partial(_at_any_time, scenario=Scenario.STATE, longest_ms=_LONGEST_OF_STATES_MS)


def _of_a_merge(chance: Random, spans: Spans, folder: str, commit: str, moment: Moment) -> Shot:
    """A commit of Delta's to a table that changes are merged into, or to what is remembered for it."""
    commits = spans[Scenario.CHANGES].commits
    table = chance.choice([f"{folder}/{name}" for name in MERGED if commits.get(f"{folder}/{name}")])
    at = File(f"{table}/_delta_log/{chance.choice(commits[table]):020d}.json", drafts=moment is Moment.DURING)
    return Shot(Scenario.CHANGES, commit, moment, at)


def _at_any_time(chance: Random, scenario: Scenario, longest_ms: int) -> Shot:
    return Shot(scenario, "any time", Moment.DURING, File("lease.json"), chance.randint(1, longest_ms))


def _around(
    spans: Spans, scenarios: Sequence[Scenario], commit: str, to: tuple[Failpoint, int], after: Failpoint
) -> Iterator[Choice]:
    """Before, during and after a commit that the engine makes itself."""
    before, longest_ms = to

    def shot(chance: Random, moment: Moment) -> Shot:
        scenario = chance.choice(scenarios)
        point = after if moment is Moment.AFTER else before
        at = Pass(point.value, chance.randint(1, spans[scenario].passes[point]))
        delay_ms = chance.randint(1, longest_ms) if moment is Moment.DURING else 0
        return Shot(scenario, commit, moment, at, delay_ms)

    for moment in Moment:
        yield partial(shot, moment=moment)


def _of_a_native_commit(spans: Spans, scenarios: Sequence[Scenario], flow: str) -> Iterator[Choice]:
    """The target commit of a stream that Spark writes itself; version 0 of a table is its creation."""

    def shot(chance: Random, moment: Moment) -> Shot:
        scenario = chance.choice(scenarios)
        batch = chance.choice(spans[scenario].batches[flow])
        if moment is Moment.BEFORE:
            return Shot(scenario, "native commit", moment, File(_spark(flow, "offsets", batch)))
        at = File(_delta(flow, batch + 1), drafts=moment is Moment.DURING)
        return Shot(scenario, "native commit", moment, at)

    for moment in Moment:
        yield partial(shot, moment=moment)


def _of_spark(spans: Spans, scenarios: Sequence[Scenario], flows: Sequence[str]) -> Iterator[Choice]:
    """Spark's own log of what a stream has planned, and of what it has done."""

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
            # What comes before it was there before the victim.
            return Shot(scenario, commit, moment, File("lease.json"), chance.randint(50, 900))
        return Shot(scenario, commit, moment, File(_spark(flow, "commits", batch - 1) if batch else _spark(flow)))

    for log in ("offsets", "commits"):
        for moment in Moment:
            yield partial(shot, log=log, moment=moment)


def _of_the_event_log(spans: Spans) -> Iterator[Choice]:
    def shot(chance: Random) -> Shot:
        versions = spans[Scenario.NEXT].commits["system/events"]
        version = chance.choice(versions[: max(int(len(versions) * _SURE_OF_EVENTS), 1)])
        at = File(f"system/events/_delta_log/{version:020d}.json")
        return Shot(Scenario.NEXT, "event log commit", Moment.AFTER, at)

    yield shot


def _of_a_record() -> Iterator[Choice]:
    """The engine's own file about a flow: a stream's is written when it starts and when it is done."""

    def shot(chance: Random, moment: Moment) -> Shot:
        flow = chance.choice((*STREAMS, "totals"))
        path = f"checkpoints/default/{TARGETS.get(flow, flow)}/{flow}/flow.json"
        changes = chance.randint(1, 2) if flow in STREAMS else 1
        at = File(path, changes, drafts=moment is Moment.DURING)
        return Shot(Scenario.NEXT, "flow record", moment, at)

    for moment in (Moment.DURING, Moment.AFTER):
        yield partial(shot, moment=moment)


def _of_a_new_table() -> Iterator[Choice]:
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


def _has_draft(file: Path) -> bool:
    start = f".{file.name}."
    try:
        return any(entry.name.startswith(start) and not entry.name.endswith(".crc") for entry in file.parent.iterdir())
    except OSError:
        return False
