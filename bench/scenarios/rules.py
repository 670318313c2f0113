"""Expectations: the same streaming table with 0, 1, 10 and 50 rules; the extra cost of the rules."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.json as pj
import pyarrow.parquet as pq
from data import SCHEMA, write_events
from scenario import Contestant, Scenario, Step, program, rows_of_each

_ARROW_SCHEMA = pa.schema(
    {"id": pa.int64(), "device": pa.int32(), "kind": pa.string(), "amount": pa.float64(), "note": pa.string()}
)
_COUNTS = (0, 1, 10, 50)
_BASE = "no rules"
_PIPELINE = """\
from headrace import pipelines as dp


@dp.expect_all({rules!r})
@dp.streaming_table
def events():
    return spark.readStream.schema({schema!r}).format({form!r}).load({data!r})
"""
_FORMS = ("json", "parquet")
# Each holds for nearly every row, and all differ, so that the optimizer cannot merge any two.
_SHAPES = ("amount > {} - 200", "device <> -{}", "length(note) < 100 + {}", "kind <> 'k{}'", "id % 1000003 <> -{}")


def rules(count: int) -> dict[str, str]:
    """The first *count* rules."""
    return {f"rule {number}": _SHAPES[number % len(_SHAPES)].format(number + 1) for number in range(count)}


def make_data(folder: Path, rows: int) -> None:
    """Write the events as JSON lines, and again as Parquet."""
    write_events(folder / "json", rows)
    columnar = folder / "parquet"
    if (columnar / "_READY").exists():
        return
    columnar.mkdir(exist_ok=True)
    for file in (folder / "json").glob("*.json"):
        # The same nullability as the schema that the pipelines declare.
        columns = pj.read_json(file).cast(_ARROW_SCHEMA)
        pq.write_table(columns, columnar / f"{file.stem}.parquet")
    (columnar / "_READY").touch()


def _contestant(count: int) -> Contestant:
    def prepare(work: Path, data: Path) -> None:
        for form in _FORMS:
            text = _PIPELINE.format(rules=rules(count), schema=SCHEMA, form=form, data=str(data / form))
            (work / form / "transformations").mkdir(parents=True)
            (work / form / "pipeline.yml").write_text("name: rules\n", encoding="utf-8")
            (work / form / "transformations" / "events.py").write_text(text, encoding="utf-8")

    def steps(_work: Path, _data: Path) -> Sequence[Step]:
        run = (program("headrace"), "--project")
        return tuple(Step(f"first update, cold, {form}", (*run, form, "run", "--quiet")) for form in _FORMS)

    def rows(work: Path) -> int:
        tables = [work / form / "storage" / "tables" / "default" / "events" for form in _FORMS]
        return rows_of_each(table for table in tables if table.exists())

    name = _BASE if not count else f"{count} rule{'s' * (count > 1)}"
    return Contestant(name, prepare, steps, rows)


SCENARIO = Scenario(
    about="one streaming table with 0, 1, 10 and 50 expectations that warn, over JSON and over Parquet",
    rows=5_000_000,
    make_data=make_data,
    expected_rows=lambda rows: rows,
    contestants=tuple(map(_contestant, _COUNTS)),
    base=_BASE,
)
