"""Kinesis, as moto serves it, as a source of pipelines: each record once over resharding and a crash, no key shown."""

from __future__ import annotations

import pytest
from tests.servers.kinesis import SECRET_KEY

from headrace.model.outcome import UpdateState
from headrace.testing import Crashed, Failpoint

pytestmark = pytest.mark.spark

CLICKS = """
    @dp.table
    @dp.expect("keyed", "partitionKey IS NOT NULL")
    def clicks():
        return spark.readStream.format("kinesis").options(**{options}).load()
"""


def values(result):
    return sorted(int(row["data"]) for row in result.rows("clicks"))


@pytest.mark.long(
    guard=(
        "tests/unit/sources/test_kinesis.py::test_every_record_is_read_once_across_shard_splits_merges_and_restarts",
        "tests/unit/sources/test_kinesis.py::test_a_retried_batch_ends_at_its_original_offset",
        "tests/spark/test_synthetic.py::test_a_stream_has_the_same_rows_as_a_batch_despite_a_crash",
    )
)
def test_each_record_is_written_once_despite_resharding_and_a_crash(project, kinesis):
    kinesis.make("clicks", shards=2)
    kinesis.put("clicks", *range(20))
    options = kinesis.options("clicks", initialPosition="trim_horizon", shardsPerTask=5)
    pipeline = project(CLICKS.format(options=options))

    with pytest.raises(Crashed):
        pipeline.crash_at(Failpoint.WRITTEN).run()
    kinesis.split("clicks")
    kinesis.put("clicks", *range(20, 40))
    result = pipeline.restart().run()

    assert result.state is UpdateState.COMPLETED, result.outcome.error
    assert values(result) == list(range(40))
    (said,) = (
        warned
        for warned in pipeline.project.events().warnings(result.outcome.update_id)
        if "shardsPerTask" in warned.message
    )
    assert "has no effect" in said.message
    secret, source = SECRET_KEY.encode(), pipeline.folder / "transformations"
    stored = [file for file in pipeline.folder.rglob("*") if file.is_file() and not file.is_relative_to(source)]
    assert [file for file in stored if secret in file.read_bytes()] == []


def test_a_missing_stream_fails_the_flow_with_its_name_and_without_secret_keys(project, kinesis):
    options = ", ".join(f"{name} => '{value}'" for name, value in kinesis.options("nowhere").items())
    query = f"CREATE STREAMING TABLE clicks AS SELECT * FROM STREAM read_kinesis({options})"
    pipeline = project(files={"transformations/clicks.sql": query})

    error = pipeline.project.run().error

    assert (error["code"], error["params"]["stream"]) == ("KINESIS.REFUSED", "nowhere")
    assert SECRET_KEY not in str(error)
