"""The readers of streams in a program, whichever language its files are in."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from headrace.assistant.doctor.facts import Facts, ProgramFile
from headrace.assistant.doctor.programs import python_readers
from headrace.assistant.doctor.sql_programs import sql_readers
from headrace.assistant.doctor.stream_reader import StreamReader


def stream_readers(files: Sequence[ProgramFile]) -> Iterator[StreamReader]:
    """The readers whose dataset is known."""
    yield from python_readers(files)
    yield from sql_readers(files)


def flows_without_limit(facts: Facts) -> set[str]:
    """The flows whose readers have no limit; the doctor needs the rows of their first batches."""
    readers = (reader for reader in stream_readers(facts.programs) if reader.missing_limit is not None)
    flows = (facts.flow_into(facts.full_name(reader.dataset)) for reader in readers)
    return {flow for flow in flows if flow is not None}
