"""The vendor's ``clusters`` as confs of a Spark session that Headrace starts."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from headrace.settings.check import Section
from headrace.settings.keys import CLUSTER_LABELS

_ALLOCATION = "spark.dynamicAllocation"


@dataclass(frozen=True)
class ClusterConf:
    """Confs, the line of each, and notices about keys without effect."""

    conf: Mapping[str, str] = field(default_factory=dict)
    lines: Mapping[str, int] = field(default_factory=dict)
    notices: tuple[tuple[str, str], ...] = ()


def spark_conf_of(clusters: tuple[Section, ...], report: Callable[..., None]) -> ClusterConf:
    """The confs of ``default``, overridden by those of ``updates``; problems go to *report* (code, line, parameters).

    Source: lakeflow.md 2.2, the default cluster is the base and the other two override it.
    """
    conf: dict[str, str] = {}
    lines: dict[str, int] = {}
    for wanted in CLUSTER_LABELS[:2]:
        for cluster in clusters:
            if _label(cluster) == wanted:
                conf.update(_autoscale(cluster.section("autoscale"), report))
                conf.update(cluster.mapping("spark_conf"))
                lines.update({key: cluster.line_of(f"spark_conf.{key}") for key in cluster.mapping("spark_conf")})
    for cluster in clusters:
        if _label(cluster) not in CLUSTER_LABELS:
            report(
                "SETTINGS.WRONG_VALUE",
                cluster.line_of("label"),
                key="clusters[].label",
                reason="it must be default, updates or maintenance",
                instead="Write one of them, or leave it out.",
            )
    unused = any(_label(cluster) == "maintenance" for cluster in clusters)
    why = "tables are maintained on the machines of the update"
    return ClusterConf(conf, lines, (("clusters[].label: maintenance", why),) if unused else ())


def _label(cluster: Section) -> str:
    label = cluster.text("label")
    return "default" if label is None else label


def _autoscale(autoscale: Section, report: Callable[..., None]) -> dict[str, str]:
    least, most = autoscale.number("min_workers"), autoscale.number("max_workers")
    if not autoscale.values:
        return {}
    if least is None or most is None or not 0 <= least <= most or most == 0:
        report(
            "SETTINGS.WRONG_VALUE",
            autoscale.line,
            key="clusters[].autoscale",
            reason="it needs min_workers and max_workers, with min_workers <= max_workers",
            instead="Write both numbers.",
        )
        return {}
    return {
        f"{_ALLOCATION}.enabled": "true",
        f"{_ALLOCATION}.minExecutors": str(least),
        f"{_ALLOCATION}.maxExecutors": str(most),
        # Without it or an external shuffle service, Spark refuses to scale down.
        f"{_ALLOCATION}.shuffleTracking.enabled": "true",
    }
