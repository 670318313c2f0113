"""The table of keys, the page made from it, and a pipeline as the vendor's page exports it."""

from __future__ import annotations

import json
import re
from collections import Counter
from pathlib import Path

import pytest

from headrace.errors import Problems
from headrace.model.change_classes import ApprovalMode, ApprovalPolicy, ChangeClass
from headrace.model.maintenance import DAY_S, DEFAULT_POLICY, MaintenancePolicy, VacuumScope
from headrace.model.names import QualifiedName
from headrace.model.savepoint_policy import SavepointPolicy
from headrace.options.option import Treatment
from headrace.settings.key import ValueType
from headrace.settings.keys import KEYS, keys_below
from headrace.settings.load import load_settings
from headrace.settings.source_files import source_files

EXAMPLE = Path(__file__).parent / "vendor_pipeline.json"
VENDOR_TOP = [
    "id",
    "name",
    "allow_duplicate_names",
    "catalog",
    "schema",
    "target",
    "storage",
    "continuous",
    "trigger",
    "development",
    "configuration",
    "parameters",
    "libraries",
    "root_path",
    "clusters",
    "serverless",
    "photon",
    "channel",
    "edition",
    "notifications",
    "event_log",
    "environment",
    "filters",
    "restart_window",
    "tags",
    "budget_policy_id",
    "usage_policy_id",
    "serverless_compute_id",
    "run_as",
    "deployment",
    "gateway_definition",
    "ingestion_definition",
    "rewind_generation_interval",
    "dry_run",
    "database",
]
VENDOR_CLUSTER = [
    "label",
    "num_workers",
    "autoscale",
    "node_type_id",
    "driver_node_type_id",
    "instance_pool_id",
    "driver_instance_pool_id",
    "policy_id",
    "apply_policy_default_values",
    "spark_conf",
    "spark_env_vars",
    "custom_tags",
    "init_scripts",
    "cluster_log_conf",
    "ssh_public_keys",
    "enable_local_disk_encryption",
    "aws_attributes",
    "azure_attributes",
    "gcp_attributes",
    "cluster_name",
    "data_security_mode",
    "access_mode",
    "spark_version",
    "autotermination_minutes",
    "runtime_engine",
    "effective_spark_version",
    "cluster_source",
    "docker_image",
    "workload_type",
]


def test_every_key_is_unique():
    assert max(Counter(key.path for key in KEYS).values()) == 1


@pytest.mark.parametrize("name", VENDOR_TOP)
def test_every_top_level_key_of_databricks_is_known(name):
    assert name in keys_below("")


@pytest.mark.parametrize("name", VENDOR_CLUSTER)
def test_every_cluster_key_of_databricks_is_known(name):
    assert name in keys_below("clusters[]")


@pytest.mark.parametrize("key", KEYS, ids=lambda key: key.path)
def test_every_unsupported_key_has_a_reason_and_every_refused_key_has_a_fix(key):
    assert key.about
    assert bool(key.reason) == (key.treatment is not Treatment.USED)
    assert bool(key.fix) == (key.treatment is Treatment.REFUSED)


def test_every_section_has_keys_below_it():
    below = {ValueType.SECTION: "", ValueType.SECTIONS: "[]"}
    below |= dict.fromkeys((ValueType.NAMED_SECTIONS, ValueType.SWITCHED_SECTIONS), ".*")
    sections = [f"{key.path}{below[key.type]}" for key in KEYS if key.type in below]

    assert [path for path in sections if not keys_below(path)] == []
    assert {key.parent for key in KEYS if key.parent} == set(sections)


# Other words for what the example says.
SYNONYMS = {"target", "database"}


@pytest.fixture
def folder(tmp_path):
    for name in ("notebooks/orders.ipynb", "transformations/customers.sql", "transformations/deep/a.py"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("")
    (tmp_path / "pipeline.json").write_text(EXAMPLE.read_text())
    return tmp_path


def load(folder):
    return load_settings(folder / "pipeline.json", environ={})


def test_the_example_loads_and_reports_keys_without_effect(folder):
    settings = load(folder)

    assert (settings.name, settings.catalog, settings.schema) == ("shop", "main", "sales")
    assert settings.event_log == QualifiedName("shop_log")
    assert settings.parameters == {"day": "2026-01-01"}
    assert [line for line, _ in settings.dependencies] == ["pytest>=1"]
    assert settings.spark_conf["spark.dynamicAllocation.maxExecutors"] == "5"
    assert [file.relative_to(folder).as_posix() for file in source_files(settings)] == [
        "notebooks/orders.ipynb",
        "transformations/customers.sql",
        "transformations/deep/a.py",
    ]
    said = {key for key, _ in settings.notices}
    given = document()
    accepted = {name for name in given if keys_below("")[name].treatment is Treatment.ACCEPTED}
    assert accepted <= said


def test_every_databricks_key_is_in_the_example_or_refused():
    given = document()
    refused = {name for name in VENDOR_TOP if keys_below("")[name].treatment is Treatment.REFUSED}
    cluster = {name for name in VENDOR_CLUSTER if keys_below("clusters[]")[name].treatment is Treatment.REFUSED}

    assert set(VENDOR_TOP) == set(given) | refused | SYNONYMS
    assert set(VENDOR_CLUSTER) == set(given["clusters"][0]) | cluster


@pytest.mark.parametrize("name", [name for name in VENDOR_TOP if keys_below("")[name].treatment is Treatment.REFUSED])
def test_a_refused_key_is_reported_if_it_has_a_value(folder, name):
    (folder / "pipeline.json").write_text(json.dumps({**document(), name: [1]}))

    with pytest.raises(Problems) as raised:
        load(folder)

    assert [(error.code, error.params["key"]) for error in raised.value] == [("SETTINGS.REFUSED", name)]


@pytest.mark.parametrize(
    ("log", "expected"),
    [
        ({"name": "log"}, QualifiedName("log")),
        ({"name": "log", "schema": "ops"}, QualifiedName("log", "ops")),
        ({"name": "log", "schema": "sales"}, QualifiedName("log")),
        ({"name": "log", "schema": "ops", "catalog": "other"}, QualifiedName("log", "ops", "other")),
        ({}, None),
    ],
)
def test_the_event_log_gets_the_configured_name(folder, log, expected):
    (folder / "pipeline.json").write_text(json.dumps({**document(), "event_log": log}))

    if log:
        assert load(folder).event_log == expected
    else:
        with pytest.raises(Problems, match="it has no name"):
            load(folder)


@pytest.mark.parametrize(
    ("log", "name", "days"),
    [
        ({"retain": "90 days"}, None, (90, 90)),
        ({"name": "log", "retain": "1 week"}, QualifiedName("log"), (7, 7)),
        ({"name": "log"}, QualifiedName("log"), (400, 30)),
        ({"retain_metrics": "2 days"}, None, (400, 2)),
        ({"retain": "forever", "retain_metrics": "5 days"}, None, (None, 5)),
    ],
)
def test_the_event_log_gets_the_configured_retention(folder, log, name, days):
    (folder / "pipeline.json").write_text(json.dumps({**document(), "event_log": log}))

    settings = load(folder)

    retention = tuple(None if found is None else found / 86_400 for found in settings.event_log_retention)
    assert (settings.event_log, retention) == (name, days)


def test_maintenance_has_defaults_and_configured_retentions(folder):
    def policy(**section):
        (folder / "pipeline.json").write_text(json.dumps({**document(), "maintenance": section}))
        return load(folder).maintenance

    assert policy() == DEFAULT_POLICY
    given = {"vacuum": "all", "retain": "2 weeks", "quarantine": {"retain": "1 day", "retain_open": "90 days"}}
    assert policy(**given, logs={"retain": "3 days"}) == MaintenancePolicy(
        VacuumScope.ALL, 14 * DAY_S, DAY_S, 90 * DAY_S, 3 * DAY_S
    )


@pytest.mark.parametrize(
    ("section", "key"),
    [
        ({"vacuum": "some"}, "maintenance.vacuum"),
        ({"retain": "ninety"}, "maintenance.retain"),
        ({"quarantine": {"retain_open": "1"}}, "maintenance.quarantine.retain_open"),
        ({"logs": {"retain": "x days"}}, "maintenance.logs.retain"),
    ],
)
def test_a_wrong_setting_of_maintenance_is_reported(folder, section, key):
    (folder / "pipeline.json").write_text(json.dumps({**document(), "maintenance": section}))

    with pytest.raises(Problems) as caught:
        load(folder)

    assert [(error.code, error.params["key"]) for error in caught.value] == [("SETTINGS.WRONG_VALUE", key)]


@pytest.mark.parametrize(
    ("log", "key"), [({"retain": "ninety"}, "event_log.retain"), ({"schema": "ops", "retain": "1 day"}, "event_log")]
)
def test_an_event_log_without_a_name_or_with_an_invalid_retention_is_refused(folder, log, key):
    (folder / "pipeline.json").write_text(json.dumps({**document(), "event_log": log}))

    with pytest.raises(Problems) as raised:
        load(folder)

    assert [(error.code, error.params["key"]) for error in raised.value] == [("SETTINGS.WRONG_VALUE", key)]


def document():
    return json.loads(re.sub(r"\s//.*", "", EXAMPLE.read_text()))


def test_approvals_have_defaults_and_configured_classes(folder):
    def approval(**section):
        (folder / "pipeline.json").write_text(json.dumps({**document(), "approval": section}))
        return load(folder).approval

    assert approval() == ApprovalPolicy()
    assert approval(mode="await", required=["recompute", "blocked"], four_eyes=True) == ApprovalPolicy(
        (ChangeClass.RECOMPUTE, ChangeClass.BLOCKED), ApprovalMode.AWAIT, four_eyes=True
    )
    assert approval(required=[]).required == ()


@pytest.mark.parametrize(
    ("section", "key"), [({"mode": "ask"}, "approval.mode"), ({"required": ["rebuild", "bad"]}, "approval.required")]
)
def test_unknown_modes_and_classes_of_approvals_are_refused(folder, section, key):
    (folder / "pipeline.json").write_text(json.dumps({**document(), "approval": section}))

    with pytest.raises(Problems) as found:
        load(folder)

    assert [(error.code, error.params["key"]) for error in found.value] == [("SETTINGS.WRONG_VALUE", key)]


def test_savepoints_have_defaults_and_an_interval_or_each_update(folder):
    def policy(section):
        (folder / "pipeline.json").write_text(json.dumps({**document(), "savepoints": section}))
        return load(folder).savepoints

    assert policy({}) == SavepointPolicy()
    assert policy({"every": "update", "keep": "2 days", "most": 5}) == SavepointPolicy(
        every_s=0.0, keep_s=2 * DAY_S, most=5
    )
    assert policy({"every": "1 hour", "before_clearing": True}) == SavepointPolicy(every_s=3600.0, before_clearing=True)
    with pytest.raises(Problems) as wrong:
        policy({"every": "often", "most": 0})
    assert [problem.params["key"] for problem in wrong.value.errors] == ["savepoints.every", "savepoints.most"]
