"""A stream of files: the batches of a query. A repeated batch has the same files."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from headrace.autoloader.changed_files import record_changes
from headrace.autoloader.clean_source import clean_committed_files
from headrace.autoloader.discovery import STABLE_AFTER_S, Clock
from headrace.autoloader.discovery_modes import Discovery, open_discovery
from headrace.autoloader.ledger.file_states import committed_number, prune_files
from headrace.autoloader.ledger.ledger import FIRST_NUMBER, Ledger
from headrace.autoloader.ledger.positions import LedgerState, Offset, position_problem
from headrace.autoloader.ledger.relocation import relocate_ledger
from headrace.autoloader.ledger.stored_ledgers import create_ledger, open_ledger
from headrace.autoloader.reading.splits import DIVISIBLE, Split, pack, split_files
from headrace.autoloader.rebuilt_batches import refresh_files
from headrace.autoloader.source import Source
from headrace.stores.paths import storage_path

# The defaults of spark.sql.files.maxPartitionBytes and openCostInBytes.
_SPLIT_BYTES = 128 * 1024 * 1024
_OPENING_BYTES = 4 * 1024 * 1024
# How often a continuous stream compares the files it has read with their recorded states.
_COMPARE_INTERVAL_S = 10.0
_INDIVISIBLE_OPTIONS = ("multiLine", "wholeText", "lineSep", "encoding", "charset")


@dataclass(frozen=True)
class ReadTask:
    """The splits that one task reads, and all files of its batch, from which an evolving schema is inferred."""

    splits: tuple[Split, ...]
    batch: tuple[str, ...]


class FileStream:
    """The file stream of one query. Offsets come from Spark, files and their numbers from the ledger."""

    def __init__(self, source: Source, clock: Clock) -> None:
        self._source = source
        self._options = source.options
        self._clock = clock
        self._ledgers = storage_path(source.ledgers)
        self._ledger: Ledger | None = None
        self._new_ledger: Ledger | None = None
        self._discovery: Discovery | None = None
        # When read files were last compared with their recorded states.
        self._compared_ns = 0
        # The end of the batch that this process planned last.
        self._planned: Offset | None = None
        # The number that Spark planned, when it was last compared with the ledger.
        self._checked_number: int | None = None
        # A triggered query reads up to the last file that exists at its start.
        self._is_triggered = False
        self._last: int | None = None

    def initial(self) -> Offset:
        """Create a ledger and return the offset before the first file to read."""
        self._new_ledger = create_ledger(self._ledgers)
        ledger = self._open_ledger(self._new_ledger.id)
        if not self._options.include_existing:
            self._open_discovery(ledger).poll_until_stable()
        first = ledger.last_number
        ledger.set_note(FIRST_NUMBER, str(first))
        ledger.flush()
        return Offset(ledger.id, first)

    def end_at_what_is_there(self) -> None:
        """Read the files that exist when the next batch is planned, and then end."""
        self._is_triggered, self._last = True, None

    def latest(self, start: Offset, *, everything: bool) -> Offset:
        """The end of the batch after *start*, with all new files or as many as the options allow."""
        ledger = self._open_ledger(start.ledger)
        after = self._after(start, ledger)
        self._check_position(ledger, after)
        max_files = None if everything else self._options.max_files
        last = self._last if self._is_triggered else None
        if last is None:
            before = ledger.last_number
            # Otherwise enough files are waiting for the next batch.
            if self._is_triggered or everything or before - after < self._options.max_files:
                self._poll(ledger, after)
            last = ledger.last_number
            if last > after:
                # Before Spark plans a batch of these files.
                ledger.flush()
            self._last = last if self._is_triggered else None
        max_bytes = None if everything else self._options.max_bytes
        end = ledger.end_of_batch(after, last, max_files=max_files, max_bytes=max_bytes)
        self._planned = Offset(ledger.id, end)
        return self._planned

    def newest(self) -> Offset | None:
        """The offset of the newest known file; None before the first batch."""
        return Offset(self._ledger.id, self._ledger.last_number) if self._ledger else None

    def work(self, start: Offset, end: Offset) -> list[ReadTask]:
        """Plan the tasks of a batch."""
        ledger = self._open_ledger(end.ledger)
        self._check_position(ledger, end.number)
        after = self._after(start, ledger)
        files = ledger.files(after, end.number)
        if end != self._planned:
            # Another process planned the batch, so files may have changed since.
            is_committed = end.number <= committed_number(ledger)
            files = refresh_files(ledger, self._source.tree.store, files, self._clock, is_committed=is_committed)
            ledger.flush()
        return _divide([(f.path, f.size, f.mtime_ns) for f in files], self._source)

    def committed(self, end: Offset) -> None:
        """Record that a batch is in the target, and clean up files that are due."""
        ledger = self._open_ledger(end.ledger)
        now_ms = self._clock.now_ns() // 1_000_000
        ledger.record_commit(end.number, now_ms=now_ms)
        if self._options.clean_source != "OFF":
            clean_committed_files(ledger, self._options, self._source.tree, now_ms)
        if self._options.max_age_s is not None:
            prune_files(ledger, now_ms - int(self._options.max_age_s * 1000), end.number)
        ledger.flush()

    def close(self) -> None:
        """Close the ledger and the discovery."""
        if self._ledger is not None:
            self._ledger.close()
            self._ledger = None
        if self._discovery is not None:
            self._discovery.close()
            self._discovery = None

    def _poll(self, ledger: Ledger, after: int) -> None:
        discovery, now_ns = self._open_discovery(ledger), self._clock.now_ns()
        if (
            not self._options.allow_overwrites
            and not 0 <= now_ns - self._compared_ns < _COMPARE_INTERVAL_S * 1_000_000_000
        ):
            self._compared_ns = now_ns
            every_s = self._options.full_listing_interval_s
            record_changes(ledger, self._source.tree.store, after, now_ns=now_ns, full_interval_s=every_s)
        if self._is_triggered:
            discovery.poll_until_stable()
            return
        discovery.poll()
        if ledger.last_number == after and discovery.unstable_files:
            # There is nothing else to do: wait for the unstable file now, not until the next trigger.
            self._clock.sleep_s(STABLE_AFTER_S)
            discovery.poll()

    def _open_discovery(self, ledger: Ledger) -> Discovery:
        if self._discovery is None:
            self._discovery = open_discovery(self._source, ledger, self._clock, keeps_polling=not self._is_triggered)
        return self._discovery

    def _open_ledger(self, ledger_id: str) -> Ledger:
        if self._ledger is None or self._ledger.id != ledger_id:
            self.close()
            self._checked_number = None
            self._ledger = open_ledger(self._ledgers, ledger_id)
            relocate_ledger(self._ledger, self._source.tree)
        if self._new_ledger is not None and self._new_ledger.id != ledger_id:
            # A repeated first batch has its own ledger, so the new one is not needed.
            self._new_ledger.remove()
            self._new_ledger = None
        return self._ledger

    def _check_position(self, ledger: Ledger, planned: int) -> None:
        """Check the ledger against the first number that Spark passes, which its checkpoint has planned."""
        if self._checked_number is None:
            problem = position_problem(LedgerState.of(ledger), planned)
            if problem is not None:
                raise problem
        self._checked_number = planned

    def _after(self, start: Offset, ledger: Ledger) -> int:
        """The number to read after; a start offset of another ledger means the beginning of this one."""
        return start.number if start.ledger == ledger.id else ledger.first_number


def all_tasks(source: Source, now_ns: int) -> list[ReadTask]:
    """Plan tasks that read all existing files, ordered by modification time."""
    selection = source.tree.selection
    files = sorted(
        (file.mtime_ns, str(Path(folder, file.name)), file.size)
        for folder, file in source.tree.files()
        if selection.admits_time(file.mtime_ns, now_ns)
    )
    return _divide([(path, size, mtime_ns) for mtime_ns, path, size in files], source)


def _divide(files: Sequence[tuple[str, int, int]], source: Source) -> list[ReadTask]:
    """Divide files into tasks of about the same size; small batches are divided too, to use all cores."""
    given = source.options.format_options
    divisible = source.options.file_format in DIVISIBLE and not any(name in given for name in _INDIVISIBLE_OPTIONS)
    total = sum(size + _OPENING_BYTES for _, size, _ in files)
    step = max(min(_SPLIT_BYTES, total // max(source.tasks, 1)), _OPENING_BYTES)
    splits = list(split_files(files, divisible=divisible, max_bytes=step))
    batch = tuple(path for path, _, _ in files) if source.plan.evolves else ()
    tasks = max(source.tasks, -(-total // _SPLIT_BYTES))
    return [ReadTask(tuple(group), batch) for group in pack(splits, tasks, _OPENING_BYTES)]
