"""The columns of ``system/events``: the vendor's, including the fields that only its service can fill.

Source: the vendor's event log schema (columns id, sequence, origin, timestamp, message, level, maturity_level, error,
details, event_type, truncation). ``origin.epoch`` is ours.
"""

from __future__ import annotations

import pyarrow as pa

# Fields of ``origin`` that are always null here; they exist for queries written for the vendor's log.
_SERVICE_FIELDS = (
    "cloud",
    "region",
    "org_id",
    "cluster_id",
    "maintenance_id",
    "table_id",
    "table_name",
    "sink_name",
    "request_id",
    "graph_id",
    "materialization_name",
    "uc_resource_id",
)
_ORIGIN = pa.struct(
    [
        *(
            pa.field(name, pa.string())
            for name in (
                "pipeline_id",
                "pipeline_name",
                "pipeline_type",
                "update_id",
                "dataset_name",
                "flow_name",
                "flow_id",
                "host",
                *_SERVICE_FIELDS,
            )
        ),
        pa.field("batch_id", pa.int64()),
        pa.field("epoch", pa.int64()),
    ]
)
_FRAME = pa.struct(
    [
        pa.field("declaring_class", pa.string()),
        pa.field("method_name", pa.string()),
        pa.field("file_name", pa.string()),
        pa.field("line_number", pa.int64()),
    ]
)
_EXCEPTION = pa.struct(
    [
        pa.field("class_name", pa.string()),
        pa.field("message", pa.string()),
        pa.field("stack", pa.list_(pa.field("element", _FRAME))),
    ]
)
_ERROR = pa.struct(
    [
        pa.field("fatal", pa.bool_()),
        pa.field("exceptions", pa.list_(pa.field("element", _EXCEPTION))),
    ],
)
_SEQUENCE = pa.struct(
    [
        pa.field("control_plane_seq_no", pa.int64()),
        pa.field(
            "data_plane_id",
            pa.struct([pa.field("instance", pa.string()), pa.field("seq_no", pa.int64())]),
        ),
    ]
)
_TRUNCATED = pa.struct([pa.field("field_name", pa.string())])

SCHEMA = pa.schema(
    [
        pa.field("id", pa.string()),
        pa.field("sequence", _SEQUENCE),
        pa.field("origin", _ORIGIN),
        pa.field("timestamp", pa.timestamp("us", tz="UTC")),
        pa.field("message", pa.string()),
        pa.field("level", pa.string()),
        pa.field("maturity_level", pa.string()),
        pa.field("error", _ERROR),
        pa.field("details", pa.string()),
        pa.field("event_type", pa.string()),
        pa.field(
            "truncation",
            pa.struct([pa.field("truncated_fields", pa.list_(pa.field("element", _TRUNCATED)))]),
        ),
    ]
)
