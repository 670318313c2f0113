"""What cannot be combined, and why: each refusal names the output, the reason and a way on."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from headrace.assistant.design.durations import spoken
from headrace.assistant.design.needed_columns import ColumnChecks
from headrace.assistant.design.refusals import location, refused, wrong
from headrace.assistant.design.requirements import (
    CHANGES,
    Output,
    OutputKind,
    Requirements,
    Source,
    SourceKind,
)
from headrace.assistant.design.source_defaults import FACTS, format_of, options_of
from headrace.assistant.design.suitability import LatencyClass, latency_class
from headrace.errors import PipelineError, Problems
from headrace.options.nearest import nearest
from headrace.options.option import OptionTable, Treatment
from headrace.sinks.formats import FORMATS, KAFKA
from headrace.sources.delta_options import check_delta_options

# Kinds of sources whose records can be read as a table, at once.
TABLES = (SourceKind.FILES, SourceKind.DELTA, SourceKind.JDBC)
# Formats of sinks that a design can declare.
SINKS = ("delta", "kafka", "jdbc", "http", "json", "csv", "parquet", "orc")
# Payloads that a design does not decode, and what does.
_DECODED = {
    "avro": "Design with json, and then decode the payload in the bronze table with from_confluent or from_avro.",
    "protobuf": "Design with json, and then decode the payload in the bronze table with a Python UDF.",
}
_NOT_OF_CHANGES = {
    OutputKind.DEDUP: "change events of a row are no duplicates of each other",
    OutputKind.WINDOWS: "a window of change events counts changes, not rows",
    OutputKind.SESSIONS: "a session of change events counts changes, not rows",
    OutputKind.JOIN: "a change event is no event of its own: a later one replaces it",
    OutputKind.ENRICH: "a later change event replaces the row that was enriched",
}


def problems_of_combinations(requirements: Requirements) -> Iterator[PipelineError]:
    """Everything that cannot be built, in the order of the file."""
    checks = _Checks(requirements)
    for source in requirements.sources:
        yield from checks.source(source)
    for output in requirements.outputs:
        yield from checks.output(output)


class _Checks:
    def __init__(self, requirements: Requirements) -> None:
        self._requirements = requirements

    def source(self, source: Source) -> Iterator[PipelineError]:
        if source.kind is None:
            return
        facts, wanted = FACTS[source.kind], format_of(source)
        if wanted not in facts.formats:
            reason = f'{facts.title} cannot have the format "{wanted}" in a design'
            fix = f"Write {' or '.join(facts.formats)}."
            if facts.payload and wanted in _DECODED:
                fix = f"{_DECODED[wanted]} Or {fix[0].lower()}{fix[1:]}"
            yield self._wrong(source, "format", f"sources.{source.name}", reason, fix)
        yield from self._reader_options(source)
        readers = [output for output in self._requirements.outputs if self._requirements.root(output) is source]
        for output in readers:
            latency_s = self._requirements.latency_of(output)
            kept_s = source.retention_s or facts.retention_s
            if kept_s is not None and latency_s > kept_s:
                yield self._refused(
                    output,
                    f"it is updated every {spoken(latency_s)}, and {source.name} keeps records for {spoken(kept_s)}",
                    f"Set a latency below {spoken(kept_s)}, or the source's own retention.",
                )

    def output(self, output: Output) -> Iterator[PipelineError]:
        if (problem := self._input_problem(output)) is not None:
            yield problem
            return
        root = self._requirements.root(output)
        if root is None or root.kind is None:
            return
        yield from self._real_time(output, root)
        yield from self._changes(output, root)
        if output.kind is OutputKind.SINK:
            yield from self._sink(output)
        if output.joins:
            yield from self._other_input(output)
        yield from ColumnChecks(self._requirements).output(output, root)

    def _input_problem(self, output: Output) -> PipelineError | None:
        known = [*(s.name for s in self._requirements.sources), *(o.name for o in self._requirements.outputs)]
        if output.reads not in known:
            close = nearest(output.reads, known)
            fix = f'Did you mean "{close}"?' if close else f"Known names are {', '.join(known)}."
            return self._wrong(output, "from", f"outputs.{output.name}", f'nothing is named "{output.reads}"', fix)
        if self._requirements.root(output) is None:
            reason = "it reads itself, through the outputs that it reads"
            return self._wrong(output, "from", f"outputs.{output.name}", reason, "Read a source.")
        before = self._requirements.output(output.reads)
        if before is None:
            return None
        if before.kind is OutputKind.SINK:
            return self._refused(output, f"it reads {before.name}, a sink", f"Read what {before.name} reads.")
        if before.kind in CHANGES:
            reason = f"the rows of {before.name} change, and a stream reads new rows only"
            return self._refused(output, reason, f"Read what {before.name} reads, or use it as `with` of an enrich.")
        if output.kind is OutputKind.BRONZE:
            return self._refused(output, "bronze tables have records as a source has them", "Read a source.")
        return None

    def _real_time(self, output: Output, root: Source) -> Iterator[PipelineError]:
        latency_s = self._requirements.latency_of(output)
        if latency_class(latency_s) is not LatencyClass.REAL_TIME:
            return
        way = "Set a latency of at least 1 second, or deliver from a Kafka source to a Kafka sink."
        if output.kind is not OutputKind.SINK:
            reason = f"a latency of {spoken(latency_s)} needs real-time mode, which writes no tables"
            yield self._refused(output, reason, way)
        elif output.format != KAFKA or root.kind is not SourceKind.KAFKA or output.reads != root.name:
            reason = f"a latency of {spoken(latency_s)} needs real-time mode, which goes from Kafka to Kafka only"
            yield self._refused(output, reason, way)
        elif output.options.get("fallback", "none") != "none":
            reason = "a sink in real-time mode has no fallback, which stores whole batches"
            yield self._refused(output, reason, "Remove the option fallback.")

    def _changes(self, output: Output, root: Source) -> Iterator[PipelineError]:
        if root.kind is not SourceKind.CDC:
            return
        reason = _NOT_OF_CHANGES.get(output.kind)
        if output.kind is OutputKind.CLEAN and root.is_debezium:
            reason = "a Debezium message is an envelope, not a row"
        if reason is not None:
            fix = "Build an output of the kind scd1 or scd2 from the change events."
            yield self._refused(output, f"{root.name} has change events, and {reason}", fix)

    def _sink(self, output: Output) -> Iterator[PipelineError]:
        if output.format not in SINKS:
            close = nearest(str(output.format), SINKS)
            fix = f'Did you mean "{close}"?' if close else f"The formats are {', '.join(SINKS)}."
            reason = f'"{output.format}" is no format of a sink'
            yield self._wrong(output, "format", f"outputs.{output.name}", reason, fix)
            return
        yield from self._options(output, f"outputs.{output.name}", FORMATS[output.format].options, output.options)
        root = self._requirements.root(output)
        nested = [c.name for c in (root.columns if root is not None else ()) if isinstance(c.type, dict)]
        wanted = {name.casefold() for name in output.columns}
        nested = [name for name in nested if not wanted or name.casefold() in wanted]
        if output.format == "csv" and nested:
            reason = f"CSV has no place for the nested column {', '.join(nested)}"
            yield self._refused(output, reason, "Name the other columns in columns, or use the format json.")

    def _other_input(self, output: Output) -> Iterator[PipelineError]:
        name = str(output.joins)
        source, other = self._requirements.source(name), self._requirements.output(name)
        if source is None and other is None:
            known = [*(s.name for s in self._requirements.sources), *(o.name for o in self._requirements.outputs)]
            close = nearest(name, [one for one in known if one != output.name])
            fix = f'Did you mean "{close}"?' if close else "Name a source or an output."
            yield self._wrong(output, "with", f"outputs.{output.name}", f'nothing is named "{name}"', fix)
        elif other is not None and (other.kind is OutputKind.SINK or other.name == output.name):
            yield self._wrong(
                output, "with", f"outputs.{output.name}", f"{name} is no table that it can read", "Name a source."
            )
        elif output.kind is OutputKind.ENRICH and source is not None and source.kind not in TABLES:
            reason = f"{name} is a stream, and an enrichment reads a table"
            yield self._refused(output, reason, f"Build an scd1 output from {name}, and use it as `with`.")
        elif output.kind is OutputKind.JOIN:
            yield from self._joined_stream(output, source, other)

    def _joined_stream(self, output: Output, source: Source | None, other: Output | None) -> Iterator[PipelineError]:
        if other is not None and other.kind in CHANGES:
            reason = f"the rows of {other.name} change, and a join of streams reads new rows only"
            yield self._refused(output, reason, "Use an output of the kind enrich.")
        elif source is not None and source.kind is SourceKind.CDC:
            reason = f"{source.name} has change events, and {_NOT_OF_CHANGES[OutputKind.JOIN]}"
            yield self._refused(output, reason, "Build an scd1 output from them, and use it in an enrich.")
        elif output.joins == output.reads:
            reason = "it joins a stream with itself, and Spark reads the stream twice"
            yield self._refused(output, reason, "Use an output of the kind windows or sessions.")

    def _reader_options(self, source: Source) -> Iterator[PipelineError]:
        label, options = f"sources.{source.name}", options_of(source)
        if source.kind is SourceKind.DELTA:
            try:
                check_delta_options(options)
            except Problems as problems:
                yield from (error.located(location(self._requirements, source, "options")) for error in problems)
            return
        table = FACTS[source.kind].table if source.kind is not None else None
        if table is not None:
            yield from self._options(source, label, table, source.options)

    def _options(
        self, item: Source | Output, label: str, table: OptionTable, given: Mapping[str, str]
    ) -> Iterator[PipelineError]:
        for name in given:
            option = table.option(name)
            passed_on = bool(table.passed_on) and name.casefold().startswith(table.passed_on)
            if option is not None and option.treatment is Treatment.REFUSED:
                yield self._wrong(item, f"options.{name}", label, f"it is refused: {option.about}", f"{option.fix}.")
            elif option is None and not passed_on:
                close = nearest(name, [known.name for known in table.options])
                fix = f'Did you mean "{close}"?' if close else f"{table.page} lists the options."
                yield self._wrong(item, f"options.{name}", label, f'"{table.name}" has no such option', fix)

    def _wrong(self, item: Source | Output, key: str, label: str, reason: str, fix: str) -> PipelineError:
        return wrong(self._requirements, item, key, label, reason, fix)

    def _refused(self, output: Output, reason: str, instead: str) -> PipelineError:
        return refused(self._requirements, output, reason, instead)
