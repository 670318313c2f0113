"""Turns exceptions of Spark, Delta and Kafka into Headrace's error conditions."""

# The modules that other packages may import.
__all__ = ["changed_sources", "kafka_errors", "spark_errors"]
