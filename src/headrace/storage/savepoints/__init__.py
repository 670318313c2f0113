"""Savepoints: the tables, checkpoints and code of a pipeline as they were between two batches."""
