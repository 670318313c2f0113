"""What all flows of one update share: its context, its catalog, and the target of a batch."""
