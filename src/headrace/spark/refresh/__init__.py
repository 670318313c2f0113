"""Refreshes materialized views in part: finds the groups whose rows changed, and computes these again."""

# The modules that other packages may import.
__all__ = ["view_refresh"]
