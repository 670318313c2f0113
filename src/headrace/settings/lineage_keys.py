"""The keys of ``lineage``: events of OpenLineage, and where they are sent."""

from __future__ import annotations

from headrace.settings.key import ValueType, used

LINEAGE_KEYS = (
    used(
        "lineage",
        ValueType.SECTION,
        "[Lineage](../how-to/lineage.md): events about the runs of flows, in the format of OpenLineage. In a profile, "
        "it replaces the whole section.",
        in_profile=True,
    ),
    used(
        "lineage.namespace",
        ValueType.TEXT,
        "Namespace of the jobs. It should differ between pipelines whose flows have the same names.",
        "`headrace://` and the pipeline's `id`",
    ),
    used(
        "lineage.every",
        ValueType.TEXT,
        "How often a run that goes on is reported, at most, such as `10m`.",
        "`10m`",
    ),
    used(
        "lineage.transports",
        ValueType.NAMED_SECTIONS,
        "Where events are sent, by name. Each has one of `file` and `http`. Without transports, nothing is sent.",
        "none",
    ),
    used(
        "lineage.transports.*.file",
        ValueType.TEXT,
        "Local file to which events are appended, one JSON object a line. Relative to the folder of this file.",
    ),
    used(
        "lineage.transports.*.http",
        ValueType.TEXT,
        "URL that events are posted to. `/api/v1/lineage` is added if it has no path. It can contain references to "
        "secrets.",
    ),
    used(
        "lineage.transports.*.headers",
        ValueType.MAP,
        "Headers of each request. Values can contain references to secrets.",
        "none",
    ),
    used(
        "lineage.transports.*.api_key",
        ValueType.TEXT,
        "Reference to the secret that is sent as `Authorization: Bearer`.",
        "none",
    ),
)
