"""The verbs that take a table with its checkpoint into the pipeline, and give it back."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from headrace.cli.arguments import names_in
from headrace.cli.failures import DONE, FAILED
from headrace.cli.invocation import Invocation, invocation_of
from headrace.cli.printable import printable
from headrace.cli.tables import text_table
from headrace.errors import PipelineError
from headrace.plan.agreement import NONE
from headrace.project.adoption.adoption_plan import AdoptionPlan, AdoptRequest
from headrace.project.adoption.job_comparison import FlowAdoption
from headrace.project.adoption.release_plan import ReleasePlan, ReleaseRequest
from headrace.storage.adopted_tables import Consent

if TYPE_CHECKING:
    from headrace.cli.open_project import Adoptions

_DryRun = Annotated[bool, typer.Option("--dry-run", help="Show what would be taken, and what not. Write nothing.")]


def adopt(
    context: typer.Context,
    name: Annotated[str, typer.Argument(metavar="[NAME]", help="The dataset that the table becomes.")] = "",
    table: Annotated[
        str, typer.Option("--table", metavar="DIR", help="The folder of the Delta table. It stays where it lies.")
    ] = "",
    checkpoint: Annotated[
        list[str] | None,
        typer.Option(
            "--checkpoint",
            metavar="[FLOW=]DIR",
            help="The checkpoint of the job that fills it. It is copied. Can be repeated, once for each flow.",
        ),
    ] = None,
    allow: Annotated[
        list[str] | None,
        typer.Option(
            "--allow",
            metavar="WHAT",
            help="Allow: maintain (compact and vacuum its files), clear (full refresh, restore), erase (rows of a "
            "person). Separate them with commas.",
        ),
    ] = None,
    forbid: Annotated[
        list[str] | None, typer.Option("--forbid", metavar="WHAT", help="Take back what --allow has allowed.")
    ] = None,
    from_spark_pipelines: Annotated[
        str,
        typer.Option(
            "--from-spark-pipelines",
            metavar="DIR",
            help="The project, or the storage, of spark-pipelines: adopts all its Delta tables, or the named one.",
        ),
    ] = "",
    warehouse: Annotated[
        str, typer.Option("--warehouse", metavar="DIR", help="Its warehouse (default: spark-warehouse in that folder).")
    ] = "",
    claim: Annotated[  # noqa: FBT002 - an option of the command line
        bool, typer.Option("--claim", help="After the storage was copied or moved: write to the table from here.")
    ] = False,
    dry_run: _DryRun = False,  # noqa: FBT002 - the same
) -> None:
    """Take a Delta table and its checkpoint into the pipeline, without a copy.

    Stop the job first. The next update goes on where it has stopped.
    """
    invocation = invocation_of(context)
    allowed, forbidden = _consents(allow or ()), _consents(forbid or ())
    adoptions = invocation.open().adoptions
    if from_spark_pipelines:
        folder, tables = _absolute(from_spark_pipelines), _absolute(warehouse) if warehouse else ""
        found = adoptions.find_spark_pipeline(folder, tables, name)
        requests = [replace(request, consents=allowed) for request in found.requests]
        plans = adoptions.plan(requests) if dry_run else adoptions.adopt(requests)
        _show(invocation, plans, dry_run=dry_run, left_out=found.left_out)
        return
    if not name:
        raise PipelineError("CLI.USAGE", reason="the name of a dataset is missing")
    if not table:
        _change(invocation, adoptions, name, allowed, forbidden, claim=claim)
        return
    if claim or forbidden:
        raise PipelineError("CLI.CONFLICT", first="--table", second="--claim" if claim else "--forbid")
    request = AdoptRequest(name, _absolute(table), _checkpoints(checkpoint or ()), allowed)
    plans = adoptions.plan([request]) if dry_run else adoptions.adopt([request])
    _show(invocation, plans, dry_run=dry_run)


def release(
    context: typer.Context,
    name: Annotated[str, typer.Argument(metavar="NAME", help="The dataset whose table leaves the pipeline.")],
    checkpoint_to: Annotated[
        str, typer.Option("--checkpoint-to", metavar="DIR", help="Write its checkpoint into a new folder.")
    ] = "",
    without_checkpoint: Annotated[  # noqa: FBT002 - an option of the command line
        bool, typer.Option("--without-checkpoint", help="Nobody needs to know what its flows have read.")
    ] = False,
    forget: Annotated[  # noqa: FBT002 - the same
        bool, typer.Option("--forget", help="Let the pipeline make another table of the name of a released one.")
    ] = False,
    dry_run: _DryRun = False,  # noqa: FBT002 - the same
) -> None:
    """Let a table leave the pipeline. It stays where it lies, and a Spark job can go on with its checkpoint."""
    invocation = invocation_of(context)
    adoptions = invocation.open().adoptions
    if forget:
        forgotten = adoptions.releases.forget(name)
        text = f'the pipeline may make a table "{forgotten.dataset}" again; {forgotten.location} stays as it is'
        invocation.result(printable(text), forgotten.to_json())
        return
    if not dry_run and (undone := adoptions.undo(name)) is not None:
        text = f'the interrupted adoption of "{undone.dataset}" is undone; {undone.location} stays as it is'
        invocation.result(printable(text), undone.to_json())
        return
    request = ReleaseRequest(name, _absolute(checkpoint_to) if checkpoint_to else "", without_checkpoint)
    releases = adoptions.releases
    plan = releases.plan(request) if dry_run else releases.release(request)
    texts = [*_released(plan, invocation.width), *(problem.render() for problem in plan.problems)]
    texts.append("nothing was written" if dry_run else _after_release(plan))
    invocation.result_redacted(printable("\n\n".join(texts), keep="\n"), _release_json(plan))
    raise typer.Exit(FAILED if plan.problems else DONE)


def _change(
    invocation: Invocation,
    adoptions: Adoptions,
    name: str,
    allowed: frozenset[Consent],
    forbidden: frozenset[Consent],
    *,
    claim: bool,
) -> None:
    if not (allowed or forbidden or claim):
        raise PipelineError("CLI.USAGE", reason='option "--table" is missing')
    record = None
    if claim:
        record = adoptions.claim(name)
    if allowed:
        record = adoptions.allow(name, allowed)
    if forbidden:
        record = adoptions.allow(name, forbidden, revoke=True)
    if record is None:
        return
    now = ", ".join(sorted(consent.value for consent in record.consents)) or "nothing"
    text = f'table "{record.dataset}" at {record.location} belongs to {record.storage}; allowed: {now}'
    invocation.result(printable(text), record.to_json())


def _consents(words: Sequence[str]) -> frozenset[Consent]:
    found = set()
    for word in names_in(words):
        try:
            found.add(Consent(word.casefold()))
        except ValueError:
            known = ", ".join(consent.value for consent in Consent)
            raise PipelineError("CLI.USAGE", reason=f'"{word}" is none of {known}') from None
    return frozenset(found)


def _checkpoints(texts: Sequence[str]) -> dict[str, str]:
    found: dict[str, str] = {}
    for text in texts:
        flow, equals, folder = text.partition("=")
        # A path may contain the sign, and a flow's name has no slash.
        named = bool(equals) and "/" not in flow
        key = flow if named else ""
        if key in found:
            raise PipelineError("CLI.USAGE", reason="a flow has two checkpoints")
        found[key] = _absolute(folder if named else text)
    return found


def _absolute(path: str) -> str:
    return path if "://" in path or path.startswith("file:") else str(Path(path).absolute())


def _show(
    invocation: Invocation,
    plans: Sequence[AdoptionPlan],
    *,
    dry_run: bool,
    left_out: Mapping[str, str] | None = None,
) -> None:
    texts = []
    for plan in plans:
        texts += [*_planned(plan, invocation.width), *(problem.render() for problem in plan.problems)]
    problems = [problem for plan in plans for problem in plan.problems]
    if left_out:
        reasons = (f"{name}: {reason}" for name, reason in left_out.items())
        texts.append(_listed("Not adopted; the next update computes these from the start:", reasons))
    texts.append("nothing was written" if dry_run else "adopted. The next `headrace run` goes on from there.")
    value = {"tables": [_json(plan) for plan in plans], "left_out": dict(left_out or {})}
    invocation.result_redacted(printable("\n\n".join(texts), keep="\n"), value)
    raise typer.Exit(FAILED if problems else DONE)


def _planned(plan: AdoptionPlan, width: int | None) -> Iterator[str]:
    rows = "" if plan.rows is None else f" with {plan.rows} rows"
    version = "" if plan.table is None else f", version {plan.table.version}"
    yield f'table "{plan.dataset}": {plan.location}{version}{rows}; it stays there'
    if plan.flows:
        columns = ("flow", "checkpoint of the job", "in the table", "next batch")
        yield text_table(columns, map(_flow, plan.flows), width=width)
    if plan.changes:
        yield _listed("The next update changes the table:", [plan.changes])
    if plan.notes:
        yield _listed("Note:", plan.notes)


def _flow(taken: FlowAdoption) -> tuple[Any, ...]:
    if taken.job is None:
        return (taken.flow.name, "none", "", "")
    has = "no batch" if taken.committed == NONE else f"batch {taken.committed}"
    return (taken.flow.name, str(taken.job.path), has, taken.next_batch)


def _released(plan: ReleasePlan, width: int | None) -> Iterator[str]:
    where = "it lies outside of the storage" if plan.is_adopted else "it lies in the storage"
    rows = f"{plan.rows} row{'' if plan.rows == 1 else 's'}"
    version = "gone" if plan.table is None else f"version {plan.table.version} with {rows}"
    yield f'table "{plan.dataset}": {plan.location}, {version}; {where}, and stays there'
    if plan.features:
        yield f"Readers and writers need the table features {', '.join(plan.features)}."
    if plan.flows:
        rows_of = ((one.flow.stored.name, one.checkpoint or "is not written out") for one in plan.flows)
        yield text_table(("flow", "checkpoint for a job"), rows_of, width=width)
    if plan.notes:
        yield _listed("Note:", plan.notes)


def _after_release(plan: ReleasePlan) -> str:
    text = f'released. Remove "{plan.dataset}" from the code: no update starts before.'
    if any(one.checkpoint for one in plan.flows):
        text += " A job goes on with the same query, and the option checkpointLocation."
    if not plan.is_adopted:
        text += f" Move the table before you delete {plan.location.partition('/tables/')[0]}."
    return text


def _json(plan: AdoptionPlan) -> dict[str, Any]:
    return {
        "dataset": plan.dataset,
        "location": plan.location,
        "path": plan.path,
        "version": None if plan.table is None else plan.table.version,
        "rows": plan.rows,
        "flows": [
            {
                "flow": one.flow.name,
                "checkpoint": None if one.job is None else str(one.job.path),
                "query_id": None if one.job is None else one.job.query_id,
                "planned": None if one.job is None or one.job.planned == NONE else one.job.planned,
                "committed": None if one.committed == NONE else one.committed,
                "next_batch": None if one.job is None else one.next_batch,
            }
            for one in plan.flows
        ],
        "changes": plan.changes or None,
        "notes": list(plan.notes),
        "problems": [problem.to_json() for problem in plan.problems],
    }


def _release_json(plan: ReleasePlan) -> dict[str, Any]:
    return {
        "dataset": plan.dataset,
        "location": plan.location,
        "version": None if plan.table is None else plan.table.version,
        "rows": plan.rows,
        "features": list(plan.features),
        "flows": [
            {
                "flow": one.flow.stored.name,
                "checkpoint": one.checkpoint or None,
                "query_id": one.query_id or None,
                "settings": dict(one.settings),
            }
            for one in plan.flows
        ],
        "notes": list(plan.notes),
        "problems": [problem.to_json() for problem in plan.problems],
    }


def _listed(head: str, items: Iterable[str]) -> str:
    return "\n".join((head, *(f"  {item}" for item in items)))
