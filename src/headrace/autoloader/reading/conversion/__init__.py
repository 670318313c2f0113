"""Converts texts and values to Spark's types, and Spark's types to Arrow's."""
