"""Evaluates expectations on batches, and writes quarantine, samples and freshness."""

# The modules that other packages may import.
__all__ = ["evaluation", "freshness", "quarantine_table", "quarantine_writer", "samples", "table_rules"]
