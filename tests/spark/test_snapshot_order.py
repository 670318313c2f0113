"""However snapshots are parted into updates, and where one of them dies, tables hold what their series defines.

The examples are keys of their own in the same snapshots. `make campaign ARGS="--only orders"` tries hundreds.
"""

from __future__ import annotations

from functools import cache
from random import Random

import pytest
from hypothesis import strategies as st
from tests.drawn_examples import ASKED, EXAMPLES, drawn
from tests.tiers import EVERYTHING, LONGEST_S

from headrace.testing import Crashed, Failpoint, difference

pytestmark = [pytest.mark.spark, pytest.mark.timeout(LONGEST_S)]

SNAPSHOTS, UPDATES = 5 if ASKED else 4 if EVERYTHING else 3, 3
BATCHINGS = 3 if ASKED else 2
KEYS = range(1, 6)

FLOWS = """
    from pathlib import Path

    FOLDER = Path(__file__).parents[1]
    ROW = "example INT, key INT, city STRING, rank INT"

    def compare(target, batching, **more):
        def next_snapshot(latest):
            number = (latest or 0) + 1
            if number > int((FOLDER / f"until-{batching}.txt").read_text()):
                return None
            return spark.read.schema(ROW).json(str(FOLDER / "snapshots" / f"{number}.json")), number

        dp.create_streaming_table(target)
        dp.create_auto_cdc_from_snapshot_flow(target, next_snapshot, ["example", "key"], **more)

    """
# Of each kind of table, the arguments of its flow and the columns whose change begins a version.
KINDS = {
    "current": ("stored_as_scd_type=1", ()),
    "tracked": ('stored_as_scd_type=2, track_history_column_list=["rank"]', ("rank",)),
}
if ASKED:
    KINDS["versions"] = ("stored_as_scd_type=2", ("city", "rank"))
# In `make test` one batching a kind.
TARGETS = (
    [(kind, batching) for kind in KINDS for batching in range(BATCHINGS)]
    if ASKED or EVERYTHING
    else [("current", 0), ("tracked", 1)]
)


@cache
def examples():
    """Series of snapshots, each the city and rank of some keys."""
    city, rank = st.sampled_from([None, "Oslo", "Rome"]), st.sampled_from([None, 1, 2])
    snapshot = st.dictionaries(st.sampled_from(KEYS), st.tuples(city, rank))
    return drawn(st.lists(snapshot, min_size=SNAPSHOTS, max_size=SNAPSHOTS))


def expected(series, tracked):
    """The rows of a series: those of the last snapshot, or all versions where columns are tracked."""
    if not tracked:
        return [{"key": key, "city": city, "rank": rank} for key, (city, rank) in series[-1].items()]
    closed, opened = [], {}
    for number, snapshot in enumerate(series, 1):
        for key in KEYS:
            row = dict(zip(("city", "rank"), snapshot[key], strict=True)) if key in snapshot else None
            was = opened.get(key)
            goes_on = was is not None and row is not None and all(was[name] == row[name] for name in tracked)
            if was is not None and not goes_on:
                closed.append({**opened.pop(key), "__END_AT": number})
            if row is not None:
                begun = was["__START_AT"] if goes_on else number
                opened[key] = {"key": key, **row, "__START_AT": begun, "__END_AT": None}
    return [*closed, *opened.values()]


@pytest.fixture(scope="module")
def taken(shared_project):
    """The tables after all snapshots, all of which batching 0 has from the beginning; the first update dies."""
    calls = [f'compare("{kind}_{batching}", {batching}, {KINDS[kind][0]})' for kind, batching in TARGETS]
    pipeline = shared_project("\n    ".join([FLOWS, *calls]))
    for number in range(SNAPSHOTS):
        rows = [
            {"example": example, "key": key, "city": city, "rank": rank}
            for example, series in enumerate(examples())
            for key, (city, rank) in series[number].items()
        ]
        pipeline.land(f"snapshots/{number + 1}.json", rows)
    chance = Random(EXAMPLES)
    cuts = [sorted(chance.choices(range(1, SNAPSHOTS), k=UPDATES - 1)) for _ in range(BATCHINGS)]
    for update in range(UPDATES):
        last = update == UPDATES - 1
        for batching in range(BATCHINGS):
            until = SNAPSHOTS if last or batching == 0 else cuts[batching][update]
            pipeline.write(f"until-{batching}.txt", str(until))
        if update == 0:
            with pytest.raises(Crashed):
                pipeline.crash_at(chance.choice([Failpoint.BEFORE_WRITE, Failpoint.WRITTEN]), skip=1).run()
            pipeline = pipeline.restart()
        else:
            result = pipeline.run()
    return result


@pytest.mark.long(
    guard=(
        "tests/spark/test_snapshots.py::test_the_documented_snapshots_produce_the_documented_rows",
        "tests/unit/cdc/test_history.py::test_scd1_rows_do_not_depend_on_event_order_or_duplicates",
    )
)
@pytest.mark.parametrize("kind", KINDS)
def test_the_rows_do_not_depend_on_how_snapshots_are_divided_into_updates(taken, kind):
    faults = []
    for batching in [batching for of, batching in TARGETS if of == kind]:
        rows = taken.rows(f"{kind}_{batching}")
        for number, series in enumerate(examples()):
            own = [{name: row[name] for name in row if name != "example"} for row in rows if row["example"] == number]
            if text := difference(own, expected(series, KINDS[kind][1])):
                faults.append((sum(map(len, series)), f"batching {batching}: {text}\nof\n{series}"))

    assert not faults, min(faults)[1]


@pytest.mark.long(guard="tests/unit/cdc/test_history.py::test_scd1_rows_equal_the_open_scd2_versions")
def test_the_rows_of_scd_type_1_are_the_open_versions_of_scd_type_2(taken):
    current, versions = taken.rows("current_0"), taken.rows("tracked_1")

    opened = [row for row in versions if row["__END_AT"] is None]

    times = {"__START_AT", "__END_AT"}
    assert not difference(current, [{name: row[name] for name in row if name not in times} for row in opened])
