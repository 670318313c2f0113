"""What happens in an update, as values, and the Delta table that keeps them; written and read without Spark."""
