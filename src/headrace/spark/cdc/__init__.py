"""Change data capture on Spark and Delta: normalizes events, folds them into rows and merges these into tables."""

# The modules that other packages may import.
__all__ = [
    "batch_cache",
    "change_analysis",
    "change_writer",
    "declaration",
    "event_rules",
    "merge_rules",
    "retained_events",
    "sequence_conflicts",
    "snapshot_writer",
]
