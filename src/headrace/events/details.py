"""The JSON of an event's ``details`` column: the vendor's field names, and our own.

Ours are ``selections``, ``user``, ``headrace_version``, ``code_digest``, ``git_commit``, ``request_id``, ``path``,
``reason``,
``attempt``, ``error``, ``duration_s``, ``duration_ms``, ``epoch``, ``batch_id``, ``quarantined_records``,
``num_rescued_rows``, ``rescued_share``, ``num_tied_events``, ``num_late_events``, ``num_null_overwrites``,
``num_new_versions``, ``num_lone_changes``, ``lone_column``, ``merge_path``, ``write_path``, ``recovered``,
``table_version``, ``output_files``, ``output_bytes``, ``executor_run_ms``, ``executor_cpu_ms``, ``batches``,
``facts`` of a warning, ``source_kind``, ``behind``, ``custom`` in the metrics, ``action`` of an expectation,
``partitions`` of a source, ``refresh``, ``refresh_reason``, and all fields of ``stream_progress``, ``batch_progress``,
``maintenance_progress`` and ``log_trimmed``.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from headrace.cdc.feed import MergePath
from headrace.cdc.merge_commit import WritePath
from headrace.events.definition_details import DEFINITIONS, definition_body, definition_of
from headrace.events.levels import Json, Level
from headrace.events.stream_progress import executor_body, executor_time_of, progress_body, progress_of
from headrace.events.types import (
    BatchDone,
    BatchRunning,
    DatasetDefined,
    Event,
    FlowDefined,
    FlowLagMetrics,
    FlowStateChanged,
    FlowStateMetrics,
    FlowTotal,
    RowsSampled,
    SinkDefined,
    StreamProgress,
    TableEvaluated,
    UpdateCreated,
    UpdateStateChanged,
    UpdateTotals,
    Warned,
)
from headrace.events.upkeep import (
    LogTrimmed,
    RowsErased,
    SavepointChanged,
    StageSwapped,
    TableHandedOver,
    TableMaintained,
    UserAction,
)
from headrace.model.batch_commit import BatchCommit
from headrace.model.custom_metrics import MetricValue
from headrace.model.expectations import Action, ExpectationCount
from headrace.model.outcome import (
    BatchTasks,
    ChangeCounts,
    FilesBacklog,
    FlowCounts,
    FlowState,
    OperatorState,
    PartitionLag,
    SourceLag,
    TableLag,
    UpdateState,
)
from headrace.model.refresh import Refresh, RefreshMethod

_MAINTENANCE = (
    "path",
    "task",
    "state",
    "reason",
    "files_before",
    "bytes_before",
    "files_after",
    "bytes_after",
    "rows",
)
_ABOUT_BATCHES = frozenset(kind.event_type for kind in (RowsSampled, StreamProgress, BatchRunning, TableEvaluated))
_BEHIND = ("rows", "files", "bytes", "seconds", "distance")


def details_of(event: Event) -> dict[str, Any]:
    """The details, keyed by the event type; enumeration members stay unconverted, because they are not free text."""
    return {event.event_type: _body(event)}


def event_of(event_type: str, details: Json, origin: Json, message: str = "") -> Event | None:
    """The event of a row's columns; None for an event type that this version does not know.

    ``details`` is the parsed JSON, ``origin`` has the names of the flow and the dataset.
    """
    body = details.get(event_type)
    if not isinstance(body, Mapping):
        return None
    flow, dataset = origin.get("flow_name"), origin.get("dataset_name")
    if event_type == Warned.event_type:
        level = Level(body.get("level", Level.WARN))
        return Warned(body["code"], message, flow, dataset, level, body.get("facts", {}))
    if event_type == UpdateCreated.event_type:
        keys = ("user", "headrace_version", "code_digest", "git_commit", "plan_id", "request_id")
        started_by = (body.get(key) for key in keys)
        return UpdateCreated(body["cause"], body["config"], body["selections"], *started_by)
    if event_type == UpdateStateChanged.event_type:
        return UpdateStateChanged(UpdateState(body["state"]), body.get("error"))
    if event_type == RowsErased.event_type:
        rows = {str(name): int(count) for name, count in body["rows"].items()}
        return RowsErased(tuple(body["columns"]), rows, bool(body["kept_files"]), body.get("user"))
    if event_type in (SavepointChanged.event_type, StageSwapped.event_type, UserAction.event_type):
        return _savepoint_swap_or_action(event_type, body)
    if event_type == UpdateTotals.event_type:
        return UpdateTotals(tuple(_total(found) for found in body["flows"]), _reports(body.get("reports")))
    if event_type == TableMaintained.event_type:
        known: dict[str, Any] = {key: body.get(key) for key in _MAINTENANCE}
        return TableMaintained(str(dataset), **known)
    if event_type == LogTrimmed.event_type:
        return LogTrimmed(body["before"], body["metrics_before"], body["metrics"])
    return _about_flow_or_dataset(event_type, body, str(flow), str(dataset))


def _savepoint_swap_or_action(event_type: str, body: Json) -> Event:
    if event_type == UserAction.event_type:
        arguments = tuple(map(str, body["arguments"]))
        return UserAction(body["user"], body["address"], body["verb"], arguments, body.get("request_id"))
    if event_type == StageSwapped.event_type:
        return StageSwapped(body["stage"], tuple(body["datasets"]), body.get("user"))
    return SavepointChanged(body["action"], body["savepoint"], body["name"], body["kind"], body.get("user"))


def _about_flow_or_dataset(event_type: str, body: Json, flow: str, dataset: str) -> Event | None:
    if event_type in DEFINITIONS:
        return definition_of(event_type, body, flow, dataset)
    if event_type in _ABOUT_BATCHES:
        return _about_batches(event_type, body, flow, dataset)
    if event_type == TableHandedOver.event_type:
        return TableHandedOver(body["action"], dataset, body["location"], body.get("user"))
    if event_type != FlowStateChanged.event_type:
        return None
    if "batch_id" in body:
        return BatchDone(
            flow,
            dataset,
            body["epoch"],
            body["batch_id"],
            counts_of(body),
            body["duration_ms"],
            MergePath(body["merge_path"]) if "merge_path" in body else None,
            WritePath(body["write_path"]) if "write_path" in body else None,
            _commit_of(body),
            executor_time_of(body),
        )
    if "source_metrics" in body.get("metrics", {}):
        return FlowLagMetrics(flow, dataset, lag_of(body), backlog_of(body), table_lag_of(body), source_lag_of(body))
    if "state_operators" in body.get("metrics", {}):
        return _state_metrics(body["metrics"], flow, dataset)
    return FlowStateChanged(
        flow=flow,
        dataset=dataset,
        state=FlowState(body["status"]),
        reason=body.get("reason"),
        attempt=body["attempt"],
        error=body.get("error"),
        duration_s=body.get("duration_s"),
    )


def _commit_of(body: Json) -> BatchCommit | None:
    if "table_version" not in body:
        return None
    return BatchCommit(body["table_version"], body["output_files"], body["output_bytes"])


def _about_batches(event_type: str, body: Json, flow: str, dataset: str) -> Event:
    if event_type == RowsSampled.event_type:
        return RowsSampled(flow, dataset, body["epoch"], body["batch_id"], body["expectation"], tuple(body["rows"]))
    if event_type == StreamProgress.event_type:
        return StreamProgress(flow, dataset, body["epoch"], body["query_id"], body["run_id"], progress_of(body))
    if event_type == BatchRunning.event_type:
        batch = BatchTasks(body["batch_id"], body["tasks_done"], body["tasks"], body["elapsed_s"])
        return BatchRunning(flow, dataset, batch)
    return TableEvaluated(flow, dataset, _expectations_of(body))


def _total(body: Json) -> FlowTotal:
    return FlowTotal(
        body["flow"], body["dataset"], body["epoch"], body["batch_id"], counts_of(body), body.get("batches")
    )


def _reports(found: Any) -> tuple[FlowLagMetrics | FlowStateMetrics | BatchRunning, ...] | None:
    if found is None:
        return None
    known = ((*next(iter(one["details"].items())), one["flow"], one["dataset"]) for one in found)
    events = (_about_flow_or_dataset(kind, body, flow, dataset) for kind, body, flow, dataset in known)
    return tuple(event for event in events if isinstance(event, FlowLagMetrics | FlowStateMetrics | BatchRunning))


def _total_body(total: FlowTotal) -> dict[str, Any]:
    batch = BatchDone(total.flow, total.dataset, total.epoch, total.batch_id, total.counts)
    return {"flow": total.flow, "dataset": total.dataset, **_batch_body(batch), "batches": total.batches}


def counts_of(body: Json) -> FlowCounts:
    """The counts in the ``flow_progress`` event of a batch."""
    quality = body["data_quality"]
    return FlowCounts(
        rows_written=body["metrics"]["num_output_rows"],
        rows_dropped=quality["dropped_records"],
        rows_quarantined=quality["quarantined_records"],
        expectations=_expectations_of(quality),
        recovered=quality["recovered"],
        rows_rescued=body["metrics"].get("num_rescued_rows"),
        rows_upserted=body["metrics"].get("num_upserted_rows"),
        rows_deleted=body["metrics"].get("num_deleted_rows"),
        changes=_changes_of(body["metrics"]),
        metrics=tuple(MetricValue.from_json(one) for one in body["metrics"].get("custom", ())),
        refresh=_refresh_of(body),
    )


def _refresh_of(body: Json) -> Refresh | None:
    try:
        return Refresh(RefreshMethod(body["refresh"]), body["refresh_reason"])
    except (KeyError, ValueError):
        # Another flow; or a way of a later version.
        return None


def _expectations_of(body: Json) -> tuple[ExpectationCount, ...]:
    return tuple(
        ExpectationCount(
            name=expectation["name"],
            action=Action(expectation["action"]),
            passed=expectation["passed_records"],
            failed=expectation["failed_records"],
        )
        for expectation in body["expectations"]
    )


def _changes_of(metrics: Json) -> ChangeCounts | None:
    if "num_tied_events" not in metrics:
        return None
    return ChangeCounts(
        metrics["num_tied_events"],
        metrics["num_late_events"],
        metrics.get("num_null_overwrites"),
        metrics.get("num_new_versions"),
        metrics.get("num_lone_changes"),
        metrics.get("lone_column"),
    )


def _state_metrics(metrics: Json, flow: str, dataset: str) -> FlowStateMetrics:
    operators = tuple(OperatorState(**operator) for operator in metrics["state_operators"])
    return FlowStateMetrics(flow, dataset, operators, metrics["watermark"])


def lag_of(body: Json) -> tuple[PartitionLag, ...]:
    """The lag in the ``flow_progress`` event of a flow that reads topics."""
    return tuple(
        PartitionLag(source["source_name"], partition["partition"], partition["offset"], partition["newest"])
        for source in body["metrics"]["source_metrics"]
        for partition in source.get("partitions", ())
    )


def backlog_of(body: Json) -> tuple[FilesBacklog, ...]:
    """The backlog in the ``flow_progress`` event of a flow that reads files with Auto Loader."""
    return tuple(
        FilesBacklog(
            source["source_name"],
            source["backlog_files"],
            source["backlog_bytes"],
            _time(source.get("oldest_unread_at")),
        )
        for source in body["metrics"]["source_metrics"]
        if "backlog_files" in source
    )


def table_lag_of(body: Json) -> tuple[TableLag, ...]:
    """The lag in the ``flow_progress`` event of a flow that reads Delta tables as streams."""
    return tuple(
        TableLag(
            source["source_name"],
            source["backlog_commits"],
            source["backlog_records"],
            source["backlog_bytes"],
            _time(source["oldest_unread_at"]),
        )
        for source in body["metrics"]["source_metrics"]
        if "backlog_commits" in source
    )


def _time(text: str | None) -> datetime | None:
    return None if text is None else datetime.fromisoformat(text)


def source_lag_of(body: Json) -> tuple[SourceLag, ...]:
    """The lag in the ``flow_progress`` event of a flow that streams other sources."""
    return tuple(
        SourceLag(source["source_name"], source["source_kind"], *(source["behind"].get(name) for name in _BEHIND))
        for source in body["metrics"]["source_metrics"]
        if "behind" in source
    )


def _body(event: Event) -> dict[str, Any]:
    match event:
        case UpdateCreated():
            started_by = {"user": event.user, "headrace_version": event.version}
            code = {"code_digest": event.code_digest, "git_commit": event.git_commit}
            return {
                "cause": event.cause,
                "config": event.settings,
                "selections": event.selections,
                **started_by,
                **code,
                **({"plan_id": event.plan_id} if event.plan_id else {}),
                **({"request_id": event.request_id} if event.request_id else {}),
            }
        case UpdateStateChanged(state, error):
            return {"state": state, "error": error}
        case DatasetDefined() | SinkDefined() | FlowDefined():
            return definition_body(event)
        case FlowStateChanged():
            return {
                "status": event.state,
                "reason": event.reason,
                "attempt": event.attempt,
                "error": event.error,
                "duration_s": event.duration_s,
            }
        case BatchDone():
            return _batch_body(event)
        case FlowLagMetrics() | FlowStateMetrics() | StreamProgress() | BatchRunning():
            return _metrics_body(event)
        case RowsSampled() | TableEvaluated():
            return _expectations_event_body(event)
        case (
            UpdateTotals()
            | RowsErased()
            | SavepointChanged()
            | StageSwapped()
            | TableHandedOver()
            | UserAction()
            | TableMaintained()
            | LogTrimmed()
        ):
            return _summary_body(event)
        case Warned(code=code, level=level, facts=facts):
            known = {} if level is Level.WARN else {"level": level}
            return {"code": code, **known, **({"facts": facts} if facts else {})}


def _summary_body(
    event: UpdateTotals
    | RowsErased
    | SavepointChanged
    | StageSwapped
    | TableHandedOver
    | UserAction
    | TableMaintained
    | LogTrimmed,
) -> dict[str, Any]:
    match event:
        case UpdateTotals(flows=flows, reports=reports):
            found = [{"flow": one.flow, "dataset": one.dataset, "details": details_of(one)} for one in reports or ()]
            return {"flows": [_total_body(flow) for flow in flows]} | ({} if reports is None else {"reports": found})
        case RowsErased(columns, rows, kept_files, user):
            return {"columns": list(columns), "rows": dict(rows), "kept_files": kept_files, "user": user}
        case SavepointChanged(action, savepoint, name, kind, user):
            return {"action": action, "savepoint": savepoint, "name": name, "kind": kind, "user": user}
        case StageSwapped(stage, datasets, user):
            return {"stage": stage, "datasets": list(datasets), "user": user}
        case TableHandedOver(action=action, location=location, user=user):
            return {"action": action, "location": location, "user": user}
        case UserAction(user, address, verb, arguments, request_id):
            asked = {"user": user, "address": address, "request_id": request_id}
            return {**asked, "verb": verb, "arguments": list(arguments)}
        case TableMaintained():
            return {key: getattr(event, key) for key in _MAINTENANCE}
        case LogTrimmed(before, metrics_before, metrics):
            return {"before": before, "metrics_before": metrics_before, "metrics": metrics}


def _expectations_event_body(event: RowsSampled | TableEvaluated) -> dict[str, Any]:
    match event:
        case RowsSampled(_, _, epoch, batch_id, expectation, rows):
            return {"epoch": epoch, "batch_id": batch_id, "expectation": expectation, "rows": list(rows)}
        case TableEvaluated(_, dataset, expectations):
            return {"expectations": [_expectation_body(one, dataset) for one in expectations]}


def _metrics(counts: FlowCounts) -> dict[str, Any]:
    metrics: dict[str, Any] = {"num_output_rows": counts.rows_written}
    if counts.rows_rescued is not None:
        metrics["num_rescued_rows"] = counts.rows_rescued
        metrics["rescued_share"] = round(counts.rows_rescued / max(counts.rows_written, 1), 6)
    if counts.rows_upserted is not None:
        metrics["num_upserted_rows"] = counts.rows_upserted
        metrics["num_deleted_rows"] = counts.rows_deleted
    changes = counts.changes
    if changes is not None:
        metrics |= {"num_tied_events": changes.tied, "num_late_events": changes.late}
        metrics |= {} if changes.null_overwrites is None else {"num_null_overwrites": changes.null_overwrites}
        metrics |= {} if changes.new_versions is None else {"num_new_versions": changes.new_versions}
        metrics |= {} if changes.lone_changes is None else {"num_lone_changes": changes.lone_changes}
        metrics |= {} if changes.lone_column is None else {"lone_column": changes.lone_column}
    if counts.metrics:
        metrics["custom"] = [metric.to_json() for metric in counts.metrics]
    return metrics


def _metrics_body(event: FlowLagMetrics | FlowStateMetrics | StreamProgress | BatchRunning) -> dict[str, Any]:
    match event:
        case BatchRunning(batch=batch):
            return batch.to_json()
        case StreamProgress(epoch=epoch, query_id=query_id, run_id=run_id, progress=progress):
            return {"epoch": epoch, "query_id": query_id, "run_id": run_id, **progress_body(progress)}
        case FlowLagMetrics():
            return _lag_body(event)
        case FlowStateMetrics(operators=operators, watermark=watermark):
            state = [operator.to_json() for operator in operators]
            return {"status": FlowState.RUNNING, "metrics": {"state_operators": state, "watermark": watermark}}


def _lag_body(event: FlowLagMetrics) -> dict[str, Any]:
    lag, backlog, tables = event.lag, event.backlog, event.tables
    topics = dict.fromkeys(partition.topic for partition in lag)
    sources: list[dict[str, Any]] = []
    for topic in topics:
        partitions = [partition for partition in lag if partition.topic == topic]
        numbers = [
            {"partition": one.partition, "offset": one.offset, "newest": one.newest, "backlog_records": one.behind}
            for one in partitions
        ]
        behind = sum(one.behind for one in partitions)
        sources.append({"source_name": topic, "backlog_records": behind, "partitions": numbers})
    metrics: dict[str, Any] = {"backlog_records": sum(partition.behind for partition in lag)} if lag else {}
    if backlog:
        metrics["backlog_files"] = sum(source.files for source in backlog)
        metrics["backlog_bytes"] = sum(source.size for source in backlog)
    for one in backlog:
        unread = {"backlog_files": one.files, "backlog_bytes": one.size, "oldest_unread_at": one.oldest_unread_at}
        sources.append({"source_name": one.source, **unread})
    for table in tables:
        unread = {"backlog_commits": table.commits, "backlog_records": table.rows, "backlog_bytes": table.size}
        sources.append({"source_name": table.source, **unread, "oldest_unread_at": table.oldest_unread_at})
    # Apart from the others' fields, which older versions take for theirs.
    others = ({"source_name": one.source, "source_kind": one.kind, "behind": one.behind} for one in event.sources)
    sources.extend(others)
    return {"status": FlowState.RUNNING, "metrics": {**metrics, "source_metrics": sources}}


def _batch_body(event: BatchDone) -> dict[str, Any]:
    counts = event.counts
    return {
        "status": FlowState.RUNNING,
        "epoch": event.epoch,
        "batch_id": event.batch_id,
        "duration_ms": event.duration_ms,
        **({} if event.merge_path is None else {"merge_path": event.merge_path}),
        **({} if event.write_path is None else {"write_path": event.write_path}),
        **({} if event.commit is None else _commit_body(event.commit)),
        **executor_body(event.executor_time),
        **({} if counts.refresh is None else counts.refresh.to_json()),
        "metrics": _metrics(counts),
        "data_quality": {
            "dropped_records": counts.rows_dropped,
            "quarantined_records": counts.rows_quarantined,
            "recovered": counts.recovered,
            "expectations": [_expectation_body(count, event.dataset) for count in counts.expectations],
        },
    }


def _commit_body(commit: BatchCommit) -> dict[str, Any]:
    return {"table_version": commit.version, "output_files": commit.files, "output_bytes": commit.size}


def _expectation_body(count: ExpectationCount, dataset: str) -> dict[str, Any]:
    return {
        "name": count.name,
        "dataset": dataset,
        "action": count.action,
        "passed_records": count.passed,
        "failed_records": count.failed,
    }
