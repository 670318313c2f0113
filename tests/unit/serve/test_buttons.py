"""The buttons of each page: what each asks for, who may press it, and what has to be typed or seen before."""

from __future__ import annotations

from urllib.parse import parse_qsl, urlsplit

import pytest
from tests.unit.serve.conftest import plain, rendered
from tests.unit.serve.form_sending import form_of, forms_of, send
from tests.unit.serve.operated_shop import APPLIED, PLAN, SAVEPOINT, operated
from tests.unit.serve.test_changes_page import document as plans_document
from tests.unit.serve.test_changes_page import facts as facts_of_plan
from tests.unit.serve.test_changes_page import plan
from tests.unit.serve.test_forms import ended
from tests.unit.serve.test_writes import calls, taking

from headrace.model.change_classes import ApprovalMode, ApprovalPolicy
from headrace.serve.pages.request_pages import result_facts
from headrace.serve.roles import Role

TYPED = {"confirm": "shop"}
# The page, the form, what is entered, and the words that it becomes.
PRESSED = [
    (
        "/p/shop/forms/start_update",
        "start_update",
        {"refresh": ["orders", "revenue"]},
        "run --refresh=orders --refresh=revenue",
    ),
    ("/p/shop/u/bbbb", "start_update", {}, "run"),
    ("/p/shop/savepoints", "create_savepoint", {"name": "before-march"}, "savepoint create -- before-march"),
    (f"/p/shop/savepoints?savepoint={SAVEPOINT}", "restore", {}, f"savepoint restore --dry-run -- {SAVEPOINT}"),
    (f"/p/shop/savepoints?savepoint={SAVEPOINT}", "drop_savepoint", TYPED, f"savepoint drop -- {SAVEPOINT}"),
    (f"/p/shop/forms/roll_back?plan={APPLIED}", "roll_back", TYPED, f"rollback -- {APPLIED}"),
    ("/p/shop/schedules", "fire_schedule", {"schedule": "nightly"}, "run --refresh=revenue"),
    ("/p/shop/schedules", "pause_schedule", {"schedule": "nightly"}, "schedules pause --as=admin -- nightly"),
    ("/p/shop/maintenance", "maintain", {}, "maintain --dry-run --"),
    (
        "/p/shop/forms/replay?dataset=orders",
        "replay",
        {"rules": "valid", "set": ["id=abs(id)", "", " "], "dry_run": "true"},
        "quarantine replay --dry-run --rule=valid --set=id=abs(id) -- orders",
    ),
]


def test_each_button_asks_for_what_it_says(busy_shop, served):
    expected = sorted(words.split() for *_, words in PRESSED)
    with taking(operated(busy_shop), served) as browser:
        answers = [send(browser, form_of(browser, path, name), fields) for path, name, fields, _ in PRESSED]
        reports = [ended(browser, answer) for answer in answers]

    assert {report["state"] for report in reports} == {"COMPLETED"}
    ours = ("--cause=", "--request-id=")
    found = [[word for word in words if not word.startswith(ours)] for words in calls(busy_shop)]
    assert sorted(found) == expected


@pytest.mark.parametrize(
    ("path", "operation"),
    [
        (f"/p/shop/savepoints?savepoint={SAVEPOINT}", "drop_savepoint"),
        (f"/p/shop/forms/roll_back?plan={APPLIED}", "roll_back"),
    ],
)
def test_what_takes_something_away_has_to_be_confirmed_by_typing(busy_shop, served, path, operation):
    with taking(operated(busy_shop), served) as browser:
        answer = send(browser, form_of(browser, path, operation))

    assert (answer.status, calls(busy_shop)) == (422, [])
    assert "SERVE.NOT_CONFIRMED" in answer.text
    assert 'go back and type "shop"' in plain(answer.text).replace("&#34;", '"')


def test_a_restore_without_a_dry_run_is_for_admins_who_have_typed_the_name(busy_shop, served):
    form = {"savepoint": SAVEPOINT, "dry_run": ""}
    with taking(operated(busy_shop), served) as browser:
        path = f"/p/shop/savepoints?savepoint={SAVEPOINT}"
        untyped = send(browser, form_of(browser, path, "restore"), form)
        typed = send(browser, form_of(browser, path, "restore"), {**form, **TYPED})
        ended(browser, typed)
        browser.token = browser.tokens.add("bob", Role.APPROVER, busy_shop.clock.seconds())
        browser.sign_in()
        approver = send(browser, form_of(browser, path, "restore"), {**form, **TYPED})

    assert (untyped.status, typed.status, approver.status) == (422, 303, 403)
    assert [words[-2:] for words in calls(busy_shop)] == [["--", SAVEPOINT]]


def page_of_plan(role, made=None, policy=None):
    policy = policy or ApprovalPolicy(mode=ApprovalMode.AWAIT)
    made = made or plan(made_by="bob")
    found = facts_of_plan(made, policy, by_request=frozenset({made.plan_id}))
    four_eyes = {"mode": policy.mode.value, "required": ["rebuild"], "four_eyes": policy.four_eyes}
    more = {"policy": four_eyes, "is_running": False, "chosen": made.plan_id, "code": None}
    return rendered("changes.html", plans_document(found, **more), role=role)


def test_a_plan_is_approved_then_applied_by_typing_what_it_clears():
    waits = page_of_plan(Role.APPROVER)
    approved = page_of_plan(Role.OPERATOR, plan(made_by="bob").approved("eve", plan().expires_at))
    own = page_of_plan(Role.APPROVER, plan(made_by="ann"), ApprovalPolicy(mode=ApprovalMode.AWAIT, four_eyes=True))

    assert [len(forms_of(waits, name)) for name in ("approve_plan", "reject_plan", "apply_plan")] == [1, 1, 0]
    assert [len(forms_of(approved, name)) for name in ("approve_plan", "reject_plan", "apply_plan")] == [0, 1, 1]
    assert "removes 1,203 rows" in plain(approved)
    assert "confirm" in forms_of(approved, "apply_plan")[0]["fields"]
    assert forms_of(own, "approve_plan")[0]["is_disabled"]
    assert "somebody else has to approve it" in own
    # An operator may apply a plan, and not reject it.
    assert forms_of(approved, "reject_plan")[0]["is_disabled"]


def test_a_plan_that_was_applied_can_be_rolled_back_and_one_of_the_project_is_for_a_terminal(busy_shop, served):
    browser = served(operated(busy_shop)).sign_in()
    (busy_shop.root / "b.plan.json").write_text(plan(plan_id="pl-20261120-cccc").to_text())

    of_project = browser.call("/p/shop/changes?plan=pl-20261120-cccc").text
    listed = browser.call("/p/shop/changes.json").json["plans"]

    assert "approve and apply it in a terminal" in of_project
    assert forms_of(of_project, "reject_plan") == []
    assert {one["plan_id"]: one["by_request"] for one in listed} == {PLAN: True, "pl-20261120-cccc": False}


def report(verb, arguments, result, **more):
    base = {"id": "form-1", "verb": verb, "arguments": arguments, "result": result, "error": None}
    shown = {"name": "shop", "what": "What", "mark": "ok", "state": "COMPLETED", "sentence": "It is done."}
    times = dict.fromkeys(("asked_at", "started_at", "ended_at"), "2026-11-20T12:00:00Z")
    rest = {"user": "ann", "is_pending": False, "can_be_stopped": False, "message": None}
    found = {**base, **shown, **times, **rest, "update_id": None, "merged_into": None, **more}
    return {**found, **result_facts(found)}


PREVIEW = {
    "dataset": "orders",
    "rows": 4,
    "passing": 3,
    "failing": 1,
    "expectations": [{"name": "positive", "passed": 3, "failed": 1}],
}
RESTORE = {
    "savepoint": SAVEPOINT,
    "tables": [{"name": "orders", "version": 5, "restored_version": 1, "files": 0}],
    "flows": [{"name": "orders", "dataset": "orders", "action": "goes_on", "batch": 12}],
    "problems": [],
    "losses": [],
    "notes": [],
}


def test_the_preview_of_a_replay_says_how_many_rows_would_pass_and_asks_for_the_same():
    words = ["--dry-run", "--rule=positive", "--set=amount=abs(amount)", "--", "orders"]
    html = rendered("request.html", report("quarantine replay", words, PREVIEW), role=Role.OPERATOR)
    replay, release = forms_of(html, "replay")

    assert "3 of 4 rows would pass" in html
    expected = {"dataset": "orders", "rules": "positive", "set": "amount=abs(amount)"}
    assert {name: replay["fields"].get(name) for name in expected} == expected
    assert ("release" in replay["fields"], release["fields"]["release"]) == (False, "true")
    assert "dry_run" not in replay["fields"]
    none = {**PREVIEW, "passing": 0, "failing": 4}
    nothing = rendered("request.html", report("quarantine replay", words, none), role=Role.OPERATOR)
    assert forms_of(nothing, "replay")[0]["is_disabled"]
    assert "No row would pass." in nothing


def test_a_restore_is_offered_below_what_it_would_change():
    words = ["--dry-run", "--dataset=orders", "--", SAVEPOINT]
    shown = report("savepoint restore", words, RESTORE)
    html = rendered("request.html", shown, role=Role.ADMIN)
    (form,) = forms_of(html, "restore")
    operator = rendered("request.html", shown, role=Role.OPERATOR)
    lossy = report("savepoint restore", words, {**RESTORE, "losses": ["12 rows of orders"]})

    assert (form["fields"]["savepoint"], form["fields"]["datasets"], "confirm" in form["fields"]) == (
        SAVEPOINT,
        "orders",
        True,
    )
    assert "What a restore would change" in html
    assert "Needs the role admin; yours is operator." in operator
    assert forms_of(rendered("request.html", lossy, role=Role.ADMIN), "restore")[0]["is_disabled"]


@pytest.mark.parametrize("result", [None, 3, "text", [], {"rows": 1}, [{"other": 1}]])
@pytest.mark.parametrize("verb", ["quarantine replay", "savepoint restore", "maintain", "run"])
def test_what_another_version_printed_is_shown_as_it_is(verb, result):
    html = rendered("request.html", report(verb, ["--dry-run", "--", "x"], result), role=Role.ADMIN)

    assert "What was asked for" in html


def test_alerts_are_acknowledged_and_silenced_on_their_page(busy_shop, served):
    with taking(busy_shop, served) as browser:
        page = browser.call("/p/shop/alerts").text
        ack, silence = forms_of(page, "acknowledge_alert")[0], forms_of(page, "silence_alert")[0]
        reports = [ended(browser, send(browser, ack)), ended(browser, send(browser, silence, {"hours": "24"}))]

    alert = ack["fields"]["alert"]
    assert [report["arguments"] for report in reports] == [["--as=admin", "--", alert], ["--hours=24", "--", alert]]


def test_the_page_of_a_form_leads_to_the_right_place_and_unknown_ones_to_none(busy_shop, served):
    with taking(operated(busy_shop), served) as browser:
        answer = send(browser, form_of(browser, "/p/shop/forms/make_plan", "make_plan"), {"refresh": "orders"})
        statuses = [
            browser.call(f"/p/shop/forms/{name}").status
            for name in ("start_update", "replay?dataset=orders", "replay", "replay?dataset=x", "roll_back", "nothing")
        ]
        ended(browser, answer)

    goal = urlsplit(answer.headers["location"])
    assert (goal.path, [name for name, _ in parse_qsl(goal.query)]) == ("/p/shop/changes", ["request"])
    assert statuses == [200, 200, 404, 404, 200, 404]


def test_the_settings_are_shown_without_texts_that_may_be_secrets(busy_shop, served):
    more = "configuration: {password: hunter2, host: '${env:HOST}'}\n"
    browser = served(operated(busy_shop, more), environ={"HOST": "db-1", "HEADRACE_HOST": "here"}).sign_in()

    page, found = browser.call("/p/shop/settings").text, browser.call("/p/shop/settings.json").json

    assert found["texts"]["configuration"] == [
        {"key": "host", "value": "${env:HOST}"},
        {"key": "password", "value": None},
    ]
    assert "hunter2" not in page + str(found)
    assert {"key": "continuous", "value": "false"} in found["general"]


def test_the_list_of_pipelines_says_when_the_next_update_is_due(busy_shop, served):
    browser = served(operated(busy_shop)).sign_in()

    (row,) = browser.call("/.json").json["pipelines"]

    assert row["next_run"]["schedule"] == "nightly"
    assert "by schedule" in browser.call("/").text
