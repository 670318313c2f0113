"""What decorators make of their arguments: what fits becomes a definition, anything else a problem with its place."""

from __future__ import annotations

import pytest

from headrace import pipelines as dp
from headrace.errors import PipelineError
from headrace.graph.build import build
from headrace.model.cdc import ALL_COLUMNS, NO_COLUMNS, Columns
from headrace.model.names import Naming, QualifiedName
from headrace.pipelines.registry import Registry, collecting
from headrace.settings.storage import StorageLayout
from headrace.spark.update.dataset_names import Names
from headrace.sql.load import load_sql


@pytest.fixture
def declared(tmp_path):
    """What a function declares, with the codes of its problems."""

    def declare(function):
        registry = Registry(Naming(), tmp_path)
        with collecting(registry):
            function()
        return registry.definitions(), [(p.code, p.params.get("argument")) for p in registry.problems]

    return declare


def query():
    return None


@pytest.mark.parametrize(
    ("declare", "problem"),
    [
        (lambda: dp.table(name=5)(query), ("DEFINITION.WRONG_TYPE", "name")),
        (lambda: dp.table(refresh_policy="now")(query), ("DEFINITION.WRONG_TYPE", "refresh_policy")),
        (lambda: dp.table(refresh_policy=True)(query), ("DEFINITION.WRONG_TYPE", "refresh_policy")),
        (lambda: dp.streaming_table(refresh_policy="full")(query), ("UNSUPPORTED.ARGUMENT", "refresh_policy")),
        (lambda: dp.temporary_view(refresh_policy="full")(query), ("UNSUPPORTED.ARGUMENT", "refresh_policy")),
        (lambda: dp.create_streaming_table(5), ("NAME.INVALID", None)),
        (lambda: dp.create_streaming_table(None), ("NAME.INVALID", None)),
        (lambda: dp.table(partition_cols=["a", 1])(query), ("DEFINITION.WRONG_TYPE", "partition_cols")),
        (lambda: dp.materialized_view(cluster_by=5)(query), ("DEFINITION.WRONG_TYPE", "cluster_by")),
        (lambda: dp.table(table_properties="a=b")(query), ("DEFINITION.WRONG_TYPE", "table_properties")),
        (lambda: dp.table(spark_conf=["a"])(query), ("DEFINITION.WRONG_TYPE", "spark_conf")),
        (lambda: dp.temporary_view(comment=7)(query), ("DEFINITION.WRONG_TYPE", "comment")),
        (lambda: dp.append_flow(target=5)(query), ("DEFINITION.WRONG_TYPE", "target")),
        (lambda: dp.append_flow(target="t", name=5)(query), ("DEFINITION.WRONG_TYPE", "name")),
        (lambda: dp.update_flow(target="t", spark_conf="x")(query), ("DEFINITION.WRONG_TYPE", "spark_conf")),
        (lambda: dp.create_sink(5, "kafka"), ("NAME.INVALID", None)),
        (lambda: dp.create_sink("s", 5), ("DEFINITION.WRONG_TYPE", "format")),
        (lambda: dp.create_sink("s", "kafka", ["a"]), ("DEFINITION.WRONG_TYPE", "options")),
        (lambda: dp.persisted_view("v", 5), ("DEFINITION.WRONG_TYPE", "sql")),
        (lambda: dp.create_auto_cdc_flow(5, "s", ["id"], "v"), ("NAME.INVALID", None)),
    ],
)
def test_an_argument_of_the_wrong_type_is_reported_as_a_problem(declared, declare, problem):
    assert declared(declare)[1] == [problem]


@pytest.mark.parametrize(
    ("declare", "problem"),
    [
        (lambda: dp.metric("order value", "sum(amount)")(query), ("METRICS.INVALID_NAME", None)),
        (lambda: dp.metric("value", 5)(query), ("DEFINITION.WRONG_TYPE", "expression")),
        (lambda: dp.metric("value", "sum(amount)")(query), ("METRICS.NO_DATASET", None)),
        (lambda: dp.create_streaming_table("t", metrics=["sum(a)"]), ("DEFINITION.WRONG_TYPE", "metrics")),
        (lambda: dp.create_streaming_table("t", metrics={"1st": "sum(a)"}), ("METRICS.INVALID_NAME", None)),
    ],
)
def test_a_metric_without_a_name_an_expression_or_a_table_is_a_problem(declared, declare, problem):
    assert declared(declare)[1] == [problem]


def test_metrics_belong_to_the_dataset_in_the_order_of_their_decorators(declared):
    def declare():
        dp.metric("first", "sum(a)")(dp.metric("second", "sum(b)")(dp.table(name="orders")(lambda: None)))

    (dataset,) = declared(declare)[0].datasets
    assert [(metric.name, metric.expression) for metric in dataset.metrics] == [
        ("first", "sum(a)"),
        ("second", "sum(b)"),
    ]


def test_expectations_that_are_not_a_mapping_are_refused(declared):
    with pytest.raises(PipelineError) as raised:
        declared(lambda: dp.expect_all(["id > 0"])(query))

    assert raised.value.code == "DEFINITION.WRONG_TYPE"


def test_column_names_may_be_quoted_with_backticks(declared):
    def declare():
        dp.create_streaming_table("t", partition_cols=["`a day`"], cluster_by="address.city")
        dp.create_auto_cdc_flow("t", "s", ["`order.id`", "plain"], "v", column_list=["`order.id`", "plain", "`a``b`"])

    definitions, problems = declared(declare)

    changes = definitions.flows[0].changes
    assert problems == []
    assert (changes.keys, changes.columns.listed) == (("order.id", "plain"), ("order.id", "plain", "a`b"))
    assert (definitions.datasets[0].partition_by, definitions.datasets[0].cluster_by) == (("a day",), ("address.city",))


def test_an_empty_column_list_is_treated_as_absent(declared):
    def declare():
        dp.create_auto_cdc_flow(
            "t",
            "s",
            ["id"],
            "v",
            column_list=[],
            except_column_list=["op"],
            track_history_column_list=[],
            ignore_null_updates_column_list=[],
        )
        dp.create_auto_cdc_from_snapshot_flow("u", "s", ["id"], track_history_except_column_list=[])

    definitions, problems = declared(declare)

    changes, snapshots = definitions.flows[0].changes, definitions.flows[1].snapshots
    assert problems == []
    assert (changes.columns, changes.tracked, changes.ignore_null_columns) == (
        Columns(("op",)),
        ALL_COLUMNS,
        NO_COLUMNS,
    )
    assert snapshots.tracked == ALL_COLUMNS


def test_a_view_may_have_spark_settings_and_a_sink_may_have_no_flow(declared):
    def declare():
        dp.temporary_view(name="v", spark_conf={"spark.sql.ansi.enabled": False})(query)
        dp.create_sink("s", "console")

    definitions, problems = declared(declare)

    assert problems == []
    assert definitions.flows[0].spark_conf == {"spark.sql.ansi.enabled": "false"}
    assert build(definitions, Naming())[1] == ()


def test_a_temporary_view_has_no_schema_even_after_use_schema(tmp_path):
    registry = Registry(Naming(), tmp_path)
    text = """
        USE SCHEMA other;
        CREATE TEMPORARY VIEW v AS SELECT 1 AS id;
        CREATE MATERIALIZED VIEW m AS SELECT * FROM v JOIN t JOIN other.x;
        """
    load_sql(text, "a.sql", registry, {})
    definitions = registry.definitions()
    names = Names(StorageLayout("/s"), Naming())
    names.add([*(d.name for d in definitions.datasets), QualifiedName("x", "other")], [QualifiedName("v")])
    query = definitions.flows[1].query

    assert [str(dataset.name) for dataset in definitions.datasets] == ["v", "other.m"]
    assert names.to_session_query(query.text, query.naming) == "SELECT * FROM `v` JOIN t JOIN `other`.`x`"
    assert names.to_session_name("v", query.naming) == "`v`"
    assert names.to_session_name("v", Naming()) == "`v`"


@pytest.mark.parametrize("policy", ["auto", "incremental", "INCREMENTAL_STRICT", "full", None])
def test_a_view_has_the_policy_of_its_declaration(declared, policy):
    found, problems = declared(lambda: dp.materialized_view(refresh_policy=policy)(query))

    assert (found.datasets[0].refresh_policy.value, problems) == ((policy or "auto").lower(), [])
