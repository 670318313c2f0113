"""Runs an update: takes the lease, runs the plan, records events, calls hooks."""

# The modules that other packages may import.
__all__ = ["alert_monitor", "code_version", "initial_events", "update", "update_start"]
