"""What happened to a flow between its batches: updates that began, failures, new epochs, changes of code. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import Enum
from itertools import groupby, pairwise
from typing import Any

from headrace.events.past_updates import PastUpdate
from headrace.events.recorded import Recorded
from headrace.events.types import FlowStateChanged
from headrace.serve.formats import iso

_LONGEST_TEXT = 300
_DIGITS = 10


class MarkerKind(str, Enum):
    """What a marker stands for."""

    UPDATE = "update"
    CODE = "code"
    EPOCH = "epoch"
    FAILURE = "failure"


@dataclass(frozen=True)
class FlowMarker:
    """Something that happened between two batches, or several things of one kind.

    Attributes:
        kind: what it was.
        place: how many of the shown batches began before it.
        at: when, in ISO 8601; of several, the last one.
        text: about the last one.
        count: how many they are.
        update_id: of the last one.
        code: of the error; None for what is no failure.
    """

    kind: MarkerKind
    place: int
    at: str
    text: str
    count: int = 1
    update_id: str | None = None
    code: str | None = None

    def to_json(self) -> dict[str, Any]:
        """The marker without its place, which depends on the picture."""
        facts = {"kind": self.kind.value, "at": self.at, "text": self.text, "count": self.count}
        return {**facts, "update_id": self.update_id, "code": self.code}


@dataclass(frozen=True)
class CodeChange:
    """An update that ran other code than the one before it.

    Attributes:
        before: the update before.
        after: the update.
    """

    before: PastUpdate
    after: PastUpdate


def code_changes(updates: Sequence[PastUpdate], since: datetime | None) -> list[CodeChange]:
    """The updates with changed code, oldest first; older versions did not record which code they ran.

    Args:
        updates: the newest first.
        since: only those that began by then; None for all.
    """
    return [
        CodeChange(before, after)
        for before, after in pairwise(reversed(updates))
        if (since is None or after.started_at >= since)
        and before.created.code_digest
        and after.created.code_digest
        and before.created.code_digest != after.created.code_digest
    ]


def flow_markers(
    batches: Sequence[Mapping[str, Any]],
    updates: Sequence[PastUpdate],
    since: datetime | None,
    changes: Iterable[CodeChange],
    failures: Iterable[Recorded],
    digests: Mapping[str, str | None],
) -> list[FlowMarker]:
    """The markers by their places, at each place one of each kind.

    Args:
        batches: the shown ones, oldest first, as documents with times in ISO 8601.
        updates: the newest ones; of those before them, the batches say which update they are of.
        since: only updates that began by then are marked; None for all.
        changes: of the code.
        failures: of attempts of the flow.
        digests: of the flow's query, by update.
    """
    starts = [str(batch["started_at"] or batch["recorded_at"]) for batch in batches]
    first_of: dict[str, int] = {}
    for place, batch in enumerate(batches):
        if batch["update_id"]:
            first_of.setdefault(batch["update_id"], place)

    def place_of(at: str, update_id: str | None = None) -> int:
        by_time = next((place for place, start in enumerate(starts) if start >= at), len(starts))
        return by_time if update_id is None else first_of.get(update_id, by_time)

    begun = [one for one in updates if since is None or one.started_at >= since]
    earlier = {place: update_id for update_id, place in first_of.items() if place}
    for update in updates:
        earlier.pop(first_of.get(update.update_id, -1), None)
    found = [
        *(_update_marker(one, place_of(_iso(one.started_at), one.update_id)) for one in begun),
        *(
            FlowMarker(MarkerKind.UPDATE, place, starts[place], "update began", update_id=update_id)
            for place, update_id in earlier.items()
        ),
        *(_code_marker(one, digests, place_of(_iso(one.after.started_at), one.after.update_id)) for one in changes),
        *_epoch_markers(batches, starts),
        *_failure_markers(failures, place_of),
    ]
    found.sort(key=lambda one: (one.place, one.kind.value, one.at))
    groups = (list(group) for _, group in groupby(found, key=lambda one: (one.place, one.kind)))
    return [_merged(group) for group in groups]


def _update_marker(update: PastUpdate, place: int) -> FlowMarker:
    cause = f", cause {update.created.cause}" if update.created.cause else ""
    return FlowMarker(
        MarkerKind.UPDATE, place, _iso(update.started_at), f"update began{cause}", update_id=update.update_id
    )


def _code_marker(change: CodeChange, digests: Mapping[str, str | None], place: int) -> FlowMarker:
    before, after = change.before, change.after
    text = "code changed"
    commits = [one.created.git_commit for one in (before, after)]
    if all(commits) and commits[0] != commits[1]:
        text += f" from commit {str(commits[0])[:_DIGITS]} to {str(commits[1])[:_DIGITS]}"
    known = [digests.get(one.update_id) for one in (before, after)]
    if all(known):
        text += ", but not the query of this flow" if known[0] == known[1] else ", and with it the query of this flow"
    return FlowMarker(MarkerKind.CODE, place, _iso(after.started_at), text, update_id=after.update_id)


def _epoch_markers(batches: Sequence[Mapping[str, Any]], starts: Sequence[str]) -> Iterator[FlowMarker]:
    seen = {batches[0]["epoch"]} if batches else set()
    for place, batch in enumerate(batches):
        epoch = batch["epoch"]
        if epoch not in seen:
            seen.add(epoch)
            # Epochs below zero are backfills.
            text = "a backfill or replay began" if epoch < 0 else f"epoch {epoch} began: batches count from 0 again"
            yield FlowMarker(MarkerKind.EPOCH, place, starts[place], text, update_id=batch["update_id"])


def _failure_markers(failures: Iterable[Recorded], place_of: Callable[[str], int]) -> Iterator[FlowMarker]:
    for one in failures:
        if isinstance(one.event, FlowStateChanged) and one.event.error:
            at, error = _iso(one.at), one.event.error
            text = str(error.get("message") or "it failed")
            text = text if len(text) <= _LONGEST_TEXT else f"{text[:_LONGEST_TEXT].rstrip()} …"
            yield FlowMarker(
                *(MarkerKind.FAILURE, place_of(at), at, text),
                update_id=one.update_id,
                code=str(error["code"]) if error.get("code") else None,
            )


def _merged(group: Sequence[FlowMarker]) -> FlowMarker:
    last = group[-1]
    return FlowMarker(last.kind, last.place, last.at, last.text, len(group), last.update_id, last.code)


def _iso(at: datetime) -> str:
    return str(iso(at))
