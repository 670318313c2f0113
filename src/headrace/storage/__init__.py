"""What a pipeline's storage holds besides tables: flow records, backfills, dead letters, spill queues, views."""

# The modules that other packages may import.
__all__ = [
    "backfills",
    "change_detection",
    "dead_letters",
    "deliveries",
    "file_listing",
    "flow_record",
    "flow_records",
    "health",
    "history",
    "initial_snapshot",
    "inventory",
    "open_quarantine",
    "renaming",
    "source_retention",
    "spill_queue",
    "start_positions",
    "view_definitions",
]
