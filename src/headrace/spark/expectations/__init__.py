"""Evaluates expectations on batches, and writes quarantine, samples and freshness."""
