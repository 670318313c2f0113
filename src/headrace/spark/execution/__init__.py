"""Runs the flows of an update, each attempt in a thread of its own."""

# The modules that other packages may import.
__all__ = ["flow_threads"]
