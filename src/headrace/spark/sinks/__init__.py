"""Writes batches of flows to sinks: one module per kind of sink, and those that deliver the batches."""

# The modules that other packages may import.
__all__ = [
    "availability",
    "batch_metrics",
    "create_sink",
    "create_sink_writer",
    "failed_batches",
    "function",
    "kafka",
    "progress_counter",
    "resume",
    "sink",
    "sink_writer",
    "spill_queue",
    "spilled_rows",
]
