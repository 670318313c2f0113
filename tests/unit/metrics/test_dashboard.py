"""The dashboard for Grafana: its queries ask for metrics and labels that exist."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from headrace.metrics.catalogue import CATALOGUE
from headrace.metrics.metric import MetricKind

DASHBOARD = json.loads((Path(__file__).parents[3] / "docs" / "how-to" / "grafana-dashboard.json").read_text())
# The names under which Prometheus stores each metric, with the labels.
SERIES = {
    metric.prometheus + suffix: {"pipeline", *metric.sample_labels}
    for metric in CATALOGUE
    for suffix in (("_bucket", "_sum", "_count") if metric.kind is MetricKind.HISTOGRAM else ("",))
}


def queries() -> Iterator[tuple[str, set[str]]]:
    """Each expression, and the labels that it and its legend mention."""
    for panel in DASHBOARD["panels"]:
        for target in panel.get("targets", ()):
            yield target["expr"], mentioned(target)
    for variable in DASHBOARD["templating"]["list"]:
        if variable["type"] == "query":
            yield variable["definition"], set(re.findall(r", (\w+)\)", variable["definition"]))


def mentioned(target: dict[str, Any]) -> set[str]:
    expression = target["expr"]
    groups = [label for group in re.findall(r"by \(([^)]*)\)", expression) for label in group.split(", ")]
    matchers = re.findall(r"(\w+)=~?\"", expression)
    return {*groups, *matchers, *re.findall(r"\{\{(\w+)\}\}", target["legendFormat"])}


def test_each_query_asks_for_metrics_of_the_catalogue_by_labels_that_they_have():
    for expression, labels in queries():
        names = set(re.findall(r"headrace_\w+", expression))
        assert names <= SERIES.keys(), expression
        assert labels <= set.intersection(*(SERIES[name] for name in names)), expression


def test_every_panel_reads_the_chosen_data_source_and_pipeline():
    panels = [panel for panel in DASHBOARD["panels"] if panel["type"] != "row"]

    assert {panel["datasource"]["uid"] for panel in panels} == {"${datasource}"}
    assert all('pipeline="$pipeline"' in target["expr"] for panel in panels for target in panel["targets"])
    assert len({panel["id"] for panel in DASHBOARD["panels"]}) == len(DASHBOARD["panels"])
