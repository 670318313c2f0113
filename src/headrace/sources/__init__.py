"""Sources other than files: their options, positions and rows or payloads as values, without Spark."""
