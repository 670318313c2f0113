"""The exported rules: a file that Prometheus can read, over metrics that exist, with the settings' thresholds."""

from __future__ import annotations

import re
from dataclasses import replace

import yaml

from headrace.alerts.prometheus_rules import prometheus_rules
from headrace.metrics.catalogue import CATALOGUE
from headrace.model.alert_rules import rules
from headrace.settings.alert_settings import AlertSettings


def exported(settings=None, name="shop"):
    text = prometheus_rules(name, settings or AlertSettings())
    (group,) = yaml.safe_load(text)["groups"]
    return text, {rule["alert"]: rule for rule in group["rules"]}


def test_only_existing_metrics_and_their_labels_are_used():
    labels = {metric.prometheus: {"pipeline", *metric.labels} for metric in CATALOGUE}
    _, found = exported()

    for rule in found.values():
        used = re.findall(r"(headrace_\w+)\{([^}]*)\}", rule["expr"])
        assert used
        assert len(used) == rule["expr"].count("headrace_")
        for name, selectors in used:
            assert set(re.findall(r"(\w+)=", selectors)) <= labels[name]


def test_every_rule_is_exported_or_named_and_has_no_placeholder_left():
    text, found = exported()

    assert set(found) | set(re.findall(r"# Not exported: (\w+),", text)) == set(rules())
    assert not re.search(r"PIPELINE|ACTIVE\b|THRESHOLD|WINDOW|ROWS|\{\w+\}", "".join(map(str, found.values())))
    assert all(rule["expr"].count("(") == rule["expr"].count(")") for rule in found.values())


def test_labels_of_the_templates_are_those_of_the_query():
    _, found = exported()

    assert found["flow_failed"]["annotations"]["summary"] == 'flow "{{ $labels.flow }}" failed'
    assert "{{ $value }}" in found["lag_high"]["annotations"]["summary"]


def test_a_name_of_any_characters_is_the_one_that_metrics_have():
    text, found = exported(name='größe "🚰"')

    assert r'pipeline="größe \"🚰\""' in found["disk_low"]["expr"]
    assert r"\u" not in text


def test_the_settings_decide_about_thresholds_and_what_is_missing_is_named():
    lag = replace(rules()["lag_high"], threshold=60.5, for_s=90)
    active = {name: rule for name, rule in rules().items() if name != "disk_low"}
    text, found = exported(AlertSettings(rules=active | {"lag_high": lag}, lag_limits_s={"orders": 5}), 'a "b"\n')

    assert '{pipeline="a \\"b\\"\\n"} > on (pipeline, flow) group_left () (60.5 + ' in found["lag_high"]["expr"]
    assert found["lag_high"]["for"] == "90s"
    assert "# Not exported: disk_low, which is off." in text
    assert '# Not exported: the lag of "orders"' in text
