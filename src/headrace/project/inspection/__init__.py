"""Answers questions about a pipeline: explain, preview, rows, files, SQL. Changes nothing in its storage."""

# The modules that other packages may import.
__all__ = [
    "code_places",
    "dataset_resolution",
    "diagnosis",
    "explain_dataset",
    "explanation",
    "flow_checkpoint",
    "monitored_pipelines",
    "past_graph",
    "pipeline_alerts",
    "pipeline_metrics",
    "pipeline_view",
    "plain_diff",
    "quarantine_counts",
    "replay_preview",
    "sql_access",
    "stored_checkpoint",
    "stored_project",
    "stored_tables",
    "table_diffs",
    "table_history",
    "table_rows",
    "update_trace",
    "waiting_rows",
]
