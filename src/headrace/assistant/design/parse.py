"""Parses the text of a requirements file. All problems are reported at once, each with its line."""

from __future__ import annotations

import keyword
import re
from collections import Counter
from collections.abc import Callable, Mapping

from headrace.assistant.design.requirement_keys import PARAMETERS, REQUIREMENTS
from headrace.assistant.design.requirements import (
    Column,
    ErrorPolicy,
    History,
    Lateness,
    Output,
    OutputKind,
    Requirements,
    Source,
    SourceKind,
)
from headrace.assistant.design.source_defaults import with_known_columns
from headrace.assistant.design.value_reader import ValueReader
from headrace.errors import PipelineError, Problems
from headrace.model.ddl import InvalidDdl, parse_struct
from headrace.model.location import Location
from headrace.settings.check import Checker, Section
from headrace.settings.document import parse_document
from headrace.settings.secrets import has_reference

_BACKFILL = re.compile(r"backfill\s+from\s+(\S.*)", re.IGNORECASE | re.DOTALL)
_COLUMN = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
# Names of options whose values give access.
_SECRET_NAME = re.compile(
    r"password|secret|token|accesskey|connectionstring|jaas|credential|authorization", re.IGNORECASE
)
# Secrets within values, such as the password in the URL of a database. A reference begins with a dollar sign.
_SECRET_IN_VALUE = re.compile(
    r"(?:password|pwd|accountkey|sharedaccesskey|secret|token)\s*=\s*[\"']?[^$\s;&\"']|://[^/\s:@$]*:[^/\s@$]+@",
    re.IGNORECASE,
)
# Names that the modules of a project use for something else.
_NAMES_IN_USE = frozenset(
    ("dp", "F", "spark", "dbutils", "DataFrame", "Path", "IS_SAMPLE", "SAMPLE", "deduplicate", "sessionize", "windowed")
)
# Datasets that a design adds for a source.
_ADDED = ("source", "live", "bronze", "reference")
# Columns that a bronze table adds.
_ADDED_COLUMNS = frozenset({"ingested_at", "_corrupt_record"})
SampleColumns = Callable[[str], tuple[Column, ...]]


def parse_requirements(text: str, file: str, sample_columns: SampleColumns) -> Requirements:
    """The requirements in the text of a YAML file.

    Args:
        text: of the file.
        file: its name, for the locations of problems.
        sample_columns: the columns of a sample file, by its path as written; raises PipelineError.

    Raises:
        Problems: all problems.
    """
    checker = Checker(file, REQUIREMENTS)
    try:
        section = checker.document(parse_document(text, file, REQUIREMENTS.errors))
    except PipelineError as error:
        raise Problems([error]) from error
    parser = _Parser(file, checker.problems, sample_columns)
    requirements = parser.requirements(section)
    if checker.problems:
        raise Problems(checker.problems)
    return with_known_columns(requirements)


class _Parser(ValueReader):
    """Reads sections into requirements."""

    def __init__(self, file: str, problems: list[PipelineError], sample_columns: SampleColumns) -> None:
        super().__init__(file, problems)
        self._sample_columns = sample_columns

    def requirements(self, section: Section) -> Requirements:
        self.check_values(section, "", "")
        sources = tuple(self._source(item, number) for number, item in enumerate(section.sections("sources"), 1))
        first = sources[0].name if len(sources) == 1 else ""
        outputs = tuple(
            output
            for number, item in enumerate(section.sections("outputs"), 1)
            if (output := self._output(item, number, first)) is not None
        )
        self._check_names(section, sources, outputs)
        state = section.section("state")
        on_error = section.text("on_error")
        return Requirements(
            name=section.text("name") or "",
            sources=sources,
            outputs=outputs,
            latency_s=self.seconds(section, "latency"),
            lateness=self._lateness(section),
            memory_bytes=self.memory_bytes(state),
            keys=state.number("keys"),
            guarantee=section.text("guarantee"),
            on_error=ErrorPolicy(on_error) if on_error in set(ErrorPolicy) else None,
            history=self._history(section),
            alerts=self._alerts(section),
            file=self.file,
            lines=section.lines,
        )

    def _source(self, section: Section, number: int) -> Source:
        label = f"sources[{number}]"
        self.check_values(section, "sources[]", label)
        kind = section.text("kind")
        columns = self._columns(section, label)
        for key, names in (("event_time", [section.text("event_time")]), ("keys", section.texts("keys"))):
            self._check_columns(section, key, f"{label}.{key}", [name for name in names if name], columns)
        found = Source(
            name=section.text("name") or f"source_{number}",
            kind=SourceKind(kind) if kind in set(SourceKind) else None,
            format=section.text("format"),
            columns=columns,
            event_time=_as_declared(columns, section.text("event_time")),
            keys=tuple(str(_as_declared(columns, name)) for name in section.texts("keys")),
            duplicate_share=self.share(section, label),
            events_per_s=self.positive(section, "events_per_s", section.decimal("events_per_s"), label),
            peak=self.positive(section, "peak", section.decimal("peak"), label) or Source.peak,
            retention_s=self.seconds(section, "retention", label),
            options=self._options(section, label),
            lines={"": section.line, **section.lines},
        )
        time = found.column(found.event_time)
        if time is not None and not time.is_time:
            reason = f"column {time.name} is {time.ddl.partition(' ')[2]}, and an event time is a TIMESTAMP"
            self.invalid(section, "event_time", f"{label}.event_time", reason, "Declare the column as TIMESTAMP.")
        return found

    def _output(self, section: Section, number: int, only_source: str) -> Output | None:
        label = f"outputs[{number}]"
        self.check_values(section, "outputs[]", label)
        kind = section.text("kind")
        if kind not in PARAMETERS:
            return None
        for key in section.values:
            if key not in PARAMETERS[kind]:
                kinds = ", ".join(other for other, known in PARAMETERS.items() if key in known)
                reason = f'an output of the kind {kind} has no "{key}"'
                self.invalid(section, key, f"{label}.{key}", reason, f"It belongs to: {kinds}.")
        size_s, slide_s = self.seconds(section, "size", label), self.seconds(section, "slide", label)
        if size_s and slide_s and slide_s > size_s:
            reason = "it is longer than size, so events between two windows would be in none"
            self.invalid(section, "slide", f"{label}.slide", reason, "Make it at most as long as size.")
        return Output(
            name=section.text("name") or f"output_{number}",
            kind=OutputKind(kind),
            reads=section.text("from") or only_source,
            comment=section.text("comment") or "",
            latency_s=self.seconds(section, "latency", label),
            keys=section.texts("keys"),
            at=section.text("at"),
            columns=section.texts("columns"),
            rules=section.mapping("rules"),
            aggregates=section.mapping("aggregates"),
            size_s=size_s,
            slide_s=slide_s,
            gap_s=self.seconds(section, "gap", label),
            joins=section.text("with"),
            on=section.texts("on"),
            within_s=self.seconds(section, "within", label),
            how=section.text("how") or Output.how,
            sequence_by=section.text("sequence_by"),
            deletes=section.text("deletes"),
            where=section.text("where"),
            format=section.text("format"),
            options=self._options(section, label),
            lines={"": section.line, **section.lines},
        )

    def _lateness(self, section: Section) -> Lateness:
        text = section.text("lateness")
        if text is not None:
            return Lateness(self.seconds(section, "lateness"))
        given = section.section("lateness")
        share = given.decimal("share")
        if share is not None and not 0 < share <= 1:
            reason, fix = f"{share:g} is not a share", "Write a number above 0 and at most 1, such as 0.999."
            self.invalid(given, "share", "lateness.share", reason, fix)
        if given.text("within") and given.text("measure_from"):
            reason = "within is set too, and the measured lateness would replace it"
            self.invalid(given, "measure_from", "lateness.measure_from", reason, "Keep one of them.")
        self.check_values(given, "lateness", "lateness")
        return Lateness(
            within_s=self.seconds(given, "within", "lateness"),
            share=Lateness.share if share is None else share,
            measure_from=given.text("measure_from"),
            scenario=given.text("scenario"),
        )

    def _history(self, section: Section) -> History | None:
        text = section.text("history")
        if text is None:
            given = section.section("history")
            self.check_values(given, "history", "history")
            path = given.text("from")
            return History(path, given.text("format") or History.format) if path else None
        if text.strip().casefold() == "none":
            return History()
        found = _BACKFILL.fullmatch(text.strip())
        if found is None:
            fix = "Write `none`, or `backfill from PATH`."
            self.invalid(section, "history", "history", f'"{text}" is unknown', fix)
            return None
        return History(found[1].strip())

    def _alerts(self, section: Section) -> str | None:
        text = section.text("alerts")
        if text is not None and not has_reference(text):
            reason = "the URL of a channel gives access to it, so it is a secret"
            self.invalid(section, "alerts", "alerts", reason, "Write a reference, such as ${secret:alerts/webhook}.")
            return None
        return text

    def _columns(self, section: Section, label: str) -> tuple[Column, ...]:
        given, sample = section.mapping("schema"), section.text("sample")
        if given and sample:
            self.invalid(section, "sample", f"{label}.sample", "schema is set too", "Keep one of them.")
        if sample and not given:
            try:
                return self._sample_columns(sample)
            except PipelineError as error:
                self.problems.append(error.located(Location(self.file, section.line_of("sample"))))
                return ()
        found = []
        for name, text in given.items():
            line = section.line_of(f"schema.{name}")
            if not _COLUMN.fullmatch(name):
                fix = "Use letters, digits and underscores; rename the column in the source, or leave it out."
                self.report(
                    "REQUIREMENTS.WRONG_VALUE", line, f"{label}.schema.{name}", "its name is no identifier", fix
                )
                continue
            if name.casefold() in _ADDED_COLUMNS:
                fix = "Rename the column in the source, or leave it out."
                reason = "the bronze table adds a column of this name"
                self.report("REQUIREMENTS.WRONG_VALUE", line, f"{label}.schema.{name}", reason, fix)
                continue
            try:
                found.append(Column(name, parse_struct(f"`{name}` {text}")["fields"][0]["type"]))
            except InvalidDdl as error:
                fix = "Write a SQL type, such as STRING, BIGINT, DECIMAL(10,2), TIMESTAMP or ARRAY<STRING>."
                self.report("REQUIREMENTS.WRONG_VALUE", line, f"{label}.schema.{name}", str(error), fix)
        twice = [name for name, count in Counter(column.name.casefold() for column in found).items() if count > 1]
        for name in twice:
            reason = f"column {name} is declared twice, because names are case-insensitive"
            self.invalid(section, "schema", f"{label}.schema", reason, "Keep one of them.")
        return tuple(found)

    def _options(self, section: Section, label: str) -> Mapping[str, str]:
        given = section.mapping("options")
        for name, value in given.items():
            if (_SECRET_NAME.search(name) and not has_reference(value)) or _SECRET_IN_VALUE.search(value):
                line = section.line_of(f"options.{name}")
                self.problems.append(
                    PipelineError(
                        "REQUIREMENTS.SECRET", location=Location(self.file, line), key=f"{label}.options.{name}"
                    )
                )
        return given

    def _check_names(self, section: Section, sources: tuple[Source, ...], outputs: tuple[Output, ...]) -> None:
        for key, items in (("sources", sources), ("outputs", outputs)):
            if key in section.values and not items and not section.sections(key):
                self.invalid(section, key, key, "it is empty", f"Add an item to {key}.")
        first: dict[str, str] = {}
        added = {f"{source.name}_{suffix}".casefold(): source.name for source in sources for suffix in _ADDED}
        named: list[tuple[str, Source | Output]] = [("source", source) for source in sources]
        named += [("output", output) for output in outputs]
        for what, item in named:
            line = item.lines.get("name", item.lines[""])
            if item.name.casefold() in first:
                reason = f'{first[item.name.casefold()]} has the name "{item.name}" too'
                self.report("REQUIREMENTS.WRONG_VALUE", line, "name", reason, "Choose another name.")
            elif keyword.iskeyword(item.name):
                reason = f'"{item.name}" is a keyword of Python'
                self.report("REQUIREMENTS.WRONG_VALUE", line, "name", reason, "Choose another name.")
            elif item.name in _NAMES_IN_USE:
                reason = f'the modules of the project use the name "{item.name}"'
                self.report("REQUIREMENTS.WRONG_VALUE", line, "name", reason, "Choose another name.")
            elif isinstance(item, Output) and item.name.casefold() in added and not _is_bronze_of(item, added):
                reason = f'the design adds a dataset "{item.name}" for source "{added[item.name.casefold()]}"'
                self.report("REQUIREMENTS.WRONG_VALUE", line, "name", reason, "Choose another name.")
            first.setdefault(item.name.casefold(), f"another {what}")

    def _check_columns(
        self, section: Section, key: str, label: str, names: list[str], columns: tuple[Column, ...]
    ) -> None:
        known = {column.name.casefold() for column in columns}
        missing = [name for name in names if name.casefold() not in known]
        if columns and missing:
            fix = f"The columns are {', '.join(column.name for column in columns)}."
            self.invalid(section, key, label, f"the schema has no column {', '.join(missing)}", fix)


def _as_declared(columns: tuple[Column, ...], name: str | None) -> str | None:
    """The name of a column as the schema spells it."""
    return next((column.name for column in columns if name and column.name.casefold() == name.casefold()), name)


def _is_bronze_of(output: Output, added: Mapping[str, str]) -> bool:
    """Whether an output is the bronze table that the design would add under this name."""
    source = added[output.name.casefold()]
    is_its_name = output.name.casefold() == f"{source}_bronze".casefold()
    return output.kind is OutputKind.BRONZE and is_its_name and output.reads == source
