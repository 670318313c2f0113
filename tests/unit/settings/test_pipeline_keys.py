"""Keys that begin with ``pipelines.``: none of them is passed over because of how it is written."""

from __future__ import annotations

import pytest

from headrace.errors import Problems
from headrace.graph.build import build
from headrace.model.datasets import Dataset, Definitions, Flow, Kind, PythonQuery
from headrace.model.location import Location
from headrace.model.names import Naming, QualifiedName
from headrace.model.pipeline_keys import PIPELINE_KEYS, KeyScope, invalid_keys, normalize_keys
from headrace.model.triggers import TRIGGER_KEY
from headrace.pipelines.registry import Registry
from headrace.settings.load import load_settings

HERE = Location("a.py", 1)
NAME = QualifiedName("t")
TABLES = [key.name for key in PIPELINE_KEYS if KeyScope.TABLE in key.scopes]


def declared(tmp_path, properties=None, confs=None):
    registry = Registry(Naming(), tmp_path)
    registry.add_dataset(Dataset(NAME, Kind.STREAMING_TABLE, HERE, properties=properties or {}), None)
    registry.add_flow(Flow("t", NAME, PythonQuery(lambda: None, Naming()), HERE, spark_conf=confs or {}))
    return registry.definitions()


def problems(definitions: Definitions):
    return [(p.code, p.params.get("key"), p.hint) for p in build(definitions, Naming())[1]]


@pytest.mark.parametrize("key", ["PIPELINES.RESET.ALLOWED", "pipelines.Reset.Allowed", " pipelines.reset.allowed"])
def test_reset_protection_applies_to_every_spelling_of_its_key(tmp_path, key):
    (dataset,) = declared(tmp_path, {key: "FALSE "}).datasets

    assert not dataset.resettable


@pytest.mark.parametrize("name", TABLES)
def test_table_keys_are_accepted_in_any_case_and_refused_when_misspelled(tmp_path, name):
    value = {"pipelines.trigger.interval": "5 seconds", TRIGGER_KEY: "once"}.get(
        name, "1" if "InSec" in name else "true"
    )

    assert problems(declared(tmp_path, {name.upper(): value})) == []
    ((code, key, hint),) = problems(declared(tmp_path, {name[:-1]: value}))
    assert (code, key) == ("PIPELINE_KEY.MISFIT", name[:-1])
    assert name in hint or name == TRIGGER_KEY


@pytest.mark.parametrize(
    ("properties", "confs", "found"),
    [
        ({"pipelines.reset.allowed": "flase"}, {}, ("PIPELINE_KEY.MISFIT", "Write true or false.")),
        ({"Pipelines.AutoOptimize.Managed": "off"}, {}, ("PIPELINE_KEY.MISFIT", "Write true or false.")),
        ({"pipelines.Trigger.Interval": "soon"}, {}, ("TRIGGER.BAD_INTERVAL", None)),
        ({"PIPELINES.CDC.tombstonegcthresholdinseconds": "2 days"}, {}, ("CDC.BAD_RETENTION", None)),
        ({}, {"pipelines.TRIGGER": "sometimes"}, ("TRIGGER.UNKNOWN", None)),
        ({}, {"pipelines.reset.allowed": "false"}, ("PIPELINE_KEY.MISFIT", "Put it into the properties of a table.")),
        (
            {"pipelines.maxFlowRetryAttempts": "3"},
            {},
            ("PIPELINE_KEY.MISFIT", "Put it into configuration in the settings."),
        ),
        (
            {"pipelines.reset.allowed": "false", "Pipelines.reset.allowed": "true"},
            {},
            ("PIPELINE_KEY.MISFIT", "Remove one of them."),
        ),
    ],
)
def test_invalid_values_and_misplaced_keys_are_refused(tmp_path, properties, confs, found):
    ((code, _, hint),) = problems(declared(tmp_path, properties, confs))

    assert (code, hint if found[1] else None) == found


def test_settings_accept_known_pipeline_keys_in_any_case_and_refuse_others(tmp_path):
    file = tmp_path / "pipeline.yml"
    keys = "Pipelines.Trigger.Interval: 2 minutes, PIPELINES.maxflowretryattempts: 7, pipelines.channel: PREVIEW"
    file.write_text(f"name: p\nconfiguration: {{{keys}}}\n")
    settings = load_settings(file, environ={})
    file.write_text(
        "name: p\nspark_conf: {pipelines.x: '1'}\nconfiguration: {pipelines.chanel: a, pipelines.trigger: once}\n"
    )

    with pytest.raises(Problems) as raised:
        load_settings(file, environ={})

    assert (settings.trigger_interval_s, settings.max_flow_retries) == (120.0, 7)
    assert ("configuration.pipelines.channel", "the installed version is used") in settings.notices
    assert sorted((p.params["key"], p.params["instead"]) for p in raised.value) == [
        ("configuration.pipelines.chanel", "Write pipelines.channel, or remove it."),
        (
            "configuration.pipelines.trigger",
            "Put it into the properties of a table or the spark_conf of a flow, or SET in a SQL file.",
        ),
        ("spark_conf.pipelines.x", "Put it into configuration."),
    ]


def test_keys_without_the_pipelines_prefix_are_unchanged():
    assert normalize_keys({"delta.appendOnly": "true", "Pipeline": "1"}) == {
        "delta.appendOnly": "true",
        "Pipeline": "1",
    }
    assert list(invalid_keys({"delta.appendOnly": "x", "pipelinesx": "1"}, KeyScope.TABLE)) == []
