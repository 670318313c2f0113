"""Sources that are read through Python: their options, offsets and rows as Arrow batches, without Spark."""
