"""What the end of ``headrace --output json run`` means for a scheduler's task and its assets. Needs no package."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from enum import Enum
from typing import Any


class TaskState(Enum):
    """What becomes of the task."""

    SUCCEEDED = "succeeded"
    # No table has changed.
    NOTHING_NEW = "nothing new"
    # A later attempt may pass.
    RETRY = "retry"
    # Every attempt fails until a person changes something.
    FAILED = "failed"


@dataclass(frozen=True)
class Check:
    """An expectation of a table, and how many rows passed and failed in this update."""

    name: str
    passed: int
    failed: int


@dataclass(frozen=True)
class Asset:
    """A dataset that the update has changed."""

    name: str
    rows: dict[str, int]
    checks: tuple[Check, ...] = ()


@dataclass(frozen=True)
class TaskResult:
    """The state of the task, one line for people, and the changed datasets, also of an update that failed later."""

    state: TaskState
    message: str
    assets: tuple[Asset, ...] = field(default=())


# By the exit code: 1 the update failed, 2 the project is wrong, 3 another update runs, 4 approval is missing, 5 the
# tables have changed since the plan, 130 interrupted.
_STATES = {1: TaskState.RETRY, 2: TaskState.FAILED, 3: TaskState.RETRY, 4: TaskState.FAILED, 5: TaskState.FAILED}
_VIEWS = ("temporary_view", "persisted_view")
_COUNTS = ("rows_written", "rows_dropped", "rows_quarantined")


def task_result(exit_code: int, printed: str) -> TaskResult:
    """The result of a task.

    Args:
        exit_code: that of the command.
        printed: its standard output, one JSON document; anything else if it was killed.
    """
    document = _document(printed)
    assets = _assets(document.get("flows") or [])
    if exit_code == 0:
        flows = document.get("flows") or []
        is_changed = any(flow["state"] == "COMPLETED" for flow in flows)
        rows = sum(asset.rows["rows_written"] for asset in assets)
        state = TaskState.SUCCEEDED if is_changed else TaskState.NOTHING_NEW
        return TaskResult(state, f"{len(assets)} datasets changed, {rows:,} rows written", assets)
    error = document.get("error") or {}
    message = f"{error['code']}: {error['message']}" if error else f"headrace exited with {exit_code}"
    return TaskResult(_STATES.get(exit_code, TaskState.RETRY), message, assets)


def _document(printed: str) -> dict[str, Any]:
    try:
        document = json.loads(printed)
    except ValueError:
        return {}
    return document if isinstance(document, dict) else {}


def _assets(flows: list[dict[str, Any]]) -> tuple[Asset, ...]:
    by_dataset: dict[str, list[dict[str, Any]]] = {}
    for flow in flows:
        if flow["state"] == "COMPLETED":
            by_dataset.setdefault(flow["dataset"], []).append(flow)
    return tuple(
        Asset(name, {count: sum(flow[count] or 0 for flow in own) for count in _COUNTS}, _checks(own))
        for name, own in by_dataset.items()
    )


def _checks(flows: list[dict[str, Any]]) -> tuple[Check, ...]:
    counts: dict[str, list[int]] = {}
    for flow in flows:
        for expectation in flow["expectations"]:
            count = counts.setdefault(expectation["name"], [0, 0])
            count[0] += expectation["passed"] or 0
            count[1] += expectation["failed"] or 0
    return tuple(Check(name, passed, failed) for name, (passed, failed) in counts.items())


def dependencies(graph: str) -> dict[str, list[str]]:
    """The tables, materialized views and sinks of a pipeline, and what each of them reads, through views too.

    Args:
        graph: what ``headrace --output json graph`` printed.
    """
    document = json.loads(graph)
    views = {dataset["name"] for dataset in document["datasets"] if dataset["kind"] in _VIEWS}
    reads: dict[str, list[str]] = {dataset["name"]: [] for dataset in document["datasets"]}
    for flow in document["flows"]:
        reads[flow["target"]] += flow["inputs"]

    def stored(names: list[str]) -> list[str]:
        return [found for name in names for found in (stored(reads[name]) if name in views else [name])]

    return {name: list(dict.fromkeys(stored(read))) for name, read in reads.items() if name not in views}
