"""What every source of this package is to Spark: a stream of batches by offset, and rows for each task."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import pyarrow as pa

from headrace.autoloader.ddl import JsonType
from headrace.autoloader.discovery import Clock

Offset = dict[str, Any]


@dataclass(frozen=True)
class Session:
    """What the session of a reader decides.

    Attributes:
        streams: whether it reads a stream.
        time_zone: of times without a zone.
        parallelism: how many tasks run.
        resolves: whether the columns alone are wanted, and no row is read.
    """

    streams: bool = True
    time_zone: str = "UTC"
    parallelism: int = 1
    resolves: bool = False


@dataclass(frozen=True)
class Prepared:
    """A reader's meaning, found out on the driver; as JSON it travels to Spark's workers.

    Attributes:
        format: the name that the reader asked for.
        description: what is read, for people; it tells one source from another.
        columns: as Spark's JSON.
        settings: what the workers need besides; without secrets.
        secrets: by the names of their options; never part of the JSON.
        without_effect: options that were given and change nothing, each with the reason.
    """

    format: str
    description: str
    columns: JsonType
    settings: Mapping[str, Any]
    secrets: Mapping[str, str] = field(default_factory=dict, repr=False)
    without_effect: tuple[tuple[str, str], ...] = ()

    def to_json(self) -> str:
        """Everything but the secrets."""
        return json.dumps({name: value for name, value in vars(self).items() if name != "secrets"})

    @staticmethod
    def from_json(text: str, secrets: Mapping[str, str] | None = None) -> Prepared:
        """What :meth:`to_json` was made of, with the secrets that came another way."""
        document = json.loads(text)
        document["without_effect"] = tuple((name, why) for name, why in document["without_effect"])
        return Prepared(**document, secrets=secrets or {})


class SourceStream(Protocol):
    """One query's view of a source. Offsets are JSON objects without secrets; the same two give the same batch."""

    def initial(self) -> Offset:
        """Where a stream begins that has read nothing yet."""

    def end_at_what_is_there(self) -> None:
        """Read what is there when the next batch is asked for, and no more (``Trigger.AvailableNow``)."""

    def latest(self, start: Offset, *, everything: bool) -> Offset:
        """The end of the batch behind *start*; *everything* leaves out the limits of a batch."""

    def newest(self) -> Offset | None:
        """How far the source goes, as far as is known; None before that is known."""

    def tasks(self, start: Offset, end: Offset) -> Sequence[Any]:
        """What the tasks of a batch read; each is pickled, and not None."""

    def committed(self, end: Offset) -> None:
        """Take note that what is before *end* is in the target."""

    def close(self) -> None:
        """Let go of what is open."""


class SourceReading(Protocol):
    """A source as tasks read it: small, and pickled for Spark's workers."""

    def stream(self, clock: Clock) -> SourceStream:
        """A stream of the source, for the driver."""

    def batch(self, clock: Clock) -> Sequence[Any]:
        """What the tasks read of what is there now; each is pickled, and not None."""

    def rows(self, task: Any) -> Iterator[pa.RecordBatch]:
        """The rows of one task."""
