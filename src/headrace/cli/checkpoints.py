"""The verbs on checkpoints: list, verify and repair. They start no JVM."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any

import typer

from headrace.cli.failures import DONE, FAILED
from headrace.cli.invocation import invocation_of
from headrace.cli.printable import printable
from headrace.cli.tables import text_table
from headrace.storage.health import FlowHealth, batch_or_none, health_label

app = typer.Typer(help="List, verify and repair checkpoints.", no_args_is_help=False, add_completion=False)

_COLUMNS = ("flow", "dataset", "epoch", "planned", "done", "in table", "state")


@app.command("list")
def list_checkpoints(context: typer.Context) -> None:
    """List the flows with their epoch, newest batches and state."""
    invocation = invocation_of(context)
    flows = invocation.open().checkpoints()
    text = text_table(_COLUMNS, map(_row, flows), width=invocation.width) if flows else "no flow has run yet"
    invocation.result(text, [_value(flow) for flow in flows])


@app.command("verify")
def verify_checkpoints(context: typer.Context) -> None:
    """Check that checkpoints, tables and the event log agree.

    Also checks the flow records. Exits with 1 if it finds a problem.
    """
    invocation = invocation_of(context)
    flows = invocation.open().checkpoints()
    problems = [flow.problem for flow in flows if flow.problem is not None]
    count = f"{len(flows)} flow{'' if len(flows) == 1 else 's'}"
    texts = [*(printable(problem.render(), keep="\n") for problem in problems)]
    texts.append(f"{len(problems)} of {count} cannot continue" if problems else f"{count} checked, no findings")
    invocation.result("\n\n".join(texts), [_value(flow) for flow in flows])
    raise typer.Exit(FAILED if problems else DONE)


@app.command("repair")
def repair_checkpoint(
    context: typer.Context,
    name: Annotated[str, typer.Argument(metavar="FLOW", help="A flow, or the dataset that it writes to.")],
) -> None:
    """Move away damaged files that the flow does not need. The next update runs the batch again."""
    invocation = invocation_of(context)
    moved = [str(file) for file in invocation.open().repair(name)]
    text = "\n".join(f"moved to {file}" for file in moved) or "nothing to repair"
    invocation.result(printable(text, keep="\n"), {"moved": moved})


def _row(flow: FlowHealth) -> Sequence[Any]:
    value = _value(flow)
    return [value[name] for name in ("flow", "dataset", "epoch", "planned", "done", "committed", "state")]


def _value(flow: FlowHealth) -> dict[str, Any]:
    batches = flow.batches
    return {
        "flow": flow.stored.name,
        "dataset": str(flow.stored.dataset),
        "epoch": batches.epoch,
        "planned": batch_or_none(batches.planned),
        "done": batch_or_none(batches.done),
        "committed": batch_or_none(batches.committed)
        if batches.committed is not None and flow.has_numbered_batches
        else None,
        "state": health_label(flow),
        "checkpoint": str(flow.stores.progress_path),
        "problem": None if flow.problem is None else flow.problem.to_json(),
    }
