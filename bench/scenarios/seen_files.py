"""What long-seen files cost a stream that discovers a hundred new ones.

Run by hand with `python bench/scenarios/seen_files.py WHAT FOLDER`, in the folder of a contestant; `memory` prints
the bytes of memory per file in the process of a stream.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import psutil
from scenario import Contestant, Scenario, Step

from headrace.autoloader.discovery import Clock
from headrace.autoloader.ledger.ledger import Ledger
from headrace.autoloader.preparing import Place, prepare
from headrace.autoloader.stream import FileStream, Offset

FEW = 10_000
_IN_FOLDER = 1000
_NEW = 100
_CLOCK = Clock(time.time_ns, time.sleep)
_SCHEMA = {"type": "struct", "fields": [{"name": "id", "type": "long", "nullable": True, "metadata": {}}]}
_STEPS = {
    "first": "first look at everything",
    "restart": "restart to the first batch, one folder changed",
    "poll": "poll of a running stream, one folder changed",
    "idle": "poll of a running stream, nothing new",
    "full": "full verification",
}


def make_files(folder: Path, count: int) -> None:
    """Write small, old files, a thousand per folder."""
    if (folder / "_READY").exists():
        return
    for place in range(0, count, _IN_FOLDER):
        inner = folder / f"{place // _IN_FOLDER:05}"
        inner.mkdir(parents=True, exist_ok=True)
        _land(inner, range(min(_IN_FOLDER, count - place)), "old")
        os.utime(inner, (1_700_000_000, 1_700_000_000))
    (folder / "_READY").touch()


def _land(folder: Path, numbers: Sequence[int], word: str) -> None:
    for number in numbers:
        file = folder / f"{word}-{number}.json"
        file.write_text('{"id":1}')
        os.utime(file, (1_700_000_000, 1_700_000_000))


class Poller:
    """A stream over the files that stores its offset in a file of the working folder."""

    def __init__(self, data: Path, options: dict[str, str] | None = None) -> None:
        self._data = data
        self._offset_file = Path("offset.json")
        given = {"cloudFiles.format": "json", "cloudFiles.maxFilesPerTrigger": "100000000", **(options or {})}
        source = prepare(given, str(data), _SCHEMA, Place(Path("ledgers").absolute(), None, time.time_ns()))
        self.stream = FileStream(source, _CLOCK)
        found = json.loads(self._offset_file.read_text()) if self._offset_file.exists() else None
        self.offset = Offset.of(found) if found else self.stream.initial()

    def poll_seconds(self) -> float:
        """Seconds until the next batch is planned; the offset then counts as read."""
        began = time.perf_counter()
        end = self.stream.latest(self.offset, everything=False)
        seconds = time.perf_counter() - began
        self.offset = end
        self._offset_file.write_text(json.dumps(end.to_json()))
        return seconds

    def add_new_files(self) -> None:
        """Write a hundred new files into one folder."""
        folder = max(path for path in self._data.iterdir() if path.is_dir())
        _land(folder, range(_NEW), f"new-{time.monotonic_ns()}")


def first(data: Path) -> float:
    """Seconds of the first poll."""
    return Poller(data).poll_seconds()


def restart(data: Path) -> float:
    """Seconds from the start of a stream to its first batch."""
    Poller(data).add_new_files()
    began = time.perf_counter()
    Poller(data).poll_seconds()
    return time.perf_counter() - began


def poll(data: Path) -> float:
    """Seconds of a later poll of a running stream, with new files in one folder."""
    poller = Poller(data)
    poller.poll_seconds()
    poller.add_new_files()
    return poller.poll_seconds()


def idle(data: Path) -> float:
    """Seconds of a later poll of a running stream, with nothing new."""
    poller = Poller(data)
    poller.poll_seconds()
    poller.poll_seconds()
    return poller.poll_seconds()


def full(data: Path) -> float:
    """Seconds of a full verification that finds nothing new."""
    poller = Poller(data)
    poller.poll_seconds()
    with_all = Ledger.open(Path("ledgers").absolute(), poller.offset.ledger)
    # Makes the daily verification due.
    with_all.set_note("full_look_s", "0")
    with_all.close()
    return poller.poll_seconds()


def memory(data: Path) -> float:
    """Bytes of memory per file, in a stream that restarted and verified all files."""
    process = psutil.Process()
    before = process.memory_info().rss
    full(data)
    count = sum(len(files) for _, _, files in os.walk(data))
    return (process.memory_info().rss - before) / count


def _contestant(name: str, share: Callable[[Path], Path]) -> Contestant:
    def steps(_work: Path, data: Path) -> Sequence[Step]:
        program = (sys.executable, str(Path(__file__).resolve()))
        return tuple(Step(label, (*program, step, str(share(data))), cold=False) for step, label in _STEPS.items())

    return Contestant(name, lambda _work, _data: None, steps, lambda _work: 0)


def _make_data(folder: Path, rows: int) -> None:
    make_files(folder / "many", rows)
    make_files(folder / "few", FEW)
    # Removes the new files of earlier calls.
    for part in ("many", "few"):
        for file in (folder / part).glob("*/new-*"):
            file.unlink()


SCENARIO = Scenario(
    about=f"{_NEW} new files among a million files already seen, and among {FEW:,}",
    rows=1_000_000,
    make_data=_make_data,
    expected_rows=lambda _rows: 0,
    contestants=(
        _contestant(f"{FEW:,} seen", lambda data: data / "few"),
        _contestant("all seen", lambda data: data / "many"),
    ),
    base=f"{FEW:,} seen",
)

if __name__ == "__main__":
    if sys.argv[1] == "make":
        shutil.rmtree(sys.argv[2], ignore_errors=True)
        make_files(Path(sys.argv[2]), int(sys.argv[3]))
    else:
        print(f"measured {globals()[sys.argv[1]](Path(sys.argv[2])):.4f}")
