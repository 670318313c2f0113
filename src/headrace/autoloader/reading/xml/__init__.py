"""Reads XML as Spark's reader does."""
