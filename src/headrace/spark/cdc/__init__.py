"""Change data capture on Spark and Delta: events brought to one form, folded into rows, merged into tables."""

# The modules that other packages may import.
__all__ = ["change_writer", "declaration", "event_rules", "retained_events", "sequence_conflicts", "snapshot_writer"]
