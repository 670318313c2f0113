"""What the page of the quarantines says: by dataset and rule, where rows come from, and never a row."""

from __future__ import annotations

from collections import Counter
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import write_deltalake
from tests.unit.serve.conftest import NOON, assert_golden, plain, rendered
from tests.unit.serve.quarantine_rows import SECRET, quarantine, quarantined_row

from headrace.model.names import Naming
from headrace.project.inspection.quarantine_counts import QuarantineCounts, RuleCounts, quarantine_counts
from headrace.serve.charts import day_bars
from headrace.serve.pages.quarantine_page import dataset_facts, pictures_of
from headrace.settings.load import load_settings
from headrace.storage.dead_letters import _SCHEMA as DEAD_LETTERS

PATH = "/p/shop/quarantine"


def document(*datasets, **more):
    base = {"name": "shop", "as_of": "2026-11-20T12:00:00Z", "unread": [], "chosen": None, "days": 30}
    paging = {"page": 1, "pages": 1, "total": len(datasets)}
    rows = sum(one["open"] for one in datasets)
    return {
        **base,
        "paging": paging,
        "rows": rows,
        "not_counted": 0,
        "dataset_count": len(datasets),
        "datasets": [*datasets],
        "waiting": None,
        **more,
    }


def test_rows_are_counted_by_rule_flow_day_and_origin(shop):
    rows = [
        quarantined_row(["valid", "small"]),
        quarantined_row(["valid"], days=2),
        quarantined_row(["valid"], status="replayed"),
        quarantined_row([], file=None),
    ]
    quarantine(f"{shop.table('orders')}_quarantine", *rows)
    settings = load_settings(shop.root / "pipeline.yml", environ={})

    found = quarantine_counts(settings.layout, settings.naming, "orders")

    assert (found.statuses, found.flows) == ({"open": 3, "replayed": 1}, {"orders": 3})
    assert {name: (one.open, one.done) for name, one in found.rules.items()} == {"valid": (2, 1), "small": (1, 0)}
    assert sorted(found.rules["valid"].days.values()) == [1, 2]
    assert found.origins_shown == [("file", "/data/landing/a.json", 2), ("unknown", "", 1)]
    assert quarantine_counts(settings.layout, Naming(), "nothing") == QuarantineCounts()


def test_the_page_says_how_rows_come_back():
    rules = {"valid": RuleCounts(12, 3, Counter({"2026-11-20": 10, "2026-11-02": 5})), "query.failed": RuleCounts(2)}
    counts = QuarantineCounts(
        Counter({"open": 14, "replayed": 3}),
        Counter({"orders": 14}),
        rules,
        [("file", "/data/a.json", 12), ("unknown", "", 2)],
        Counter({"CAST_INVALID_INPUT": 2}),
        "2026-11-20T11:58:00Z",
    )
    facts = dataset_facts("orders", 14, counts), dataset_facts("torn", 5, None)

    html = rendered("quarantine.html", document(*facts), pictures_of(facts, NOON))

    assert facts[0]["rules"][0]["mend"][-4:] == ["--rule", "valid", "--set", "COLUMN=EXPRESSION"]
    assert (facts[1]["open"], facts[1]["is_known"]) == (5, False)
    assert "headrace quarantine replay orders --release" in plain(html)
    assert_golden("quarantine", html)


def test_no_row_is_in_the_page_and_a_torn_quarantine_is_named(busy_shop, served):
    quarantine(f"{busy_shop.table('orders')}_quarantine", quarantined_row(["valid"]), quarantined_row(["valid"]))
    browser = served(busy_shop).sign_in()

    page, html = browser.call(f"{PATH}.json"), browser.call(PATH).text

    assert [(one["dataset"], one["open"]) for one in page.json["datasets"]] == [("orders", 2)]
    assert not any(SECRET in text for text in (page.text, html))
    assert 'class="count">1<' in html
    assert [browser.call(f"{PATH}?dataset={name}").status for name in ("orders", "x")] == [200, 404]
    for file in Path(f"{busy_shop.table('orders')}_quarantine").glob("*/*.parquet"):
        file.write_bytes(b"torn")
    for file in Path(f"{busy_shop.table('orders')}_quarantine").glob("*.parquet"):
        file.write_bytes(b"torn")
    busy_shop.clock.at += timedelta(minutes=1)
    torn = browser.call(f"{PATH}.json").json
    assert [one["part"] for one in torn["unread"]] == ['the quarantine of "orders"']
    # Without the metrics, it is not taken for empty.
    assert [(one["dataset"], one["open"], one["is_known"]) for one in torn["datasets"]] == [("orders", None, False)]
    assert "not counted" in browser.call(PATH).text


def test_dead_letters_are_counted_by_what_failed(shop):
    rows = [
        dict.fromkeys(DEAD_LETTERS.names)
        | {"row": SECRET, "error": SECRET, "condition": "CAST_INVALID_INPUT", "sink": sink, "flow": "publish"}
        | {"quarantined_at": datetime.now(UTC), "status": "open"}
        for sink in (None, "shop_out", "shop_out")
    ]
    settings = load_settings(shop.root / "pipeline.yml", environ={})
    folder = Path(settings.layout.flow_state(settings.naming, settings.naming.canonical("orders"), "publish")).parent
    write_deltalake(str(folder / "failing_rows"), pa.Table.from_pylist(rows, DEAD_LETTERS))
    (folder / "flow.json").write_text('{"format": 1, "epoch": 0, "identity": "publish"}')

    found = quarantine_counts(settings.layout, settings.naming, "orders")

    assert {name: one.open for name, one in found.rules.items()} == {"query.failed": 1, "sink.refused": 2}
    assert found.conditions == {"CAST_INVALID_INPUT": 3}


def test_without_quarantined_rows_the_page_says_what_puts_rows_there():
    assert "expect_or_quarantine" in rendered("quarantine.html", document(), {"days": []})


@pytest.mark.parametrize("counts", [[], [0, 0], [1, 0, 1_000_000]])
def test_bars_of_days_stay_inside_of_their_box(counts):
    picture = day_bars(counts)

    assert all(bar["y"] >= 0 and bar["y"] + bar["height"] <= picture["height"] for bar in picture["bars"])
    assert all(bar["x"] + picture["bar"] <= picture["width"] for bar in picture["bars"])
