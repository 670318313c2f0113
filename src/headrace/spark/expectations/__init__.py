"""Evaluates expectations on batches, writes quarantine tables and samples, and checks freshness."""

# The modules that other packages may import.
__all__ = ["evaluation", "freshness", "quarantine_table", "quarantine_writer", "samples", "table_rules"]
