"""Sources other than files: options, positions and payloads as values, without Spark."""
