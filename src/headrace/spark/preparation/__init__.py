"""Brings tables, checkpoints and epochs to where the plan wants them, and starts queries."""

# The modules that other packages may import.
__all__ = ["prepare", "query_start", "restarts", "state_formats"]
