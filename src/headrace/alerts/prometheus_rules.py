"""The rules of alerts as a file of rules for Prometheus. Pure."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

import yaml

from headrace.model.alert_rules import Rule, rules
from headrace.model.outcome import ACTIVE_STATES
from headrace.settings.alert_settings import AlertSettings

_START = """\
# Alerts of pipeline {name}, made by headrace alerts export.
# Prometheus must collect what headrace metrics prints, at least every few minutes.
# Alerts do not hide each other here: use inhibit_rules of Alertmanager.
"""
_FIELD = re.compile(r"\{(\w+)(?::[^}]*)?\}")


def prometheus_rules(pipeline: str, settings: AlertSettings) -> str:
    """The rules that are on, with the thresholds of the settings, as YAML. A comment names what is missing."""
    selector = f"pipeline={_quoted(pipeline)}"
    written = [_rule(rule, selector) for rule in settings.rules.values() if rule.promql]
    document = {"groups": [{"name": f"headrace-{pipeline}", "rules": written}]}
    comments = "".join(f"# {line}\n" for line in _missing(settings))
    body = yaml.safe_dump(document, sort_keys=False, width=1000, allow_unicode=True)
    return _START.format(name=_quoted(pipeline)) + comments + body


def _quoted(text: str) -> str:
    # PromQL's strings have JSON's escapes, except those of characters that JSON writes as two.
    return json.dumps(text, ensure_ascii=False)


def _missing(settings: AlertSettings) -> Iterator[str]:
    """What the file lacks."""
    for name in rules():
        if name not in settings.rules:
            yield f"Not exported: {name}, which is off."
        elif not settings.rules[name].promql:
            yield f"Not exported: {name}, which PromQL cannot express."
    for dataset in settings.lag_limits_s:
        yield f"Not exported: the lag of {_quoted(dataset)}; lag_high has the same threshold for all datasets."
    for dataset in settings.freshness_s:
        yield f"Not exported: the freshness of {_quoted(dataset)}; only targets of dp.fresh are metrics."


def _rule(rule: Rule, selector: str) -> Mapping[str, Any]:
    values = {
        "WINDOW_SECONDS": f"{rule.window_s:g}",
        "PIPELINE": selector,
        "ACTIVE": "|".join(sorted(state.value for state in ACTIVE_STATES)),
        "THRESHOLD": f"{rule.threshold:.15g}",
        "WINDOW": f"{rule.window_s:.0f}s",
        "ROWS": str(rule.least_rows),
    }
    query = re.sub(r"\b(?:" + "|".join(values) + r")\b", lambda found: values[found.group()], rule.promql)
    return {
        "alert": rule.rule_id,
        "expr": query,
        **({"for": f"{rule.for_s:.0f}s"} if rule.for_s else {}),
        "labels": {"severity": rule.severity.value},
        "annotations": {
            "summary": _templated(rule.message),
            "first_step": _templated(rule.first_step),
            "description": rule.runbook,
        },
    }


def _templated(text: str) -> str:
    """A text with Prometheus' templates in place of our fields."""
    return _FIELD.sub(lambda found: "{{ $value }}" if found[1] == "value" else f"{{{{ $labels.{found[1]} }}}}", text)
