"""Settings, catalog entries, listeners and guards of a session, and the context of query calls."""

# The modules that other packages may import.
__all__ = [
    "active_session",
    "catalog_entries",
    "clone",
    "default_confs",
    "existing_session",
    "guards",
    "listeners",
    "object_stores",
    "own_tables",
    "query_context",
    "scoped_confs",
    "submitted_confs",
    "time_limit",
]
