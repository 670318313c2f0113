"""A reader of a stream in the program text, with its options, and the edits of these."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from headrace.assistant.doctor.facts import ProgramFile
from headrace.assistant.doctor.findings import Edit, lines_of
from headrace.assistant.doctor.notebook_code import encoded_line

_LIMITS = ("maxOffsetsPerTrigger", "maxFilesPerTrigger", "maxBytesPerTrigger")
# Formats without a default limit, and the option that limits them.
_UNLIMITED = {
    "kafka": "maxOffsetsPerTrigger",
    **dict.fromkeys(("json", "csv", "parquet", "text", "orc", "avro"), "maxFilesPerTrigger"),
}


@dataclass(frozen=True)
class Span:
    """A part of a line; columns count characters from 0, the end is exclusive."""

    line: int
    begin: int
    end: int


@dataclass(frozen=True)
class StreamReader:
    """A reader of a stream in the query of a dataset.

    Attributes:
        file: the file with its text.
        dataset: the dataset whose query has it.
        format: as it is written, in lower case; empty if the program does not show it.
        options: its literal options, by their names in lower case.
        shows_all: whether all of its options are literals.
        line: where it is.
        values: by option in lower case, where its value is written, if on one line.
        place: where another option is inserted; None if that is not known.
        template: the text of another option, with ``name`` and ``value``.
    """

    file: ProgramFile
    dataset: str
    format: str
    options: Mapping[str, str]
    shows_all: bool
    line: int
    values: Mapping[str, Span]
    place: Span | None
    template: str

    @property
    def limit(self) -> str | None:
        """The option that limits what a batch reads; None if the reader has no limit, and no default one."""
        names = [name for limit in _LIMITS for name in (limit.lower(), f"cloudfiles.{limit.lower()}")]
        return next((name for name in names if name in self.options), None)

    @property
    def missing_limit(self) -> str | None:
        """The option that would limit it; None if it has a limit, or if the program does not show that."""
        is_known = self.shows_all and self.limit is None
        return _UNLIMITED.get(self.format) if is_known else None

    def with_option(self, name: str, value: str) -> Edit | None:
        """The edit that sets an option, whether or not the reader has it; None if it cannot be set on one line.

        Args:
            name: of the option.
            value: as it is written in the language of the file.
        """
        if name.lower() in self.options:
            span = self.values.get(name.lower())
            return None if span is None else span_edit(self.file, span, value)
        # Functions of SQL read options of Auto Loader without their prefix.
        written = name.removeprefix("cloudFiles.") if self.file.is_sql else name
        text = self.template.format(name=written, value=value)
        return None if self.place is None else span_edit(self.file, self.place, text)

    def literal(self, text: str) -> str:
        """A text without quotes as a literal in the language of the file."""
        return f"'{text}'" if self.file.is_sql else f'"{text}"'


def span_edit(file: ProgramFile, span: Span, text: str) -> Edit | None:
    """The edit that replaces a part of a line of code; None if the file has that line in another form."""
    written, code = (lines_of(of)[span.line - 1] for of in (file.text, file.code))
    changed = f"{code[: span.begin]}{text}{code[span.end :]}"
    line = changed if written == code else encoded_line(written, code, changed)
    return None if line is None else Edit(file.name, span.line, line)
