"""Runs an update: takes the lease, runs the plan, records events, calls hooks."""

# The modules that other packages may import.
__all__ = ["update_start"]
