"""Prepares tables, checkpoints and epochs as planned, and starts queries."""

# The modules that other packages may import.
__all__ = ["prepare", "query_start", "restarts", "state_formats"]
