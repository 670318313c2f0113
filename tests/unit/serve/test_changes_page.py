"""What the page of the plans says: their state and why, their changes, approvals and code, and files that are none."""

from __future__ import annotations

import copy
import json
from datetime import UTC, datetime, timedelta

from tests.unit.plan.test_plan_files import DOCUMENT
from tests.unit.serve.conftest import NOON, assert_golden, definitions, rendered

from headrace.events.types import UpdateCreated, UpdateStateChanged
from headrace.model.change_classes import ApprovalMode, ApprovalPolicy, ChangeClass
from headrace.model.outcome import UpdateState
from headrace.plan.changes import Change, OldRows, Work
from headrace.plan.plan_file import Approval, PlanFile
from headrace.project.changes.saved_plans import SavedPlan
from headrace.serve.pages.changes_page import AppliedPlan, PlanContext, plan_facts

PATH = "/p/shop/changes"
AWAIT = ApprovalPolicy(mode=ApprovalMode.AWAIT)
KEPT = OldRows(98_000, (0, 41), 1, 40, ('table "raw": read through version 41',), "headrace run --full-refresh hours")
CHANGES = (
    Change(ChangeClass.FORWARD_ONLY, "hours", "hours", "its code changed", old_rows=KEPT),
    Change(ChangeClass.ADD, "new", None, "new"),
    Change(ChangeClass.REBUILD, "orders", None, "full refresh", ("hours", "report"), 1203, Work(98_000, 1 << 20, 39.2)),
)


def plan(**more):
    """A plan that was made an hour before noon, and is valid for a day."""
    times = {"made_at": "2026-11-20T11:00:00+00:00", "expires_at": "2026-11-21T11:00:00+00:00"}
    document = {**copy.deepcopy(DOCUMENT), **times, "changes": [one.to_json() for one in CHANGES], **more}
    return PlanFile(document)


def facts(made=None, policy=AWAIT, now=NOON, **more):
    made = made or plan()
    return plan_facts(SavedPlan("change.plan.json", made), PlanContext(policy, now, **more))


def document(*plans, **more):
    empty = {"chosen": None, "in_force": None, "problems": [], "unread": [], "steps": [], "code": None}
    policy = {"mode": "await", "required": ["destructive", "rebuild"], "four_eyes": True}
    paging = {"page": 1, "pages": 1, "total": len(plans)}
    base = {"name": "shop", "as_of": "2026-11-20T12:00:00Z", "policy": policy, "paging": paging}
    return {**base, **empty, "plans": [*plans], **more}


def test_a_plan_says_its_state_with_the_reason_and_the_next_command():
    made = plan()
    own, others = made.approved(made.made_by, NOON), made.approved("bob", NOON, "after the backup")
    foreign = PlanFile(made.document, (Approval("eve", "2026-11-20T11:30:00+00:00", "sha256:other"),))
    four_eyes = ApprovalPolicy(mode=ApprovalMode.AWAIT, four_eyes=True)
    applied = (AppliedPlan(made.plan_id, "aaaa1111-0000", NOON),)
    differing = {made.plan_id: ("the code changed: transformations/orders.py",)}

    found = {
        "waits": facts(),
        "own": facts(own, four_eyes),
        "foreign": facts(foreign),
        "approved": facts(others, four_eyes),
        "ready": facts(policy=ApprovalPolicy()),
        "refused": facts(policy=ApprovalPolicy(mode=ApprovalMode.REJECT)),
        "outdated": facts(others, differences=differing),
        "expired": facts(now=NOON + timedelta(days=2)),
        "applied": facts(applied=applied),
    }

    assert {name: one["state"] for name, one in found.items()} == {
        "waits": "WAITS FOR APPROVAL",
        "own": "WAITS FOR APPROVAL",
        "foreign": "WAITS FOR APPROVAL",
        "approved": "APPROVED",
        "ready": "READY",
        "refused": "REFUSED",
        "outdated": "OUTDATED",
        "expired": "EXPIRED",
        "applied": "APPLIED",
    }
    assert found["waits"]["command"] == ["headrace", "approve", "change.plan.json"]
    assert found["approved"]["command"] == ["headrace", "apply", "change.plan.json"]
    assert "transformations/orders.py" in found["outdated"]["why"]
    assert found["own"]["approvals"][0]["why_not"] == "the plan is their own"
    assert found["foreign"]["approvals"][0]["why_not"] == "it is of another plan"


def test_changes_are_shown_worst_first_in_the_words_of_the_command():
    found = facts()

    assert [one["class"] for one in found["changes"]] == ["rebuild", "forward_only", "add"]
    assert {"label": "clears", "text": "1203 rows"} in found["changes"][0]["facts"]
    assert {"label": "to mend", "text": KEPT.mend} in found["changes"][1]["facts"]
    in_force = {
        **dict.fromkeys(("git_commit", "plan_id", "plan_update_id", "plan_applied_at", "rollback")),
        "update_id": "aaaa1111-0000",
        "state": "COMPLETED",
        "mark": "ok",
        "user": "ann",
        "started_at": "2026-11-20T10:00:00Z",
        "code_digest": "0123456789abcdef",
    }
    html = rendered("changes.html", document(found, facts(plan().approved("bob", NOON, "<b>")), in_force=in_force))
    assert_golden("changes", html)


def test_one_plan_shows_its_steps_and_the_code_that_changed():
    diff = "--- deployed/a.py\n+++ now/a.py\n@@ -1 +1 @@\n-a = 1\n+a = 2\n b"
    code = {"flows": [{"flow": "hours", "dataset": "hours", "diff": diff, "reason": None}], "files": []}
    steps = [{"kind": "table", "name": "orders", "step": "reset", "reason": "full refresh"}]

    html = rendered("changes.html", document(facts(), chosen=DOCUMENT["plan_id"], code=code, steps=steps))

    assert "<ins>+a = 2</ins>" in html
    assert_golden("change", html)


def test_a_change_is_read_as_it_was_written():
    for change in CHANGES:
        assert Change.of(json.loads(json.dumps(change.to_json()))).to_json() == change.to_json()


def test_plans_are_found_in_the_project_and_files_that_are_torn_or_changed_are_named(busy_shop, served):
    root = busy_shop.root
    busy_shop.clock.at = datetime(2026, 11, 20, 14, tzinfo=UTC)
    made = plan(plan_id="pl-20261120-aaaa")
    busy_shop.update("cccc3333-0000", *definitions(), UpdateStateChanged(UpdateState.COMPLETED))
    (root / "plans").mkdir()
    (root / "plans" / "a.json").write_text(made.to_text())
    (root / "b.json").write_text(plan(plan_id="pl-20261120-bbbb", made_by="<b>").to_text().replace("full", "small"))
    (root / "c.json").write_text(made.to_text()[:300])
    (root / "other.json").write_text('{"name": "shop"}')
    (root / "strange.json").write_text(plan(plan_id="pl-x", changes=[{"class": "add", "why": 1}]).to_text())
    browser = served(busy_shop).sign_in()

    page = browser.call(f"{PATH}.json").json
    one = browser.call(f"{PATH}.json?plan=pl-20261120-aaaa").json

    assert [(found["file"], found["state"]) for found in page["plans"]] == [("plans/a.json", "OUTDATED")]
    assert [found["code"] for found in page["problems"]] == ["PLAN.TAMPERED", "PLAN.UNREADABLE"]
    assert [found["part"] for found in page["unread"]] == ["plan strange.json"]
    assert page["in_force"]["update_id"] == "cccc3333-0000"
    assert (one["chosen"], one["steps"][0]["name"]) == ("pl-20261120-aaaa", "orders")
    assert [browser.call(f"{PATH}?plan={name}").status for name in ("pl-20261120-aaaa", "pl-no")] == [200, 404]


def test_the_update_that_applied_a_plan_is_named(busy_shop, served):
    busy_shop.clock.at += timedelta(hours=1)
    with_plan = UpdateCreated("USER_ACTION", user="ann", version="0.1.0", plan_id="pl-20261120-aaaa")
    busy_shop.update("cccc3333-0000", with_plan, *definitions(), UpdateStateChanged(UpdateState.COMPLETED))
    (busy_shop.root / "change.plan.json").write_text(plan(plan_id="pl-20261120-aaaa").to_text())

    page = served(busy_shop).sign_in().call(f"{PATH}.json").json

    assert page["in_force"]["rollback"] == ["headrace", "rollback", "pl-20261120-aaaa"]
    assert [(one["state"], one["update_id"]) for one in page["plans"]] == [("APPLIED", "cccc3333-0000")]


def test_without_a_plan_and_an_update_the_page_says_how_to_make_one(shop, served):
    text = served(shop).sign_in().call(PATH).text

    assert "headrace plan --out change.plan.json" in text
    assert "No update has run yet" in text
