"""Monitors a running query: lag, state, lost offsets, changed files, its end."""

# The modules that other packages may import.
__all__ = ["changed_files", "lag", "lost_offsets", "query_monitor", "state_reporter"]
