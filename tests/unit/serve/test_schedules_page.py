"""What the page of the schedules says: of all kinds, of what is queued, of a state that is torn, and of many."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

from tests.unit.serve.conftest import NOON, assert_golden, definitions, state
from tests.unit.serve.test_api import P, matches

from headrace.events.types import UpdateStateChanged
from headrace.model.outcome import FlowState, UpdateCause, UpdateState
from headrace.project.scheduling.pauses import pause_schedule
from headrace.schedules.state import Firing, LastRun, Run, State, state_text
from headrace.settings.load import load_settings
from headrace.settings.storage import MonitoringFile

PATH = "/p/shop/schedules"
SCHEDULES = """
schedules:
  nightly: {cron: "0 2 * * *", timezone: Europe/Berlin, refresh: [revenue]}
  hourly: {every: 1h, catch_up: none}
  arrivals: {files: /data/landing, quiet: 60s, at_most_every: 5m}
  changes: {tables: [orders, revenue], when: all}
  fresh: {freshness: {revenue: 10m}}
"""


def scheduled(shop, *, state_file=None):
    """The shop with schedules of all kinds; its settings."""
    file = shop.root / "pipeline.yml"
    file.write_text(f"{file.read_text()}{SCHEDULES}")
    settings = load_settings(file, environ={})
    if state_file is not None:
        path = Path(settings.layout.monitoring(MonitoringFile.SCHEDULES))
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(state_file)
    return settings


def test_each_schedule_says_what_its_decision_waits_for(busy_shop, served):
    at = busy_shop.clock.at.timestamp()
    failed = Firing("hourly", at - 600, UpdateCause.SCHEDULE, ("orders",), starts=1, failures=1)
    last = {
        "nightly": LastRun("COMPLETED", at - 7200, at - 7100, at - 7201, update_id="aaaa1111-0000"),
        "hourly": LastRun("FAILED", at - 300, at - 200, at - 600, message="Division by zero.", retries_at=at + 60),
        "arrivals": LastRun("NOT_APPROVED", at - 900, at - 890, at - 901, message="a change needs an approval"),
    }
    running = Run((Firing("arrivals", at - 30, UpdateCause.FILE_ARRIVAL, starts=1),), started_at=at - 20, host="etl-1")
    stored = State(leader=1, running=running, waiting=Run((failed,), not_before=at + 60), last=last)
    settings = scheduled(busy_shop, state_file=state_text(stored))
    pause_schedule(settings.layout, "changes", at - 60, "ann", is_paused=True)

    browser = served(busy_shop).sign_in()
    page = browser.call(f"{PATH}.json").json

    waits = {one["name"]: (one["state"], one["waits_for"]) for one in page["schedules"]}
    assert waits == {
        # Nobody runs the schedules, so nobody watches the update either.
        "arrivals": (
            "RUNNING",
            "What came of the update that was started is found out by the next process that runs the schedules.",
        ),
        "hourly": ("WAITING", "The update before it must end: a pipeline has one at a time."),
        "fresh": (
            "IDLE",
            "The datasets must come so close to their limit that an update has to start to keep it.",
        ),
        "nightly": ("IDLE", "Its next time must come."),
        "changes": ("PAUSED", "Somebody must resume it. Times that pass until then do not fire."),
    }
    assert [one["name"] for one in page["schedules"]][:2] == ["arrivals", "hourly"]
    assert [(run["state"], run["firings"][0]["schedule"]) for run in page["queue"]] == [
        ("RUNNING", "arrivals"),
        ("WAITING", "hourly"),
    ]
    assert page["runs_on"] is None
    assert_golden("schedules", browser.call(PATH).text, busy_shop)


def test_the_api_has_one_schedule_with_what_is_queued_for_it(busy_shop, served):
    at = busy_shop.clock.at.timestamp()
    waiting = Run((Firing("hourly", at - 60, UpdateCause.SCHEDULE), Firing("nightly", at - 60, UpdateCause.SCHEDULE)))
    last = {"hourly": LastRun("COMPLETED", at - 7200, at - 7100, at - 7201, update_id="aaaa1111-0000")}
    scheduled(busy_shop, state_file=state_text(State(leader=1, waiting=waiting, last=last)))
    browser = served(busy_shop).sign_in()

    hourly, fresh = (browser.call(f"{P}/schedules/{name}").json for name in ("hourly", "fresh"))

    for found in (hourly, fresh):
        matches("ScheduleReport", found)
    assert (hourly["schedule"]["state"], hourly["schedule"]["last"]["update_id"]) == ("WAITING", "aaaa1111-0000")
    assert [len(run["firings"]) for run in hourly["queue"]] == [2]
    assert (fresh["schedule"]["state"], fresh["queue"]) == ("IDLE", [])


def test_files_and_tables_are_waited_for_with_their_pace(busy_shop, served):
    scheduled(busy_shop)

    page = served(busy_shop).sign_in().call(f"{PATH}.json").json

    waits = {one["name"]: one["waits_for"] for one in page["schedules"]}
    assert waits["arrivals"] == (
        "Files must arrive in /data/landing, and then nothing more for 1 min; at most one update in 5 min."
    )
    assert waits["changes"] == "Rows must change in orders and revenue; at most one update in 1 min."
    assert waits["hourly"].endswith("One that is missed by more than 2 min does not fire.")


def test_without_a_schedule_the_page_says_how_to_add_one(shop, served):
    answer = served(shop).sign_in().call(PATH)

    assert answer.status == 200
    assert "Add one to" in answer.text
    assert "headrace schedules list" in answer.text


def test_a_torn_state_and_one_of_a_newer_version_are_named_and_the_schedules_are_shown(busy_shop, served):
    for content in ("{", '{"format": 99}'):
        scheduled_file = busy_shop.root / "pipeline.yml"
        scheduled_file.write_text("name: shop\n")
        scheduled(busy_shop, state_file=content)

        browser = served(busy_shop).sign_in()
        page = browser.call(f"{PATH}.json").json

        assert len(page["schedules"]) == 5
        assert [one["part"] for one in page["unread"]] == ["the state of the schedules"]
        assert "Not everything could be read" in browser.call(PATH).text


def test_of_a_thousand_schedules_a_part_is_shown(shop, served):
    lines = "".join(f"  s{number}: {{cron: '{number % 60} 2 * * *'}}\n" for number in range(1000))
    (shop.root / "pipeline.yml").write_text(f"name: shop\nschedules:\n{lines}")
    browser = served(shop).sign_in()

    first, last = (browser.call(f"{PATH}.json?page={number}").json for number in ("1", "20"))
    beyond, odd = (browser.call(f"{PATH}.json?page={number}").json["paging"]["page"] for number in ("999999", "-1x"))

    assert (len(first["schedules"]), first["paging"]) == (50, {"page": 1, "pages": 20, "total": 1000})
    assert (last["paging"]["page"], beyond, odd) == (20, 20, 1)
    assert 'rel="next"' in browser.call(f"{PATH}?page=1").text


def test_updates_of_schedules_are_shown_apart_from_those_of_people(busy_shop, served):
    busy_shop.clock.at = NOON + timedelta(hours=3)
    busy_shop.update(
        "cccc3333-0000",
        *definitions(),
        state("orders", FlowState.COMPLETED),
        UpdateStateChanged(UpdateState.COMPLETED),
        cause="FILE_ARRIVAL",
    )

    page = served(busy_shop).sign_in().call(f"{PATH}.json").json

    assert [one["cause"] for one in page["updates"]] == ["FILE_ARRIVAL", "SCHEDULE"]
