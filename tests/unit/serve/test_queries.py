"""Queries and previews over HTTP: who may ask, what is passed on, and what is shown. The command line is a script."""

from __future__ import annotations

import csv
import io
import json
import sys
from contextlib import contextmanager
from urllib.parse import urlencode

import pytest
from tests.unit.serve.form_sending import FORM
from tests.unit.serve.test_api import P, matches

from headrace.errors import PipelineError
from headrace.events.reader import EventReader
from headrace.project.requests.request import Asker
from headrace.project.requests.verb_call import VerbCall
from headrace.serve.pipelines import served_pipelines
from headrace.serve.queries.query_runner import QueryRunner
from headrace.serve.roles import Role
from headrace.settings.load import load_settings
from headrace.settings.storage import MonitoringFile

OURS = {"content_type": "application/json", "sec_fetch_site": "same-origin"}
# Answers a query with what it was called with; some queries have special answers.
SCRIPT = """
import json, sys, time
words, query = sys.argv[1:], sys.stdin.read()
if query == "wrong":
    error = {"code": "SQL.RESTRICTED", "message": "m", "params": {"reason": "It calls Java"}}
    print(json.dumps({"error": error, "problems": [error]}))
    sys.exit(2)
if query == "dies":
    print("java.lang.OutOfMemoryError", file=sys.stderr)
    sys.exit(1)
if query == "waits":
    time.sleep(600)
rows = [[" ".join(words), query], [None, {"a": [1, True]}], ["<script>alert(1)</script>", 3], ["secret", 4]]
print(json.dumps({"columns": ["words", "words"], "rows": rows}))
"""


@contextmanager
def querying(shop, served, **given):
    """A browser that is signed in, and the runner of its queries."""
    (shop.root / "script.py").write_text(SCRIPT)
    command = (sys.executable, str(shop.root / "script.py"))
    (pipeline,) = served_pipelines([shop.root], None, {}, shop.clock.seconds, shop.clock.seconds).values()
    runner = QueryRunner(pipeline, VerbCall(shop.root, None, {}, command=command), bool)
    yield served(shop, runners={"shop": runner}, **given).sign_in(), runner


@pytest.fixture
def asking(busy_shop, served):
    with querying(busy_shop, served) as (browser, _runner):
        yield browser


def ask(browser, document, **headers):
    return browser.call(f"{P}/sql", "POST", json.dumps(document).encode(), **{**OURS, **headers})


def form_token(browser, path="/p/shop/sql"):
    text = browser.call(path).text
    return text.split('name="form_token" value="', 1)[1].partition('"')[0]


def send(browser, path="/p/shop/sql", token=None, **fields):
    given = {"form_token": form_token(browser) if token is None else token, **fields}
    return browser.call(path, "POST", urlencode(given).encode(), **FORM)


def test_a_query_is_passed_on_by_standard_input_and_answered_with_columns_and_rows(asking, busy_shop):
    answer = ask(asking, {"query": "SELECT 1\nFROM orders", "rows": 3, "seconds": 5})

    assert answer.status == 200, answer.text
    matches("QueryResult", answer.json)
    words = answer.json["rows"][0][0]
    assert answer.json["rows"][0][1] == "SELECT 1\nFROM orders"
    assert words.endswith("--output json sql --restricted --as-table --limit=4 --timeout=5 -- -")
    assert (answer.json["columns"], len(answer.json["rows"]), answer.json["is_truncated"]) == (["words"] * 2, 3, True)


def test_who_asks_for_rows_is_written_down_before(asking, busy_shop):
    ask(asking, {"query": "SELECT name FROM orders"})
    send(asking, "/p/shop/preview", dataset="orders")

    settings = load_settings(busy_shop.root / "pipeline.yml", environ={})
    log = EventReader(settings.layout.monitoring(MonitoringFile.OPERATIONS))
    details = [json.loads(row["details"])["user_action"] for row in log.events()]
    assert [(one["verb"], one["arguments"]) for one in details] == [
        ("sql", ["SELECT name FROM orders"]),
        ("preview", ["orders"]),
    ]


@pytest.mark.parametrize("role", list(Role))
def test_rows_need_the_role_of_an_operator(busy_shop, served, role):
    with querying(busy_shop, served) as (browser, _runner):
        text = browser.tokens.add("ann", role, busy_shop.clock.seconds())
        bearer = {"content_type": "application/json", "authorization": f"Bearer {text}", "cookie": None}

        answer = browser.call(f"{P}/sql", "POST", b'{"query": "SELECT 1"}', **bearer)

    assert answer.status == (200 if role.includes(Role.OPERATOR) else 403)


@pytest.mark.parametrize(
    "document",
    [{}, {"query": ""}, {"query": "  "}, {"query": "x" * 8001}, {"query": "a\0"}, {"query": 1}]
    + [{"query": "q", "rows": rows} for rows in (0, 1001, 1.5, True, "1")]
    + [{"query": "q", "seconds": seconds} for seconds in (0, 61, "1")]
    + [{"query": "q", "write": True}],
)
def test_what_is_no_query_is_refused(asking, document):
    answer = ask(asking, document)

    assert (answer.status, answer.json["error"]["code"]) == (422, "API.FIELD")


@pytest.mark.parametrize(
    ("query", "status", "code"), [("wrong", 422, "SQL.RESTRICTED"), ("dies", 503, "SERVE.NO_ANSWER")]
)
def test_the_errors_of_a_query_are_those_of_the_command_line_with_their_hints(asking, query, status, code):
    answer = ask(asking, {"query": query})

    assert (answer.status, answer.json["error"]["code"]) == (status, code)
    assert answer.json["error"]["hint"]


def test_a_query_that_nobody_waits_for_is_stopped_and_two_run_at_a_time(busy_shop, served):
    with querying(busy_shop, served) as (_browser, runner):
        codes = []

        def third():
            try:
                runner.sql(Asker("ann", ""), "q", 1, 1.0)
            except PipelineError as error:
                codes.append(error.code)
            return True

        def second():
            with pytest.raises(PipelineError):
                runner.sql(Asker("ann", ""), "waits", 1, 1.0, third)
            return True

        with pytest.raises(PipelineError):
            runner.sql(Asker("ann", ""), "waits", 1, 1.0, second)

        assert set(codes) == {"SERVE.QUERIES_BUSY"}
        assert len(runner.sql(Asker("ann", ""), "q", 4, 1.0).rows) == 4


def test_the_page_shows_rows_or_the_error_and_nothing_in_them_can_run_and_gives_rows_as_csv(asking):
    token = form_token(asking)
    rows = send(asking, token=token, query="SELECT 1", rows="2000", seconds="x")
    wrong = send(asking, token=token, query="wrong")
    text = send(asking, token=token, query="SELECT 1", **{"as": "csv"})

    assert (rows.status, "<script>alert" in rows.text, "&lt;script&gt;alert(1)" in rows.text) == (200, False, True)
    assert "--limit=1001 --timeout=30" in rows.text
    assert '<span class="none">NULL</span>' in rows.text
    assert ">SELECT 1</textarea>" in rows.text
    assert (wrong.status, "SQL.RESTRICTED" in wrong.text, ">wrong</textarea>" in wrong.text) == (200, True, True)
    found = list(csv.reader(io.StringIO(text.text, newline="")))
    assert text.headers["content-type"] == "text/csv; charset=utf-8"
    assert text.headers["content-disposition"] == 'attachment; filename="shop.csv"'
    assert (found[0], found[2]) == (["words", "words"], ["", '{"a": [1, true]}'])


def test_a_form_of_another_session_site_or_role_runs_nothing(busy_shop, served):
    with querying(busy_shop, served) as (browser, _runner):
        token = form_token(browser)
        other = send(browser, token="0" * 64, query="SELECT 1")
        site = browser.call(
            "/p/shop/sql", "POST", f"form_token={token}&query=q".encode(), **{**FORM, "sec_fetch_site": "same-site"}
        )
        browser.token = browser.tokens.add("vera", Role.VIEWER, busy_shop.clock.seconds())
        browser.sign_in()
        viewer = browser.call("/p/shop/sql").text
        refused = send(browser, token=token, query="SELECT 1")

    assert (other.status, "SERVE.FORM_TOKEN" in other.text) == (403, True)
    assert site.status == 403
    assert ("<textarea" in viewer, "need the role operator" in viewer) == (False, True)
    assert refused.status == 403
    assert not (busy_shop.root / "storage" / "system" / "operations").exists()


def test_a_server_that_only_reads_runs_no_queries(busy_shop, served):
    with querying(busy_shop, served, is_read_only=True) as (browser, _runner):
        page, api = browser.call("/p/shop/sql"), ask(browser, {"query": "q"})
        sent = send(browser, token="", query="q")

    assert ("<textarea" in page.text, "read-only" in page.text) == (False, True)
    assert (api.status, sent.status) == (404, 405)


def test_a_page_of_a_preview_has_json(asking):
    assert asking.call("/p/shop/preview.json?dataset=orders").json["dataset"] == "orders"


def test_a_dataset_is_previewed_from_its_page(asking):
    page = asking.call("/p/shop/d/orders").text
    answer = send(asking, "/p/shop/preview", dataset="--help")

    assert 'href="/p/shop/preview?dataset=orders"' in page
    assert "preview --as-table --rows=50 -- --help" in answer.text
