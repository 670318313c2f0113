"""What can be asked for, as words of the command line: values as ``--option=value`` or after ``--``.

So no value is taken for an option.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from headrace.project.requests.request import Action, Lane

# What the server does itself.
STOP, CANCEL, REJECT = "stop", "cancel", "reject"


@dataclass(frozen=True)
class UpdateSelection:
    """What an update refreshes, selected as on the command line; everything if empty."""

    refresh: Sequence[str] = ()
    full_refresh: Sequence[str] = ()
    exclude: Sequence[str] = ()
    reset_checkpoint: Sequence[str] = ()

    @property
    def words(self) -> tuple[str, ...]:
        """The options."""
        return (
            *_each("--refresh", self.refresh),
            *_each("--full-refresh", self.full_refresh),
            *_each("--exclude", self.exclude),
            *_each("--reset-checkpoint", self.reset_checkpoint),
        )


def run(selection: UpdateSelection, *, is_continuous: bool = False) -> Action:
    """Run an update."""
    words = (*selection.words, *(("--continuous",) if is_continuous else ()))
    return Action("run", words, Lane.UPDATE, merges=not is_continuous, repeats=True)


def validate() -> Action:
    """Check the project."""
    return Action("validate", (), Lane.READING, merges=True)


def plan(selection: UpdateSelection, user: str, file: Path) -> Action:
    """Make a plan, and keep it."""
    return Action("plan", (*selection.words, f"--as={user}", f"--out={file}"), Lane.READING)


def approve(file: Path, user: str, note: str) -> Action:
    """Approve a plan."""
    return Action("approve", (f"--as={user}", *((f"--note={note}",) if note else ()), "--", str(file)))


def apply(file: Path) -> Action:
    """Run the update of a plan."""
    return Action("apply", ("--", str(file)), Lane.UPDATE)


def maintain(datasets: Sequence[str], only: Sequence[str], *, is_dry_run: bool) -> Action:
    """Maintain tables."""
    options = (*_each("--only", only), *(("--dry-run",) if is_dry_run else ()))
    return Action("maintain", (*options, "--", *datasets), Lane.MAINTENANCE, merges=True)


@dataclass(frozen=True)
class ReplayChoice:
    """Which rows are replayed, and how.

    Attributes:
        rules: that they violated; all if empty.
        changes: new values of columns, each ``COLUMN=EXPRESSION``, which are checked.
        releases: rows that still violate an expectation are accepted.
        from_source: the records of the source are read again.
    """

    rules: Sequence[str] = ()
    changes: Sequence[str] = ()
    releases: bool = False
    from_source: bool = False

    @property
    def words(self) -> tuple[str, ...]:
        """The options."""
        flags = (("--release", self.releases), ("--from-source", self.from_source))
        options = (*_each("--rule", self.rules), *_each("--set", self.changes))
        return (*options, *(name for name, is_set in flags if is_set))


def replay(dataset: str, choice: ReplayChoice, *, is_dry_run: bool = False) -> Action:
    """Check quarantined rows again, and write those that pass; a dry run counts them."""
    if is_dry_run:
        return Action("quarantine replay", ("--dry-run", *choice.words, "--", dataset), Lane.READING)
    return Action("quarantine replay", (*choice.words, "--", dataset), Lane.UPDATE)


def create_savepoint(name: str) -> Action:
    """Make a savepoint."""
    return Action("savepoint create", ("--", name) if name else (), Lane.UPDATE)


def plan_restore(savepoint: str, datasets: Sequence[str]) -> Action:
    """Show what a restore would change."""
    return Action("savepoint restore", ("--dry-run", *_each("--dataset", datasets), "--", savepoint), Lane.READING)


def restore(savepoint: str, datasets: Sequence[str]) -> Action:
    """Take tables and checkpoints back to a savepoint."""
    return Action("savepoint restore", (*_each("--dataset", datasets), "--", savepoint), Lane.UPDATE)


def drop_savepoint(savepoint: str) -> Action:
    """Remove a savepoint."""
    return Action("savepoint drop", ("--", savepoint), Lane.UPDATE)


def roll_back(plan_id: str) -> Action:
    """Take tables and checkpoints back to before a plan was applied."""
    return Action("rollback", ("--", plan_id), Lane.UPDATE)


def pause(schedule: str, user: str) -> Action:
    """Pause a schedule."""
    return Action("schedules pause", (f"--as={user}", "--", schedule))


def resume(schedule: str, user: str) -> Action:
    """Resume a schedule."""
    return Action("schedules resume", (f"--as={user}", "--", schedule))


def acknowledge(alert: str, user: str) -> Action:
    """Acknowledge an alert."""
    return Action("alerts ack", (f"--as={user}", "--", alert))


def silence(alert: str, hours: float) -> Action:
    """Silence an alert."""
    return Action("alerts silence", (f"--hours={hours:g}", "--", alert))


def stop(update_id: str) -> Action:
    """Stop an update."""
    return Action(STOP, (update_id,))


def cancel(request_id: str) -> Action:
    """Stop a request, or take it out of the queue."""
    return Action(CANCEL, (request_id,))


def reject(plan_id: str) -> Action:
    """Reject a plan."""
    return Action(REJECT, (plan_id,))


def _each(option: str, values: Sequence[str]) -> tuple[str, ...]:
    return tuple(f"{option}={value}" for value in values)
