"""The verbs that inspect a pipeline: graph, sql, preview, files, lateness and explain."""

from __future__ import annotations

import re
import sys
from dataclasses import asdict
from difflib import get_close_matches
from enum import Enum
from importlib import import_module
from typing import Annotated

import typer

from headrace.cli.invocation import Invocation, Output, invocation_of
from headrace.cli.lint import LINTING
from headrace.cli.summary import backlog_lines
from headrace.cli.tables import WIDEST_CELL, rows_table
from headrace.cli.update_options import Cold, Settings, Wait, configuration_of
from headrace.errors import Condition, PipelineError, conditions
from headrace.model.lateness import DEFAULT_DROPPED_SHARE
from headrace.model.rows import Rows
from headrace.model.warning_codes import warning_codes

_STDIN = "-"
_CODE = re.compile(r"[A-Z]+\.[A-Z_]+")
_RULE = re.compile(r"[a-z]+(?:-[a-z]+)+")
_PLACEHOLDER = re.compile(r"\{(\w+)\}")


AsTable = Annotated[
    bool, typer.Option("--as-table", help="With --output json: columns and rows as lists, in one object.")
]


class GraphFormat(str, Enum):
    """How a graph is printed."""

    TEXT = "text"
    MERMAID = "mermaid"
    JSON = "json"


def graph(
    context: typer.Context,
    form: Annotated[GraphFormat | None, typer.Option("--format", help="The output format.")] = None,
    settings: Settings = None,
) -> None:
    """Show the datasets and flows, and what each flow reads."""
    invocation = invocation_of(context)
    if form is GraphFormat.JSON:
        invocation.output = Output.JSON
    elif form is not None and invocation.as_json:
        raise PipelineError("CLI.CONFLICT", first="--output json", second=f"--format {form.value}")
    found = invocation.open(configuration_of(settings)).graph()
    text = found.to_mermaid() if form is GraphFormat.MERMAID else found.describe()
    invocation.result_redacted(text, found.to_json(), folds=form is not GraphFormat.MERMAID)


def sql(
    context: typer.Context,
    query: Annotated[str, typer.Argument(metavar="QUERY", help="One SQL statement; - reads it from standard input.")],
    write: Annotated[bool, typer.Option("--write", help="Allow statements that change data.")] = False,  # noqa: FBT002 - an option of the command line
    private: Annotated[bool, typer.Option("--private", help="Include private tables.")] = False,  # noqa: FBT002 - an option of the command line
    also: Annotated[
        list[str] | None,
        typer.Option(
            "--also", metavar="DIR", help="Another project for system.lakeflow tables, or a folder of several."
        ),
    ] = None,
    limit: Annotated[int | None, typer.Option("--limit", min=0, help="The maximum number of rows.")] = None,
    restricted: Annotated[  # noqa: FBT002 - an option of the command line
        bool,
        typer.Option("--restricted", help="Accept nothing but a query over the pipeline's tables: no files, no Java."),
    ] = False,
    timeout: Annotated[
        float | None, typer.Option("--timeout", min=0.1, metavar="SECONDS", help="Stop the query after so long.")
    ] = None,
    as_table: AsTable = False,  # noqa: FBT002 - the same
    cold: Cold = False,  # noqa: ARG001, FBT002 - an option of the command line, which `cli/warm.py` reads
    wait: Wait = False,  # noqa: ARG001, FBT002 - an option of the command line, which `cli/warm.py` reads
) -> None:
    """Query the pipeline's tables. Allows SELECT, WITH, DESCRIBE, SHOW and EXPLAIN.

    Columns, comparisons with literals, LIMIT and count(*) of one table start no JVM.
    """
    invocation = invocation_of(context)
    if restricted and (write or private):
        raise PipelineError("CLI.CONFLICT", first="--restricted", second="--write" if write else "--private")
    text = sys.stdin.read() if query == _STDIN else query
    rows = invocation.open().sql(
        text, write=write, private=private, also=also or (), limit=limit, restricted=restricted, timeout_s=timeout
    )
    show_rows(invocation, rows, as_table=as_table)


def preview(
    context: typer.Context,
    name: Annotated[str, typer.Argument(metavar="NAME", help="A dataset of the pipeline.")],
    rows: Annotated[int, typer.Option("--rows", min=1, help="The maximum number of rows.")] = 20,
    settings: Settings = None,
    as_table: AsTable = False,  # noqa: FBT002 - an option of the command line
    cold: Cold = False,  # noqa: ARG001, FBT002 - an option of the command line, which `cli/warm.py` reads
    wait: Wait = False,  # noqa: ARG001, FBT002 - an option of the command line, which `cli/warm.py` reads
) -> None:
    """Compute one dataset on real input and show some rows. Writes nothing."""
    invocation = invocation_of(context)
    found = invocation.open(configuration_of(settings)).preview(name, rows)
    show_rows(invocation, found.rows, as_table=as_table)
    for notice in found.notices():
        invocation.say(invocation.redact(notice))


def files(
    context: typer.Context,
    name: Annotated[str, typer.Argument(metavar="NAME", help="A table that Auto Loader loads.")],
) -> None:
    """Show the files that Auto Loader has seen for a table. Shows the state of each file. Starts no JVM."""
    invocation = invocation_of(context)
    project = invocation.open()
    show_rows(invocation, project.files(name))
    for line in backlog_lines(project.files_to_read(name)):
        invocation.say(line)


def lateness(
    context: typer.Context,
    name: Annotated[str, typer.Argument(metavar="NAME", help="A table that flows append to.")],
    column: Annotated[str, typer.Argument(metavar="COLUMN", help="The event time column.")],
    commits: Annotated[int, typer.Option("--commits", min=2, help="How many of the latest commits to check.")] = 1000,
    dropped_share: Annotated[
        float, typer.Option("--share", min=0.0, max=1.0, help="The share of rows that a watermark may drop.")
    ] = DEFAULT_DROPPED_SHARE,
) -> None:
    """Show how late rows arrive and which watermark fits them. Starts no JVM."""
    invocation = invocation_of(context)
    found = invocation.open().lateness(name, column, commits=commits, dropped_share=dropped_share)
    invocation.result_redacted(found.describe(), found.to_json())


def explain(
    context: typer.Context,
    name: Annotated[
        str, typer.Argument(metavar="NAME", help="A dataset, the code of an error or a warning, or a lint rule.")
    ],
    settings: Settings = None,
    cold: Cold = False,  # noqa: ARG001, FBT002 - an option of the command line, which `cli/warm.py` reads
    wait: Wait = False,  # noqa: ARG001, FBT002 - an option of the command line, which `cli/warm.py` reads
) -> None:
    """Explain a dataset, a code or a lint rule. For the code of an error or a warning: its meaning and fix."""
    invocation = invocation_of(context)
    condition = conditions().get(name.upper())
    if condition is not None:
        invocation.result(_condition_text(condition), _condition_json(condition))
        return
    warning = warning_codes().get(name.upper())
    if warning is not None:
        text = f"{warning.code}: a warning of the event log\n  meaning: {warning.meaning}\n  fix: {warning.hint}"
        invocation.result(text, asdict(warning))
        return
    # No dataset has such a name.
    if _RULE.fullmatch(name):
        import_module(LINTING).show_rule(name, invocation)
        return
    codes = [*conditions(), *warning_codes()]
    if _CODE.fullmatch(name) and name.split(".")[0] in {code.split(".")[0] for code in codes}:
        near = get_close_matches(name, codes, n=1, cutoff=0.0)[0]
        raise PipelineError("CLI.UNKNOWN_CODE", code=name, near=near)
    found = invocation.open(configuration_of(settings)).explain(name)
    invocation.result_redacted(found.describe(), found.to_json())


def show_rows(invocation: Invocation, rows: Rows, *, as_table: bool = False) -> None:
    """Print rows as a table (cells are shortened on a terminal only), or as a JSON array; *as_table*, as one object."""
    width = invocation.width
    text = rows_table(rows, widest=None if width is None else WIDEST_CELL, width=width)
    invocation.result(text, rows.to_table_json() if as_table else rows.to_json())


def _condition_text(condition: Condition) -> str:
    parts = _condition_json(condition)
    labels = (("meaning", "meaning"), ("cause", "detail"), ("fix", "hint"))
    lines = [f"{condition.code}: {parts['message']}"]
    lines += [f"  {label}: {' '.join(text.split())}" for label, key in labels if (text := parts[key])]
    return "\n".join(lines)


def _condition_json(condition: Condition) -> dict[str, str | None]:
    def filled(template: str) -> str | None:
        return _PLACEHOLDER.sub(r"<\1>", template).strip() or None

    return {
        "code": condition.code,
        "message": filled(condition.message),
        "meaning": filled(condition.meaning),
        "detail": filled(condition.detail),
        "hint": filled(condition.plain_hint),
    }
