"""A stream of files: the batches that a query takes, each the same files whenever it is made."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from headrace.autoloader.changed_files import note_changes
from headrace.autoloader.clean_source import clean
from headrace.autoloader.discovery import SETTLED_S, Clock
from headrace.autoloader.discovery_modes import Discovery, discovery_of
from headrace.autoloader.file_states import committed_number, forget
from headrace.autoloader.ledger import FIRST_NUMBER, Ledger
from headrace.autoloader.positions import LedgerState, Offset, position_problem
from headrace.autoloader.reading.splits import DIVISIBLE, Split, packed, splits_of
from headrace.autoloader.rebuilt_batches import renewed
from headrace.autoloader.relocation import settle_place
from headrace.autoloader.source import Source

# As spark.sql.files.maxPartitionBytes and openCostInBytes have it.
_SPLIT_BYTES = 128 * 1024 * 1024
_OPENING_BYTES = 4 * 1024 * 1024
# How often a stream without end compares files that it has read with what they were.
_COMPARED_S = 10.0
_UNDIVIDED = ("multiLine", "wholeText", "lineSep", "encoding", "charset")


@dataclass(frozen=True)
class Work:
    """What one task reads, and all files of its batch, which a schema that grows is inferred from."""

    splits: tuple[Split, ...]
    batch: tuple[str, ...]


class FileStream:
    """One query's view of its files; offsets come from Spark, files and numbers from the ledger."""

    def __init__(self, source: Source, clock: Clock) -> None:
        self._source = source
        self._options = source.options
        self._clock = clock
        self._ledgers = Path(source.ledgers)
        self._ledger: Ledger | None = None
        self._made: Ledger | None = None
        self._discovery: Discovery | None = None
        # When files that were read were last compared with what they were.
        self._compared_ns = 0
        # The end of the batch that this process has planned last.
        self._planned: Offset | None = None
        # The number that the ledger was last compared with what Spark has planned at.
        self._agreed: int | None = None
        # Of a triggered query: its last number is that of what was there at its start.
        self._ends = False
        self._last: int | None = None

    def initial(self) -> Offset:
        """Before the first file; of a stream that has read nothing yet, in a ledger of its own."""
        self._made = Ledger.create(self._ledgers)
        ledger = self._use(self._made.id)
        if not self._options.include_existing:
            self._looking(ledger).look_until_settled()
        first = ledger.last_number
        ledger.note(FIRST_NUMBER, str(first))
        ledger.flush()
        return Offset(ledger.id, first)

    def end_at_what_is_there(self) -> None:
        """Read what is there when the next batch is asked for, and no more."""
        self._ends, self._last = True, None

    def latest(self, start: Offset, *, everything: bool) -> Offset:
        """The end of the batch behind *start*: of all files, or of as many as the options allow."""
        ledger = self._use(start.ledger)
        after = self._after(start, ledger)
        self._agree(ledger, after)
        most = None if everything else self._options.max_files
        last = self._last if self._ends else None
        if last is None:
            before = ledger.last_number
            # What waits already is enough for the next batch.
            if self._ends or everything or before - after < self._options.max_files:
                self._look(ledger, after)
            last = ledger.last_number
            if last > before:
                ledger.flush()
            self._last = last if self._ends else None
        most_bytes = None if everything else self._options.max_bytes
        end = ledger.end_of_batch(after, last, most_files=most, most_bytes=most_bytes)
        self._planned = Offset(ledger.id, end)
        return self._planned

    def newest(self) -> Offset | None:
        """How far the files go that are known; None before the first batch."""
        return Offset(self._ledger.id, self._ledger.last_number) if self._ledger else None

    def work(self, start: Offset, end: Offset) -> list[Work]:
        """What the tasks of a batch read."""
        ledger = self._use(end.ledger)
        self._agree(ledger, end.number)
        after = self._after(start, ledger)
        files = ledger.files(after, end.number)
        if end != self._planned:
            # Another process has planned the batch: files may have changed since.
            done = end.number <= committed_number(ledger)
            files = renewed(ledger, self._source.tree.store, files, self._clock, done=done)
        return _divided([(f.path, f.size, f.mtime_ns) for f in files], self._source)

    def committed(self, end: Offset) -> None:
        """Note what is in the target, and clean up what may be."""
        ledger = self._use(end.ledger)
        now_ms = self._clock.now_ns() // 1_000_000
        ledger.committed(end.number, now_ms=now_ms)
        if self._options.clean_source != "OFF":
            clean(ledger, self._options, self._source.tree, now_ms)
        if self._options.max_age_s is not None:
            forget(ledger, now_ms - int(self._options.max_age_s * 1000), end.number)
        ledger.flush()

    def close(self) -> None:
        """Let go of the ledger."""
        if self._ledger is not None:
            self._ledger.close()
            self._ledger = None
        if self._discovery is not None:
            self._discovery.close()
            self._discovery = None

    def _look(self, ledger: Ledger, after: int) -> None:
        discovery, now_ns = self._looking(ledger), self._clock.now_ns()
        if not self._options.overwrites and not 0 <= now_ns - self._compared_ns < _COMPARED_S * 1_000_000_000:
            self._compared_ns = now_ns
            every_s = self._options.full_look_s
            note_changes(ledger, self._source.tree.store, after, now_ns=now_ns, all_every_s=every_s)
        if self._ends:
            discovery.look_until_settled()
            return
        discovery.look()
        if ledger.last_number == after and discovery.waits_for:
            # Nothing else to do: a file that is settling is not kept waiting for another trigger.
            self._clock.sleep_s(SETTLED_S)
            discovery.look()

    def _looking(self, ledger: Ledger) -> Discovery:
        if self._discovery is None:
            self._discovery = discovery_of(self._source, ledger, self._clock, stays=not self._ends)
        return self._discovery

    def _use(self, ledger_id: str) -> Ledger:
        if self._ledger is None or self._ledger.id != ledger_id:
            self.close()
            self._agreed = None
            self._ledger = Ledger.open(self._ledgers, ledger_id)
            settle_place(self._ledger, self._source.tree)
        if self._made is not None and self._made.id != ledger_id:
            # A first batch that is made again has a ledger, and the new one is not needed.
            self._made.remove()
            self._made = None
        return self._ledger

    def _agree(self, ledger: Ledger, planned: int) -> None:
        """Compare the ledger with the first number that Spark names, which its checkpoint has planned."""
        if self._agreed is None:
            problem = position_problem(LedgerState.of(ledger), planned)
            if problem is not None:
                raise problem
        self._agreed = planned

    def _after(self, start: Offset, ledger: Ledger) -> int:
        """The number to read behind; a start of another ledger is the beginning of this one."""
        return start.number if start.ledger == ledger.id else ledger.first_number


def all_work(source: Source, now_ns: int) -> list[Work]:
    """What the tasks read that read everything that is there now, in the order of time."""
    selection = source.tree.selection
    files = sorted(
        (file.mtime_ns, str(Path(folder, file.name)), file.size)
        for folder, file in source.tree.files()
        if selection.admits_time(file.mtime_ns, now_ns)
    )
    return _divided([(path, size, mtime_ns) for mtime_ns, path, size in files], source)


def _divided(files: Sequence[tuple[str, int, int]], source: Source) -> list[Work]:
    """Work for tasks of about the same size; small batches are divided too, so that all cores have something to do."""
    given = source.options.format_options
    divisible = source.options.file_format in DIVISIBLE and not any(name in given for name in _UNDIVIDED)
    total = sum(size + _OPENING_BYTES for _, size, _ in files)
    step = max(min(_SPLIT_BYTES, total // max(source.tasks, 1)), _OPENING_BYTES)
    splits = list(splits_of(files, divisible=divisible, most_bytes=step))
    batch = tuple(path for path, _, _ in files) if source.plan.evolves else ()
    tasks = max(source.tasks, -(-total // _SPLIT_BYTES))
    return [Work(tuple(group), batch) for group in packed(splits, tasks, _OPENING_BYTES)]
