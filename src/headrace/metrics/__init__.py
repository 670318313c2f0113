"""Metrics of a pipeline: a catalogue, and a fold over the event log that survives restarts."""

# The modules that other packages may import.
__all__ = [
    "bottleneck",
    "catalogue",
    "cost_metrics",
    "dataset_health",
    "dataset_lag",
    "definitions",
    "exposition",
    "fold",
    "metric",
    "otlp",
    "otlp_trace",
    "samples",
    "snapshot",
    "trace",
    "trimmed",
]
