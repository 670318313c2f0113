"""``headrace diff``: two versions of a table, compared."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import takewhile
from typing import Annotated, Any

import typer

from headrace.cli.failures import DONE, FAILED
from headrace.cli.invocation import invocation_of
from headrace.cli.printable import printable
from headrace.cli.tables import cell_text, text_table
from headrace.cli.terminal import folded
from headrace.model.sizes import size_text
from headrace.model.table_diff import (
    DEFAULT_EXAMPLES,
    DiffRequest,
    DiffSide,
    Example,
    ExampleKind,
    KeyOrigin,
    TableDiff,
)

# Longer values are cut to what differs, with some of what is equal around it.
_LONG, _CONTEXT = 40, 12
_VERSION = "A version; twice for both (default: the newest, and the one before its last change of rows)."
_KEY = "Columns that identify a row, with commas (default: the keys of AUTO CDC, or none)."


def diff(
    context: typer.Context,
    name: Annotated[str, typer.Argument(metavar="NAME", help="A table of the pipeline.")],
    versions: Annotated[list[int] | None, typer.Option("--version", metavar="N", min=0, help=_VERSION)] = None,
    key: Annotated[list[str] | None, typer.Option("--key", metavar="COLUMNS", help=_KEY)] = None,
    other_project: Annotated[
        str | None, typer.Option("--other-project", metavar="DIR", help="Compare with the table of another project.")
    ] = None,
    other_profile: Annotated[
        str | None, typer.Option("--other-profile", metavar="NAME", help="Compare with the table of another profile.")
    ] = None,
    rows: Annotated[
        int, typer.Option("--rows", metavar="N", min=0, help="The maximum number of example rows.")
    ] = DEFAULT_EXAMPLES,
) -> int:
    """Compare two versions of a table: its schema and its rows.

    Runs no code of a project, and reads only files that the versions do not share. Exits with 1 if they differ.
    """
    invocation = invocation_of(context)
    request = DiffRequest(name, tuple(versions or ()), tuple(key or ()), other_project, other_profile, rows)
    found = invocation.open().diffs.compare(request)
    text = "\n".join(diff_lines(found, invocation.width))
    invocation.result_redacted(text, found.to_json(), folds=False)
    return DONE if found.is_equal else FAILED


def diff_lines(found: TableDiff, width: int | None) -> Iterator[str]:
    """The comparison as text for a terminal of a width, line by line."""
    yield printable(found.name)
    yield from _side_lines(found)
    yield from (folded(printable(line), width) for line in _method(found))
    if found.schema:
        yield "\nschema"
        yield from (printable(f"  {difference.describe()}") for difference in found.schema)
    if found.is_equal:
        yield f"\nequal: the same columns, and the same {_rows(found.rows.unchanged)}"
    else:
        yield "\nrows"
        yield from _count_lines(found)
    if found.columns:
        yield "\ncolumns that differ in changed rows"
        digits = max(len(f"{rows:,}") for rows in found.columns.values())
        yield from (printable(f"  {rows:>{digits},}  {column}") for column, rows in found.columns.items())
    yield from _example_lines(found, width)
    yield "\n" + folded(_reading(found), width)


def _side_lines(found: TableDiff) -> Iterator[str]:
    cells = [
        (mark, side.label, _rows(side.rows), _time(side), side.operation or "")
        for mark, side in (("-", found.first), ("+", found.second))
    ]
    sizes = [max(len(row[column]) for row in cells) for column in range(4)]
    for mark, label, rows, time, operation in cells:
        line = f"  {mark} {label:<{sizes[1]}}  {rows:>{sizes[2]}}  {time:<{sizes[3]}}  {operation}"
        yield printable(line.rstrip())


def _method(found: TableDiff) -> Iterator[str]:
    if found.key:
        origin = " (the keys of AUTO CDC)" if found.key_origin is KeyOrigin.AUTO_CDC else ""
        yield f"rows matched by {', '.join(found.key)}{origin}"
    elif not found.rows.are_equal:
        yield "whole rows compared; --key COLUMN also shows what changed within rows"
    if found.compared_as_text:
        yield f"compared as text, because the types have no common type: {', '.join(found.compared_as_text)}"


def _count_lines(found: TableDiff) -> Iterator[str]:
    rows = found.rows
    counts = [(" ", rows.unchanged, "unchanged")]
    if found.key:
        counts.append(("~", rows.changed, "changed"))
    counts += [
        ("-", rows.only_first, f"only in {found.first.label}"),
        ("+", rows.only_second, f"only in {found.second.label}"),
    ]
    digits = max(len(f"{number:,}") for _, number, _ in counts)
    yield from (printable(f"  {mark} {number:>{digits},}  {what}") for mark, number, what in counts)
    if rows.repeated_keys:
        yield printable(f"    {_repeated(rows.repeated_keys)} rows count as removed and added, not as changed")


def _example_lines(found: TableDiff, width: int | None) -> Iterator[str]:
    by_kind = {kind: [one for one in found.examples if one.kind is kind] for kind in ExampleKind}
    changed = by_kind[ExampleKind.CHANGED]
    labels = (found.first.label, found.second.label)
    if changed:
        yield f"\n~ changed{_shown(changed, found.rows.changed)}"
        rows = [row for example in changed for row in _changed_rows(example)]
        yield text_table((*map(printable, found.key), "column", *labels), rows, width=width)
    for kind, mark, side in ((ExampleKind.ONLY_FIRST, "-", 0), (ExampleKind.ONLY_SECOND, "+", 1)):
        total = (found.rows.only_first, found.rows.only_second)[side]
        if by_kind[kind]:
            yield printable(f"\n{mark} only in {labels[side]}{_shown(by_kind[kind], total)}", keep="\n")
            yield _whole_rows(by_kind[kind], side, width)
    repeated = by_kind[ExampleKind.REPEATED_KEY]
    if repeated:
        yield f"\nrepeated keys{_shown(repeated, found.rows.repeated_keys)}"
        keys = [[*map(_text, example.key.values()), *map(str, example.rows)] for example in repeated]
        yield text_table((*found.key, *(f"rows in {label}" for label in labels)), keys, width=width)


def _changed_rows(example: Example) -> Iterator[list[str]]:
    key = [_text(value) for value in example.key.values()]
    for column in example.second:
        first, second = _difference(_text(example.first[column]), _text(example.second[column]))
        yield [*key, column, first, second]
        key = [""] * len(key)


def _whole_rows(examples: Sequence[Example], side: int, width: int | None) -> str:
    rows = [{**example.key, **(example.first, example.second)[side]} for example in examples]
    columns = list(rows[0])
    repeats = any(example.rows[side] > 1 for example in examples)
    cells = [
        [*([example.rows[side]] if repeats else []), *(_value(row[column]) for column in columns)]
        for example, row in zip(examples, rows, strict=True)
    ]
    return text_table([*(["times"] if repeats else []), *columns], cells, width=width)


def _difference(first: str, second: str) -> tuple[str, str]:
    """Two texts, without most of what they begin and end with alike, if they are long."""
    if max(len(first), len(second)) <= _LONG:
        return first, second
    head = max(_alike(first, second) - _CONTEXT, 0)
    tail = max(_alike(first[head:][::-1], second[head:][::-1]) - _CONTEXT, 0)
    return _cut(first, head, tail), _cut(second, head, tail)


def _alike(first: str, second: str) -> int:
    """With how many equal characters two texts begin."""
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(first, second, strict=False)))


def _cut(text: str, head: int, tail: int) -> str:
    return ("…" if head else "") + text[head : len(text) - tail] + ("…" if tail else "")


def _value(value: Any) -> Any:
    return _text(value) if isinstance(value, str) else value


def _text(value: Any) -> str:
    """A value as text; one that could be mistaken for another, such as an empty text, is quoted."""
    text = cell_text(value)
    ambiguous = isinstance(value, str) and (value != value.strip() or value in ("", "null"))
    return f'"{text}"' if ambiguous else text


def _reading(found: TableDiff) -> str:
    parts = [
        f"{side.read_files:,} of {_files(side.files)} ({size_text(side.read_size)} of {size_text(side.size)})"
        for side in (found.first, found.second)
    ]
    shared = found.first.files - found.first.read_files
    others = "file" if shared == 1 else f"{shared:,} files"
    rest = f"; both versions share the other {others}" if shared and found.rows.unchanged else ""
    return f"read {parts[0]} and {parts[1]}{rest}"


def _time(side: DiffSide) -> str:
    return (side.committed_at or "").replace("T", " ").replace("+00:00", " UTC")


def _shown(examples: Sequence[Example], total: int) -> str:
    return f" ({len(examples):,} of {total:,})" if len(examples) < total else ""


def _rows(number: int) -> str:
    return f"{number:,} row{'' if number == 1 else 's'}"


def _files(number: int) -> str:
    return f"{number:,} file{'' if number == 1 else 's'}"


def _repeated(number: int) -> str:
    return "1 key is repeated: its" if number == 1 else f"{number:,} keys are repeated: their"
