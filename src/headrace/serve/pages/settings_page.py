"""The settings of a pipeline, as the server has read them. Texts that may be secrets are never shown."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from headrace.serve.pages.maintenance_page import policy_facts
from headrace.serve.pipelines import ServedPipeline
from headrace.serve.render import Page
from headrace.settings.settings import Settings

# Where a value comes from is no secret; the value may be one.
_REFERENCE = re.compile(r"(?:\$\{[^${}]*\})+")


def settings_page(pipeline: ServedPipeline) -> Page:
    """The page of the settings."""
    settings = pipeline.settings
    document = {
        "name": pipeline.name,
        "file": str(settings.file),
        "profile": settings.profile,
        "general": general_facts(settings),
        "texts": {
            "configuration": text_facts(settings.configuration),
            "spark_conf": text_facts(settings.spark_conf),
            "parameters": text_facts(settings.parameters),
        },
        "approval": {
            "mode": settings.approval.mode.value,
            "required": [one.value for one in settings.approval.required],
            "four_eyes": settings.approval.four_eyes,
        },
        "maintenance": policy_facts(settings.maintenance),
        "schedules": [one.name for one in settings.schedules],
        "channels": [one.name for one in settings.alerts.channels],
        "rules": len(settings.alerts.rules),
        "connectors": list(settings.connectors),
        "stores": sorted(settings.stores),
        "renamed": {**settings.renamed_datasets, **settings.renamed_flows},
        "notices": [{"key": key, "reason": reason} for key, reason in settings.notices],
    }
    return Page("settings.html", f"Settings: {pipeline.name}", document)


def general_facts(settings: Settings) -> list[dict[str, Any]]:
    """What every pipeline has: the key of the file, and its value."""
    retries = settings.max_flow_retries
    values: Mapping[str, Any] = {
        "name": settings.name,
        "id": settings.id,
        "storage": settings.storage,
        "root_path": str(settings.root_path),
        "catalog": settings.catalog,
        "schema": settings.schema,
        "continuous": settings.continuous,
        "development": settings.development,
        "master": settings.master,
        "max_parallel_flows": settings.max_parallel_flows,
        "max_flow_retries": "default" if retries is None else retries,
        "stop_timeout": f"{settings.stop_timeout_s} s",
        "update_retries": settings.update_retries,
    }
    shown = {True: "true", False: "false", None: None}
    return [
        {"key": key, "value": shown[value] if value is None or isinstance(value, bool) else str(value)}
        for key, value in values.items()
    ]


def text_facts(texts: Mapping[str, str]) -> list[dict[str, Any]]:
    """Keys whose values may be secrets: a value is shown only if it is a reference such as ``${env:HOST}``."""
    return [
        {"key": key, "value": value if _REFERENCE.fullmatch(value) else None} for key, value in sorted(texts.items())
    ]
