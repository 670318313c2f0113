"""Metrics of a pipeline: a catalogue, and a fold over the event log that survives restarts."""

# The modules that other packages may import.
__all__ = ["bottleneck", "catalogue", "dataset_lag", "exposition", "fold", "otlp", "samples", "snapshot", "trimmed"]
