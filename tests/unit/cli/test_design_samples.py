"""`headrace design --sample`: which files it reads, how much of them, and what it prints of them."""

from __future__ import annotations

import gzip
import io
import json
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import fastavro
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyarrow import orc

REQUIREMENTS = """name: shop
sources:
  - name: orders
    kind: kafka
outputs:
  - name: once
    kind: dedup
latency: 1 minute
"""
CANARY = "ann.canary@example.com"
PROPOSED = ["schema", "event_time", "keys", "duplicates", "within"]
Row = dict[str, Any]


def records(count: int = 300) -> list[Row]:
    start = datetime(2026, 1, 1, tzinfo=UTC)
    rows = [
        {
            "order_id": f"o{number}",
            "email": CANARY,
            "placed_at": (start + timedelta(seconds=number - 40 * (number % 50 == 9))).isoformat(),
            "pieces": number % 7,
        }
        for number in range(count)
    ]
    return [*rows, rows[-1], rows[-2]]


def with_times(rows: list[Row]) -> list[Row]:
    return [{**row, "placed_at": datetime.fromisoformat(row["placed_at"])} for row in rows]


def lines(rows: list[Row]) -> bytes:
    return "".join(f"{json.dumps(row)}\n" for row in rows).encode()


def csv(rows: list[Row]) -> bytes:
    return "\n".join([",".join(rows[0]), *(",".join(map(str, row.values())) for row in rows)]).encode()


def parquet(rows: list[Row]) -> bytes:
    stream = io.BytesIO()
    pq.write_table(pa.Table.from_pylist(rows), stream)
    return stream.getvalue()


def avro(rows: list[Row]) -> bytes:
    stream = io.BytesIO()
    moment = {"type": "long", "logicalType": "timestamp-micros"}
    kinds = {str: "string", int: "long", datetime: moment}
    fields = [{"name": name, "type": kinds[type(value)]} for name, value in rows[0].items()]
    fastavro.writer(stream, {"type": "record", "name": "order", "fields": fields}, rows)
    return stream.getvalue()


def orc_file(rows: list[Row]) -> bytes:
    stream = pa.BufferOutputStream()
    orc.write_table(pa.Table.from_pylist(rows), stream)
    return bytes(stream.getvalue())


@pytest.fixture
def file(tmp_path: Path) -> Path:
    found = tmp_path / "requirements.yml"
    found.write_text(REQUIREMENTS, encoding="utf-8")
    return found


@pytest.fixture
def sampled(cli: Any, file: Path, tmp_path: Path) -> Callable[..., Any]:
    """The JSON of a design from one file with a name and content, and its exit code."""

    def run(name: str, content: bytes, *words: str) -> Any:
        folder = tmp_path / "data"
        folder.mkdir(exist_ok=True)
        (folder / name).write_bytes(content)
        code, out, _ = cli("design", str(file), "--defaults", "--sample", str(folder), "--output", "json", *words)
        return code, json.loads(out)

    return run


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("a.json", lines(records())),
        ("a.jsonl", b"\xef\xbb\xbf" + lines(records())),
        ("a.ndjson.gz", gzip.compress(lines(records()))),
        ("a.json", json.dumps(records(), indent=2).encode()),
        ("a.csv", csv(records())),
        ("a.tsv", csv(records()).replace(b",", b"\t")),
        ("a.parquet", parquet(records())),
        ("a.avro", avro(records())),
        ("a.orc", orc_file(records())),
    ],
)
def test_each_format_gives_the_same_proposals(sampled: Any, name: str, content: bytes) -> None:
    code, found = sampled(name, content)

    answers = {one["path"].rpartition(".")[2]: one["answer"] for one in found["proposals"]}
    assert (code, list(answers)) == (0, PROPOSED)
    assert (answers["event_time"], answers["keys"], answers["within"]) == ("placed_at", "order_id", "1 minute")
    assert {part.strip().partition(" ")[2] for part in answers["schema"].split(",")} >= {"STRING", "TIMESTAMP"}
    assert [sample["rows"] for sample in found["samples"]] == [302]


@pytest.mark.parametrize(
    ("name", "content", "options"),
    [
        ("a.json", lines(records()), {}),
        ("a.json", json.dumps(records(), indent=2).encode(), {"multiLine": "true"}),
        ("a.csv", csv(records()), {"header": "true"}),
        ("a.tsv.gz", gzip.compress(csv(records()).replace(b",", b"\t")), {"header": "true", "sep": "\t"}),
        ("a.parquet", parquet(with_times(records())), {}),
        ("a.avro", avro(with_times(records())), {}),
        ("a.orc", orc_file(with_times(records())), {}),
    ],
)
def test_a_project_from_files_reads_them_as_the_sample_was_read(
    cli: Any, file: Path, tmp_path: Path, name: str, content: bytes, options: dict[str, str]
) -> None:
    file.write_text(REQUIREMENTS.replace("kafka", "files"), encoding="utf-8")
    (tmp_path / name).write_bytes(content)

    made, out, _ = cli("design", str(file), "--defaults", "--sample", name, "--out", "project", "--output", "json")
    code, _, _ = cli("lint", "project")
    again, _, _ = cli("design", "project/requirements.yml", "--diff")

    proposed = {one["path"]: one["answer"] for one in json.loads(out)["proposals"]}
    settings = Path("project/pipeline.yml").read_text(encoding="utf-8")
    assert (made, code, again) == (0, 0, 0)
    prefix = "sources.orders.options."
    assert {path.removeprefix(prefix): one for path, one in proposed.items() if path.startswith(prefix)} == options
    assert [
        option for option, value in options.items() if f"orders.{option}: {json.dumps(value)}" not in settings
    ] == []


@pytest.mark.parametrize(("name", "content"), [("a.parquet", parquet(records())), ("a.json", lines(records()))])
def test_texts_that_are_times_stay_texts_in_files_with_types(
    cli: Any, file: Path, tmp_path: Path, name: str, content: bytes
) -> None:
    file.write_text(REQUIREMENTS.replace("kafka", "files"), encoding="utf-8")
    (tmp_path / name).write_bytes(content)

    _, out, _ = cli("design", "--questions", str(file), "--sample", name, "--output", "json")

    found = json.loads(out)
    answers = {one["path"].rpartition(".")[2]: one["answer"] for one in found["proposals"]}
    is_typed = name == "a.parquet"
    assert ("placed_at STRING" in answers["schema"], "event_time" in answers) == (is_typed, not is_typed)
    assert ("texts of placed_at are timestamps" in "\n".join(found["samples"][0]["notes"])) == is_typed


def test_no_value_of_the_data_is_printed_or_written(cli: Any, file: Path, tmp_path: Path) -> None:
    (tmp_path / "orders.json").write_bytes(lines(records()) + f'{{"email": "{CANARY}"\n'.encode())
    words = ("--sample", "orders.json", "--defaults")

    _, text, _ = cli("design", str(file), *words, "--out", "project")
    _, value, _ = cli("design", str(file), *words, "--output", "json")

    written = "".join(path.read_text(encoding="utf-8") for path in Path("project").rglob("*") if path.is_file())
    assert ("proposed sources.orders.keys" in text, "1 records or files could not be read" in text) == (True, True)
    assert [CANARY in found for found in (text, value, written)] == [False] * 3


def test_proposals_close_questions_and_are_the_default_of_an_answer(
    cli: Any, file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "orders.json").write_bytes(lines(records()))

    assert cli("design", "--questions", str(file))[0] == 2
    code, out, _ = cli("design", "--questions", str(file), "--sample", "orders.json", "--output", "json")
    assert (code, [one["id"] for one in json.loads(out)["questions"] if one["needed"]]) == (0, [])

    monkeypatch.setattr("sys.stdin", io.StringIO("\n" * 9))
    code, _, _ = cli("design", str(file), "--ask", "--sample", "orders.json")
    text = file.read_text(encoding="utf-8")
    assert (code, "keys: [order_id]" in text, "within: 1 minute" in text) == (0, True, True)


def test_one_of_several_sources_is_named(cli: Any, file: Path, tmp_path: Path) -> None:
    text = REQUIREMENTS.replace(
        "outputs:", "  - {name: shops, kind: files, schema: {shop: STRING}, events_per_s: 1}\noutputs:"
    )
    file.write_text(text.replace("kind: dedup", "kind: dedup\n    from: orders"), encoding="utf-8")
    (tmp_path / "orders.json").write_bytes(lines(records()))
    words = ("design", str(file), "--defaults", "--output", "json", "--sample")

    _, refused, _ = cli(*words, "orders.json")
    code, out, _ = cli(*words, "orders=orders.json")

    assert "orders, shops" in json.loads(refused)["error"]["hint"]
    assert (code, [one["source"] for one in json.loads(out)["samples"]]) == (0, ["orders"])


@pytest.mark.parametrize(
    ("name", "content", "reason"),
    [
        ("a.json", b"", "no file with records"),
        ("a.txt", b"hello", "no file with records"),
        ("a.json", b"\n\n", "no record of 1 file "),
        ("a.json", "\ufeff{}".encode("utf-16"), "no record of 1 file "),
        ("a.json", bytes(range(256)) * 9, "no record of 1 file "),
        ("a.csv", b"\n", "no record of 1 file "),
        ("a.parquet", parquet(records())[:-20], "no record of 1 file "),
        ("a.avro", avro(records())[:40], "no record of 1 file "),
        ("a.orc", orc_file(records())[:-20], "no record of 1 file "),
        ("a.json.gz", b"no gzip", "a file is damaged"),
    ],
)
def test_files_without_records_are_refused_by_name(sampled: Any, name: str, content: bytes, reason: str) -> None:
    code, found = sampled(name, content)

    assert (code, found["error"]["code"]) == (2, "DESIGN.SAMPLE")
    assert reason in found["error"]["message"]


def test_a_folder_without_files_and_a_path_without_anything_are_refused(cli: Any, file: Path, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    words = ("design", str(file), "--output", "json", "--sample")

    found = [json.loads(cli(*words, path)[1])["error"]["message"] for path in ("empty", "nowhere")]

    assert ["no file with records" in found[0], "does not exist" in found[1]] == [True, True]


def test_bytes_that_are_not_utf8_are_counted(sampled: Any) -> None:
    latin = [{**row, "shop": "Caf\u00e9"} for row in records()]
    content = "".join(f"{json.dumps(row, ensure_ascii=False)}\n" for row in latin).encode("latin-1")

    code, found = sampled("a.json", content)

    (sample,) = found["samples"]
    assert (code, sample["not_utf8"], sample["rows"]) == (0, 302, 302)
    assert "302 rows have bytes that are not UTF-8" in "\n".join(sample["notes"])


def test_values_of_several_types_and_nested_fields_become_types_that_hold_them(sampled: Any) -> None:
    mixed = [{**row, "n": row["order_id"] if row["pieces"] else 5, "to": {"city": "x", "zip": 1}} for row in records()]

    code, found = sampled("a.json", lines(mixed))

    types = {column["name"]: column["type"] for column in found["samples"][0]["columns"]}
    assert (code, types["n"], types["to"]) == (0, "string", "struct<city:string,zip:bigint>")


def test_messages_of_debezium_in_a_file_are_proposed_as_changes(cli: Any, file: Path, tmp_path: Path) -> None:
    file.write_text(
        REQUIREMENTS.replace("    kind: kafka\n", "").replace("once", "users").replace("dedup", "scd1"),
        encoding="utf-8",
    )
    messages = [{"before": None, "after": row, "op": "c", "ts_ms": 1} for row in records()]
    (tmp_path / "topic.json").write_bytes(lines([{"schema": {}, "payload": message} for message in messages]))

    code, out, _ = cli("design", str(file), "--defaults", "--sample", "topic.json", "--output", "json")

    found = json.loads(out)
    answers = {one["path"].rpartition(".")[2]: one["answer"] for one in found["proposals"]}
    assert (code, answers["kind"], answers["keys"]) == (0, "cdc", "order_id")
    assert found["samples"][0]["change_events"] == {"c": 302}


def test_a_large_file_is_read_in_part(sampled: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("headrace.cli.design_samples.MOST_BYTES", 20_000)
    _, of_bytes = sampled("a.json", lines(records(2000)))
    monkeypatch.undo()
    monkeypatch.setattr("headrace.cli.design_samples.MOST_ROWS", 150)
    _, of_rows = sampled("a.json", lines(records(2000)))

    samples = [*of_bytes["samples"], *of_rows["samples"]]
    assert [sample["is_whole"] for sample in samples] == [False, False]
    assert (samples[0]["rows"] < 250, samples[1]["rows"]) == (True, 150)
