"""Change data capture without Spark: which rows a set of change events leads to, in whatever order they arrive."""
