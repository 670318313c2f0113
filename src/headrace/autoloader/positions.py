"""Whether a ledger and the position of the checkpoint that reads through it belong together."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from headrace.autoloader.file_states import committed_number
from headrace.autoloader.ledger import Ledger
from headrace.errors import PipelineError


@dataclass(frozen=True)
class Offset:
    """Up to which number of which ledger a stream has read."""

    ledger: str
    number: int

    def to_json(self) -> dict[str, Any]:
        """The offset as Spark keeps it."""
        return {"ledger": self.ledger, "number": self.number}

    @staticmethod
    def of(document: Mapping[str, Any]) -> Offset:
        """The offset behind :meth:`to_json`."""
        return Offset(str(document["ledger"]), int(document["number"]))


@dataclass(frozen=True)
class LedgerState:
    """How far a ledger goes: the highest number it has given, and up to which one the rows are in the target."""

    file: str
    last: int
    committed: int

    @staticmethod
    def of(ledger: Ledger) -> LedgerState:
        """That of a ledger as it is now."""
        return LedgerState(str(ledger.file), ledger.last_number, committed_number(ledger))


def position_problem(state: LedgerState, planned: int) -> PipelineError | None:
    """What is wrong where a ledger meets a checkpoint that has planned up to a number; None when they agree.

    An older ledger would give the numbers that were read to files that were not, and pass over them. An older
    checkpoint would read again what is in the target, or what was cleaned up since.
    """
    if planned > state.last:
        return PipelineError("AUTO_LOADER.LEDGER_OLDER", file=state.file, last=state.last, planned=planned)
    if planned < state.committed:
        return PipelineError("AUTO_LOADER.LEDGER_NEWER", file=state.file, committed=state.committed, planned=planned)
    return None


def problem_of_offset(ledgers: str, offset: Mapping[str, Any]) -> PipelineError | None:
    """What keeps a stream from going on at an offset that its checkpoint has planned; None when nothing does.

    Args:
        ledgers: the folder of the source's ledgers.
        offset: the newest end of a batch in the checkpoint, done or not, as Spark keeps it.
    """
    at = Offset.of(offset)
    try:
        ledger = Ledger.open(Path(ledgers), at.ledger, read_only=True)
        try:
            return position_problem(LedgerState.of(ledger), at.number)
        finally:
            ledger.close()
    except PipelineError as error:
        return error
