"""Messages of Debezium become the rows of the table in the database, whichever way its connector writes them."""

from __future__ import annotations

import base64
import datetime as dt
import json
from decimal import Decimal

import pytest

from headrace.errors import Problems

pytestmark = pytest.mark.spark

MESSAGES = """
    from pathlib import Path

    def messages(folder):
        schema = "value BINARY, offset BIGINT"
        return spark.readStream.schema(schema).json(str(Path(__file__).parents[1] / folder))
    """
TEXT = (
    MESSAGES
    + """
    ROW = "id INT, name STRING, note STRING, price DECIMAL(12,2), born DATE, made TIMESTAMP, seen TIMESTAMP_NTZ"

    @dp.temporary_view
    def customers():
        units = {"made": "text", "seen": "micros"}
        return dp.debezium(messages("landing"), ROW, timestamps=units, decimals="bytes")

    def apply(target, **more):
        dp.create_streaming_table(target)
        dp.create_auto_cdc_flow(
            target=target, source="customers", keys=["id"], sequence_by="_debezium.sequence", **more
        )

    apply("current")
    apply("partial", columns_to_update="_debezium.sets", column_list=["id", "name", "note"])
    apply("truncated", apply_as_truncates="_debezium.op = 't'", column_list=["id", "name"])
    apply("versions", stored_as_scd_type=2, column_list=["id", "name"])
    """
)


def row(number, name, **more):
    return {"id": number, "name": name, "note": None, "price": None, "born": None, "made": None, "seen": None, **more}


def event(op, lsn, before=None, after=None, **source):
    """A change as the connector of PostgreSQL tells it."""
    told = {
        "version": "3.0.5.Final",
        "connector": "postgresql",
        "name": "pgserver1",
        "ts_ms": 1714000000000 + lsn,
        "snapshot": "last" if op == "r" else "false",
        "db": "inventory",
        "sequence": f'["{lsn - 8}","{lsn}"]',
        "schema": "public",
        "table": "customers",
        "txId": 555,
        "lsn": lsn,
        "xmin": None,
        **source,
    }
    return {
        "before": before,
        "after": after,
        "source": told,
        "op": op,
        "ts_ms": 1714000000999 + lsn,
        "transaction": None,
    }


def wrapped(change):
    schema = {"type": "struct", "fields": [], "optional": False, "name": "pgserver1.public.customers.Envelope"}
    return {"schema": schema, "payload": change}


def land(pipeline, name, *values):
    """Messages as files, as a topic's records are: bytes, and an offset."""

    def encoded(value):
        if value is None:
            return None
        text = value if isinstance(value, str) else json.dumps(value)
        return base64.b64encode(text.encode()).decode()

    pipeline.land(name, [{"value": encoded(value), "offset": number} for number, value in enumerate(values)])


EVE = row(
    4,
    "Eve",
    price=base64.b64encode((-12345).to_bytes(2, "big", signed=True)).decode(),
    born=18262,
    made="2024-04-25T00:26:40.123456Z",
    seen=1714004800123456,
)
GONE = {"id": 2, "name": None, "note": None, "price": None, "born": None, "made": None, "seen": None}
UNKNOWN = "__debezium_unavailable_value"
FLATTENED = {"id": 1, "name": "flattened"}
UNBORN = event("c", 2500, after=row(5, "Zed", born="soon"))
DAMAGED = '{"before": null, "after": {"id": "one"}, "op": "c"}'
LONG = pytest.mark.long(guard="its other cases")


@pytest.fixture(scope="module")
def few(shared_project):
    return applied(shared_project(TEXT), "current", "partial")


@pytest.fixture(scope="module")
def rest(shared_project):
    return applied(shared_project(TEXT), "truncated", "versions")


def applied(pipeline, *targets):
    # What happened last comes first.
    land(
        pipeline,
        "landing/1.json",
        event("d", 2400, before=GONE),
        None,
        wrapped(event("u", 2300, after=row(1, "Ada King", note=UNKNOWN))),
        event("t", 2100),
        DAMAGED,
        "no JSON at all",
        FLATTENED,
        UNBORN,
        event("r", 2000, after=row(1, "Ada", note="a long note")),
        wrapped(event("r", 2000, after=row(2, "Bob"))),
        event("c", 2050, after=row(3, "Cyd")),
        event("c", 2350, after=EVE),
    )
    return pipeline.run(*targets)


def rows(result, name, *columns):
    return sorted(tuple(found[column] for column in columns) for found in result.rows(name))


@pytest.mark.parametrize(
    ("of", "table", "columns", "expected"),
    [
        ("few", "current", ("id", "name"), [(1, "Ada"), (3, "Cyd"), (4, "Eve")]),
        (
            *("few", "partial", ("id", "name", "note")),
            [(1, "Ada King", "a long note"), (3, "Cyd", None), (4, "Eve", None)],
        ),
        pytest.param("rest", "truncated", ("id", "name"), [(4, "Eve")], marks=LONG),
    ],
)
def test_rows_equal_the_table_in_the_database(of, table, columns, expected, request):
    result = request.getfixturevalue(of)

    assert rows(result, table, *columns) == expected


@pytest.mark.long(
    guard=(
        "tests/spark/test_debezium.py::test_rows_equal_the_table_in_the_database",
        "tests/spark/test_change_feed.py::test_the_documented_events_produce_the_documented_rows",
    )
)
def test_versions_are_ordered_by_the_log_position_of_the_database(rest):
    found = {(v["id"], v["name"]): (v["__START_AT"], v["__END_AT"]) for v in rest.rows("versions")}

    start, end = found[2, "Bob"]
    assert (start["position"], end["position"]) == ("2000".rjust(20, "0"), "2400".rjust(20, "0"))


def test_values_have_the_declared_column_types(few):
    (eve,) = [found for found in few.rows("current") if found["id"] == 4]

    assert (eve["price"], eve["born"]) == (Decimal("-123.45"), dt.date(2020, 1, 1))
    assert eve["made"].isoformat().startswith("2024-04-25T00:26:40.123456")
    assert eve["seen"].isoformat() == "2024-04-25T00:26:40.123456"


def test_unusable_messages_are_quarantined_unchanged(few):
    aside = [(found["row"]["_debezium"], found["broken"]) for found in few.rows("current_quarantine")]

    read = {beside["op"]: broken for beside, broken in aside if "cdc.unreadable" not in broken}
    unread = {beside["value"]: beside["error"] for beside, broken in aside if "cdc.unreadable" in broken}
    no_row = "it is not JSON with values of the column types"
    assert read == {"t": ["cdc.null_key", "cdc.truncate"], "u": ["cdc.unavailable_value"]}
    assert unread == {
        DAMAGED: no_row,
        "no JSON at all": no_row,
        json.dumps(FLATTENED): "it is not a change event: its operation is missing or unknown",
        json.dumps(UNBORN): 'column "born" has no readable date value',
    }


ARGUMENTS = (
    MESSAGES
    + """
    def reads(name, *arguments, **more):
        @dp.temporary_view(name=name)
        def opened():
            return dp.debezium(messages("landing"), *arguments, **more)

    reads("no_row")
    reads("no_unit", "id INT, made TIMESTAMP")
    reads("other_unit", "id INT, made TIMESTAMP", timestamps="seconds")
    reads("no_decimals", "id INT, price DECIMAL(5,2)")
    reads("inside", "id INT, days ARRAY<DATE>")
    reads("no_type", "id INTEGR")
    reads("no_registry", subject="customers-value")
    """
)


def test_missing_and_ambiguous_arguments_are_refused_by_name(project):
    pipeline = project(ARGUMENTS)
    land(pipeline, "landing/1.json", None)

    with pytest.raises(Problems) as refused:
        pipeline.project.validate()

    assert {problem.code for problem in refused.value} == {"DEBEZIUM.ARGUMENT"}
    said = sorted(problem.params["argument"] for problem in refused.value)
    assert said == ["decimals", "row", "row", "row", "subject", "timestamps", "timestamps"]
