"""Code of the tables above bronze, and of sinks."""

from __future__ import annotations

from collections.abc import Callable

from headrace.assistant.design.blueprint import (
    Blueprint,
    Dataset,
    DatasetKind,
    added_columns,
    aggregates_of,
    event_time_read,
)
from headrace.assistant.design.durations import interval, spoken
from headrace.assistant.design.files.decorators import expectation_lines, table_arguments, table_decorator
from headrace.assistant.design.files.python_text import call, chained, literal
from headrace.assistant.design.requirements import Output, Source


class TableCode:
    """Renders the definitions of one design.

    Args:
        blueprint: the datasets.
        delay_s: the delay of watermarks, in seconds.
    """

    def __init__(self, blueprint: Blueprint, delay_s: float) -> None:
        self._blueprint = blueprint
        self._delay = interval(delay_s) if delay_s else ""
        self._renderers: dict[DatasetKind, Callable[[Dataset, Output], str]] = {
            DatasetKind.CLEAN: self._clean,
            DatasetKind.DEDUP: self._dedup,
            DatasetKind.ENRICH: self._enrich,
            DatasetKind.WINDOWS: self._windows,
            DatasetKind.SESSIONS: self._sessions,
            DatasetKind.JOIN: self._join,
            DatasetKind.SCD1: self._changes,
            DatasetKind.SCD2: self._changes,
        }

    def code(self, dataset: Dataset) -> str:
        """The definition of a table above bronze."""
        if dataset.output is None:
            raise ValueError(f"{dataset.name} is no output")
        return self._renderers[dataset.kind](dataset, dataset.output)

    def _table(self, dataset: Dataset, comment: str, body: list[str], expectations: list[str] | None = None) -> str:
        text = dataset.output.comment if dataset.output and dataset.output.comment else comment
        head = [table_decorator(dataset, self._blueprint, text), *(expectations or [])]
        return "\n".join([*head, f"def {dataset.name}() -> DataFrame:", *body])

    def _read(self, dataset: Dataset, position: int = 0) -> str:
        reader = "spark.readStream" if dataset.is_stream else "spark.read"
        return f'{reader}.table("{dataset.reads[position]}")'

    def _input(self, dataset: Dataset, position: int = 0) -> Dataset:
        return self._blueprint.dataset(dataset.reads[position])

    def _rows(self, dataset: Dataset, position: int = 0) -> list[str]:
        """An input with the columns that a table takes from it."""
        names = [literal(column.name) for column in self._input(dataset, position).columns]
        return [self._read(dataset, position), call(".select", names)]

    def _clean(self, dataset: Dataset, output: Output) -> str:
        body = [
            chained("return ", [self._read(dataset), call(".select", [literal(c.name) for c in dataset.columns])], 1)
        ]
        rules = expectation_lines(output.rules, self._blueprint.requirements.on_error)
        return self._table(dataset, f"Rows of {dataset.reads[0]} that can be true", body, rules)

    def _dedup(self, dataset: Dataset, _output: Output) -> str:
        arguments = ["rows", literal(list(dataset.keys))]
        if dataset.is_stream:
            at = event_time_read(dataset, self._input(dataset))
            arguments += [f"at={literal(at)}", f"within={literal(self._delay)}"]
        body = [chained("rows = ", self._rows(dataset), 1), call("deduplicate", arguments, 1, before="return ")]
        return self._table(dataset, f"Each event of {dataset.reads[0]} once", body)

    def _windows(self, dataset: Dataset, output: Output) -> str:
        size, slide = spoken(output.size_s or 0), output.slide_s
        arguments = [f'F.expr({literal(text)}).alias("{name}")' for name, text in aggregates_of(output).items()]
        if slide and slide != output.size_s:
            arguments.append(f"slide={literal(interval(slide))}")
        body = self._pattern("windowed", dataset, interval(output.size_s or 0), arguments)
        return self._table(dataset, f"Windows of {size}, written when no more events are expected", body)

    def _sessions(self, dataset: Dataset, output: Output) -> str:
        aggregates = [f'F.expr({literal(text)}).alias("{name}")' for name, text in aggregates_of(output).items()]
        arguments = [f"aggregates=[{', '.join(aggregates)}]"] if aggregates else []
        body = self._pattern("sessionize", dataset, interval(output.gap_s or 0), arguments)
        gap = spoken(output.gap_s or 0)
        return self._table(dataset, f"Sessions, which end after {gap} without an event", body)

    def _pattern(self, function: str, dataset: Dataset, length: str, arguments: list[str]) -> list[str]:
        """A call of windows or sessions; a stream waits for late events."""
        first = self._input(dataset)
        at = event_time_read(dataset, first)
        given = ["events", literal(list(dataset.keys)), literal(at), literal(length), *arguments]
        if dataset.is_stream:
            given.append(f"delay={literal(self._delay)}")
        return [f"    events = {self._read(dataset)}", call(function, given, 1, before="return ")]

    def _enrich(self, dataset: Dataset, output: Output) -> str:
        table = self._input(dataset, 1)
        added = added_columns(output, self._input(dataset), table)
        columns = [literal(name) for name in dataset.keys]
        columns += [_renamed(column.name, new) for new, column in added.items()]
        links = [f'spark.read.table("{table.name}")']
        if table.kind is DatasetKind.SCD2:
            links.append('.where("__END_AT IS NULL")')
        links.append(call(".select", columns))
        body = [
            chained("rows = ", self._rows(dataset), 1),
            "    # The newest rows of the table, in each batch.",
            chained("known = ", links, 1),
            f'    return rows.join(F.broadcast(known), {literal(list(dataset.keys))}, "left")',
        ]
        return self._table(dataset, f"Rows of {dataset.reads[0]} with columns of {table.name}", body)

    def _join(self, dataset: Dataset, output: Output) -> str:
        first, second = self._input(dataset), self._input(dataset, 1)
        left_at, right_at = event_time_read(dataset, first), second.event_time or ""
        added = added_columns(output, first, second)
        key_names = {name: f"{second.source.name}_{name}" for name in dataset.keys}
        time_name = next((new for new, column in added.items() if column.name == right_at), right_at)
        taken = [*(_renamed(name, new) for name, new in key_names.items())]
        taken += [_renamed(column.name, new) for new, column in added.items()]
        interval = f"INTERVAL {spoken(output.within_s or 0).upper()}"
        matches = [f'(rows["{name}"] == others["{new}"])' for name, new in key_names.items()]
        bound = f'others["{time_name}"].between(rows["{left_at}"], rows["{left_at}"] + F.expr("{interval}"))'
        body = [
            chained("rows = ", [*self._rows(dataset), *self._watermark(dataset, left_at)], 1),
            chained(
                "others = ", [self._read(dataset, 1), call(".select", taken), *self._watermark(dataset, time_name)], 1
            ),
            "    belongs = (",
            *(f"        {'& ' if number else ''}{text}" for number, text in enumerate([*matches, bound])),
            "    )",
            f'    joined = rows.join(others, belongs, "{_JOINS[output.how]}")',
            call("joined.drop", [literal(new) for new in key_names.values()], 1, before="return "),
        ]
        comment = f"Rows of {first.name} with those of {second.name} that follow within {spoken(output.within_s or 0)}"
        return self._table(dataset, comment, body)

    def _watermark(self, dataset: Dataset, at: str) -> list[str]:
        return [f'.withWatermark("{at}", "{self._delay}")'] if dataset.is_stream else []

    def _changes(self, dataset: Dataset, output: Output) -> str:
        what = "The newest row of each key" if dataset.kind is DatasetKind.SCD1 else "All versions of each row"
        comment = output.comment or what
        source = dataset.source
        order = "_debezium.sequence" if source.is_debezium else output.sequence_by or source.event_time or ""
        columns = [c.name for c in dataset.columns if not c.name.startswith("__")]
        arguments = [
            f"target={literal(dataset.name)}",
            f"source={literal(dataset.reads[0])}",
            f"keys={literal(list(dataset.keys))}",
            f"sequence_by={literal(order)}",
            *([f"apply_as_deletes={literal(output.deletes)}"] if output.deletes else []),
            f"column_list={literal(columns)}",
            f"stored_as_scd_type={1 if dataset.kind is DatasetKind.SCD1 else 2}",
        ]
        table = call(
            "dp.create_streaming_table",
            [literal(dataset.name), *table_arguments(dataset, self._blueprint, comment, with_conf=False)],
        )
        return f"{table}\n{call('dp.create_auto_cdc_flow', arguments)}"


_JOINS = {"inner": "inner", "left": "left_outer"}


def changes_view(dataset: Dataset) -> str:
    """The view of change events without their envelopes."""
    source = dataset.source
    units = [f'timestamps="{TIMESTAMP_UNIT}"'] if any(column.is_time for column in source.columns) else []
    if any(str(column.type).startswith("decimal") for column in source.columns):
        units.append(f'decimals="{DECIMAL_FORM}"')
    arguments = [f'spark.readStream.table("{dataset.reads[0]}")', source.name.upper(), *units]
    return "\n".join(
        [
            '@dp.temporary_view(comment="Change events without their envelopes")',
            f"def {dataset.name}() -> DataFrame:",
            call("dp.debezium", arguments, 1, before="return "),
        ]
    )


# The defaults of Debezium's connectors.
TIMESTAMP_UNIT, DECIMAL_FORM = "micros", "bytes"


def changes_constant(source: Source) -> str:
    """The columns of a table whose changes are read, as a constant of the module."""
    columns = ",\n".join(f"    {column.ddl}" for column in source.columns)
    return f'{source.name.upper()} = """\n{columns}\n"""'


def _renamed(name: str, new: str) -> str:
    return literal(name) if name == new else f'F.col("{name}").alias("{new}")'
