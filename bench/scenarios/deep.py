"""Fifty flows, five levels deep, a thousand rows each: the overhead of the engine itself."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

import sdp
from data import SCHEMA, write_events
from deltalake import DeltaTable
from scenario import Contestant, Scenario, Step, program

LEVELS = 5
CHAINS = 10
FIRST = "first update, cold"
NOTHING = "nothing new, cold"
_HEAD = """\
from {module} import pipelines as dp
from pyspark.sql import SparkSession

spark = SparkSession.active()

"""
_FIRST_LEVEL = """
@dp.table
def t{chain}_0():
    return spark.readStream.schema({schema!r}).json({data!r})

"""
_LEVEL = """
@dp.table
def t{chain}_{level}():
    frame = spark.readStream.table("t{chain}_{before}")
    return frame.selectExpr("id", "device", "kind", "amount + 1 AS amount", "note")

"""


def _pipeline(module: str, data: Path) -> str:
    text = _HEAD.format(module=module)
    for chain in range(CHAINS):
        text += _FIRST_LEVEL.format(chain=chain, schema=SCHEMA, data=str(data))
        text += "".join(_LEVEL.format(chain=chain, level=level, before=level - 1) for level in range(1, LEVELS))
    return text


def _project(module: str, file: str, settings: Callable[[Path], str]) -> Callable[[Path, Path], None]:
    def prepare(work: Path, data: Path) -> None:
        (work / "transformations").mkdir()
        (work / file).write_text(settings(work), encoding="utf-8")
        (work / "transformations" / "tables.py").write_text(_pipeline(module, data), encoding="utf-8")

    return prepare


def _steps(*command: str) -> Callable[[Path, Path], Sequence[Step]]:
    steps = (Step(FIRST, command), Step(NOTHING, command))
    return lambda _work, _data: steps


def _rows(work: Path) -> int:
    tables = work / "storage" / "tables"
    return sum(DeltaTable(str(log.parent)).count() for log in tables.glob("**/_delta_log"))


SCENARIO = Scenario(
    about=f"{LEVELS * CHAINS} flows, {LEVELS} levels deep",
    rows=1000,
    make_data=write_events,
    expected_rows=lambda rows: rows * LEVELS * CHAINS,
    contestants=(
        Contestant(
            "Spark's own pipelines (Parquet)",
            _project("pyspark", sdp.SETTINGS_FILE, partial(sdp.settings, "deep")),
            _steps(*sdp.RUN),
            sdp.rows,
            sdp.absent,
        ),
        Contestant(
            "headrace",
            _project("headrace", "pipeline.yml", lambda _work: "name: deep\n"),
            _steps(program("headrace"), "run", "--quiet"),
            _rows,
        ),
    ),
)
