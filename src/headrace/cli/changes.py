"""The verbs for changes of a pipeline: plan and approve."""

from __future__ import annotations

import os
from datetime import UTC, datetime
from enum import Enum
from pathlib import Path
from typing import Annotated, Any

import typer

from headrace.cli.invocation import Output, invocation_of
from headrace.cli.plan_files import read_plan, write_plan
from headrace.cli.plan_markdown import PlanMarkdown
from headrace.cli.printable import printable
from headrace.cli.update_options import (
    AcceptDataLoss,
    Cold,
    Exclude,
    FullRefresh,
    FullRefreshAll,
    Refresh,
    ResetCheckpoint,
    Settings,
    Wait,
    request_of,
)
from headrace.errors import PipelineError
from headrace.plan.plan_file import PlanFile
from headrace.plan.refused import RefusedPlan
from headrace.plan.steps import Plan
from headrace.project.lease_holders import user_name


class PlanFormat(str, Enum):
    """How a plan is printed."""

    TEXT = "text"
    MARKDOWN = "markdown"
    JSON = "json"


PlanArgument = Annotated[Path, typer.Argument(metavar="FILE", help="A plan that `headrace plan --out` has written.")]


def plan(
    context: typer.Context,
    refresh: Refresh = None,
    full_refresh: FullRefresh = None,
    full_refresh_all: FullRefreshAll = False,  # noqa: FBT002 - an option of the command line
    exclude: Exclude = None,
    reset_checkpoint: ResetCheckpoint = None,
    accept_data_loss: AcceptDataLoss = False,  # noqa: FBT002 - the same
    out: Annotated[
        Path | None, typer.Option("--out", metavar="FILE", help="Also write the plan, to be approved and applied.")
    ] = None,
    name: Annotated[
        str | None,
        typer.Option("--as", metavar="NAME", help="Who makes the plan in the file. [default: the name of the user]"),
    ] = None,
    diff: Annotated[bool, typer.Option("--diff", help="Also show what changed in the code of deployed flows.")] = False,  # noqa: FBT002 - the same
    form: Annotated[
        PlanFormat | None, typer.Option("--format", help="The output format. Markdown is for pull requests.")
    ] = None,
    settings: Settings = None,
    cold: Cold = False,  # noqa: ARG001, FBT002 - an option of the command line, which `cli/warm.py` reads
    wait: Wait = False,  # noqa: ARG001, FBT002 - an option of the command line, which `cli/warm.py` reads
) -> None:
    """Show what `run` would do and why, worst changes first. Changes nothing in the storage."""
    selection, configuration = request_of(
        refresh or (),
        full_refresh or (),
        everything=full_refresh_all,
        settings=settings or (),
        exclude=exclude or (),
        resets=reset_checkpoint or (),
        lossy=accept_data_loss,
    )
    invocation = invocation_of(context)
    if form is PlanFormat.JSON:
        invocation.output = Output.JSON
    elif form is not None and invocation.as_json:
        raise PipelineError("CLI.CONFLICT", first="--output json", second=f"--format {form.value}")
    project = invocation.open(configuration)

    def shown(found: Plan) -> tuple[str, dict[str, Any]]:
        text, value = found.describe(), found.to_json()
        if not diff and form is not PlanFormat.MARKDOWN:
            return text, value
        code = project.changes.diff(found)
        value = {**value, "code": code.to_json()}
        if form is PlanFormat.MARKDOWN:
            return PlanMarkdown(invocation.redact).render(found, code), value
        return "\n\n".join([text, printable(code.describe(), keep="\n\t")]), value

    # A diff and Markdown are for programs, too.
    folds = not diff and form is not PlanFormat.MARKDOWN
    try:
        found = project.plan(selection)
    except RefusedPlan as refused:
        text, value = shown(refused.plan)
        if invocation.as_json:
            invocation.more_of_error = {"plan": invocation.redacted(value)}
        else:
            invocation.result_redacted(text, value, folds=folds)
        raise
    text, value = shown(found)
    if out is not None:
        plan_file = project.changes.file_of(found, selection, name)
        write_plan(out, plan_file)
        value |= {"plan_id": plan_file.plan_id, "digest": plan_file.digest, "file": str(out)}
    invocation.result_redacted(text, value, folds=folds)
    if out is not None:
        invocation.say(f"plan {plan_file.plan_id} is in {out}, valid until {plan_file.document['expires_at']}")


def approve(
    context: typer.Context,
    file: PlanArgument,
    name: Annotated[
        str | None, typer.Option("--as", metavar="NAME", help="Who approves. [default: the name of the user]")
    ] = None,
    note: Annotated[str, typer.Option("--note", metavar="TEXT", help="What to say with the approval.")] = "",
) -> None:
    """Approve a plan. The approval is written into its file, and holds for exactly this plan."""
    invocation = invocation_of(context)
    before = read_plan(file)
    by = (name if name is not None else user_name(os.environ) or "").strip()
    if not by:
        raise PipelineError("CLI.USAGE", reason="nobody approves; name somebody with --as")
    found = before.approved(by, datetime.now(tz=UTC), note)
    write_plan(file, found)
    classes = ", ".join(known.value for known in sorted(found.classes, key=lambda known: known.rank)) or "nothing"
    text = f"plan {found.plan_id} of {found.made_by or 'an unknown user'} is approved by {by}\n  changes: {classes}"
    invocation.result(text, _approved(found, file))


def _approved(plan_file: PlanFile, file: Path) -> dict[str, Any]:
    return {
        "plan_id": plan_file.plan_id,
        "digest": plan_file.digest,
        "file": str(file),
        "classes": sorted(known.value for known in plan_file.classes),
        "approvals": [approval.to_json() for approval in plan_file.approvals],
    }
