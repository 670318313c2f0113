"""Reads CSV as Spark's reader does."""
