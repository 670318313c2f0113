"""The verbs on rows that expectations set aside: quarantine list and show."""

from __future__ import annotations

from typing import Annotated

import typer

from headrace.cli.invocation import invocation_of
from headrace.cli.show import show_rows
from headrace.cli.tables import text_table

app = typer.Typer(help="Rows that expectations set aside, and why.", no_args_is_help=False, add_completion=False)


@app.command("list")
def list_quarantines(context: typer.Context) -> None:
    """Show how many rows were set aside, by dataset and by the rule they broke."""
    invocation = invocation_of(context)
    found = invocation.open().quarantine_list()
    value = [{"dataset": dataset, "rows": rows, "rules": dict(rules)} for dataset, rows, rules in found]
    # A row that broke two rules counts for both.
    lines = [
        (dataset, rows, ", ".join(f"{rule} ({count})" for rule, count in rules.items()))
        for dataset, rows, rules in found
    ]
    text = text_table(("dataset", "rows", "broken rules"), lines) if lines else "nothing is quarantined"
    invocation.result(text, value)


@app.command("show")
def show_quarantine(
    context: typer.Context,
    name: Annotated[str, typer.Argument(metavar="NAME", help="A dataset of the pipeline.")],
    rows: Annotated[int, typer.Option("--rows", min=1, help="How many rows at most.")] = 20,
) -> None:
    """Show rows of one dataset that were set aside."""
    invocation = invocation_of(context)
    show_rows(invocation, invocation.open().quarantine_show(name, rows))
