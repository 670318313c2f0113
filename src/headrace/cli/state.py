"""The verbs on the state of flows: state show."""

from __future__ import annotations

from typing import Annotated

import typer

from headrace.cli.invocation import invocation_of
from headrace.cli.tables import rows_table
from headrace.model.state_rows import DEFAULT_ROWS, Side, StateRequest

app = typer.Typer(help="Show the state that flows keep.", no_args_is_help=False, add_completion=False)

_WIDEST_CELL = 40
_KEY = "Only rows whose key has this value. Can be repeated."


@app.callback()
def _state() -> None:
    """Keep the name of the only verb in the command."""


@app.command("show")
def show_state(
    context: typer.Context,
    name: Annotated[str, typer.Argument(metavar="FLOW", help="A flow, or the dataset that it writes to.")],
    operator: Annotated[int | None, typer.Option("--operator", metavar="N", help="The number of the operator.")] = None,
    rows: Annotated[int, typer.Option("--rows", metavar="N", min=1, help="The maximum number of rows.")] = DEFAULT_ROWS,
    keys: Annotated[list[str] | None, typer.Option("--key", metavar="COLUMN=VALUE", help=_KEY)] = None,
    side: Annotated[
        Side | None, typer.Option("--side", help="The side of a stream-stream join (default: left).")
    ] = None,
    variable: Annotated[
        str | None, typer.Option("--variable", metavar="NAME", help="The state variable of a transformWithState.")
    ] = None,
    metadata: Annotated[bool, typer.Option("--metadata", help="Show operators and stores instead of rows.")] = False,  # noqa: FBT002 - an option of the command line
) -> None:
    """Show the state of a flow after its newest completed batch.

    Changes nothing. An update may run meanwhile.
    """
    invocation = invocation_of(context)
    request = StateRequest(name, operator, rows, tuple(keys or ()), side, variable, metadata)
    project = invocation.open()
    found = project.checkpoints().state(request, project.session)
    lines = [f"{found.flow}: {found.title}, after batch {found.batch}"]
    lines.append(rows_table(found.rows, width=invocation.width, widest=_WIDEST_CELL if invocation.width else None))
    if found.has_more:
        lines.append(f"there are more rows: --rows {2 * rows}")
    invocation.result_redacted("\n".join(lines), found.to_json())
