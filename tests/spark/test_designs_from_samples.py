"""Projects that `headrace design --sample` makes read the files of the sample, and keep each of their rows once."""

from __future__ import annotations

import io
import json
from datetime import UTC, datetime, timedelta

import fastavro
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyarrow import orc
from tests.command_line import in_process
from tests.spark.test_designs import pytest_in
from tests.tiers import ASKED

pytestmark = pytest.mark.spark
FAST = "tests/unit/cli/test_design_samples.py::test_a_project_from_files_reads_them_as_the_sample_was_read"
ROWS, REPEATED = 300, 6
REQUIREMENTS = """name: shop
sources:
  - {name: orders, kind: files}
outputs:
  - {name: once, kind: dedup, from: orders}
  - {name: good, kind: clean, from: once, rules: {some pieces: pieces > 0}}
latency: 10 minutes
"""


def orders():
    start = datetime(2026, 1, 1, tzinfo=UTC)
    rows = [
        {
            "order_id": f"o{number}",
            "pieces": number % 6,
            "placed_at": (start + timedelta(seconds=number - 40 * (number % 50 == 9))).isoformat(),
            "shop": f"s{number % 5}",
        }
        for number in range(ROWS)
    ]
    return [*rows, *rows[-REPEATED:]]


def separated(rows):
    return "\n".join(["\t".join(rows[0]), *("\t".join(map(str, row.values())) for row in rows)]).encode()


def with_times(rows):
    """Rows whose times are no texts, as files with types have them."""
    return [{**row, "placed_at": datetime.fromisoformat(row["placed_at"])} for row in rows]


def parquet(rows):
    rows = with_times(rows)
    stream = io.BytesIO()
    pq.write_table(pa.Table.from_pylist(rows), stream)
    return stream.getvalue()


def avro(rows):
    stream = io.BytesIO()
    kinds = {"pieces": "long", "placed_at": {"type": "long", "logicalType": "timestamp-micros"}}
    fields = [{"name": name, "type": kinds.get(name, "string")} for name in rows[0]]
    fastavro.writer(stream, {"type": "record", "name": "order", "fields": fields}, with_times(rows))
    return stream.getvalue()


def orc_file(rows):
    stream = pa.BufferOutputStream()
    orc.write_table(pa.Table.from_pylist(with_times(rows)), stream)
    return bytes(stream.getvalue())


FORMATS = {
    "json": lambda rows: "".join(f"{json.dumps(row)}\n" for row in rows).encode(),
    "array.json": lambda rows: json.dumps(rows, indent=1).encode(),
    "tsv": separated,
    "parquet": parquet,
    "avro": avro,
    "orc": orc_file,
}


@pytest.mark.long(guard=FAST)
@pytest.mark.parametrize("ending", FORMATS)
def test_a_project_from_a_sample_runs_on_the_files_of_the_sample(headrace_session, tmp_path, ending):
    landing, rows = tmp_path / "landing", orders()
    landing.mkdir()
    for number, part in enumerate((rows[:150], rows[150:])):
        (landing / f"{number}.{ending}").write_bytes(FORMATS[ending](part))
    file, folder = tmp_path / "requirements.yml", tmp_path / "project"
    file.write_text(REQUIREMENTS)
    words = (str(file), "--defaults", "--sample", str(landing), "--out", str(folder))
    made = in_process(tmp_path, "design", *words)
    assert made.returncode == 0, made.stdout + made.stderr

    place = ("--set", f"orders.path={landing}")
    done = in_process(folder, "run", "--profile", "production", "--output", "json", *place)

    assert done.returncode == 0, done.stdout + done.stderr
    counts = {
        flow["dataset"]: (flow["rows_written"], flow["rows_quarantined"]) for flow in json.loads(done.stdout)["flows"]
    }
    empty = sum(row["pieces"] == 0 for row in rows[:ROWS])
    assert counts["orders_bronze"] == (ROWS + REPEATED, 0)
    assert (counts["once"], counts["good"]) == ((ROWS, 0), (ROWS - empty, empty))
    # The generated tests bring their own rows, which are the same for each format.
    if ASKED and ending == "json":
        assert pytest_in(folder) == 0
