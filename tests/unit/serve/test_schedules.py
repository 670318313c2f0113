"""The schedules of a pipeline over HTTP, and in the process that serves them."""

from __future__ import annotations


def test_schedules_are_json_for_who_is_signed_in(served, busy_shop):
    """Guards the document of the API, its door, and an unknown pipeline."""
    settings = busy_shop.root / "pipeline.yml"
    settings.write_text(f"{settings.read_text()}\nschedules: {{nightly: {{cron: '0 2 * * *', refresh: [revenue]}}}}\n")
    browser = served(busy_shop)
    path = "/api/v1/pipelines/shop/schedules"

    stranger = browser.call(path)
    answer = browser.sign_in().call(path)
    missing = browser.call("/api/v1/pipelines/other/schedules")

    assert (stranger.status, answer.status, missing.status) == (401, 200, 404)
    assert answer.headers["content-type"] == "application/json"
    assert [(one["name"], one["next_at"], one["state"]) for one in answer.json["schedules"]] == [
        ("nightly", "2026-11-21T02:00:00+00:00", "IDLE")
    ]
