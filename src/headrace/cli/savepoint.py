"""The verbs on savepoints: create, list, show, verify, restore and drop. Only a restore starts a JVM."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from headrace.cli.arguments import names_in
from headrace.cli.failures import DONE, FAILED
from headrace.cli.invocation import Invocation, invocation_of
from headrace.cli.printable import printable
from headrace.cli.tables import text_table
from headrace.errors import PipelineError
from headrace.model.sizes import size_text
from headrace.plan.agreement import NONE
from headrace.project.inspection.flow_checkpoint import time_text
from headrace.project.savepoints.create import SavepointRequest
from headrace.project.savepoints.restore_plan import FlowAction, FlowRestore, RestorePlan, TableRestore
from headrace.project.savepoints.savepoints import Restored, RestoreRequest
from headrace.storage.savepoints.manifest import Savepoint

if TYPE_CHECKING:
    from headrace.cli.stored_project import PipelineSavepoints

app = typer.Typer(
    help="Create, list, show, verify, restore and drop savepoints.", no_args_is_help=False, add_completion=False
)

_ID = typer.Argument(metavar="ID", help="The id or the name of a savepoint.")
AcceptLoss = Annotated[bool, typer.Option("--accept-data-loss", help="Also if rows cannot be read again.")]
WithCode = Annotated[
    Path | None, typer.Option("--with-code", metavar="DIR", help="Also write the code of then into a new folder.")
]
_OUTSIDE = """\
A restore does not take back what left the storage:
  rows that sinks have delivered, and alerts that were sent
  what others have read meanwhile: a stream of another pipeline over a restored
  table stops with DELTA_SOURCE_IGNORE_DELETE, and has to start again"""


@app.command("create")
def create(
    context: typer.Context,
    name: Annotated[str, typer.Argument(metavar="[NAME]", help="A name for it.")] = "",
) -> None:
    """Save tables and checkpoints as they are now. No update may run meanwhile."""
    invocation = invocation_of(context)
    made = invocation.open().savepoints.create(SavepointRequest(name))
    tables, flows = _count(len(made.tables), "table"), _count(len(made.flows), "flow")
    text = f"savepoint {made.label} made: {tables}, {flows}, {size_text(made.size_bytes)}"
    if all(table.pinned for table in made.tables):
        text += "\nIt has links to the files, and no copies."
    invocation.result(printable(text, keep="\n"), made.to_json())


@app.command("list")
def list_savepoints(context: typer.Context) -> None:
    """List the savepoints, the oldest first."""
    invocation = invocation_of(context)
    savepoints = invocation.open().savepoints
    known, problems = savepoints.all(), savepoints.problems()
    parts = []
    if known:
        columns = ("id", "name", "kind", "made at", "tables", "flows", "size")
        parts.append(text_table(columns, map(_row, known), width=invocation.width))
    parts += (printable(problem.render(), keep="\n") for problem in problems)
    invocation.result("\n\n".join(parts) or "no savepoint yet", [one.to_json() for one in known])


@app.command("show")
def show(context: typer.Context, name: Annotated[str, _ID]) -> None:
    """Show the tables and flows of a savepoint."""
    invocation = invocation_of(context)
    found = invocation.open().savepoints.find(name)
    invocation.result_redacted(printable("\n".join(_shown(found, invocation.width)), keep="\n"), found.to_json())


@app.command("verify")
def verify(context: typer.Context, name: Annotated[str, _ID]) -> None:
    """Check that a savepoint can be restored completely. Exits with 1 if it finds a problem."""
    invocation = invocation_of(context)
    problems = invocation.open().savepoints.verify(name)
    texts = [printable(problem.render(), keep="\n") for problem in problems]
    texts.append(_count(len(problems), "problem") if problems else "the savepoint is whole and can be restored")
    invocation.result("\n\n".join(texts), [problem.to_json() for problem in problems])
    raise typer.Exit(FAILED if problems else DONE)


@app.command("restore")
def restore(
    context: typer.Context,
    name: Annotated[str, _ID],
    dataset: Annotated[
        list[str] | None,
        typer.Option("--dataset", metavar="NAMES", help="Only these datasets, and what streams read from them."),
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show what would change. Write nothing.")] = False,  # noqa: FBT002 - an option of the command line
    accept: AcceptLoss = False,  # noqa: FBT002 - the same
    with_code: WithCode = None,
) -> None:
    """Take tables and checkpoints back to a savepoint. No update may run meanwhile.

    The next update reads again what came after the savepoint. Before anything changes, another savepoint is made, with
    which the restore can be undone.
    """
    invocation = invocation_of(context)
    request = RestoreRequest(name, names_in(dataset or ()), accept)
    savepoints = invocation.open().savepoints
    if dry_run:
        plan = savepoints.plan(request)
        texts = [*_planned(plan, invocation.width), *(problem.render() for problem in plan.problems)]
        texts.append("nothing was written")
        invocation.result_redacted(printable("\n\n".join(texts), keep="\n"), _json(plan))
        raise typer.Exit(FAILED if plan.problems else DONE)
    _restore(invocation, savepoints, request, with_code)


def rollback(
    context: typer.Context,
    plan_id: Annotated[
        str, typer.Argument(metavar="[PLAN]", help="The id of an applied plan (default: the last one).")
    ] = "",
    accept: AcceptLoss = False,  # noqa: FBT002 - an option of the command line
    with_code: WithCode = None,
) -> None:
    """Take tables and checkpoints back to before a plan was applied. No update may run meanwhile.

    The code stays as it is: put the old code in place before the next update, or the change is made again.
    """
    invocation = invocation_of(context)
    savepoints = invocation.open().savepoints
    found = [one for one in savepoints.all() if one.plan_id and plan_id in ("", one.plan_id)]
    if not found:
        raise PipelineError("SAVEPOINT.NO_PLAN", plan=plan_id or "any plan")
    _restore(invocation, savepoints, RestoreRequest(found[-1].id, accept_data_loss=accept), with_code)


def _restore(
    invocation: Invocation, savepoints: PipelineSavepoints, request: RestoreRequest, with_code: Path | None
) -> None:
    if with_code is not None and with_code.exists():
        raise PipelineError("SAVEPOINT.CODE_FOLDER", folder=with_code)
    done = savepoints.restore(request)
    texts = [*_planned(done.plan, invocation.width), *_closing(done)]
    if with_code is not None:
        written = savepoints.write_code(done.plan.savepoint, with_code)
        texts.append(f"the code of then is in {with_code}: {_count(written, 'file')}")
    before = None if done.before is None else done.before.id
    invocation.result_redacted(printable("\n\n".join(texts), keep="\n"), {**_json(done.plan), "before": before})


@app.command("drop")
def drop(context: typer.Context, name: Annotated[str, _ID]) -> None:
    """Remove a savepoint. Tables and checkpoints stay as they are."""
    invocation = invocation_of(context)
    dropped = invocation.open().savepoints.drop(name)
    invocation.result(printable(f"savepoint {dropped.label} removed"), dropped.to_json())


def _row(savepoint: Savepoint) -> tuple[Any, ...]:
    size = size_text(savepoint.size_bytes)
    made_at = (time_text(savepoint.made_at) or "")[:16]
    kind = savepoint.kind.value
    return (savepoint.id, savepoint.name, kind, made_at, len(savepoint.tables), len(savepoint.flows), size)


def _shown(savepoint: Savepoint, width: int | None) -> Iterator[str]:
    by = f" by {savepoint.made_by}" if savepoint.made_by else ""
    yield f"savepoint {savepoint.label}, {savepoint.kind.value}, made {time_text(savepoint.made_at)}{by}"
    yield "made with " + ", ".join(f"{name} {version}" for name, version in sorted(savepoint.made_with.items()))
    yield ""
    columns = ("table", "version", "rows", "size", "files")
    rows = [
        (
            table.name,
            table.version,
            _or_blank(table.rows),
            size_text(table.size_bytes),
            "linked" if table.pinned else "held",
        )
        for table in savepoint.tables
    ]
    yield text_table(columns, rows, width=width)
    yield ""
    flows = [
        (flow.name, flow.dataset, flow.epoch, _or_blank(flow.batch), size_text(flow.size_bytes))
        for flow in savepoint.flows
    ]
    yield text_table(("flow", "dataset", "epoch", "batch", "checkpoint"), flows, width=width)


def _planned(plan: RestorePlan, width: int | None) -> Iterator[str]:
    made_at = time_text(plan.savepoint.made_at)
    yield f"savepoint {plan.savepoint.label} of {made_at}"
    if not (plan.is_needed or plan.problems):
        yield "the storage is as it was then"
        return
    if plan.tables:
        yield text_table(("table", "now", "then", "rows then", "files put back"), map(_table, plan.tables), width=width)
    if plan.flows:
        yield text_table(("flow", "dataset", "batch now", "then", ""), map(_flow, plan.flows), width=width)
    if plan.losses:
        yield _listed("Rows that cannot be read again:", plan.losses)
    if plan.notes:
        yield _listed("Note:", plan.notes)
    yield _OUTSIDE


def _closing(done: Restored) -> Iterator[str]:
    if not done.plan.is_needed:
        return
    yield "restored. The next `headrace run` reads again what came after the savepoint."
    if done.before is not None:
        yield f"To undo it before that: headrace savepoint restore {done.before.id}"
    elif done.reason:
        yield f"It cannot be undone, because no savepoint of the state before it could be made: {done.reason}"


def _table(table: TableRestore) -> tuple[Any, ...]:
    rows = "" if table.saved.rows is None else table.saved.rows
    return (table.saved.name, _or_blank(table.version), table.saved.version, rows, table.missing or "")


def _flow(flow: FlowRestore) -> tuple[Any, ...]:
    now = None if flow.now is None or not flow.now.has_numbered_batches else flow.now.batches.done
    now = None if now == NONE else now
    then = flow.saved.batch if flow.saved is not None and flow.action is not FlowAction.STARTS_OVER else None
    return (flow.name, flow.dataset, _or_blank(now), _or_blank(then), flow.action.value)


def _or_blank(number: int | None) -> Any:
    return "" if number is None else number


def _json(plan: RestorePlan) -> dict[str, Any]:
    return {
        "savepoint": plan.savepoint.id,
        "tables": [
            {
                "name": one.saved.name,
                "version": one.version,
                "restored_version": one.saved.version,
                "files": one.missing,
            }
            for one in plan.tables
        ],
        "flows": [
            {
                "name": one.name,
                "dataset": one.dataset,
                "action": one.action.name.lower(),
                "batch": None if one.saved is None else one.saved.batch,
            }
            for one in plan.flows
        ],
        "problems": [problem.to_json() for problem in plan.problems],
        "losses": list(plan.losses),
        "notes": list(plan.notes),
    }


def _listed(head: str, items: Iterable[str]) -> str:
    return "\n".join((head, *(f"  {item}" for item in items)))


def _count(number: int, what: str) -> str:
    return f"{number} {what}{'' if number == 1 else 's'}"
