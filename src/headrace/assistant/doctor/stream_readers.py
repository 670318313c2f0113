"""The readers of streams in a program, whichever language its files are in."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from headrace.assistant.doctor.facts import ProgramFile
from headrace.assistant.doctor.programs import python_readers
from headrace.assistant.doctor.sql_programs import sql_readers
from headrace.assistant.doctor.stream_reader import StreamReader


def stream_readers(files: Sequence[ProgramFile]) -> Iterator[StreamReader]:
    """The readers whose dataset is known."""
    yield from python_readers(files)
    yield from sql_readers(files)
