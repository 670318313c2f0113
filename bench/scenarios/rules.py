"""Expectations: the same streaming table with 0, 1, 10 and 50 rules; what the rules cost over none."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from data import SCHEMA, write_events
from deltalake import DeltaTable
from scenario import Contestant, Scenario, Step, program

_COUNTS = (0, 1, 10, 50)
_BASE = "no rules"
_PIPELINE = """\
from headrace import pipelines as dp


@dp.expect_all({rules!r})
@dp.streaming_table
def events():
    return spark.readStream.schema({schema!r}).json({data!r})
"""
# Each is true of nearly every row, and none is like another, so that the optimizer cannot make one of two.
_SHAPES = ("amount > {} - 200", "device <> -{}", "length(note) < 100 + {}", "kind <> 'k{}'", "id % 1000003 <> -{}")


def rules(count: int) -> dict[str, str]:
    """The first so many rules."""
    return {f"rule {number}": _SHAPES[number % len(_SHAPES)].format(number + 1) for number in range(count)}


def _contestant(count: int) -> Contestant:
    def prepare(work: Path, data: Path) -> None:
        text = _PIPELINE.format(rules=rules(count), schema=SCHEMA, data=str(data))
        (work / "transformations").mkdir()
        (work / "pipeline.yml").write_text("name: rules\n", encoding="utf-8")
        (work / "transformations" / "events.py").write_text(text, encoding="utf-8")

    def steps(_work: Path, _data: Path) -> Sequence[Step]:
        return (Step("first update, cold", (program("headrace"), "run", "--quiet")),)

    def rows(work: Path) -> int:
        return int(DeltaTable(str(work / "storage" / "tables" / "default" / "events")).count())

    name = _BASE if not count else f"{count} rule{'s' * (count > 1)}"
    return Contestant(name, prepare, steps, rows)


SCENARIO = Scenario(
    about="JSON into one streaming table with 0, 1, 10 and 50 rules that count",
    rows=5_000_000,
    make_data=write_events,
    expected_rows=lambda rows: rows,
    contestants=tuple(map(_contestant, _COUNTS)),
    base=_BASE,
)
