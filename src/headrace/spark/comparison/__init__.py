"""Compares versions of Delta tables."""

# The modules that other packages may import.
__all__ = ["comparable_values", "row_comparison", "table_versions"]
