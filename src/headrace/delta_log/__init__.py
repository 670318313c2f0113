"""Delta tables read from their logs, without a JVM: versions, layout, deletion vectors, changed sources, lag."""

# The modules that other packages may import.
__all__ = ["changed_sources", "erased_values", "lateness", "table_layout", "tables", "unread_commits"]
