"""Monitors a running query: progress, lag, state, lost offsets, changed files, its end."""

# The modules that other packages may import.
__all__ = [
    "changed_files",
    "computed_batches",
    "lag",
    "lost_offsets",
    "progress_reporter",
    "query_monitor",
    "state_reporter",
    "task_reporter",
]
