"""A schedule: what starts an update, and of which datasets."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from hashlib import sha256
from types import MappingProxyType
from typing import TypeAlias

from headrace.model.outcome import UpdateCause
from headrace.schedules.cron import CronTimes

# How soon after the last update a change of files or tables starts another one; the vendor's least value.
DEFAULT_AT_MOST_EVERY_S = 60.0


class When(str, Enum):
    """Which of several tables must have changed."""

    ANY = "any"
    ALL = "all"


class CatchUp(str, Enum):
    """What happens with times that passed while nothing could start an update."""

    LATEST = "latest"  # one update for all of them
    NONE = "none"


@dataclass(frozen=True)
class Pace:
    """How fast changes start updates.

    Attributes:
        quiet_s: how long nothing must have changed before an update starts.
        at_most_every_s: the least time from the start of one update to the start of the next.
    """

    quiet_s: float = 0.0
    at_most_every_s: float = DEFAULT_AT_MOST_EVERY_S


@dataclass(frozen=True)
class Cron:
    """Updates at the times of a cron expression."""

    times: CronTimes

    def describe(self) -> str:
        """The times as text."""
        return f"{self.times.text} {self.times.zone}"


@dataclass(frozen=True)
class Every:
    """Updates in equal distances, counted from when a scheduler first saw the schedule."""

    period_s: float

    def describe(self) -> str:
        """The period as text."""
        return f"every {duration(self.period_s)}"


@dataclass(frozen=True)
class FileArrival:
    """An update when files arrive.

    Attributes:
        path: a folder, or a path with wildcards, as Auto Loader reads it.
        pace: how fast.
    """

    path: str
    pace: Pace = Pace()

    def describe(self) -> str:
        """What is watched, as text."""
        return f"files in {self.path}"


@dataclass(frozen=True)
class TableUpdate:
    """An update when rows of tables change.

    Attributes:
        tables: names of datasets of the pipeline, or paths of Delta tables. Empty: those that the dataset reads.
        when: which of them.
        pace: how fast.
    """

    tables: tuple[str, ...] = ()
    when: When = When.ANY
    pace: Pace = Pace()

    def describe(self) -> str:
        """What is watched, as text."""
        if not self.tables:
            return "update of what it reads"
        return f"update of {f' {self.joint} '.join(self.tables)}"

    @property
    def joint(self) -> str:
        """The word between the tables."""
        return "or" if self.when is When.ANY else "and"


@dataclass(frozen=True)
class Continuous:
    """An update that runs all the time, and is started again when it ends."""

    def describe(self) -> str:
        """The word for it."""
        return "continuous"


@dataclass(frozen=True)
class Freshness:
    """Updates as often as datasets need to be no older than a target.

    Attributes:
        targets_s: by dataset, in seconds.
    """

    targets_s: Mapping[str, float]

    def describe(self) -> str:
        """The targets as text."""
        return ", ".join(f"{name} within {duration(target)}" for name, target in self.targets_s.items())


Timing: TypeAlias = Cron | Every | FileArrival | TableUpdate | Continuous | Freshness
_CAUSES: Mapping[type, UpdateCause] = MappingProxyType(
    {FileArrival: UpdateCause.FILE_ARRIVAL, TableUpdate: UpdateCause.TABLE_UPDATE}
)


@dataclass(frozen=True)
class Schedule:
    """A schedule of a pipeline.

    Attributes:
        name: unique in the pipeline; of a schedule in the code, ``dataset:`` and the name of its dataset.
        timing: what starts an update.
        refresh: selectors of the datasets to refresh; empty for all.
        catch_up: what happens with missed times.
        retries: how often a failed update is started again; None for no limit.
        in_code: the dataset's definition has it, not the settings.
    """

    name: str
    timing: Timing
    refresh: tuple[str, ...] = ()
    catch_up: CatchUp = CatchUp.LATEST
    retries: int | None = 0
    in_code: bool = False

    @property
    def cause(self) -> UpdateCause:
        """The cause of its updates, for the event log."""
        return _CAUSES.get(type(self.timing), UpdateCause.SCHEDULE)

    @property
    def digest(self) -> str:
        """Changes with the timing, not with the datasets."""
        return sha256(repr(self.timing).encode()).hexdigest()[:16]

    @property
    def is_continuous(self) -> bool:
        """True if its update runs until it is stopped."""
        return isinstance(self.timing, Continuous)


def duration(seconds: float) -> str:
    """A time as text: ``90 s``, ``10 min``, ``2 h``, ``7 d``."""
    for unit_s, unit in ((86_400, "d"), (3600, "h"), (60, "min")):
        if seconds >= unit_s and seconds % unit_s == 0:
            return f"{seconds / unit_s:g} {unit}"
    return f"{seconds:g} s"
