"""Change data capture without Spark: what a set of change events means, whatever order they come in."""
