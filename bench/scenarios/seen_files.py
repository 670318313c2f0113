"""Files that were seen long ago: what they cost a stream that looks for a hundred new ones.

Run by hand with `python bench/scenarios/seen_files.py WHAT FOLDER`, in the folder of a contestant; `memory` for the
bytes of memory that each file takes in a process that looks.
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
from headrace.autoloader.ledger import Ledger
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
    """Small files that have been there for a while, a thousand in each folder."""
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


class Looker:
    """A stream over the files, whose offset is kept beside it."""

    def __init__(self, data: Path, options: dict[str, str] | None = None) -> None:
        self._data = data
        self._kept = Path("offset.json")
        given = {"cloudFiles.format": "json", "cloudFiles.maxFilesPerTrigger": "100000000", **(options or {})}
        source = prepare(given, str(data), _SCHEMA, Place(Path("ledgers").absolute(), None, time.time_ns()))
        self.stream = FileStream(source, _CLOCK)
        found = json.loads(self._kept.read_text()) if self._kept.exists() else None
        self.offset = Offset.of(found) if found else self.stream.initial()

    def look(self) -> float:
        """Seconds until the next batch is known; it is read then."""
        began = time.perf_counter()
        end = self.stream.latest(self.offset, everything=False)
        seconds = time.perf_counter() - began
        self.offset = end
        self._kept.write_text(json.dumps(end.to_json()))
        return seconds

    def some_new(self) -> None:
        """A hundred new files in one folder."""
        folder = max(path for path in self._data.iterdir() if path.is_dir())
        _land(folder, range(_NEW), f"new-{time.monotonic_ns()}")


def first(data: Path) -> float:
    """Seconds of the first look."""
    return Looker(data).look()


def restart(data: Path) -> float:
    """Seconds from the start of a stream to its first batch."""
    Looker(data).some_new()
    began = time.perf_counter()
    Looker(data).look()
    return time.perf_counter() - began


def poll(data: Path) -> float:
    """Seconds of a later look of a stream that runs, with new files in one folder."""
    looker = Looker(data)
    looker.look()
    looker.some_new()
    return looker.look()


def idle(data: Path) -> float:
    """Seconds of a later look of a stream that runs, with nothing new."""
    looker = Looker(data)
    looker.look()
    looker.look()
    return looker.look()


def full(data: Path) -> float:
    """Seconds of a look at everything that finds nothing."""
    looker = Looker(data)
    looker.look()
    with_all = Ledger.open(Path("ledgers").absolute(), looker.offset.ledger)
    # Due, as it is once a day.
    with_all.note("full_look_s", "0")
    with_all.close()
    return looker.look()


def memory(data: Path) -> float:
    """Bytes of memory that each file takes in a stream that has restarted and looked at everything."""
    process = psutil.Process()
    before = process.memory_info().rss
    looked = full(data)
    del looked
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
    # New files of an earlier call are none of the data.
    for part in ("many", "few"):
        for file in (folder / part).glob("*/new-*"):
            file.unlink()


SCENARIO = Scenario(
    about=f"{_NEW} new files among a million that were seen, and among {FEW:,}",
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
