"""The shapes of what the API returns of rows, by the names of their schemas."""

from __future__ import annotations

from collections.abc import Mapping

from headrace.serve.api.shapes import Shape

ROW_SHAPES: Mapping[str, Shape] = {
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
    "TableRows": {
        "dataset": "text",
        "limit": "whole",
        "columns": ["text"],
        "column_count": "whole",
        "rows": "#RowCells?",
        "has_more": "flag",
        "is_cut": "flag",
        "omitted": [{"column": "text", "type": "text", "reason": "text"}],
        "reason": "text?",
        "query": "text",
        "command": ["text"],
    },
    "RowCells": [["#QuarantinedValue"]],
    "RowsDiff": {"dataset": "text", "reason": "text?", "command": ["text"], "diff": "#VersionsDiff?"},
    "VersionsDiff": {
        "is_equal": "flag",
        "first": "#DiffSide",
        "second": "#DiffSide",
        "key": ["text"],
        "key_origin": "text?",
        "schema": [{"kind": "text", "column": "text", "first": "text?", "second": "text?"}],
        "rows": {
            "unchanged": "whole",
            "changed": "whole",
            "only_first": "whole",
            "only_second": "whole",
            "repeated_keys": "whole",
        },
        "columns": [{"column": "text", "rows": "whole"}],
        "examples": [
            {
                "kind": "text",
                "key": [{"column": "text", "value": "#QuarantinedValue"}],
                "values": [{"column": "text", "first": "#QuarantinedValue?", "second": "#QuarantinedValue?"}],
                "more_columns": "whole",
                "rows_first": "whole",
                "rows_second": "whole",
            }
        ],
        "is_cut": "flag",
    },
    "DiffSide": {
        "version": "whole",
        "operation": "text?",
        "committed_at": "time?",
        "rows": "whole",
        "files": "whole",
        "bytes": "whole",
        "files_read": "whole",
        "bytes_read": "whole",
    },
    "QuarantinedValue": {"value": "any", "is_cut": "flag"},
}
