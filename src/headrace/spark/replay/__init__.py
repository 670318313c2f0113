"""Backfills, and replays of quarantined rows and dead letters."""
