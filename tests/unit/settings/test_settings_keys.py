"""The table of keys, and the page made from it."""

from __future__ import annotations

import os
from collections import Counter
from pathlib import Path

import pytest

from headrace.settings.keys import KEYS, Treatment, ValueType, keys_below
from headrace.settings.reference import settings_reference

PAGE = Path(__file__).parents[3] / "docs" / "reference" / "settings.md"
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


def test_the_page_is_the_table():
    if os.environ.get("HEADRACE_GOLDEN") == "rewrite":
        PAGE.write_text(settings_reference(), encoding="utf-8")

    assert PAGE.read_text(encoding="utf-8") == settings_reference()


def test_no_key_stands_twice():
    assert max(Counter(key.path for key in KEYS).values()) == 1


@pytest.mark.parametrize("name", VENDOR_TOP)
def test_every_top_level_key_of_the_vendor_is_known(name):
    assert name in keys_below("")


@pytest.mark.parametrize("name", VENDOR_CLUSTER)
def test_every_cluster_key_of_the_vendor_is_known(name):
    assert name in keys_below("clusters[]")


@pytest.mark.parametrize("key", KEYS, ids=lambda key: key.path)
def test_a_key_says_why_when_it_does_not_work(key):
    assert key.about
    assert bool(key.reason) == (key.treatment is not Treatment.USED)
    assert bool(key.instead) == (key.treatment is Treatment.REFUSED)


def test_every_section_has_keys_below_it():
    below = {ValueType.SECTION: "", ValueType.SECTIONS: "[]", ValueType.NAMED_SECTIONS: ".*"}
    sections = [f"{key.path}{below[key.type]}" for key in KEYS if key.type in below]

    assert [path for path in sections if not keys_below(path)] == []
    assert {key.parent for key in KEYS if key.parent} == set(sections)
