"""Reads files that store columns: Parquet and ORC."""
