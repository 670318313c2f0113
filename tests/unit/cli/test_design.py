"""`headrace design`: what it prints, asks and writes."""

from __future__ import annotations

import io
import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import write_deltalake

EXAMPLES = Path(__file__).parents[3] / "examples" / "design"


@pytest.fixture
def file(tmp_path: Path) -> Path:
    copied = tmp_path / "requirements.yml"
    copied.write_text((EXAMPLES / "kafka_bronze.yml").read_text(encoding="utf-8"), encoding="utf-8")
    return copied


def without(file: Path, *starts: str) -> None:
    lines = file.read_text(encoding="utf-8").splitlines()
    kept = [line for line in lines if not line.strip().startswith(starts)]
    file.write_text("\n".join(kept) + "\n", encoding="utf-8")


def test_questions_exit_with_2_only_while_an_answer_is_needed(cli: Any, file: Path) -> None:
    assert cli("design", "--questions", str(file))[:2] == (0, "no open questions\n")

    without(file, "latency")
    code, out, _ = cli("design", "--questions", str(file), "--output", "json")
    assert (code, json.loads(out)["open"], json.loads(out)["questions"][0]["default"]) == (0, 1, "5 minutes")

    without(file, "kind: kafka")
    code, out, _ = cli("design", "--questions", str(file))
    assert (code, "2 open, 1 without a default" in out) == (2, True)


def test_nothing_is_written_without_a_folder(cli: Any, file: Path, tmp_path: Path) -> None:
    code, out, _ = cli("design", str(file), "--output", "json")

    value = json.loads(out)
    assert (code, "written" in value, [path.name for path in tmp_path.iterdir()]) == (0, False, ["requirements.yml"])
    assert {entry["path"] for entry in value["files"]} >= {"pipeline.yml", "design.md", "tests/test_crashes.py"}


def test_files_that_differ_are_named_and_kept_unless_forced(cli: Any, file: Path, tmp_path: Path) -> None:
    out = tmp_path / "project"
    assert "15 created" in cli("design", str(file), "--out", str(out))[1]
    (out / "runbook.md").write_text("ours\n", encoding="utf-8")
    (out / "checklist.md").write_text("ours\n", encoding="utf-8")
    (out / "design.mmd").unlink()

    code, shown, _ = cli("design", str(file), "--out", str(out), "--output", "json")

    named = [problem["params"]["path"] for problem in json.loads(shown)["problems"]]
    assert (code, sorted(named)) == (2, ["checklist.md", "runbook.md"])
    assert ((out / "runbook.md").read_text(), (out / "design.mmd").exists()) == ("ours\n", False)
    code, shown, _ = cli("design", str(file), "--out", str(out), "--force", "--output", "json")
    assert (code, json.loads(shown)["written"]["replaced"]) == (0, ["runbook.md", "checklist.md"])
    assert "15 unchanged" in cli("design", str(file), "--out", str(out))[1]


def test_answers_are_asked_for_and_written_into_the_file(cli: Any, file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    without(file, "kind: kafka", "latency", "on_error")
    monkeypatch.setattr("sys.stdin", io.StringIO("kafka\n\ndrop\n"))

    code, out, _ = cli("design", str(file), "--ask")

    assert (code, "expectations count wrong records" in out) == (0, True)
    text = file.read_text(encoding="utf-8")
    assert [line in text for line in ("    kind: kafka", "latency: 5 minutes", "on_error: drop")] == [True] * 3


def test_the_input_may_end_before_the_last_question(cli: Any, file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    without(file, "latency", "on_error")
    monkeypatch.setattr("sys.stdin", io.StringIO("1 minute\n"))

    code, out, _ = cli("design", str(file), "--ask", "--output", "json")

    assert (code, json.loads(out)["error"]["params"]["questions"]) == (2, "on_error")
    assert "latency: 1 minute" in file.read_text(encoding="utf-8")


def test_a_wrong_answer_is_reported_and_not_kept(cli: Any, file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    without(file, "latency")
    before = file.read_text(encoding="utf-8")
    monkeypatch.setattr("sys.stdin", io.StringIO("soon\n"))

    code, _, err = cli("design", str(file), "--ask")

    assert (code, "REQUIREMENTS.WRONG_VALUE" in err) == (2, True)
    assert file.read_text(encoding="utf-8") == before


def test_defaults_are_recorded_as_decisions(cli: Any, file: Path) -> None:
    without(file, "latency", "guarantee")

    assert cli("design", str(file))[0] == 2
    code, out, _ = cli("design", str(file), "--defaults", "--output", "json")

    found = {decision["id"] for decision in json.loads(out)["decisions"]}
    assert (code, {"default.latency", "default.guarantee"} <= found) == (0, True)


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (["no.yml"], "REQUIREMENTS.UNREADABLE"),
        (["requirements.yml", "--ask", "--defaults"], "CLI.CONFLICT"),
        (["requirements.yml", "--force"], "CLI.CONFLICT"),
        (["requirements.yml", "--out", "requirements.yml"], "DESIGN.NOT_WRITTEN"),
    ],
)
def test_what_cannot_be_done_is_refused(cli: Any, file: Path, words: list[str], code: str) -> None:
    _, out, _ = cli("design", *words, "--output", "json")

    assert json.loads(out)["error"]["code"] == code


def test_lateness_is_measured_in_a_table_below_the_named_folder(cli: Any, tmp_path: Path) -> None:
    text = (EXAMPLES / "late_events.yml").read_text(encoding="utf-8")
    file = tmp_path / "elsewhere" / "late.yml"
    file.parent.mkdir()
    file.write_text(text.replace("{within: 20 minutes,", "{measure_from: past,"), encoding="utf-8")
    column = next(line.split()[-1] for line in text.splitlines() if "event_time:" in line)
    for hour in (1, 3, 2):
        times = pa.array([datetime(2026, 1, 1, hour, minute, tzinfo=UTC) for minute in range(60)])
        write_deltalake(str(tmp_path / "past"), pa.table({column: times}), mode="append")
    words = ("design", str(file), "--defaults", "--output", "json")

    _, out, _ = cli(*words, "--relative-to", str(tmp_path))
    _, refused, _ = cli(*words)

    watermark = next(one for one in json.loads(out)["decisions"] if one["id"] == "watermark")
    assert "measured" in watermark["reason"]
    assert json.loads(refused)["error"]["code"] == "DESIGN.NOT_MEASURED"


def test_a_table_that_is_not_there_is_named(cli: Any, tmp_path: Path) -> None:
    text = (EXAMPLES / "late_events.yml").read_text(encoding="utf-8")
    file = tmp_path / "late.yml"
    file.write_text(text.replace("{within: 20 minutes,", "{measure_from: past,"), encoding="utf-8")

    _, out, _ = cli("design", str(file), "--output", "json")

    assert json.loads(out)["error"]["code"] == "DESIGN.NOT_MEASURED"


def test_a_design_in_the_folder_of_its_requirements_leaves_them_as_they_are(cli: Any, file: Path) -> None:
    before = file.read_text(encoding="utf-8")

    code, out, _ = cli("design", str(file), "--out", str(file.parent), "--output", "json")

    assert (code, "requirements.yml" in json.loads(out)["written"]["created"]) == (0, False)
    assert file.read_text(encoding="utf-8") == before


def test_the_schema_of_requirements_is_printed_and_written(cli: Any, tmp_path: Path) -> None:
    _, printed, _ = cli("schema", "--requirements")
    _, out, _ = cli("schema", "--requirements", "--file", "requirements.schema.json")

    assert json.loads(printed)["title"] == "Requirements of a Headrace pipeline"
    assert "$schema=requirements.schema.json" in out
    assert (tmp_path / "requirements.schema.json").read_text() == printed
