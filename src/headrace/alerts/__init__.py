"""Alerts: rules as data over the metrics of a pipeline, the states of what they found, and messages about it."""

# The modules that other packages may import.
__all__ = [
    "alert",
    "conditions",
    "file_lock",
    "history",
    "messages",
    "notices",
    "outbox",
    "prometheus_rules",
    "sending",
    "store",
    "undecided",
    "update_notices",
]
