"""Resolves the definitions of a project into a graph, with a session."""

# The modules that other packages may import.
__all__ = ["resolve_request", "resolver"]
