"""Which columns an output needs, and whether what it reads has them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from headrace.assistant.design.expressions import InvalidExpression, columns_in
from headrace.assistant.design.refusals import refused, wrong
from headrace.assistant.design.requirements import CHANGES, STATEFUL, Output, OutputKind, Requirements, Source
from headrace.errors import PipelineError

# Outputs with the columns of their source, or with some of them.
_KEEPING = (OutputKind.BRONZE, OutputKind.DEDUP, OutputKind.CLEAN)
# Outputs that take the keys of their source if they name none.
_BY_KEYS = (OutputKind.DEDUP, *CHANGES)


class ColumnChecks:
    """Finds the columns that outputs of some requirements lack."""

    def __init__(self, requirements: Requirements) -> None:
        self._requirements = requirements

    def output(self, output: Output, root: Source) -> Iterator[PipelineError]:
        """Expressions must be valid; columns must be those of the input, unless only Spark knows these."""
        listed: dict[str, tuple[str, ...]] = {
            "keys": output.keys,
            "at": (output.at,) if output.at else (),
            "columns": () if output.kind is OutputKind.ENRICH else output.columns,
            "sequence_by": (output.sequence_by,) if output.sequence_by and not root.is_debezium else (),
            "on": output.on,
        }
        texts = {
            **{f"rules.{name}": text for name, text in output.rules.items()},
            **{f"aggregates.{name}": text for name, text in output.aggregates.items()},
            **({"where": output.where} if output.where else {}),
            **({"deletes": output.deletes} if output.deletes else {}),
        }
        for key, text in texts.items():
            try:
                listed[key] = columns_in(text)
            except InvalidExpression as error:
                fix = "Write a SQL expression over the columns."
                yield wrong(self._requirements, output, key, f"outputs.{output.name}", str(error), fix)
        if root.is_debezium and output.kind is OutputKind.SINK:
            columns: tuple[str, ...] = ("key", "value")
        else:
            columns = self._columns_of(output.reads)
        if not columns:
            return
        for key, names in listed.items():
            if missing := _missing(names, columns):
                fix = f"The columns are {', '.join(columns)}."
                reason = f"{output.reads} has no column {', '.join(missing)}"
                yield wrong(self._requirements, output, key, f"outputs.{output.name}", reason, fix)
        yield from self._taken_columns(output, root, columns)

    def _taken_columns(self, output: Output, root: Source, columns: Sequence[str]) -> Iterator[PipelineError]:
        """What an output takes from its source without naming it must have passed the outputs between."""
        taken = () if output.keys or output.kind not in _BY_KEYS or root.is_debezium else root.keys
        is_timed = output.kind in STATEFUL and not output.at
        is_ordered = output.kind in CHANGES and not output.sequence_by and not root.is_debezium
        if (is_timed or is_ordered) and root.event_time is not None:
            taken = (*taken, root.event_time)
        yield from self._left_out(output, output.reads, columns, taken)
        other = self._root_of(str(output.joins)) if output.kind is OutputKind.JOIN else None
        if other is not None:
            time = (other.event_time,) if other.event_time is not None else ()
            others = self._columns_of(str(output.joins))
            yield from self._left_out(output, str(output.joins), others, (*output.on, *time))

    def _left_out(
        self, output: Output, name: str, columns: Sequence[str], taken: Sequence[str]
    ) -> Iterator[PipelineError]:
        missing = _missing(taken, columns)
        if columns and missing:
            listed = ", ".join(dict.fromkeys(missing))
            fix = f"Add {listed} to the columns of {name}, or read what {name} reads."
            yield refused(
                self._requirements, output, f"it needs {listed}, and {name} has only {', '.join(columns)}", fix
            )

    def _root_of(self, name: str) -> Source | None:
        output = self._requirements.output(name)
        return self._requirements.source(name) if output is None else self._requirements.root(output)

    def _columns_of(self, name: str) -> tuple[str, ...]:
        """The columns of a source or an output; none if only Spark knows them."""
        seen: set[str] = set()
        while (output := self._requirements.output(name)) is not None and name not in seen:
            seen.add(name)
            if output.kind is OutputKind.CLEAN and output.columns:
                return output.columns
            if output.kind not in _KEEPING:
                return ()
            name = output.reads
        source = self._requirements.source(name)
        return () if source is None else tuple(column.name for column in source.columns)


def _missing(names: Sequence[str], columns: Sequence[str]) -> list[str]:
    known = {name.casefold() for name in columns}
    return [name for name in names if name.casefold() not in known]
