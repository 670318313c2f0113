"""The events of an update, and the Delta table that stores them; written and read without Spark."""
