"""The changes of a plan, worst first: what each does, what undoes it, what depends on it and what it costs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any

from headrace.errors import PipelineError
from headrace.model.change_classes import ChangeClass
from headrace.model.sizes import size_text


class Undo(str, Enum):
    """What brings back the state before a change."""

    SAVEPOINT = "savepoint"
    CODE = "code"
    RENAME = "rename"
    REMOVAL = "removal"
    NOTHING = "nothing"
    NOT_NEEDED = "not needed"


UNDO: dict[ChangeClass, Undo] = {
    ChangeClass.BLOCKED: Undo.NOT_NEEDED,
    ChangeClass.DESTRUCTIVE: Undo.SAVEPOINT,
    ChangeClass.REBUILD: Undo.SAVEPOINT,
    ChangeClass.RESTART: Undo.SAVEPOINT,
    ChangeClass.REDELIVER: Undo.NOTHING,
    ChangeClass.RECOMPUTE: Undo.CODE,
    ChangeClass.FORWARD_ONLY: Undo.CODE,
    ChangeClass.WIDEN: Undo.NOTHING,
    ChangeClass.ANNOTATE: Undo.CODE,
    ChangeClass.ADD: Undo.REMOVAL,
    ChangeClass.RENAME: Undo.RENAME,
    ChangeClass.RETIRE: Undo.CODE,
    ChangeClass.DATA: Undo.SAVEPOINT,
}
_UNDO_TEXTS: dict[ChangeClass, str] = {
    ChangeClass.DESTRUCTIVE: "only a savepoint made before",
    ChangeClass.REBUILD: "a savepoint made before",
    ChangeClass.RESTART: "a savepoint made before",
    ChangeClass.REDELIVER: "nothing",
    ChangeClass.RECOMPUTE: "the code of before, which computes it again",
    ChangeClass.FORWARD_ONLY: "the code of before; rows that the new code wrote stay",
    ChangeClass.WIDEN: "nothing; the table keeps the columns and types",
    ChangeClass.ANNOTATE: "the code of before",
}
# Listed by name alone: the steps of the plan say the rest.
_SHORT = (ChangeClass.ADD, ChangeClass.RENAME, ChangeClass.RETIRE)
_CLASS_WIDTH = max(len(known.value) for known in ChangeClass)
_INDENT = " " * (_CLASS_WIDTH + 4)


@dataclass(frozen=True)
class OldRows:
    """The rows that older code wrote, and that stay as they are.

    Attributes:
        rows: in the table; None if unknown, as for a sink.
        versions: the first and the last version of the table; None for a sink.
        epoch: of the flow.
        batch: the newest completed one of the epoch; None before the first, and for flows without a checkpoint.
        positions: how far each source was read, in words.
        mend: the command that computes them again with the new code; empty if nothing has to be.
        caution: what to know before running it.
    """

    rows: int | None
    versions: tuple[int, int] | None
    epoch: int
    batch: int | None
    positions: tuple[str, ...] = ()
    mend: str = ""
    caution: str = ""

    def describe(self) -> str:
        """The range in one line."""
        rows = "the rows" if self.rows is None else _count(self.rows, "row")
        versions = f" of versions {self.versions[0]} to {self.versions[1]}" if self.versions else ""
        batches = "" if self.batch is None else f", batches 0 to {self.batch} of epoch {self.epoch}"
        return f"{rows}{versions}{batches}"

    @classmethod
    def of(cls, document: Mapping[str, Any]) -> OldRows:
        """The inverse of :meth:`to_json`.

        Raises:
            LookupError, TypeError, ValueError: it is something else.
        """
        versions, batch, rows = document["versions"], document["batch"], document["rows"]
        return cls(
            None if rows is None else int(rows),
            (int(versions[0]), int(versions[1])) if versions else None,
            int(document["epoch"]),
            None if batch is None else int(batch),
            tuple(map(str, document["positions"])),
            str(document["mend"] or ""),
            str(document["caution"] or ""),
        )

    def to_json(self) -> dict[str, Any]:
        """The range for programs."""
        return {
            "rows": self.rows,
            "versions": list(self.versions) if self.versions else None,
            "epoch": self.epoch,
            "batch": self.batch,
            "positions": list(self.positions),
            "mend": self.mend or None,
            "caution": self.caution or None,
        }


@dataclass(frozen=True)
class Work:
    """What is read again because of a change, and what that costs; None where unknown.

    ``core_seconds`` is the time of all cores together, from the rows and the median of the flow's recent batches.
    """

    rows: int | None = None
    size_bytes: int | None = None
    core_seconds: float | None = None

    def describe(self) -> str:
        """The work in words; empty if nothing is known."""
        rows = [] if self.rows is None else [_count(self.rows, "row")]
        size = [] if self.size_bytes is None else [size_text(self.size_bytes)]
        read = " and ".join([*rows, *size])
        cost = "" if self.core_seconds is None else f", about {self.core_seconds:.3g} core-seconds"
        return f"{read}{cost}" if read else ""


@dataclass(frozen=True)
class Change:
    """One change of a plan.

    Attributes:
        change_class: its class.
        dataset: the dataset that changes.
        flow: the flow, if the change is one of a single flow.
        why: the reason.
        downstream: the datasets that depend on it, directly or through others.
        rows_cleared: rows that are removed, those in quarantine included.
        work: what is read again; None if nothing is.
        old_rows: for a change that only new rows see, the rows of before.
        error: why it is blocked; None for a change that is not, or whose reason says it all.
    """

    change_class: ChangeClass
    dataset: str
    flow: str | None
    why: str
    downstream: tuple[str, ...] = ()
    rows_cleared: int = 0
    work: Work | None = None
    old_rows: OldRows | None = None
    error: PipelineError | None = None

    @property
    def name(self) -> str:
        """What changes, for the reader."""
        if not self.dataset:
            return "the update"
        return self.dataset if self.flow in (None, self.dataset) else f"{self.dataset} (flow {self.flow})"

    @property
    def undo(self) -> Undo:
        """What undoes it."""
        return UNDO[self.change_class]

    @property
    def undo_text(self) -> str:
        """What undoes it, in words; empty if that is plain."""
        return _UNDO_TEXTS.get(self.change_class, "")

    @property
    def way_on(self) -> str:
        """What the user can do about a blocked change, on one line; empty if the reason says it."""
        return "" if self.error is None else " ".join(self.error.hint.split())

    def facts(self) -> Iterator[tuple[str, str]]:
        """What else is known of it, as labels and texts."""
        if self.error is not None:
            yield "error", self.error.code
        if self.way_on:
            yield "to continue", self.way_on
        if self.rows_cleared:
            yield "clears", _count(self.rows_cleared, "row")
        if self.work is not None and self.work.describe():
            yield "reads again", self.work.describe()
        if self.old_rows is not None:
            yield "keeps", f"{self.old_rows.describe()}, written by older code"
            yield from (("source", position) for position in self.old_rows.positions)
            if self.old_rows.mend:
                yield "to mend", self.old_rows.mend
            if self.old_rows.caution:
                yield "but", self.old_rows.caution
        if self.downstream:
            yield "below", ", ".join(self.downstream)
        if self.undo_text:
            yield "undone by", self.undo_text

    @classmethod
    def of(cls, document: Mapping[str, Any]) -> Change:
        """The change of a document, without an error: a plan with a blocked change is never stored.

        Raises:
            LookupError, TypeError, ValueError: it is something else.
        """
        names = ("rows_read", "bytes_read", "core_seconds")
        rows, size_bytes, core_seconds = (document.get(name) for name in names)
        old_rows, flow = document.get("old_rows"), document["flow"]
        return cls(
            ChangeClass(document["class"]),
            str(document["dataset"]),
            None if flow is None else str(flow),
            str(document["why"]),
            tuple(map(str, document.get("downstream", ()))),
            int(document["rows_cleared"]),
            Work(
                None if rows is None else int(rows),
                None if size_bytes is None else int(size_bytes),
                None if core_seconds is None else float(core_seconds),
            ),
            None if not old_rows else OldRows.of(old_rows),
        )

    def to_json(self) -> dict[str, Any]:
        """The change for programs."""
        work = self.work or Work()
        return {
            "class": self.change_class.value,
            "dataset": self.dataset,
            "flow": self.flow,
            "why": self.why,
            "undone_by": self.undo.value,
            "downstream": list(self.downstream),
            "rows_cleared": self.rows_cleared,
            "rows_read": work.rows,
            "bytes_read": work.size_bytes,
            "core_seconds": work.core_seconds,
            "old_rows": self.old_rows.to_json() if self.old_rows else None,
            **({"error": self.error.to_json()} if self.error else {}),
        }


def describe_changes(changes: Iterable[Change]) -> list[str]:
    """The lines of a plan about what it changes in what is deployed; none if it only adds, renames or reads data."""
    shown = [change for change in changes if change.change_class is not ChangeClass.DATA]
    if not any(change.change_class.rank < ChangeClass.ADD.rank for change in shown):
        return []
    lines = ["changes, worst first:"]
    for change in shown:
        if change.change_class not in _SHORT:
            lines.append(f"  {change.change_class.value:<{_CLASS_WIDTH}}  {change.name}: {change.why}")
            lines += [f"{_INDENT}{label}: {text}" for label, text in change.facts()]
    for short in _SHORT:
        names = ", ".join(change.name for change in shown if change.change_class is short)
        lines += [f"  {short.value:<{_CLASS_WIDTH}}  {names}"] if names else []
    return [*lines, ""]


def _count(number: int, what: str) -> str:
    return f"{number} {what}{'' if number == 1 else 's'}"
