"""The verbs on schedules, over a project on a disk."""

from __future__ import annotations

import json

import pytest

from headrace.cli.main import call


@pytest.fixture
def project(tmp_path, monkeypatch):
    (tmp_path / "pipeline.yml").write_text(
        "name: shop\nschedules:\n  nightly: {cron: '0 2 * * *', refresh: [gold]}\n  arrivals: {files: in}\n"
    )
    monkeypatch.chdir(tmp_path)
    return tmp_path


def printed(capsys, *words):
    code = call(words)
    out, err = capsys.readouterr()
    return code, out, err


def test_schedules_are_listed_with_their_times_and_who_runs_them(project, capsys):
    """Guards the text and the document of the list, before anything has run; listing writes nothing."""
    code, text, _ = printed(capsys, "schedules", "list")
    document = json.loads(printed(capsys, "schedules", "list", "--output", "json")[1])

    assert code == 0
    assert [line.split("  ")[0] for line in text.splitlines()] == [
        *("schedule", "--------", "nightly", "arrivals"),
        "nobody runs them: start `headrace serve`",
    ]
    assert [(one["name"], one["refresh"], one["last"]) for one in document["schedules"]] == [
        ("nightly", ["gold"], None),
        ("arrivals", [], None),
    ]
    assert not (project / "storage").exists()


def test_a_schedule_is_paused_and_resumed_by_name(project, capsys):
    """Guards pause and resume, whose effect the scheduler's own tests show."""
    paused = printed(capsys, "schedules", "pause", "nightly", "--as", "ann")
    listed = json.loads(printed(capsys, "schedules", "list", "--output", "json")[1])["schedules"][0]
    resumed = json.loads(printed(capsys, "schedules", "resume", "nightly", "--as", "bob", "--output", "json")[1])
    again = json.loads(printed(capsys, "schedules", "list", "--output", "json")[1])["schedules"][0]

    assert paused[:2] == (0, "paused by ann: nightly\n")
    assert (listed["state"], listed["paused_by"], listed["next_at"]) == ("PAUSED", "ann", None)
    assert resumed == {"schedule": "nightly", "state": "resumed", "by": "bob"}
    assert (again["state"], again["paused_by"]) == ("IDLE", None)


def test_an_unknown_schedule_is_named_with_the_known_ones(project, capsys):
    """Guards a wrong name, for which no pause is stored."""
    code, out, _ = printed(capsys, "schedules", "pause", "nightl", "--output", "json")

    error = json.loads(out)["error"]
    assert (code, error["code"], error["detail"]) == (2, "SCHEDULE.UNKNOWN", "Schedules: nightly, arrivals.")


def test_a_project_without_schedules_has_none(tmp_path, monkeypatch, capsys):
    """Guards the text of an empty list."""
    (tmp_path / "pipeline.yml").write_text("name: shop\n")
    monkeypatch.chdir(tmp_path)

    assert printed(capsys, "schedules", "list") == (0, "no schedules\n", "")


@pytest.mark.parametrize("text", ["", "a b", "x" * 101, "a;b"])
def test_ids_of_requests_with_other_characters_are_refused(project, capsys, text):
    """Guards `run --request-id`: the id is searched for in the event log."""
    code, out, _ = printed(capsys, "run", "--request-id", text, "--output", "json")

    assert (code, json.loads(out)["error"]["code"]) == (2, "CLI.USAGE")
