"""The verbs on stages: create, run, list, show, compare, swap and drop."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Annotated, Any

import typer

from headrace.cli.arguments import names_in
from headrace.cli.diff import diff_lines
from headrace.cli.failures import DONE, FAILED
from headrace.cli.invocation import Invocation, invocation_of
from headrace.cli.live_display import display_for
from headrace.cli.plan_files import write_plan
from headrace.cli.printable import printable
from headrace.cli.tables import text_table
from headrace.cli.update import finish
from headrace.cli.update_options import Exclude
from headrace.errors import PipelineError
from headrace.model.outcome import UpdateState
from headrace.project.inspection.flow_checkpoint import time_text
from headrace.project.staging.build import StageRequest
from headrace.project.staging.compare import ExpectationPair, StagedTable
from headrace.project.staging.progress import SourceProgress, StagedRows
from headrace.project.staging.swap_plan import SwapPlan
from headrace.project.staging.swaps import Swapped, SwapRequest
from headrace.storage.stages.manifest import Stage

app = typer.Typer(
    help="Build changed datasets beside those of production, compare them, and swap them in.",
    no_args_is_help=False,
    add_completion=False,
)

_KEY = "Columns that identify a row, with commas, in tables that have them (default: the keys of AUTO CDC)."
_NAME = typer.Argument(metavar="NAME", help="The name of a stage.")


@app.command("create")
def create(
    context: typer.Context,
    selection: Annotated[
        list[str], typer.Argument(metavar="DATASETS", help="What to build; selected as by `run --refresh`.")
    ],
    name: Annotated[str, typer.Option("--name", metavar="NAME", help="A name (default: the first dataset).")] = "",
    exclude: Exclude = None,
    accept: Annotated[  # noqa: FBT002 - an option of the command line
        bool, typer.Option("--accept-data-loss", help="Also if rows of production cannot be read again.")
    ] = False,
) -> None:
    """Build datasets with the code of now in a storage of their own. Production is only read.

    They read their sources from the beginning, and other tables of the pipeline from production.
    """
    invocation = invocation_of(context)
    request = StageRequest(names_in(selection), names_in(exclude or ()), name, accept)
    display = display_for(invocation, time.monotonic)
    stages = invocation.open().stages
    with display.shown():
        stage, outcome = stages.create(request, on_event=display.on_event)
    for text in stage.left_out:
        invocation.say(printable(text))
    if outcome.state is UpdateState.COMPLETED:
        invocation.say(f"stage {stage.name} is built; next: headrace stage compare {stage.name}")
    else:
        invocation.say(f"stage {stage.name} is not complete; go on with: headrace stage run {stage.name}")
    finish(outcome, invocation)


@app.command("run")
def run(context: typer.Context, name: Annotated[str, _NAME]) -> None:
    """Read new data into a stage. If the code has changed, it is built again."""
    invocation = invocation_of(context)
    display = display_for(invocation, time.monotonic)
    stages = invocation.open().stages
    with display.shown():
        _, outcome = stages.run(name, on_event=display.on_event)
    finish(outcome, invocation)


@app.command("list")
def list_stages(context: typer.Context) -> None:
    """List the stages."""
    invocation = invocation_of(context)
    stages = invocation.open().stages
    known = stages.all()
    parts = []
    if known:
        rows = [(one.name, (time_text(one.made_at) or "")[:16], ", ".join(one.datasets)) for one in known]
        parts.append(text_table(("stage", "made at", "datasets"), rows, width=invocation.width))
    parts += (printable(problem.render(), keep="\n") for problem in stages.problems())
    invocation.result("\n\n".join(parts) or "no stage yet", [one.to_json() for one in known])


@app.command("show")
def show(context: typer.Context, name: Annotated[str, _NAME]) -> None:
    """Show the rows of a stage and how far its flows are, next to those of production."""
    invocation = invocation_of(context)
    stages = invocation.open().stages
    stage, tables, progress = stages.find(name), stages.rows(name), stages.progress(name)
    text = "\n".join(_shown(stage, tables, progress, invocation.width))
    sources = [one.to_json() for one in progress]
    value = {**stage.to_json(), "tables": [one.to_json() for one in tables], "sources": sources}
    invocation.result_redacted(printable(text, keep="\n"), value)


@app.command("compare")
def compare(
    context: typer.Context,
    name: Annotated[str, _NAME],
    key: Annotated[
        list[str] | None,
        typer.Option(
            "--key",
            metavar="COLUMNS",
            help="Columns that identify a row, in tables that have them (default: the keys of AUTO CDC).",
        ),
    ] = None,
    rows: Annotated[int, typer.Option("--rows", metavar="N", min=0, help="The maximum number of example rows.")] = 5,
) -> int:
    """Compare each table of a stage with that of production: schema, rows and expectations.

    Exits with 1 if they differ.
    """
    invocation = invocation_of(context)
    found = list(invocation.open().stages.compare(name, tuple(key or ()), rows))
    text = "\n\n".join("\n".join(_compared(table, invocation.width)) for table in found)
    invocation.result_redacted(text, [table.to_json() for table in found], folds=False)
    return DONE if all(table.diff.is_equal for table in found) else FAILED


@app.command("swap")
def swap(
    context: typer.Context,
    name: Annotated[str, _NAME],
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show what would change. Write nothing.")] = False,  # noqa: FBT002 - an option of the command line
    savepoint: Annotated[  # noqa: FBT002 - the same
        bool, typer.Option("--savepoint/--no-savepoint", help="First make a savepoint, to go back to.")
    ] = True,
    accept: Annotated[  # noqa: FBT002 - the same
        bool, typer.Option("--accept-data-loss", help="Also if streams below miss rows, or get rows again.")
    ] = False,
    out: Annotated[
        Path | None,
        typer.Option(
            "--out", metavar="FILE", help="Write the swap as a plan, to be approved and applied. Swap nothing."
        ),
    ] = None,
) -> None:
    """Make the tables of a stage those of production, in one commit each. No update may run meanwhile.

    The next update goes on where the stage has stopped reading. Streams that read the tables go on behind the swap.
    """
    invocation = invocation_of(context)
    if out is not None and dry_run:
        raise PipelineError("CLI.CONFLICT", first="--dry-run", second="--out")
    swaps = invocation.open().stages.swaps
    if out is not None:
        plan_file = swaps.plan_file(name, accept_data_loss=accept)
        write_plan(out, plan_file)
        text = f"the swap is plan {plan_file.plan_id} in {out}, valid until {plan_file.document['expires_at']}"
        value = {"plan_id": plan_file.plan_id, "digest": plan_file.digest, "file": str(out)}
        invocation.result(printable(text), value)
        return
    if dry_run:
        plan = swaps.plan(name)
        texts = [*_planned(plan, invocation.width), *(problem.render() for problem in plan.problems)]
        texts.append("nothing was written")
        invocation.result_redacted(printable("\n\n".join(texts), keep="\n"), _json(plan))
        raise typer.Exit(FAILED if plan.problems else DONE)
    show_swapped(invocation, name, swaps.swap(SwapRequest(name, savepoint, accept)))


@app.command("drop")
def drop(context: typer.Context, name: Annotated[str, _NAME]) -> None:
    """Remove a stage. Production stays as it is."""
    invocation = invocation_of(context)
    dropped = invocation.open().stages.drop(name)
    invocation.result(printable(f"stage {dropped.name} removed"), dropped.to_json())


def show_swapped(invocation: Invocation, name: str, done: Swapped) -> None:
    """Print what a swap did."""
    texts = [] if done.plan is None else [*_planned(done.plan, invocation.width)]
    texts.append(f"stage {name} is swapped in. `headrace run` goes on from there.")
    if done.before is not None:
        texts.append(f"To undo it: headrace savepoint restore {done.before.id}, with the code of before")
    value = {
        **({"stage": name} if done.plan is None else _json(done.plan)),
        "before": None if done.before is None else done.before.id,
    }
    invocation.result_redacted(printable("\n\n".join(texts), keep="\n"), value)


def _shown(
    stage: Stage, tables: Iterable[StagedRows], progress: Iterable[SourceProgress], width: int | None
) -> Iterator[str]:
    by = f" by {stage.made_by}" if stage.made_by else ""
    yield f"stage {stage.name}, made {time_text(stage.made_at)}{by}"
    yield from stage.left_out
    yield ""
    counts = [(one.dataset, _count(one.staged), _count(one.production)) for one in tables]
    yield text_table(("rows of", "stage", "production"), counts, width=width)
    yield ""
    rows = [(one.flow, one.source, one.staged, one.production) for one in progress]
    yield text_table(("flow", "source", "stage", "production"), rows, width=width)


def _compared(table: StagedTable, width: int | None) -> Iterator[str]:
    yield from diff_lines(table.diff, width)
    if table.expectations:
        rows = [
            (pair.name, *(_count(one) for one in (*_counts(pair, "passed"), *_counts(pair, "failed"))))
            for pair in table.expectations
        ]
        yield "\nexpectations, as far as the event logs have counted them"
        columns = ("expectation", "passed", "in stage", "failed", "in stage")
        yield text_table(columns, rows, width=width)
    if any(table.quarantined):
        yield f"\nquarantined rows: {table.quarantined[0]:,} in production, {table.quarantined[1]:,} in the stage"


def _counts(pair: ExpectationPair, field: str) -> Iterator[int | None]:
    for one in (pair.production, pair.staged):
        yield None if one is None else int(getattr(one, field))


def _planned(plan: SwapPlan, width: int | None) -> Iterator[str]:
    tables = [(one.name, one.step.value, _count(one.rows), _count(one.staged_rows)) for one in plan.changes]
    yield text_table(("table", "", "rows now", "then"), tables, width=width)
    flows = [(one.name, one.dataset, one.step.value) for one in plan.swap.flows]
    yield text_table(("flow", "dataset", ""), flows, width=width)
    if plan.losses:
        yield _listed("Rows would be missing or come twice:", plan.losses)
    if plan.notes:
        yield _listed("Note:", plan.notes)


def _json(plan: SwapPlan) -> dict[str, Any]:
    return {
        "stage": plan.swap.stage,
        "tables": [
            {
                "name": one.name,
                "step": one.step.value,
                "version": one.version,
                "staged_version": one.staged_version,
                "rows": one.rows,
                "staged_rows": one.staged_rows,
            }
            for one in plan.changes
        ],
        "flows": [
            {"name": one.name, "dataset": one.dataset, "step": one.step.name.lower(), "epoch": one.epoch}
            for one in plan.swap.flows
        ],
        "problems": [problem.to_json() for problem in plan.problems],
        "losses": list(plan.losses),
        "notes": list(plan.notes),
    }


def _count(number: int | None) -> Any:
    return "" if number is None else number


def _listed(head: str, items: Iterable[str]) -> str:
    return "\n".join((head, *(f"  {item}" for item in items)))
