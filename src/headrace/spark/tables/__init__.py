"""Writes batches into tables exactly once, counts them, and compacts small files."""
