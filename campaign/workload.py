"""The projects of the campaign: one with every kind of commit, one with merges, and one with state."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable, Collection, Iterator, Sequence
from enum import Enum
from pathlib import Path

from campaign.changes import PIPELINE as MERGES
from campaign.changes import rows_of_slice
from campaign.state import PIPELINE as KEEPS
from campaign.state import STATEFUL_FLOWS, closing_rows
from campaign.state import rows_of_slice as events_of_slice
from campaign.stores import Disk, Store, copy_storage

# Files per slice; each is one batch of every stream.
SLICE = 2
ROWS = 40
VIEWS = frozenset({"totals", *(f"{name}_by_batch" for name in STATEFUL_FLOWS)})
STREAMS = ("bronze", "silver", "per_kind", "per_minute", "movements")
TARGETS = {"movements": "ledger", "opening": "ledger"}

_KINDS = ("start", "stop", "reading", None)
# Code generation does not pay off for a few rows.
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
@dp.table(table_properties={{"pipelines.autoOptimize.zOrderCols": "amount"}})
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
    """The content of the storage when the victim starts, and what the victim does."""

    FIRST = "first run"  # nothing
    NEXT = "next run"  # the first slice
    REFRESH = "full refresh"  # everything; the victim recomputes it
    ENDLESS = "continuous"  # the first slice; the victim runs until it is hit
    LOAD = "backfill"  # bronze and silver; the victim loads part of them into a stream that has read nothing
    CHANGES = "changes"  # tables with one slice of merged change events; the victim merges the next
    STATE = "state"  # streams with state of one slice; the victim reads the next, which closes all results


_BEFORE = {
    Scenario.NEXT: "one-slice",
    Scenario.REFRESH: "whole-next",
    Scenario.ENDLESS: "one-slice",
    Scenario.LOAD: "read-in",
    Scenario.CHANGES: "one-slice-of-changes",
    Scenario.STATE: "one-slice-of-events",
}
# Scenarios with their own project; the others use the project with every kind of commit.
_TEXTS = {Scenario.CHANGES: MERGES, Scenario.STATE: KEEPS}
# The flow and end of the victim's backfill.
LOADED = ("movements", "version:3")


class Workspace:
    """The input of all points of a campaign, and the storages they start from.

    Args:
        base: a folder, whose content is replaced.
        store: where the storages lie.
    """

    def __init__(self, base: Path, store: Store | None = None) -> None:
        self.base = base
        self._store = store or Disk()
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
        """Write the input, and run the uninterrupted projects of scenarios, the baselines.

        Args:
            run: runs one update of a project, as in the scenario.
            begin: runs an update of these tables (empty: all), which is not a baseline.
            scenarios: the scenarios; a full refresh starts from the result of the next run.
        """
        self._land(range(SLICE))
        if not set(scenarios) <= _TEXTS.keys():
            run(self.project("one-slice"), Scenario.FIRST)
        for scenario in _TEXTS.keys() & set(scenarios):
            begin(self.project(_BEFORE[scenario], _TEXTS[scenario]), ())
        self._land(range(SLICE, 2 * SLICE))
        for number in (2 * SLICE, 2 * SLICE + 1):
            _land_file(self._events, number, closing_rows(number))
        if Scenario.LOAD in scenarios:
            begin(self.project("read-in"), ("bronze", "silver"))
        for scenario in Scenario:
            if scenario in scenarios:
                run(self.point(scenario, f"whole-{scenario.name.lower()}"), scenario)

    def point(self, scenario: Scenario, name: str) -> Path:
        """Create a project with the initial storage of the scenario."""
        folder = self.project(name, _TEXTS.get(scenario, _PIPELINE))
        if scenario in _BEFORE:
            copy_storage(self.base / _BEFORE[scenario], folder)
        return folder

    def project(self, name: str, text: str = _PIPELINE) -> Path:
        """Create a project that has never run; replaces an existing one."""
        folder = self.base / name
        shutil.rmtree(folder, ignore_errors=True)
        (folder / "transformations").mkdir(parents=True)
        (folder / "pipeline.yml").write_text(_SETTINGS + self._store.place(folder), encoding="utf-8")
        (folder / "grades.py").write_text(_MODULE, encoding="utf-8")
        inputs = {"landing": self._landing, "opening": self.base / "opening.json", "changes": self._changes}
        inputs["events"] = self._events
        text = text.format(**{name: str(path) for name, path in inputs.items()})
        (folder / "transformations" / "project.py").write_text(text, encoding="utf-8")
        return folder

    def delete(self, folder: Path) -> None:
        """Delete a project and its storage, even while a session still writes there."""
        self._store.delete(folder)
        shutil.rmtree(folder, ignore_errors=True)

    def _land(self, numbers: range) -> None:
        for number in numbers:
            _land_file(self._landing, number, _rows(number))
            _land_file(self._changes, number, rows_of_slice(number))
            _land_file(self._events, number, events_of_slice(number))


def command_of(scenario: Scenario) -> list[str]:
    """The command line of a victim, without the program."""
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
            # Never late: batch boundaries do not affect which windows close.
            "at": f"2026-01-01T00:{(number + 1) * 4 + position // 10:02}:{position:02}Z",
        }


def _land_file(folder: Path, number: int, rows: Iterator[dict[str, object]]) -> None:
    file = folder / f"part-{number:03}.json"
    _write(file, rows)
    # Spark reads the oldest file first.
    os.utime(file, (1_700_000_000 + number, 1_700_000_000 + number))


def _write(file: Path, rows: Iterator[dict[str, object]]) -> None:
    draft = file.with_name(f".{file.name}")
    draft.write_text("".join(f"{json.dumps(row)}\n" for row in rows), encoding="utf-8")
    draft.replace(file)
