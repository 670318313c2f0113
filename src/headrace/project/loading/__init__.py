"""Loads a project's files: Python, SQL and notebooks become definitions."""

# The modules that other packages may import.
__all__ = ["load_project", "load_result", "tool_calls", "worker_modules"]
