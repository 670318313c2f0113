"""A plan as a file: its digest, its approvals, and what counts as drift."""

from __future__ import annotations

import copy
import json
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.errors import PipelineError
from headrace.graph.select import Selection
from headrace.model.change_classes import ApprovalMode, ApprovalPolicy, ChangeClass
from headrace.plan.drift import DATASET_FACTS, FLOW_FACTS, differences, early_differences
from headrace.plan.plan_file import PlanFile, check_approved

NOON = datetime(2026, 11, 25, 12, tzinfo=UTC)
FLOW_STEP = {"decision": "start", "reason": "3 new files", "trigger": "availableNow", "load": None, "restart": None}
DOCUMENT = {
    "format": 1,
    "plan_id": "pl-20261125-0a1b2c3d",
    "made_at": NOON.isoformat(),
    "made_by": "ann",
    "expires_at": (NOON + timedelta(hours=24)).isoformat(),
    "pipeline_id": "p1",
    "code": {"digest": "sha256:c", "files": {"a.py": "1", "b.sql": "2"}, "git": {"commit": None, "dirty": None}},
    "settings": {"digest": "sha256:s", "profile": "prod", "configuration": ["landing"]},
    "packages": {"headrace": "1", "pyspark": "4.2.0"},
    "selection": {
        "refresh": [],
        "full_refresh": ["orders"],
        "full_refresh_all": False,
        "reset_checkpoint": [],
        "accept_data_loss": True,
    },
    "base": {
        "datasets": {
            name: {"table_id": f"{name}-id", "version": 3, "schema_digest": "s", "properties_digest": "p"}
            for name in ("orders", "hours")
        },
        "flows": {name: {"epoch": 0, "fingerprint": "f", "made_with": None} for name in ("orders", "hours")},
    },
    "changes": [
        {"class": "rebuild", "dataset": "orders", "flow": None, "why": "full refresh", "rows_cleared": 100},
        {"class": "widen", "dataset": "hours", "flow": None, "why": 'adds "n"', "rows_cleared": 0},
        {"class": "data", "dataset": "raw", "flow": "raw", "why": "3 new files", "rows_cleared": 0},
    ],
    "steps": {
        "tables": [
            {
                "dataset": "orders",
                "change": "reset",
                "reason": "full refresh",
                "loses_rows": False,
                "columns": [],
                "widened": [],
                "relaxed": [],
                "properties": {},
                "comment": None,
                "column_comments": {},
                "cluster_by": None,
            }
        ],
        "views": [],
        "flows": [
            {"flow": "orders", "dataset": "orders", "reset": True, **FLOW_STEP},
            {"flow": "hours", "dataset": "hours", "reset": False, **FLOW_STEP},
        ],
        "losses": [],
        "renames": [],
        "inactive": [],
        "away": [],
    },
    "limits": {"rows_cleared": 110},
}
PLAN = PlanFile(DOCUMENT)
SOON = NOON + timedelta(hours=1)


def changed(*path, to):
    """The document with another value at a path."""
    found = copy.deepcopy(DOCUMENT)
    *parents, last = path
    place = found
    for key in parents:
        place = place[key]
    place[last] = to
    return found


def codes(act):
    with pytest.raises(PipelineError) as raised:
        act()
    return raised.value


def test_a_plan_is_read_as_it_was_written():
    plan = PLAN.approved("bob", NOON, "after the backup")

    read = PlanFile.parse(plan.to_text(), "p.json")

    assert read == plan
    assert read.selection == Selection(full_refresh=("orders",), accept_data_loss=True)
    assert read.classes == {ChangeClass.REBUILD, ChangeClass.WIDEN, ChangeClass.DATA}
    assert json.loads(plan.to_text())["approvals"][0] == {
        "by": "bob",
        "at": "2026-11-25T12:00:00+00:00",
        "says": "after the backup",
        "digest": PLAN.digest,
        "signature": None,
    }


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


@given(st.dictionaries(st.text(), json_values, max_size=5), st.randoms())
def test_the_digest_survives_the_file_and_does_not_depend_on_the_order_of_keys(extra, random):
    document = {**DOCUMENT, "extra": extra}
    shuffled = list(document.items())
    random.shuffle(shuffled)

    assert PlanFile(dict(shuffled)).digest == PlanFile(document).digest
    assert PlanFile.parse(PlanFile(document).to_text(), "p").digest == PlanFile(document).digest


@pytest.mark.parametrize(
    ("path", "value"),
    [(("made_by",), "eve"), (("limits", "rows_cleared"), 10**6), (("changes", 0, "class"), "widen")],
)
def test_a_file_whose_text_was_changed_is_refused(path, value):
    raw = {**json.loads(PLAN.approved("bob", NOON).to_text()), **changed(*path, to=value)}

    assert codes(lambda: PlanFile.parse(json.dumps(raw), "p.json")).code == "PLAN.TAMPERED"


@pytest.mark.parametrize(
    "text", ["", "[]", "{}", "not json", '{"format": 1, "digest": "", "approvals": []}', '{"format": NaN}']
)
def test_a_file_that_is_no_plan_is_named(text):
    error = codes(lambda: PlanFile.parse(text, "p.json"))

    assert error.code in ("PLAN.UNREADABLE", "PLAN.TAMPERED")
    assert error.params["file"] == "p.json"


def test_a_plan_of_a_later_version_is_not_read():
    text = PlanFile({**DOCUMENT, "format": 3}).to_text()

    assert "later version" in codes(lambda: PlanFile.parse(text, "p.json")).params["reason"]


AWAIT = ApprovalPolicy((ChangeClass.REBUILD,), ApprovalMode.AWAIT)
FOUR_EYES = ApprovalPolicy((ChangeClass.REBUILD,), ApprovalMode.AWAIT, four_eyes=True)


def test_an_approval_counts_for_its_own_digest_alone():
    other = PlanFile(changed("made_by", to="eve")).approved("bob", NOON)
    borrowed = PlanFile(DOCUMENT, other.approvals)

    assert codes(lambda: check_approved(PLAN, AWAIT, "p")).params["reason"] == "nobody has approved it"
    assert codes(lambda: check_approved(borrowed, AWAIT, "p")).params["reason"] == "its approvals are of another plan"
    check_approved(PLAN.approved("ann", NOON), AWAIT, "p")


def test_with_four_eyes_another_person_has_to_approve():
    assert codes(lambda: check_approved(PLAN.approved("ann", NOON), FOUR_EYES, "p")).code == "PLAN.NOT_APPROVED"
    check_approved(PLAN.approved("ann", NOON).approved("bob", NOON), FOUR_EYES, "p")


def test_only_required_classes_need_an_approval_and_rejected_ones_have_none():
    check_approved(PLAN, ApprovalPolicy(), "p")
    check_approved(PLAN, ApprovalPolicy((ChangeClass.DESTRUCTIVE,), ApprovalMode.AWAIT), "p")
    rejected = ApprovalPolicy((ChangeClass.REBUILD,), ApprovalMode.REJECT)

    assert codes(lambda: check_approved(PLAN.approved("bob", NOON), rejected, "p")).code == "PLAN.REJECTED"


COMPARED = [
    (("pipeline_id",), "p2", "it is the plan of another pipeline, with id p1"),
    (("code",), {"digest": "x", "files": {"a.py": "3", "c.py": "2"}}, "the code changed: a.py, b.sql, c.py"),
    (("settings",), {"digest": "x", "profile": None}, "the settings differ (profile prod then, none now)"),
    (("packages", "pyspark"), "4.3.0", "pyspark is 4.3.0 and was 4.2.0"),
    (("selection", "full_refresh"), [], "the selection differs"),
    *(
        (("base", "datasets", "hours", fact), "x", f'table "hours" {words}')
        for fact, words in zip(
            DATASET_FACTS, ("is another table", "has other columns", "has other properties"), strict=True
        )
    ),
    *(
        (("base", "flows", "hours", fact), 7, f'flow "hours" {words}')
        for fact, words in zip(
            FLOW_FACTS, ("is in another epoch", "has run with other code", "has another state"), strict=True
        )
    ),
    (("base", "datasets"), {"orders": DOCUMENT["base"]["datasets"]["orders"]}, 'table "hours" no longer exists'),
    (("changes", 1, "class"), "rebuild", "change that was not planned: rebuild of hours"),
    (("changes", 0, "rows_cleared"), 111, "it clears 111 rows, and the plan allows 110"),
    (("steps", "tables", 0, "columns"), ["n"], "step that was not planned: tables"),
    (("steps", "flows", 1, "decision"), "fail", "step that was not planned: flows"),
    (("steps", "flows", 1, "reset"), True, "step that was not planned: flows"),
    (("steps", "flows", 1, "restart"), {"start": "latest"}, "step that was not planned: flows"),
    (("steps", "renames"), [{"what": "flow", "from": "a", "to": "b"}], "step that was not planned: renames"),
]


@pytest.mark.parametrize(("path", "value", "words"), COMPARED)
def test_a_change_of_what_is_compared_is_drift(path, value, words):
    found = differences(PLAN, changed(*path, to=value), SOON)

    assert any(difference.startswith(words) for difference in found)


@given(st.lists(st.sampled_from(COMPARED), min_size=1, unique_by=lambda case: case[0]), st.randoms())
def test_any_set_of_changes_is_drift_in_any_order(cases, random):
    now = copy.deepcopy(DOCUMENT)
    for path, value, _ in sorted(cases, key=lambda case: len(case[0])):
        place = now
        for key in path[:-1]:
            place = place.get(key, {}) if isinstance(place, dict) else place[key]
        place[path[-1]] = value
    shuffled = copy.deepcopy(now)
    random.shuffle(shuffled["changes"])
    random.shuffle(shuffled["steps"]["flows"])

    assert differences(PLAN, now, SOON)
    assert sorted(differences(PLAN, now, SOON)) == sorted(differences(PLAN, shuffled, SOON))


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (("base", "datasets", "orders", "version"), 9),
        (("changes", 0, "rows_cleared"), 110),
        (("changes", 0, "why"), "another reason"),
        (("changes", 2, "dataset"), "others"),
        (("steps", "flows", 0, "reason"), "9 new files"),
        (("steps", "flows", 1, "decision"), "up to date"),
        (("steps", "losses"), [{"rows": 9}]),
        (("code", "git"), {"commit": "x"}),
    ],
)
def test_new_data_is_no_drift(path, value):
    assert differences(PLAN, DOCUMENT, SOON) == ()
    assert differences(PLAN, changed(*path, to=value), SOON) == ()


def test_an_expired_plan_has_drifted():
    late = NOON + timedelta(hours=24)

    assert early_differences(PLAN, DOCUMENT, late) == ("the plan expired at 2026-11-26T12:00:00+00:00",)
    assert early_differences(PLAN, DOCUMENT, late - timedelta(seconds=1)) == ()
