"""The session of scripts and notebooks: table names, paths, checkpoints and settings work as in a notebook."""

# The modules that other packages may import.
__all__ = [
    "await_any",
    "call_origin",
    "checkpoints",
    "confs",
    "delta_api",
    "frames",
    "functions",
    "group_by_key",
    "listener_adapter",
    "notebook_session",
    "notices",
    "path_mapping",
    "reads",
    "stream_retry",
    "table_lookup",
    "writes",
]
