"""Runs a plan: pure decisions about flows. Starting and monitoring them is a port that the Spark adapters implement."""
