"""Examples of answers, by the names of their routes, for the OpenAPI document."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

_AT = "2026-11-29T02:00:41Z"
_UPDATE = "5f0c2a91-6c1d-4e0b-9a55-0e6b8a4f2c10"
_COLUMN = {"name": "amount", "type": "decimal(10,2)", "is_nullable": True, "comment": "in euros"}
_OPERATOR = {
    "operator": 0,
    "name": "deduplication within the watermark",
    "variables": [],
    "partitions": 1,
    "files": 3,
    "bytes": 61_440,
    "stores": [{"store": "default", "partition": 0, "version": 413, "files": 3, "bytes": 61_440}],
}
_FORMAT = {
    "text": "RocksDB, version 2",
    "confs": {
        "spark.sql.streaming.stateStore.providerClass": (
            "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
        ),
        "spark.sql.streaming.stateStore.checkpointFormatVersion": "2",
    },
}

EXAMPLES: Mapping[str, Any] = {
    "history": {
        "dataset": "orders",
        "as_of": _AT,
        "commits": [
            {
                "version": 412,
                "operation": "STREAMING UPDATE",
                "committed_at": "2026-11-29T02:00:39+00:00",
                "update_id": _UPDATE,
                "flow": "orders",
                "batch_id": 411,
                "rows": 812,
                "rows_added": 812,
                "files_added": 1,
                "files_removed": 0,
                "bytes_added": 24_310,
                "bytes_removed": 0,
            },
            {
                "version": 411,
                "operation": "OPTIMIZE",
                "committed_at": "2026-11-29T01:12:04+00:00",
                "update_id": None,
                "flow": None,
                "batch_id": None,
                "rows": None,
                "rows_added": 0,
                "files_added": 1,
                "files_removed": 38,
                "bytes_added": 801_220,
                "bytes_removed": 934_100,
            },
        ],
        "no_table": None,
        "earlier": 411,
    },
    "schema": {
        "dataset": "orders",
        "as_of": _AT,
        "columns": [{**_COLUMN, "name": "id", "type": "bigint", "comment": None}, _COLUMN],
        "table_columns": [{**_COLUMN, "name": "id", "type": "bigint", "comment": None}, _COLUMN],
        "partition_by": [],
        "cluster_by": ["id"],
        "updates": [
            {
                "at": "2026-11-28T02:00:02Z",
                "update_id": "0b7d3c55-1f2e-4a7c-8c55-2f0a6f1f9d31",
                "changes": [{"column": "amount", "change": "added", "before": None, "after": "decimal(10,2)"}],
            }
        ],
        "versions": [
            {
                "version": 398,
                "operation": "STREAMING UPDATE",
                "committed_at": "2026-11-28T02:00:40+00:00",
                "columns": 2,
                "is_compared": True,
                "changes": [{"column": "amount", "change": "added", "before": None, "after": "decimal(10,2)"}],
            }
        ],
        "no_table": None,
        "earlier": 313,
    },
    "expectations": {
        "dataset": "orders",
        "as_of": _AT,
        "declared": ["valid"],
        "expectations": [
            {
                "name": "valid",
                "action": "drop",
                "passed": 1588,
                "failed": 12,
                "over_time": [
                    {"at": "2026-11-29T01:00:39Z", "update_id": _UPDATE, "passed": 776, "failed": 0},
                    {"at": "2026-11-29T02:00:40Z", "update_id": _UPDATE, "passed": 812, "failed": 12},
                ],
            }
        ],
        "earlier": 1_795_914_039_120_310,
    },
    "batches": {
        "flow": "orders",
        "as_of": _AT,
        "batches": [
            {
                "epoch": 0,
                "batch_id": 411,
                "started_at": "2026-11-29T02:00:38Z",
                "recorded_at": "2026-11-29T02:00:40Z",
                "duration_ms": 1400,
                "phases_ms": {"latest_offset": 200, "query_planning": 100, "add_batch": 900, "rest": 200},
                "rows_read": 824,
                "rows_written": 812,
                "rows_dropped": 12,
                "rows_quarantined": 0,
                "version": 412,
                "update_id": _UPDATE,
            }
        ],
        "earlier": 1_795_917_640_120_310,
    },
    "checkpoint": {
        "flow": "orders",
        "dataset": "orders",
        "mode": "append",
        "state": "ok",
        "epoch": 0,
        "checkpoint": "/srv/shop/storage/checkpoints/default/orders/orders/0",
        "has_checkpoint": True,
        "query_id": "9d0e6f7a-3f0b-4c77-9b0d-1d8f6c1b2a3e",
        "planned": 411,
        "done": 411,
        "committed": 411,
        "reported": {"event log": 411},
        "last_batch_at": "2026-11-29T02:00:38Z",
        "watermark": "2026-11-29T01:50:12Z",
        "format": _FORMAT,
        "sources": [{"source": "table landing", "position": "version 87", "offset": {"reservoirVersion": 87}}],
        "state_operators": [_OPERATOR],
        "epochs": [
            {
                "epoch": 0,
                "state": "current",
                "planned": 411,
                "done": 411,
                "last_batch_at": "2026-11-29T02:00:38Z",
                "files": 64,
                "bytes": 98_304,
                "in_table": True,
            }
        ],
        "problem": None,
        "ways_out": [],
    },
    "state": {
        "flow": "orders",
        "as_of": _AT,
        "epoch": 0,
        "batch": 411,
        "watermark": "2026-11-29T01:50:12Z",
        "watermark_delay_s": 629.4,
        "format": _FORMAT,
        "operators": [_OPERATOR],
        "reported": [{"operator": "deduplication", "bytes": 2_097_152, "rows": 10_412}],
        "history": [
            {
                "name": "Rows of state",
                "unit": "count",
                "about": "of all operators",
                "points": [{"at": "2026-11-29T02:00:40Z", "value": 10_412}],
            }
        ],
    },
    "events": [
        {
            "sequence": 1_795_917_640_120_310,
            "timestamp": "2026-11-29T02:00:40.120310+00:00",
            "event_type": "update_progress",
            "level": "ERROR",
            "message": 'update is FAILED: flow "revenue" failed',
            "update_id": _UPDATE,
            "flow": None,
            "dataset": None,
        }
    ],
    "all_alerts": {
        "alerts": [
            {
                "pipeline": "shop",
                "pipeline_name": "shop",
                "id": "4c1f0e9a7d",
                "rule_id": "update_failed",
                "severity": "bad",
                "labels": {},
                "message": "the latest update failed",
                "first_step": "headrace status",
                "state": "open",
                "since": "2026-11-29T02:00:41Z",
                "last_true_at": "2026-11-29T02:05:41Z",
                "resolved_at": None,
                "acknowledged_by": None,
                "silenced_until": None,
                "is_hidden": False,
            }
        ],
        "problems": [],
    },
    "metrics": (
        "# HELP headrace_table_rows Rows of a table.\n"
        "# TYPE headrace_table_rows gauge\n"
        'headrace_table_rows{pipeline="shop",dataset="orders"} 10412.0\n'
    ),
}
