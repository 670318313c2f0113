"""The JSON schemas of what the API takes and returns."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeAlias

from headrace.project.requests.request import RequestState
from headrace.serve.roles import Role

Schema: TypeAlias = dict[str, Any]
# A word, such as "text" or "time?" for one that may be null, "#Name" for another schema; a list; an object.
Shape: TypeAlias = "str | list[Any] | Mapping[str, Any]"

_WORDS: Mapping[str, Schema] = {
    "text": {"type": "string"},
    "time": {"type": "string", "format": "date-time"},
    "number": {"type": "number"},
    "whole": {"type": "integer"},
    "flag": {"type": "boolean"},
    "object": {"type": "object"},
    "health": {"type": "string", "enum": ["ok", "unknown", "warn", "bad"]},
    "any": {},
}


def schema_of(shape: Shape) -> Schema:
    """The schema of a shape. All fields of an object are required; more may come in later versions."""
    if isinstance(shape, list):
        return {"type": "array", "items": schema_of(shape[0])}
    if isinstance(shape, Mapping):
        if set(shape) == {"*"}:
            return {"type": "object", "additionalProperties": schema_of(shape["*"])}
        properties = {name: schema_of(one) for name, one in shape.items()}
        return {"type": "object", "required": sorted(properties), "properties": properties}
    word = shape.removesuffix("?")
    found = {"$ref": f"#/components/schemas/{word[1:]}"} if word.startswith("#") else dict(_WORDS[word])
    if word == shape:
        return found
    return {**found, "type": [found["type"], "null"]} if "type" in found else {"anyOf": [found, {"type": "null"}]}


_ERROR: Mapping[str, Shape] = {
    "code": "text",
    "message": "text",
    "detail": "text?",
    "hint": "text?",
    "location": "#Location?",
}
_FLOW_FACTS: Mapping[str, Shape] = {
    "flow": "text",
    "dataset": "text?",
    "state": "text",
    "mark": "health",
    "is_active": "flag",
    "rows_per_second": "number?",
    "input_rows_per_second": "number?",
    "lag_s": "number?",
    "watermark_delay_s": "number?",
    "last_batch_at": "time?",
    "bottleneck": "text?",
}
_ASKED: Mapping[str, Shape] = {
    "id": "text",
    "verb": "text",
    "arguments": ["text"],
    "user": "text",
    "asked_at": "time",
}
_REQUEST: Mapping[str, Shape] = {
    **_ASKED,
    "state": "#RequestState",
    "started_at": "time?",
    "ended_at": "time?",
    "merged_into": "text?",
    "exit_code": "whole?",
    "update_id": "text?",
    "code": "text?",
    "message": "text?",
}
_ALERT: Mapping[str, Shape] = {
    "id": "text",
    "rule_id": "text",
    "severity": "text",
    "labels": {"*": "text"},
    "message": "text",
    "first_step": "text",
    "state": "text",
    "since": "time",
    "resolved_at": "time?",
    "acknowledged_by": "text?",
    "silenced_until": "time?",
    "is_hidden": "flag",
}
_MEASURES: Shape = [{"name": "text", "unit": "text", "points": [{"at": "time", "value": "number"}]}]
_SHAPES: Mapping[str, Shape] = {
    "Location": {"file": "text", "line": "whole?"},
    "Problem": {**_ERROR, "params": {"*": "text"}},
    "Failure": {"error": "#Problem", "problems": ["#Problem"]},
    "Error": _ERROR,
    "Me": {"name": "text", "role": "#Role", "is_read_only": "flag"},
    "Update": {
        "update_id": "text",
        "state": "text",
        "mark": "health",
        "cause": "text?",
        "user": "text?",
        "started_at": "time?",
        "ended_at": "time?",
        "duration_s": "number?",
        "is_whole": "flag",
        "version": "text?",
        "git_commit": "text?",
        "error": "#Error?",
    },
    "Updates": {"name": "text", "as_of": "time", "updates": ["#Update"], "most": "whole"},
    "Pipelines": {
        "pipelines": [
            {
                "slug": "text",
                "name": "text",
                "folder": "text",
                "state": "text",
                "mark": "health",
                "is_running": "flag",
                "datasets": "whole",
                "healths": {"*": "whole"},
                "attention": {"*": "whole"},
                "worst": "text?",
                "next_run": "#NextRun?",
                "updates": ["#Update"],
                "as_of": "time",
            }
        ]
    },
    "NextRun": {"schedule": "text", "at": "time"},
    "Lease": {
        "is_held": "flag",
        "host": "text?",
        "pid": "whole?",
        "held_since": "time?",
        "update_id": "text?",
        "newest_event_at": "time?",
        "newest_event_age_s": "number?",
    },
    "FlowFacts": _FLOW_FACTS,
    "Pipeline": {
        "name": "text",
        "as_of": "time",
        "state": "text?",
        "mark": "health",
        "lease": "#Lease",
        "attention": [{"severity": "text", "sentence": "text", "first_step": "text?"}],
        "healths": {"*": "whole"},
        "datasets": [{"dataset": "text", "kind": "text", "health": "health", "signals": ["text"]}],
        "flows": ["#FlowFacts"],
        "updates": ["#Update"],
    },
    "Graph": {
        "name": "text",
        "as_of": "time",
        "update_id": "text?",
        "focus": "text?",
        "hops": "whole?",
        "datasets_and_sources": "whole",
        "nodes": [
            {
                "name": "text",
                "is_source": "flag",
                "kind": "text",
                "health": "text?",
                "state": "text?",
                "signals": ["text"],
                "flows": ["text"],
                "reads": ["text"],
                "rows": "number?",
                "rows_per_second": "number?",
                "lag_s": "number?",
            }
        ],
        "edges": [{"source": "text", "target": "text", "flow": "text?", "mark": "text?", "rows_per_second": "number?"}],
    },
    "Dataset": {
        "dataset": "text",
        "as_of": "time",
        "kind": "text",
        "comment": "text?",
        "is_private": "flag",
        "health": "health",
        "signals": ["text"],
        "now": {
            "rows": "number?",
            "bytes": "number?",
            "files": "number?",
            "version": "number?",
            "last_commit_at": "time?",
            "local_lag_s": "number?",
            "global_lag_s": "number?",
            "quarantined": "number?",
        },
        "flows": ["#FlowFacts"],
        "reads": ["text"],
        "read_by": ["text"],
        "sources": [{"kind": "text", "name": "text"}],
        "expectations": [{"name": "text", "passed": "number", "failed": "number"}],
        "history": ["#Commit"],
        "columns": ["#Column"],
        "lineage": {
            "is_recorded": "flag",
            "columns": [
                {
                    "column": "text",
                    "is_traced": "flag",
                    "from": {"uses": ["#ColumnSource"], "more": "whole"},
                    "read_by": {"uses": ["#ColumnReader"], "more": "whole"},
                }
            ],
            "more_columns": "whole",
            "rows": {"uses": ["#ColumnSource"], "more": "whole"},
            "is_complete": "flag",
            "unknown_flows": ["text"],
            "unknown_readers": ["text"],
        },
        "path": "text?",
    },
    "Column": {"name": "text", "type": "text", "is_nullable": "flag", "comment": "text?"},
    "ColumnChange": {"column": "text", "change": "text", "before": "text?", "after": "text?"},
    "Commit": {
        "version": "whole",
        "operation": "text?",
        "committed_at": "time?",
        "update_id": "text?",
        "flow": "text?",
        "batch_id": "whole?",
        "rows": "whole?",
        "rows_added": "whole?",
        "files_added": "whole?",
        "files_removed": "whole?",
        "bytes_added": "whole?",
        "bytes_removed": "whole?",
    },
    "History": {
        "dataset": "text",
        "as_of": "time",
        "commits": ["#Commit"],
        "no_table": "text?",
        "earlier": "whole?",
    },
    "SchemaReport": {
        "dataset": "text",
        "as_of": "time",
        "columns": "#Columns?",
        "table_columns": "#Columns?",
        "partition_by": ["text"],
        "cluster_by": ["text"],
        "updates": [{"at": "time", "update_id": "text", "changes": ["#ColumnChange"]}],
        "versions": [
            {
                "version": "whole",
                "operation": "text?",
                "committed_at": "time?",
                "columns": "whole",
                "is_compared": "flag",
                "changes": ["#ColumnChange"],
            }
        ],
        "no_table": "text?",
        "earlier": "whole?",
    },
    "Columns": ["#Column"],
    "Expectations": {
        "dataset": "text",
        "as_of": "time",
        "declared": ["text"],
        "expectations": [
            {
                "name": "text",
                "action": "text",
                "passed": "whole",
                "failed": "whole",
                "over_time": [{"at": "time", "update_id": "text", "passed": "whole", "failed": "whole"}],
            }
        ],
        "earlier": "whole?",
    },
    "ColumnSource": {"namespace": "text?", "dataset": "text", "column": "text", "use": "text", "is_direct": "flag"},
    "ColumnReader": {"dataset": "text", "column": "text?", "use": "text", "is_direct": "flag"},
    "Flow": {
        **_FLOW_FACTS,
        "as_of": "time",
        "mode": "text?",
        "language": "text?",
        "comment": "text?",
        "trigger": "text?",
        "inputs": ["text"],
        "external_inputs": [{"kind": "text", "name": "text"}],
        "reason": "text?",
        "attempts": "number?",
        "lag": [{"source": "text", "seconds": "number?", "rows": "number?"}],
        "error": "#Error?",
        "batches": ["#Batch"],
        "history": _MEASURES,
    },
    "Batch": {
        "epoch": "whole",
        "batch_id": "whole",
        "started_at": "time?",
        "recorded_at": "time?",
        "duration_ms": "number?",
        "phases_ms": {"*": "number"},
        "rows_read": "whole?",
        "rows_written": "whole?",
        "rows_dropped": "whole?",
        "rows_quarantined": "whole?",
        "version": "whole?",
        "update_id": "text?",
    },
    "Batches": {"flow": "text", "as_of": "time", "batches": ["#Batch"], "earlier": "whole?"},
    "Checkpoint": {
        "flow": "text",
        "dataset": "text",
        "mode": "text",
        "state": "text",
        "epoch": "whole",
        "checkpoint": "text",
        "has_checkpoint": "flag",
        "query_id": "text?",
        "planned": "whole?",
        "done": "whole?",
        "committed": "whole?",
        "reported": {"*": "whole?"},
        "last_batch_at": "time?",
        "watermark": "time?",
        "format": "#StateFormat?",
        "sources": [{"source": "text", "position": "text", "offset": "any"}],
        "state_operators": ["#StateOperator"],
        "epochs": [
            {
                "epoch": "whole",
                "state": "text",
                "planned": "whole?",
                "done": "whole?",
                "last_batch_at": "time?",
                "files": "whole",
                "bytes": "whole",
                "in_table": "flag",
            }
        ],
        "problem": "#Problem?",
        "ways_out": [{"command": "text", "effect": "text"}],
    },
    "StateFormat": {"text": "text", "confs": {"*": "text"}},
    "StateOperator": {
        "operator": "whole",
        "name": "text",
        "variables": ["text"],
        "partitions": "whole",
        "files": "whole",
        "bytes": "whole",
        "stores": [{"store": "text", "partition": "whole", "version": "whole", "files": "whole", "bytes": "whole"}],
    },
    "State": {
        "flow": "text",
        "as_of": "time",
        "epoch": "whole?",
        "batch": "whole?",
        "watermark": "time?",
        "watermark_delay_s": "number?",
        "format": "#StateFormat?",
        "operators": ["#StateOperator"],
        "reported": [{"operator": "text", "bytes": "number?", "rows": "number?"}],
        "history": _MEASURES,
    },
    "UpdateReport": {
        "name": "text",
        "update_id": "text",
        "state": "text",
        "mark": "health",
        "cause": "text?",
        "user": "text?",
        "started_at": "time?",
        "ended_at": "time?",
        "duration_s": "number?",
        "error": "#Error?",
        "flows": [{"flow": "text", "dataset": "text", "state": "text", "rows_written": "number", "mark": "health"}],
        "attempts": [{"flow": "text", "attempt": "whole", "state": "text", "started_at": "time", "ended_at": "time"}],
        "warnings": [{"code": "text", "message": "text", "flow": "text?", "dataset": "text?"}],
    },
    "Diagnosis": {
        "name": "text",
        "findings": [
            {
                "check": "text",
                "severity": "text",
                "flow": "text?",
                "dataset": "text?",
                "evidence": "text",
                "remedy": "text",
                "command": "text?",
            }
        ],
        "next": "text?",
        "unread": [{"part": "text", "path": "text?", "reason": "text"}],
    },
    "Schedules": {
        "pipeline": "text",
        "runs_on": "#Process?",
        "schedules": [
            {
                "name": "text",
                "when": "text",
                "kind": "text",
                "refresh": ["text"],
                "in_code": "flag",
                "state": "text",
                "paused_by": "text?",
                "next_at": "time?",
                "last": "object?",
                "retries": "whole?",
            }
        ],
        "problems": {"*": "text"},
    },
    "Process": {"host": "text", "pid": "whole"},
    "Alerts": {"alerts": [_ALERT]},
    "AllAlerts": {
        "alerts": [{"pipeline": "text", "pipeline_name": "text", **_ALERT}],
        "problems": [{"pipeline": "text", **_ERROR}],
    },
    "Metrics": "text",
    "Quarantines": {"quarantines": [{"dataset": "text", "rows": "whole", "rules": {"*": "whole"}}]},
    "QuarantinedRows": {
        "dataset": "text",
        "rule": "text?",
        "limit": "whole",
        "waiting": "whole",
        "columns": ["text"],
        "column_count": "whole",
        "is_cut": "flag",
        "rows": [
            {
                "rules": ["text"],
                "values": ["#QuarantinedValue?"],
                "error": "#QuarantinedValue?",
                "condition": "text?",
                "sink": "text?",
                "origin": {
                    "file": "text?",
                    "topic": "text?",
                    "partition": "whole?",
                    "offset": "whole?",
                    "version": "whole?",
                },
                "flow": "text?",
                "update_id": "text?",
                "quarantined_at": "time?",
            }
        ],
    },
    "QuarantinedValue": {"value": "any", "is_cut": "flag"},
    "Savepoints": {
        "savepoints": [{"id": "text", "name": "text", "kind": "text", "made_at": "time", "tables": "whole"}],
        "problems": ["#Problem"],
    },
    "Events": [
        {
            "sequence": "whole",
            "timestamp": "time",
            "event_type": "text",
            "level": "text",
            "message": "text",
            "update_id": "text?",
            "flow": "text?",
            "dataset": "text?",
        }
    ],
    "Document": "object",
    "Plans": {
        "plans": [
            {
                "plan_id": "text",
                "digest": "text",
                "made_by": "text?",
                "expires_at": "time",
                "classes": ["text"],
                "approvals": [{"by": "text", "at": "time", "note": "text"}],
                "is_rejected": "flag",
            }
        ]
    },
    "QueryResult": {
        "columns": ["text"],
        "rows": [["any"]],
        "is_truncated": "flag",
        "duration_s": "number",
        "notices": ["text"],
    },
    "Asked": {**_ASKED, "url": "text"},
    "Request": _REQUEST,
    "Requests": {"requests": ["#Request"]},
    "RequestReport": {**_REQUEST, "result": "any"},
}


def schemas() -> Mapping[str, Schema]:
    """The schemas that routes name."""
    return {
        "Role": {"type": "string", "enum": [role.value for role in Role]},
        "RequestState": {"type": "string", "enum": [state.value for state in RequestState]},
        **{name: schema_of(shape) for name, shape in _SHAPES.items()},
    }
