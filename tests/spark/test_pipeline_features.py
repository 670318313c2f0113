"""From files to rows: notebooks, private tables, persisted views, hooks and listeners."""

from __future__ import annotations

import json
import shutil
import threading
from datetime import timedelta

import pytest
from pyspark.sql.streaming import StreamingQueryListener
from tests.servers.receiver import running_receiver

from headrace.errors import PipelineError, Problems
from headrace.events.types import UpdateCreated, UpdateStateChanged, Warned
from headrace.model.names import QualifiedName
from headrace.model.outcome import UpdateState
from headrace.model.views import ViewDefinition
from headrace.plan.steps import ViewChange, ViewStep
from headrace.project.test_harness import utc_now
from headrace.storage.view_definitions import apply_view_step

pytestmark = pytest.mark.spark

PATIENCE_S = 60


def ipynb(*cells):
    written = [{"cell_type": "code", "metadata": {}, "source": cell} for cell in cells]
    return json.dumps({"nbformat": 4, "nbformat_minor": 5, "metadata": {}, "cells": written})


SETUP = "FACTOR = {}\n\ndef times(x):\n    return x * FACTOR\n"
ORDERS = ipynb(
    "%md\n# Orders",
    "%run ./lib/setup",
    "import dlt\nfrom pyspark.sql.functions import udf",
    "@dlt.table(private=True)\ndef numbers():\n    return spark.range(3)",
    "big = udf(times, 'bigint')",
    "@dlt.table\ndef tripled():\n    return dlt.read('numbers').select(big('id').alias('n'))",
    "%sql\nCREATE MATERIALIZED VIEW total AS\nSELECT sum(n) AS n FROM tripled WHERE n >= :least",
)


def test_a_notebook_declares_datasets_and_reruns_when_an_included_notebook_changes(project):
    files = {"orders.ipynb": ORDERS, "lib/setup.ipynb": ipynb(SETUP.format(3))}
    settings = {"libraries": [{"notebook": {"path": "orders"}}], "parameters": {"least": "3"}}
    pipeline = project(files=files, **settings)

    assert pipeline.run().rows("total") == [{"n": 9}]
    assert pipeline.plan().empty

    pipeline.write("lib/setup.ipynb", ipynb(SETUP.format(5)))
    assert pipeline.run().rows("total") == [{"n": 15}]


def test_errors_in_a_notebook_report_the_cell_and_the_line(project):
    bad_udf = "\n\n@udf('int')\ndef fails(x):\n    return 1 // (x - x)\n"
    cells = ["import dlt\nfrom pyspark.sql.functions import udf", f"x = 1{bad_udf}"]
    read = "@dlt.table\ndef {}():\n    return spark.range(1).select({})"
    pipeline = project(
        files={"transformations/a.ipynb": ipynb(*cells, read.format("worker", "fails('id').alias('n')"))}
    )

    result = pipeline.run()
    assert result.outcome.error["location"] == {"file": "transformations/a.ipynb", "cell": 2, "line": 5}

    pipeline.write("transformations/a.ipynb", ipynb(*cells, read.format("driver", "no_such")))
    with pytest.raises(Problems) as raised:
        pipeline.plan()
    assert str(raised.value.errors[0].location) == "transformations/a.ipynb cell 3 line 3"


@pytest.mark.fires("flow_failed", "update_failed", "schema_blocked")
def test_the_end_of_an_update_tells_receivers_what_failed(project):
    flows = """
    @dp.materialized_view
    def good():
        return spark.range(2)

    @dp.materialized_view
    def bad():
        return spark.range(1).select(F.raise_error(F.lit("no")).cast("int"))
    """
    with running_receiver() as receiver:
        alerts = {"deliver": {"ops": {"webhook": receiver.url}}, "datasets": {"godo": {"lag": "5m"}}}
        pipeline = project(flows, alerts=alerts)
        heard = []
        failed = pipeline.run(on_event=heard.append)
        pipeline.run("good")
        # A table instead of a view needs a decision about its rows.
        file = pipeline.folder / "transformations" / "project.py"
        file.write_text(file.read_text().replace("@dp.materialized_view\ndef good", "@dp.table\ndef good"))
        file.write_text(file.read_text().replace("spark.range(2)", "spark.readStream.format('rate').load()"))
        with pytest.raises(Problems):
            pipeline.run()

    request, refused = receiver.requests
    assert failed.outcome.state is UpdateState.FAILED
    (blocked,) = (one["labels"] for one in refused.rows[0]["alerts"])
    assert (blocked["alertname"], blocked["code"]) == ("schema_blocked", "TABLE.KIND_CHANGED")
    created = next(event for event in heard if isinstance(event, UpdateCreated))
    assert len(created.code_digest) == 64
    found = {one["labels"]["alertname"]: one["labels"] for one in request.rows[0]["alerts"]}
    assert found.keys() == {"update_failed", "flow_failed"}
    assert found["flow_failed"]["flow"] == "bad"
    assert any('did you mean "good"' in event.message for event in heard if isinstance(event, Warned))


PRIVATE = """
    @dp.table{private}
    @dp.expect_or_quarantine("small", "id < 2")
    def numbers():
        return spark.readStream.schema("id INT").json("{folder}/in")
    """


def test_a_private_table_is_hidden_and_keeps_its_rows_when_it_becomes_public(project):
    pipeline = project("x = 1", name="hidden")
    view = "CREATE VIEW seen AS SELECT id FROM numbers"
    pipeline.write("transformations/views.sql", view)

    def declare(private):
        text = "from headrace import pipelines as dp\n" + PRIVATE.format(private=private, folder=pipeline.folder)
        pipeline.write("transformations/project.py", text.replace("\n    ", "\n"))

    declare("(private=True)")
    pipeline.land("in/a.json", [{"id": 1}, {"id": 2}])
    assert pipeline.run().state is UpdateState.COMPLETED

    assert pipeline.project.tables() == ()
    assert [name for name, _, _ in pipeline.project.tables(private=True)] == ["numbers", "numbers_quarantine"]
    assert pipeline.sql("SELECT * FROM seen").to_json() == [{"id": 1}]
    assert "numbers" not in str(pipeline.sql("SHOW TABLES").to_json())
    for table in ("numbers", "numbers_quarantine"):
        with pytest.raises(PipelineError) as raised:
            pipeline.sql(f"SELECT * FROM {table}")
        assert raised.value.code == "SQL.PRIVATE"
    assert pipeline.project.sql("SELECT id FROM numbers", private=True).to_json() == [{"id": 1}]
    assert "numbers  (private streaming table)" in pipeline.project.graph().describe()

    declare("")
    assert [step.reason for step in pipeline.plan().tables] == ["becomes public"]
    pipeline.run()
    assert pipeline.plan().empty
    assert pipeline.sql("SELECT id FROM numbers").to_json() == [{"id": 1}]


VIEWS = """
    USE SCHEMA sales;
    CREATE MATERIALIZED VIEW orders AS SELECT id FROM range(3);
    CREATE VIEW high (id COMMENT 'the number') COMMENT 'those above' AS SELECT id FROM orders WHERE id > {floor};
    CREATE MATERIALIZED VIEW counted AS SELECT count(*) AS n FROM high;
    """
HIGHEST = "dp.persisted_view('highest', 'SELECT max(id) AS id FROM sales.high', comment='one row')"


def test_a_persisted_view_can_be_queried_without_files_and_follows_its_definition(project):
    log = {"name": "my_log", "retain": "0 seconds"}
    pipeline = project(HIGHEST, {"transformations/a.sql": VIEWS.format(floor=0)}, event_log=log)

    result = pipeline.run()
    assert result.rows("sales.counted") == [{"n": 2}]
    assert pipeline.plan().empty

    pipeline.write("transformations/a.sql", VIEWS.format(floor=1).replace("\n    ", "\n"))
    assert [step.describe() for step in pipeline.plan().views] == ["replace    view sales.high: its definition changed"]
    assert pipeline.run("sales.counted").rows("sales.counted") == [{"n": 1}]
    assert pipeline.sql("SELECT count(*) AS n FROM sales.high").to_json() == [{"n": 2}]
    # Events expire by the second, and an update without new rows may end in the second in which the last one began.
    pipeline.clock = lambda: utc_now() + timedelta(seconds=2)
    pipeline.run()

    shutil.rmtree(pipeline.folder / "transformations")
    assert pipeline.sql("SELECT h.id, x.id AS most FROM sales.high h, highest x").to_json() == [{"id": 2, "most": 2}]
    described = pipeline.sql("DESCRIBE sales__high").to_json()
    assert described == [{"col_name": "id", "data_type": "bigint", "comment": "the number"}]
    updates = pipeline.sql("SELECT count(*) AS kept FROM my_log WHERE event_type = 'create_update'")
    assert updates.to_json() == [{"kept": 1}]

    shutil.rmtree(pipeline.folder / "storage" / "tables" / "sales" / "orders")
    with pytest.raises(PipelineError) as raised:
        pipeline.sql("SELECT * FROM highest")
    assert raised.value.code == "VIEW.UNUSABLE"


def test_invalid_persisted_views_are_rejected(project):
    text = """
        @dp.temporary_view
        def passing():
            return spark.range(1)

        dp.persisted_view("over_temporary", "SELECT * FROM passing")
        dp.persisted_view("changes", "DROP TABLE passing")
        dp.persisted_view("streams", "SELECT * FROM STREAM numbers")
        """
    source = "CREATE STREAMING TABLE numbers AS SELECT * FROM STREAM other; CREATE MATERIALIZED VIEW other AS SELECT 1;"
    pipeline = project(text, {"transformations/a.sql": source})

    with pytest.raises(Problems) as raised:
        pipeline.plan()

    assert sorted(error.code for error in raised.value) == [
        "FLOW.SQL_NOT_QUERY",
        "FLOW.STREAM_FOR_PERSISTED_VIEW",
        "VIEW.READS_TEMPORARY",
    ]


LENIENT = """
    CREATE MATERIALIZED VIEW zero AS SELECT 0 AS z;
    SET spark.sql.ansi.enabled = {ansi};
    CREATE VIEW divided AS SELECT 1 / z AS d FROM zero;
    SET spark.sql.ansi.enabled = true;
    CREATE MATERIALIZED VIEW copied AS SELECT d FROM divided;
    """


def test_set_statements_before_a_view_apply_wherever_the_view_is_read(project):
    pipeline = project("", {"transformations/a.sql": LENIENT.format(ansi="false")})

    assert pipeline.run().rows("copied") == [{"d": None}]
    assert pipeline.sql("SELECT d FROM divided").to_json() == [{"d": None}]

    pipeline.write("transformations/a.sql", LENIENT.format(ansi="true"))
    assert [step.describe() for step in pipeline.plan().views] == ["replace    view divided: its definition changed"]


LEAK = "CREATE VIEW leak AS SELECT '${mail.pass}' AS p; CREATE TEMPORARY VIEW fine AS SELECT '${mail.pass}' AS p;"


def test_a_persisted_view_does_not_store_or_reveal_a_secret(project, monkeypatch):
    monkeypatch.setenv("HEADRACE_SECRET_MAIL_PASS", "s3cret")
    pipeline = project("", {"transformations/a.sql": LEAK}, configuration={"mail.pass": "${secret:mail/pass}"})

    with pytest.raises(Problems) as raised:
        pipeline.run()
    assert [(error.code, error.params["name"]) for error in raised.value] == [("VIEW.HOLDS_SECRET", "leak")]

    stored = ViewDefinition(QualifiedName("old"), "SELECT s3cret FROM range(1)", None, "default")
    layout, naming = pipeline.settings.layout, pipeline.settings.naming
    apply_view_step(ViewStep(stored.name, ViewChange.CREATE, "", stored), layout, naming)
    with pytest.raises(PipelineError) as unusable:
        pipeline.sql("SELECT * FROM old")
    assert unusable.value.code == "VIEW.UNUSABLE"
    assert "s3cret" not in unusable.value.render()


HOOKS = """
    import json
    from pathlib import Path

    FOLDER = Path("{folder}")

    @dp.on_event_hook
    def keep(event):
        with (FOLDER / "events.jsonl").open("a") as file:
            file.write(json.dumps(event) + "\\n")

    @dp.on_event_hook(max_allowable_consecutive_failures=0)
    def fail(event):
        raise ValueError("never mind " + dbutils.secrets.get("mail", "pass"))

    @dp.materialized_view
    def numbers():
        return spark.range(3)
    """


def test_event_hooks_receive_the_events_of_an_update_and_cannot_fail_it(project, tmp_path, monkeypatch):
    monkeypatch.setenv("HEADRACE_SECRET_MAIL_PASS", "s3cret")
    pipeline = project(HOOKS.format(folder=tmp_path))
    heard = []

    assert pipeline.run(on_event=heard.append).state is UpdateState.COMPLETED

    events = [json.loads(line) for line in (tmp_path / "events.jsonl").read_text().splitlines()]
    assert events[0]["event_type"] == "create_update"
    assert events[-1]["details"]["update_progress"]["state"] == "COMPLETED"
    assert "warning" not in {event["event_type"] for event in events}
    logged = pipeline.sql("SELECT id FROM event_log WHERE maturity_level = 'STABLE' ORDER BY id").to_json()
    assert [event["id"] for event in events] == [row["id"] for row in logged]
    (warning,) = pipeline.sql("SELECT message FROM event_log WHERE event_type = 'warning'").to_json()
    assert "disabled until the next update: ValueError: never mind [REDACTED]" in warning["message"]
    # What a terminal shows is no more than what is stored.
    assert [event.message for event in heard if isinstance(event, Warned)] == [warning["message"]]


LISTENING = """
    from pyspark.sql.streaming import StreamingQueryListener

    class Keeper(StreamingQueryListener):
        def onQueryStarted(self, event):
            active = [query.name for query in spark.streams.active]
            note("started", event.name, *active, spark.streams.get(str(event.id)).name)

        def onQueryProgress(self, event):
            pass

        def onQueryIdle(self, event):
            pass

        def onQueryTerminated(self, event):
            note("ended", str(event.id))

    def note(*words):
        with open("{folder}/heard.txt", "a") as file:
            file.write(" ".join(words) + "\\n")

    spark.streams.addListener(Keeper())

    @dp.table
    def numbers():
        return spark.readStream.schema("id INT").json("{folder}/in")
    """


OTHER = """
    @dp.table
    def other():
        return spark.readStream.schema("id INT").json("{folder}/in")
    """


class Own(StreamingQueryListener):
    """A listener of the program's own, with the names that Spark calls."""

    # ruff: noqa: N802, ARG002

    def __init__(self):
        self.ended = threading.Semaphore(0)
        self.ids = []

    def onQueryStarted(self, event):
        self.ids.append(str(event.id))

    def onQueryProgress(self, event):
        pass

    def onQueryIdle(self, event):
        pass

    def onQueryTerminated(self, event):
        self.ended.release()


def test_a_query_listener_is_called_once_per_query_and_removed_with_its_project(project, headrace_session, tmp_path):
    (tmp_path / "in").mkdir()
    pipeline = project(LISTENING.format(folder=tmp_path))
    other = project(OTHER.format(folder=tmp_path))
    own = Own()

    def add_own(event):
        # The files were loaded several times by now; a listener that is added last hears last.
        if isinstance(event, UpdateStateChanged) and event.state is UpdateState.RUNNING:
            headrace_session.streams.addListener(own)

    try:
        pipeline.plan()
        pipeline.run(on_event=add_own)
        assert own.ended.acquire(timeout=PATIENCE_S)
        other.run()
        assert own.ended.acquire(timeout=PATIENCE_S)
    finally:
        headrace_session.streams.removeListener(own)

    heard = (tmp_path / "heard.txt").read_text().splitlines()
    assert [line.split()[0] for line in heard] == ["started", "ended"]
    assert heard[0] == "started numbers numbers numbers"
    assert len(own.ids) == 2
