"""The verbs on checkpoints: list, show, verify, repair and clean.

They start no JVM, except to find out what left the code.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from typing import Annotated, Any

import typer

from headrace.cli.arguments import names_in
from headrace.cli.failures import DONE, FAILED
from headrace.cli.invocation import invocation_of
from headrace.cli.printable import printable
from headrace.cli.tables import text_table
from headrace.errors import PipelineError
from headrace.graph.select import Selection
from headrace.model.sizes import size_text
from headrace.model.triggers import InvalidInterval, parse_interval_s
from headrace.project.clean import Cleaned, CleanRequest
from headrace.project.inspection.flow_checkpoint import describe, time_text
from headrace.storage.health import FlowHealth, batch_or_none, health_label

app = typer.Typer(help="List, show, verify, repair and clean checkpoints.", no_args_is_help=False, add_completion=False)

_COLUMNS = ("flow", "dataset", "epoch", "planned", "done", "in table", "state")
_FLOW = "A flow, or the dataset that it writes to."
_INACTIVE = "Remove all that the storage has of a dataset, flow or view that left the code. Can be repeated."
_ACCEPT = "With --inactive: also delete rows of its table, and rows that were not delivered."
DEFAULT_AGE = "30 days"


@app.command("list")
def list_checkpoints(context: typer.Context) -> None:
    """List the flows with their epoch, newest batches and state."""
    invocation = invocation_of(context)
    flows = invocation.open().checkpoints().health()
    text = text_table(_COLUMNS, map(_row, flows), width=invocation.width) if flows else "no flow has run yet"
    invocation.result(text, [_value(flow) for flow in flows])


@app.command("show")
def show_checkpoint(context: typer.Context, name: Annotated[str, typer.Argument(metavar="FLOW", help=_FLOW)]) -> None:
    """Show batches, positions, state and epochs of a flow.

    If the flow cannot continue, also shows the commands that help.
    """
    invocation = invocation_of(context)
    found = invocation.open().checkpoints().show(name)
    invocation.result_redacted(printable(describe(found), keep="\n"), found.to_json())


@app.command("verify")
def verify_checkpoints(context: typer.Context) -> None:
    """Check that checkpoints, tables and the event log agree.

    Also checks the flow records. Exits with 1 if it finds a problem.
    """
    invocation = invocation_of(context)
    flows = invocation.open().checkpoints().health()
    problems = [flow.problem for flow in flows if flow.problem is not None]
    count = f"{len(flows)} flow{'' if len(flows) == 1 else 's'}"
    texts = [*(printable(problem.render(), keep="\n") for problem in problems)]
    texts.append(f"{len(problems)} of {count} cannot continue" if problems else f"{count} checked, no findings")
    invocation.result("\n\n".join(texts), [_value(flow) for flow in flows])
    raise typer.Exit(FAILED if problems else DONE)


@app.command("repair")
def repair_checkpoint(context: typer.Context, name: Annotated[str, typer.Argument(metavar="FLOW", help=_FLOW)]) -> None:
    """Move away damaged files that the flow does not need. The next update runs the batch again."""
    invocation = invocation_of(context)
    moved = [str(file) for file in invocation.open().checkpoints().repair(name)]
    text = "\n".join(f"moved to {file}" for file in moved) or "nothing to repair"
    invocation.result(printable(text, keep="\n"), {"moved": moved})


@app.command("clean")
def clean_checkpoints(
    context: typer.Context,
    names: Annotated[
        list[str] | None, typer.Argument(metavar="[FLOW]...", help="Flows or datasets (default: all).")
    ] = None,
    older_than: Annotated[
        str, typer.Option("--older-than", metavar="AGE", help="Keep what was used later, such as 7 days.")
    ] = DEFAULT_AGE,
    inactive: Annotated[list[str] | None, typer.Option("--inactive", metavar="NAME", help=_INACTIVE)] = None,
    accept: Annotated[bool, typer.Option("--accept-data-loss", help=_ACCEPT)] = False,  # noqa: FBT002 - an option of the command line
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Remove nothing, and show what would be.")] = False,  # noqa: FBT002 - the same
) -> None:
    """Remove checkpoints of old epochs that no flow needs.

    The current epoch and the one before it stay. The positions of a removed epoch are kept in a small file.

    Also removes old damaged files that `repair` moved away.
    """
    invocation = invocation_of(context)
    try:
        age_s = parse_interval_s(older_than)
    except InvalidInterval as error:
        raise PipelineError("CLI.USAGE", reason=f'--older-than "{older_than}": {error}') from error
    request = CleanRequest(
        names=names_in(names or ()),
        inactive=names_in(inactive or ()),
        unused_since=time.time() - age_s,
        accept_data_loss=accept,
        dry_run=dry_run,
    )
    project = invocation.open()
    found = project.checkpoints().clean(request, lambda: project.plan(Selection()))
    invocation.result(printable("\n".join(_clean_lines(found, invocation.width)), keep="\n"), found.to_json())


def _clean_lines(found: Cleaned, width: int | None) -> Iterator[str]:
    if found.removed:
        columns = ("removes" if found.dry_run else "removed", "of", "files", "size", "last used")
        rows = [
            (
                part.label,
                part.flow or part.dataset,
                part.size.files,
                size_text(part.size.size_bytes),
                (time_text(part.last_used_at) or "")[:10],
            )
            for part in found.removed
        ]
        yield text_table(columns, rows, width=width)
    yield from (f"kept: {kept.part} of {kept.flow}: {kept.reason}" for kept in found.kept)
    if found.leftovers.files:
        yield f"leftovers of an interrupted removal: {found.leftovers.files} files"
    size = found.size
    if not size.files and not found.removed:
        yield "nothing to remove"
        return
    verb = "would remove" if found.dry_run else "removed"
    yield f"{verb} {size.files} file{'' if size.files == 1 else 's'}, {size_text(size.size_bytes)}"


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
