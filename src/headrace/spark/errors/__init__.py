"""Turns exceptions of Spark, Delta and Kafka into Headrace's error conditions."""
