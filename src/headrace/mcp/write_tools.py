"""Tools that write, with ``--allow-write`` only: each shows what it would do, and asks."""

from __future__ import annotations

from typing import Annotated, Any

from mcp.server.mcpserver import ElicitationResult, Resolve
from mcp_types import CallToolResult
from pydantic import Field

from headrace.mcp.consent import AskingContext, Consent, NotAsked, Question, answers_of, question, refusal
from headrace.mcp.project_tools import Flows, Names, listed, update_options
from headrace.mcp.results import Written
from headrace.mcp.verbs import SESSION_S, VerbFailedError

Rules = Annotated[list[str] | None, Field(description="Only rows that violated these expectations.")]
Changes = Annotated[list[str] | None, Field(description="New values, each COLUMN=EXPR.")]
Dataset = Annotated[str, Field(description="A dataset of the pipeline.")]
Flow = Annotated[str, Field(description="A flow, or the dataset that it writes to.")]
Position = Annotated[str, Field(description="earliest, latest, version:N or timestamp:T.")]
AcceptDataLoss = Annotated[bool, Field(description="Let a full refresh clear rows that cannot be read again.")]
Release = Annotated[bool, Field(description="Accept rows that still violate expectations.")]
Again = Annotated[bool, Field(description="Include rows that were or will be read.")]
UpdateTimeout = Annotated[int, Field(ge=10, le=86_400, description="When to stop the update, in seconds.")]

_MOST_SHOWN_LINES = 60


def _run(
    refresh: list[str] | None,
    full_refresh: list[str] | None,
    reset_checkpoint: list[str] | None,
    exclude: list[str] | None,
    *,
    accept_data_loss: bool,
) -> list[str]:
    lossy = ["--accept-data-loss"] if accept_data_loss else []
    return [*update_options(refresh, full_refresh, reset_checkpoint, exclude), *lossy]


async def ask_to_run(
    context: AskingContext,
    refresh: list[str] | None,
    full_refresh: list[str] | None,
    reset_checkpoint: list[str] | None,
    exclude: list[str] | None,
    *,
    accept_data_loss: bool,
) -> Question:
    """Show the plan of an update."""
    options = _run(refresh, full_refresh, reset_checkpoint, exclude, accept_data_loss=accept_data_loss)
    try:
        plan = await answers_of(context).value(["plan", *options], timeout_s=SESSION_S)
    except VerbFailedError as error:
        return NotAsked(error)
    return question(context, plan_text(plan), ["run", *options])


async def run(
    context: AskingContext,
    consent: Annotated[ElicitationResult[Consent], Resolve(ask_to_run)],
    refresh: Names = None,
    full_refresh: Names = None,
    reset_checkpoint: Flows = None,
    exclude: Names = None,
    *,
    accept_data_loss: AcceptDataLoss = False,
    timeout_s: UpdateTimeout = 3_600,
) -> Annotated[CallToolResult, Written]:
    """Run one update: process new data. Shows the plan and asks first."""
    words = ["run", *_run(refresh, full_refresh, reset_checkpoint, exclude, accept_data_loss=accept_data_loss)]
    return await _write(context, consent, words, timeout_s)


def _backfill(flow: str, start: str, end: str, *, again: bool) -> list[str]:
    return ["backfill", f"--from={start}", f"--to={end}", *(["--again"] if again else []), "--", flow]


async def ask_to_backfill(context: AskingContext, flow: str, start: str, end: str, *, again: bool) -> Question:
    """Say which range is read, and how far the flow is."""
    words = _backfill(flow, start, end, again=again)
    try:
        flows = await answers_of(context).value(["checkpoints", "list"])
    except VerbFailedError as error:
        return NotAsked(error)
    known = [found for found in flows if flow in (found["flow"], found["dataset"])]
    batches = [f'Flow "{found["flow"]}" has committed batch {found["committed"]}.' for found in known]
    shown = f'Backfill "{flow}": run its query as a batch over its input from {start} to {end}, and write the rows.'
    return question(context, "\n".join([shown, *batches]), words)


async def backfill(
    context: AskingContext,
    consent: Annotated[ElicitationResult[Consent], Resolve(ask_to_backfill)],
    flow: Flow,
    start: Position = "earliest",
    end: Position = "latest",
    *,
    again: Again = False,
    timeout_s: UpdateTimeout = 3_600,
) -> Annotated[CallToolResult, Written]:
    """Run a stream's query as a batch over a range of its input. Says what it would read, and asks first."""
    return await _write(context, consent, _backfill(flow, start, end, again=again), timeout_s)


def _replay(dataset: str, rules: list[str] | None, changes: list[str] | None, *, release: bool) -> list[str]:
    options = [*listed("--rule", rules), *listed("--set", changes), *(["--release"] if release else [])]
    return ["quarantine", "replay", *options, "--", dataset]


async def ask_to_replay(
    context: AskingContext, dataset: str, rules: list[str] | None, changes: list[str] | None, *, release: bool
) -> Question:
    """Show how many rows are in quarantine, and why."""
    try:
        found = await answers_of(context).value(["quarantine", "list"])
    except VerbFailedError as error:
        return NotAsked(error)
    rows = [
        f"{one['dataset']}: {one['rows']} quarantined rows, "
        + ", ".join(f"{rule} ({count})" for rule, count in one["rules"].items())
        for one in found
        if one["dataset"] == dataset
    ]
    shown = f'Replay quarantined rows of "{dataset}": check them again, and write those that pass.'
    return question(context, "\n".join([shown, *rows]), _replay(dataset, rules, changes, release=release))


async def quarantine_replay(
    context: AskingContext,
    consent: Annotated[ElicitationResult[Consent], Resolve(ask_to_replay)],
    dataset: Dataset,
    rules: Rules = None,
    changes: Changes = None,
    *,
    release: Release = False,
    timeout_s: UpdateTimeout = 3_600,
) -> Annotated[CallToolResult, Written]:
    """Check quarantined rows again and write those that pass. Shows their number and reasons, and asks first."""
    return await _write(context, consent, _replay(dataset, rules, changes, release=release), timeout_s)


async def ask_to_repair(context: AskingContext, flow: str) -> Question:
    """Show what is wrong with the checkpoint."""
    try:
        found = await answers_of(context).value(["checkpoints", "verify"])
    except VerbFailedError as error:
        return NotAsked(error)
    problems = [
        f'Flow "{one["flow"]}": {one["problem"]["message"]}.'
        for one in found
        if one["problem"] and flow in (one["flow"], one["dataset"])
    ]
    shown = f'Repair the checkpoint of "{flow}": move damaged files away. The next update runs the batch again.'
    return question(context, "\n".join([shown, *(problems or ["No problem was found."])]), _repair(flow))


def _repair(flow: str) -> list[str]:
    return ["checkpoints", "repair", "--", flow]


async def checkpoints_repair(
    context: AskingContext, consent: Annotated[ElicitationResult[Consent], Resolve(ask_to_repair)], flow: Flow
) -> Annotated[CallToolResult, Written]:
    """Move away damaged checkpoint files that a flow does not need. Shows the damage, and asks first."""
    return await _write(context, consent, _repair(flow), SESSION_S)


async def _write(
    context: AskingContext, consent: ElicitationResult[Consent], words: list[str], timeout_s: float
) -> CallToolResult:
    answers = answers_of(context)
    refused = refusal(answers, consent, words)
    if refused is not None:
        return refused
    return await answers.result(Written, words, lambda found: {"outcome": found}, timeout_s=timeout_s)


def plan_text(plan: dict[str, Any]) -> str:
    """A plan as the lines that a user decides on: losses first, then tables, views and flows."""
    lines = [f"{loss['dataset']} loses {loss['rows']} rows" for loss in plan.get("losses", ())]
    lines += [notice["message"] for notice in plan.get("notices", ())]
    lines += [f"table {step['dataset']}: {step['change']}: {step['reason']}" for step in plan["tables"]]
    lines += [f"view {step['dataset']}: {step['change']}: {step['reason']}" for step in plan["views"]]
    lines += [f"flow {step['flow']}: {step['decision']}: {step['reason']}" for step in plan["flows"]]
    lines += [f"left out: flow {step['flow']}: {step['reason']}" for step in plan.get("away", ())]
    if len(lines) > _MOST_SHOWN_LINES:
        lines = [*lines[:_MOST_SHOWN_LINES], f"and {len(lines) - _MOST_SHOWN_LINES} more steps"]
    return "\n".join(lines) or "Nothing changes but new data."
