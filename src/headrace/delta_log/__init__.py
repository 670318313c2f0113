"""Delta tables without a JVM: versions, files, features, layout, changed sources and lag from their logs; appends."""

# The modules that other packages may import.
__all__ = [
    "append",
    "changed_sources",
    "erased_values",
    "lateness",
    "log_files",
    "newest_time",
    "plain_columns",
    "plain_rows",
    "plain_tables",
    "readable_versions",
    "select_rows",
    "table_features",
    "table_files",
    "table_layout",
    "tables",
    "unread_commits",
    "version_difference",
]
