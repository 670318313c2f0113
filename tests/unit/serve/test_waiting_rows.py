"""The rows of a quarantine on its pages: for operators, whatever their values are, and within bounds."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import write_deltalake
from tests.unit.serve.conftest import plain
from tests.unit.serve.quarantine_rows import SECRET, SOURCE, quarantine, quarantined_row
from tests.unit.serve.test_api import P, matches

from headrace.serve.roles import Role
from headrace.settings.load import load_settings
from headrace.storage.dead_letters import _SCHEMA as DEAD_LETTERS

PAGE = "/p/shop/quarantine?dataset=orders"
PAGES = (PAGE, "/p/shop/forms/replay?dataset=orders&rule=valid")
PLACES = (*PAGES, "/p/shop/quarantine.json?dataset=orders", "/p/shop/forms/replay.json?dataset=orders&rule=valid")
API = f"{P}/quarantine/orders"


def as_role(visitor, role):
    """Whoever has a token of a role, signed in with a browser."""
    visitor.token = visitor.tokens.add(f"a-{role.value}", role, 0)
    return visitor.sign_in()


def quarantined(shop, *rows):
    quarantine(f"{shop.table('orders')}_quarantine", *rows)


def odd_rows(shop, row, row_type):
    """A quarantine with a row whose columns have other types."""
    schema = pa.schema(
        [("row", row_type), ("broken", pa.list_(pa.string())), ("source", SOURCE)]
        + [(name, pa.string()) for name in ("update_id", "flow", "status")]
        + [("batch_id", pa.int64()), ("quarantined_at", pa.timestamp("us", "UTC"))]
    )
    stored = {name: value for name, value in quarantined_row(["valid"]).items() if name in schema.names}
    table = pa.Table.from_pylist([{**stored, "row": row}], schema)
    write_deltalake(f"{shop.table('orders')}_quarantine", table)


def dead_letter(record, error, *, sink=None, at=None):
    known = {"row": record, "error": error, "condition": "CAST_INVALID_INPUT", "sink": sink, "flow": "publish"}
    where = {"topic": "orders", "partition": 3, "offset": 17}
    more = {"source": where, "quarantined_at": at or datetime.now(UTC), "status": "open", "batch_id": 1}
    return dict.fromkeys(DEAD_LETTERS.names) | known | more


def dead_letters(shop, *rows):
    settings = load_settings(shop.root / "pipeline.yml", environ={})
    folder = Path(settings.layout.flow_state(settings.naming, settings.naming.canonical("orders"), "publish")).parent
    write_deltalake(str(folder / "failing_rows"), pa.Table.from_pylist([*rows], DEAD_LETTERS))
    (folder / "flow.json").write_text('{"format": 1, "epoch": 0, "identity": "publish"}')


@pytest.mark.parametrize("role", list(Role))
def test_rows_are_for_operators_and_others_get_nothing_of_them(busy_shop, served, role):
    quarantined(busy_shop, quarantined_row(["valid"]))
    dead_letters(busy_shop, dead_letter(f'{{"mail": "{SECRET}"}}', f"no cast of {SECRET}"))
    visitor = as_role(served(busy_shop), role)

    answers = [visitor.call(path) for path in (*PLACES, API)]

    may_see = role.includes(Role.OPERATOR)
    assert [SECRET in one.text for one in answers] == [may_see] * len(answers)
    assert [one.status for one in answers] == [200] * len(PLACES) + [200 if may_see else 403]
    refused = ["Needs the role operator; yours is viewer." in plain(visitor.call(path).text) for path in PAGES]
    assert refused == [not may_see] * len(PAGES)


def test_rows_that_an_operator_saw_are_not_in_what_a_viewer_gets(busy_shop, served):
    """What is read is used again for a moment, and not for others."""
    quarantined(busy_shop, quarantined_row(["valid"]))
    visitor = as_role(served(busy_shop), Role.OPERATOR)
    seen = [visitor.call(path).text for path in PLACES]
    as_role(visitor, Role.VIEWER)

    assert all(SECRET in text for text in seen)
    assert not any(SECRET in visitor.call(path).text for path in (*PLACES, API))


def test_a_row_has_its_rules_values_origin_and_time_and_a_dead_letter_its_error(busy_shop, served):
    at = datetime.now(UTC).replace(microsecond=0)
    quarantined(busy_shop, quarantined_row(["valid", "small"]) | {"quarantined_at": at - timedelta(hours=1)})
    dead_letters(busy_shop, dead_letter('{"id": 7, "price": 1.50}', "no cast of x", sink="shop_out", at=at))

    found = as_role(served(busy_shop), Role.OPERATOR).call(API).json

    assert (found["waiting"], found["columns"]) == (2, ["id", "price", "mail"])
    letter, row = found["rows"]
    assert [one and one["value"] for one in letter["values"]] == [7, "1.50", None]
    assert [one and one["value"] for one in row["values"]] == [1, None, SECRET]
    assert (letter["rules"], letter["error"]["value"], letter["sink"]) == (["sink.refused"], "no cast of x", "shop_out")
    assert (letter["origin"]["topic"], letter["origin"]["offset"]) == ("orders", 17)
    assert (row["rules"], row["error"], row["origin"]["file"]) == (["valid", "small"], None, "/data/landing/a.json")
    assert (letter["quarantined_at"], row["flow"]) == (at.isoformat().replace("+00:00", "Z"), "orders")
    matches("QuarantinedRows", found)


def test_only_open_rows_of_the_rule_are_shown_the_newest_first_and_so_many(busy_shop, served):
    done = quarantined_row(["valid"], status="replayed", mail="done")
    rows = [quarantined_row(["valid"], days=number, mail=f"v{number}") for number in range(30)]
    quarantined(busy_shop, done, quarantined_row(["small"], mail="small"), *reversed(rows))
    dead_letters(busy_shop, dead_letter('{"mail": "failed"}', "x"), dead_letter('{"mail": "x"}', "x", sink="out"))
    visitor = as_role(served(busy_shop), Role.OPERATOR)

    def mails(query):
        found = visitor.call(f"{API}?{query}").json
        return found["waiting"], [row["values"][found["columns"].index("mail")]["value"] for row in found["rows"]]

    assert mails("rule=valid&limit=3") == (30, ["v0", "v1", "v2"])
    assert (mails("rule=small"), mails("rule=query.failed")) == ((1, ["small"]), (1, ["failed"]))
    assert (mails("limit=100")[0], len(mails("limit=100")[1]), len(mails("")[1])) == (33, 33, 20)
    assert mails("rule=' OR 1=1 --") == (0, [])
    assert "the newest 20 of 33 rows; 13 more are not shown" in plain(visitor.call(PAGE).text)
    assert "the newest 20 of 30 rows" in plain(visitor.call(PAGES[1]).text)


@pytest.mark.parametrize("limit", ["0", "101", "1e1", "-1", "", "٣"])
def test_a_limit_out_of_bounds_is_refused(busy_shop, served, limit):
    quarantined(busy_shop, quarantined_row(["valid"]))

    answer = as_role(served(busy_shop), Role.OPERATOR).call(f"{API}?limit={limit}")

    assert (answer.status, answer.json["error"]["code"]) == (422, "API.FIELD")


def test_a_dataset_without_a_quarantine_is_not_found(busy_shop, served):
    visitor = as_role(served(busy_shop), Role.OPERATOR)

    answers = [visitor.call(f"{P}/quarantine/{name}") for name in ("orders", "no", "a`b")]

    assert [(one.status, one.json["error"]["code"]) for one in answers] == [(404, "QUARANTINE.NONE")] * 3


_ODD = (
    (pa.int64(), None, None, "NULL"),
    (pa.string(), "", "", "empty text"),
    (pa.bool_(), True, True, "true"),
    (pa.float64(), float("nan"), "NaN", "NaN"),
    (pa.float64(), float("-inf"), "-Infinity", "-Infinity"),
    (pa.decimal128(38, 2), Decimal("1.50"), "1.50", "1.50"),
    (pa.date32(), date(2026, 11, 20), "2026-11-20", "2026-11-20"),
    (pa.timestamp("us"), datetime(2026, 11, 20, 1), "2026-11-20T01:00:00", "2026-11-20T01:00:00"),  # noqa: DTZ001 - a time without a zone
    (pa.binary(), b"\x00\xff", "AP8=", "AP8="),
    (pa.list_(pa.string()), ["a", None], ["a", None], '["a", null]'),
    (pa.struct([("a", pa.list_(pa.int32()))]), {"a": [1]}, {"a": [1]}, '{"a": [1]}'),
)


def test_values_of_odd_types_are_shown_as_the_command_line_shows_them(busy_shop, served):
    names = [f"c{number}" for number in range(len(_ODD))]
    row_type = pa.struct([(name, one[0]) for name, one in zip(names, _ODD, strict=True)])
    odd_rows(busy_shop, {name: one[1] for name, one in zip(names, _ODD, strict=True)}, row_type)
    visitor = as_role(served(busy_shop), Role.OPERATOR)

    found, html = visitor.call(API).json, plain(visitor.call(PAGE).text)

    assert [one["value"] for one in found["rows"][0]["values"]] == [one[2] for one in _ODD]
    assert [text for *_, text in _ODD if text not in html] == []


def test_long_texts_many_columns_and_records_that_are_no_objects_are_bounded(busy_shop, served):
    columns = pa.struct([(f"c{number:03}", pa.string()) for number in range(130)])
    odd_rows(busy_shop, {f"c{number:03}": "x" * 50_000 for number in range(130)}, columns)
    records = ["{" + "y" * 500_000, "[" * 200_000, '{"n": ' + "9" * 50_000 + "}", None]
    dead_letters(busy_shop, *(dead_letter(one, "z" * 200_000) for one in records))
    visitor = as_role(served(busy_shop), Role.OPERATOR)

    answer, page = visitor.call(API), visitor.call(PAGE).text

    assert (answer.status, answer.json["column_count"], len(answer.json["columns"])) == (200, 132, 100)
    assert max(len(answer.text), len(page)) < 150_000
    assert "… (cut)" in page
    assert "headrace --output json quarantine show orders" in plain(page)
    assert "The first 100 of 132 columns." in plain(page)


def test_secrets_are_removed_also_from_keys_and_where_a_text_is_cut(busy_shop, served):
    (busy_shop.root / "pipeline.yml").write_text("name: shop\nconfiguration: {key: '{{secrets/shop/key}}'}\n")
    hidden = "hunter2hunter2hunter2"
    environ = {"HEADRACE_SECRET_SHOP_KEY": hidden, "HEADRACE_HOST": "here"}
    nested = pa.struct([("a", pa.string()), ("b", pa.list_(pa.string()))])
    odd_rows(busy_shop, {"a": "x" * 290 + hidden, "b": [hidden]}, nested)
    dead_letters(busy_shop, dead_letter(f'{{"{hidden}": {{"{hidden}": 1}}}}', "e" * 1995 + hidden))
    visitor = as_role(served(busy_shop, environ=environ), Role.OPERATOR)

    texts = [visitor.call(path).text for path in (*PLACES, API)]

    assert all("x" * 290 in text for text in texts)
    assert not any("hunter2" in text for text in texts)


def test_texts_of_others_in_rows_are_escaped(busy_shop, served):
    attack = '"><script>alert(1)</script>'
    odd_rows(busy_shop, {attack: {"n": attack}}, pa.struct([(attack, pa.struct([("n", pa.string())]))]))
    dead_letters(busy_shop, dead_letter(attack, attack, sink=attack))
    visitor = as_role(served(busy_shop), Role.OPERATOR)

    texts = [visitor.call(path).text for path in (*PLACES, API)]

    assert all("alert(1)" in text for text in texts)
    assert not any("<script>alert" in text for text in texts)


def test_rows_that_cannot_be_read_are_said_and_the_rest_of_the_page_is_shown(busy_shop, served):
    quarantined(busy_shop, quarantined_row(["valid"]))
    visitor = as_role(served(busy_shop), Role.OPERATOR)
    visitor.call("/p/shop/quarantine")
    for file in Path(f"{busy_shop.table('orders')}_quarantine").rglob("*.parquet"):
        file.write_bytes(b"torn")

    page, answer = visitor.call(PAGE), visitor.call(API)

    assert (page.status, "The rows could not be read." in plain(page.text)) == (200, True)
    assert (answer.status, answer.json["error"]["code"]) == (422, "QUARANTINE.UNREADABLE")
