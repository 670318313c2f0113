"""Compares versions of Delta tables."""

# The modules that other packages may import.
__all__ = ["row_comparison", "table_versions"]
