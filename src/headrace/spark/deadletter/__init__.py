"""Finds records that a query or a sink fails on, so that the rest of their batch is written."""

# The modules that other packages may import.
__all__ = ["batch_plan", "dead_letter_writer", "json_rows", "numbered_rows", "row_errors"]
