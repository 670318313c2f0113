"""What a settings file means when it is right."""

from __future__ import annotations

import json

import pytest
import yaml

from headrace.errors import Problems
from headrace.model.location import Location
from headrace.model.tombstone_retention import Retention
from headrace.settings.load import load_settings


@pytest.fixture
def load(tmp_path):
    def loaded(text, name="pipeline.yml", environ=(), **options):
        file = tmp_path / name
        file.write_text(text, encoding="utf-8")
        return load_settings(file, environ=dict(environ), **options)

    return loaded


def test_everything_has_a_default_when_only_the_name_is_given(load, tmp_path):
    settings = load("name: flights")

    assert (settings.name, settings.schema, settings.catalog, settings.root) == ("flights", "default", None, tmp_path)
    assert (settings.storage, settings.root_path) == (str(tmp_path / "storage"), tmp_path)
    assert (settings.max_parallel_flows, settings.flow_retries(continuous=False), settings.libraries) == (4, 2, ())
    assert settings.flow_retries(continuous=True) is None


def test_the_pipeline_id_depends_on_the_name_unless_an_id_is_given(load):
    first, again, other = load("name: flights"), load("name: flights\nschema: x"), load("name: trips")

    assert first.id == again.id
    assert first.id != other.id
    assert load("name: flights\nid: given").id == "given"


@pytest.mark.parametrize("key", ["schema", "target", "database"])
def test_the_schema_is_set_by_each_of_its_synonyms(load, key):
    assert load(f"name: flights\n{key}: sales").naming.schema == "sales"


@pytest.mark.parametrize(
    ("written", "text"),
    [
        ("010", "010"),
        ("True", "true"),
        ("yes", "yes"),
        ("1e3", "1e3"),
        ("2026-01-31", "2026-01-31"),
        ('"True"', "True"),
    ],
)
def test_configuration_values_are_read_as_text(load, written, text):
    assert load(f"name: flights\nconfiguration:\n  key: {written}").configuration == {"key": text}


def test_spark_declarative_pipelines_settings_are_loaded_without_changes(load):
    settings = load(
        """
name: flights
storage: file:///data/my%20storage
catalog: main
database: sales
configuration: {spark.sql.shuffle.partitions: "2"}
libraries:
  - glob:
      include: transformations/**
""",
        "spark-pipeline.yml",
    )

    assert (settings.storage, settings.catalog, settings.schema) == ("/data/my storage", "main", "sales")
    assert [(library.path, library.pattern, library.location.line) for library in settings.libraries] == [
        ("transformations/**", True, 8)
    ]


def test_json_settings_may_have_comments_and_trailing_commas(load):
    settings = load(
        """// exported
{
\t"name": "a//b", /* not
  a comment in the name */
\t"target": "sales",
}""",
        "pipeline.json",
    )

    assert (settings.name, settings.schema) == ("a//b", "sales")


def test_escaped_json_strings_keep_their_characters(load):
    name = 'slash / quote " backslash \\ tab \t // \N{GRINNING FACE}'

    assert load(json.dumps({"name": name}), "pipeline.json").name == name


def test_a_byte_order_mark_is_ignored(load):
    assert load("\ufeffname: flights").name == "flights"


def test_keys_without_effect_are_reported_once(load):
    settings = load(
        """
name: flights
serverless: true
run_as: {user_name: someone}
configuration: {pipelines.enzyme.enabled: true}
clusters:
  - {label: default, num_workers: 2}
  - {label: updates, num_workers: 3}
  - label: maintenance
"""
    )

    assert [key for key, _ in settings.notices] == [
        "serverless",
        "run_as",
        "clusters[].num_workers",
        "clusters[].label: maintenance",
        "configuration.pipelines.enzyme.enabled",
    ]


def test_refused_keys_are_accepted_if_they_are_empty_or_false(load):
    text = "name: flights\ncontinuous: false\nnotifications: []\nparameters: {}\nevent_log:\ndry_run: false"

    assert load(text).notices == ()


def test_the_updates_cluster_overrides_the_default_cluster(load):
    settings = load(
        """
name: flights
clusters:
  - label: updates
    spark_conf: {a: updates, b: updates}
  - autoscale: {min_workers: 1, max_workers: 5, mode: ENHANCED}
    spark_conf: {a: default, c: default}
  - label: maintenance
    spark_conf: {a: maintenance}
spark_conf: {b: ours}
"""
    )

    assert dict(settings.spark_conf) == {
        "a": "updates",
        "b": "ours",
        "c": "default",
        "spark.dynamicAllocation.enabled": "true",
        "spark.dynamicAllocation.minExecutors": "1",
        "spark.dynamicAllocation.maxExecutors": "5",
        "spark.dynamicAllocation.shuffleTracking.enabled": "true",
    }


PROFILES = """
name: flights
schema: sales
profile: from_file
configuration: {a: file, b: file, c: file}
profiles:
  from_file: {schema_prefix: file_}
  from_variable: {schema_prefix: variable_}
  from_argument:
    schema_prefix: argument_
    storage: elsewhere
    development: true
    max_parallel_flows: 1
    configuration: {b: profile, c: profile}
  other_schema: {database: orders, schema_prefix: x_}
"""


def test_the_profile_argument_overrides_the_variable_and_the_settings_file(load):
    environ = {"HEADRACE_PROFILE": "from_variable"}

    assert load(PROFILES).schema == "file_sales"
    assert load(PROFILES, environ=environ).schema == "variable_sales"
    assert load(PROFILES, environ=environ, profile="from_argument").schema == "argument_sales"


def test_a_profile_replaces_values_and_merges_mappings(load, tmp_path):
    settings = load(PROFILES, profile="from_argument", overrides={"c": "override"})

    assert (settings.profile, settings.storage) == ("from_argument", str(tmp_path / "elsewhere"))
    assert (settings.development, settings.max_flow_retries, settings.max_parallel_flows) == (True, 0, 1)
    assert settings.configuration == {"a": "file", "b": "profile", "c": "override"}


def test_a_profile_overrides_the_schema_by_a_synonym(load):
    assert load(PROFILES, profile="other_schema").schema == "x_orders"


@pytest.mark.parametrize(
    ("text", "retries"),
    [
        ("development: true", 0),
        ("development: true\nmax_flow_retries: 7", 7),
        ("configuration: {pipelines.maxFlowRetryAttempts: 3}", 3),
        ("configuration: {pipelines.maxFlowRetryAttempts: 3}\nmax_flow_retries: 5", 5),
    ],
)
def test_retries_follow_the_most_explicit_setting(load, text, retries):
    assert load(f"name: flights\n{text}").max_flow_retries == retries


@pytest.mark.parametrize(
    ("confs", "retention"),
    [
        ({}, Retention(172_800, 3_600)),
        ({"pipelines.applyChanges.tombstoneGCThresholdInSeconds": "60"}, Retention(60, 3_600)),
        (
            {
                "pipelines.applyChanges.tombstoneGCThresholdInSeconds": "60",
                "pipelines.cdc.tombstoneGCThresholdInSeconds": "0",
                "pipelines.applyChanges.tombstoneGCFrequencyInSeconds": "5",
            },
            Retention(0, 5),
        ),
    ],
)
def test_the_newer_key_overrides_the_older_key_for_tombstone_retention(load, confs, retention):
    assert load(yaml.safe_dump({"name": "flights", "configuration": confs})).retention == retention


def test_references_are_resolved_only_on_request(load):
    settings = load(
        """
name: flights
configuration:
  a: user=${env:USER_NAME} p=${secret:db/pass} ${other}
spark_conf: {s: "${env:USER_NAME}"}
"""
    )
    environ = {"USER_NAME": "alice", "HEADRACE_SECRET_DB_PASS": "hunter2"}
    secrets = settings.open_secrets(environ)

    assert settings.configuration["a"] == "user=${env:USER_NAME} p=${secret:db/pass} ${other}"
    assert settings.resolved_configuration(secrets, environ) == {"a": "user=alice p=hunter2 ${other}"}
    assert settings.resolved_spark_conf(secrets, environ) == {"s": "alice"}


def test_every_unresolvable_reference_is_reported_with_its_line(load):
    settings = load("name: flights\nconfiguration:\n  a: ${env:ABSENT}\n  b: ${secret:x/y}\n  c: ${secret:x}")

    with pytest.raises(Problems) as raised:
        settings.resolved_configuration(settings.open_secrets({}), {})

    assert [(error.code, error.location) for error in raised.value] == [
        ("SECRET.NO_VARIABLE", Location("pipeline.yml", 3)),
        ("SECRET.NOT_FOUND", Location("pipeline.yml", 4)),
        ("SECRET.BAD_REFERENCE", Location("pipeline.yml", 5)),
    ]


def test_the_repr_of_settings_hides_configuration_values(load):
    settings = load("name: flights\nconfiguration: {password: hunter2}\nspark_conf: {token: hunter2}")

    assert "hunter2" not in repr(settings)


def test_the_environment_variable_overrides_the_secrets_folder_setting(load, tmp_path):
    for folder in ("one", "two"):
        (tmp_path / folder / "db").mkdir(parents=True)
        (tmp_path / folder / "db" / "key").write_text(folder)
    settings = load("name: flights\nsecrets: {directory: one}")

    assert settings.open_secrets({}).get("db", "key") == "one"
    assert settings.open_secrets({"HEADRACE_SECRETS_DIR": "two"}).get("db", "key") == "two"


@pytest.mark.parametrize(
    ("content", "code"),
    [
        (None, "SETTINGS.UNREADABLE"),
        (b"name: \xff", "SETTINGS.SYNTAX"),
        (b"name: \x07", "SETTINGS.SYNTAX"),
        (b"a: " + b"[" * 800, "SETTINGS.SYNTAX"),
        (b"a: 1\n---\nb: 2", "SETTINGS.SYNTAX"),
    ],
)
def test_an_unreadable_or_invalid_settings_file_raises_one_error(tmp_path, content, code):
    file = tmp_path / "pipeline.yml"
    if content is not None:
        file.write_bytes(content)

    with pytest.raises(Problems) as raised:
        load_settings(file, environ={})

    assert [error.code for error in raised.value] == [code]


def test_a_recursive_yaml_alias_is_refused(load):
    with pytest.raises(Problems) as raised:
        load("name: flights\nconfiguration: &a {b: *a}")

    assert [error.code for error in raised.value] == ["SETTINGS.WRONG_TYPE"]
