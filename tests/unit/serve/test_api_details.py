"""What the API has of one dataset and of one flow: commits, columns, expectations, batches, checkpoint and state."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake
from tests.unit.serve.conftest import batch, definitions
from tests.unit.serve.test_api import P, matches

from headrace.events.types import TableEvaluated, UpdateStateChanged
from headrace.model.expectations import Action, ExpectationCount
from headrace.model.names import QualifiedName
from headrace.model.outcome import UpdateState
from headrace.settings.load import load_settings
from headrace.storage.flow_record import FlowRecord, write_record

HISTORY, SCHEMA = f"{P}/datasets/orders/history", f"{P}/datasets/orders/schema"
EXPECTATIONS, BATCHES = f"{P}/datasets/orders/expectations", f"{P}/flows/orders/batches"


def read(browser, path, schema):
    answer = browser.call(path)
    assert answer.status == 200, answer.text
    matches(schema, answer.json)
    return answer.json


def parts(browser, path, name, schema, limit=2):
    """The items of all parts of a list, each part as a list."""
    found, query = [], f"?limit={limit}"
    while True:
        answer = read(browser, path + query, schema)
        found.append(answer[name])
        if answer["earlier"] is None:
            return found
        query = f"?limit={limit}&before={answer['earlier']}"


def store_flow(shop, flow="orders"):
    """Store a flow into ``orders``, with a checkpoint of which batch 2 runs."""
    settings = load_settings(shop.root / "pipeline.yml", environ={})
    folder = Path(settings.layout.flow_state(settings.naming, QualifiedName("orders"), flow)).parent
    write_record(folder / "flow.json", FlowRecord(flow=flow, dataset="orders", mode="append", started_at=1.0))
    checkpoint = folder / "0"
    for name in ("offsets", "commits"):
        (checkpoint / name).mkdir(parents=True)
    (checkpoint / "metadata").write_text('{"id": "query-1"}')
    confs = {"batchWatermarkMs": 1_795_000_000_000, "batchTimestampMs": 1_795_000_100_000, "conf": {}}
    for number in range(3):
        (checkpoint / "offsets" / str(number)).write_text(
            f"v1\n{json.dumps(confs)}\n{json.dumps({'logOffset': number})}"
        )
    for number in range(2):
        (checkpoint / "commits" / str(number)).write_text('v1\n{"nextBatchWatermarkMs":0}')
    store = checkpoint / "state" / "0" / "0"
    store.mkdir(parents=True)
    (store / "2.delta").write_bytes(b"x" * 11)
    metadata = checkpoint / "state" / "0" / "_metadata"
    metadata.mkdir()
    (metadata / "metadata").write_text('v1\n{"operatorInfo":{"operatorId":0,"operatorName":"dedupe"}}')


def test_commits_have_their_rows_files_and_bytes_and_the_batch_that_made_them(busy_shop, served):
    table = DeltaTable(busy_shop.table("orders"))
    table.optimize.compact()

    newest, *others = read(served(busy_shop).sign_in(), HISTORY, "History")["commits"]

    (size,) = (Path(file).stat().st_size for file in table.file_uris())
    assert (newest["operation"], newest["flow"], newest["rows_added"]) == ("OPTIMIZE", None, 0)
    assert (newest["files_added"], newest["files_removed"], newest["bytes_added"]) == (1, 3, size)
    assert newest["bytes_removed"] == sum(one["bytes_added"] for one in others)
    facts = [(one["version"], one["update_id"], one["batch_id"], one["rows"], one["rows_added"]) for one in others]
    # The fixture records 100 rows for a batch, and writes one.
    assert facts == [(2, "bbbb2222-0000", 2, 100, 1), (1, "aaaa1111-0000", 1, 90, 1), (0, "aaaa1111-0000", 0, 100, 1)]


def test_a_commit_that_is_far_back_has_its_batch_too(busy_shop, served, monkeypatch):
    """Guards batches that are older than the newest reports of a flow, which the page reads."""
    monkeypatch.setattr("headrace.serve.pipelines.NEWEST_REPORTS", 1)
    write_deltalake(busy_shop.table("orders"), pa.table({"id": [9]}), mode="append")
    busy_shop.date_commit("orders", 3)
    batches = [batch(number) for number in range(3, 6)]
    busy_shop.update("cccc3333-0000", *definitions(), *batches, UpdateStateChanged(UpdateState.COMPLETED))

    found = read(served(busy_shop).sign_in(), f"{HISTORY}?limit=1", "History")

    assert [(one["version"], one["batch_id"]) for one in found["commits"]] == [(3, 3)]
    assert found["earlier"] == 3


def test_a_commit_belongs_to_the_batch_that_was_recorded_next_to_it(busy_shop, served):
    """A table that was made again counts its versions from 0 again."""
    table = busy_shop.table("orders")
    busy_shop.update("cccc3333-0000", *definitions(), batch(3), UpdateStateChanged(UpdateState.COMPLETED))
    busy_shop.clock.at = busy_shop.clock.at.replace(hour=20)
    write_deltalake(table, pa.table({"id": [9]}), mode="append")
    busy_shop.date_commit("orders", 3)
    busy_shop.update("dddd4444-0000", *definitions(), batch(3), UpdateStateChanged(UpdateState.COMPLETED))

    (newest,) = read(served(busy_shop).sign_in(), f"{HISTORY}?limit=1", "History")["commits"]

    assert (newest["version"], newest["update_id"]) == (3, "dddd4444-0000")


def test_lists_come_in_parts_without_a_gap(busy_shop, served):
    browser = served(busy_shop).sign_in()

    commits = parts(browser, HISTORY, "commits", "History")
    batches = parts(browser, BATCHES, "batches", "Batches")
    rules = parts(browser, EXPECTATIONS, "expectations", "Expectations")

    assert [[one["version"] for one in part] for part in commits] == [[2, 1], [0]]
    assert [[one["batch_id"] for one in part] for part in batches] == [[2, 1], [0]]
    assert [[point["passed"] for rule in part for point in rule["over_time"]] for part in rules] == [[90, 100], [100]]


def test_batches_are_those_of_the_page_with_what_streams_report_of_them(browser):
    batches = read(browser, BATCHES, "Batches")["batches"]

    assert batches == browser.call("/p/shop/f/orders.json").json["batches"]
    assert batches[-1]["phases_ms"]["add_batch"] == 900


def test_only_what_was_recorded_since_a_time_is_counted(browser):
    since = "?since=2026-11-20T12:30:00Z"

    assert [one["batch_id"] for one in read(browser, BATCHES + since, "Batches")["batches"]] == [2]
    (rule,) = read(browser, EXPECTATIONS + since, "Expectations")["expectations"]
    assert (rule["name"], rule["passed"], rule["failed"], len(rule["over_time"])) == ("valid", 100, 0, 1)
    assert read(browser, f"{BATCHES}?since=2027-01-01T00:00:00Z", "Batches")["batches"] == []


def test_results_of_table_rules_are_expectations_too(busy_shop, served):
    results = (ExpectationCount("unique_id", Action.WARN, 0, 1),)
    busy_shop.update("cccc3333-0000", *definitions(), TableEvaluated("orders", "orders", results))

    found = read(served(busy_shop).sign_in(), f"{EXPECTATIONS}?limit=1", "Expectations")

    assert found["declared"] == ["valid"]
    assert [(one["name"], one["failed"]) for one in found["expectations"]] == [("unique_id", 1)]


def test_columns_are_compared_from_version_to_version(busy_shop, served):
    table = busy_shop.table("orders")
    write_deltalake(table, pa.table({"id": [1], "amount": [2.5]}), mode="append", schema_mode="merge")
    DeltaTable(table).alter.set_table_properties({"delta.appendOnly": "false"})
    browser = served(busy_shop).sign_in()

    found = read(browser, SCHEMA, "SchemaReport")
    newest = read(browser, f"{SCHEMA}?limit=2", "SchemaReport")

    changes = [
        (one["version"], [(change["column"], change["change"]) for change in one["changes"]])
        for one in found["versions"]
    ]
    assert changes == [(3, [("amount", "added")]), (0, [])]
    assert [one["is_compared"] for one in found["versions"]] == [True, False]
    assert [one["type"] for one in found["columns"]] == ["int", "decimal(10,2)"]
    assert [one["type"] for one in found["table_columns"]] == ["bigint", "double"]
    # What was before the commits that are looked at is known, too.
    assert ([one["version"] for one in newest["versions"]], newest["earlier"]) == ([3], 3)
    assert newest["versions"][0]["is_compared"]


@pytest.mark.parametrize("dataset", ["shop_out", "revenue"])
def test_a_dataset_without_a_table_has_no_commits(browser, dataset):
    history = read(browser, f"{P}/datasets/{dataset}/history", "History")
    columns = read(browser, f"{P}/datasets/{dataset}/schema", "SchemaReport")

    assert (history["commits"], history["earlier"]) == ([], None)
    assert (columns["table_columns"], columns["versions"]) == (None, [])
    # A table that no update has written yet may come.
    assert (history["no_table"] is None) == (dataset == "revenue")


@pytest.mark.parametrize(
    ("query", "what"),
    [
        ("history?limit=0", "limit"),
        ("history?limit=201", "limit"),
        ("history?before=-1", "before"),
        ("schema?limit=1e3", "limit"),
        ("expectations?since=yesterday", "since"),
        ("expectations?since=2026-11-20T12:00:00", "since"),
        (f"expectations?before={'9' * 40}", "before"),
    ],
)
def test_a_parameter_that_is_wrong_is_refused(browser, query, what):
    answer = browser.call(f"{P}/datasets/orders/{query}")

    assert (answer.status, answer.json["error"]["code"]) == (422, "API.FIELD")
    assert f'parameter "{what}"' in answer.json["error"]["message"]


@pytest.mark.parametrize(
    "word",
    [
        *("datasets/no/history", "datasets/no/schema", "datasets/no/expectations"),
        *("flows/no/batches", "flows/no/checkpoint", "flows/no/state"),
    ],
)
def test_what_is_unknown_has_no_details(browser, word):
    assert browser.call(f"{P}/{word}").status == 404


def test_the_checkpoint_has_batches_positions_and_epochs(busy_shop, served):
    store_flow(busy_shop)

    found = read(served(busy_shop).sign_in(), f"{P}/flows/orders/checkpoint", "Checkpoint")

    assert (found["query_id"], found["planned"], found["done"]) == ("query-1", 2, 1)
    assert found["last_batch_at"] == "2026-11-18T11:08:20Z"
    assert [(one["epoch"], one["state"]) for one in found["epochs"]] == [(0, "current")]
    assert found["sources"][0]["offset"] == {"logOffset": 2}


def test_the_state_has_the_size_of_its_stores_and_what_was_reported(busy_shop, served):
    store_flow(busy_shop)

    found = read(served(busy_shop).sign_in(), f"{P}/flows/orders/state", "State")

    (operator,) = found["operators"]
    assert (operator["name"], operator["bytes"], operator["partitions"]) == ("deduplication", 11, 1)
    assert (found["batch"], found["watermark"]) == (1, "2026-11-18T11:06:40Z")


def test_a_flow_that_has_not_run_has_no_checkpoint_and_no_state(browser):
    answer = browser.call(f"{P}/flows/revenue/checkpoint")

    assert (answer.status, answer.json["error"]["code"]) == (404, "CHECKPOINTS.UNKNOWN")
    found = read(browser, f"{P}/flows/revenue/state", "State")
    assert (found["operators"], found["batch"]) == ([], None)


def test_the_checkpoint_of_a_flow_is_not_that_of_the_dataset_with_its_name(busy_shop, served):
    store_flow(busy_shop, flow="other")

    answer = served(busy_shop).sign_in().call(f"{P}/flows/orders/checkpoint")

    assert (answer.status, answer.json["error"]["code"]) == (404, "CHECKPOINTS.UNKNOWN")


def test_a_name_may_end_like_a_route(busy_shop, served):
    name = "orders/state"
    events = [one for one in definitions() if getattr(one, "flow", "") == "orders"]
    renamed = [type(one)(**{**vars(one), "flow": name}) for one in events]
    busy_shop.update("cccc3333-0000", *definitions(), *renamed, UpdateStateChanged(UpdateState.COMPLETED))
    browser = served(busy_shop).sign_in()

    flow = browser.call(f"{P}/flows/{name}", raw_path=f"{P}/flows/orders%2Fstate").json
    state = browser.call(f"{P}/flows/{name}").json
    its_state = browser.call(f"{P}/flows/{name}/state", raw_path=f"{P}/flows/orders%2Fstate/state").json

    assert (flow["flow"], "batches" in flow) == (name, True)
    assert (state["flow"], its_state["flow"], "operators" in state) == ("orders", name, True)
