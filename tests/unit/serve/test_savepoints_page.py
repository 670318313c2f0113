"""What the page of the savepoints says: the list, one of them, what has changed since, and those of others."""

from __future__ import annotations

import json

from tests.unit.serve.conftest import NOON, assert_golden, plain, rendered

from headrace.metrics import catalogue
from headrace.metrics.samples import Samples
from headrace.serve.pages.savepoints_page import one_facts, savepoint_facts, since_of
from headrace.storage.savepoints.manifest import SavedFlow, SavedTable, Savepoint, SavepointKind

NOW = NOON.timestamp()
PATH = "/p/shop/savepoints"
ID = "sp-20261119T120000Z-7e57"


def table(name, version, *, pinned=True, rows=100):
    return SavedTable(name, name, "table", f"tables/default/{name}", "id", version, 3, 2048, rows, pinned)


def savepoint(identity=ID, name="before-march", kind=SavepointKind.MANUAL, **more):
    tables = more.pop("tables", (table("orders", 1), table("revenue", 4, pinned=False), table("old", 9, rows=None)))
    flows = (SavedFlow("orders", "orders", "orders", "append", "f", 0, 12, size_bytes=512),)
    flows += (SavedFlow("publish", "shop_out", "publish", "update", "g", 1, None, is_sink=True),)
    made_with = {"Headrace": "0.1.0", "Delta": "4.4.0"}
    return Savepoint(
        identity,
        name,
        kind,
        NOW - 86_400,
        "ann",
        "p",
        made_with,
        "d",
        has_code=True,
        tables=tables,
        flows=flows,
        **more,
    )


def samples():
    found = Samples()
    for name, version in (("orders", 5), ("revenue", 4)):
        found.set(catalogue.TABLE_VERSION, version, name)
        found.set(catalogue.TABLE_ROWS, 140, name)
    return found


def document(**more):
    empty = {"restoring": None, "chosen": None, "tables": [], "flows": [], "unread": []}
    paging = {"page": 1, "pages": 1, "total": 2}
    return {"name": "shop", "as_of": "2026-11-20T12:00:00Z", "paging": paging, **empty, **more}


def stored(shop, *found):
    for one in found:
        folder = shop.root / "storage" / "savepoints" / one.id
        folder.mkdir(parents=True)
        (folder / "manifest.json").write_text(json.dumps(one.to_json()))
    return shop.root / "storage" / "savepoints"


def test_the_list_and_one_savepoint_say_what_has_changed_since():
    before_plan = savepoint("sp-20261120T110000Z-1111", "", SavepointKind.BEFORE_PLAN, plan_id="pl-20261120-3f9c")
    found = [savepoint_facts(one, samples()) for one in (before_plan, savepoint())]
    parts = one_facts(savepoint(), samples())

    assert found[1]["since"] == "1 table changed, by 4 commits since."
    assert (found[1]["pinned"], found[1]["held"], found[1]["rows"]) == (2, 1, 200)
    assert [(one["table"], one["version"], one["version_now"]) for one in parts["tables"]] == [
        ("orders", 1, 5),
        ("revenue", 4, 4),
        ("old", 9, None),
    ]
    html = rendered("savepoints.html", document(savepoints=found))
    assert "headrace savepoint restore before-march --dry-run" in plain(html)
    assert_golden("savepoints", html)
    one = document(savepoints=[found[1]], chosen=ID, **parts)
    assert_golden("savepoint", rendered("savepoints.html", one))


def test_a_table_of_an_older_version_went_back_and_one_that_is_gone_is_unknown():
    went_back, gone = since_of((table("orders", 9),), samples()), since_of((table("x", 1),), samples())

    assert went_back.sentence == "1 table went back or was replaced since."
    assert gone.sentence == "Nothing is known of its tables now."
    assert since_of((table("revenue", 4),), samples()).sentence == "No table has changed since."


def test_savepoints_are_read_by_parts_and_one_is_found_by_its_name(shop, served):
    ids = [f"sp-202611{day:02}T120000Z-7e57" for day in range(1, 24)]
    stored(shop, *(savepoint(one, f"n{number}") for number, one in enumerate(ids)))
    browser = served(shop).sign_in()

    first, last = browser.call(f"{PATH}.json").json, browser.call(f"{PATH}.json?page=3").json
    named = browser.call(f"{PATH}.json?savepoint=n7").json

    assert [one["id"] for one in first["savepoints"]] == ids[:12:-1]
    assert (len(last["savepoints"]), last["paging"]["total"]) == (3, 23)
    assert (named["savepoints"][0]["id"], len(named["tables"]), len(named["flows"])) == (ids[7], 3, 2)
    assert browser.call(f"{PATH}?savepoint=n7").status == 200
    assert browser.call(f"{PATH}?savepoint=../x").status == 404


def test_torn_newer_and_interrupted_savepoints_are_named_and_the_others_are_shown(shop, served):
    folder = stored(shop, savepoint())
    for name, content in (("sp-2", "{"), ("sp-3", '{"format": 99}')):
        (folder / name).mkdir()
        (folder / name / "manifest.json").write_text(content)
    (folder / "restoring.json").write_text(json.dumps({"savepoint": ID, "datasets": ["orders"]}))
    browser = served(shop).sign_in()

    page = browser.call(f"{PATH}.json").json

    assert [one["name"] for one in page["savepoints"]] == ["before-march"]
    assert [one["part"] for one in page["unread"]] == ["savepoint sp-3", "savepoint sp-2"]
    assert page["restoring"] == {"savepoint": ID, "datasets": ["orders"]}
    assert "A restore is not finished" in browser.call(PATH).text


def test_without_a_savepoint_the_page_says_how_to_make_one(shop, served):
    assert "headrace savepoint create" in served(shop).sign_in().call(PATH).text
