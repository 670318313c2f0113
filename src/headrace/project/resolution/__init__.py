"""Resolves the definitions of a project into a graph, with a session."""

# The modules that other packages may import.
__all__ = ["open_catalog", "resolve_request", "resolver"]
