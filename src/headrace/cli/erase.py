"""``headrace erase``: one person's rows out of everything that the storage keeps."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Annotated

import typer

from headrace.cli.arguments import names_in
from headrace.cli.failures import DONE
from headrace.cli.invocation import invocation_of
from headrace.cli.printable import printable
from headrace.cli.tables import text_table
from headrace.errors import PipelineError
from headrace.model.erasure import (
    Criterion,
    Erasure,
    ErasureRequest,
    InvalidCriterion,
    PlaceKind,
    parse_criterion,
)

_STDIN = "-"
_COLUMNS = ("place", "name", "rows", "files", "old files")
_OUTSIDE = """\
Not searched, because Headrace cannot change it:
  sources, which a full refresh reads again: files, topics, databases
  sinks, copies and backups outside of the storage; tables outside of it
  columns with other names, and parts of longer values
  Spark's state (listed above, if there is any)"""


def erase(
    context: typer.Context,
    where: Annotated[
        list[str] | None,
        typer.Option("--where", metavar="COLUMN=VALUE", help="Rows with this value. If repeated, all must hold."),
    ] = None,
    where_file: Annotated[
        str | None,
        typer.Option("--where-file", metavar="FILE", help="A file with a COLUMN=VALUE a line; - for standard input."),
    ] = None,
    dataset: Annotated[
        list[str] | None, typer.Option("--dataset", metavar="NAMES", help="Search only these datasets.")
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show what would be erased. Write nothing.")] = False,  # noqa: FBT002 - an option of the command line
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask.")] = False,  # noqa: FBT002 - the same
    keep_files: Annotated[  # noqa: FBT002 - the same
        bool, typer.Option("--keep-files", help="Keep the files of old versions, which still show the rows.")
    ] = False,
) -> int:
    """Erase the rows of a person from the storage.

    Searches tables, change data capture, quarantine, dead letters, spilled batches and the event log. Streams that
    read the tables continue. No update may run meanwhile.
    """
    invocation = invocation_of(context)
    request = ErasureRequest(tuple(_criteria(where or (), where_file)), names_in(dataset or ()), keep_files)
    can_ask = sys.stdin.isatty() and where_file != _STDIN and not invocation.as_json
    if not (dry_run or yes or can_ask):
        raise PipelineError("ERASE.NOT_CONFIRMED")
    erasures = invocation.open().erasures
    if not yes or dry_run:
        found = erasures.find(request)
        if dry_run:
            invocation.result(printable(_text(found, invocation.width), keep="\n"), found.to_json())
            return DONE
        invocation.say(printable(_text(found, invocation.width), keep="\n"))
        typer.confirm("Erase these rows? This cannot be undone.", abort=True, err=True)
    erased = erasures.erase(request)
    invocation.result(printable(_text(erased, invocation.width), keep="\n"), erased.to_json())
    return DONE


def _criteria(where: Iterable[str], file: str | None) -> Iterator[Criterion]:
    lines = [*where, *(_lines(file) if file is not None else ())]
    if not lines:
        raise PipelineError("ERASE.NO_CRITERION")
    for line in lines:
        try:
            yield parse_criterion(line)
        except InvalidCriterion:
            raise PipelineError("ERASE.CRITERION") from None


def _lines(file: str) -> list[str]:
    try:
        text = sys.stdin.read() if file == _STDIN else Path(file).read_text(encoding="utf-8")
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or "it is not UTF-8"
        raise PipelineError("ERASE.WHERE_FILE", file=file, reason=reason) from None
    return [line for line in text.splitlines() if line.strip()]


def _text(erasure: Erasure, width: int | None) -> str:
    columns = " and ".join(erasure.columns)
    head = f"erased {erasure.rows} rows by {columns}" if erasure.is_done else f"found {erasure.rows} rows by {columns}"
    shown = [
        place
        for place in erasure.places
        if place.rows or place.old_files or place.cleaned or place.kind in (PlaceKind.TABLE, PlaceKind.QUARANTINE)
    ]
    rows = [(place.kind.value, place.name, place.rows, place.files, place.old_files) for place in shown]
    parts = [head, text_table(_COLUMNS, rows, width=width), *_notes(erasure), _OUTSIDE]
    if not erasure.is_done:
        parts.append("nothing was written")
    return "\n\n".join(parts)


def _notes(erasure: Erasure) -> Iterator[str]:
    if erasure.blocked:
        yield _listed("Not possible now, because of unread or unfinished input (headrace run):", erasure.blocked)
    if erasure.not_searched:
        yield _listed("Not searched:", (f"{name}: {reason}" for name, reason in erasure.not_searched))
    if erasure.cleaned:
        yield f"Other dead letters with a value in their error, from which it is removed: {erasure.cleaned}"
    if erasure.recomputed:
        yield _listed("Computed again by the next `headrace run`:", erasure.recomputed)
    if erasure.state:
        head = "State that may hold the values (see the guide on how to rebuild it):"
        yield _listed(head, (f"flow {name}" for name in erasure.state))
    yield from _old_files(erasure)
    if erasure.mentions:
        yield _listed("Files that still contain a value; change or delete them yourself:", erasure.mentions)


def _old_files(erasure: Erasure) -> Iterator[str]:
    if erasure.is_done and erasure.keeps_files:
        yield "Old files still show the rows: run this again without --keep-files."
    elif erasure.is_done:
        yield "Files of old versions are deleted: queries over them fail from now on."
    kept = erasure.old_files
    if kept.reasons:
        yield _listed("Old files kept:", (f"{name}: {reason}" for name, reason in kept.reasons))
    if kept.unnamed:
        yield f"Files that may belong to a running write: {kept.unnamed}. Run this again after {kept.unnamed_until}."


def _listed(head: str, items: Iterable[str]) -> str:
    return "\n".join((head, *(f"  {item}" for item in items)))
