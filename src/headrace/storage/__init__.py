"""What a pipeline's storage holds besides tables: flow records, backfills, dead letters, spill queues, views."""

# The modules that other packages may import.
__all__ = [
    "backfills",
    "change_detection",
    "dead_letters",
    "deliveries",
    "erasable",
    "flow_record",
    "flow_records",
    "health",
    "history",
    "initial_snapshot",
    "inactive_parts",
    "inventory",
    "old_epochs",
    "maintained_tables",
    "open_quarantine",
    "positions",
    "removal",
    "recorded_metrics",
    "renaming",
    "source_retention",
    "spill_queue",
    "start_positions",
    "table_positions",
    "view_definitions",
]
