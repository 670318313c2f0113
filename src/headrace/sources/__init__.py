"""Sources other than files, without Spark: their options, positions, and rows or payloads."""
