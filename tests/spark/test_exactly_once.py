"""The law of the sinks: rows written, quarantined and dropped are together the rows of the function, come what may."""

from __future__ import annotations

import pytest

from headrace.model.outcome import FlowCounts, UpdateState
from headrace.testing import Crashed, Point

pytestmark = pytest.mark.spark

IDS = frozenset(range(120))
BATCHES = [[{"id": number} for number in range(first, first + 40)] for first in (0, 40, 80)]
LANDING = """
    @dp.table
    def source():
        return spark.readStream.schema("id INT").json(spark.conf.get("landing"))
    """
RANDOM = LANDING + """
    @dp.table
    @dp.expect_or_quarantine("coin", "rand() < 0.5")
    @dp.expect_or_drop("not a fifth", "id % 5 != 0")
    @dp.expect("small", "id < 100")
    def target():
        return spark.readStream.option("maxFilesPerTrigger", 1).table("source")
    """


def ids(rows):
    return [row["id"] for row in rows]


def totals(pipeline, flow="target"):
    return pipeline.project.events().flow_totals().get(flow, FlowCounts())


@pytest.mark.parametrize("skip", [0, 1])
@pytest.mark.parametrize("point", [Point.QUARANTINED, Point.WRITTEN, Point.COUNTED])
def test_no_row_is_lost_or_doubled_when_an_update_dies_within_a_batch(project, point, skip):
    pipeline = project(RANDOM, {"configuration": {"landing": "unused"}}).given("source", *BATCHES, schema="id INT")

    with pytest.raises(Crashed):
        pipeline.crash_at(point, skip=skip).run("target")
    pipeline.restart().run("target")

    written = ids(pipeline.rows("target"))
    aside = ids(row["row"] for row in pipeline.rows("target_quarantine"))
    kept = [*written, *aside]
    assert len(kept) == len(set(kept))
    assert {number for number in IDS if number % 5} <= set(kept)
    counts = totals(pipeline)
    assert (counts.rows_written, counts.rows_quarantined, counts.rows_dropped) == (
        len(written),
        len(aside),
        len(IDS) - len(kept),
    )
