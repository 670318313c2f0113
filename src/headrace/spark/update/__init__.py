"""What the flows of an update share: its context, its catalog, and the targets of batches."""

# The modules that other packages may import.
__all__ = ["batch_target", "batch_writer", "catalog", "context", "event_views", "guard"]
