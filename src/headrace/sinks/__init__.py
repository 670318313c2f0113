"""Sinks without Spark: their formats and options, checks of rows, and writers that recognize repeated batches."""
