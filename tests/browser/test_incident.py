"""Real updates behind the pages: an incident from its alert to its end, changes that are decided, an update that is
stopped.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
from pathlib import Path

import pytest
from tests.browser.conftest import Visitor, appears, opened
from tests.command_line import PROGRAM
from tests.servers.receiver import running_receiver
from tests.unit.project.test_requests import until
from tests.unit.serve.test_server import free_port

from headrace.cli.main import call

pytestmark = pytest.mark.long(
    guard=[
        "tests/unit/serve/test_forms.py::test_a_form_is_a_request_of_the_api_and_leads_back_with_what_came_of_it",
        "tests/spark/test_replay.py::test_replayed_rows_that_pass_a_changed_expectation_are_written_once",
        "tests/unit/serve/test_quarantine_page.py::test_the_page_says_how_rows_come_back",
    ]
)
# An update starts Java, and this machine may be busy.
PATIENCE_MS = 240_000
# Five rows of the second day are wrong in the same way.
SETTINGS = """
approval: {{mode: await, required: [destructive, rebuild]}}
alerts:
  rules: {{quarantine_growing: {{threshold: 3}}}}
  deliver: {{ops: {{webhook: "{url}"}}}}
"""


class Service:
    """The server as users start it."""

    def __init__(self, root: Path, url: str, login: str) -> None:
        self.root, self.url, self._login = root, url, login

    def token(self) -> str:
        return self._login.partition("token=")[2]


def orders_of_the_second_day() -> str:
    """Orders, five of which a till has recorded as returned."""
    order = {"customer": "c001", "product": "tea", "price": "2.00", "ordered_at": "2026-01-02T09:00:00Z"}
    quantities = [-2 if number < 5 else 1 for number in range(50)]
    return "\n".join(json.dumps({**order, "order_id": 1000 + n, "quantity": q}) for n, q in enumerate(quantities))


@pytest.fixture(scope="module")
def receiver():
    with running_receiver() as found:
        yield found


@pytest.fixture(scope="module")
def service(tmp_path_factory, receiver):
    """A pipeline that has run, whose next file has wrong rows, and the server that shows it."""
    folder = tmp_path_factory.mktemp("incident")
    root = folder / "shop"
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        assert call(["--quiet", "init", "shop"]) == 0
    settings = root / "pipeline.yml"
    settings.write_text(settings.read_text() + SETTINGS.format(url=receiver.url))
    subprocess.run([PROGRAM, "--quiet", "run"], cwd=root, check=True)
    (root / "data" / "orders" / "day-002.json").write_text(orders_of_the_second_day())
    url = f"http://127.0.0.1:{free_port()}"
    process = subprocess.Popen(
        [PROGRAM, "serve", "--listen", url.removeprefix("http://")],
        cwd=root,
        env={**os.environ, "XDG_CONFIG_HOME": str(folder / "config")},
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        encoding="utf-8",
    )
    assert process.stdout
    try:
        yield Service(
            root, url, next(filter(None, (re.search(r"http\S+token=\S+", line) for line in process.stdout)))[0]
        )
    finally:
        process.terminate()
        process.communicate(timeout=240)


@pytest.fixture
def visitor(chromium, service):
    context = chromium.new_context(viewport={"width": 1280, "height": 800}, reduced_motion="reduce")
    with opened(context, service, service.token()) as made:
        context.set_default_timeout(PATIENCE_MS)
        yield made


def done(visitor: Visitor) -> None:
    """Wait until the page says that what it has asked for is done; parts of it are replaced, and it is not reloaded."""
    said = visitor.page.locator("#notice, #state").get_by_text("completed")
    # Else nobody learns what the page says instead.
    assert appears(said, PATIENCE_MS), visitor.page.locator("body").inner_text()


def messages(receiver) -> list[str]:
    """The kinds of the messages that have arrived about the growth of the quarantine."""
    return [row["kind"] for row in receiver.taken if "quarantine_growing" in json.dumps(row)]


def test_an_incident_goes_from_its_alert_to_its_end_on_the_pages(visitor, receiver):
    page = visitor.page
    visitor.visit("/p/shop")
    page.get_by_role("button", name="Run", exact=True).click()
    done(visitor)

    # The alert fires, and somebody takes it.
    until(lambda: messages(receiver) == ["opened"])
    page.get_by_role("link", name=re.compile("^Alerts")).click()
    alert = page.locator("ol.attention li").filter(has_text="quarantine_growing")
    assert 'quarantine of "orders" has grown by 5 rows' in alert.inner_text()
    alert.get_by_role("button", name="Acknowledge").click()
    done(visitor)
    page.locator("#alerts").get_by_text("admin knows of it").wait_for()

    # The cause is found.
    page.get_by_role("link", name=re.compile("^Quarantine")).click()
    rule = page.get_by_role("row").filter(has_text="quantity is possible")
    assert rule.get_by_role("cell").first.inner_text() == "10"
    rule.get_by_role("link", name="Mend").click()

    # The rows are mended, and replayed.
    page.locator("input[name=set]").first.fill("quantity = abs(quantity)")
    page.get_by_role("button", name="See how many would pass").click()
    page.get_by_role("heading", name="10 of 10 rows would pass").wait_for()
    assert visitor.axe() == []
    page.get_by_role("button", name="Replay", exact=True).click()
    done(visitor)

    # The alert resolves, once its condition has not held for a minute.
    page.locator("#quarantine").get_by_text("1 row waits").wait_for()
    resolved = page.get_by_role("region", name="Resolved within a day").get_by_text("quarantine_growing")
    until(lambda: visitor.visit("/p/shop/alerts") and resolved.count(), timeout_s=PATIENCE_MS / 1000)
    assert visitor.complaints == []


def test_a_change_is_planned_approved_and_applied_on_the_pages(visitor, service):
    page = visitor.page
    visitor.visit("/p/shop/changes")
    page.get_by_role("button", name="Plan", exact=True).click()
    done(visitor)

    page.get_by_role("link", name=re.compile("^Review")).first.click()
    page.get_by_role("button", name="Apply").wait_for()
    assert visitor.axe() == []
    page.get_by_role("button", name="Apply").click()
    done(visitor)

    visitor.visit("/p/shop/changes")
    assert "applied" in page.locator("main").inner_text().lower()


def test_a_restore_is_shown_before_anything_is_changed(visitor):
    page = visitor.page
    visitor.visit("/p/shop/savepoints")
    page.get_by_label(re.compile("Name")).fill("before-lunch")
    page.get_by_role("button", name="Create a savepoint").click()
    done(visitor)

    page.get_by_role("link", name="before-lunch").first.click()
    page.get_by_role("button", name="See what a restore would change").click()
    page.get_by_role("heading", name="What a restore would change").wait_for()

    assert "nothing was written" in page.locator("main").inner_text()
    cells = page.get_by_role("row").filter(has_text="orders").first.get_by_role("cell").all_inner_texts()
    assert cells[:2] == ["3", "3"]


def plan_to_clear_orders(page):
    """Plan a change that needs an approval, and open it."""
    page.get_by_role("link", name="Choose what to plan").click()
    page.locator("input[name=full_refresh][value=orders]").check()
    page.get_by_role("button", name="Plan a full refresh").click()
    page.locator("#notice").get_by_text("completed").wait_for()
    page.get_by_role("link", name="Review and approve").click()


def test_a_change_that_needs_an_approval_is_rejected_or_approved_and_applied(visitor):
    page = visitor.page
    visitor.visit("/p/shop/changes")
    plan_to_clear_orders(page)
    page.get_by_role("button", name="Reject").click()
    done(visitor)
    assert page.get_by_role("link", name="Review and approve").count() == 0

    plan_to_clear_orders(page)
    page.get_by_label(re.compile("^Note")).fill("asked for by the shop")
    page.get_by_role("button", name="Approve").click()
    done(visitor)
    page.locator("ul.approvals").get_by_text("asked for by the shop").wait_for()

    # It clears rows: nobody does that by a click alone.
    assert visitor.axe() == []
    page.get_by_label(re.compile("^Type")).fill("shop")
    page.get_by_role("button", name="Apply").click()
    done(visitor)
    page.get_by_role("button", name="Roll back").or_(page.get_by_role("link", name="Roll back")).wait_for()
    assert visitor.complaints == []


def test_an_update_that_runs_is_stopped_on_the_page(visitor, service):
    page = visitor.page
    visitor.visit("/p/shop")
    idle = page.locator("#lease").filter(has_text="No update is running")
    # The button of an update that is just ending would stop nothing.
    idle.wait_for()
    with subprocess.Popen(
        [PROGRAM, "--quiet", "run", "--continuous"], cwd=service.root, stdout=subprocess.DEVNULL
    ) as process:
        # It appears once the update runs; nobody loads the page again.
        page.get_by_role("button", name="Stop the update that runs").click()
        done(visitor)

        assert process.wait(PATIENCE_MS / 1000) == 0
    idle.wait_for()
    assert visitor.complaints == []
