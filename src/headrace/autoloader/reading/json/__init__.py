"""Reads JSON as Spark's reader does."""
