"""Alerts: rules as data over the metrics of a pipeline, and the states of what they found."""

# The modules that other packages may import.
__all__ = ["alert", "conditions", "history", "rules", "store"]
