"""Check that a ledger and the offset of its checkpoint belong together."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from contextlib import closing
from dataclasses import dataclass
from typing import Any

from headrace.autoloader.ledger.file_states import committed_number, forgotten_after, lost_after, take_back_commits
from headrace.autoloader.ledger.ledger import Ledger
from headrace.autoloader.ledger.stored_ledgers import has_ledger, open_ledger
from headrace.errors import PipelineError
from headrace.stores.paths import StoragePath, storage_path


@dataclass(frozen=True)
class Offset:
    """A ledger's id and the number up to which a stream has read it."""

    ledger: str
    number: int

    def to_json(self) -> dict[str, Any]:
        """The offset as Spark stores it."""
        return {"ledger": self.ledger, "number": self.number}

    @staticmethod
    def of(document: Mapping[str, Any]) -> Offset:
        """The inverse of :meth:`to_json`."""
        return Offset(str(document["ledger"]), int(document["number"]))


@dataclass(frozen=True)
class LedgerState:
    """The state of a ledger: the highest number it has given, and the number up to which rows are in the target."""

    file: str
    last: int
    committed: int

    @staticmethod
    def of(ledger: Ledger) -> LedgerState:
        """The current state of a ledger."""
        return LedgerState(ledger.place, ledger.last_number, committed_number(ledger))


def position_problem(state: LedgerState, planned: int) -> PipelineError | None:
    """The mismatch of a ledger with a checkpoint that has planned up to a number; None if they agree.

    An older ledger would give numbers that were already read to new files, and skip them. An older checkpoint would
    read files again that are in the target, or were cleaned up since.
    """
    if planned > state.last:
        return PipelineError("AUTO_LOADER.LEDGER_OLDER", file=state.file, last=state.last, planned=planned)
    if planned < state.committed:
        return PipelineError("AUTO_LOADER.LEDGER_NEWER", file=state.file, committed=state.committed, planned=planned)
    return None


def offset_problem(ledgers: str, offset: Mapping[str, Any]) -> PipelineError | None:
    """Why a stream cannot continue from the offset of its checkpoint; None if it can.

    Args:
        ledgers: the folder of the source's ledgers.
        offset: the newest planned end offset in the checkpoint, committed or not, as Spark stores it.
    """
    at = Offset.of(offset)
    try:
        ledger = open_ledger(storage_path(ledgers), at.ledger, read_only=True)
        try:
            return position_problem(LedgerState.of(ledger), at.number)
        finally:
            ledger.close()
    except PipelineError as error:
        return error


def lost_since(
    folders: Iterable[StoragePath], offset: Mapping[str, Any], exists: Callable[[str], bool]
) -> list[str] | None:
    """The files after an offset that no stream can read again, as paths or in words; None if the ledger is gone.

    Args:
        folders: where the ledger may be.
        offset: as Spark stores it.
        exists: whether a source file exists.
    """
    at = Offset.of(offset)
    root = next((folder for folder in folders if has_ledger(folder, at.ledger)), None)
    if root is None:
        return None
    with closing(open_ledger(root, at.ledger, read_only=True)) as ledger:
        forgotten = forgotten_after(ledger, at.number)
        return [file.path for file in lost_after(ledger, at.number, exists)] + ["a forgotten file"] * forgotten


def take_back_to(folders: Iterable[StoragePath], offset: Mapping[str, Any], exists: Callable[[str], bool]) -> None:
    """Make a stream that continues from an offset read all later files again, which may be in a target already.

    Args:
        folders: where the ledger may be; nothing happens if it is gone.
        offset: as Spark stores it.
        exists: whether a source file exists.
    """
    at = Offset.of(offset)
    root = next((folder for folder in folders if has_ledger(folder, at.ledger)), None)
    if root is not None:
        with closing(open_ledger(root, at.ledger)) as ledger:
            take_back_commits(ledger, at.number, lost_after(ledger, at.number, exists))
            ledger.flush()


def files_up_to(folders: Iterable[StoragePath], offset: Mapping[str, Any]) -> frozenset[tuple[str, int, int]] | None:
    """The files that a stream has read up to an offset, each with its size and its modification time.

    Args:
        folders: where the ledger may be.
        offset: as Spark stores it.

    Returns:
        None if the ledger is gone.
    """
    at = Offset.of(offset)
    root = next((folder for folder in folders if has_ledger(folder, at.ledger)), None)
    if root is None:
        return None
    with closing(open_ledger(root, at.ledger, read_only=True)) as ledger:
        files = ledger.files(ledger.first_number, at.number)
        return frozenset((file.path, file.size, file.mtime_ns) for file in files)
