"""What all flows of one update share: its context, its catalog, and the target of a batch."""

# The modules that other packages may import.
__all__ = ["batch_target", "batch_writer", "catalog", "context"]
