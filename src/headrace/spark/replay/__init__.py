"""Backfills, and replays of quarantined rows and dead letters."""

# The modules that other packages may import.
__all__ = ["backfill_run", "quarantined_rows"]
