"""Calls query functions and returns their DataFrames."""

# The modules that other packages may import.
__all__ = [
    "batch_mode",
    "feature_lookup",
    "flow_frames",
    "query_analysis",
    "query_calls",
    "snapshot_sample",
    "snapshots",
]
