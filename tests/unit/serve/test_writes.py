"""What the API takes: who may ask for what, what is refused, and that a request is done once."""

from __future__ import annotations

import json
import sys
from contextlib import contextmanager
from pathlib import Path

import pytest
from tests.unit.plan.test_plan_files import PLAN
from tests.unit.project.test_requests import SCRIPT, until
from tests.unit.serve.test_api import P, matches

from headrace.project.requests.request_queue import RequestQueue, running_queues
from headrace.project.requests.request_runner import QueueContext
from headrace.project.scheduling.child_process import ChildRunner
from headrace.serve.api.routes import ROUTES
from headrace.serve.api.writing import WRITERS
from headrace.serve.roles import Role
from headrace.settings.load import load_settings

WRITES = [route for route in ROUTES if route.writes]
JSON = {"content_type": "application/json"}
OURS = {**JSON, "sec_fetch_site": "same-origin"}


EXPECTED_WORDS = [
    ["run", "--cause=API_CALL", "--refresh=orders", "--refresh=--full-refresh-all", "--exclude=a b"],
    ["run", "--cause=API_CALL", "--refresh=revenue+"],
    ["schedules", "pause", "--as=admin", "--", "nightly"],
    ["schedules", "resume", "--as=admin", "--", "nightly"],
    ["alerts", "ack", "--as=admin", "--", "--help"],
    ["alerts", "silence", "--hours=1.5", "--", "0123456789"],
    ["quarantine", "replay", "--rule=valid", "--release", "--", "orders"],
    ["maintain", "--only=vacuum", "--dry-run", "--", "-x", "$(touch no)"],
    ["savepoint", "create", "--", "before; rm -rf"],
    ["savepoint", "restore", "--dry-run", "--dataset=orders", "--", "s1"],
    ["quarantine", "replay", "--dry-run", "--set=amount=abs(amount)", "--", "orders"],
    ["savepoint", "restore", "--", "s1"],
    ["savepoint", "drop", "--", "s1"],
    ["rollback", "--", "0123"],
    ["validate"],
]


@contextmanager
def taking(shop, served, **given):
    """A browser that is signed in, over a server that takes requests."""
    with queue_of(shop) as queue:
        yield served(shop, queues={"shop": queue}, **given).sign_in()


@contextmanager
def queue_of(shop):
    """Takes requests for the shop; the command line is a script."""
    settings = load_settings(shop.root / "pipeline.yml", environ={})
    (shop.root / "script.py").write_text(SCRIPT)
    context = QueueContext(settings, {}, "here", str, shop.clock.seconds, lambda _line: None)
    command = (sys.executable, str(shop.root / "script.py"), str(shop.root))
    queue = RequestQueue(context, ChildRunner(shop.root, None, Path(settings.layout.logs), {}, command))

    with running_queues([queue]):
        yield queue


def calls(shop):
    file = shop.root / "calls"
    found = [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []
    return [words[words.index("--quiet") + 1 :] for words in found]


def post(browser, path, document=None, **headers):
    body = b"" if document is None else json.dumps(document).encode()
    return browser.call(f"{P}{path}", "POST", body, **{**OURS, **headers})


def done(browser, answer):
    """The report of a request that has ended."""
    assert answer.status == 202, answer.text
    matches("Asked", answer.json)
    until(lambda: browser.call(answer.json["url"]).json["ended_at"] is not None)
    report = browser.call(answer.json["url"])
    matches("RequestReport", report.json)
    return report.json


def test_every_route_that_writes_has_an_action():
    assert set(WRITERS) == {route.name for route in WRITES if not route.waits}


def test_each_request_becomes_words_of_the_command_line(busy_shop, served):
    settings = busy_shop.root / "pipeline.yml"
    settings.write_text(f"{settings.read_text()}\nschedules: {{nightly: {{cron: '0 2 * * *', refresh: [revenue+]}}}}\n")
    asked = [
        ("/updates", {"refresh": ["orders", "--full-refresh-all"], "exclude": ["a b"]}),
        ("/schedules/nightly/fire", {}),
        ("/schedules/nightly/pause", {}),
        ("/schedules/nightly/resume", None),
        ("/alerts/--help/ack", {}),
        ("/alerts/0123456789/silence", {"hours": 1.5}),
        ("/quarantine/orders/replay", {"rules": ["valid"], "release": True}),
        ("/maintenance", {"datasets": ["-x", "$(touch no)"], "only": ["vacuum"], "dry_run": True}),
        ("/savepoints", {"name": "before; rm -rf"}),
        ("/savepoints/s1/restore", {"dry_run": True, "datasets": ["orders"]}),
        ("/quarantine/orders/replay", {"set": ["amount=abs(amount)"], "dry_run": True}),
        ("/savepoints/s1/restore", {}),
        ("/savepoints/s1/drop", {}),
        ("/plans/0123/rollback", {}),
        ("/validate", {}),
    ]
    with taking(busy_shop, served) as browser:
        answers = [post(browser, path, document) for path, document in asked]
        reports = [done(browser, answer) for answer in answers]
        listed = browser.call(f"{P}/requests").json

    assert {report["state"] for report in reports} == {"COMPLETED"}
    found = [[word for word in words if not word.startswith("--request-id=")] for words in calls(busy_shop)]
    # Several lanes run beside each other.
    assert sorted(found) == sorted(EXPECTED_WORDS)
    matches("Requests", listed)
    assert [one["id"] for one in listed["requests"]] == [report["id"] for report in reversed(reports)]


def test_each_role_may_do_what_its_table_says(busy_shop, served):
    browser = served(busy_shop)
    now = busy_shop.clock.seconds()
    tokens = {role: browser.tokens.add(f"a-{role.value}", role, now) for role in Role}
    allowed = set()

    for route in WRITES:
        path = route.pattern.replace(":path", "").format(
            pipeline="shop", update="u", request="r", plan="p", dataset="d", savepoint="s", schedule="x", alert="a"
        )
        for role, token in tokens.items():
            answer = browser.call(path, "POST", authorization=f"Bearer {token}", **JSON)
            # There is no queue, so nobody gets further than that.
            assert (answer.status, answer.json["error"]["code"]) in ((403, "API.FORBIDDEN"), (503, "SERVE.NO_QUEUE"))
            if answer.status == 503:
                allowed.add((route.name, role))
        assert browser.call(path, "POST", **OURS).status == 401

    assert allowed == {(route.name, role) for route in WRITES for role in Role if role.includes(route.role)}
    assert not any(role is Role.VIEWER for _, role in allowed)


def test_a_request_with_a_key_is_done_once_and_answered_in_the_same_way(busy_shop, served):
    document = {"refresh": ["orders"]}
    with taking(busy_shop, served) as browser:
        first = post(browser, "/updates", document, idempotency_key="night-1")
        done(browser, first)
    # The server stops, and another one begins.
    with taking(busy_shop, served) as browser:
        again = post(browser, "/updates", document, idempotency_key="night-1")
        other_body = post(browser, "/updates", {}, idempotency_key="night-1")
        other_route = post(browser, "/validate", {}, idempotency_key="night-1")
        wrong = [
            post(browser, "/updates", {}, idempotency_key=key)
            for key in ("a b", "x" * 101, "schedule-1", "retry-1-a", "")
        ]

    assert (again.status, again.body, again.headers["location"]) == (202, first.body, f"{P}/requests/night-1")
    for answer in (other_body, other_route):
        assert (answer.status, answer.json["error"]["code"]) == (422, "SERVE.ID_USED")
    assert {(one.status, one.json["error"]["code"]) for one in wrong} == {(400, "API.KEY")}
    assert len(calls(busy_shop)) == 1


@pytest.mark.parametrize(
    ("path", "body", "status", "code"),
    [
        ("/updates", b"[]", 400, "API.BODY"),
        ("/updates", b"{", 400, "API.BODY"),
        ("/updates", b'{"a": NaN}', 400, "API.BODY"),
        ("/updates", b"[" * 100_000, 400, "API.BODY"),
        ("/updates", b'\xff{"refresh": []}', 400, "API.BODY"),
        ("/updates", b'{"accept_data_loss": true}', 422, "API.FIELD"),
        ("/updates", b'{"refresh": "orders"}', 422, "API.FIELD"),
        ("/updates", b'{"refresh": [1]}', 422, "API.FIELD"),
        ("/updates", b'{"refresh": ["a\\u0000b"]}', 422, "API.FIELD"),
        ("/updates", b'{"refresh": ["\\ud800"]}', 422, "API.FIELD"),
        ("/updates", json.dumps({"refresh": ["x"] * 51}).encode(), 422, "API.FIELD"),
        ("/updates", json.dumps({"refresh": ["x" * 201]}).encode(), 422, "API.FIELD"),
        ("/updates", json.dumps({"refresh": ["x" * 199] * 50}).encode(), 422, "API.FIELD"),
        ("/updates", b'{"continuous": 1}', 422, "API.FIELD"),
        ("/alerts/a/silence", b'{"hours": -1}', 422, "API.FIELD"),
        ("/alerts/a/silence", b'{"hours": true}', 422, "API.FIELD"),
        ("/alerts/a/silence", b'{"hours": 1e999}', 422, "API.FIELD"),
        ("/quarantine/a\x01b/replay", b"{}", 422, "API.FIELD"),
        ("/quarantine/orders/replay", b'{"set": ["amount=reflect(1)"]}', 422, "SERVE.EXPRESSION"),
        ("/quarantine/orders/replay", b'{"set": ["amount"]}', 422, "SERVE.EXPRESSION"),
        ("/schedules/no/fire", b"{}", 404, "SCHEDULE.UNKNOWN"),
        ("/plans/no/approve", b"{}", 404, "SERVE.NO_PLAN"),
    ],
)
def test_what_is_wrong_is_refused_by_name(busy_shop, served, path, body, status, code):
    with taking(busy_shop, served) as browser:
        answer = browser.call(f"{P}{path}", "POST", body, **OURS)

    assert (answer.status, answer.json["error"]["code"]) == (status, code)
    matches("Failure", answer.json)
    assert calls(busy_shop) == []


def test_the_plan_of_a_request_is_listed_approved_by_others_and_rejected(busy_shop, served):
    with taking(busy_shop, served) as browser:
        report = done(browser, post(browser, "/plans", {"refresh": ["orders"]}, idempotency_key="p"))
        file = Path(next(word for word in report["arguments"] if word.startswith("--out=")).removeprefix("--out="))
        file.write_text(PLAN.to_text())
        (plan,) = browser.call(f"{P}/plans").json["plans"]
        shown = browser.call("/p/shop/changes").text
        approved = done(browser, post(browser, f"/plans/{plan['plan_id']}/approve", {"note": "fine"}))
        applied = done(browser, post(browser, f"/plans/{plan['plan_id']}/apply"))
        rejected = done(browser, post(browser, f"/plans/{plan['plan_id']}/reject", idempotency_key="no"))
        again = post(browser, f"/plans/{plan['plan_id']}/reject", idempotency_key="no")
        late = post(browser, f"/plans/{plan['plan_id']}/apply")
        (listed,) = browser.call(f"{P}/plans").json["plans"]
        hidden = browser.call("/p/shop/changes").text

    # Pages have it, too, until it is rejected.
    assert (plan["plan_id"] in shown, plan["plan_id"] in hidden) == (True, False)
    assert report["arguments"][:2] == ["--refresh=orders", "--as=admin"]
    assert (approved["arguments"], applied["verb"]) == (["--as=admin", "--note=fine", "--", str(file)], "apply")
    assert (rejected["state"], again.status, listed["is_rejected"]) == ("COMPLETED", 202, True)
    assert (late.status, late.json["error"]["code"]) == (409, "SERVE.PLAN_REJECTED")
    assert [words[0] for words in calls(busy_shop)] == ["plan", "approve", "apply"]


def test_texts_of_others_are_data_in_the_answers(busy_shop, served):
    attacks = [
        "<script>alert(1)</script>",
        "'};alert(1);//",
        "</title><iframe src=//evil>",
        "a\u202eb\u2028c",
        "{{7*7}}",
    ]
    with taking(busy_shop, served) as browser:
        asked = [post(browser, "/savepoints", {"name": attack}) for attack in attacks]
        reports = [done(browser, answer) for answer in asked]
        pages = [browser.call(f"{P}/requests"), *(browser.call(answer.json["url"]) for answer in asked)]

    assert [report["arguments"][-1] for report in reports] == attacks
    for page in (*asked, *pages):
        assert (page.headers["content-type"], page.headers["x-content-type-options"]) == ("application/json", "nosniff")
        assert not any(char.encode() in page.body for char in "<>&\u2028")


def test_a_storage_that_cannot_be_written_takes_nothing_and_says_so(busy_shop, served):
    folder = busy_shop.root / "storage/system/serve"
    folder.parent.mkdir(parents=True, exist_ok=True)
    folder.write_text("a file in the place of the folder")
    with taking(busy_shop, served) as browser:
        refused = post(browser, "/updates", {}, idempotency_key="k")
        listed = browser.call(f"{P}/requests")
        folder.unlink()
        done(browser, post(browser, "/updates", {}, idempotency_key="k"))

    assert (refused.status, refused.json["error"]["code"]) in ((503, "SERVE.STORAGE"), (503, "SERVE.NO_QUEUE"))
    assert (listed.status, listed.json["error"]["code"]) == (503, "SERVE.STORAGE")
    assert len(calls(busy_shop)) == 1


def test_what_does_not_run_is_not_stopped(busy_shop, served):
    with taking(busy_shop, served) as browser:
        update = done(browser, post(browser, "/updates/bbbb2222-0000/stop"))
        request = done(browser, post(browser, "/requests/no/stop"))
        missing = browser.call(f"{P}/requests/no")

    assert (update["state"], update["code"]) == ("FAILED", "SERVE.NOT_RUNNING")
    assert (request["state"], request["code"]) == ("FAILED", "SERVE.NO_REQUEST")
    assert (missing.status, missing.json["error"]["code"]) == (404, "SERVE.NO_REQUEST")


def test_a_server_that_only_reads_has_no_route_that_writes(busy_shop, served):
    browser = served(busy_shop, is_read_only=True).sign_in()

    assert browser.call("/api/v1/me").json["is_read_only"]
    for route in WRITES:
        answer = browser.call(route.pattern.replace("{pipeline}", "shop"), "POST", **OURS)
        assert answer.json["error"]["code"] in ("API.METHOD", "API.NO_RESOURCE"), route.name
    browser.call("/logout", "POST", sec_fetch_site="same-origin")
    assert browser.call("/api/v1/me").status == 401
