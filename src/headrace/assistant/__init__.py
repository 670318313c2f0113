"""Designs pipelines and explains them. Pure: no Spark, no clock, no file system."""
