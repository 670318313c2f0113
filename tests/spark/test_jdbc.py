"""A real PostgreSQL as a source of pipelines: each row once over crashes, a server that stops, no secret anywhere."""

from __future__ import annotations

import pytest

from headrace.model.outcome import UpdateState
from headrace.testing import Crashed, Failpoint

pytestmark = pytest.mark.spark

ORDERS = """
    @dp.table
    @dp.expect("known", "id > 0")
    def orders():
        return (
            spark.readStream.format("jdbc_incremental")
            .options(
                url="{url}",
                user="reader",
                password=spark.conf.get("orders.password"),
                dbtable="orders",
                cursorColumn="changed_at",
                maxRowsPerTrigger=3,
                numPartitions=2,
            )
            .load()
        )
"""


@pytest.fixture
def orders(postgres):
    """Makes the table, and adds rows, all of one time."""
    postgres.execute(
        "DROP TABLE IF EXISTS orders",
        "CREATE TABLE orders (id int PRIMARY KEY, changed_at timestamptz NOT NULL, doc jsonb)",
    )

    def add(*ids):
        values = ", ".join(f"({number}, '2026-01-01T00:00:00Z', '{{\"n\": {number}}}')" for number in ids)
        postgres.execute(f"INSERT INTO orders VALUES {values}")

    return add


def text_below(folder):
    return {file: file.read_bytes() for file in folder.rglob("*") if file.is_file()}


@pytest.mark.long(
    guard=(
        "tests/unit/sources/test_jdbc.py::test_every_row_is_read_once_despite_equal_cursor_values_limits_and_restarts",
        "tests/unit/sources/test_jdbc.py::test_the_password_is_absent_from_serialized_and_displayed_text",
        "tests/spark/test_synthetic.py::test_a_stream_has_the_same_rows_as_a_batch_despite_a_crash",
    )
)
def test_each_row_is_written_once_despite_a_crash_and_no_secret_is_stored(project, postgres, orders):
    orders(1, 2, 3, 4, 5)
    pipeline = project(ORDERS.format(url=postgres.jdbc_url), configuration={"orders.password": postgres.password})
    settings = pipeline.folder / "pipeline.yml"

    with pytest.raises(Crashed):
        pipeline.crash_at(Failpoint.WRITTEN, skip=1).run()
    orders(6)
    result = pipeline.restart().run()

    assert result.state is UpdateState.COMPLETED, result.outcome.error
    assert [row["id"] for row in result.rows("orders")] == [1, 2, 3, 4, 5, 6]
    assert result.rows("orders")[0]["doc"] == '{"n": 1}'
    assert pipeline.run().written == 0
    secret = postgres.password.encode()
    assert [file for file, text in text_below(pipeline.folder).items() if secret in text and file != settings] == []


def test_a_dropped_source_table_fails_the_stream_with_the_reason_and_no_password(
    headrace_session, postgres, orders, tmp_path
):
    orders(1)
    reader = headrace_session.readStream.format("jdbc_incremental").options(
        **postgres.options(dbtable="orders", cursorColumn="changed_at")
    )
    frame = reader.load()
    plan = frame._jdf.queryExecution().toString()
    postgres.execute("DROP TABLE orders")
    query = (
        frame.writeStream.format("noop")
        .option("checkpointLocation", str(tmp_path / "checkpoint"))
        .trigger(availableNow=True)
        .start()
    )

    with pytest.raises(Exception, match=r"JDBC\.READ") as raised:
        query.awaitTermination()

    said = f"{raised.value} {plan} {query.lastProgress} {query._jsq.explainInternal(True)}"  # noqa: FBT003 - of py4j
    assert "cannot be read" in said
    assert postgres.password not in said
    assert [file for file, text in text_below(tmp_path).items() if postgres.password.encode() in text] == []
