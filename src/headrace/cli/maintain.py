"""The verb that maintains the storage. With --dry-run it starts no JVM."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby
from textwrap import wrap
from typing import Annotated

import typer

from headrace.cli.failures import DONE, FAILED
from headrace.cli.invocation import invocation_of
from headrace.cli.printable import printable
from headrace.errors import PipelineError
from headrace.graph.select import Selection
from headrace.model.maintenance import OF_CHECKPOINTS, MaintenanceRequest, Task
from headrace.model.sizes import size_text
from headrace.plan.maintenance import Action, ActionState, Size

_WIDTH = 80
_TASKS = ", ".join(task.value for task in Task)
_LABEL = 12


def maintain(
    context: typer.Context,
    datasets: Annotated[
        list[str] | None, typer.Argument(metavar="DATASET", help="Only these datasets. Default: all.")
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show what would be done. Starts no JVM.")] = False,  # noqa: FBT002 - an option of the command line
    only: Annotated[
        list[str] | None, typer.Option("--only", metavar="TASK,...", help=f"Only these tasks: {_TASKS}.")
    ] = None,
    short_retention: Annotated[  # noqa: FBT002 - an option of the command line
        bool, typer.Option("--short-retention", help="Allow maintenance.retain to be less than 7 days.")
    ] = False,
    anytime: Annotated[bool, typer.Option("--anytime", help="Also outside of maintenance.window.")] = False,  # noqa: FBT002 - the same
) -> int:
    """Compact, cluster and vacuum tables, and delete old quarantined rows and log files.

    Also removes old epochs and what left the code, if the settings say after what time.

    May run beside an update. Exits with 1 if an action failed.
    """
    invocation = invocation_of(context)
    tasks = tuple(_tasks(only or ())) or tuple(Task)
    request = MaintenanceRequest(tuple(datasets or ()), tasks, dry_run, short_retention, anytime)
    project = invocation.open()
    actions = project.maintain(request, lambda: project.plan(Selection()))
    invocation.result_redacted(actions_text(actions, is_planned=dry_run), [action.to_json() for action in actions])
    return FAILED if any(action.state is ActionState.FAILED for action in actions) else DONE


def actions_text(actions: Sequence[Action], *, is_planned: bool) -> str:
    """The actions by table, at most 80 columns wide, and their sum."""
    lines: list[str] = []
    for table, own in groupby(actions, key=lambda action: action.table):
        lines.append(printable(table))
        for action in own:
            lines += _action_lines(action)
    return "\n".join([*lines, _summary(actions, is_planned=is_planned)])


def _tasks(given: Sequence[str]) -> Iterator[Task]:
    for word in [word.strip() for text in given for word in text.split(",") if word.strip()]:
        try:
            yield Task(word)
        except ValueError:
            raise PipelineError("MAINTENANCE.UNKNOWN_TASK", name=word, known=_TASKS) from None


def _action_lines(action: Action) -> Iterator[str]:
    done = {ActionState.SKIPPED: "skipped: ", ActionState.FAILED: "failed: "}.get(action.state, "")
    texts = [f"{done}{printable(action.reason)}"]
    if action.before is not None and action.after is not None:
        about = "about " if action.state is ActionState.PLANNED and action.task in (Task.COMPACT, Task.CLUSTER) else ""
        texts.append(f"{action.before.describe()} -> {about}{action.after.describe()}")
    label = action.task.value
    for text in texts:
        for line in wrap(text, _WIDTH - _LABEL - 2, break_on_hyphens=False):
            yield f"  {label:<{_LABEL}}{line}"
            label = ""


def _summary(actions: Sequence[Action], *, is_planned: bool) -> str:
    wanted = ActionState.PLANNED if is_planned else ActionState.DONE
    counted = [action for action in actions if action.state is wanted]
    if not actions:
        return "nothing to do"
    # A rewrite leaves the old files on disk, until they are vacuumed.
    freed = Size(
        sum(a.before.files - a.after.files for a in counted if a.before and a.after and _frees(a)),
        sum(a.before.size_bytes - a.after.size_bytes for a in counted if a.before and a.after and _frees(a)),
    )
    parts = [f"{len(counted)} action{'' if len(counted) == 1 else 's'} {'planned' if is_planned else 'done'}"]
    for state in (ActionState.SKIPPED, ActionState.FAILED):
        count = sum(action.state is state for action in actions)
        parts += [f"{count} {state.value.lower()}"] if count else []
    if freed.files:
        verb = "would be removed" if is_planned else "removed"
        parts.append(f"{freed.files} file{'' if freed.files == 1 else 's'} {verb}, {size_text(freed.size_bytes)}")
    return "; ".join(parts)


def _frees(action: Action) -> bool:
    return action.task in (Task.VACUUM, Task.RETENTION, *OF_CHECKPOINTS)
