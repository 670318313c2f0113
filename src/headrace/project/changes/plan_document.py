"""The document of a plan: its changes and steps, and all that must be the same when it is applied."""

from __future__ import annotations

import hashlib
import json
import math
import platform
import secrets
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, fields
from datetime import datetime, timedelta
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from headrace.graph.resolved import ResolvedGraph
from headrace.graph.select import Selection
from headrace.plan.drift import rows_cleared
from headrace.plan.plan_file import FORMAT
from headrace.plan.steps import Plan
from headrace.project.update.code_version import code_files, digest_of, digests_of, git_commit
from headrace.project.update.initial_events import recorded_selection
from headrace.settings.settings import Settings
from headrace.storage.change_detection import StoredState

VALID_FOR = timedelta(hours=24)
# By how much the rows that a plan clears may have grown when it is applied.
_GROWTH = 1.1
_PACKAGES = ("headrace", "pyspark", "delta-spark", "deltalake", "pyarrow")
# Of the machine, and not of the pipeline; the code's own digest has the file.
_OF_MACHINE = ("file", "root", "root_path", "locations", "secrets_directory", "notices")


@dataclass(frozen=True)
class PlanDocuments:
    """Makes documents of the plans of a pipeline.

    Attributes:
        settings: the pipeline's.
        state: what is deployed.
        redact: removes secrets from a text.
    """

    settings: Settings
    state: StoredState
    redact: Callable[[str], str]

    def early(self) -> dict[str, Any]:
        """What is known before anything is resolved: pipeline, code, settings and packages."""
        return early_facts(self.settings)

    def facts(self, plan: Plan, selection: Selection) -> dict[str, Any]:
        """All that is compared when a plan is applied. It contains no secret."""
        stored = [dataset.name for dataset in plan.graph.datasets if dataset.kind.stored]
        tables = {str(name): table for name in stored if (table := self.state.table(name)) is not None}
        steps = {key: value for key, value in plan.to_json().items() if key != "changes"}
        redacted: dict[str, Any] = self._redacted(
            {
                "selection": recorded_selection(selection),
                "changes": [change.to_json() for change in plan.changes],
                "steps": steps,
            }
        )
        base = {
            "datasets": {
                name: {
                    "table_id": table.table_id,
                    "version": table.version,
                    "schema_digest": _digest(table.schema.to_json()),
                    "properties_digest": _digest(dict(table.properties)),
                }
                for name, table in tables.items()
            },
            "flows": self._flows(plan.graph),
        }
        return {**self.early(), **redacted, "base": base}

    def document(self, plan: Plan, selection: Selection, made_by: str, at: datetime) -> dict[str, Any]:
        """The document of a plan.

        Args:
            plan: with its changes.
            selection: what it updates.
            made_by: who makes it.
            at: the time.
        """
        facts = self.facts(plan, selection)
        return {
            "format": FORMAT,
            "plan_id": f"pl-{at:%Y%m%d}-{secrets.token_hex(4)}",
            "made_at": at.isoformat(timespec="seconds"),
            "made_by": made_by,
            "expires_at": (at + VALID_FOR).isoformat(timespec="seconds"),
            **facts,
            "limits": {"rows_cleared": math.floor(rows_cleared(facts) * _GROWTH)},
        }

    def _flows(self, graph: ResolvedGraph) -> dict[str, Any]:
        found = {}
        for flow in graph.stored_flows:
            record = self.state.record(flow)
            if record is not None:
                signature = record.to_json()["made_with"]
                found[flow.name] = {
                    "epoch": record.epoch,
                    "fingerprint": record.fingerprint,
                    "made_with": None if signature is None else _digest(signature),
                }
        return found

    def _redacted(self, value: Any) -> Any:
        if isinstance(value, str):
            return self.redact(value)
        if isinstance(value, Mapping):
            return {key: self._redacted(item) for key, item in value.items()}
        return [self._redacted(item) for item in value] if isinstance(value, list | tuple) else value


def early_facts(settings: Settings) -> dict[str, Any]:
    """What is known of a plan before anything is resolved: pipeline, code, settings and packages."""
    files = digests_of(code_files(settings))
    # `git_commit` cannot know whether files were changed since.
    git = {"commit": git_commit(settings.root), "dirty": None}
    return {
        "pipeline_id": settings.id,
        "code": {"digest": f"sha256:{digest_of(files)}", "files": files, "git": git},
        "settings": {
            "digest": _settings_digest(settings),
            "profile": settings.profile,
            "configuration": sorted(settings.configuration),
        },
        "packages": {"python": platform.python_version(), **_packages()},
    }


def _settings_digest(settings: Settings) -> str:
    """The digest of all settings, with references instead of secrets, wherever the project's folder is."""
    values = {one.name: getattr(settings, one.name) for one in fields(settings) if one.name not in _OF_MACHINE}
    root = str(settings.root)
    return _digest({name: _text(value).replace(root, ".") for name, value in values.items()})


def _text(value: Any) -> str:
    return json.dumps(dict(value), sort_keys=True, default=repr) if isinstance(value, Mapping) else repr(value)


def _digest(value: Any) -> str:
    return f"sha256:{hashlib.sha256(json.dumps(value, sort_keys=True, default=str).encode()).hexdigest()}"


def _packages() -> dict[str, str]:
    found = {}
    for name in _PACKAGES:
        with suppress(PackageNotFoundError):
            found[name] = version(name)
    return found
