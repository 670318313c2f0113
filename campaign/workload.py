"""The projects that the campaign lets die: one of every kind of commit, one that merges, and one that keeps state."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable, Collection, Iterator, Sequence
from enum import Enum
from pathlib import Path

from campaign.changes import PIPELINE as MERGES
from campaign.changes import rows_of_slice
from campaign.state import KEEPING, rows_that_end
from campaign.state import PIPELINE as KEEPS
from campaign.state import rows_of_slice as events_of_slice

# Files of one slice; each is a batch of its own of every stream.
SLICE = 2
ROWS = 40
VIEWS = frozenset({"totals", *(f"{name}_by_batch" for name in KEEPING)})
STREAMS = ("bronze", "silver", "per_kind", "per_minute", "movements")
TARGETS = {"movements": "ledger", "opening": "ledger"}

_KINDS = ("start", "stop", "reading", None)
# Commits are what is hit; code for a handful of rows takes longer to make than to do without.
_SETTINGS = """\
name: campaign
id: campaign
configuration:
  spark.sql.codegen.factoryMode: NO_CODEGEN
  spark.sql.codegen.wholeStage: "false"
"""
_MODULE = '''\
"""A module of the project, which the Python workers have to find."""


def grade_of(amount):
    return None if amount is None else "abc"[amount % 3]
'''
_PIPELINE = """\
from grades import grade_of
from headrace import pipelines as dp
from pyspark.sql import functions as F

SCHEMA = "id BIGINT, kind STRING, amount BIGINT, at TIMESTAMP"
grade = F.udf(grade_of, "string")


def one_by_one(name):
    return spark.readStream.option("maxFilesPerTrigger", 1).table(name)


# Spark's own sink.
@dp.table
def bronze():
    return spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", 1).json({landing!r})


# The sink that sets rows aside.
@dp.table
@dp.expect("small", "amount < 900")
@dp.expect_or_drop("kind known", "kind IS NOT NULL")
@dp.expect_or_quarantine("positive", "amount > 0")
def silver():
    return one_by_one("bronze").withColumn("grade", grade("amount"))


# Complete mode: each batch replaces the table.
@dp.table
def per_kind():
    return one_by_one("silver").groupBy("kind", "grade").agg(F.count("*").alias("n"), F.sum("amount").alias("amount"))


# State behind Spark's own sink.
@dp.table
def per_minute():
    minute = F.window("at", "1 minute")
    stream = one_by_one("bronze").withWatermark("at", "1 minute")
    return stream.groupBy(minute).count().select(F.col("window.start").alias("minute"), "count")


dp.create_streaming_table("ledger", expect_all_or_drop={{"not the last": "id % 10 != 9"}})


@dp.append_flow(target="ledger", once=True)
def opening():
    return spark.read.schema(SCHEMA).json({opening!r}).select("id", "kind", "amount")


@dp.append_flow(target="ledger")
def movements():
    return one_by_one("silver").select("id", "kind", "amount")


@dp.materialized_view
@dp.expect_or_quarantine("frequent", "kind <> 'stop'")
def totals():
    return spark.read.table("ledger").groupBy("kind").agg(F.count("*").alias("n"), F.sum("amount").alias("amount"))
"""


class Scenario(str, Enum):
    """What the storage holds when the victim starts."""

    FIRST = "first run"  # nothing
    NEXT = "next run"  # the first slice
    REFRESH = "full refresh"  # everything, which the victim computes anew
    ENDLESS = "continuous"  # the first slice; the victim goes on until it is hit
    LOAD = "backfill"  # bronze and silver; the victim loads a part of them into a stream that has read nothing
    CHANGES = "changes"  # tables that one slice of change events was merged into; the victim merges the next
    STATE = "state"  # streams that keep state of one slice; the victim goes on with the next, which closes everything


_BEFORE = {
    Scenario.NEXT: "one-slice",
    Scenario.REFRESH: "whole-next",
    Scenario.ENDLESS: "one-slice",
    Scenario.LOAD: "read-in",
    Scenario.CHANGES: "one-slice-of-changes",
    Scenario.STATE: "one-slice-of-events",
}
# Projects of their own; the others are of the one that makes every kind of commit.
_TEXTS = {Scenario.CHANGES: MERGES, Scenario.STATE: KEEPS}
# What the victim of a backfill loads.
LOADED = ("movements", "version:3")


class Ground:
    """The input of all points of a campaign, and the storages that they start from.

    Args:
        base: a folder; what is in it is replaced.
    """

    def __init__(self, base: Path) -> None:
        self.base = base
        self._landing = base / "landing"
        self._changes = base / "changes"
        self._events = base / "events"
        shutil.rmtree(base, ignore_errors=True)
        self._landing.mkdir(parents=True)
        self._changes.mkdir()
        self._events.mkdir()
        _write(base / "opening.json", _rows(-1))

    def prepare(
        self,
        run: Callable[[Path, Scenario], None],
        begin: Callable[[Path, Sequence[str]], None],
        scenarios: Collection[Scenario],
    ) -> None:
        """Land the input, and make the uninterrupted projects of scenarios, to be compared with.

        Args:
            run: runs one update of a project, as the scenario does.
            begin: runs an update that nothing is compared with, of these tables (none: of all).
            scenarios: which; a full refresh is one of what the next run has made.
        """
        self._land(range(SLICE))
        if not set(scenarios) <= _TEXTS.keys():
            run(self.project("one-slice"), Scenario.FIRST)
        for scenario in _TEXTS.keys() & set(scenarios):
            begin(self.project(_BEFORE[scenario], _TEXTS[scenario]), ())
        self._land(range(SLICE, 2 * SLICE))
        for number in (2 * SLICE, 2 * SLICE + 1):
            _land_file(self._events, number, rows_that_end(number))
        if Scenario.LOAD in scenarios:
            begin(self.project("read-in"), ("bronze", "silver"))
        for scenario in Scenario:
            if scenario in scenarios:
                run(self.point(scenario, f"whole-{scenario.name.lower()}"), scenario)

    def point(self, scenario: Scenario, name: str) -> Path:
        """A project of its own, with the storage that the scenario starts from."""
        folder = self.project(name, _TEXTS.get(scenario, _PIPELINE))
        if scenario in _BEFORE:
            shutil.copytree(self.base / _BEFORE[scenario] / "storage", folder / "storage")
        return folder

    def project(self, name: str, text: str = _PIPELINE) -> Path:
        """A project of its own, which has never run; one that has the name is replaced."""
        folder = self.base / name
        shutil.rmtree(folder, ignore_errors=True)
        (folder / "transformations").mkdir(parents=True)
        (folder / "pipeline.yml").write_text(_SETTINGS, encoding="utf-8")
        (folder / "grades.py").write_text(_MODULE, encoding="utf-8")
        inputs = {"landing": self._landing, "opening": self.base / "opening.json", "changes": self._changes}
        inputs["events"] = self._events
        text = text.format(**{name: str(path) for name, path in inputs.items()})
        (folder / "transformations" / "project.py").write_text(text, encoding="utf-8")
        return folder

    def _land(self, numbers: range) -> None:
        for number in numbers:
            _land_file(self._landing, number, _rows(number))
            _land_file(self._changes, number, rows_of_slice(number))
            _land_file(self._events, number, events_of_slice(number))


def words_of(scenario: Scenario) -> list[str]:
    """The command line of a victim."""
    flow, end = LOADED
    verb = {
        Scenario.REFRESH: ["run", "--full-refresh-all"],
        Scenario.ENDLESS: ["run", "--continuous"],
        Scenario.LOAD: ["backfill", flow, "--to", end],
    }
    return ["--output", "json", *verb.get(scenario, ["run"])]


def _rows(number: int) -> Iterator[dict[str, object]]:
    for position in range(ROWS):
        row = (number + 1) * ROWS + position
        yield {
            "id": row,
            "kind": _KINDS[row % len(_KINDS)],
            "amount": row * 7919 % 1100 - 100,
            # Never late: which windows close does not depend on where a batch ends.
            "at": f"2026-01-01T00:{(number + 1) * 4 + position // 10:02}:{position:02}Z",
        }


def _land_file(folder: Path, number: int, rows: Iterator[dict[str, object]]) -> None:
    file = folder / f"part-{number:03}.json"
    _write(file, rows)
    # Spark takes the oldest file first.
    os.utime(file, (1_700_000_000 + number, 1_700_000_000 + number))


def _write(file: Path, rows: Iterator[dict[str, object]]) -> None:
    draft = file.with_name(f".{file.name}")
    draft.write_text("".join(f"{json.dumps(row)}\n" for row in rows), encoding="utf-8")
    draft.replace(file)
