"""The interface of this package's sources to Spark: batches by offset, and rows for each task."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import pyarrow as pa

from headrace.autoloader.discovery import Clock
from headrace.model.ddl import JsonType

Offset = dict[str, Any]


@dataclass(frozen=True)
class ReadContext:
    """How a reader was called, and what its session defines.

    Attributes:
        is_streaming: it reads a stream.
        time_zone: of times without a zone.
        parallelism: how many tasks run at a time.
        schema_only: only the columns are needed, no rows.
    """

    is_streaming: bool = True
    time_zone: str = "UTC"
    parallelism: int = 1
    schema_only: bool = False


@dataclass(frozen=True)
class PreparedSource:
    """A checked reader. The driver prepares it and sends it to Spark's workers as JSON.

    Attributes:
        format: the name of the format.
        description: what is read, for people; identifies the source.
        columns: the schema as Spark's JSON.
        settings: what else the workers need; without secrets.
        secrets: by the names of their options; never part of the JSON.
        without_effect: options that were set but are ignored, each with the reason.
    """

    format: str
    description: str
    columns: JsonType
    settings: Mapping[str, Any]
    secrets: Mapping[str, str] = field(default_factory=dict, repr=False)
    without_effect: tuple[tuple[str, str], ...] = ()

    def to_json(self) -> str:
        """Everything except the secrets."""
        return json.dumps({name: value for name, value in vars(self).items() if name != "secrets"})

    @staticmethod
    def from_json(text: str, secrets: Mapping[str, str] | None = None) -> PreparedSource:
        """The inverse of :meth:`to_json`; the secrets come separately."""
        document = json.loads(text)
        document["without_effect"] = tuple((name, why) for name, why in document["without_effect"])
        return PreparedSource(**document, secrets=secrets or {})


class SourceStream(Protocol):
    """One query's view of a source. Offsets are JSON objects without secrets; equal offsets give equal batches."""

    def initial(self) -> Offset:
        """The offset at which a new stream starts."""

    def prepare_for_available_now(self) -> None:
        """End the stream at the data available when the next batch is planned (``Trigger.AvailableNow``)."""

    def latest(self, start: Offset, *, everything: bool) -> Offset:
        """The end of the batch that starts at *start*; *everything* ignores the limits of a batch."""

    def newest(self) -> Offset | None:
        """The latest known end of the source; None while it is unknown."""

    def tasks(self, start: Offset, end: Offset) -> Sequence[Any]:
        """The tasks of a batch; each is pickled, and not None."""

    def commit(self, end: Offset) -> None:
        """Called when everything before *end* is in the target."""

    def close(self) -> None:
        """Release resources."""


class StreamSource(Protocol):
    """A source that a query reads as a stream or a batch; it is small, and pickled for Spark's workers."""

    def stream(self, clock: Clock) -> SourceStream:
        """A stream of the source, for the driver."""

    def batch(self, clock: Clock) -> Sequence[Any]:
        """The tasks that read the data available now; each is pickled, and not None."""

    def rows(self, task: Any) -> Iterator[pa.RecordBatch]:
        """The rows of one task."""
