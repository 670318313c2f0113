"""Random schedules of files that come and go, batches, and crashes between any two steps: each file once, none missed.

Spark's part is played by the machine: it writes down a batch's end before it reads it, and its commit after the rows
are in the target, which passes over a batch that it has. The file system's part too: an entry that comes or goes
changes the time of its folder.
"""

from __future__ import annotations

import json
import os
import shutil
import tempfile
from pathlib import Path

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule
from tests.tiers import examples

from headrace.autoloader.discovery import Clock
from headrace.autoloader.evolution import rows_of
from headrace.autoloader.ledger.positions import Offset
from headrace.autoloader.preparing import Place, prepare
from headrace.autoloader.stream import FileStream

NS = 1_000_000_000
EXAMPLES = examples(few=10, many=50)


class Schedule(RuleBasedStateMachine):
    """One stream over one folder."""

    def __init__(self):
        super().__init__()
        self.root = Path(tempfile.mkdtemp(prefix="schedule-"))
        self.data = self.root / "data"
        self.data.mkdir()
        self.now_s = 2_000_000_000.0
        self.touch(self.data)
        self.landed = set()
        self.open = {}
        self.gone = set()
        # Ends of batches as Spark wrote them down, how many of them are done, and what the target has of each.
        self.planned = []
        self.done = 0
        self.target = {}
        self.stream = None
        self.begin = None
        self.number = 0

    def clock(self):
        return Clock(now_ns=lambda: int(self.now_s * NS), sleep_s=self.sleep)

    def sleep(self, seconds):
        self.now_s += seconds

    def touch(self, path, age_s=0.0):
        at = int((self.now_s - age_s) * NS)
        os.utime(path, ns=(at, at))

    def opened(self):
        if self.stream is None:
            options = {"cloudFiles.format": "json", "cloudFiles.maxFilesPerTrigger": "2"}
            schema = {"type": "struct", "fields": [{"name": "id", "type": "long", "nullable": True, "metadata": {}}]}
            place = Place(self.root / "ledgers", None, int(self.now_s * NS))
            self.stream = FileStream(prepare(options, str(self.data), schema, place), self.clock())
            self.begin = None
        return self.stream

    def start_of(self, batch):
        if batch:
            return Offset.of(self.planned[batch - 1])
        if self.begin is None:
            self.begin = self.opened().initial()
        return self.begin

    @rule(folder=st.sampled_from(["", "a", "b", "a/c"]), age_s=st.sampled_from([0.0, 0.5, 10.0, 1e7]))
    def land(self, folder, age_s):
        self.number += 1
        place = self.data / folder
        fresh = [parent for parent in (place, *place.parents) if not parent.exists()]
        place.mkdir(parents=True, exist_ok=True)
        file = place / f"{self.number}.json"
        file.write_text(json.dumps({"id": self.number}))
        self.touch(file, age_s)
        for changed in (place, *fresh, *(parent.parent for parent in fresh)):
            self.touch(changed)
        self.landed.add(self.number)

    @rule()
    def open_file(self):
        """A writer makes a file, and has written nothing yet."""
        self.number += 1
        file = self.data / f"{self.number}.json"
        file.touch()
        self.touch(file)
        self.touch(self.data)
        self.open[self.number] = self.now_s

    @precondition(lambda self: self.open)
    @rule(data=st.data())
    def fill(self, data):
        """It writes, within a day, which its folder's time does not tell."""
        number = data.draw(st.sampled_from(sorted(self.open)))
        if self.now_s - self.open.pop(number) > 80_000:
            return
        file = self.data / f"{number}.json"
        file.write_text(json.dumps({"id": number}))
        self.touch(file)
        self.landed.add(number)

    @precondition(lambda self: self.target)
    @rule(data=st.data())
    def go(self, data):
        """A file that is in the target for good is taken away."""
        committed = {n for batch, numbers in self.target.items() if batch < self.done for n in numbers} - self.gone
        if committed:
            number = data.draw(st.sampled_from(sorted(committed)))
            (file,) = self.data.rglob(f"{number}.json")
            file.unlink()
            self.touch(file.parent)
            self.gone.add(number)

    @rule(seconds=st.sampled_from([0.1, 1.0, 3.0, 100_000.0]))
    def wait(self, seconds):
        self.now_s += seconds

    @rule()
    def crash(self):
        if self.stream is not None:
            self.stream.close()
            self.stream = None

    @precondition(lambda self: len(self.planned) == self.done)
    @rule(crashes=st.booleans())
    def plan(self, crashes):
        start = self.start_of(self.done)
        end = self.opened().latest(start, everything=False)
        if crashes:
            self.crash()
        elif end != start:
            self.planned.append(end.to_json())

    @precondition(lambda self: len(self.planned) > self.done)
    @rule(crashes=st.booleans())
    def run(self, crashes):
        numbers = self.read(self.done)
        assert self.target.setdefault(self.done, numbers) == numbers
        if crashes:
            self.crash()
        else:
            self.stream.committed(Offset.of(self.planned[self.done]))
            self.done += 1

    def read(self, batch):
        start, end = self.start_of(batch), Offset.of(self.planned[batch])
        work = self.opened().work(start, end)
        return sorted(
            row["id"] for one in work for found in rows_of(self.stream._source, one) for row in found.to_pylist()
        )

    @invariant()
    def no_file_is_there_twice(self):
        found = [number for numbers in self.target.values() for number in numbers]
        assert len(found) == len(set(found))

    def teardown(self):
        try:
            self.now_s += 10
            while True:
                if len(self.planned) > self.done:
                    self.run(crashes=False)
                    continue
                before = len(self.planned)
                self.plan(crashes=False)
                if len(self.planned) == before:
                    break
            assert {number for numbers in self.target.values() for number in numbers} == self.landed
        finally:
            self.crash()
            shutil.rmtree(self.root)


TestSchedules = Schedule.TestCase
TestSchedules.settings = settings(max_examples=EXAMPLES, stateful_step_count=40, deadline=None)
