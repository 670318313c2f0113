"""Runs a plan: pure decisions about flows; starting and watching them is a port that the Spark adapters fill."""
