"""Runs the flows of an update, each attempt in its own thread."""

# The modules that other packages may import.
__all__ = ["flow_threads"]
