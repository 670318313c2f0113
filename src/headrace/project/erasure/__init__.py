"""Erases a person's rows from the storage of a pipeline: searches every place, erases under the lease, records it."""

# The modules that other packages may import.
__all__ = ["erasures"]
