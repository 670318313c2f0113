"""The verbs on quarantined rows: quarantine list, show and replay."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Annotated

import typer

from headrace.cli.inspect import show_rows
from headrace.cli.invocation import invocation_of
from headrace.cli.live_display import display_for
from headrace.cli.tables import text_table
from headrace.cli.update import finish
from headrace.model.replay_preview import ReplayPreview
from headrace.plan.backfills import ReplayRequest

app = typer.Typer(help="List, show and replay quarantined rows.", no_args_is_help=False, add_completion=False)


_FROM_SOURCE = "Read the source records again and run the current code on them."
_ABANDON = "Give up an interrupted replay. A sink may already have its rows."


@app.command("list")
def list_quarantines(context: typer.Context) -> None:
    """Count quarantined rows by dataset and reason."""
    invocation = invocation_of(context)
    found = invocation.open().quarantine_list()
    value = [{"dataset": dataset, "rows": rows, "rules": dict(rules)} for dataset, rows, rules in found]
    # A row that violates two rules counts for both.
    lines = [
        (dataset, rows, ", ".join(f"{rule} ({count})" for rule, count in rules.items()))
        for dataset, rows, rules in found
    ]
    text = "no quarantined rows"
    if lines:
        text = text_table(("dataset", "rows", "reasons"), lines, width=invocation.width)
    invocation.result(text, value)


@app.command("show")
def show_quarantine(
    context: typer.Context,
    name: Annotated[str, typer.Argument(metavar="NAME", help="A dataset of the pipeline.")],
    rows: Annotated[int, typer.Option("--rows", min=1, help="The maximum number of rows.")] = 20,
) -> None:
    """Show quarantined rows of one dataset, and why."""
    invocation = invocation_of(context)
    show_rows(invocation, invocation.open().quarantine_show(name, rows))


@app.command("replay")
def replay_quarantine(
    context: typer.Context,
    name: Annotated[str, typer.Argument(metavar="NAME", help="A dataset of the pipeline.")],
    rules: Annotated[
        list[str] | None,
        typer.Option("--rule", metavar="RULE", help="Only rows that violated this expectation. Can be repeated."),
    ] = None,
    changes: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="COLUMN=EXPR", help="Set a column to a new value first. Can be repeated."),
    ] = None,
    abandon: Annotated[bool, typer.Option("--abandon", help=_ABANDON)] = False,  # noqa: FBT002 - an option of the command line
    from_source: Annotated[bool, typer.Option("--from-source", help=_FROM_SOURCE)] = False,  # noqa: FBT002 - an option of the command line
    release: Annotated[bool, typer.Option("--release", help="Accept rows that still violate expectations.")] = False,  # noqa: FBT002 - an option of the command line
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Count the rows that would pass. Write nothing.")] = False,  # noqa: FBT002 - an option of the command line
) -> None:
    """Check quarantined rows again and write those that pass.

    Uses the current expectations. Each row is written to its table or sink once.
    """
    invocation = invocation_of(context)
    display = display_for(invocation, time.monotonic)
    project = invocation.open()
    chosen = tuple(rules or ())
    wanted = ReplayRequest(name, chosen, tuple(changes or ()), not release, abandon=abandon, from_source=from_source)
    if dry_run:
        found = project.changes.preview_replay(wanted)
        invocation.result("\n\n".join(_previewed(found, invocation.width)), found.to_json())
        return
    with display.shown():
        outcome = project.replay(wanted, on_event=display.on_event)
    finish(outcome, invocation)


def _previewed(found: ReplayPreview, width: int | None) -> Iterator[str]:
    yield f"{found.passing} of {found.rows} rows would pass"
    failing = [(one.name, one.failed) for one in found.counts.expectations if one.failed]
    if failing:
        yield text_table(("expectation", "rows that violate it"), failing, width=width)
    yield "nothing was written"
