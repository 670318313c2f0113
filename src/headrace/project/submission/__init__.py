"""Submits an update to a cluster with ``spark-submit``."""

# The modules that other packages may import.
__all__ = ["command", "process"]
