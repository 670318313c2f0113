"""Writes batches into tables exactly once, counts them, and compacts small files."""

# The modules that other packages may import.
__all__ = [
    "commit_counter",
    "compaction",
    "metric_columns",
    "observed_rows",
    "sample_table",
    "table_writer",
    "writer_factory",
]
